"""How much memory lies within reach of a function before it is called: buffers that it kept.

What a call allocates is seen while it runs. What was allocated before it (an array at the top of a
cell, a list that grew in an earlier call) is not, and is as good a place to hide a copy.
(``types`` by its own name: where students are graded, this is copied into their process.)
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np


def bytes_within_reach(function: Any) -> int:
    """Return the bytes of all buffers (arrays, bytearrays, memory maps) that ``function`` can name.

    Looked at are the globals that its code names, defaults, closures, what these contain, and
    functions and classes that stand beside it, but nothing of another module.
    """
    return sum(map(_own_bytes, within_reach(function)))


def modules_within_reach(function: Any) -> set[str]:
    """Return the names of the modules of all that ``function`` can name or imports itself."""
    reached = within_reach(function)
    names = {n for x in reached if isinstance(x, types.FunctionType) for n in _names(x.__code__)}
    names |= {x.__name__ if isinstance(x, types.ModuleType) else _home(x) for x in reached}
    packages = {name for name in names if "." not in name} & {*sys.modules}
    below = {f"{package}.{name}" for package in packages for name in names}
    return names | (below & {*sys.modules})  # package.module.function


def _home(x: Any) -> str:
    home = getattr(x, "__module__", None)
    return home if isinstance(home, str) else ""


def within_reach(function: Any) -> list[Any]:
    """Return ``function`` and all that it can name; see `bytes_within_reach`."""
    function = inspect.unwrap(function)
    home = getattr(function, "__globals__", {})
    seen: dict[int, Any] = {}
    waiting = [function]
    while waiting:
        x = waiting.pop()
        if id(x) not in seen:
            seen[id(x)] = x
            waiting += _within(x, home)
    return list(seen.values())


def _own_bytes(x: Any) -> int:
    if isinstance(x, memoryview) or (isinstance(x, np.ndarray) and x.base is not None):
        return 0  # a view: what it shows is looked at
    if isinstance(x, list | tuple | dict | set | frozenset):
        return 8 * len(x)
    try:
        return memoryview(x).nbytes
    except (TypeError, ValueError, BufferError):
        return 0


def _within(x: Any, home: dict[str, Any]) -> Iterator[Any]:
    """Yield what is one step away from ``x``; nothing of functions that live elsewhere."""
    if isinstance(x, dict):
        yield from x.values()
    elif isinstance(x, list | tuple | set | frozenset):
        yield from x
    elif isinstance(x, np.ndarray | memoryview):
        yield x.base if isinstance(x, np.ndarray) else x.obj
    elif isinstance(x, types.MethodType):
        yield from (x.__func__, x.__self__)
    elif isinstance(x, types.FunctionType):
        if x.__globals__ is home:
            yield from (x.__defaults__, x.__kwdefaults__, x.__dict__)
            yield from (home[name] for name in _names(x.__code__) if name in home)
            yield from (cell.cell_contents for cell in x.__closure__ or () if _is_full(cell))
    elif not isinstance(x, types.ModuleType) and type(x).__module__ == home.get("__name__"):
        yield from (type(x), getattr(x, "__dict__", None))
    elif isinstance(x, type) and x.__module__ == home.get("__name__"):
        yield dict(vars(x))


def _names(code: types.CodeType) -> Iterator[str]:
    """Yield the global names that a function's code uses, those of functions inside it as well."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _is_full(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
