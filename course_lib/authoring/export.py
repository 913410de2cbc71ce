"""``course export``: a student's attention kernel as one file that needs the course no more."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from typing import Any

from course_lib.authoring.compact import compact
from course_lib.authoring.regions import STUBS
from course_lib.handin.course_file import CodeCell, FileProblem
from course_lib.judging.spec import Exercise

_ALLOWED = {"torch", "triton", *sys.stdlib_module_names}

_HEAD = '"""Exercise {id} of the FlashAttention course: run this file on any CUDA GPU."""\n'

# Judged as in the course, SDPA standing in for eager: twice its error plus twice the rounding.
_MAIN = """
if __name__ == "__main__":
    if not torch.cuda.is_available(): raise SystemExit("This needs a CUDA GPU; torch finds none.")
    torch.backends.cuda.enable_cudnn_sdp(False)  # SDPA is FlashAttention-2 on sm_80 and newer
    mine, sdpa = {function}, torch.nn.functional.scaled_dot_product_attention
    print(torch.cuda.get_device_name(), torch.__version__, triton.__version__, "H=8, d=64, fp16")
    for n, causal in ((1000, False), (1000, True), (4096, False), (4096, True)):
        q, k, v = torch.randn(3, 1, 8, n, 64, device="cuda").half()
        truth = sdpa(q.double(), k.double(), v.double(), is_causal=causal)
        runs = [lambda: mine(q, k, v, causal=causal)[0], lambda: sdpa(q, k, v, is_causal=causal)]
        error, other, half = (abs(o - truth).max() for o in (runs[0](), runs[1](), truth.half()))
        mark = "right" if error <= 2 * other + 2 * half else "WRONG"
        ms, t_sdpa = (triton.testing.do_bench(run, return_mode="median") for run in runs)
        print(f"{{n=}} {{causal=}}: {{mark}}, {{error:.0e}}; {{ms:.3f}} ms, SDPA {{t_sdpa:.3f}} ms")
"""


def require_exportable(spec: Exercise) -> None:
    """Raise FileProblem unless ``spec`` is an attention launcher that takes ``causal``."""
    arguments = spec.signature
    complete = all(name in arguments for name in ("q", "k", "v", "causal"))
    if not complete or ":" in spec.id:  # a variant computes something that SDPA does not
        raise FileProblem(
            f"{spec.id} is no complete attention: course export takes the launcher of 7.4 or 7★."
        )


def exported(spec: Exercise, cells: Sequence[CodeCell]) -> str:
    """Return the text of the file: the kernel, its helpers, and a main that checks and times it.

    Raises FileProblem if the exercise is not attempted yet, or imports more than torch, triton
    and the standard library; BrokenCell if its cells cannot be loaded.
    """
    from course_lib.child.extract import NotExtractable, to_source
    from course_lib.handin.cells import load, program

    if any(stub in program(cells, spec) for stub in STUBS):
        raise FileProblem(f"{spec.id} is not attempted yet: there is no kernel to export.")
    function: Callable[..., Any] = load(cells, spec)
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
    return head + missing + source + "\n" + _MAIN.format(function=spec.function)


def _imports(source: str) -> set[str]:
    """Return the top-level packages that ``source`` imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found
