"""Inside the sandbox, where there is NumPy alone: a function that is to be NumPy is called again.

What watches PyTorch lives in the student's own process, so it can be switched off there. Here
nothing is watched, and nothing can be switched on: this zygote has never imported torch, its
files are closed to the children, and what stands under its name can be named and does nothing.
So it is with memory that Python's allocator does not see (mmap, ctypes, SQLite), once the walls
stand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from course_lib.sandbox import student
from course_lib.sandbox.channel import Channel
from course_lib.sandbox.profile import Limits, confine_computing

_GONE = "torch"
# each can hold what was handed over, and tracemalloc sees none of it
_OTHER_MEMORY = ("mmap", "ctypes", "_ctypes", "_posixshmem", "sqlite3", "_sqlite3")


def warm_up() -> None:
    """In the zygote: let nothing but stand-ins be found under torch's name."""
    if _GONE in sys.modules:
        raise RuntimeError("the zygote without PyTorch has imported it")
    _let_nothing_be_found(_GONE)


def serve(channel: Channel, settings: dict[str, Any]) -> None:
    """Confine this process, then obey the parent as every student's process does."""
    confine_computing(Limits(**settings), closed=(_GONE,))  # with the help of ctypes
    _let_nothing_be_found(*_OTHER_MEMORY)
    student.obey(channel)


def _let_nothing_be_found(*names: str) -> None:
    """Let nothing but stand-ins be imported under these names from now on."""
    for module in list(sys.modules):
        if module.partition(".")[0] in names:
            del sys.modules[module]
    sys.meta_path.insert(0, _StandIns(names))


class Absent:
    """Anything of what is gone: a type of nothing, a block and a decorator that do nothing."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        pass

    def __bool__(self) -> bool:
        return False

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Leave a decorated function as it is."""
        return function

    def __enter__(self) -> Absent:
        return self

    def __exit__(self, *_error: object) -> None:
        pass


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent


class _StandIns(MetaPathFinder, Loader):
    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def find_spec(self, name: str, *_where: Any) -> ModuleSpec | None:
        gone = name.partition(".")[0] in self._names
        return ModuleSpec(name, self, is_package=True) if gone else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass
