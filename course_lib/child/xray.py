"""What the compiler makes of a kernel, for any GPU and without one.

`xray` compiles a kernel, `xray_launch` whatever a launcher starts, in a child process (one process
runs Triton in one mode only), and reads the answer off the machine code: shared memory, registers,
stack (where spilled registers go), tensor-core and copy instructions, and how many blocks fit on an
SM. About 2 s a target on two cores, plus the child's start; a kernel compiled before takes less.
Where there is no compiler, what the lessons x-ray comes from a record, and a line says so.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.accounting.hardware import gpu
from course_lib.style.table import Table

# Per SM (CUDA C++ programming guide, technical specifications): shared memory in KiB, warps
_PER_SM = {75: (64, 32), 80: (164, 64), 89: (100, 48), 90: (228, 64), 100: (228, 64)}
_REGISTERS_PER_SM = 65536
_TENSOR_CORE = r"(HMMA|IMMA|QMMA|OMMA|HGMMA|QGMMA|IGMMA|UTC[A-Z]*MMA)"
_KINDS = {
    "tensor_core": re.compile(_TENSOR_CORE),
    "async_copies": re.compile(r"(LDGSTS|UTMALDG)"),
    "loads": re.compile(r"LDG(?!STS)|LD\."),
    "stores": re.compile(r"(STG|UTMASTG)"),
    "spills": re.compile(r"(LDL|STL)"),
    "fma": re.compile(r"(FFMA|HFMA2)"),
    "exponentials": re.compile(r"MUFU\.EX2"),
}


@dataclass(frozen=True)
class XRay:
    """One kernel, compiled for one GPU.

    Attributes:
        kernel: its name.
        target: the GPU, as in `course_lib.accounting.hardware.GPUS`.
        num_warps: warps per block.
        shared_bytes: shared memory per block, bytes.
        registers: per thread.
        stack_bytes: per thread: spilled registers live here, in device memory's address space.
        instructions: how many of each kind stand in the machine code (not: are executed):
            tensor_core, async_copies, loads, stores, spills, fma, exponentials.
    """

    kernel: str
    target: str
    num_warps: int
    shared_bytes: int
    registers: int
    stack_bytes: int
    instructions: dict[str, int]

    @property
    def fits(self) -> bool:
        """Whether a block can get the shared memory it asks for."""
        return self.shared_bytes <= gpu(self.target).shared_bytes

    @property
    def blocks_per_sm(self) -> int:
        """How many blocks fit on one SM: by registers, by shared memory, by warps; the least."""
        if not self.fits:
            return 0
        shared_kib, warps = _PER_SM[gpu(self.target).sm]
        # the driver takes 1 KiB of shared memory for each block from compute capability 8.0 on
        own = self.shared_bytes + (1024 if gpu(self.target).sm >= 80 else 0)
        by_registers = _REGISTERS_PER_SM // (max(-(-self.registers // 8) * 8, 8) * 32)
        return min(
            by_registers // self.num_warps,
            shared_kib * 1024 // own if own else warps,
            warps // self.num_warps,
        )

    @property
    def sentence(self) -> str:
        """What matters most about this machine code, in one sentence."""
        count, limit = self.instructions, gpu(self.target).shared_kib_per_block
        if not self.fits:
            return (
                f"does not fit: it wants {self.shared_bytes / 1024:.0f} KiB of shared memory and "
                f"a block gets at most {limit} KiB: smaller tiles or fewer stages"
            )
        said = []
        if not count["tensor_core"] and gpu(self.target).sm == 75 and count["fma"]:
            said.append(
                "no tensor-core instruction: this Triton emits none for a T4, so tl.dot is "
                f"{count['fma']} multiply-adds, at fp32 speed"
            )
        elif not count["tensor_core"]:
            said.append("no tensor-core instruction: there is no tl.dot, or it is float32 (ieee)")
        if self.stack_bytes or count["spills"]:
            said.append(
                f"spills: {self.stack_bytes} bytes per thread do not fit in registers and go "
                "through memory: smaller tiles or more warps"
            )
        fit = f"{self.blocks_per_sm} block(s) of {self.num_warps} warps fit on one SM, no spills"
        return "; ".join(said) or fit

    def row(self) -> dict[str, Any]:
        """Return the columns of the table."""
        return {
            "GPU": self.target,
            "kernel": self.kernel,
            "shared KiB": f"{self.shared_bytes / 1024:.0f} of "
            f"{gpu(self.target).shared_kib_per_block}",
            "registers": self.registers,
            "stack B": self.stack_bytes,
            "blocks/SM": self.blocks_per_sm,
            "what to notice": self.sentence,
        }


class XRays(list):
    """A list of `XRay` that shows itself as a table, in a notebook and in a terminal."""

    def table(self) -> Table:
        """Return one row a kernel and GPU."""
        rows = [ray.row() for ray in self]
        bars = {"registers": "other", "stack B": "naive"}
        return Table(list(rows[0]), [list(row.values()) for row in rows], bars=bars)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_() if self else "(no kernel)"

    def __str__(self) -> str:
        return str(self.table()) if self else "(no kernel)"


def xray(
    kernel: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    target: str | Sequence[str] = "T4",
    *,
    num_warps: int = 4,
    num_stages: int = 3,
    timeout: float = 120.0,
) -> XRays:
    """Compile ``kernel`` for each target and look at the machine code.

    Args:
        kernel: a ``@triton.jit`` function; from a notebook cell too.
        signature: type of each argument that is no constant: "*fp16" (a pointer, taken to be
            16-byte aligned), "i32", "fp32" ...; "i32:16" for a number that is known to be divisible
            by 16, as Triton finds out at a launch. Strides usually are, and without it the
            compiler can neither load 16 bytes at a time nor copy asynchronously.
        constants: value of each ``tl.constexpr`` argument.
        target: name of a GPU in `GPUS`, or several.
        num_warps: as at the launch.
        num_stages: as at the launch.
        timeout: seconds for the child, all targets together.

    Raises:
        ValueError: for an unknown GPU, for arguments that are missing or too many, and with the
            compiler's message for a kernel that does not compile.
    """
    from course_lib.child.extract import python_function

    names = python_function(kernel).__code__.co_varnames
    names = names[: python_function(kernel).__code__.co_argcount]
    given = {*signature, *constants}
    if given != set(names) or {*signature} & {*constants}:
        raise ValueError(
            f"signature and constants must name each argument of the kernel once: missing "
            f"{sorted(set(names) - given)}, unknown {sorted(given - set(names))}, twice "
            f"{sorted({*signature} & {*constants})}."
        )
    options = {"num_warps": num_warps, "num_stages": num_stages}
    job = {"signature": dict(signature), "constants": dict(constants), "options": options}
    return _in_child(kernel, "_compile_task", job, target, timeout)


def xray_launch(
    launcher: Callable[..., Any],
    *args: Any,
    target: str | Sequence[str] = "T4",
    timeout: float = 120.0,
    **kwargs: Any,
) -> XRays:
    """Look at every kernel that ``launcher(*args, **kwargs)`` starts, as it starts them.

    Args:
        launcher: a function that launches Triton kernels.
        *args: its arguments; of tensors only shape, strides and dtype count.
        target: name of a GPU in `GPUS`, or several.
        timeout: seconds for the child, all targets together.
        **kwargs: the launcher's keyword arguments.

    Raises:
        ValueError: for an unknown GPU, and with the message for what does not compile.
    """
    from course_lib.child.trusted_codec import encode_call

    job = {"call": encode_call(args, kwargs, contents=False)}
    return _in_child(launcher, "_launch_task", job, target, timeout)


def _in_child(
    function: Any, task: str, job: dict[str, Any], target: str | Sequence[str], timeout: float
) -> XRays:
    from course_lib.child.compiled import compiled
    from course_lib.child.extract import extract

    targets = [gpu(name) for name in ([target] if isinstance(target, str) else target)]
    piece = extract(function)
    job |= {"name": piece.name, "archs": [found.sm for found in targets]}
    result = compiled(piece, f"{__name__}:{task}", job, timeout)
    if result.failure is not None:
        raise ValueError(f"`{piece.name}` could not be compiled: {result.failure.message}")
    rays = XRays()
    for found, kernels in zip(targets, result.value, strict=True):
        rays += [XRay(target=found.name, **kernel) for kernel in kernels]
    return rays


# In the child ----------------------------------------------------------------------------------


def _compile_task(student: Any, job: dict[str, Any]) -> list[list[dict]]:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = getattr(student, job["name"])
    while not hasattr(kernel, "arg_names"):
        kernel = kernel.fn
    names = kernel.arg_names
    constants = {(names.index(name),): value for name, value in job["constants"].items()}
    signature = {name: job["signature"].get(name, "constexpr") for name in names}
    divisible = [name for name, kind in signature.items() if kind.startswith("*")]
    divisible += [name for name, kind in signature.items() if kind.endswith(":16")]
    aligned = {(names.index(name),): [["tt.divisibility", 16]] for name in divisible}
    signature = {name: kind.removesuffix(":16") for name, kind in signature.items()}
    answers = []
    for arch in job["archs"]:
        source = ASTSource(kernel, signature, constants, aligned)
        compiled = triton.compile(
            source, target=GPUTarget("cuda", arch, 32), options=job["options"]
        )
        answers.append([_look(compiled)])
    return answers


def _launch_task(student: Any, job: dict[str, Any]) -> list[list[dict]]:
    import triton
    from triton.runtime.jit import JITFunction

    from course_lib.child.compile_check import _StandInDriver
    from course_lib.child.trusted_codec import decode_call

    run_kernel, seen = JITFunction.run, []

    def compile_only(kernel: Any, /, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        compiled = run_kernel(kernel, *args, grid=grid, warmup=True, **kwargs)
        seen.append(compiled)
        return compiled

    JITFunction.run = compile_only
    answers = []
    for arch in job["archs"]:
        triton.runtime.driver.set_active(_StandInDriver(arch))
        seen.clear()
        args, kwargs = decode_call(job["call"])
        getattr(student, job["name"])(*args, **kwargs)
        answers.append([_look(compiled) for compiled in seen])
    return answers


def _look(compiled: Any) -> dict[str, Any]:
    """Read registers, stack and instructions off a compiled kernel."""
    import tempfile

    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        tool = knobs.nvidia.cuobjdump.path
        used = subprocess.run(
            [tool, "-res-usage", "-sass", file.name], capture_output=True, text=True, check=True
        ).stdout
    usage = re.search(r"REG:(\d+) STACK:(\d+)", used)
    if usage is None:
        raise RuntimeError(f"cuobjdump printed no resource usage: {used[-200:]}")
    registers, stack = (int(found) for found in usage.groups())
    counts: Counter[str] = Counter()
    for line in re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", used):
        counts.update(kind for kind, pattern in _KINDS.items() if pattern.match(line))
    return {
        "kernel": compiled.metadata.name,
        "num_warps": compiled.metadata.num_warps,
        "shared_bytes": compiled.metadata.shared,
        "registers": registers,
        "stack_bytes": stack,
        "instructions": {kind: counts[kind] for kind in _KINDS},
    }
