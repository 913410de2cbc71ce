"""The inputs on which attention is tried: ordinary ones, and those that expose mistakes.

Each function returns ``(q, k, v)`` as float32 NumPy arrays, shapes ``(..., n, d)``. The list is
the course's standard: ragged tiles, N_q != N_k, large and very negative scores, maxima that rise
or fall along the row, values far from zero, strided memory, empty rows, a single key.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

Triple = tuple[np.ndarray, np.ndarray, np.ndarray]


def draw(
    rng: Generator, n_q: int, n_k: int, d: int, *, heads: tuple[int, ...] = (), size: float = 1.0
) -> Triple:
    """Return standard normal q, k, v; q and k are multiplied by ``size``."""
    q = size * rng.standard_normal((*heads, n_q, d))
    k = size * rng.standard_normal((*heads, n_k, d))
    v = rng.standard_normal((*heads, n_k, d)) + 0.5  # a mean of its own: mean(V) is not zero
    return q.astype(np.float32), k.astype(np.float32), v.astype(np.float32)


def shifted(rng: Generator, n_q: int, n_k: int, d: int, by: float, **kwargs: Any) -> Triple:
    """Return inputs whose scores q·k/sqrt(d) all lie near ``by`` (-150: a max from 0 is NaN)."""
    q, k, v = draw(rng, n_q, n_k, d, **kwargs)
    root = np.float32(np.sqrt(abs(by) * np.sqrt(d)))
    q[..., 0], k[..., 0] = root, np.sign(by) * root
    return q, k, v


def sloped(rng: Generator, n_q: int, n_k: int, d: int, rise: float, **kwargs: Any) -> Triple:
    """Return inputs whose scores climb (``rise`` > 0) or fall along the row by about ``rise``."""
    q, k, v = draw(rng, n_q, n_k, d, **kwargs)
    q[..., 0] = np.sqrt(d)
    k[..., 0] = np.linspace(0, rise, n_k, dtype=np.float32)
    return q, k, v


def far_values(rng: Generator, n_q: int, n_k: int, d: int, **kwargs: Any) -> Triple:
    """Return uniform scores with V near 100: a half-precision accumulator overflows or drifts."""
    q, k, v = draw(rng, n_q, n_k, d, **kwargs)
    return 0 * q, k, v + 100


def as_tensors(arrays: Triple, dtype: str = "float32", *, strided: bool = False) -> tuple[Any, ...]:
    """Return torch tensors of ``dtype``; ``strided`` makes (B, H, N, d) views of (B, N, H, d)."""
    import torch

    tensors = tuple(torch.from_numpy(a).to(getattr(torch, dtype)) for a in arrays)
    if strided:
        tensors = tuple(t.transpose(1, 2).contiguous().transpose(1, 2) for t in tensors)
    return tensors
