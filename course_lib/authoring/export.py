"""``course export``: a student's attention kernel as one file that needs the course no more."""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

from course_lib.authoring.compact import compact
from course_lib.handin.blank import is_blank
from course_lib.handin.course_file import FileProblem
from course_lib.judging.spec import Exercise

_ALLOWED = {"torch", "triton", *sys.stdlib_module_names}

# The environment is read when Triton is imported, so the head comes before what the kernel imports.
_HEAD = '''"""Exercise {id} of the FlashAttention course: run this file on any CUDA GPU.
--check: right or wrong, in Triton's interpreter, without a GPU (and without times)."""
import os, sys
CHECK = __name__ == "__main__" and "--check" in sys.argv
if CHECK: os.environ["TRITON_INTERPRET"] = "1"
'''

# Judged as in the course, SDPA standing in for eager: twice its error plus twice the rounding.
_MAIN = """
if __name__ == "__main__":
    if {{"-h", "--help"}} & set(sys.argv): raise SystemExit(print(__doc__))
    if not CHECK and not torch.cuda.is_available():
        raise SystemExit("This needs a CUDA GPU; torch finds none.")
    device, dtype = ("cpu", torch.float32) if CHECK else ("cuda", torch.float16)
    torch.backends.cuda.enable_cudnn_sdp(False)  # SDPA is FlashAttention-2 on sm_80 and newer
    mine, sdpa = {call}, torch.nn.functional.scaled_dot_product_attention
    print("interpreted" if CHECK else torch.cuda.get_device_name(), torch.__version__,
            triton.__version__, "H=8, d=64", dtype)
    short, long = (50, 129) if CHECK else (1000, 4096)
    for n, causal in ((short, False), (short, True), (long, False), (long, True)):
        q, k, v = torch.randn(3, 1, 8, n, 64, device=device, dtype=dtype)
        truth = sdpa(q.double(), k.double(), v.double(), is_causal=causal)
        runs = [lambda: mine(q, k, v, causal=causal)[0], lambda: sdpa(q, k, v, is_causal=causal)]
        error, other, cut = (abs(o - truth).max() for o in (runs[0](), runs[1](), truth.to(dtype)))
        right = error <= 2 * other + 2 * cut
        print(f"{{n=}} {{causal=}}: {{'right' if right else 'WRONG'}}, {{error:.0e}}")
        if CHECK and not right: sys.exit(1)
        if CHECK: continue
        ms, t_sdpa = (triton.testing.do_bench(run, return_mode="median") for run in runs)
        print(f"    {{ms:.3f}} ms, SDPA {{t_sdpa:.3f}} ms")
"""


def require_exportable(spec: Exercise) -> None:
    """Raise FileProblem unless ``spec`` is an attention launcher that takes ``causal``."""
    arguments = spec.signature
    complete = all(name in arguments for name in ("q", "k", "v", "causal"))
    if not complete or ":" in spec.id:  # a variant computes something that SDPA does not
        raise FileProblem(
            f"{spec.id} is no complete attention: course export takes 7.4, 7★ or 9.6."
        )


def export(
    function: Callable[..., Any], out: str | Path | None = None, *, force: bool = False
) -> Path:
    """Write your launcher, as it stands in this notebook, as one file; return the file.

    Raises FileProblem, in one sentence, for what is no complete attention, for a file that exists
    already (unless ``force``), and as `exported` does.
    """
    from course_lib.specs import find

    exercise = find(getattr(function, "__name__", str(function)))
    require_exportable(exercise)
    file = Path(out or f"{exercise.function}.py")
    if file.exists() and not force:
        raise FileProblem(f"{file} exists already: name another one, or say force=True.")
    text = exported(exercise, function)
    file.write_text(text, encoding="utf-8")
    print(written(file, text))
    return file


def written(file: Path, text: str) -> str:
    """Return what was written and how to run it."""
    return (
        f"{file}: {len(text.splitlines())} lines. Run it on any CUDA GPU: python {file}\n"
        f"No GPU? python {file} --check"
    )


def exported(spec: Exercise, function: Callable[..., Any]) -> str:
    """Return the text of the file: the kernel, its helpers, and a main that checks and times it.

    Raises FileProblem if the exercise is not attempted yet, cannot stand alone, or imports more
    than torch, triton and the standard library.
    """
    from course_lib.child.extract import NotExtractable, to_source

    if _is_unwritten(function):
        raise FileProblem(f"{spec.id} is not attempted yet: there is no kernel to export.")
    try:
        source = compact(to_source(function, inline_library=True))
    except NotExtractable as problem:
        raise FileProblem(f"{spec.id} cannot stand alone: {problem}") from None
    imported = _imports(source)
    if foreign := sorted(imported - _ALLOWED):
        raise FileProblem(f"{spec.id} imports {', '.join(foreign)}: use only torch and triton.")
    lines = source.splitlines()
    needed = (f"import {name}" for name in ("torch", "triton"))
    missing = "".join(line + "\n" for line in needed if line not in lines)
    head = _HEAD.format(id=spec.id)
    call = spec.function
    if isinstance(function, type):  # a torch.autograd.Function, which returns o alone
        call = f"(lambda q, k, v, causal: ({call}.apply(q, k, v, causal),))"
    return head + missing + source + "\n" + _MAIN.format(call=call)


def _is_unwritten(function: Any) -> bool:
    """Return whether the launcher, or a kernel that it names, is still a stub."""
    from course_lib.child.homes import unwrap

    if not isinstance(function, FunctionType):
        return False
    named = (function.__globals__.get(name) for name in function.__code__.co_names)
    written = [unwrap(part) for part in (function, *named)]
    with contextlib.suppress(OSError):  # without its source it cannot be written out, either
        return any(is_blank(inspect.getsource(f)) for f in written if isinstance(f, FunctionType))
    return False


def _imports(source: str) -> set[str]:
    """Return the top-level packages that ``source`` imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found
