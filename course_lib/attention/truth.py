"""The float64 answer that everything else in the course is judged against.

Independent of the other files on purpose: it shares no mask, no softmax and no tile with them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from course_lib.attention._shapes import check_qkv


def attention_float64(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    allowed: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
    slopes: Any = None,
    sinks: Any = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Attention in float64 on the inputs as they are, already rounded to their own dtype.

    q is (..., H, n_q, d), k is (..., H_kv, n_k, d), v is (..., H_kv, n_k, d_v): NumPy arrays or
    torch tensors of any dtype (bfloat16 too) on any device; H_kv divides H; 2-D means one head.
    ``causal`` is aligned at the end: query i sees key j iff j <= i + n_k - n_q. ``allowed`` is
    boolean and broadcasts to (..., H, n_q, n_k); given both, both must agree. ``scale`` None means
    1/sqrt(d).

    Scores s become softcap * tanh(s / softcap); then slope * |i + n_k - n_q - j| is taken off them.
    A sink is one more score in each row, neither scaled nor capped nor masked, without a value.
    ``slopes`` and ``sinks`` are (H,), for 2-D inputs one number.

    Returns o (..., H, n_q, d_v) and the natural-log lse (..., H, n_q), both float64. A row without
    any key has o = 0 and lse = -inf, or the sink. Raises ValueError for shapes that do not fit,
    TypeError for an ``allowed`` that is not boolean.
    """
    group = check_qkv(q, k, v)
    q, k, v = _to_numpy(q), _to_numpy(k), _to_numpy(v)
    if group > 1:
        k, v = (np.repeat(x, group, axis=-3) for x in (k, v))
    n_q, n_k = q.shape[-2], k.shape[-2]
    s = (1 / math.sqrt(q.shape[-1]) if scale is None else scale) * (q @ k.mT)
    if softcap is not None:
        s = softcap * np.tanh(s / softcap)
    if slopes is not None:
        places = np.arange(n_q)[:, None] + n_k - n_q
        s = s - _to_numpy(slopes)[..., None, None] * np.abs(places - np.arange(n_k))
    if causal:
        s[..., np.arange(n_k) > np.arange(n_q)[:, None] + n_k - n_q] = -np.inf
    if allowed is not None:
        s = np.where(_to_boolean(allowed), s, -np.inf)

    sink = -np.inf if sinks is None else _to_numpy(sinks)[..., None, None]
    m = np.maximum(s.max(axis=-1, keepdims=True, initial=-np.inf), sink)
    empty = m == -np.inf
    safe = np.where(empty, 0, m)
    p = np.exp(s - safe)
    l_sum = np.where(empty, 1, p.sum(axis=-1, keepdims=True) + np.exp(sink - safe))
    return (p @ v) / l_sum, (m + np.log(l_sum))[..., 0]


def packed_float64(
    q: Any, k: Any, v: Any, starts_q: Any, starts_k: Any, **settings: Any
) -> tuple[np.ndarray, np.ndarray]:
    """`attention_float64` of sequences that lie end to end and do not see each other.

    q is (total_q, H, d), k and v (total_k, H_kv, d). Sequence b is q[starts_q[b] : starts_q[b + 1]]
    and k[starts_k[b] : starts_k[b + 1]]; ``settings`` are those of one sequence.

    Returns o (total_q, H, d_v) and lse (H, total_q); 0 and -inf in rows of no sequence.
    """
    q, k, v = (_to_numpy(x).swapaxes(0, 1) for x in (q, k, v))
    o, lse = np.zeros((*q.shape[:2], v.shape[2])), np.full(q.shape[:2], -np.inf)
    bounds = (_to_numpy(starts).astype(int) for starts in (starts_q, starts_k))
    for i, i_end, j, j_end in zip(*(x for one in bounds for x in (one[:-1], one[1:])), strict=True):
        part = q[:, i:i_end], k[:, j:j_end], v[:, j:j_end]
        o[:, i:i_end], lse[:, i:i_end] = attention_float64(*part, **settings)
    return o.swapaxes(0, 1), lse


def _to_numpy(x: Any) -> np.ndarray:
    """Return x as float64; a tensor says so itself, so torch is not imported here."""
    if hasattr(x, "detach"):
        x = x.detach().cpu().double().numpy()
    return np.asarray(x, dtype=np.float64)


def _to_boolean(allowed: Any) -> np.ndarray:
    allowed = np.asarray(allowed.detach().cpu() if hasattr(allowed, "detach") else allowed)
    if allowed.dtype != bool:
        raise TypeError(f"allowed must be boolean (True: may look), got {allowed.dtype}")
    return allowed
