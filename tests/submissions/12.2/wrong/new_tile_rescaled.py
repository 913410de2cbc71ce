# In tiles; what is new is multiplied by alpha too, which is 0 in the first tile.
# Expected: misconception: the new tile is rescaled as well
import torch


def quantise(x):
    scale = x.abs().amax(-1, keepdim=True) / 127
    scale[scale == 0] = 1
    return (x / scale).round().to(torch.int8), scale


def int8_cache(q, k, v):
    q, k, v = q.float(), k.float(), v.float()
    k_rows, v_rows = quantise(k), quantise(v)
    m = torch.full_like(q[..., :1], float("-inf"))
    l_sum = torch.zeros_like(m)
    acc = torch.zeros_like(q)
    for start in range(0, k.shape[2], 64):
        tokens = slice(start, start + 64)
        k8, k_scale, v8, v_scale = (x[:, :, tokens].float() for x in (*k_rows, *v_rows))
        s = q @ k8.mT * k_scale.mT * q.shape[-1] ** -0.5
        m_new = torch.maximum(m, s.amax(-1, keepdim=True))
        alpha = torch.exp(m - m_new)
        p = torch.exp(s - m_new)
        l_sum = l_sum * alpha + p.sum(-1, keepdim=True)
        acc = (acc + (p * v_scale.mT) @ v8) * alpha
        m = m_new
    o = acc / l_sum
    exact = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v
    return o, (o - exact).abs().max(), k_rows, v_rows
