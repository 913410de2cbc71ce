"""Naive attention in eager PyTorch, in the forms whose traffic lessons 01 and 02 count.

The same formula each time. Eager PyTorch runs one kernel per operator, and each kernel reads and
writes HBM, so *where the scale stands* changes how often an (n_q, n_k) matrix travels.
All take q (..., n_q, d), k and v (..., n_k, d) of one dtype and return (..., n_q, d).
"""

from __future__ import annotations

import math

import torch


def naive_eager(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Scale the scores: six trips of an (n_q, n_k) matrix.

    The matmul writes it, the division reads and writes, softmax reads and writes, and the second
    matmul reads it.
    """
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1) @ v


def naive_eager_four_trips(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Scale the small q instead: the division's two trips are gone, four are left."""
    return torch.softmax((q / math.sqrt(q.shape[-1])) @ k.mT, dim=-1) @ v


def naive_eager_einsum(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Index letters instead of matmuls: six trips again, only the spelling differs."""
    scores = torch.einsum("...id,...jd->...ij", q, k) / math.sqrt(q.shape[-1])
    return torch.einsum("...ij,...jd->...id", torch.softmax(scores, dim=-1), v)
