# torch.chunk cuts as the task does, and leaves the empty splits out; einsum; merged in pairs.
import torch


def merge(a, b):
    (o_a, lse_a), (o_b, lse_b) = a, b
    lse = torch.logaddexp(lse_a, lse_b)
    share = torch.exp(lse_a - lse)[..., None]
    return share * o_a + torch.exp(lse_b - lse)[..., None] * o_b, lse


def split_decode(q, k, v, splits):
    batch, heads, _, d = q.shape
    kv_heads = k.shape[1]
    grouped = q[:, :, 0].unflatten(1, (kv_heads, heads // kv_heads)) * d**-0.5
    parts = []
    for k_i, v_i in zip(torch.chunk(k, splits, dim=2), torch.chunk(v, splits, dim=2), strict=True):
        s = torch.einsum("bhgd,bhnd->bhgn", grouped, k_i)
        lse = s.logsumexp(dim=-1)
        o = torch.einsum("bhgn,bhnd->bhgd", torch.exp(s - lse[..., None]), v_i)
        parts.append((o.reshape(batch, heads, 1, d), lse.reshape(batch, heads, 1)))
    o, lse = parts[0]
    for part in parts[1:]:
        o, lse = merge((o, lse), part)
    while len(parts) < splits:
        parts.append((torch.zeros_like(o), torch.full_like(lse, -torch.inf)))
    return torch.stack([x for x, _ in parts]), torch.stack([x for _, x in parts]), o, lse
