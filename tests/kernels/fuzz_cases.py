"""Random cases for every kernel: shapes, dtypes, masks, strides and values, drawn from a name.

A case is called SEED/KERNEL/GROUP/NUMBER and is the same whenever it is drawn. The cases of one
group share what Triton compiles a kernel for (dtype, head_dim, mask, layout, tiles, whether lengths
are multiples of 16), so that a GPU compiles once for many of them.
"""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass, field
from typing import Any

import torch

POWERS = (16, 32, 64, 128, 256)
ALL_DIMS = (16, 32, 64, 96, 128, 256)
FLOATS = ("float32", "float16", "bfloat16")
MASKS = ("none", "causal", "window")
LAYOUTS = ("contiguous", "contiguous", "heads last", "columns", "sliced", "every other", "expanded")
ROW_LAYOUTS = ("contiguous", "heads last", "sliced", "expanded")  # rows stay in one piece
TABLES = ("int32", "int32", "int64")
VALUES = (
    *("normal",) * 4,
    *("times 4", "above 100", "below -110", "ascending", "descending"),
    *("offset 1e4", "offset -1e4", "one dominant key", "zeros", "uniform, v near 100"),
)


@dataclass(frozen=True)
class Contract:
    """What a kernel promises to take, and its share of all cases, in percent."""

    share: float
    dims: tuple[int, ...] = POWERS
    dtypes: tuple[str, ...] = FLOATS
    masks: tuple[str, ...] = MASKS[:2]
    layouts: tuple[str, ...] = ("contiguous",)
    grouped: bool = False
    scales: tuple[float | None, ...] = (None,)  # in units of d ** -0.5
    empty: bool = False  # no query or no key at all
    bends: bool = False  # soft-cap, slopes, sinks


POSITIVE = (None, None, 0.5, 2.0)
FINITE = (*POSITIVE, -1.0)

CONTRACTS = {
    "rung 8": Contract(5, (64, 96, 128, 256), FLOATS[1:], grouped=True, scales=POSITIVE),
    "flash_attention": Contract(
        40, ALL_DIMS, masks=MASKS, layouts=LAYOUTS, grouped=True, scales=FINITE, empty=True
    ),
    "bent scores": Contract(
        12,
        ALL_DIMS,
        masks=MASKS,
        layouts=LAYOUTS,
        grouped=True,
        scales=FINITE,
        empty=True,
        bends=True,
    ),
    "packed": Contract(
        24, ALL_DIMS, masks=MASKS, layouts=LAYOUTS, grouped=True, scales=FINITE, bends=True
    ),
    "paged_prefill": Contract(
        12,
        ALL_DIMS,
        masks=MASKS[1:],
        layouts=ROW_LAYOUTS[:3],
        grouped=True,
        scales=FINITE,
        bends=True,
    ),
    "teaching kernel": Contract(10, layouts=LAYOUTS, grouped=True, empty=True),
    "rung 1": Contract(3),
    "rung 2": Contract(3),
    "rung 3": Contract(3),
    "rung 4": Contract(3),
    "rung 5": Contract(3),
    "rung 6": Contract(3),
    "rung 7": Contract(3),
    "flash_decode": Contract(
        12, ALL_DIMS, masks=("causal",), layouts=ROW_LAYOUTS, grouped=True, scales=FINITE
    ),
    "paged_decode": Contract(
        12, ALL_DIMS, masks=("causal",), layouts=ROW_LAYOUTS[:3], grouped=True, scales=FINITE
    ),
    # what students write, as the solutions have it
    "my_flash_attention": Contract(4, POWERS[:4], layouts=ROW_LAYOUTS),
    "Attention": Contract(6, POWERS[:3], layouts=ROW_LAYOUTS),
    "ragged_decode": Contract(4, POWERS[:4], masks=("causal",), layouts=ROW_LAYOUTS, grouped=True),
}


@dataclass(frozen=True)
class Case:
    """One call of one kernel. ``options`` are the kernel's own: tiles, splits, page, bends.

    Packed, ``options["lengths"]`` are (n_q, n_k) of each sequence; n_q and n_k are all rows, a few
    of which may belong to no sequence.
    """

    name: str
    kernel: str
    dtype: str
    d: int
    batch: int
    heads: int
    kv_heads: int
    n_q: int
    n_k: int
    causal: bool
    window: int | None
    scale: float | None
    values: str
    layout: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def factor(self) -> float:
        """The scale that counts: the case's own or d ** -0.5."""
        return self.d**-0.5 if self.scale is None else self.scale


def draw(name: str, *, small: bool) -> Case:
    """Draw the case of this name; ``small`` for the interpreter: short lengths, no bfloat16."""
    _, kernel, *_ = name.split("/")
    contract = CONTRACTS[kernel]
    shared, own = random.Random(name.rpartition("/")[0]), random.Random(name)
    dtype = shared.choice([x for x in contract.dtypes if not (small and x == "bfloat16")])
    d = shared.choice([x for x in contract.dims if x <= 128 or not small or shared.random() < 0.3])
    if dtype == "float32" and d > 64 and shared.random() < 0.6:
        d = shared.choice((16, 32, 64))  # large ones take half a minute to compile: fewer of them
    mask, layout = shared.choice(contract.masks), shared.choice(contract.layouts)
    group = shared.choice((1, 1, 2, 4)) if contract.grouped else 1
    one_head, aligned = shared.random() < 0.2, shared.random() < 0.3
    kv_heads = 1 if one_head else own.choice((2, 2, 3)) if not small else own.choice((1, 2))
    decode = kernel.endswith("decode")
    if decode:
        options = {
            "splits": own.choice((None, None, 1, 3, 8)),
            "page": shared.choice((1, 16, 64, 10)),
            "table": shared.choice(TABLES),
        }
        n_q = 1 if kernel == "ragged_decode" else own.choice((1, 1, 1, 2, 3))
        n_k = _length(own, own.choice((70, 200) if small else (300, 2000, 5000)), aligned)
        n_k = max(n_k, n_q)
    else:
        options = _tiles(kernel, dtype, d, shared)
        top = own.choice((40, 80, 140)) if small else own.choice((130, 130, 400, 700, 700, 2100))
        n_q, n_k = (_length(own, top, aligned) for _ in range(2))
        n_k = n_q if own.random() < 0.2 else n_k
        if contract.empty and own.random() < 0.03:
            n_q, n_k = own.choice(((0, n_k), (n_q, 0)))
    batch = own.choice((1, 2) if small else (1, 2, 3))
    room = 20_000 if small else 8_000_000  # scores in all
    if batch * group * kv_heads * n_q * n_k > room and not decode:
        batch, kv_heads = 1, 1
    while group * kv_heads * n_q * n_k > room and not decode:
        n_q = max(16, n_q // 32 * 16)
    if contract.bends:
        options |= {
            "softcap": own.choice((2.0, 30.0, 50.0)) if shared.random() < 0.5 else None,
            "slopes": shared.random() < 0.5,
            "sinks": shared.random() < 0.5,
        }
    if kernel == "paged_prefill":
        options |= {"page": shared.choice((1, 16, 64, 10)), "table": shared.choice(TABLES)}
    if kernel == "packed":
        options["lengths"] = lengths = _ragged(own, n_q, n_k)
        batch, spare = 1, own.choice((0, 0, 5))
        n_q, n_k = (sum(column) + spare for column in zip(*lengths, strict=True))
    window = own.randint(1, max(n_k, 1) + 20) if mask == "window" else None
    scale = own.choice(contract.scales)
    return Case(
        name=name,
        kernel=kernel,
        dtype=dtype,
        d=d,
        batch=batch,
        heads=group * kv_heads,
        kv_heads=kv_heads,
        n_q=n_q,
        n_k=n_k,
        causal=mask != "none",
        window=window,
        scale=scale and scale * d**-0.5,
        values=own.choice(VALUES),
        layout=layout,
        options=options,
    )


def _length(rng: random.Random, top: int, aligned: bool) -> int:
    """Return a multiple of 16, or any length: often 1, often one beside a tile's edge."""
    if aligned:
        return 16 * rng.randint(1, top // 16)
    kind = rng.random()
    if kind < 0.12:
        return 1
    if kind < 0.5:
        return 16 * rng.randint(1, top // 16) + rng.choice((-1, 1))
    return rng.randint(1, top)


def _ragged(rng: random.Random, n_q: int, n_k: int) -> list[tuple[int, int]]:
    """Return n_q and n_k of up to four sequences: often 0 or 1, often both the same."""
    drawn = []
    for _ in range(rng.randint(1, 4)):
        queries, keys = (rng.choice((0, 1, rng.randint(1, n), n)) for n in (n_q, n_k))
        drawn.append((queries, queries if rng.random() < 0.4 else keys))
    return drawn


def _tiles(kernel: str, dtype: str, d: int, rng: random.Random) -> dict[str, Any]:
    """Return tiles that fit the chip; for a rung, None stands for its own choice."""
    exact = dtype == "float32"
    if kernel in ("teaching kernel", "my_flash_attention"):
        largest = (16 if d > 128 else 32) if exact else 64
        sizes = [size for size in (16, 32, 64) if size <= largest]
        small_keys = [size for size in sizes if size * d <= 64 * 128]
        return {"block_q": rng.choice(sizes), "block_k": rng.choice(small_keys)}
    if kernel in ("rung 1", "rung 2", "rung 3", "rung 4"):
        return {"tiles": "table" if exact or d > 128 else rng.choice(("own", (32, 16, 4, 1)))}
    return {}


def tensors(case: Case, device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return q, k, v of the case: its values in its layout."""
    made = torch.Generator().manual_seed(zlib.crc32(case.name.encode()))
    lead = ((case.heads, case.n_q), (case.kv_heads, case.n_k), (case.kv_heads, case.n_k))
    q, k, v = (torch.randn(case.batch, *shape, case.d, generator=made) for shape in lead)
    _set_values(case, q, k, v)
    dtype = getattr(torch, case.dtype)
    kinds = ("heads last" if case.layout == "expanded" else case.layout, case.layout, case.layout)
    return tuple(
        laid_out(x.to(device, dtype), kind) for x, kind in zip((q, k, v), kinds, strict=True)
    )


def _set_values(case: Case, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Change normal q, k, v in place into the case's values."""
    steer = 4.0  # q's first column; k's first column then sets the scores

    def scores(wanted: Any, rest: float = 0.1) -> None:
        q.mul_(rest)
        k.mul_(rest)
        q[..., 0] = steer
        k[..., 0] = torch.as_tensor(wanted) / (steer * case.factor)

    n_k = case.n_k
    if case.values == "times 4":
        q.mul_(4)
        k.mul_(4)
    elif case.values == "above 100":
        scores(torch.linspace(101, 140, n_k))
    elif case.values == "below -110":
        scores(torch.linspace(-150, -111, n_k))
    elif case.values == "ascending":
        scores(torch.linspace(-20, 20, n_k))
    elif case.values == "descending":
        scores(torch.linspace(20, -20, n_k))
    elif case.values.startswith("offset"):
        steer = 100.0
        # eager attention in float16 must not overflow before it multiplies by the scale
        size = min(1e4, 4e4 * abs(case.factor)) if case.dtype == "float16" else 1e4
        scores(torch.full((n_k,), size if "-" not in case.values else -size), rest=1.0)
    elif case.values == "one dominant key":
        scores(torch.where(torch.arange(n_k) == n_k // 3, 60.0, 0.0), rest=1.0)
    elif case.values in ("zeros", "uniform, v near 100"):
        q.zero_()
        v.add_(100 if "100" in case.values else 0)


def laid_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """Return x, (B, H, N, d), with other strides; NaN fills what lies between its elements."""
    b, h, n, d = x.shape
    if layout == "heads last":  # as a projection gives it
        return x.transpose(1, 2).contiguous().transpose(1, 2)
    if layout == "columns":
        return x.mT.contiguous().mT
    if layout == "expanded":  # one head and one sequence serve all
        return x[:1, :1].expand(b, h, n, d)
    if layout == "sliced":  # rows at odd addresses
        room = torch.full((b, h + 1, n + 3, d + 5), float("nan"), dtype=x.dtype, device=x.device)
        view = room[:, 1:, 2 : 2 + n, 3 : 3 + d]
        return view.copy_(x)
    if layout == "every other":
        room = torch.full((b, h, n, 2 * d), float("nan"), dtype=x.dtype, device=x.device)
        view = room[..., ::2]
        return view.copy_(x)
    return x.contiguous()
