"""A backend that compiles for nothing: asked whether it would, it says why not."""

from __future__ import annotations

from typing import Any

from triton._C.libtriton import NoCompiler
from triton.backends.compiler import BaseBackend


class InterpreterBackend(BaseBackend):
    """What `triton.compile` finds here instead of a compiler."""

    @staticmethod
    def supports_target(target: Any) -> bool:
        """Raise NoCompiler: every way to a compiled kernel begins with this question."""
        raise NoCompiler

    hash = parse_options = add_stages = load_dialects = get_module_map = supports_target
