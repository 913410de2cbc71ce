"""Stands where Triton's compiled core would, and holds what its interpreter needs of it.

Copied into the folder of that core. A compiled core in the same folder goes first: Python looks
for extension modules before it looks for files like this one. What needs a compiler raises
`NoCompiler`, in one sentence. Values of enumerations are those of Triton's core.
"""

from __future__ import annotations

import os
import sys
from enum import Enum
from types import ModuleType
from typing import Any

from . import interpreter_memory as memory

NO_COMPILER = (
    "This system has no Triton compiler, only Triton's interpreter: set TRITON_INTERPRET=1 before "
    "triton is imported (import course_lib does), or compile on Linux."
)


class NoCompiler(RuntimeError):
    """Something wants what Triton's interpreter does without."""

    def __init__(self) -> None:
        super().__init__(NO_COMPILER)


# Environment ------------------------------------------------------------------------------------


def getenv(name: str, default: str | None = None) -> str | None:
    """Return an environment variable."""
    return os.environ.get(name, default)


def getenv_bool(name: str, default: bool) -> bool:
    """Return whether an environment variable says yes."""
    said = os.environ.get(name)
    return default if said is None else said.lower() in {"1", "true", "on", "y", "yes"}


def get_cache_invalidating_env_vars() -> dict[str, str]:
    """Return the variables that change what is compiled: nothing is."""
    return {}


if __name__ == "triton._C.libtriton" and not getenv_bool("TRITON_INTERPRET", False):
    # no `import triton`: whoever looks for a compiler finds none, as if nothing were installed
    raise ImportError(NO_COMPILER)


# Types of arguments -----------------------------------------------------------------------------


def native_specialize_impl(
    backend: Any, arg: Any, is_const: bool, specialize: bool, align: bool
) -> tuple[str, None]:
    """Return the name of an argument's type, such as "i32" or "*fp16", and nothing to compile for.

    Raises TypeError for what Triton takes as no tensor and no number.
    """
    if specialize:
        raise NoCompiler
    if arg is None:
        return "constexpr", None
    if isinstance(arg, bool):
        return "u1", None
    if isinstance(arg, int):
        return _of_an_integer(arg), None
    if isinstance(arg, float):
        return "fp32", None
    if hasattr(arg, "data_ptr"):
        from triton._utils import canonicalize_ptr_dtype

        return canonicalize_ptr_dtype(arg.dtype, is_const), None
    raise TypeError(f"failed to specialize argument of type: {type(arg).__name__}")


def _of_an_integer(value: int) -> str:
    if -(2**31) <= value < 2**31:
        return "i32"
    return "u64" if value >= 2**63 else "i64"


# Submodules -------------------------------------------------------------------------------------


def _enum(name: str, members: str, start: int = 0) -> type[Enum]:
    return Enum(name, members.split(), start=start)  # type: ignore[return-value]


class _Compiled(type):
    """A class of Triton's compiler: it can be named in an annotation, and not be made."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NoCompiler


def _compiled(*names: str) -> dict[str, type]:
    return {name: _Compiled(name, (), {}) for name in names}


def _submodule(name: str, *tables: dict[str, Any], **members: Any) -> ModuleType:
    """Return a module that can be imported from by its full name, as those of an extension can."""
    module = ModuleType(f"{__name__}.{name}", "Part of a core without a compiler.")

    def missing(attribute: str) -> Any:
        raise AttributeError(f"{name}.{attribute}: {NO_COMPILER}")

    module.__getattr__ = missing  # type: ignore[method-assign]
    for table in (*tables, members):
        vars(module).update(table)
    sys.modules[module.__name__] = module
    return module


interpreter = _submodule(
    "interpreter",
    MEM_SEMANTIC=_enum("MEM_SEMANTIC", "ACQUIRE_RELEASE ACQUIRE RELEASE RELAXED"),
    RMW_OP=_enum("RMW_OP", "ADD FADD AND OR XOR XCHG MAX MIN UMIN UMAX"),
    load=memory.load,
    store=memory.store,
    atomic_rmw=memory.atomic_rmw,
    atomic_cas=memory.atomic_cas,
)

ir = _submodule(
    "ir",
    _compiled("value", "type", "builder"),
    ATOMIC_OP=_enum("ATOMIC_OP", "AND OR XOR ADD FADD MAX MIN UMAX UMIN XCHG", start=1),
    CACHE_MODIFIER=_enum("CACHE_MODIFIER", "NONE CA CG WB CS WT CV", start=1),
    DESCRIPTOR_REDUCE_KIND=_enum(
        "DESCRIPTOR_REDUCE_KIND", "ADD MIN MAX INC DEC AND OR XOR", start=1
    ),
    EVICTION_POLICY=_enum("EVICTION_POLICY", "NORMAL EVICT_FIRST EVICT_LAST", start=1),
    INPUT_PRECISION=_enum("INPUT_PRECISION", "TF32 TF32x3 IEEE BF16x3 BF16x6"),
    MEM_SEMANTIC=_enum("MEM_SEMANTIC", "RELAXED ACQUIRE RELEASE ACQUIRE_RELEASE", start=1),
    MEM_SYNC_SCOPE=_enum("MEM_SYNC_SCOPE", "GPU CTA SYSTEM", start=1),
    PADDING_OPTION=_enum("PADDING_OPTION", "PAD_ZERO PAD_NAN", start=1),
    PROPAGATE_NAN=Enum("PROPAGATE_NAN", {"NONE": 0, "ALL": 0xFFFF}),
    ROUNDING_MODE=_enum("ROUNDING_MODE", "RTZ RTNE"),
    ScaleDotElemTypeTY=_enum("ScaleDotElemTypeTY", "E4M3 E5M2 E2M3 E3M2 E2M1 BF16 FP16"),
)

# imported by name; Gluon is Triton's language for GPUs and is never interpreted
gluon_ir = _submodule(
    "gluon_ir",
    _compiled(
        "GluonOpBuilder",
        "compute_tmem_reg_layout",
        "get_amd_mfma_scale_layout",
        "get_amd_wmma_scale_layout",
    ),
)
linear_layout = _submodule("linear_layout", _compiled("LinearLayout"))
