"""Closed-form models of attention's memory traffic and arithmetic, forward pass, as data.

A model is a list of terms; a term is a coefficient times a product of powers of symbols. Four
models are enough, and all are true, of different things: what eager code moves as it runs, the
least that any kernel must move (a lower bound), and what a tiled kernel's loads and stores ask for
(an upper bound on DRAM traffic, since L2 serves part of them).

Symbols of the formulas:

======  ====================================================================================
H       query heads, all batches together (batch times heads)
H_kv    key/value heads, all batches together
N_q     query rows, N_k key rows (causal is aligned at the end: the last query sees the last key)
d       head dimension
b       bytes per element of q, k, v, o (and of the scores, for the naive models)
K_rows  *derived*: rows of K visited, summed over the query tiles of one head. T_q N_k without a
        mask; ragged last tiles and skipped tiles are counted exactly by `derived_counts`
Q_rows  *derived*: rows of Q visited, summed over the key tiles of one head (`backward_traffic`)
======  ====================================================================================

Sources: Dao et al., FlashAttention (2022), section 3 and theorem 2; lessons 02 and 04.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Literal

from course_lib.accounting.flops import attention_flops as attention_flops
from course_lib.accounting.hardware import GPU, LAUNCH_S

LSE_BYTES = 4  # the log-sum-exp is fp32 whatever q is


@dataclass(frozen=True)
class Term:
    """``coefficient * product of symbol ** power`` bytes, moved to or from one tensor."""

    tensor: str
    direction: Literal["read", "written"]
    coefficient: int
    powers: Mapping[str, int]

    def bytes(self, values: Mapping[str, int]) -> int:
        """Return the term's bytes for these values of the symbols."""
        return self.coefficient * prod(values[name] ** power for name, power in self.powers.items())

    def monomial(self) -> str:
        """Return the product of symbols as text: ``"H N_q d b"``."""
        return " ".join(
            name if power == 1 else f"{name}^{power}" for name, power in self.powers.items()
        )


@dataclass(frozen=True)
class Model:
    """One closed-form traffic model.

    Attributes:
        name: identifier.
        kind: ``"as run"``, ``"predicted"``, ``"lower bound"`` or ``"upper bound"``
            (on DRAM traffic).
        describes: one line on what the model describes.
        items: its terms.
    """

    name: str
    kind: Literal["as run", "predicted", "lower bound", "upper bound"]
    describes: str
    items: tuple[Term, ...]

    def values(self, **shape: int | bool | None) -> dict[str, int]:
        """Return the value of every symbol of the formula (arguments: see `symbols`)."""
        return symbols(**shape)  # type: ignore[arg-type]  # causal alone is a bool

    def terms(self, lse: bool = False, **shape: int | bool | None) -> dict[str, dict[str, int]]:
        """Return ``{"read": {tensor: bytes}, "written": {tensor: bytes}}``, like a ledger's.

        Args:
            lse: count the fp32 log-sum-exp too, where the model writes one.
            **shape: see `values`.
        """
        values = self.values(**shape)
        if any(term.powers.keys() - values.keys() for term in self.items):
            raise ValueError(f"give block_q: {self.name} depends on the rows of a query tile.")
        moved: dict[str, dict[str, int]] = {"read": {}, "written": {}}
        for term in self.items:
            if lse or term.tensor != "lse" or term.direction == "read":
                books = moved[term.direction]
                books[term.tensor] = books.get(term.tensor, 0) + term.bytes(values)
        return moved

    def bytes(self, lse: bool = False, **shape: int | bool | None) -> int:
        """Return all bytes moved (arguments as in `terms`)."""
        return sum(sum(books.values()) for books in self.terms(lse=lse, **shape).values())

    def formula(self) -> str:
        """Return the sum over all tensors as text: ``"4 H N_q N_k b + 2 H N_q d b + ..."``."""
        collected: dict[str, int] = {}
        for term in self.items:
            label = term.monomial() + (" (lse)" if term.tensor == "lse" else "")
            collected[label] = collected.get(label, 0) + term.coefficient
        return " + ".join(
            label if count == 1 else f"{count} {label}" for label, count in collected.items()
        )


def symbols(
    *,
    n: int | None = None,
    d: int,
    heads: int = 1,
    kv_heads: int | None = None,
    b: int = 2,
    n_q: int | None = None,
    n_k: int | None = None,
    block_q: int | None = None,
    block_k: int | None = None,
    causal: bool = False,
    window: int | None = None,
) -> dict[str, int]:
    """Return the value of every symbol of the formulas for one attention call.

    Args:
        n: sequence length, where ``n_q`` and ``n_k`` are the same.
        d: head dimension.
        heads: query heads times batch.
        kv_heads: key/value heads times batch; as many as ``heads`` by default.
        b: bytes per element.
        n_q: query rows. n_k: key rows.
        block_q: rows of a query tile; without it K_rows and Q_rows are not known.
        block_k: rows of a key tile, ``block_q`` by default.
        causal: aligned at the end. window: see `derived_counts`.

    Raises:
        ValueError: if a length is missing or any count is not a positive integer.
    """
    if n is not None:
        positive(n=n)
    n_q, n_k = n if n_q is None else n_q, n if n_k is None else n_k
    kv_heads = heads if kv_heads is None else kv_heads
    positive(heads=heads, kv_heads=kv_heads, n_q=n_q, n_k=n_k, d=d, b=b)
    assert n_q is not None  # for the type checker: `positive` has refused it
    assert n_k is not None
    values = {"H": heads, "H_kv": kv_heads, "N_q": n_q, "N_k": n_k, "d": d, "b": b}
    if heads % kv_heads:
        raise ValueError(f"heads must be a multiple of kv_heads, got {heads} and {kv_heads}.")
    if block_q is not None:
        counts = derived_counts(n_q, n_k, block_q, block_k or block_q, causal, window)
        values |= {x: counts[f"visited_{x.lower()}"] for x in ("Q_rows", "K_rows")}
    return values


def derived_counts(
    n_q: int,
    n_k: int,
    block_q: int,
    block_k: int,
    causal: bool = False,
    window: int | None = None,
) -> dict[str, int]:
    """Count the tiles of one head, in integers (in JavaScript: `causalRows` of accountant.js).

    Query i sits at key position ``i + n_k - n_q`` (aligned at the end) and, if ``causal``, sees
    the keys up to its position. A ``window`` of w is causal as well and keeps the last w of them.

    Returns:
        ``t_q``, ``t_k``: tiles down and across; ``visited_tiles``: tiles with at least one visible
        pair; ``full_tiles``: every pair visible; ``partial_tiles``: visited, but not full (these
        need the mask); ``skipped_tiles``: none visible; ``visited_q_rows`` and ``visited_k_rows``:
        rows of the visited tiles, clipped at n_q and n_k and summed over tiles; ``visited_pairs``:
        scores in the visited tiles; ``visible_pairs``: scores that the mask keeps.

    Raises:
        ValueError: if a count is not a positive integer.
    """
    width = 1 if window is None else window
    positive(n_q=n_q, n_k=n_k, block_q=block_q, block_k=block_k, window=width)
    t_q, t_k = -(-n_q // block_q), -(-n_k // block_k)
    everywhere = n_q + n_k  # a reach that no pair exceeds
    ahead = 1 if causal or window else everywhere
    behind = everywhere if window is None else window - 1
    shift = n_k - n_q

    visited = full = q_rows = k_rows = pairs = 0
    for i in range(t_q):
        first, last = i * block_q, min((i + 1) * block_q, n_q) - 1
        rows = last - first + 1
        # A row at position p sees keys [p - behind, p + ahead), clipped to the keys there are.
        # Both ends grow with the row, so a tile row sees one run: from its first row's beginning
        # to its last row's end. What *every* row sees runs the other way round.
        begin, end = _clip(first + shift - behind, n_k), _clip(last + shift + ahead, n_k)
        if begin >= end:
            continue
        j_begin, j_end = begin // block_k, -(-end // block_k)
        visited += j_end - j_begin
        q_rows += rows * (j_end - j_begin)
        loaded = min(j_end * block_k, n_k) - j_begin * block_k
        k_rows += loaded
        pairs += rows * loaded
        all_begin = _clip(last + shift - behind, n_k)
        all_end = _clip(first + shift + ahead, n_k)
        j_full_end = t_k if all_end == n_k else all_end // block_k
        full += max(0, j_full_end - -(-all_begin // block_k))
    ends = _clipped_sum(shift + ahead, n_q, n_k)
    visible = ends - _clipped_sum(shift - behind, n_q, n_k)
    return {
        "t_q": t_q,
        "t_k": t_k,
        "visited_tiles": visited,
        "full_tiles": full,
        "partial_tiles": visited - full,
        "skipped_tiles": t_q * t_k - visited,
        "visited_q_rows": q_rows,
        "visited_k_rows": k_rows,
        "visited_pairs": pairs,
        "visible_pairs": visible,
    }


def _clip(x: int, n: int) -> int:
    return max(0, min(x, n))


def _clipped_sum(start: int, count: int, n: int) -> int:
    """Return the sum of ``_clip(x, n)`` over ``count`` integers x from ``start`` on."""

    def up_to(x: int) -> int:  # sum over all integers <= x
        x = max(0, x)
        ramp = min(x, n)
        return ramp * (ramp + 1) // 2 + (x - ramp) * n

    return up_to(start + count - 1) - up_to(start - 1)


def positive(**counts: object) -> None:
    """Raise a ValueError that names the first count that is no positive integer."""
    for name, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} must be a positive integer, got {value!r}.")


def _term(tensor: str, direction: Literal["read", "written"], text: str) -> Term:
    """Return the term of a monomial written as in the formulas: ``"H N_q d b"``."""
    return Term(tensor, direction, 1, dict.fromkeys(text.split(), 1))


_QKVO_ONCE = (
    _term("q", "read", "H N_q d b"),
    _term("k", "read", "H_kv N_k d b"),
    _term("v", "read", "H_kv N_k d b"),
    _term("o", "written", "H N_q d b"),
)
_SCORES = "H N_q N_k b"
_LSE = Term("lse", "written", LSE_BYTES, {"H": 1, "N_q": 1})


def _round_trip(tensor: str) -> tuple[Term, Term]:
    return _term(tensor, "written", _SCORES), _term(tensor, "read", _SCORES)


naive_four_trips = Model(
    "naive_four_trips",
    "predicted",
    "write S, read S, write P, read P, and Q, K, V, O once: eager code that scales q, not S",
    (*_QKVO_ONCE, *_round_trip("s"), *_round_trip("p")),
)
eager_six_trips = Model(
    "eager_six_trips",
    "as run",
    "softmax(q @ k.T / sqrt(d)) @ v in eager PyTorch: the scale is one more pass over S",
    (*_QKVO_ONCE, *_round_trip("s"), *_round_trip("s_scaled"), *_round_trip("p")),
)
flash_compulsory = Model(
    "flash_compulsory",
    "lower bound",
    "Q, K, V, O once (K and V once per key/value head): the least that any kernel can move",
    (*_QKVO_ONCE, _LSE),
)
flash_tile_loads = Model(
    "flash_tile_loads",
    "upper bound",
    "what a tiled kernel's loads and stores ask for: Q, O once; K, V again for each query tile, "
    "by each query head's program (H, not H_kv)",
    (
        _term("q", "read", "H N_q d b"),
        _term("k", "read", "H K_rows d b"),
        _term("v", "read", "H K_rows d b"),
        _term("o", "written", "H N_q d b"),
        _LSE,
    ),
)

MODELS: Mapping[str, Model] = {
    model.name: model
    for model in (naive_four_trips, eager_six_trips, flash_compulsory, flash_tile_loads)
}
"""Name -> `Model`."""


def visited_flops(
    n_q: int,
    n_k: int,
    d: int,
    heads: int = 1,
    *,
    block_q: int,
    block_k: int,
    causal: bool = False,
    window: int | None = None,
) -> int:
    """Return the FLOPs of the visited tiles (clipped to the rows there are), 4 d a pair.

    Causal with T x T square tiles computes (T + 1) / 2T of all tiles, not half.
    """
    counts = derived_counts(n_q, n_k, block_q, block_k, causal, window)
    return 4 * heads * d * counts["visited_pairs"]


def crossover_n(d: int) -> int:
    """Return the N where, over 4 trips, the N^2 term overtakes the linear one: N = d."""
    positive(d=d)
    return d


def reduction_factor(n: int, d: int) -> float:
    """Return naive (4 trips) over compulsory bytes: (4 N^2 b + 4 N d b) / (4 N d b) = N/d + 1."""
    positive(n=n, d=d)
    return n / d + 1


def intensity(flops: int, n_bytes: int) -> float:
    """Return FLOPs per byte.

    Raises:
        ValueError: if ``n_bytes`` is not positive.
    """
    if n_bytes <= 0:
        raise ValueError(f"n_bytes must be positive, got {n_bytes!r}.")
    return flops / n_bytes


def time_bounds(
    flops: float, n_bytes: float, launches: int, gpu: GPU, *, launch_s: float = LAUNCH_S
) -> dict[str, float]:
    """Return the three least times, in seconds, that nominal hardware allows; the largest rules.

    Args:
        flops: floating-point operations of the matrix products.
        n_bytes: bytes to and from HBM.
        launches: kernel launches.
        gpu: a `hardware.GPU`.
        launch_s: seconds per launch. The default is a rough floor; eager PyTorch on an H100 took
            about 19e-6 per kernel where nothing else mattered (see `hardware.LAUNCH_S`).

    Returns:
        ``{"overhead_s": ..., "traffic_s": ..., "arithmetic_s": ...}``.

    Raises:
        TypeError: if ``gpu`` is not a `hardware.GPU`.
    """
    if not isinstance(gpu, GPU):
        raise TypeError(f"gpu must be a hardware.GPU, such as gpu('H100'), got {gpu!r}.")
    return {
        "overhead_s": launches * launch_s,
        "traffic_s": n_bytes / (gpu.hbm_gb_per_s * 1e9),
        "arithmetic_s": flops / (gpu.tflops_half * 1e12),
    }
