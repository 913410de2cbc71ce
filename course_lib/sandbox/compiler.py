"""Inside a sandbox of its own: compile a checked kernel for a GPU. Only ptxas may be started.

The launch is the one that the interpreter has run: same source, same types, same constants. No line
of a student's Python runs here, so what compiles is what was judged.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from course_lib.accounting import launch_arguments
from course_lib.sandbox import kernel_source
from course_lib.sandbox.channel import Channel
from course_lib.sandbox.profile import Limits, confine_compiling

_ARCH = 80  # of most that is compiled
_LAUNCHER = "the launcher"  # no name that a student's function may have


def warm_up() -> None:
    """In the zygote: import Triton's compiler, and let it find out which one it is."""
    import triton.compiler.code_generator  # and half a hundred modules with it
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import CUDABackend

    from course_lib.child.compile_check import know_triton

    assert triton.compiler
    with contextlib.suppress(Exception):  # a child will say what is wrong
        know_triton()
        CUDABackend(GPUTarget("cuda", _ARCH, 32)).hash()  # it asks ptxas


def serve(channel: Channel, settings: dict[str, Any]) -> None:
    """Confine this process, then compile what the parent sends."""
    folder = Path(settings.pop("folder"))
    os.environ["TRITON_CACHE_DIR"] = os.environ["TMPDIR"] = str(folder)
    confine_compiling(Limits(**settings), folder, _programs())
    while True:
        request = channel.receive()
        try:
            channel.send(compile_launch(**request))
        except kernel_source.NotTriton as error:
            channel.send({"ok": False, "kind": "student", "message": str(error)})
        except Exception as error:
            says = f"{type(error).__name__}: {error}"
            channel.send({"ok": False, "kind": "infrastructure", "message": says[:2000]})


def compile_launch(
    source: str,
    name: str,
    grid: list[int],
    args: dict[str, Any],
    options: dict[str, Any],
    arch: int,
    written: dict[str, Any] | None = None,
    *,
    assembled: bool = True,
) -> dict[str, Any]:
    """Return the fields of a `CompileReport` for one launch.

    With ``written``, what it stored in the interpreter, it must store the same as it is compiled.
    ``assembled`` says whether it must be assembled, too.
    """
    from course_lib.child import compile_check
    from course_lib.child.trusted_codec import encode, encode_call

    module = _module(source, name)

    def launcher() -> None:
        given = {key: launch_arguments.from_plain(value) for key, value in args.items()}
        given = {key: getattr(value, "table", value) for key, value in given.items()}
        kernel = getattr(module, name)
        by_place, by_name = launch_arguments.in_order(given, kernel.arg_names)
        kernel[tuple(grid)](*by_place, **by_name, **options)

    vars(module)[_LAUNCHER] = launcher
    payload: dict[str, Any] = {"archs": [arch], "call": encode_call([], {}), "origins": {}}
    payload["name"] = _LAUNCHER if assembled else ""
    if written is not None:
        parts = {"name": name, "grid": grid, "args": args, "options": options, "written": written}
        payload["launches"] = encode([parts])
    answer = compile_check._task(module, payload)[0]
    return {key: answer.get(key, "") for key in ("ok", "kind", "message", "kernel")}


_loaded: dict[str, tuple[str, Any]] = {}  # name -> source and module: cases launch the same kernels


def _module(source: str, name: str) -> Any:
    """Return what `kernel_source.load` makes of a source, if it is not the last of this name."""
    if _loaded.get(name, ("", None))[0] != source:
        _loaded[name] = source, kernel_source.load(source, name, compiled=True)
    return _loaded[name][1]


def _programs() -> list[Path]:
    import triton

    return sorted((Path(triton.__file__).parent / "backends" / "nvidia" / "bin").glob("ptxas*"))
