"""A driver that is never active: no device runs kernels that were compiled here."""

from __future__ import annotations

from typing import Any

from triton._C.libtriton import NoCompiler
from triton.backends.driver import DriverBase
from triton.runtime import cache


class InterpreterDriver(DriverBase):
    """Never made; Triton wants a driver with each backend."""

    @classmethod
    def is_active(cls) -> bool:
        """Return that this is no driver to launch with."""
        return False

    def _never(self, *args: Any) -> Any:
        raise NoCompiler

    map_python_to_cpp_type = get_current_target = _never
    get_active_torch_device = get_benchmarker = _never


def triton_key() -> str:
    """Return the name of this compiler, of which there is none.

    Triton makes the name from the file of its compiled core. `torch.compile` asks for it wherever
    triton can be imported, even if it then compiles C++ for a CPU.
    """
    return f"{cache.__version__}, interpreter only"


cache.triton_key = triton_key
