# exp(s - m) / exp(lse - m).
import torch


def rebuild_weights(q, k, lse, i, j, *, block_q, block_k):
    q, lse, k = q.split(block_q)[i], lse.split(block_q)[i], k.split(block_k)[j]
    s = torch.einsum("id,jd->ij", q, k).div(q.shape[-1] ** 0.5)
    m = torch.maximum(s.amax(1), lse)
    return torch.exp(s - m[:, None]) / torch.exp(lse - m)[:, None]
