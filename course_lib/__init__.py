"""The FlashAttention course: reference implementations, ledgers, widgets and graders.

``import course_lib`` is the first line of every notebook. It is cheap on purpose (no torch, no
triton, no NumPy) and it takes the one decision that must be taken before triton is imported:
whether this process *compiles* Triton kernels for a GPU or *interprets* them in Python.
"""

from __future__ import annotations

import importlib
from typing import Any

from course_lib import _mode

__version__ = "0.1.0"  # of the last release; pyproject.toml and the Colab links read it here

_mode.require_python()
_mode.choose()

# name a student types -> module that defines it; imported on first use
_LAZY = {
    "check": "course_lib.checking",
    "hint": "course_lib.checking",
    "progress": "course_lib.progress_view",
    "CheckFailed": "course_lib.judging.report",
    "count": "course_lib.child.count",
    "EagerLedger": "course_lib.accounting.eager_ledger",
    "KernelLedger": "course_lib.accounting.kernel_ledger",
    "Predict": "course_lib.widgets.predict",
    "Quiz": "course_lib.widgets.quiz",
    "demo": "course_lib.demo",
    "export": "course_lib.authoring.export",
    "set_page": "course_lib.style.page",
    "show": "course_lib.style.picture",
}

__all__ = ["__version__", *_LAZY]


def __getattr__(name: str) -> Any:
    """Import ``check``, ``count`` and the other public names when they are first asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module 'course_lib' has no attribute {name!r}")
    module = importlib.import_module(_LAZY[name])
    value = module if _LAZY[name].endswith(f".{name}") and name == "demo" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_LAZY))
