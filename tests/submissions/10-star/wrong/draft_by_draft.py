# Each draft alone: the cache is read once for each.
# Expected: property: reads each cached byte once
import torch
import torch.nn.functional as F


def tree_decode(q, k, v, parents):
    n_q, n_k = q.shape[2], k.shape[2]
    rows = []
    for i in range(n_q):
        seen, j = torch.ones(1, n_k, dtype=torch.bool), i
        seen[:, n_k - n_q :] = False
        while j >= 0:
            seen[0, n_k - n_q + j] = True
            j = int(parents[j])
        rows.append(F.scaled_dot_product_attention(q[:, :, i : i + 1], k, v, attn_mask=seen))
    return torch.cat(rows, 2)
