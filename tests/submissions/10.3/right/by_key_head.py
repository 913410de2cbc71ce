# A loop over sequences and key heads: a group's queries are rows of a matrix in 2-D.
import torch


def split_decode(q, k, v, splits):
    batch, heads, _, d = q.shape
    kv_heads, n_k = k.shape[1:3]
    group = heads // kv_heads
    size = -(n_k // -splits)
    o_parts = torch.zeros(splits, *q.shape, dtype=q.dtype)
    lse_parts = torch.full((splits, batch, heads, 1), float("-inf"), dtype=q.dtype)
    for b in range(batch):
        for head in range(kv_heads):
            mine = slice(head * group, (head + 1) * group)
            rows = q[b, mine, 0] / d**0.5
            for i, k_i in enumerate(k[b, head].split(size)):
                v_i = v[b, head, i * size : i * size + len(k_i)]
                s = rows @ k_i.T
                o_parts[i, b, mine, 0] = s.softmax(-1) @ v_i
                lse_parts[i, b, mine, 0] = s.logsumexp(-1)
    lse = lse_parts.logsumexp(0)
    o = torch.einsum("sbhi,sbhid->bhid", (lse_parts - lse).exp(), o_parts)
    return o_parts, lse_parts, o, lse
