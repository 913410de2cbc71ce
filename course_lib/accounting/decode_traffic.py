"""What a decode step moves and computes, and what its cache takes; see `traffic` for `Model`.

One layer of attention, for B sequences that hold the same number of cached rows each. Unlike in
`traffic`, H and H_kv are the heads of *one* sequence: what sequences share is the question here.

========  ==================================================================================
B         sequences
H, H_kv   query heads and key/value heads of one sequence; H / H_kv of them share a cached row
N_q       newest tokens of each sequence: 1, or drafts that are checked together
N_shared  cached rows that all sequences share (a common prefix), kept once
N_own     cached rows that each sequence has for itself
S         splits of the keys
d, b      head dimension, bytes per element of q, k, v, o
========  ==================================================================================

Sources: Dao et al. 2023 ("Flash-Decoding"); Juravsky et al. 2024 (arXiv:2402.05099, shared
prefixes); DeepSeek-V2 (2024), section 2.1 (the latent row); lesson 10.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from course_lib.accounting.traffic import (
    LSE_BYTES,
    Model,
    Term,
    attention_flops,
    intensity,
    positive,
)

PART_BYTES = 4  # parts are kept in fp32 whatever q is: they are still to be added up


@dataclass(frozen=True)
class DecodeModel(Model):
    """A `Model` in the symbols of this file; its ``terms`` and ``bytes`` take `decode_symbols`."""

    def values(self, **shape: int | bool | None) -> dict[str, int]:
        """Return the value of every symbol."""
        return decode_symbols(**shape)  # type: ignore[arg-type]


def decode_symbols(
    *,
    n: int,
    d: int,
    batch: int = 1,
    heads: int = 1,
    kv_heads: int | None = None,
    n_q: int = 1,
    shared: int = 0,
    splits: int = 1,
    b: int = 2,
) -> dict[str, int]:
    """Return the value of every symbol of the formulas.

    Args:
        n: cached rows that one sequence sees, its n_q newest tokens and the ``shared`` among them.
        d: head dimension. batch: sequences. heads: query heads of one sequence.
        kv_heads: key/value heads of one sequence; as many as ``heads`` by default.
        n_q: newest tokens. shared: rows at the front that all sequences share.
        splits: of the keys. b: bytes per element.

    Raises:
        ValueError: if a count does not fit: the newest tokens are never shared.
    """
    kv_heads = heads if kv_heads is None else kv_heads
    positive(n=n, d=d, batch=batch, heads=heads, kv_heads=kv_heads, n_q=n_q, splits=splits, b=b)
    if heads % kv_heads:
        raise ValueError(f"heads must be a multiple of kv_heads, got {heads} and {kv_heads}.")
    if not isinstance(shared, int) or not 0 <= shared <= n - n_q:
        raise ValueError(f"shared must be from 0 to n - n_q = {n - n_q}, got {shared!r}.")
    return {
        "B": batch, "H": heads, "H_kv": kv_heads, "N_q": n_q, "N_shared": shared,
        "N_own": n - shared, "S": splits, "d": d, "b": b,
    }  # fmt: skip


def _term(tensor: str, direction: Literal["read", "written"], text: str, count: int = 1) -> Term:
    return Term(tensor, direction, count, dict.fromkeys(text.split(), 1))


def _cache(*monomials: str) -> tuple[Term, ...]:
    """Return the terms of k and v, read alike."""
    return tuple(_term(x, "read", text) for x in ("k", "v") for text in monomials)


_Q_AND_O = (_term("q", "read", "B H N_q d b"), _term("o", "written", "B H N_q d b"))
_LSE = (_term("lse", "written", "B H N_q", LSE_BYTES),)

decode_compulsory = DecodeModel(
    "decode_compulsory",
    "lower bound",
    "Q and O once, and each cached row once, whoever shares it: the least that any kernel can move",
    (*_Q_AND_O, *_cache("H_kv N_shared d b", "B H_kv N_own d b"), *_LSE),
)
decode_packed_loads = DecodeModel(
    "decode_packed_loads",
    "upper bound",
    "a program for each sequence and key head, which holds all heads of the group: a shared prefix "
    "is loaded by every sequence",
    (*_Q_AND_O, *_cache("B H_kv N_shared d b", "B H_kv N_own d b"), *_LSE),
)
decode_unpacked_loads = DecodeModel(
    "decode_unpacked_loads",
    "upper bound",
    "a program for each query head: each cached row is loaded by every head of its group",
    (*_Q_AND_O, *_cache("B H N_shared d b", "B H N_own d b"), *_LSE),
)
split_parts = DecodeModel(
    "split_parts",
    "upper bound",
    "what splitting the keys adds: the parts (o and lse, fp32), written by one launch and read by "
    "the next",
    tuple(
        _term(tensor, direction, text, PART_BYTES)
        for direction in ("written", "read")
        for tensor, text in (("o_parts", "B H N_q S d"), ("lse_parts", "B H N_q S"))
    ),
)
append = DecodeModel(
    "append",
    "as run",
    "the newest K and V rows, written into a cache that has room for them",
    tuple(_term(x, "written", "B H_kv N_q d b") for x in ("k", "v")),
)


def decode_flops(n: int, d: int, *, batch: int = 1, heads: int = 1, n_q: int = 1) -> int:
    """Return the FLOPs of one layer's attention: 4 n_q n d a head and sequence.

    Each of the few newest queries is counted with all n keys, as a tile computes them. Who shares
    a cached row does not matter: every query head computes with it.
    """
    positive(n=n, d=d, batch=batch, heads=heads, n_q=n_q)
    return attention_flops(n_q, n, d, heads=batch * heads)


def decode_intensity(model: DecodeModel = decode_compulsory, **shape: int) -> float:
    """Return FLOP per byte of one layer's attention (arguments of `decode_symbols`), lse aside."""
    values = decode_symbols(**shape)  # type: ignore[arg-type]
    flops = decode_flops(
        shape["n"], values["d"], batch=values["B"], heads=values["H"], n_q=values["N_q"]
    )
    return intensity(flops, model.bytes(lse=False, **shape))


def long_cache_intensity(group: int, n_q: int = 1, b: int = 2) -> float:
    """Return what the intensity tends to with the length of the cache: 2 group n_q / b.

    That is the number of query rows that share a cached row, where an element has 2 bytes. Own
    caches: neither the batch nor d nor the length is in it.
    """
    positive(group=group, n_q=n_q, b=b)
    return 2 * group * n_q / b


def latent_intensity(heads: int, *, row: int = 576, latent: int = 512, b: int = 2) -> float:
    """Return the same for latent attention, absorbed: all heads share one row, which is K and V.

    A query meets ``row`` numbers for its score, and the first ``latent`` of them again as values:
    128 heads do 242 FLOP per byte.
    """
    positive(heads=heads, row=row, latent=latent, b=b)
    return 2 * heads * (row + latent) / (row * b)


def cache_bytes(
    n: int,
    *,
    d: int,
    kv_heads: int,
    layers: int = 1,
    batch: int = 1,
    shared: int = 0,
    b: int = 2,
    scale_bytes: int = 0,
) -> int:
    """Return the bytes of the KV cache of ``batch`` sequences of n rows, ``shared`` kept once.

    ``scale_bytes`` are those of the scale beside each quantised row: of K and of V, in each head.
    """
    positive(n=n, d=d, kv_heads=kv_heads, layers=layers, batch=batch, b=b)
    if not isinstance(shared, int) or not 0 <= shared <= n:
        raise ValueError(f"shared must be from 0 to n = {n}, got {shared!r}.")
    if not isinstance(scale_bytes, int) or scale_bytes < 0:
        raise ValueError(f"scale_bytes must be a whole number, 0 at least, got {scale_bytes!r}.")
    return 2 * layers * kv_heads * (d * b + scale_bytes) * (shared + batch * (n - shared))


def latent_cache_bytes(
    n: int, *, row: int = 576, layers: int = 1, batch: int = 1, b: int = 2
) -> int:
    """Return the bytes of a latent cache: one row of 512 + 64 numbers a token and layer."""
    positive(n=n, row=row, layers=layers, batch=batch, b=b)
    return layers * batch * n * row * b
