"""FlashAttention's forward pass in Triton: the kernel of lesson 07, for teaching.

Dao et al. 2022 (arXiv:2205.14135), algorithm 1, in the loop order of Dao 2023 (FlashAttention-2,
arXiv:2307.08691, sections 3.1 and 3.2): one program owns one tile of query rows and walks over the
keys. The scores exist one (block_q, block_k) tile at a time and are never written down. K and V are
loaded once per visited tile; Q is loaded, O and lse are stored, once in all.

`course_lib.kernels.attention_op.flash_attention` is the operator for use: it returns o alone,
trains, and is fast.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@triton.jit
def load_tile(base, rows, n_rows, stride_row, stride_col, HEAD_DIM: tl.constexpr):
    """Load the given rows of an (n_rows, head_dim) matrix; rows past its end are 0."""
    cols = tl.arange(0, HEAD_DIM)  # (head_dim,)
    ptrs = base + rows[:, None] * stride_row + cols[None, :] * stride_col
    return tl.load(ptrs, mask=rows[:, None] < n_rows, other=0.0)


@triton.jit
def store_tile(base, tile, rows, n_rows, stride_row, stride_col, HEAD_DIM: tl.constexpr):
    """Store a tile into the given rows of an (n_rows, head_dim) matrix, none past its end."""
    cols = tl.arange(0, HEAD_DIM)  # (head_dim,)
    ptrs = base + rows[:, None] * stride_row + cols[None, :] * stride_col
    tl.store(ptrs, tile.to(base.dtype.element_ty), mask=rows[:, None] < n_rows)


# fmt: off
@triton.jit
def flash_forward(
    q, k, v, o, lse,
    q_batch, q_head, q_row, q_col,  # strides, in elements
    k_batch, k_head, k_row, k_col,
    v_batch, v_head, v_row, v_col,
    o_batch, o_head, o_row, o_col,
    lse_batch, lse_head, lse_row,
    n_q, n_k, scale,
    GROUP: tl.constexpr,  # query heads that share one key/value head
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    """One program: one tile of query rows of one head, against all its keys."""
    tile = tl.program_id(0)
    head = tl.program_id(1).to(tl.int64)  # 64 bits: offsets can pass 2^31
    batch = tl.program_id(2).to(tl.int64)
    kv_head = head // GROUP
    q += batch * q_batch + head * q_head
    k += batch * k_batch + kv_head * k_head
    v += batch * v_batch + kv_head * v_head
    o += batch * o_batch + head * o_head
    lse += batch * lse_batch + head * lse_head

    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)  # (block_q,)
    q_tile = load_tile(q, rows, n_q, q_row, q_col, HEAD_DIM)
    m = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    l_sum = tl.zeros((BLOCK_Q,), tl.float32)
    acc = tl.zeros((BLOCK_Q, HEAD_DIM), tl.float32)

    last = rows + n_k - n_q  # causal, aligned at the end: the last key a row may see
    end = n_k
    if CAUSAL:  # no row of this tile sees further: skip the tiles beyond
        end = tl.minimum(n_k, (tile + 1) * BLOCK_Q + n_k - n_q)
    for start in range(0, end, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)  # (block_k,)
        k_tile = load_tile(k, keys, n_k, k_row, k_col, HEAD_DIM)
        v_tile = load_tile(v, keys, n_k, v_row, v_col, HEAD_DIM)

        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee")
        s *= scale  # (block_q, block_k), float32
        visible = keys[None, :] < n_k
        if CAUSAL:
            visible = visible & (keys[None, :] <= last[:, None])
        s = tl.where(visible, s, float("-inf"))

        m_new = tl.maximum(m, tl.max(s, 1))  # (block_q,)
        # a row without a key so far has m_new = -inf, and -inf - -inf is NaN
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        alpha = tl.exp(m - m_safe)
        p = tl.exp(s - m_safe[:, None])
        l_sum = l_sum * alpha + tl.sum(p, 1)
        acc *= alpha[:, None]
        acc += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new

    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)  # no key at all: o = 0, lse = -inf
    store_tile(o, acc / l_safe[:, None], rows, n_q, o_row, o_col, HEAD_DIM)
    tl.store(lse + rows * lse_row, m + tl.log(l_safe), mask=rows < n_q)
# fmt: on


def flash_attention_with_lse(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    block_q: int = 64,
    block_k: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention without ever writing the scores down: softmax(q k^T / sqrt(d)) v.

    Args:
        q: (B, H, n_q, head_dim), float32, float16 or (on a GPU only) bfloat16, any strides.
        k: (B, H_kv, n_k, head_dim); H_kv divides H (grouped-query attention).
        v: like k.
        causal: query i sees key j iff j <= i + n_k - n_q (aligned at the end).
        block_q: query rows per tile, a power of two, at least 16.
        block_k: key rows per tile, likewise.

    Returns:
        o, (B, H, n_q, head_dim) in q's dtype, and lse, (B, H, n_q), float32, the natural log of
        the sum of exponentials. A row without any key has o = 0 and lse = -inf.

    Raises:
        TypeError: for an argument that is no tensor, or for dtypes that differ or do not work.
        ValueError: for shapes, devices or block sizes that do not fit.
    """
    _check(q, k, v, block_q, block_k)
    batch, heads, n_q, head_dim = q.shape
    o = torch.empty_like(q)
    lse = torch.empty((batch, heads, n_q), dtype=torch.float32, device=q.device)
    if o.numel() == 0:
        return o, lse
    grid = (triton.cdiv(n_q, block_q), heads, batch)
    with torch.cuda.device_of(q):  # nothing on a CPU; else triton launches on the current GPU
        flash_forward[grid](
            *(q, k, v, o, lse),
            *(*q.stride(), *k.stride(), *v.stride(), *o.stride(), *lse.stride()),
            *(n_q, k.shape[2], head_dim**-0.5),
            GROUP=heads // k.shape[1],
            HEAD_DIM=head_dim,
            BLOCK_Q=block_q,
            BLOCK_K=block_k,
            CAUSAL=causal,
            # float32 tiles are twice as large: no room to load the next ones ahead
            num_stages=1 if q.dtype == torch.float32 else 3,
        )
    return o, lse


def _check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_q: int, block_k: int) -> None:
    """Raise one clear sentence for whatever the kernel cannot take."""
    check_tensors(q, k, v)
    sizes = {"head_dim": q.shape[-1], "block_q": block_q, "block_k": block_k}
    for name, size in sizes.items():
        if not isinstance(size, int) or size < 16 or size & (size - 1):
            raise ValueError(f"{name} must be a power of two and at least 16, got {size!r}.")


def interpreted() -> bool:
    """Return whether Triton interprets kernels in this process."""
    return triton.knobs.runtime.interpret


# Else `torch.compile` breaks the graph there. `torch.compiler.assume_constant_result` does no more
# than this, but it imports the compiler: a second for every notebook and child with a kernel.
interpreted._dynamo_marked_constant = True  # type: ignore[attr-defined]


def check_tensors(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Raise one clear sentence if q, k and v do not fit together or not on this device."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}.")
        if tensor.dim() != 4:
            raise ValueError(
                f"{name} must have shape (B, H, N, head_dim), four axes, got {tuple(tensor.shape)}."
            )
        if tensor.dtype != q.dtype:
            raise TypeError(f"{name} must have q's dtype {q.dtype}, got {tensor.dtype}.")
        if tensor.device != q.device:
            raise ValueError(f"{name} must be on q's device {q.device}, got {tensor.device}.")
        (_, _, rows, columns), (_, _, row, column) = tensor.shape, tensor.stride()
        reach = (rows - 1) * row + (columns - 1) * column
        if reach >= 2**31:
            raise ValueError(
                f"one head of {name} must span less than 2^31 elements (its row offsets are "
                f"32-bit), got {reach + 1}."
            )
    if q.dtype not in DTYPES:
        raise TypeError(f"q, k and v must be float32, float16 or bfloat16, got {q.dtype}.")
    if q.dtype == torch.bfloat16 and interpreted():
        raise TypeError(
            "bfloat16 does not work in Triton's interpreter, which multiplies its raw bits as "
            "integers and returns wrong numbers without a word: use float16 or float32 here."
        )
    (batch, heads, _, head_dim), (kv_batch, kv_heads, _, kv_dim) = q.shape, k.shape
    if k.shape != v.shape:
        raise ValueError(f"v must have k's shape {tuple(k.shape)}, got {tuple(v.shape)}.")
    if kv_batch != batch or kv_dim != head_dim:
        raise ValueError(
            f"k must have q's batch {batch} and head_dim {head_dim}, got {kv_batch} and {kv_dim}."
        )
    if kv_heads == 0 or heads % kv_heads:
        raise ValueError(f"k must have a number of heads that divides q's {heads}, got {kv_heads}.")
