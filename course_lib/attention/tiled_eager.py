"""Tiled attention in eager PyTorch: the algorithm of ``tiled`` without a fused kernel.

Every operator below is a kernel launch of its own, so s, p, m, l_sum and o travel through HBM for
every tile. Counted with a ledger: Q is read T_k times, K and V T_q times, and the state moves as
well. Tiles alone save no traffic; keeping them on the chip does (lessons 04 and 07).

Source: as ``tiled``.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from course_lib.attention._shapes import check_block, check_qkv


def tiled_eager(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_q: int = 64,
    block_k: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention tile by tile on tensors.

    q is (..., H, n_q, d), k is (..., H, n_k, d), v is (..., H, n_k, d_v), any floating dtype.
    ``causal`` is aligned at the end; ``scale`` None means 1/sqrt(d).

    Returns o (..., H, n_q, d_v) in the dtype of q and the natural-log lse (..., H, n_q). The state
    and lse are float32, or float64 if q is. A row without any key has o = 0 and lse = -inf.
    Raises ValueError for shapes that do not fit, grouped heads included.
    """
    if check_qkv(q, k, v) != 1:
        raise ValueError(f"k must have as many heads as q, {q.shape[-3]}, got {k.shape[-3]}")
    check_block("block_q", block_q)
    check_block("block_k", block_k)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    n_q, n_k = q.shape[-2], k.shape[-2]
    lead, state = q.shape[:-2], torch.promote_types(q.dtype, torch.float32)
    like: dict[str, Any] = {"dtype": state, "device": q.device}
    out = torch.empty((*lead, n_q, v.shape[-1]), dtype=q.dtype, device=q.device)
    lse = torch.empty((*lead, n_q), **like)

    for i in range(0, n_q, block_q):
        rows = slice(i, min(i + block_q, n_q))
        block = (*lead, rows.stop - i)
        m = torch.full(block, -math.inf, **like)  # (..., block_q)
        l_sum = torch.zeros(block, **like)
        o = torch.zeros((*block, v.shape[-1]), **like)

        for j in range(0, n_k, block_k):
            cols = slice(j, min(j + block_k, n_k))
            if causal and rows.stop - 1 + n_k - n_q < j:
                break  # the last query stands before this and every later key
            q_tile = q[..., rows, :].to(state)  # fetched anew for each K tile
            s = scale * (q_tile @ k[..., cols, :].to(state).mT)
            if causal and i + n_k - n_q < cols.stop - 1:
                position = torch.arange(rows.start, rows.stop, device=q.device) + n_k - n_q
                key = torch.arange(cols.start, cols.stop, device=q.device)
                s = s.masked_fill(key > position[:, None], -math.inf)
            m_new = torch.maximum(m, s.amax(dim=-1))
            shift = m_new.masked_fill(m_new == -math.inf, 0)  # no key yet: avoid -inf - -inf
            alpha = torch.exp(m - shift)
            p = torch.exp(s - shift[..., None])
            l_sum = alpha * l_sum + p.sum(dim=-1)
            o = alpha[..., None] * o + p @ v[..., cols, :].to(state)
            m = m_new

        l_sum = l_sum.masked_fill(l_sum == 0, 1)
        out[..., rows, :] = (o / l_sum[..., None]).to(q.dtype)
        lse[..., rows] = m + torch.log(l_sum)
    return out, lse
