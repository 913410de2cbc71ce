"""Where a thing comes from: the student's own code, an installed package, or the course."""

from __future__ import annotations

import sys
import sysconfig
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

COURSE = "course_lib"
_LOOK_IN = ("typing", "collections.abc", "math", "torch", "triton", "triton.language", "numpy")


def unwrap(value: Any) -> Any:
    """Return the function inside jit, heuristics and autotune: they all keep it in ``.fn``."""
    while not isinstance(value, (FunctionType, type, ModuleType)) and hasattr(value, "fn"):
        value = value.fn
    return value


@cache
def _installed() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    return tuple(
        {Path(paths[key]).resolve() for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    )


def _is_own_file(file: str) -> bool:
    """Say whether a file is neither installed nor part of Python (notebook cells included)."""
    if not file or file.startswith("<frozen"):
        return False
    if not Path(file).exists():
        return True  # a cell: "<ipython-input-...>", or a file that ipykernel only names
    path = Path(file).resolve()
    if {"site-packages", "dist-packages"} & set(path.parts):
        return False
    return not any(path.is_relative_to(folder) for folder in _installed())


def is_students(thing: Any) -> bool:
    """Say whether a function or class is the student's own."""
    if isinstance(thing, FunctionType):
        return _is_own_file(thing.__code__.co_filename)
    module = sys.modules.get(thing.__module__)
    if thing.__module__ == "__main__":
        return True
    return module is not None and _is_own_file(getattr(module, "__file__", None) or "")


def stays_importable(module: ModuleType) -> bool:
    """Say whether any other process finds this module: installed, built in, or the course's."""
    if module.__name__ == "__main__":
        return False
    if module.__name__.partition(".")[0] == COURSE:
        return True
    return not _is_own_file(getattr(module, "__file__", None) or "")


def import_line(name: str, value: Any) -> str | None:
    """Return the import that binds ``name`` to ``value`` in any process, or None."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return None
    inner = unwrap(value)
    homes = [getattr(value, "__module__", None), getattr(inner, "__module__", None), *_LOOK_IN]
    known = [getattr(inner, "__qualname__", None), getattr(inner, "__name__", None), name]
    for home in dict.fromkeys(h for h in homes if isinstance(h, str) and h in sys.modules):
        module = sys.modules[home]
        if not stays_importable(module):
            continue
        for attribute in dict.fromkeys(a for a in known if isinstance(a, str) and a.isidentifier()):
            if getattr(module, attribute, None) is value:
                suffix = "" if attribute == name else f" as {name}"
                return f"from {home} import {attribute}{suffix}"
    return None


def same(a: Any, b: Any) -> bool:
    """Say whether two things are one, or constants that are written alike."""
    a, b = unwrap(a), unwrap(b)
    if a is b:
        return True
    return type(a) is type(b) and not isinstance(a, FunctionType) and repr(a) == repr(b)


def described(value: Any) -> str:
    """Return what a value is, for a message: "a Tensor of shape (2, 3)"."""
    shape = getattr(value, "shape", None)
    kind = type(value).__name__
    return f"a {kind} of shape {tuple(shape)}" if isinstance(shape, tuple) else f"a {kind}"
