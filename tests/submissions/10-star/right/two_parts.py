# Two parts, as in 10.3: the cache without a mask, the drafts with one; merged.
import torch


def part(q, k, v, hidden=None):
    s = q @ k.mT * q.shape[-1] ** -0.5
    if hidden is not None:
        s = s.masked_fill(hidden, -torch.inf)
    lse = torch.logsumexp(s, -1, keepdim=True)
    return torch.exp(s - lse) @ v if k.shape[2] else torch.zeros_like(q), lse


def tree_decode(q, k, v, parents):
    n_q = q.shape[2]
    cached = k.shape[2] - n_q
    paths = []
    for i, parent in enumerate(parents.tolist()):
        paths.append({i} | (paths[parent] if parent >= 0 else set()))
    hidden = torch.tensor([[j not in path for j in range(n_q)] for path in paths])
    old, new = part(q, k[:, :, :cached], v[:, :, :cached]), None
    new = part(q, k[:, :, cached:], v[:, :, cached:], hidden)
    lse = torch.logaddexp(old[1], new[1])
    return torch.exp(old[1] - lse) * old[0] + torch.exp(new[1] - lse) * new[0]
