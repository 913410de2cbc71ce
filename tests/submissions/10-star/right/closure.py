# The ancestors are a closure: (I + A) to a high power; an added mask of 0 and -inf.
import torch
import torch.nn.functional as F


def tree_decode(q, k, v, parents):
    n_q, n_k = q.shape[2], k.shape[2]
    step = torch.eye(n_q)
    for child, parent in enumerate(parents.tolist()):
        if parent != -1:
            step[child, parent] = 1
    lines = torch.linalg.matrix_power(step, n_q) > 0
    drafts = torch.zeros(n_q, n_q, dtype=q.dtype).masked_fill(~lines, -torch.inf)
    mask = F.pad(drafts, (n_k - n_q, 0))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
