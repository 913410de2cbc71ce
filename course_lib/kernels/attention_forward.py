"""The forward pass with every feature: rungs 2 to 5 for any GPU, on an H100 rungs 7 and 8.

`forward` is what the public operator calls (`course_lib.kernels.attention_op`). The kernel walks
over three stretches of keys: those at the window's far edge (masked), those that every row of the
tile sees whole (no mask), those at the diagonal or at the end of K (masked).

What a call may ask for beside the mask (soft-cap, slopes, sinks, packed sequences: `scores`; pages:
`paged`) is a switch of this kernel. Rungs 7 and 8 have none of these, so such a call gets this one.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable
from typing import Any

import torch
import triton
import triton.language as tl

from course_lib.kernels.ladder import descriptors
from course_lib.kernels.launch import (
    cdiv,
    launch,
    likeness,
    multiprocessors,
    on_device_of,
    power_of_2,
    remembered,
)
from course_lib.kernels.scores import LN_2, LOG2_E, Extras, capped, slope_of, sloped, span
from course_lib.kernels.tiles import BY_HAND, by_hand_for, sm_of, tiles_for

SMALL = {64: 2**31, 96: 2**31, 128: 2**31, 256: 2**27}
"""From this many q.numel() * n_k on (a quarter of the FLOPs) rungs 7 and 8 are worth it."""
MANY_KEYS, MANY_FOR_LISTS = 2560, 512
"""From here on rung 8 beats rung 7 at head_dim 64, without and with lists (``h100_short_keys``)."""


# fmt: off
@triton.jit
def load_rows(
    x, rows, n_rows, row, col, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, WHOLE: tl.constexpr,
    table=None, page_step=0, PAGE: tl.constexpr = 0,
):
    """Load rows of an (n_rows, HEAD_DIM) matrix as (rows, BLOCK_D), zero outside.

    WHOLE: no row lies outside, so no mask is needed for them. PAGE: so many rows stand in a page,
    and the table says in which; page_step is the stride from one page to the next.
    """
    cols = tl.arange(0, BLOCK_D)
    if PAGE:
        page = tl.load(table + rows // PAGE, mask=rows < n_rows, other=0).to(tl.int64)
        ptrs = x + (page * page_step + rows % PAGE * row)[:, None] + cols[None, :] * col
    else:
        ptrs = x + rows[:, None] * row + cols[None, :] * col
    inside = cols[None, :] < HEAD_DIM
    if not WHOLE:
        inside = inside & (rows[:, None] < n_rows)
    if WHOLE and HEAD_DIM == BLOCK_D:  # noqa: SIM108 (a compile-time branch)
        tile = tl.load(ptrs)
    else:
        tile = tl.load(ptrs, mask=inside, other=0.0)
    return tile


@triton.jit
def store_rows(x, tile, rows, n_rows, row, col, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr):
    """Store a (rows, BLOCK_D) tile into an (n_rows, HEAD_DIM) matrix, nothing outside."""
    cols = tl.arange(0, BLOCK_D)
    inside = (rows[:, None] < n_rows) & (cols[None, :] < HEAD_DIM)
    ptrs = x + rows[:, None] * row + cols[None, :] * col
    tl.store(ptrs, tile.to(x.dtype.element_ty), mask=inside)


@triton.jit
def dot(a, b, acc=None):
    """Multiply on the tensor cores; float32 stays float32 (no TF32)."""
    return tl.dot(a, b, acc, input_precision="ieee")


@triton.jit
def visible(rows, keys, n_q, n_k, window, CAUSAL: tl.constexpr, WINDOWED: tl.constexpr):
    """Return which of rows (r, 1) and keys (1, c), or (1, r) and (c, 1), may meet."""
    seen = (keys < n_k) & (rows < n_q)
    if CAUSAL:
        seen = seen & (keys <= rows + n_k - n_q)
    if WINDOWED:
        seen = seen & (keys > rows + n_k - n_q - window)
    return seen


@triton.jit
def walk(
    start, stop, m, l_sum, acc, q_tile, k, v, rows, n_q, n_k, window, scale, softcap, slope,
    k_row, k_col, v_row, v_col, table, k_page, v_page, PAGE: tl.constexpr,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, MASK: tl.constexpr,
):
    """Add keys start .. stop - 1 to the state, one tile at a time."""
    for first in range(start, stop, BLOCK_K):
        keys = first + tl.arange(0, BLOCK_K)  # (block_k,)
        k_tile = load_rows(
            k, keys, n_k, k_row, k_col, HEAD_DIM, BLOCK_D, not MASK, table, k_page, PAGE)
        s = dot(q_tile, tl.trans(k_tile)) * scale  # (block_q, block_k), base 2
        s = capped(s, softcap)
        s = sloped(s, slope, rows[:, None], keys[None, :], n_q, n_k)
        if MASK:
            seen = visible(rows[:, None], keys[None, :], n_q, n_k, window, CAUSAL, WINDOWED)
            s = tl.where(seen, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))  # (block_q,)
        m_safe = m_new
        if MASK:  # a row without a key so far: avoid -inf - -inf
            m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        alpha = tl.exp2(m - m_safe)
        p = tl.exp2(s - m_safe[:, None])
        l_sum = l_sum * alpha + tl.sum(p, 1)
        v_tile = load_rows(
            v, keys, n_k, v_row, v_col, HEAD_DIM, BLOCK_D, not MASK, table, v_page, PAGE)
        acc = dot(p.to(v_tile.dtype), v_tile, acc * alpha[:, None])
        m = m_new
    return m, l_sum, acc


@triton.jit
def forward_kernel(
    q, k, v, o, lse,
    q_batch, q_head, q_row, q_col, k_batch, k_head, k_row, k_col,
    v_batch, v_head, v_row, v_col,
    heads, n_q, n_k, window, scale,
    softcap, sinks, slopes, cu_q, cu_k, lengths, table, table_row, k_page, v_page,
    PAGE: tl.constexpr, GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr,
):
    """One program: one tile of query rows of one head. o and lse are contiguous.

    Packed (cu_q; n_q is then how many rows there are in all), o is (n_q, heads, HEAD_DIM) and lse
    (heads, n_q). The keys are packed too (cu_k) or stand in pages (PAGE, table, lengths).
    """
    tile = tl.program_id(0)
    if CAUSAL:  # the long ones first
        tile = tl.num_programs(0) - 1 - tile
    index = tl.program_id(1).to(tl.int64)
    batch, head = index // heads, index % heads
    q += batch * q_batch + head * q_head
    k += batch * k_batch + head // GROUP * k_head
    v += batch * v_batch + head // GROUP * v_head
    if cu_q is not None:
        begin, length = span(cu_q, batch)
        q += begin * q_row
        o += (begin * heads + head) * HEAD_DIM
        o_row = heads * HEAD_DIM
        lse_first = head * n_q + begin
        n_q = length
    else:
        o += index * n_q * HEAD_DIM
        o_row = HEAD_DIM
        lse_first = index * n_q
    if cu_k is not None:
        begin, n_k = span(cu_k, batch)
        k += begin * k_row
        v += begin * v_row
    if PAGE:
        n_k = tl.load(lengths + batch)
        table += batch * table_row
    if cu_q is not None:  # a tile behind the last row walks over nothing
        n_k = tl.where(tile * BLOCK_Q < n_q, n_k, 0)

    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)  # (block_q,)
    position = tile * BLOCK_Q + n_k - n_q  # of the first row, among the keys
    start = 0
    stop = n_k
    whole_stop = n_k // BLOCK_K * BLOCK_K
    if CAUSAL:
        stop = tl.minimum(n_k, position + BLOCK_Q)
        whole_stop = tl.minimum(n_k, tl.maximum(position + 1, 0)) // BLOCK_K * BLOCK_K
    whole_start = 0
    if WINDOWED:
        start = tl.maximum(position - window + 1, 0) // BLOCK_K * BLOCK_K
        whole_start = tl.cdiv(tl.maximum(position + BLOCK_Q - window, 0), BLOCK_K) * BLOCK_K
        whole_start = tl.minimum(whole_start, whole_stop)

    q_tile = load_rows(q, rows, n_q, q_row, q_col, HEAD_DIM, BLOCK_D, False)
    slope = slope_of(slopes, head)
    m = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    l_sum = tl.zeros((BLOCK_Q,), tl.float32)
    if sinks is not None:  # as if one key had been seen, whose value is zero
        m = tl.zeros((BLOCK_Q,), tl.float32) + tl.load(sinks + head).to(tl.float32) / LN_2
        l_sum += 1.0
    acc = tl.zeros((BLOCK_Q, BLOCK_D), tl.float32)
    if WINDOWED:
        m, l_sum, acc = walk(
            start, whole_start, m, l_sum, acc, q_tile, k, v, rows, n_q, n_k, window, scale,
            softcap, slope, k_row, k_col, v_row, v_col, table, k_page, v_page, PAGE,
            HEAD_DIM, BLOCK_D, BLOCK_K, CAUSAL, WINDOWED, True)
    m, l_sum, acc = walk(
        whole_start, whole_stop, m, l_sum, acc, q_tile, k, v, rows, n_q, n_k, window, scale,
        softcap, slope, k_row, k_col, v_row, v_col, table, k_page, v_page, PAGE,
        HEAD_DIM, BLOCK_D, BLOCK_K, CAUSAL, WINDOWED, False)
    m, l_sum, acc = walk(
        whole_stop, stop, m, l_sum, acc, q_tile, k, v, rows, n_q, n_k, window, scale,
        softcap, slope, k_row, k_col, v_row, v_col, table, k_page, v_page, PAGE,
        HEAD_DIM, BLOCK_D, BLOCK_K, CAUSAL, WINDOWED, True)

    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)  # no key at all: o = 0, lse = -inf
    store_rows(o, acc / l_safe[:, None], rows, n_q, o_row, 1, HEAD_DIM, BLOCK_D)
    tl.store(lse + lse_first + rows, (m + tl.log2(l_safe)) * LN_2, mask=rows < n_q)
# fmt: on


def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    window: int | None,
    scale: float,
    *extras: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return o (B, H, n_q, d) and lse (B, H, n_q, float32); inputs are checked.

    ``extras`` are the fields of an `Extras`, from the first on; with any of them the plain kernel
    is chosen. Both results are contiguous; packed (B = 1, n_q all rows), o is so as (n_q, H, d).
    """
    extra = Extras(*extras)
    if window is not None or scale <= 0 or extra.tensors or extra.softcap is not None:
        return plain_forward(q, k, v, causal, window, scale, extra)
    like = likeness((q, k, v), causal)
    choice = remembered(like, hopper_choice, q, k, v, causal)
    if choice is None:
        return plain_forward(q, k, v, causal, window, scale, extra, like=like)
    with on_device_of(q):
        return _on_hopper(q, k, v, causal, scale, choice, like)


def plain_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    window: int | None,
    scale: float,
    extra: Extras = Extras(),  # noqa: B008 (a tuple never changes)
    table: torch.Tensor | None = None,
    lengths: torch.Tensor | None = None,
    like: Hashable | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`forward` by the plain kernel. With a table, k and v are pages: see `paged`.

    ``like``: a `likeness` that decides the call, if there is one already.
    """
    batch, heads, n_q, d = q.shape
    _, kv_heads, n_k, _ = k.shape
    o, lse = new_outputs(q, packed=extra.cu_q is not None)
    if o.numel() == 0 or (n_k == 0 and extra.sinks is None):
        return o.zero_(), lse.fill_(float("-inf"))
    longest, page = n_q, 0
    pages: tuple[int | None, ...] = (None, None, None)
    strides = (*q.stride(), *k.stride(), *v.stride())
    if extra.cu_q is not None:
        batch, longest, strides = len(extra.cu_q) - 1, extra.max_q, still(q, k, v)
    if table is not None:
        page, pages = n_k, (table.stride(0), k.stride(0), v.stride(0))
    tiles = tiles_for(q, causal=causal)
    if like is None:
        given = (q, k, v, *extra.tensors, *(x for x in (table, lengths) if x is not None))
        like = likeness(given, causal, window, *extra.kinds)
    softcap = None if extra.softcap is None else extra.softcap * LOG2_E
    with on_device_of(q):
        launch(
            *(forward_kernel, (cdiv(longest, tiles.block_q), batch * heads), like),
            *(q, k, v, o, lse, *strides),
            *(heads, n_q, n_k, window or 0, scale * LOG2_E),
            *(softcap, extra.sinks, extra.slopes, extra.cu_q, extra.cu_k, lengths, table, *pages),
            PAGE=page,
            GROUP=heads // kv_heads,
            HEAD_DIM=d,
            BLOCK_D=power_of_2(d),
            CAUSAL=causal,
            WINDOWED=window is not None,
            **tiles.options(),
        )
    return o, lse


def still(*tensors: torch.Tensor) -> tuple[int, ...]:
    """Return all strides of tensors with four axes, as if the first axis led nowhere: what is
    packed or in pages has no batch in memory, and each program looks up where its rows begin."""
    return tuple(step for x in tensors for step in (0, *x.stride()[1:]))


def new_outputs(q: torch.Tensor, *, packed: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return memory for o and lse. Packed, (1, H, total, d): a row that no sequence owns is none's
    to write, so it is 0, and lse -inf; and the heads of a row lie beside each other."""
    batch, heads, n_q, d = q.shape
    if not packed:
        return q.new_empty(q.shape), q.new_empty((batch, heads, n_q), dtype=torch.float32)
    o = q.new_zeros((1, n_q, heads, d)).transpose(1, 2)
    return o, q.new_full((1, heads, n_q), float("-inf"), dtype=torch.float32)


def worth_descriptors(q: torch.Tensor, k: torch.Tensor) -> bool:
    """Return whether there is enough to do for large tiles: a few of them leave SMs idle."""
    return q.numel() * k.shape[2] >= SMALL.get(q.shape[-1], 0)


def hopper_choice(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool
) -> dict[str, Any] | None:
    """Return how rung 8 should run, {} for rung 7, None where neither can or should.

    Rung 7 is for head_dim 64 and few keys, where it was measured to be faster.
    """
    if not (worth_descriptors(q, k) and by_hand(q, k, v)):
        return None
    choice = by_hand_for(q, k, causal, multiprocessors(q))
    many = MANY_FOR_LISTS if "stays" in choice else MANY_KEYS
    return {} if q.shape[-1] == 64 and k.shape[2] < many else choice


def _on_hopper(q, k, v, causal, scale, choice, like):
    from course_lib.kernels.gluon_forward import specialised

    if not choice:
        q, k, v = (x.contiguous() for x in (q, k, v))  # it knows nothing else
        return descriptors(q, k, v, causal=causal, longest_first=causal, scale=scale)
    return specialised(q, k, v, causal=causal, scale=scale, like=like, **choice)


def by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> bool:
    """Return whether rung 8 can take these: sm_90, half types, a d in its table, 128 queries or
    more, `fetchable`."""
    return q.shape[-1] in BY_HAND and q.shape[2] >= 128 and fetchable(q, k, v) and gluon_works()


def fetchable(*tensors: torch.Tensor) -> bool:
    """Return whether the copy engine can fetch rows of these, (B, H, N, d): sm_90, half types,
    some numbers, and every row in one piece that begins at a multiple of 16 bytes."""
    return all(
        x.is_cuda
        and x.numel() > 0
        and x.dtype != torch.float32
        and x.data_ptr() % 16 == 0
        and x.stride(3) == 1
        and (
            x.is_contiguous()
            or all(n == 1 or (step > 0 and step % 8 == 0) for n, step in _outer(x))
        )
        and sm_of(x) == 90
        for x in tensors
    )


def _outer(x: torch.Tensor) -> Iterable[tuple[int, int]]:
    return zip(x.shape[:3], x.stride()[:3], strict=True)


@functools.cache
def gluon_works() -> bool:
    """Return whether what is written in Gluon compiles here: it is experimental, names change."""
    try:
        import course_lib.kernels.gluon_backward  # noqa: F401  (it imports the forward's)
    except (ImportError, AttributeError):
        return False
    # 3.9: the newest that was seen to compile it (tests/kernels/test_tiles.py)
    return (3, 6) <= tuple(int(x) for x in triton.__version__.split(".")[:2]) <= (3, 9)
