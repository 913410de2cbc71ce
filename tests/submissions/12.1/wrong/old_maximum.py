# In tiles; the maximum is never raised: -inf - (-inf) is NaN in the first tile.
# Expected: misconception: -inf makes NaN of everything
import torch


def latent_decode(q_nope, q_rope, latent, k_rope, w_uk, w_uv):
    q_latent = (q_nope[:, :, None] @ w_uk)[:, :, 0]
    scale = (q_nope.shape[-1] + q_rope.shape[-1]) ** -0.5
    m = q_nope.new_full((*q_nope.shape[:2], 1), float("-inf"))
    l_sum = torch.zeros_like(m)
    acc = torch.zeros_like(q_latent)
    for c, r in zip(latent.split(64, 1), k_rope.split(64, 1), strict=True):
        s = (q_latent @ c.mT + q_rope @ r.mT) * scale
        m_new = m
        alpha = torch.exp(m - m_new)
        p = torch.exp(s - m_new)
        l_sum = l_sum * alpha + p.sum(-1, keepdim=True)
        acc = acc * alpha + p @ c
        m = m_new
    return (w_uv @ (acc / l_sum)[..., None])[..., 0]
