"""What Triton's interpreter refuses though the compiler takes it, mended while kernels are watched.

- A Python bool as a run-time argument (the interpreter makes a 32-bit number of type int1 of it).
- Operations imported by name, ``from triton.language import dot``: the interpreter lends its own to
  the module ``tl`` only.
- A comparison of two numbers beside one of tiles, ``(x > 0) & mask``: the interpreter calls what a
  comparison gives by the type of what was compared, and spreads it over a tile as that.
- A sum of integers of 8 or 16 bits in their own dtype, which overflows.
- A constexpr that an unevaluated annotation calls otherwise than ``tl.constexpr``.

What it gives None for, the functions of libdevice, is refused by name.

Names that are private to Triton are used where they are there: without them nothing is mended, and
nothing breaks. Import this module in interpreter mode only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

try:
    from triton.language.extra import libdevice
except ImportError:
    libdevice = None


@contextmanager
def mended() -> Iterator[None]:
    """Mend what a launch in the block would stumble over."""
    convert: Any = getattr(interpreter, "_implicit_cvt", None)
    prepare: Any = getattr(interpreter, "_patch_lang", None)
    splat: Any = getattr(interpreter.InterpreterBuilder, "create_splat", None)
    borrowed: list[tuple[dict[str, Any], str, Any]] = []
    visited: set[int] = set()

    def convert_too(value: Any) -> Any:
        return _as_int1(value) if isinstance(value, bool) else convert(value)

    def prepare_too(function: Any) -> Any:
        prepared = prepare(function)
        if id(function.__globals__) not in visited:  # once is enough, and this is called often
            visited.add(id(function.__globals__))
            borrowed.extend(_lend(function.__globals__))
        return prepared

    def splat_too(builder: Any, to: Any, value: Any) -> Any:
        if value.data.dtype == np.bool_:
            value = interpreter.TensorHandle(value.data, tl.int1)
        return splat(builder, to, value)

    def summed(reduction: Any, tile: Any) -> Any:
        data = tile.handle.data
        kind = {"dtype": data.dtype} if data.dtype.kind in "iu" else {}  # it wraps, as on a GPU
        over = {"axis": reduction.axis, "keepdims": reduction.keep_dims}
        return reduction.to_tensor(np.sum(data, **over, **kind), tile.dtype)

    changes = [
        (interpreter, "_implicit_cvt", convert_too),
        (interpreter, "_patch_lang", prepare_too),
        (interpreter.InterpreterBuilder, "create_splat", splat_too),
        (getattr(interpreter, "ReduceOps", None), "sum", summed),
        *_REFUSED,
    ]
    before: list[tuple[Any, str, Any]] = []
    for of, name, new in changes:
        own = vars(of).get(name) if of else None
        if callable(own):
            before.append((of, name, own))
            setattr(of, name, new)
    try:
        yield
    finally:
        for of, name, own in before:
            setattr(of, name, own)
        for names, name, own in reversed(borrowed):
            names[name] = own


def _not_here(name: str) -> Any:
    def refuse(*_args: Any, **_named: Any) -> Any:
        instead = f"tl.{name}" if hasattr(tl, name) else "it with functions of tl"
        tanh = " (tanh(x) is 2 * tl.sigmoid(2 * x) - 1)" * (name == "tanh")
        raise TypeError(
            f"`libdevice.{name}` is not in Triton's interpreter, in which a kernel is checked: "
            f"write {instead}{tanh}."
        )

    return refuse


_REFUSED = [
    (libdevice, name, _not_here(name))
    for name, own in (vars(libdevice) if libdevice else {}).items()
    if callable(own)
]


def constexprs(executor: Any) -> list[str]:
    """Return the parameters of a launch that are constexprs, whatever module they are named by."""
    annotations = executor.fn.__annotations__
    return [
        name
        for name in executor.arg_names
        if annotations.get(name) is tl.constexpr
        or str(annotations.get(name)).rpartition(".")[2] == "constexpr"
    ]


def _as_int1(value: bool) -> Any:
    return tl.tensor(interpreter.TensorHandle(np.array([value], dtype=np.bool_), tl.int1), tl.int1)


def _lend(names: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Put the interpreter's operation in the place of each imported one; yield what was there."""
    for name, own in list(names.items()):
        home = sys.modules.get(getattr(own, "__module__", None) or "")
        if not callable(own) or not getattr(home, "__name__", "").startswith("triton.language"):
            continue
        known = getattr(own, "__name__", name)
        for module in (tl, home):
            lent = getattr(module, known, own)
            if callable(lent) and lent is not own and not isinstance(lent, type(sys)):
                names[name] = lent
                yield names, name, own
                break
