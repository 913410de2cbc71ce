# Nothing is multiplied out: scales on scores and weights, einsum, PyTorch's attention as measure.
import torch
import torch.nn.functional as F


def int8_cache(q, k, v):
    q, k, v = (x.to(torch.float32) for x in (q, k, v))
    kept = []
    for x in (k, v):
        scale = x.abs().max(dim=-1, keepdim=True).values / 127.0
        scale += scale == 0
        kept.append((x.div(scale).round_().clamp_(-127, 127).to(torch.int8), scale))
    (k8, k_scale), (v8, v_scale) = kept
    s = torch.einsum("bhqd,bhkd->bhqk", q, k8.float()) * k_scale.squeeze(-1).unsqueeze(2)
    p = (s * q.shape[-1] ** -0.5).softmax(-1) * v_scale.squeeze(-1).unsqueeze(2)
    o = torch.einsum("bhqk,bhkd->bhqd", p, v8.float())
    error = float((o - F.scaled_dot_product_attention(q, k, v)).abs().max())
    return o, error, kept[0], kept[1]
