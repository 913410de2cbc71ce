"""What the ledgers hear of Triton's interpreter: each launch, load, store, dot and comparison.

Every load, store and atomic of an interpreted kernel, descriptors included, passes through the
module global ``triton.runtime.interpreter._interpreter``; every launch through
``GridExecutor.__call__``; every ``tl.dot`` through ``InterpreterBuilder.create_dot``, every
comparison and ``tl.where`` through its ``binary_op`` and ``ternary_op``, and every load through its
``create_masked_load``, which still knows whether ``other`` was given. The names are
private but have kept their form from Triton 3.4 to 3.9. `verify` tries them on a tiny kernel, once
per process, so that a Triton that moved them gives one sentence, not a traceback. Private names
that only make a kernel faster are in `interpreter_shortcuts`, which works without.
Longer than 400 lines because what replaces a private name and what `verify` tries stand together.

Import this module in interpreter mode only.
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any, Protocol

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.autotuner import Autotuner

from course_lib.accounting.autotune import first_config
from course_lib.accounting.compiler_hints import held_to_promises
from course_lib.accounting.interpreter_repairs import constexprs, mended
from course_lib.accounting.interpreter_shortcuts import shortened
from course_lib.accounting.launch_arguments import bfloat16_is_computed
from course_lib.accounting.ledger import LedgerUnavailable


class Observer(Protocol):
    """What a listener is told; each call comes before the interpreter does the thing."""

    def launch(self, executor: Any, args: tuple, kwargs: dict, run: Callable) -> Any:
        """Run a launch by calling ``run(executor, *args, **kwargs)``, arguments changed or not."""

    def access(self, kind: str, ptrs: np.ndarray, mask: np.ndarray | None, width: int) -> None:
        """Hear of a "load", "store", "atomic" or "swap" of ``width`` bytes at unmasked addresses.

        A "swap" is atomic, and compares before it writes. ``mask`` is of bools and broadcasts to
        ``ptrs``; None: every lane.
        """

    def undefined_lanes(self, ptrs: np.ndarray, mask: np.ndarray) -> None:
        """Hear of a load that has no ``other`` for the lanes that ``mask`` leaves out."""

    def dot(self, a: tuple[int, ...], b: tuple[int, ...], dtype: str, precision: str) -> None:
        """Hear of a ``tl.dot`` of shapes (..., M, K) and (..., K, N), "fp32" with "TF32", say."""

    def compare(self, shape: tuple[int, ...]) -> None:
        """Hear of a comparison or a ``tl.where`` with a result of this shape."""

    def borrow(self, name: str) -> None:
        """Hear that a function is called which Triton has written in Triton: "softmax", "sum"."""


class _Memory:
    """Stands in for the interpreter's C++ memory module: tells the observer, then passes on."""

    def __init__(self, real: Any, observer: Observer) -> None:
        self._real, self._observer = real, observer
        self.alone = False  # what is atomic now is so within a program only, scope="cta"

    def _atomic(self, kind: str, ptrs: Any, mask: Any, width: int) -> None:
        for step in ("load", "store") if self.alone else (kind,):
            self._observer.access(step, ptrs, mask, width)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def load(self, ptrs: Any, mask: Any, other: Any, dtype: Any) -> Any:
        ptrs, mask = _addresses(ptrs), _lanes(mask)
        self._observer.access("load", ptrs, mask, np.dtype(dtype).itemsize)
        return self._real.load(ptrs, mask, other, dtype)

    def store(self, ptrs: Any, value: Any, mask: Any) -> Any:
        ptrs, mask = _addresses(ptrs), _lanes(mask)
        self._observer.access("store", ptrs, mask, value.itemsize)
        return self._real.store(ptrs, value, mask)

    def atomic_rmw(self, op: Any, ptrs: Any, value: Any, mask: Any, sem: Any) -> Any:
        ptrs, mask = _addresses(ptrs), _lanes(mask)
        self._atomic("atomic", ptrs, mask, value.itemsize)
        return self._real.atomic_rmw(op, ptrs, value, mask, sem)

    def atomic_cas(self, ptrs: Any, compare: Any, value: Any, sem: Any) -> Any:
        ptrs, value = _addresses(ptrs), value.astype(compare.dtype, copy=False)
        self._atomic("swap", ptrs, None, compare.itemsize)
        return self._real.atomic_cas(ptrs, compare, value, sem)


# The C++ code takes addresses and masks of any dtype and converts them: a lane with a 2 in it is
# touched. So they are converted here, and the observer hears of exactly what the C++ code gets.


def _addresses(ptrs: Any) -> np.ndarray:
    return np.asarray(ptrs, dtype=np.uint64)


def _lanes(mask: Any) -> np.ndarray:
    return np.asarray(mask).astype(bool, copy=False)  # a descriptor's comes as a memoryview


def _poison(ptrs: Any) -> Any:
    """Return what undefined lanes hold during a check: NaN, or an integer that nobody expects.

    On a GPU they hold anything. The interpreter has 0 there, which hides a missing ``other``.
    """
    scalar = ptrs.get_element_ty()
    dtype = interpreter._get_np_dtype(scalar)
    worst = np.nan if scalar.is_floating() else 0
    data = np.full(ptrs.data.shape, worst if dtype.kind == "f" else 0).astype(dtype)
    if dtype.kind in "iu" and dtype.itemsize > 1:  # a bfloat16 stands as its bits
        data[...] = 0x7FC0 if scalar.is_floating() else np.iinfo(dtype).max // 3
    return interpreter.TensorHandle(data, scalar)


_COMPARISONS = {
    np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal, np.where
}  # fmt: skip


def _watch(operation: Callable, observer: Observer) -> Callable:
    """Return ``binary_op`` or ``ternary_op``, which tells the observer about comparisons.

    A tile made of nothing but rows and columns counts as well, and so does a row that changes no
    number of a tile: a mask may be arithmetic. Numbers of bfloat16 raise a TypeError.
    """

    def operate(builder: Any, *operands: Any) -> Any:
        if operands[0].dtype is tl.bfloat16:
            raise bfloat16_is_computed()
        result = operation(builder, *operands)
        shape, how = result.data.shape, operands[-1]
        if how in _COMPARISONS:
            observer.compare(shape)
        elif len(shape) > 1:
            tiles = [x.data for x in operands[:-1]]
            if _is_outer(result.data, tiles) or _hides_nothing(tiles, how):
                observer.compare(shape)
        return result

    return operate


_LEAVES: dict[Any, int] = {np.add: 0, np.subtract: 0, np.multiply: 1}  # which leaves a number


def _hides_nothing(tiles: Sequence[np.ndarray], how: Any) -> bool:
    """Return whether a row spread over a tile has 0 alone to add, or 1 to multiply.

    A column is not asked: it rescales each row's numbers, where no maximum rises by 1.
    """
    if (leaves := _LEAVES.get(how)) is None:
        return False
    for tile in tiles:
        if tile.ndim > 1 and tile.strides[-2] == 0 < tile.strides[-1] and (tile == leaves).all():
            return True
    return False


def _is_outer(result: np.ndarray, tiles: Sequence[np.ndarray]) -> bool:
    """Return whether a tile was made of operands that each are the same along an axis.

    Not of masks, whose comparisons were counted.
    """
    if result.ndim < 2 or result.dtype == bool or sum(n > 1 for n in result.shape) < 2:
        return False
    return all(map(_stands_still, tiles))


def _stands_still(tile: np.ndarray) -> bool:
    if 0 in tile.strides:  # broadcast
        return True
    return any(_is_the_same_along(axis, tile) for axis, n in enumerate(tile.shape) if n > 1)


def _is_the_same_along(axis: int, tile: np.ndarray) -> bool:
    if tile.flat[0] != tile[(*(0,) * axis, -1, *(0,) * (tile.ndim - axis - 1))]:  # most often
        return False
    at = (slice(None),) * axis
    first = tile[(*at, slice(0, 1))]
    if (tile[(*at, slice(-1, None))] != first).any():  # two slices say so, most often
        return False
    return bool((tile == first).all())


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Tell ``observer`` about launches, memory accesses, dots, comparisons in the block.

    Autotuned kernels run with their first configuration.
    """
    memory = interpreter._interpreter
    run = interpreter.GridExecutor.__call__
    builder_class = interpreter.InterpreterBuilder
    dot, masked_load = builder_class.create_dot, builder_class.create_masked_load
    block_load: Any = getattr(builder_class, "create_tensor_pointer_load", None)  # not in 3.9
    binary, ternary = builder_class.binary_op, builder_class.ternary_op
    change, exchange = builder_class.create_atomic_rmw, builder_class.create_atomic_cas
    told = _Memory(memory, observer)
    run_tuned, call = Autotuner.run, interpreter.InterpretedFunction.__call__
    semantic_class = type(interpreter.interpreter_semantic)
    load = semantic_class.load
    other_given, launches = False, 0

    def launch(executor: Any, /, *args: Any, **kwargs: Any) -> Any:
        nonlocal launches
        if "warmup" not in executor.arg_names and kwargs.pop("warmup", False):
            return None  # Triton up to 3.5 asks here; its autotuner always says which
        executor.constexprs = constexprs(executor)
        launches += 1
        try:
            return observer.launch(executor, args, kwargs, run)
        finally:
            launches -= 1

    def call_too(function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if function.fn.__module__.startswith("triton."):
            observer.borrow(function.fn.__name__)
        if launches:
            return call(function, *args, **kwargs)
        scope = interpreter._patch_lang(function.fn)  # a kernel without a grid: nobody restores it
        try:
            return call(function, *args, **kwargs)
        finally:
            getattr(scope, "restore", bool)()

    def create_block_load(builder: Any, ptr: Any, checked: Any, padding: Any, *rest: Any) -> Any:
        padding = (
            padding or interpreter._ir.PADDING_OPTION.PAD_ZERO
        )  # what GPUs do, if not promised
        return block_load(builder, ptr, checked, padding, *rest)

    patch_tensor = interpreter._patch_lang_tensor

    def patch_tensor_too(tensor: Any, *rest: Any) -> None:
        patch_tensor(tensor, *rest)
        tensor.__index__ = _as_index

    def create_dot(builder: Any, a: Any, b: Any, acc: Any, precision: Any, *rest: Any) -> Any:
        dtype, named = str(a.dtype.scalar), getattr(precision, "name", str(precision))
        observer.dot(a.data.shape, b.data.shape, dtype, named)
        return dot(builder, a, b, acc, precision, *rest)

    def scoped(operation: Callable) -> Callable:
        def create(builder: Any, *operands: Any) -> Any:
            told.alone = operands[-1] == interpreter._ir.MEM_SYNC_SCOPE.CTA
            return operation(builder, *operands)

        return create

    def load_too(semantic: Any, ptr: Any, mask: Any, other: Any, *rest: Any) -> Any:
        nonlocal other_given
        other_given = other is not None  # Triton asks `if other`: a single 0 goes missing
        return load(semantic, ptr, mask, other, *rest)

    def create_masked_load(
        builder: Any, ptrs: Any, mask: Any, other: Any, *rest: Any, **options: Any
    ) -> Any:
        if other is None and not other_given and not (lanes := _lanes(mask.data)).all():
            observer.undefined_lanes(_addresses(ptrs.data), lanes)
            other = _poison(ptrs)
        return masked_load(builder, ptrs, mask, other, *rest, **options)

    interpreter._interpreter = told
    interpreter.GridExecutor.__call__ = launch
    interpreter.InterpretedFunction.__call__ = call_too
    builder_class.create_dot = create_dot
    builder_class.create_masked_load = create_masked_load
    builder_class.create_atomic_rmw, builder_class.create_atomic_cas = map(
        scoped, (change, exchange)
    )
    semantic_class.load = load_too
    if block_load:
        builder_class.create_tensor_pointer_load = create_block_load
    builder_class.binary_op = _watch(binary, observer)
    builder_class.ternary_op = _watch(ternary, observer)
    interpreter._patch_lang_tensor = patch_tensor_too
    Autotuner.run = first_config(run_tuned)
    try:
        with mended(), shortened(), held_to_promises():
            yield
    finally:
        interpreter._interpreter = memory
        interpreter.GridExecutor.__call__ = run
        interpreter.InterpretedFunction.__call__ = call
        builder_class.create_dot = dot
        builder_class.create_masked_load = masked_load
        builder_class.create_atomic_rmw, builder_class.create_atomic_cas = change, exchange
        semantic_class.load = load
        if block_load:
            builder_class.create_tensor_pointer_load = block_load
        builder_class.binary_op, builder_class.ternary_op = binary, ternary
        interpreter._patch_lang_tensor = patch_tensor
        Autotuner.run = run_tuned


def _as_index(scalar: Any) -> int:
    """Turn a scalar into a loop bound; Triton up to 3.6 does it in a way NumPy 2.4 refuses."""
    return int(scalar.handle.data.item())


def program() -> tuple[int, int, int]:
    """Return the program id (x, y, z) that the interpreter is working on."""
    return tuple(interpreter.interpreter_builder.grid_idx)


def go_to(program: tuple[int, int, int]) -> None:
    """Make the interpreter work on another program from now on."""
    interpreter.interpreter_builder.set_grid_idx(*program)


def record_grid(executor: Any, keep: Callable[[tuple[int, ...]], None]) -> None:
    """Hand the grid of a launch to ``keep`` when the launch works it out (it may be a function)."""
    grid = executor.grid

    def resolved(args: Any) -> tuple[int, ...]:
        sizes = tuple(grid(args)) if callable(grid) else tuple(grid)
        keep(tuple(int(n) for n in sizes))
        return sizes

    executor.grid = resolved


@triton.jit
def _canary(x, y, n):
    """Touch every hook: 4 bytes loaded and stored, a loop bound, a dot, comparisons, a call."""
    for _ in range(0, n):
        tl.store(y, tl.load(x))
        tl.load(x, mask=n > n)
    zeros = tl.zeros((16, 16), tl.float32)
    zeros = tl.where(zeros < 1.0, zeros, 1.0)
    tl.dot(zeros, zeros)
    tl.cdiv(n, n)


class _Witness:
    """The canary's observer: remembers what it heard."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def launch(self, executor: Any, args: tuple, kwargs: dict, run: Callable) -> Any:
        self.heard.append(("launch", list(executor.arg_names)))
        record_grid(executor, lambda grid: self.heard.append(("grid", grid)))
        return run(executor, *args, **kwargs)

    def access(self, kind: str, ptrs: np.ndarray, mask: np.ndarray | None, width: int) -> None:
        self.heard.append((kind, int(np.asarray(ptrs).ravel()[0]), width, program()))

    def undefined_lanes(self, ptrs: np.ndarray, mask: np.ndarray) -> None:
        self.heard.append(("undefined", int(np.asarray(ptrs).ravel()[0])))

    def dot(self, a: tuple[int, ...], b: tuple[int, ...], dtype: str, precision: str) -> None:
        self.heard.append(("dot", tuple(a), tuple(b), dtype, precision.lower()))

    def compare(self, shape: tuple[int, ...]) -> None:
        if len(shape) > 1:  # Triton itself may compare offsets
            self.heard.append(("compare", tuple(shape)))

    def borrow(self, name: str) -> None:
        if name == "cdiv":  # whether tl.zeros is one depends on the version
            self.heard.append(("borrow", name))


@cache
def verify() -> None:
    """Raise `LedgerUnavailable` unless every hook works with the installed Triton."""
    witness = _Witness()
    try:
        for name in ("load", "store", "atomic_rmw", "atomic_cas"):
            getattr(interpreter._interpreter, name)
        x, y = torch.zeros(2, 1, device="cpu")
        with observed(witness):
            _canary[(1,)](x, y, 1)
        expected = [
            ("launch", ["x", "y", "n"]),
            ("grid", (1,)),
            ("load", x.data_ptr(), 4, (0, 0, 0)),
            ("store", y.data_ptr(), 4, (0, 0, 0)),
            ("undefined", x.data_ptr()),
            ("load", x.data_ptr(), 4, (0, 0, 0)),
            ("compare", (16, 16)),
            ("compare", (16, 16)),
            ("dot", (16, 16), (16, 16), "fp32", "tf32"),
            ("borrow", "cdiv"),
        ]
        moved: bool | Exception = witness.heard != expected
    except Exception as error:
        moved = error
    if moved:
        raise LedgerUnavailable(
            f"Triton {triton.__version__} keeps its interpreter's insides elsewhere than the "
            "versions this course knows (3.4 to 3.9), so its loads and stores cannot be counted: "
            "install one of those."
        ) from (moved if isinstance(moved, Exception) else None)


def original_cause(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    """Return the first exception of type ``kind`` under ``error``'s chain of causes, or None."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, kind):
            return seen
        seen = seen.__cause__
    return None


def student_lines() -> list[str]:
    """Return the source lines that are being interpreted: a helper's, and those that called it.

    The innermost is the first, the kernel's own the last.
    """
    found, frame = list[str](), inspect.currentframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not f"{module}.".startswith(("triton.", "numpy.", f"{__package__}.")):
            if found and not _is_kernel(frame):
                break
            found.append(linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip())
        frame = frame.f_back
    return found


def _is_kernel(frame: FrameType) -> bool:
    """Return whether a frame is of a function with Triton's decorator."""
    return hasattr(frame.f_globals.get(frame.f_code.co_name), "fn")
