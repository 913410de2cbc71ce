"""Sequences of any lengths in one call, end to end and without padding ("varlen").

The rows of all sequences stand one after the other, (total, H, d), as a projection leaves them, and
``cu_seqlens`` says where each begins: sequence b owns rows cu_seqlens[b] up to cu_seqlens[b + 1].
Nobody looks into another sequence, no tile is computed for padding. The kernels are those of
`attention_op.flash_attention`: a program looks up where its sequence begins, and how long it is.

Source: Krell et al. 2021 (arXiv:2107.02027, packing without cross-contamination); names and layout
are those of the varlen functions in FlashAttention's library.
"""

from __future__ import annotations

from itertools import pairwise

import torch

from course_lib.kernels.attention_op import attend, check_bends, checked_scale
from course_lib.kernels.flash_forward import check_tensors


def flash_attention_packed(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    *,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    slopes: torch.Tensor | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """`flash_attention` of each sequence of a packed batch, forward and backward.

    Args:
        q: (total_q, H, d), dtypes and d as in `flash_attention`; any strides.
        k: (total_k, H_kv, d); H_kv divides H.
        v: like k.
        cu_seqlens_q: (B + 1,), int32 or int64, on q's device: from 0, never falling, up to total_q
            or less. A sequence may be empty.
        cu_seqlens_k: likewise, of the keys. A sequence may have more or fewer keys than queries.
        max_seqlen_q: at least as long as the longest sequence of queries: rows beyond are not
            computed. None: it is read from cu_seqlens_q, which is checked then; that waits for the
            GPU, and `torch.compile` cannot do it.
        max_seqlen_k: likewise, of the keys.
        causal: aligned at each sequence's end, as in `flash_attention`.
        window: as in `flash_attention`, and so are scale, softcap, sinks and slopes.
        scale: of the scores; default d ** -0.5.
        softcap: scores s become softcap * tanh(s / softcap).
        sinks: (H,), float32 or q's dtype.
        slopes: (H,), float32.
        return_lse: also return the log of the sum of exponentials.

    Returns:
        o, (total_q, H, d) in q's dtype, contiguous; with ``return_lse`` also lse, (H, total_q),
        float32, natural log. A row without any key has o = 0 and lse = -inf, or the sink. A row
        that no sequence owns has o = 0, lse = -inf and no gradient. Gradients are the same bits in
        every run.

    Raises:
        TypeError: for an argument that is no tensor, or for dtypes that differ or do not work.
        ValueError: for shapes, devices or numbers that do not fit.
    """
    q, k, v = (in_a_batch_of_one(name, x) for name, x in (("q", q), ("k", k), ("v", v)))
    check_tensors(q, k, v)
    scale = checked_scale(q, causal, window, scale)
    check_bends(q, softcap, sinks, slopes)
    max_q = checked_starts("q", cu_seqlens_q, max_seqlen_q, q)
    max_k = checked_starts("k", cu_seqlens_k, max_seqlen_k, k)
    if cu_seqlens_q.shape != cu_seqlens_k.shape:
        raise ValueError(
            f"cu_seqlens_k must have cu_seqlens_q's shape {tuple(cu_seqlens_q.shape)}, "
            f"got {tuple(cu_seqlens_k.shape)}."
        )
    extras = (sinks, slopes, cu_seqlens_q, cu_seqlens_k, softcap, max_q, max_k)
    o, lse = attend(q, k, v, bool(causal), window, scale, *extras)
    return (o[0].transpose(0, 1), lse[0]) if return_lse else o[0].transpose(0, 1)


def in_a_batch_of_one(name: str, x: torch.Tensor) -> torch.Tensor:
    """Return (total, H, d) as (1, H, total, d), which is how the operator takes it."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(x).__name__}.")
    if x.dim() != 3:
        raise ValueError(
            f"{name} must have shape (total, H, head_dim), three axes, got {tuple(x.shape)}."
        )
    return x.transpose(0, 1)[None]


def checked_starts(of: str, cu: torch.Tensor, longest: int | None, x: torch.Tensor) -> int:
    """Return the longest length; raise one clear sentence for starts that do not fit x, which is
    (1, H, total, d). What they say is looked at only where the longest is not given."""
    name, total = f"cu_seqlens_{of}", x.shape[2]
    if not isinstance(cu, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(cu).__name__}.")
    if cu.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"{name} must be int32 or int64, got {cu.dtype}.")
    if cu.dim() != 1 or len(cu) == 0 or not cu.is_contiguous():
        raise ValueError(
            f"{name} must have shape (B + 1,), one number after the other, got {tuple(cu.shape)}."
        )
    if cu.device != x.device:
        raise ValueError(f"{name} must be on q's device {x.device}, got {cu.device}.")
    if longest is None:
        starts = cu.tolist()
        if starts[0] != 0 or starts != sorted(starts) or starts[-1] > total:
            raise ValueError(f"{name} must begin with 0, never fall and end at most at {total}.")
        return max((b - a for a, b in pairwise(starts)), default=0)
    if isinstance(longest, bool) or not isinstance(longest, int | torch.SymInt) or longest < 0:
        raise ValueError(
            f"max_seqlen_{of} must be a whole number, at least 0, or None, got {longest!r}."
        )
    return longest
