# Goes over the keys in 26 tiles with an online softmax: q is read again for each of them.
import torch


def tree_decode(q, k, v, parents):
    n_q, n_k = q.shape[2], k.shape[2]
    seen = torch.eye(n_q, dtype=torch.bool)
    for i, parent in enumerate(parents.tolist()):
        if parent >= 0:
            seen[i] |= seen[parent]
    seen = torch.cat((torch.ones(n_q, n_k - n_q, dtype=torch.bool), seen), 1)
    m = q.new_full((*q.shape[:3], 1), -torch.inf)
    l_sum, o = torch.zeros_like(m), torch.zeros_like(q)
    size = -(-n_k // 26)
    for start in range(0, n_k, size):
        keys = slice(start, start + size)
        s = q @ k[:, :, keys].mT * q.shape[-1] ** -0.5
        s = s.masked_fill(~seen[:, keys], -torch.inf)
        new = torch.maximum(m, s.amax(-1, keepdim=True))
        safe = new.masked_fill(new == -torch.inf, 0.0)
        p, alpha = (s - safe).exp(), (m - safe).exp()
        l_sum = l_sum * alpha + p.sum(-1, keepdim=True)
        o = o * alpha + p @ v[:, :, keys]
        m = new
    return o / l_sum
