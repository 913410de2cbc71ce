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
        differentiated once. On Hopper the last bit of a large call's gradient by q can differ from
        run to run, unless ``torch.use_deterministic_algorithms(True)`` was called.

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
    call = _attention if somebody_watches(q, k, v) else _differentiable
    o, lse = call(q, k, v, bool(causal), window, scale)
    return (o, lse) if return_lse else o


def somebody_watches(*tensors: torch.Tensor) -> bool:
    """Return whether the dispatcher must see the call: a compiler, a mode, a kind of tensor of its
    own. Where nobody does, to go past it twice is half of a small call's host time."""
    return (
        torch.compiler.is_compiling()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._are_functorch_transforms_active()
        or any(type(x) not in (torch.Tensor, torch.nn.Parameter) for x in tensors)
    )


# What the dispatcher calls. The decorator custom_op of torch.library would write the next lines
# itself, and take 50 us longer for it at every call, 100 with gradients.

_INPUTS = "Tensor q, Tensor k, Tensor v"
_SETTINGS = "bool causal, SymInt? window, float scale"
torch.library.define(
    "flashattention_course::attention", f"({_INPUTS}, {_SETTINGS}) -> (Tensor, Tensor)"
)
torch.library.define(
    "flashattention_course::attention_backward",
    f"({_INPUTS}, Tensor o, Tensor lse, Tensor do, Tensor? dlse, {_SETTINGS})"
    " -> (Tensor, Tensor, Tensor)",
)
_attention = torch.ops.flashattention_course.attention.default
_attention_backward = torch.ops.flashattention_course.attention_backward.default
torch.library.impl("flashattention_course::attention", ("cpu", "cuda"), forward)


@torch.library.register_fake("flashattention_course::attention")
def _(q, k, v, causal, window, scale):
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    return o, torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)


def _backward(q, k, v, o, lse, do, dlse, causal, window, scale):
    return flash_backward(q, k, v, o, lse, do, dlse, causal=causal, window=window, scale=scale)


torch.library.impl("flashattention_course::attention_backward", ("cpu", "cuda"), _backward)


@torch.library.register_fake("flashattention_course::attention_backward")
def _(q, k, v, o, lse, do, dlse, causal, window, scale):
    return tuple(torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))


def _below_autograd(q, k, v, causal, window, scale):
    if not somebody_watches(q, k, v):
        return forward(q, k, v, causal, window, scale)
    with torch._C._AutoDispatchBelowAutograd():
        return _attention(q, k, v, causal, window, scale)


def _differentiable(q, k, v, causal, window, scale):
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        return _Differentiable.apply(q, k, v, causal, window, scale)
    return _below_autograd(q, k, v, causal, window, scale)


class _Differentiable(torch.autograd.Function):
    """The operator below autograd, and its backward pass, an operator too."""

    @staticmethod
    def forward(ctx, q, k, v, causal, window, scale):
        ctx.set_materialize_grads(False)  # no zeros for an lse that nobody used
        ctx.settings = (causal, window, scale)
        o, lse = _below_autograd(q, k, v, causal, window, scale)
        ctx.save_for_backward(q, k, v, o, lse)
        return o, lse

    @staticmethod
    def backward(ctx, do, dlse):
        q, k, v, o, lse = ctx.saved_tensors
        do = torch.zeros_like(o) if do is None else do
        watched = torch.is_grad_enabled() or somebody_watches(q, k, v, o, lse, do)
        call = _attention_backward if watched else _backward
        return *call(q, k, v, o, lse, do, dlse, *ctx.settings), None, None, None


class _Once(torch.autograd.Function):
    """The backward operator: it cannot be differentiated itself."""

    @staticmethod
    def forward(ctx, *inputs):
        with torch._C._AutoDispatchBelowAutograd():
            return _attention_backward(*inputs)

    @staticmethod
    def backward(ctx, *_):
        raise RuntimeError(
            "flash_attention can be differentiated once: second derivatives (create_graph=True) "
            "are not implemented; use course_lib.attention or PyTorch's math backend for them."
        )


torch.library.impl("flashattention_course::attention", "Autograd", _differentiable)
torch.library.impl("flashattention_course::attention_backward", "Autograd", _Once.apply)
