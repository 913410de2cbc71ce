"""Shortcuts through Triton's interpreter while kernels are watched: nothing changes but the time.

- It computes every sum of offsets a second time in 64 bits, to see an overflow, and then does
  nothing with what it saw (that needs its option ``debug``): a third of all its time.
- It prepares ``tl`` anew each time a jitted function calls another: a quarter.
- It makes a table of all dtypes each time it asks for one of them, and goes through shapes that
  are equal as if they were to be broadcast: a fifth. It makes types and shapes, of which there
  are few, anew for every tile: another fifth.
- It draws random numbers in some two hundred operations on tiles, each of which it checks. NumPy's
  own, a hundred times less, are as good: half the time of a kernel with dropout.

Names that are private to Triton are used where they are there: without them a kernel is slower,
and as right. Import this module in interpreter mode only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import triton.language as tl
from triton.language import random
from triton.runtime import interpreter

_SHAPES = (list, getattr(tl, "tuple", tuple))
Array = np.ndarray
_PHILOX_A, _PHILOX_B = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_A, _KEY_B = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)  # added to the key each round
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
Shortcut = tuple[Any, str, Callable[[Any], Any]]  # an object, its attribute, what stands there


@contextlib.contextmanager
def shortened() -> Iterator[None]:
    """Take the shortcuts in the block."""
    with contextlib.ExitStack() as stack:
        for owner, name, shorter in _shortcuts():
            if (own := getattr(owner, name, None)) is not None:
                with contextlib.suppress(AttributeError, TypeError):  # another Triton's
                    setattr(owner, name, shorter(own))
                    stack.callback(setattr, owner, name, own)
        yield


def _shortcuts() -> list[Shortcut]:
    try:
        from triton.language.semantic import TritonSemantic
    except ImportError:  # Triton 3.4 has it elsewhere
        semantic: Any = None
    else:
        semantic = TritonSemantic
    tensor_shapes: dict[int, Any] = {id(None): None}  # a scalar has none
    return [
        (interpreter.interpreter_builder, "options", lambda o: replace(o, sanitize_overflow=False)),
        (interpreter, "_patch_lang", _once_a_launch),
        (interpreter, "_get_np_dtype", _np_dtype),
        (semantic, "broadcast_impl_value", _unless_equal),
        (tl.block_type, "__init__", lambda own: _block_type(own, tensor_shapes)),
        (tl.tensor, "__init__", lambda own: _tensor(own, tensor_shapes)),
        (random, "philox_impl", _philox),
    ]


def _once_a_launch(prepare: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Let ``tl`` be prepared once for a module, until the launch restores what it found.

    A launch that races are looked for in is done several times.
    """
    done: set[int] = set()

    def once(function: Any) -> Any:
        key = id(function.__globals__)
        if key in done:
            return None
        scope = prepare(function)
        if restore := getattr(scope, "restore", None):  # older ones leave it prepared
            done.add(key)

            def restore_and_forget() -> None:
                done.clear()  # of other modules, too, whose functions were called: nobody restores
                restore()

            scope.restore = restore_and_forget
        return scope

    return once


def _np_dtype(own: Callable[[Any], Any]) -> Callable[[Any], Any]:
    of_scalar = cache(own)

    def np_dtype(kind: Any) -> Any:
        scalar = kind.element_ty if isinstance(kind, tl.block_type) else kind
        pointer = isinstance(scalar, tl.pointer_type)
        return np.dtype(np.uint64) if pointer else of_scalar(scalar)

    return np_dtype


def _unless_equal(broadcast: Callable[..., Any]) -> Callable[..., Any]:
    def broadcast_unless_equal(semantic: Any, lhs: Any, rhs: Any) -> Any:
        a, b = lhs.type, rhs.type
        if not (a.is_block() or b.is_block()):
            return lhs, rhs
        if a.is_block() and b.is_block() and list(a.shape) == list(b.shape):
            return lhs, rhs
        return broadcast(semantic, lhs, rhs)

    return broadcast_unless_equal


def _block_type(own: Callable[..., None], tensor_shapes: dict[int, Any]) -> Callable[..., None]:
    """Return ``block_type.__init__``, which knows each type that it has made before."""
    made: dict[Any, dict[str, Any]] = {}

    def init(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = tuple(getattr(n, "value", n) for n in shape) if type(shape) in _SHAPES else (None,)
        if any(type(n) is not int for n in sizes):  # what is wrong with it, Triton says
            return own(self, element_ty, shape)
        space = getattr(element_ty, "address_space", None)
        key = type(element_ty), element_ty.name, space, sizes
        if key not in made:
            own(self, element_ty, shape)
            made[key] = dict(vars(self))
            tensor_shapes[id(self.shape)] = None
        vars(self).update(made[key], element_ty=element_ty)
        return None

    return init


def _tensor(own: Callable[..., None], shapes: dict[int, Any]) -> Callable[..., None]:
    """Return ``tensor.__init__``, which knows the shape of each type that `_block_type` made."""

    def init(self: Any, handle: Any, type: Any) -> None:
        key = id(getattr(type, "shape", None))
        if known := shapes.get(key):
            vars(self).update(known, handle=handle, type=type, dtype=type.scalar)
            return
        own(self, handle, type)
        if key in shapes and set(vars(self)) == {"handle", "shape", "numel", "type", "dtype"}:
            shapes[key] = {"shape": self.shape, "numel": self.numel}

    return init


def _philox(own: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``philox_impl``, which counts places of 32 bits in NumPy."""

    def philox(*state: Any) -> Any:
        *state_and_key, rounds = state
        shapes = {x.handle.data.shape for x in state[:4]}
        if len(state) != 7 or len(shapes) != 1 or any(x.dtype != tl.uint32 for x in state_and_key):
            return own(*state)
        words = (x.handle.data.astype(np.uint64) for x in state_and_key)
        drawn = _drawn(*words, rounds=int(getattr(rounds, "value", rounds)))
        handles = (interpreter.TensorHandle(x.astype(np.uint32), tl.uint32) for x in drawn)
        return tuple(tl.tensor(x, old.type) for x, old in zip(handles, state, strict=False))

    return philox


def _drawn(
    c0: Array, c1: Array, c2: Array, c3: Array, k0: Array, k1: Array, *, rounds: int
) -> tuple[Array, ...]:
    """Return four random words for each place (c0, ..., c3): Philox 4x32, in uint64."""
    for _ in range(rounds):
        a, b = c0 * _PHILOX_A, c2 * _PHILOX_B
        c0, c1, c2, c3 = (b >> _HALF) ^ c1 ^ k0, b & _LOW, (a >> _HALF) ^ c3 ^ k1, a & _LOW
        k0, k1 = (k0 + _KEY_A) & _LOW, (k1 + _KEY_B) & _LOW
    return c0, c1, c2, c3
