"""Does a launcher's kernel compile for a GPU? Asked without one.

Some kernels pass in the interpreter and do not compile (lesson 06). The launcher runs in a child
process on CPU tensors, through Triton's ordinary launch path (binder, specialisation, autotuner),
with a stand-in driver that names the GPU; each launch stops after compiling. On two cores this
takes 3 to 5 s, of which importing torch is half; a kernel that Triton's cache knows takes no time.
Longer than 400 lines because what is asked of the child and what it answers stand together.
"""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from course_lib.accounting import launch_arguments
from course_lib.child.as_compiled import difference
from course_lib.child.compiled import compiled
from course_lib.child.compiler_messages import (
    COMPILED,
    NOT_ATTEMPTED,
    carried_variable,
    explain,
    first_assignment,
)
from course_lib.child.extract import NotExtractable, extract
from course_lib.child.process import ChildFailure, call_student
from course_lib.child.student_error import Origins, student_frames
from course_lib.child.trusted_codec import decode, decode_call, encode, encode_call
from course_lib.child.ttir import NotUnderstood

# shared memory one block can get, KiB (CUDA C++ programming guide, technical specifications)
SHARED_KIB = {75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 120: 99}


@dataclass(frozen=True)
class KernelInfo:
    """One compiled kernel: its shared memory per block in bytes, and its launch options."""

    name: str
    shared_bytes: int
    num_warps: int
    num_stages: int


@dataclass(frozen=True)
class CompileReport:
    """Whether every kernel that a launcher starts compiles for one GPU.

    Attributes:
        ok: whether all do.
        target: "sm_80" and the like.
        kind: "ok"; "not attempted" (still the stub); "student" (their code does not compile);
            "timeout"; "infrastructure" (no compiler, the child died: not their doing);
            "unclear" (it compiles, and what it does then could not be found out).
        message: one sentence for the student, with the line; "" if ok.
        kernel: name of the kernel or helper that failed, "" if none did.
        file, line, text: the source line, where the student wrote it ("", 0, "" if unknown).
        compiler_message: what the compiler said.
        kernels: the kernels that compiled, in launch order.
        seconds: what the whole child took.
    """

    ok: bool
    target: str
    kind: Literal["ok", "not attempted", "student", "timeout", "infrastructure", "unclear"] = "ok"
    message: str = ""
    kernel: str = ""
    file: str = ""
    line: int = 0
    text: str = ""
    compiler_message: str = ""
    kernels: tuple[KernelInfo, ...] = ()
    seconds: float = 0.0

    @property
    def shared_bytes(self) -> int:
        """The most shared memory a block of any of the kernels uses, bytes."""
        return max((kernel.shared_bytes for kernel in self.kernels), default=0)


def compile_for(
    launcher: Callable[..., Any],
    *example_args: Any,
    target: str | Sequence[str] = "sm_80",
    timeout: float = 120.0,
    launches: Sequence[Mapping[str, Any]] = (),
    **kwargs: Any,
) -> CompileReport | list[CompileReport]:
    """Compile, without running, every kernel that ``launcher(*example_args, **kwargs)`` starts.

    Args:
        launcher: a function that launches Triton kernels; or a ``torch.autograd.Function``, which
            is applied to the arguments and followed back (it takes keywords by their place).
        *example_args: its arguments; of tensors only shape, strides and dtype count.
        target: "sm_75" (T4), "sm_80" (A100), "sm_89" (L4), "sm_90" (H100) ..., or several:
            then one child compiles for all and a list comes back.
        timeout: seconds for the child, all targets together.
        launches: some that were interpreted (see `as_compiled.difference`): each is run once more,
            as it is compiled, and has to store the same.
        **kwargs: the launcher's keyword arguments.

    Raises:
        ValueError: for an unknown target.
        TypeError: for an argument that cannot be sent to another process.
    """
    targets = [target] if isinstance(target, str) else list(target)
    archs = [_arch(name) for name in targets]
    payload: dict[str, Any] = {"archs": archs}
    payload["call"] = encode_call(example_args, kwargs, contents=False)
    if launches:
        payload["launches"] = encode(list(launches))
    started = time.perf_counter()
    try:
        piece = extract(launcher)
    except NotExtractable as error:
        reports = [CompileReport(False, name, "student", str(error)) for name in targets]
    else:
        payload |= {"name": piece.name, "origins": piece.origins}
        result = compiled(piece, f"{__name__}:_task", payload, timeout)
        reports = [
            _from_failure(name, failure)
            if (failure := result.failure)
            else _from_answer(name, result.value[i])
            for i, name in enumerate(targets)
        ]
    seconds = time.perf_counter() - started
    reports = [replace(report, seconds=seconds) for report in reports]
    return reports[0] if isinstance(target, str) else reports


def _arch(target: str) -> int:
    found = re.fullmatch(r"sm_(\d+)", target)
    if not found or int(found[1]) not in SHARED_KIB:
        known = ", ".join(f"sm_{arch}" for arch in SHARED_KIB)
        raise ValueError(f"target must be one of {known}, got {target!r}.")
    return int(found[1])


def _from_answer(target: str, answer: dict[str, Any]) -> CompileReport:
    """Report what the child answered, plain data."""
    kernels = tuple(KernelInfo(**kernel) for kernel in answer["kernels"])
    return CompileReport(target=target, **answer | {"kernels": kernels})


def _from_failure(target: str, failure: ChildFailure) -> CompileReport:
    """Report what happened outside of any launch: the file's import, the child itself."""
    frame = failure.frames[-1] if failure.frames else None
    says = f"{failure.type}: {failure.message}" if failure.type else failure.message
    return CompileReport(
        ok=False,
        target=target,
        kind=failure.kind,
        message=says + (f" ({frame.text})" if frame else ""),
        file=frame.file if frame else "",
        line=frame.line if frame else 0,
        text=frame.text if frame else "",
        compiler_message=failure.traceback,
    )


# In the child ----------------------------------------------------------------------------------


# variables of the function that Triton 3.7 writes around each launch, beside a kernel's parameters
_OF_THE_LAUNCH = ("backend", "options", "params", "specialize_impl")


class _NoRoom(Exception):
    """A kernel wants more shared memory than a block can get."""

    def __init__(self, needed: int, limit: int) -> None:
        super().__init__(f"needs {needed} bytes of shared memory, limit {limit}")
        self.needed, self.limit = needed, limit


class _Otherwise(Exception):
    """A kernel that is right in the interpreter does something else when it is compiled."""


class _Read(Exception):
    """What Triton's frontend made of a kernel, and no more is wanted."""

    def __init__(self, text: str) -> None:
        super().__init__("only read")
        self.text = text


class _StandInDriver:
    """Just enough of a GPU driver for Triton to compile; each target is a device of its own."""

    def __init__(self, arch: int) -> None:
        self.arch = arch

    def get_current_device(self) -> int:
        return self.arch

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.arch, 32)

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")


def _task(student: Any, payload: dict[str, Any]) -> list[dict[str, Any]]:
    """In the child: run the launcher once per target with every launch stopped at compiling."""
    import triton

    watched = _watch_launches()
    answers = []
    for arch in payload["archs"]:
        triton.runtime.driver.set_active(_StandInDriver(arch))
        watched.kernels, watched.current, watched.parameters = [], "", []
        watched.seen, watched.launch = {}, None
        try:
            answer = _started(student, payload, watched) if payload["name"] else {"ok": True}
            for launch in decode(payload["launches"]) if "launches" in payload else ():
                do_as_compiled(student, watched, launch)
        except Exception as error:
            answer = _diagnose(error, watched, arch, payload["origins"], student.__file__)
        answers.append(answer | {"kernels": [asdict(kernel) for kernel in watched.kernels]})
    return answers


def _started(student: Any, payload: dict[str, Any], watched: SimpleNamespace) -> dict[str, Any]:
    """Run the launcher; return whether it launched anything."""
    args, kwargs = decode_call(payload["call"])
    launcher = call_student(getattr, student, payload["name"])
    if isinstance(launcher, type):
        _there_and_back(launcher, *args, *kwargs.values())
    else:
        launcher(*args, **kwargs)
    return _verdict(payload["name"], watched)


def _there_and_back(function: Any, *args: Any) -> None:
    """Apply a ``torch.autograd.Function`` and run its backward on a gradient of ones."""
    import torch

    tensors = [x.requires_grad_() for x in args if isinstance(x, torch.Tensor)]
    answer = function.apply(*args)
    o = answer[0] if isinstance(answer, tuple) else answer
    torch.autograd.grad(o, tensors, torch.ones_like(o), allow_unused=True)


def do_as_compiled(student: Any, watched: SimpleNamespace, launch: Mapping[str, Any]) -> None:
    """Do a launch once more as it is compiled. Raises if it does something else than interpreted.

    Its kernel is one that has been compiled, or one of ``student``'s.
    """
    kernel = watched.seen.get(launch["name"]) or getattr(student, launch["name"], None)
    if kernel is None:  # a launcher that took another way when nothing was computed
        return
    from triton.compiler.errors import CompilationError

    given = {key: launch_arguments.from_plain(value) for key, value in launch["args"].items()}
    given = {key: getattr(value, "table", value) for key, value in given.items()}
    try:
        text = _translated(kernel, watched, launch, given)
    except CompilationError:
        # a number that is 1 is a constant there, which a loop cannot change: that case alone fails
        fixed = {parameter.name for parameter in kernel.params if parameter.is_constexpr}
        ones = [k for k, v in given.items() if type(v) is int and v == 1 and k not in fixed]
        if not ones:
            raise
        text = _translated(kernel, watched, launch, given | dict.fromkeys(ones, 3))
    if says := difference(text, watched.source.signature, launch, student.__file__):
        raise _Otherwise(says)


def _translated(
    kernel: Any, watched: SimpleNamespace, launch: Mapping[str, Any], given: dict[str, Any]
) -> str:
    """Return what Triton's frontend makes of a launch with these arguments."""
    by_place, by_name = launch_arguments.in_order(given, kernel.arg_names)
    watched.launch = launch
    try:
        kernel[tuple(launch["grid"])](*by_place, **by_name, **launch["options"])
    except _Read as read:
        return read.text
    finally:
        watched.launch = None
    raise NotUnderstood("a kernel that is not launched")


@cache
def know_triton() -> str:
    """Let Triton's cache tell it from another Triton by its files' sizes and dates; return that.

    Triton hashes what they hold, half a gigabyte: 0.4 s in each process that compiles.
    """
    import triton
    from triton.compiler import compiler
    from triton.runtime import cache as triton_cache

    home = Path(triton.__file__).parent
    files = sorted([*home.rglob("*.py"), *home.glob("_C/*")])
    facts = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    key = sha256(repr(facts).encode()).hexdigest()
    for module in (triton_cache, compiler):  # where it stands depends on the version
        if hasattr(module, "triton_key"):
            module.triton_key = lambda: key
    return key


@cache
def _watch_launches() -> SimpleNamespace:
    """Make every launch compile only, remember what compiled, stop before ptxas if too large.

    While there is a ``launch``, it is only read what Triton's frontend makes of it.
    """
    from triton.backends.nvidia.compiler import CUDABackend
    from triton.compiler import ASTSource
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    from course_lib.accounting.autotune import first_config

    know_triton()
    watched = SimpleNamespace(kernels=[], current="", parameters=[], launch=None, source=None)
    make_ir = ASTSource.make_ir
    run_kernel, add_stages = JITFunction.run, CUDABackend.add_stages

    def compile_only(kernel: Any, /, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        watched.current, watched.parameters = kernel.fn.__name__, kernel.arg_names
        compiled = run_kernel(kernel, *args, grid=grid, warmup=True, **kwargs)
        if watched.launch:
            watched.source = compiled.src
            raise _Read(compiled.asm["ttir"])
        data = compiled.metadata
        _check_room(data.shared, data.target.arch)
        info = KernelInfo(watched.current, data.shared, data.num_warps, data.num_stages)
        watched.kernels.append(info)
        watched.seen[watched.current] = kernel
        watched.current = ""
        return compiled

    def stages_with_room(backend: Any, stages: dict, *args: Any, **kwargs: Any) -> None:
        add_stages(backend, stages, *args, **kwargs)
        assemble = stages["cubin"]

        def checked(source: Any, metadata: dict) -> Any:
            _check_room(metadata["shared"], backend.target.arch)  # ptxas would take long
            return assemble(source, metadata)

        stages["cubin"] = checked
        translate = stages["ttir"]

        def only_translated(source: Any, metadata: dict) -> Any:
            module = translate(source, metadata)
            if watched.launch:
                raise _Read(str(module))
            return module

        stages["ttir"] = only_translated

    def make_ir_too(source: Any, /, *args: Any, **kwargs: Any) -> Any:
        watched.source = source
        return make_ir(source, *args, **kwargs)

    ASTSource.make_ir = make_ir_too
    JITFunction.run, Autotuner.run = compile_only, first_config(Autotuner.run)
    CUDABackend.add_stages = stages_with_room
    return watched


def _check_room(shared: int, arch: int) -> None:
    limit = SHARED_KIB[arch] * 1024
    if shared > limit:
        raise _NoRoom(shared, limit)


def _verdict(name: str, watched: SimpleNamespace) -> dict[str, Any]:
    if watched.kernels:
        return {"ok": True}
    message = f"`{name}` launched no Triton kernel, so there was nothing to compile."
    return {"ok": False, "kind": "student", "message": message}


def _diagnose(
    error: Exception, watched: SimpleNamespace, arch: int, origins: Origins, file: str
) -> dict[str, Any]:
    """Turn what a launch raised into the fields of a `CompileReport`."""
    from triton.compiler.errors import CompilationError

    chain: list[BaseException] = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    answer: dict[str, Any] = {"ok": False, "kind": "student", "kernel": watched.current}
    answer["compiler_message"] = "\n".join(dict.fromkeys(str(e) for e in chain))
    root = chain[-1]
    said = [e for e in chain if isinstance(e, CompilationError)]
    if said:
        message = said[-1].error_message or str(root)
        answer |= _place(said, message, origins)
        if message.strip() == NOT_ATTEMPTED:
            return answer | {"kind": "not attempted", "message": NOT_ATTEMPTED}
        reason = explain(message, answer.get("text", ""))
    elif isinstance(root, _Otherwise):
        return answer | {"message": f"{COMPILED} {root}."}
    elif isinstance(root, NotUnderstood):
        reason = f"what its kernel does once it is compiled could not be followed: {root}"
        return answer | {"kind": "unclear", "message": reason}
    elif isinstance(root, _NoRoom):
        reason = (
            f"it needs {root.needed / 1024:.0f} KiB of shared memory, and a block has at most "
            f"{root.limit // 1024} KiB there: use smaller tiles or fewer num_stages"
        )
    elif type(root).__name__ == "PTXASError" or "ptxas" in str(root):
        from course_lib.child.known_good import is_assembled

        first = str(root).splitlines()[0]
        if "error code -9" in first or not is_assembled(arch):  # the system killed it
            reason = f"Triton's assembler ptxas is missing or failed: {first}"
            return answer | {"kind": "infrastructure", "message": reason}
        reason = f"the assembler ptxas, which takes other kernels, refuses it: {_refusal(root)}"
    elif taken := [name for name in watched.parameters if name in _OF_THE_LAUNCH]:
        reason = (
            f"`{taken[0]}` is no name for a parameter: Triton writes a function around each "
            "launch that has a variable of that name itself. Give the parameter another name"
        )
    elif watched.current and isinstance(root, OSError) and root.errno == errno.EFBIG:
        reason = (
            "what the compiler makes of it is too large to be written: unroll fewer turns of its "
            "loops (tl.static_range, loop_unroll_factor), or take smaller tiles"
        )
    elif watched.current and isinstance(root, OSError | MemoryError):  # no room on the disk, say
        reason = f"{type(root).__name__}: {root}"
        return answer | {"kind": "infrastructure", "message": reason}
    elif watched.current:
        reason = explain(str(root), Path(file).read_text("utf-8") if Path(file).is_file() else "")
    else:
        return answer | _launcher_failed(root, file)
    line = f" (line {answer['line']}: {answer['text']})" if answer.get("text") else ""
    message = f"`{answer['kernel']}` does not compile for sm_{arch}: {reason}{line}."
    return answer | {"message": message}


def _refusal(error: BaseException) -> str:
    """Return what ptxas says is wrong, in its first words about it."""
    found = re.search(r"(?:error|fatal)\s*: *(.+)", str(error).partition("stderr")[2])
    return found[1] if found else str(error).splitlines()[0]


def _place(said: list[Any], message: str, origins: Origins) -> dict[str, Any]:
    """Find the innermost line that the student wrote, in the cell or file where they wrote it."""
    for error in reversed(said):
        source, node = error.src or "", error.node
        defined = re.match(r"\s*def\s+(\w+)", source)
        if not defined or defined[1] not in origins or not hasattr(node, "lineno"):
            continue
        line = node.lineno
        if (variable := carried_variable(message)) is not None:
            line = first_assignment(source, variable) or line
        if line > len(source.splitlines()):  # a call's place, and the called function's source
            continue
        file, first = origins[defined[1]]
        return {
            "kernel": defined[1],
            "file": file,
            "line": first + line - 1,
            "text": source.splitlines()[line - 1].strip(),
        }
    return {}


def _launcher_failed(error: BaseException, file: str) -> dict[str, Any]:
    """Describe an exception of the launcher itself, outside of any kernel."""
    answer: dict[str, Any] = {"message": f"the launcher raised {type(error).__name__}: {error}"}
    for frame in student_frames(error, file)[-1:]:
        place = {"file": frame.file, "line": frame.line, "text": frame.text}
        answer |= place | {"kernel": frame.function}
    return answer
