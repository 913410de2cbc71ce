# Tensor descriptors made in the kernel; they mask the ends themselves.
# Compiled
import torch
import triton
import triton.language as tl


@triton.jit
def descriptor_kernel(
    q, k, v, o, lse, n_q, n_k, scale,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    tile, head = tl.program_id(0), tl.program_id(1)
    size: tl.constexpr = HEAD_DIM
    k_desc = tl.make_tensor_descriptor(
        k + head * n_k * HEAD_DIM, [n_k, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_K, size]
    )
    v_desc = tl.make_tensor_descriptor(
        v + head * n_k * HEAD_DIM, [n_k, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_K, size]
    )
    q_desc = tl.make_tensor_descriptor(
        q + head * n_q * HEAD_DIM, [n_q, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_Q, size]
    )
    o_desc = tl.make_tensor_descriptor(
        o + head * n_q * HEAD_DIM, [n_q, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_Q, size]
    )
    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    q_tile = q_desc.load([tile * BLOCK_Q, 0])
    m = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    l_sum = tl.zeros((BLOCK_Q,), tl.float32)
    acc = tl.zeros((BLOCK_Q, HEAD_DIM), tl.float32)
    end = tl.minimum(n_k, (tile + 1) * BLOCK_Q + n_k - n_q) if CAUSAL else n_k
    for start in range(0, end, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)
        k_tile = k_desc.load([start, 0])
        v_tile = v_desc.load([start, 0])
        s = tl.dot(q_tile, k_tile.T, input_precision="ieee") * scale
        s = tl.where(keys[None, :] < n_k, s, float("-inf"))
        if CAUSAL:
            s = tl.where(keys[None, :] <= (rows + n_k - n_q)[:, None], s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        alpha = tl.exp(m - m_safe)
        p = tl.exp(s - m_safe[:, None])
        l_sum = l_sum * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new
    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)
    o_desc.store([tile * BLOCK_Q, 0], (acc / l_safe[:, None]).to(o.dtype.element_ty))
    tl.store(lse + head * n_q + rows, m + tl.log(l_safe), mask=rows < n_q)


def scratch(size, alignment, stream):
    """Memory for the descriptors that a program makes (a GPU asks for it)."""
    return torch.empty(size, dtype=torch.int8, device="cuda")


def my_flash_attention(q, k, v, *, causal=False, block_q=64, block_k=64):
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    b, h, n_q, d = q.shape
    o = torch.empty_like(q)
    lse = torch.empty((b, h, n_q), dtype=torch.float32, device=q.device)
    if q.is_cuda:
        triton.set_allocator(scratch)
    descriptor_kernel[(triton.cdiv(n_q, block_q), b * h)](
        q, k, v, o, lse, n_q, k.shape[2], d**-0.5,
        HEAD_DIM=d, BLOCK_Q=block_q, BLOCK_K=block_k, CAUSAL=causal,
    )  # fmt: skip
    return o, lse
