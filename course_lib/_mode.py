"""Who chooses the mode, compiled or interpreted Triton: one process has one of them.

Triton reads ``TRITON_INTERPRET`` when it is first imported and never again. So the course decides
first: where there is a usable CUDA driver, kernels are compiled; elsewhere they are interpreted.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Literal

VARIABLE = "TRITON_INTERPRET"
_TRUE = {"1", "true", "yes", "on", "y"}

Mode = Literal["gpu", "interpreter", "none"]


def require_python() -> None:
    """Stop in one sentence if this Python is too old to read the course's other files."""
    if sys.version_info < (3, 11):  # noqa: UP036  an old Python gets as far as this file
        raise SystemExit(
            f"The course needs Python 3.11 or newer, and this is {sys.version.split()[0]} "
            f"({sys.executable})."
        )


def cuda_devices() -> int:
    """Return how many CUDA devices the driver reports (0 without a driver), without torch."""
    if sys.platform == "darwin" or os.environ.get("CUDA_VISIBLE_DEVICES") in {"", "-1"}:
        return 0
    try:
        cuda = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        n = ctypes.c_int(0)
        if cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(n)) == 0:
            return n.value
    except (OSError, AttributeError):
        pass
    return 0


def asked_to_interpret() -> bool:
    """Return whether the environment asks triton for its interpreter."""
    return os.environ.get(VARIABLE, "").lower() in _TRUE


def imported_mode() -> Mode | None:
    """Return the mode of the triton that this process has already imported, or None."""
    triton = sys.modules.get("triton")
    if triton is None or not hasattr(triton, "knobs"):
        return None
    language = sys.modules.get("triton.language")
    if language is None:
        return None
    # `cdiv` is a jitted library function: its class tells which mode triton was imported in.
    interpreted = type(getattr(language, "cdiv", None)).__name__ == "InterpretedFunction"
    return "interpreter" if interpreted else "gpu"


def _interpreter_only() -> bool:
    from course_lib.laptop import interpreter_only

    return interpreter_only()


def choose() -> None:
    """Set ``TRITON_INTERPRET=1`` where no GPU is usable; one sentence if triton was faster."""
    already = imported_mode()
    if VARIABLE not in os.environ and (
        already == "interpreter" or cuda_devices() == 0 or _interpreter_only()
    ):
        os.environ[VARIABLE] = "1"
    wanted: Mode = "interpreter" if asked_to_interpret() else "gpu"
    if already is not None and already != wanted:
        import warnings

        warnings.warn(
            f"triton was imported before course_lib, in {already} mode, but this machine needs "
            f"{wanted} mode: restart the kernel and import course_lib first.",
            stacklevel=3,
        )


def mode() -> Mode:
    """Return ``"gpu"``, ``"interpreter"``, or ``"none"`` where Triton is not installed."""
    import importlib.util

    if importlib.util.find_spec("triton") is None:
        return "none"
    return imported_mode() or ("interpreter" if asked_to_interpret() else "gpu")
