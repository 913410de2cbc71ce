# Two parts, as in 10.3: the cache without a mask, the drafts with one; merged.
import torch


def part(q, k, v, hidden):
    s = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(hidden, -torch.inf)
    lse = torch.logsumexp(s, -1, keepdim=True)
    return torch.exp(s - lse) @ v, lse


def tree_decode(q, k, v, parents):
    n_q = q.shape[2]
    cached = k.shape[2] - n_q
    paths = []
    for i, parent in enumerate(parents.tolist()):
        paths.append({i} | (paths[parent] if parent >= 0 else set()))
    hidden = torch.tensor([[j not in path for j in range(n_q)] for path in paths])
    old, old_lse = part(q, k[:, :, :cached], v[:, :, :cached], torch.tensor(False))
    new, new_lse = part(q, k[:, :, cached:], v[:, :, cached:], hidden)
    lse = torch.logaddexp(old_lse, new_lse)
    return torch.exp(old_lse - lse) * old + torch.exp(new_lse - lse) * new
