"""Launch a kernel again without asking again what is known: most of a small call's host time.

Triton compiles a kernel for the type of each argument, and for whether a number is 1 or divisible
by 16 and an address divisible by 16. So it looks at every argument at every launch, and builds a
key of strings from what it saw: 20 us and more. `likeness` is a key that decides all of this and
costs little; under it `launch` keeps the compiled kernel (as Triton's tutorial 02 does).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

MOST = 4096  # calls of different shapes to remember; a server's lengths have no end
_known: dict[Hashable, tuple[Callable[..., None], list[Any]]] = {}
_decided: dict[Hashable, Any] = {}


def cdiv(a: int, b: int) -> int:
    """Divide and round up. (Triton's own, made for kernels too, takes 5 us on the host.)"""
    return -(-a // b)


def power_of_2(d: int) -> int:
    """Return the least power of two that is at least d, and at least 16."""
    return max(16, 1 << (d - 1).bit_length())


def multiprocessors(x: torch.Tensor) -> int:
    """Return how many SMs x's GPU has; 1 for a tensor on a CPU."""
    if not x.is_cuda:
        return 1
    return _multiprocessors_of(x.device)


@functools.cache
def _multiprocessors_of(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def on_device_of(x: torch.Tensor) -> AbstractContextManager:
    """Make x's GPU the current one: Triton launches there. Nothing to do on a CPU, or if it is."""
    if not x.is_cuda or torch.cuda.current_device() == x.device.index:
        return nullcontext()
    return torch.cuda.device_of(x)


def with_base(template: Any, x: torch.Tensor) -> Any:
    """Return a descriptor like ``template``, of x: the checks made once need not be made again."""
    other = object.__new__(type(template))
    other.__dict__.update(template.__dict__, base=x)
    return other


def likeness(tensors: Sequence[torch.Tensor], *settings: Hashable) -> Hashable | None:
    """Return what two calls must share to start the same machine code.

    That is device, dtypes, shapes and strides of ``tensors`` and every setting that is not a
    float. None (look at every launch) on a CPU, and where an address is not divisible by 16.
    """
    found = [tensors[0].device, *settings]
    for x in tensors:
        if not x.is_cuda or x.data_ptr() % 16:
            return None
        found += (x.shape, x.stride(), x.dtype)
    return tuple(found)


def remembered(like: Hashable | None, decide: Callable[..., Any], *args: Any) -> Any:
    """Return ``decide(*args)``, asked once for all calls that are alike; each time if None."""
    if like is None:
        return decide(*args)
    key = decide, like
    try:  # not asked first: another thread, autograd's, may clear it in between
        return _decided[key]
    except KeyError:
        if len(_decided) >= MOST:
            _decided.clear()
        return _decided.setdefault(key, decide(*args))


def forget() -> None:
    """Forget all calls: for whoever has changed what calls are decided by."""
    _decided.clear()
    _known.clear()


def launch(
    kernel: Any, grid: tuple[int, ...], like: Hashable | None, *args: Any, **options: Any
) -> None:
    """Start ``kernel[grid](*args, **options)``.

    Args:
        kernel: a ``@triton.jit`` or ``@gluon.jit`` function; constants come last.
        grid: how many programs, along up to three axes.
        like: a `likeness` that decides all but addresses and floats, or None.
        args: all that is no constant; tensors that ``like`` does not speak of are new.
        options: the constants, num_warps and the like.
    """
    key = kernel.fn, like
    known = _known.get(key)
    if known is not None:
        runner, constants = known
        runner(*args, *constants)
        return
    compiled = kernel[grid](*args, **options)
    if like is not None and compiled is not None:  # None: interpreted
        if len(_known) >= MOST:
            _known.clear()
        constants = [options[name] for name in kernel.arg_names[len(args) :]]
        _known[key] = compiled[(*grid, 1, 1)[:3]], constants
