"""Inside the sandbox, where there is no PyTorch: a function that is to be NumPy is called again.

What watches PyTorch lives in the student's own process, so it can be switched off there. Here
nothing is watched, and nothing can be switched on: this zygote has never imported torch, its
files are closed to the children, and what stands under its name can be named and does nothing.
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


def warm_up() -> None:
    """In the zygote: let nothing but stand-ins be found under torch's name."""
    if _GONE in sys.modules:
        raise RuntimeError("the zygote without PyTorch has imported it")
    sys.meta_path.insert(0, _StandIns())


def serve(channel: Channel, settings: dict[str, Any]) -> None:
    """Confine this process, then obey the parent as every student's process does."""
    confine_computing(Limits(**settings), closed=(_GONE,))
    student.obey(channel)


class Absent:
    """Anything of torch's: a type that nothing is of, a block and a decorator that do nothing."""

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
    def find_spec(self, name: str, *_where: Any) -> ModuleSpec | None:
        gone = name.partition(".")[0] == _GONE
        return ModuleSpec(name, self, is_package=True) if gone else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass
