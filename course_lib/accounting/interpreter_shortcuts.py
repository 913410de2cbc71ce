"""Shortcuts through Triton's interpreter while kernels are watched: nothing changes but the time.

- It computes every sum of offsets a second time in 64 bits, to see an overflow, and then does
  nothing with what it saw (that needs its option ``debug``): a third of all its time.
- It prepares ``tl`` anew each time a jitted function calls another: a quarter.
- It makes a table of all dtypes each time it asks for one of them, and goes through shapes that
  are equal as if they were to be broadcast: a fifth. It makes types and shapes, of which there
  are few, anew for every tile: another fifth.
- It looks for the operations in ``tl`` at every launch, and asks at every call of one whether a
  kernel calls it. Two operands go through all the rules for types and shapes that differ, though
  most have one type, or are shapes that have met before. Both together: a fifth of what is left.
- It draws random numbers in some two hundred operations on tiles, each of which it checks. NumPy's
  own, a hundred times less, are as good: half the time of a kernel with dropout.

Names that are private to Triton are used where they are there: without them a kernel is slower,
and as right. Import this module in interpreter mode only.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import triton.language as tl
from triton.language import random
from triton.runtime import interpreter

from course_lib.accounting.interpreter_recipes import remembered_access, remembering

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
        (interpreter, "_patch_builtin", _of_known_names),
        (interpreter, "_patch_attr", _called_at_once),
        (interpreter, "_get_np_dtype", _np_dtype),
        (interpreter.TensorHandle, "__init__", _handle),
        (interpreter.InterpreterBuilder, "create_expand_dims", _expanded),
        (interpreter.InterpreterBuilder, "create_broadcast", _broadcast),
        (semantic, "_load_legacy", remembered_access),
        (semantic, "_store_legacy", remembered_access),
        (semantic, "binary_op_type_checking_impl", _unless_alike),
        (semantic, "broadcast_impl_value", lambda own: _unless_equal(own, tensor_shapes)),
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


_names: dict[int, tuple[Any, list[tuple[str, Any]]]] = {}  # of the operations in a module or class


def _of_known_names(own: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``_patch_builtin``, which looks once in this process for what there is to patch."""

    def patch(package: Any, builder: Any, *scope: Any) -> None:
        if not scope:  # older ones leave it patched
            own(package, builder)
            return
        if id(package) not in _names:
            members = inspect.getmembers(package, tl.core.is_builtin)
            _names[id(package)] = package, members
        for name, member in _names[id(package)][1]:
            if getattr(package, name) is member:  # not if the scope has it already
                interpreter._patch_attr(package, name, member, builder, *scope)

    return patch


def _called_at_once(own: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``_patch_attr``, whose operations do not ask whether a kernel calls them."""

    def patch(owner: Any, name: str, member: Any, builder: Any, *scope: Any) -> None:
        operation = getattr(member, "__wrapped__", None)
        if not scope or operation is None:
            own(owner, name, member, builder, *scope)
            return
        semantic = interpreter.interpreter_semantic

        def call(*args: Any, **options: Any) -> Any:
            options["_semantic"] = semantic
            return operation(*args, **options)

        call = remembering(name, operation) or call
        call.__wrapped__ = operation  # type: ignore[attr-defined]  # whoever asks what it takes
        scope[0].set_attr(owner, name, call)

    return patch


def _np_dtype(own: Callable[[Any], Any]) -> Callable[[Any], Any]:
    of_scalar: dict[str, Any] = {}
    address = np.dtype(np.uint64)

    def np_dtype(kind: Any) -> Any:
        scalar = kind.element_ty if type(kind) is tl.block_type else kind
        if type(scalar) is not tl.dtype:
            return address if isinstance(scalar, tl.pointer_type) else own(kind)
        found = of_scalar.get(scalar.name)
        if found is None:
            found = of_scalar[scalar.name] = own(scalar)
        return found

    return np_dtype


def _handle(own: Callable[..., None]) -> Callable[..., None]:
    """Return what asks whether a tile's numbers are too wide for its type: once for each pair."""
    fitting: dict[str, Any] = {}  # the name of a type -> the dtype that fitted last

    def init(handle: Any, data: Any, dtype: Any, *attr: Any, **named: Any) -> None:
        if attr or named or fitting.get(dtype.name) is not data.dtype:
            own(handle, data, dtype, *attr, **named)
            fitting[dtype.name] = data.dtype
            return
        handle.data, handle.dtype, handle.attr = data, dtype, {}

    return init


def _expanded(own: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``create_expand_dims`` for one axis that is there, without NumPy's many questions."""

    def expand(builder: Any, tile: Any, axis: int) -> Any:
        data = tile.data
        if type(data) is not np.ndarray or type(axis) is not int or not 0 <= axis <= data.ndim:
            return own(builder, tile, axis)
        shape = *data.shape[:axis], 1, *data.shape[axis:]
        return interpreter.TensorHandle(data.reshape(shape), tile.dtype.scalar)

    return expand


def _broadcast(own: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``create_broadcast`` for a tile of as many axes, of which some are 1."""

    def broadcast(builder: Any, tile: Any, shape: Any) -> Any:
        data, wanted = tile.data, tuple(shape)
        if type(data) is not np.ndarray or not data.flags.c_contiguous or data.ndim != len(wanted):
            return own(builder, tile, shape)
        strides = list(data.strides)
        for axis, (n, m) in enumerate(zip(data.shape, wanted, strict=True)):
            if n != m:
                if n != 1:  # that it cannot be, NumPy says
                    return own(builder, tile, shape)
                strides[axis] = 0
        spread = np.ndarray(wanted, data.dtype, data, 0, strides)
        spread.flags.writeable = False
        return interpreter.TensorHandle(spread, tile.dtype.scalar)

    return broadcast


def _unless_alike(check: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``binary_op_type_checking_impl``, which knows the outcome for commonest operands.

    Two of one type stay as they are, a number takes the type of what it stands beside, and whole
    numbers are added to pointers.
    """

    def check_unless_alike(semantic: Any, lhs: Any, rhs: Any, *how: Any, **named: Any) -> Any:
        computes = how[2:3] != (False,)  # a shift of bits does not
        if named:
            return check(semantic, lhs, rhs, *how, **named)
        if type(rhs) is not tl.tensor:
            if type(lhs) is not tl.tensor or not (computes and _takes(lhs.dtype, rhs)):
                return check(semantic, lhs, rhs, *how)
            rhs = semantic.scalar_constant(rhs, lhs.dtype)
        elif type(lhs) is not tl.tensor:
            if not (computes and _takes(rhs.dtype, lhs)):
                return check(semantic, lhs, rhs, *how)
            lhs = semantic.scalar_constant(lhs, rhs.dtype)
        else:
            a, b = lhs.dtype, rhs.dtype
            if type(b) is not tl.dtype:
                return check(semantic, lhs, rhs, *how)
            moves = type(a) is tl.pointer_type and how[:1] == (True,) and b.name in _WHOLE
            alike = type(a) is tl.dtype and a.name == b.name and a.name not in _HALVES
            if not moves and not alike:
                return check(semantic, lhs, rhs, *how)
        return semantic.broadcast_impl_value(lhs, rhs)

    return check_unless_alike


_HALVES = {"fp16", "bf16"}  # division computes in float32
_WHOLE, _FRACTIONS = {"int32", "int64"}, {"fp32", "fp64"}


def _takes(kind: Any, number: Any) -> bool:
    """Return whether a tile of a type takes a number of Python's as one of its own."""
    if type(kind) is not tl.dtype:
        return False
    if type(number) is int:
        return kind.name in (_WHOLE | _FRACTIONS) and -(2**31) <= number < 2**31
    return type(number) is float and kind.name in _FRACTIONS


def _unless_equal(
    broadcast: Callable[..., Any], tensor_shapes: dict[int, Any]
) -> Callable[..., Any]:
    """Return ``broadcast_impl_value``, which knows the shapes that it has made equal before."""
    met: dict[tuple[int, int], Any] = {}  # two shapes -> that of both together

    def broadcast_unless_equal(semantic: Any, lhs: Any, rhs: Any) -> Any:
        a, b = lhs.type, rhs.type
        if type(a) is not tl.block_type:
            if type(b) is not tl.block_type:
                return lhs, rhs
            if lhs.handle.data.shape == (1,):
                return _spread(semantic, lhs, b), rhs
        elif type(b) is not tl.block_type:
            if rhs.handle.data.shape == (1,):
                return lhs, _spread(semantic, rhs, a)
        elif a.shape is b.shape or list(a.shape) == list(b.shape):
            return lhs, rhs
        elif (both := met.get((id(a.shape), id(b.shape)))) is not None:
            return _stretched(semantic, lhs, both), _stretched(semantic, rhs, both)
        elif len(a.shape) == len(b.shape) and {id(a.shape), id(b.shape)} <= tensor_shapes.keys():
            lhs, rhs = broadcast(semantic, lhs, rhs)
            met[id(a.shape), id(b.shape)] = lhs.type.shape
            return lhs, rhs
        return broadcast(semantic, lhs, rhs)

    return broadcast_unless_equal


def _stretched(semantic: Any, x: Any, shape: Any) -> Any:
    """Return a tile in a shape of as many axes."""
    if x.type.shape is shape:
        return x
    kind = tl.block_type(x.dtype, shape)
    return semantic.tensor(semantic.builder.create_broadcast(x.handle, list(shape)), kind)


def _spread(semantic: Any, number: Any, over: Any) -> Any:
    """Return a tile of one number, in the shape of the type ``over``."""
    kind = over.with_element_ty(number.dtype)
    return semantic.tensor(semantic.builder.create_splat(kind, number.handle), kind)


def _block_type(own: Callable[..., None], tensor_shapes: dict[int, Any]) -> Callable[..., None]:
    """Return ``block_type.__init__``, which knows each type that it has made before."""
    made: dict[Any, dict[str, Any]] = {}
    shapes: dict[tuple[int, ...], Any] = {}

    def init(self: Any, element_ty: Any, shape: Any) -> None:
        space = getattr(element_ty, "address_space", None)
        kind = type(element_ty), element_ty.name, space
        known = made.get((kind, id(shape)))  # of a shape that a type made here has
        if known is None:
            known = named(self, kind, element_ty, shape)
        if known is not None:
            vars(self).update(known, element_ty=element_ty)

    def named(self: Any, kind: Any, element_ty: Any, shape: Any) -> dict[str, Any] | None:
        sizes = tuple(getattr(n, "value", n) for n in shape) if type(shape) in _SHAPES else (None,)
        if any(type(n) is not int for n in sizes):  # what is wrong with it, Triton says
            own(self, element_ty, shape)
            return None
        if (kind, sizes) not in made:
            own(self, element_ty, shape)
            shape_of_all = shapes.setdefault(sizes, self.shape)
            made[kind, sizes] = {**vars(self), "shape": shape_of_all}
            tensor_shapes.setdefault(id(shape_of_all))
        if id(shape) in tensor_shapes:
            made[kind, id(shape)] = made[kind, sizes]
        return made[kind, sizes]

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
