"""The shape contract that every attention of this package shares (NumPy arrays or tensors)."""

from __future__ import annotations

from numbers import Integral
from typing import Any


def check_qkv(q: Any, k: Any, v: Any) -> int:
    """Check the shapes of q, k, v and return how many query heads share one key/value head.

    q is (..., H, n_q, d), k is (..., H_kv, n_k, d), v is (..., H_kv, n_k, d_v); H_kv divides H
    (grouped-query attention, Ainslie et al. 2023). Without a head axis (2-D) the answer is 1.
    Raises ValueError naming the argument that does not fit.
    """
    q_shape, k_shape, v_shape = tuple(q.shape), tuple(k.shape), tuple(v.shape)
    if len(q_shape) < 2:
        raise ValueError(f"q must have shape (..., n_q, head_dim), got {q_shape}")
    if len(k_shape) != len(q_shape) or k_shape[-1] != q_shape[-1]:
        raise ValueError(
            f"k must have as many axes and the same head_dim as q {q_shape}, got {k_shape}"
        )
    if v_shape[:-1] != k_shape[:-1]:
        raise ValueError(f"v must match k {k_shape} in every axis but the last, got {v_shape}")
    if len(q_shape) == 2:
        return 1
    heads, kv_heads = q_shape[-3], k_shape[-3]
    if q_shape[:-3] != k_shape[:-3]:
        raise ValueError(f"k must have the batch axes of q {q_shape}, got {k_shape}")
    if kv_heads == 0 or heads % kv_heads:
        raise ValueError(f"k must have a number of heads that divides q's {heads}, got {kv_heads}")
    return heads // kv_heads


def check_block(name: str, block: int) -> None:
    """Raise ValueError unless ``block``, the tile rows called ``name``, is an int of at least 1."""
    if isinstance(block, bool) or not isinstance(block, Integral) or block < 1:
        raise ValueError(f"{name} must be a whole number of rows, at least 1, got {block!r}")
