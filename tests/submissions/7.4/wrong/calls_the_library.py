# PyTorch's own attention, no kernel.
# Expected: property: is a Triton kernel
import torch


def my_flash_attention(q, k, v, *, causal=False, block_q=64, block_k=64):
    n_q, n_k = q.shape[-2], k.shape[-2]
    seen = torch.ones(n_q, n_k, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(n_k - n_q)
    s = (q.float() @ k.float().mT * q.shape[-1] ** -0.5).masked_fill(~seen, float("-inf"))
    o = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    return torch.nan_to_num(o), torch.logsumexp(s, -1)
