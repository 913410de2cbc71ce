"""The public operator: attention that trains, compiles and takes every shape.

`flash_attention` checks its input and calls an operator registered with ``torch.library``, so that
``torch.compile`` sees one opaque node with known shapes (a fake tensor suffices) and autograd finds
the backward pass, an operator of its own.
"""

from __future__ import annotations

import math

import torch

from course_lib.kernels.attention_backward import flash_backward
from course_lib.kernels.attention_forward import forward
from course_lib.kernels.flash_forward import check_tensors

HEAD_DIMS = (16, 32, 64, 96, 128, 256)


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Attention, softmax(scale q k^T) v, without ever writing the scores down.

    Args:
        q: (B, H, n_q, d), d in 16, 32, 64, 96, 128, 256; float32 (true float32, no TF32), float16
            or (on a GPU only) bfloat16; any strides.
        k: (B, H_kv, n_k, d); H_kv divides H (grouped-query attention).
        v: like k.
        causal: query i sees key j iff j <= i + n_k - n_q (aligned at the end).
        window: with ``causal``: a query sees at most this many keys back, its own included.
        scale: of the scores; default d ** -0.5.
        return_lse: also return the log of the sum of exponentials.

    Returns:
        o, (B, H, n_q, d) in q's dtype, contiguous; with ``return_lse`` also lse, (B, H, n_q),
        float32, natural log. A row without any key has o = 0 and lse = -inf. Both can be
        differentiated once.

    Raises:
        TypeError: for an argument that is no tensor, or for dtypes that differ or do not work.
        ValueError: for shapes, devices, window or scale that do not fit.
    """
    check_tensors(q, k, v)
    if q.shape[-1] not in HEAD_DIMS:
        known = ", ".join(map(str, HEAD_DIMS))
        raise ValueError(f"head_dim must be one of {known}, got {q.shape[-1]}.")
    if window is not None:
        if isinstance(window, bool) or not isinstance(window, int) or window < 1:
            raise ValueError(f"window must be a whole number, at least 1, or None, got {window!r}.")
        if not causal:
            raise ValueError("window needs causal=True: it counts keys back from the query.")
    if scale is not None and not math.isfinite(scale):
        raise ValueError(f"scale must be a finite number, got {scale!r}.")
    scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
    o, lse = _attention(q, k, v, bool(causal), window, scale)
    return (o, lse) if return_lse else o


@torch.library.custom_op("flashattention_course::attention", mutates_args=())
def _attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    window: int | None,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    return forward(q, k, v, causal, window, scale)


@_attention.register_fake
def _(q, k, v, causal, window, scale):
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    return o, torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)


@torch.library.custom_op("flashattention_course::attention_backward", mutates_args=())
def _attention_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    dlse: torch.Tensor,
    causal: bool,
    window: int | None,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return flash_backward(q, k, v, o, lse, do, dlse, causal=causal, window=window, scale=scale)


@_attention_backward.register_fake
def _(q, k, v, o, lse, do, dlse, causal, window, scale):
    return tuple(torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))


def _save(ctx, inputs, output):
    q, k, v, ctx.causal, ctx.window, ctx.scale = inputs
    ctx.save_for_backward(q, k, v, *output)


def _differentiate(ctx, do, dlse):
    q, k, v, o, lse = ctx.saved_tensors
    grads = _attention_backward(q, k, v, o, lse, do, dlse, ctx.causal, ctx.window, ctx.scale)
    return *grads, None, None, None


def _refuse(ctx, *_):
    raise RuntimeError(
        "flash_attention can be differentiated once: second derivatives (create_graph=True) are "
        "not implemented; use course_lib.attention or PyTorch's math backend for them."
    )


_attention.register_autograd(_differentiate, setup_context=_save)
_attention_backward.register_autograd(_refuse)
