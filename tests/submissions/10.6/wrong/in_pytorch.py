# Merges in PyTorch.
# Expected: property: is a Triton kernel
import torch


def merge_splits(o_parts, lse_parts):
    lse = torch.logsumexp(lse_parts, 0)
    weights = torch.where(torch.isneginf(lse_parts), 0.0, torch.exp(lse_parts - lse))
    return (weights[..., None] * o_parts).sum(0), lse
