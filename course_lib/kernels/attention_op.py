"""The public operator: attention that trains, compiles and takes every shape.

`flash_attention` checks its input and calls an operator registered with ``torch.library``, so that
``torch.compile`` sees one opaque node with known shapes (a fake tensor suffices) and autograd finds
the backward pass, an operator of its own.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from course_lib.kernels.attention_backward import flash_backward, new_gradient
from course_lib.kernels.attention_forward import forward, new_outputs
from course_lib.kernels.flash_forward import check_tensors
from course_lib.kernels.scores import Extras

HEAD_DIMS = (16, 32, 64, 96, 128, 256)


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    slopes: torch.Tensor | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Attention, softmax(scale q k^T) v, without ever writing the scores down.

    With softcap, sinks or slopes the plain kernel does it, and none that was written for Hopper.
    (`course_lib.kernels.scores` says what these are, and where they come from.)

    Args:
        q: (B, H, n_q, d), d in 16, 32, 64, 96, 128, 256; float32 (true float32, no TF32), float16
            or (on a GPU only) bfloat16; any strides.
        k: (B, H_kv, n_k, d); H_kv divides H (grouped-query attention).
        v: like k.
        causal: query i sees key j iff j <= i + n_k - n_q (aligned at the end).
        window: with ``causal``: a query sees at most this many keys back, its own included.
        scale: of the scores; default d ** -0.5.
        softcap: scores s become softcap * tanh(s / softcap).
        sinks: (H,), float32 or q's dtype: learned, one more score in each row of its head, without
            a value. It is neither scaled nor capped nor masked.
        slopes: (H,), float32: constants; slope * |i + n_k - n_q - j| is taken off the score of
            query i and key j, after the cap.
        return_lse: also return the log of the sum of exponentials.

    Returns:
        o, (B, H, n_q, d) in q's dtype, contiguous; with ``return_lse`` also lse, (B, H, n_q),
        float32, natural log, sinks included. A row without any key has o = 0 and lse = -inf, or
        the sink. Both can be differentiated once, by q, k, v and sinks. On Hopper the last bit of a
        large call's gradient by q can differ from run to run, unless
        ``torch.use_deterministic_algorithms(True)`` was called.

    Raises:
        TypeError: for an argument that is no tensor, or for dtypes that differ or do not work.
        ValueError: for shapes, devices or numbers that do not fit.
    """
    check_tensors(q, k, v)
    scale = checked_scale(q, causal, window, scale)
    extras: tuple = ()
    if not (softcap is None and sinks is None and slopes is None):
        check_bends(q, softcap, sinks, slopes)
        extras = (sinks, slopes, None, None, softcap)
    o, lse = attend(q, k, v, bool(causal), window, scale, *extras)
    return (o, lse) if return_lse else o


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *settings: Any) -> Any:
    """Return o and lse of checked inputs, past the dispatcher where nobody watches."""
    call = _attention if somebody_watches(q, k, v) else _differentiable
    return call(q, k, v, *settings)


def checked_scale(q: torch.Tensor, causal: bool, window: int | None, scale: float | None) -> float:
    """Return the scale that counts; raise one clear sentence for head_dim, window or scale."""
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
    return q.shape[-1] ** -0.5 if scale is None else float(scale)


def check_bends(
    q: torch.Tensor,
    softcap: float | None,
    sinks: torch.Tensor | None,
    slopes: torch.Tensor | None,
) -> None:
    """Raise one clear sentence for what does not fit q, (B, H, n_q, d)."""
    if softcap is not None and not (math.isfinite(softcap) and softcap > 0):
        raise ValueError(f"softcap must be a finite number above 0, or None, got {softcap!r}.")
    for name, x, dtypes in (
        ("sinks", sinks, {torch.float32, q.dtype}),
        ("slopes", slopes, {torch.float32}),
    ):
        if x is None:
            continue
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} must be a torch.Tensor or None, got {type(x).__name__}.")
        if x.dtype not in dtypes:
            known = " or ".join(sorted(map(str, dtypes)))
            raise TypeError(f"{name} must be {known}, got {x.dtype}.")
        if x.shape != q.shape[1:2] or not x.is_contiguous():
            raise ValueError(
                f"{name} must have shape ({q.shape[1]},), one number after the other for each "
                f"query head, got {tuple(x.shape)} with strides {x.stride()}."
            )
        if x.device != q.device:
            raise ValueError(f"{name} must be on q's device {q.device}, got {x.device}.")
    if slopes is not None and slopes.requires_grad:
        raise ValueError("slopes get no gradient, they are constants: pass slopes.detach().")


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
_SETTINGS = (
    "bool causal, SymInt? window, float scale, "
    # `Extras`: what is not given at the end is left out, and costs nothing
    "Tensor? sinks=None, Tensor? slopes=None, Tensor? cu_q=None, Tensor? cu_k=None, "
    "float? softcap=None, SymInt max_q=0, SymInt max_k=0"
)
torch.library.define(
    "flashattention_course::attention", f"({_INPUTS}, {_SETTINGS}) -> (Tensor, Tensor)"
)
torch.library.define(
    "flashattention_course::attention_backward",
    f"({_INPUTS}, Tensor o, Tensor lse, Tensor do, Tensor? dlse, {_SETTINGS})"
    " -> (Tensor, Tensor, Tensor, Tensor)",
)
_attention = torch.ops.flashattention_course.attention.default
_attention_backward = torch.ops.flashattention_course.attention_backward.default
torch.library.impl("flashattention_course::attention", ("cpu", "cuda"), forward)


@torch.library.register_fake("flashattention_course::attention")
def _(q, k, v, causal, window, scale, *extras):
    return new_outputs(q, packed=Extras(*extras).cu_q is not None)


def _backward(q, k, v, o, lse, do, dlse, causal, window, scale, *extras):
    settings = {"causal": causal, "window": window, "scale": scale, "extra": Extras(*extras)}
    return flash_backward(q, k, v, o, lse, do, dlse, **settings)


def _no_none(dq, dk, dv, dsinks):
    """Return what an operator can: a tensor without elements stands for no gradient."""
    return dq, dk, dv, dq.new_empty(0) if dsinks is None else dsinks


@torch.library.impl("flashattention_course::attention_backward", ("cpu", "cuda"))
def _(*inputs):
    return _no_none(*_backward(*inputs))


@torch.library.register_fake("flashattention_course::attention_backward")
def _(q, k, v, o, lse, do, dlse, causal, window, scale, *extras):
    extra = Extras(*extras)
    gradients = (new_gradient(x, packed=extra.cu_q is not None) for x in (q, k, v))
    dsinks = None if extra.sinks is None else torch.empty_like(extra.sinks)
    return _no_none(*gradients, dsinks)


def _below_autograd(q, k, v, *settings):
    if not somebody_watches(q, k, v):
        return forward(q, k, v, *settings)
    with torch._C._AutoDispatchBelowAutograd():
        return _attention(q, k, v, *settings)


def _differentiable(q, k, v, causal, window, scale, *extras):
    learned = (q, k, v, *(x for x in extras[:1] if x is not None))  # the sinks come first
    if torch.is_grad_enabled() and any(x.requires_grad for x in learned):
        return _Differentiable.apply(q, k, v, causal, window, scale, *extras)
    return _below_autograd(q, k, v, causal, window, scale, *extras)


class _Differentiable(torch.autograd.Function):
    """The operator below autograd, and its backward pass, an operator too."""

    @staticmethod
    def forward(ctx, q, k, v, causal, window, scale, *extras):
        ctx.set_materialize_grads(False)  # no zeros for an lse that nobody used
        ctx.settings, ctx.numbers = (causal, window, scale), extras[4:]
        o, lse = _below_autograd(q, k, v, causal, window, scale, *extras)
        ctx.save_for_backward(q, k, v, o, lse, *extras[:4])  # in `Extras` tensors come first
        return o, lse

    @staticmethod
    def backward(ctx, do, dlse):
        q, k, v, o, lse, *tensors = ctx.saved_tensors
        do = torch.zeros_like(o) if do is None else do
        watched = torch.is_grad_enabled() or somebody_watches(q, k, v, o, lse, do)
        call = _attention_backward if watched else _backward
        extras = (*tensors, *ctx.numbers)
        dq, dk, dv, dsinks = call(q, k, v, o, lse, do, dlse, *ctx.settings, *extras)
        of_extras = (dsinks if tensors and tensors[0] is not None else None, *[None] * 6)
        return dq, dk, dv, None, None, None, *of_extras[: len(extras)]


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
