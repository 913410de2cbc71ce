"""The forward kernel made fast, one idea per rung: lesson 08 climbs it.

Each rung is a function ``rung(q, k, v, *, causal=False) -> (o, lse)`` over contiguous
(B, H, N, head_dim) tensors with as many key heads as query heads; every length works. What each
gains is in the record ``h100_ladder``; `course_lib.kernels.attention_op` is the last rung with all
features. Sources: FlashAttention-2 (arXiv:2307.08691, section 3) for rungs 3 and 4, Triton's
tutorial 06 for folding log2(e) into the scale, FlashAttention-3 (arXiv:2407.08608) for what rung 8
does by hand (`course_lib.kernels.gluon_forward`).
"""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from course_lib.kernels.flash_forward import load_tile, store_tile
from course_lib.kernels.launch import cdiv, launch, likeness, with_base
from course_lib.kernels.tiles import Tiles, tiles_for

LOG2_E = 1.4426950408889634
LN_2 = tl.constexpr(0.6931471805599453)


# What all rungs share ----------------------------------------------------------------------------


@triton.jit
def head_of(x, n, HEAD_DIM: tl.constexpr):
    """Point at this program's head of a contiguous (B * H, n, HEAD_DIM) tensor."""
    return x + tl.program_id(1).to(tl.int64) * n * HEAD_DIM


@triton.jit
def empty_state(BLOCK_Q: tl.constexpr, HEAD_DIM: tl.constexpr):
    """Return the state before any key: m = -inf, l = 0, acc = 0."""
    m = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    return m, tl.zeros((BLOCK_Q,), tl.float32), tl.zeros((BLOCK_Q, HEAD_DIM), tl.float32)


@triton.jit
def dot(a, b, acc=None):
    """Multiply on the tensor cores; float32 stays float32 (no TF32)."""
    return tl.dot(a, b, acc, input_precision="ieee")


@triton.jit
def hide(s, rows, keys, n_q, n_k, CAUSAL: tl.constexpr):
    """Set the scores of keys that a row may not see to -inf (causal: aligned at the end)."""
    seen = keys[None, :] < n_k
    if CAUSAL:
        seen = seen & (keys[None, :] <= (rows + n_k - n_q)[:, None])
    return tl.where(seen, s, float("-inf"))


@triton.jit
def add_keys(m, l_sum, acc, s, v_tile):
    """One online-softmax step in base 2: s is (q . k) * scale * log2(e)."""
    m_new = tl.maximum(m, tl.max(s, 1))  # (block_q,)
    m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)  # no key yet: avoid -inf - -inf
    alpha = tl.exp2(m - m_safe)
    p = tl.exp2(s - m_safe[:, None])  # (block_q, block_k)
    l_sum = l_sum * alpha + tl.sum(p, 1)
    acc = dot(p.to(v_tile.dtype), v_tile, acc * alpha[:, None])
    return m_new, l_sum, acc


@triton.jit
def finish(o, lse, m, l_sum, acc, rows, n_q, HEAD_DIM: tl.constexpr):
    """Divide once, store O and the natural-log lse."""
    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)
    store_tile(o, acc / l_safe[:, None], rows, n_q, HEAD_DIM, 1, HEAD_DIM)
    lse += tl.program_id(1).to(tl.int64) * n_q
    tl.store(lse + rows, (m + tl.log2(l_safe)) * LN_2, mask=rows < n_q)


@triton.jit
def last_key(tile, n_q, n_k, BLOCK_Q: tl.constexpr, CAUSAL: tl.constexpr):
    """Return one past the last key that any row of this tile sees."""
    end = n_k
    if CAUSAL:
        end = tl.minimum(n_k, (tile + 1) * BLOCK_Q + n_k - n_q)
    return end


@triton.jit
def first_hidden(
    tile, n_q, n_k, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr
):
    """Return where the first key tile begins that hides a key from some row of this tile."""
    end = n_k
    if CAUSAL:
        end = tl.minimum(n_k, tl.maximum(tile * BLOCK_Q + n_k - n_q + 1, 0))
    return end // BLOCK_K * BLOCK_K


# Rung 1: causal by mask only ---------------------------------------------------------------------


# fmt: off
@triton.jit
def by_mask_kernel(
    q, k, v, o, lse, n_q, n_k, scale,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr,
):
    """Visit every key tile, mask every score, exponentiate in base e."""
    q, o = head_of(q, n_q, HEAD_DIM), head_of(o, n_q, HEAD_DIM)
    k, v = head_of(k, n_k, HEAD_DIM), head_of(v, n_k, HEAD_DIM)
    rows = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    q_tile = load_tile(q, rows, n_q, HEAD_DIM, 1, HEAD_DIM)
    m, l_sum, acc = empty_state(BLOCK_Q, HEAD_DIM)
    for start in range(0, n_k, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)
        k_tile = load_tile(k, keys, n_k, HEAD_DIM, 1, HEAD_DIM)
        v_tile = load_tile(v, keys, n_k, HEAD_DIM, 1, HEAD_DIM)
        s = hide(dot(q_tile, tl.trans(k_tile)) * scale, rows, keys, n_q, n_k, CAUSAL)
        m_new = tl.maximum(m, tl.max(s, 1))
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        alpha = tl.exp(m - m_safe)
        p = tl.exp(s - m_safe[:, None])
        l_sum = l_sum * alpha + tl.sum(p, 1)
        acc = dot(p.to(v_tile.dtype), v_tile, acc * alpha[:, None])
        m = m_new
    finish(o, lse, m / LN_2, l_sum, acc, rows, n_q, HEAD_DIM)


# Rung 2: exp2, with log2(e) folded into the scale ------------------------------------------------


@triton.jit
def base_two_kernel(
    q, k, v, o, lse, n_q, n_k, scale,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr,
):
    """exp(x) is exp2(x * log2(e)) on the chip: pay for the factor once, in the scale."""
    q, o = head_of(q, n_q, HEAD_DIM), head_of(o, n_q, HEAD_DIM)
    k, v = head_of(k, n_k, HEAD_DIM), head_of(v, n_k, HEAD_DIM)
    rows = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    q_tile = load_tile(q, rows, n_q, HEAD_DIM, 1, HEAD_DIM)
    m, l_sum, acc = empty_state(BLOCK_Q, HEAD_DIM)
    for start in range(0, n_k, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)
        k_tile = load_tile(k, keys, n_k, HEAD_DIM, 1, HEAD_DIM)
        v_tile = load_tile(v, keys, n_k, HEAD_DIM, 1, HEAD_DIM)
        s = hide(dot(q_tile, tl.trans(k_tile)) * scale, rows, keys, n_q, n_k, CAUSAL)
        m, l_sum, acc = add_keys(m, l_sum, acc, s, v_tile)
    finish(o, lse, m, l_sum, acc, rows, n_q, HEAD_DIM)


# Rung 3: no tiles beyond the diagonal ------------------------------------------------------------


@triton.jit
def skip_tiles_kernel(
    q, k, v, o, lse, n_q, n_k, scale,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr,
):
    """Stop at the last key that some row of the tile sees: about half of the work is left."""
    q, o = head_of(q, n_q, HEAD_DIM), head_of(o, n_q, HEAD_DIM)
    k, v = head_of(k, n_k, HEAD_DIM), head_of(v, n_k, HEAD_DIM)
    tile = tl.program_id(0)
    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    q_tile = load_tile(q, rows, n_q, HEAD_DIM, 1, HEAD_DIM)
    m, l_sum, acc = empty_state(BLOCK_Q, HEAD_DIM)
    for start in range(0, last_key(tile, n_q, n_k, BLOCK_Q, CAUSAL), BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)
        k_tile = load_tile(k, keys, n_k, HEAD_DIM, 1, HEAD_DIM)
        v_tile = load_tile(v, keys, n_k, HEAD_DIM, 1, HEAD_DIM)
        s = hide(dot(q_tile, tl.trans(k_tile)) * scale, rows, keys, n_q, n_k, CAUSAL)
        m, l_sum, acc = add_keys(m, l_sum, acc, s, v_tile)
    finish(o, lse, m, l_sum, acc, rows, n_q, HEAD_DIM)


# Rung 4: mask only the tiles at the boundary -----------------------------------------------------


@triton.jit
def edge_masks_kernel(
    q, k, v, o, lse, n_q, n_k, scale,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr,
):
    """Two loops: tiles that every row sees whole, without a mask; then those at the boundary."""
    q, o = head_of(q, n_q, HEAD_DIM), head_of(o, n_q, HEAD_DIM)
    k, v = head_of(k, n_k, HEAD_DIM), head_of(v, n_k, HEAD_DIM)
    tile = tl.program_id(0)
    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    q_tile = load_tile(q, rows, n_q, HEAD_DIM, 1, HEAD_DIM)
    m, l_sum, acc = empty_state(BLOCK_Q, HEAD_DIM)
    boundary = first_hidden(tile, n_q, n_k, BLOCK_Q, BLOCK_K, CAUSAL)
    for start in range(0, boundary, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)
        k_tile = load_tile(k, keys, n_k, HEAD_DIM, 1, HEAD_DIM)
        v_tile = load_tile(v, keys, n_k, HEAD_DIM, 1, HEAD_DIM)
        s = dot(q_tile, tl.trans(k_tile)) * scale
        m, l_sum, acc = add_keys(m, l_sum, acc, s, v_tile)
    for start in range(boundary, last_key(tile, n_q, n_k, BLOCK_Q, CAUSAL), BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)
        k_tile = load_tile(k, keys, n_k, HEAD_DIM, 1, HEAD_DIM)
        v_tile = load_tile(v, keys, n_k, HEAD_DIM, 1, HEAD_DIM)
        s = hide(dot(q_tile, tl.trans(k_tile)) * scale, rows, keys, n_q, n_k, CAUSAL)
        m, l_sum, acc = add_keys(m, l_sum, acc, s, v_tile)
    finish(o, lse, m, l_sum, acc, rows, n_q, HEAD_DIM)


# Rung 6: tensor descriptors (rung 5 is a table: `course_lib.kernels.tiles`) ----------------------


@triton.jit
def block(x, head, start, BLOCK: tl.constexpr, HEAD_DIM: tl.constexpr):
    """Load a tile through its descriptor: on Hopper one thread asks, the TMA unit copies."""
    return x.load([head, start, 0]).reshape(BLOCK, HEAD_DIM)


@triton.jit
def descriptors_kernel(
    q, k, v, o, lse, n_q, n_k, scale,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr,
    GROUP: tl.constexpr, WHOLE: tl.constexpr, LONGEST_FIRST: tl.constexpr,
):
    """Rung 4 without pointer arithmetic: a descriptor knows shape and strides, and zero-fills.

    WHOLE: no tile hides a key, so the second loop is left out.
    """
    head = tl.program_id(2) * tl.num_programs(0) + tl.program_id(0)
    tile = tl.program_id(1)
    if LONGEST_FIRST:  # rung 7: causal tiles differ in length, so start the long ones first
        tile = tl.num_programs(1) - 1 - tile
    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    q_tile = block(q, head, tile * BLOCK_Q, BLOCK_Q, HEAD_DIM)
    m, l_sum, acc = empty_state(BLOCK_Q, HEAD_DIM)
    boundary = first_hidden(tile, n_q, n_k, BLOCK_Q, BLOCK_K, CAUSAL)
    for start in range(0, boundary, BLOCK_K):
        s = dot(q_tile, block(k, head // GROUP, start, BLOCK_K, HEAD_DIM).T)
        # every row has a key by now: no guard against -inf; scale and subtract are one FMA
        m_new = tl.maximum(m, tl.max(s, 1) * scale)
        alpha = tl.exp2(m - m_new)
        p = tl.exp2(s * scale - m_new[:, None])
        l_sum = l_sum * alpha + tl.sum(p, 1)
        v_tile = block(v, head // GROUP, start, BLOCK_K, HEAD_DIM)
        acc = dot(p.to(v_tile.dtype), v_tile, acc * alpha[:, None])
        m = m_new
    if not WHOLE:
        for start in range(boundary, last_key(tile, n_q, n_k, BLOCK_Q, CAUSAL), BLOCK_K):
            keys = start + tl.arange(0, BLOCK_K)
            s = dot(q_tile, block(k, head // GROUP, start, BLOCK_K, HEAD_DIM).T) * scale
            s = hide(s, rows, keys, n_q, n_k, CAUSAL)
            v_tile = block(v, head // GROUP, start, BLOCK_K, HEAD_DIM)
            m, l_sum, acc = add_keys(m, l_sum, acc, s, v_tile)
    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)
    o_tile = (acc / l_safe[:, None]).to(o.dtype).reshape(1, BLOCK_Q, HEAD_DIM)
    o.store([head, tile * BLOCK_Q, 0], o_tile)
    lse += head.to(tl.int64) * n_q
    tl.store(lse + rows, (m + tl.log2(l_safe)) * LN_2, mask=rows < n_q)
# fmt: on


def described(x: torch.Tensor, rows: int) -> TensorDescriptor:
    """Describe a contiguous (B, H, N, head_dim) tensor as tiles of ``rows`` rows of one head."""
    return with_base(_template(x.shape, x.dtype, rows), x)


@functools.lru_cache(maxsize=4096)
def _template(shape: torch.Size, dtype: torch.dtype, rows: int) -> TensorDescriptor:
    batch, heads, n, d = shape
    like = torch.empty(0, dtype=dtype)
    return TensorDescriptor(like, [batch * heads, n, d], [n * d, d, 1], [1, rows, d])


# The rungs, as functions -------------------------------------------------------------------------

START = Tiles(64, 64, num_warps=4, num_stages=3)
"""What rungs 1 to 4 run with: lesson 07's default tiles."""

HEADS_TOGETHER = 4
"""Rung 7: from how many heads the longest tiles are taken before the next shorter ones."""


def by_mask(q, k, v, *, causal=False, tiles=START):
    """Rung 1: exercise 7.3's kernel: every tile, every mask."""
    return _launch(by_mask_kernel, q, k, v, causal, tiles, scale=q.shape[-1] ** -0.5)


def base_two(q, k, v, *, causal=False, tiles=START):
    """Rung 2: exp2 with folded scale."""
    return _launch(base_two_kernel, q, k, v, causal, tiles)


def skip_tiles(q, k, v, *, causal=False, tiles=START):
    """Rung 3: causal tiles skipped."""
    return _launch(skip_tiles_kernel, q, k, v, causal, tiles)


def edge_masks(q, k, v, *, causal=False, tiles=START):
    """Rung 4: masks on boundary tiles only."""
    return _launch(edge_masks_kernel, q, k, v, causal, tiles)


def tuned(q, k, v, *, causal=False, tiles=None):
    """Rung 5: rung 3's kernel, with tiles, warps and stages from the table of this GPU."""
    tiles = tiles or tiles_for(q, causal=causal)
    return _launch(skip_tiles_kernel, q, k, v, causal, tiles)


def positive(scale: float) -> float:
    """Return ``scale``; ValueError unless it is above 0, where max(scale * s) = scale * max(s)."""
    if not scale > 0:
        raise ValueError(f"scale must be above 0 for this kernel, got {scale!r}.")
    return scale


def descriptors(q, k, v, *, causal=False, tiles=None, longest_first=False, scale=None):
    """Rung 6: tensor descriptors; rung 7 with ``longest_first``. Takes grouped heads too.

    Raises ValueError unless ``scale`` is above 0: the kernel scales the maximum, not the scores.
    """
    scale = positive(q.shape[-1] ** -0.5 if scale is None else scale)
    tiles = tiles or tiles_for(q, causal=causal, descriptors=True)
    o, lse = _outputs(q)
    heads = q.shape[0] * q.shape[1]
    together = HEADS_TOGETHER if longest_first and heads % HEADS_TOGETHER == 0 else 1
    grid = (together, cdiv(q.shape[2], tiles.block_q), heads // together)
    launch(
        *(descriptors_kernel, grid, likeness((q, k, v), causal, longest_first, tiles)),
        *(described(q, tiles.block_q), described(k, tiles.block_k), described(v, tiles.block_k)),
        *(described(o, tiles.block_q), lse, q.shape[2], k.shape[2]),
        scale * LOG2_E,
        HEAD_DIM=q.shape[-1],
        GROUP=q.shape[1] // k.shape[1],
        CAUSAL=causal,
        WHOLE=not causal and k.shape[2] % tiles.block_k == 0,
        LONGEST_FIRST=longest_first,
        **tiles.options(),
    )
    return o, lse


def longest_first(q, k, v, *, causal=False, tiles=None):
    """Rung 7: the long tiles of a causal grid start first, those of four heads together."""
    return descriptors(q, k, v, causal=causal, tiles=tiles, longest_first=causal)


RUNGS = {
    1: by_mask,
    2: base_two,
    3: skip_tiles,
    4: edge_masks,
    5: tuned,
    6: descriptors,
    7: longest_first,
}


def _launch(kernel, q, k, v, causal, tiles, scale=None):
    o, lse = _outputs(q)
    scale = q.shape[-1] ** -0.5 * LOG2_E if scale is None else scale
    _grid(q, tiles, kernel)(
        *(q, k, v, o, lse, q.shape[2], k.shape[2], scale),
        HEAD_DIM=q.shape[-1],
        CAUSAL=causal,
        **tiles.options(),
    )
    return o, lse


def _outputs(q):
    return torch.empty_like(q), torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)


def _grid(q, tiles, kernel):
    return kernel[(triton.cdiv(q.shape[2], tiles.block_q), q.shape[0] * q.shape[1])]
