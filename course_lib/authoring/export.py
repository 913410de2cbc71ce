"""``course export``: a student's attention kernel as one file that needs the course no more."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from typing import Any

from course_lib.authoring.course_file import CodeCell, FileProblem
from course_lib.authoring.regions import NOT_ATTEMPTED
from course_lib.grading.spec import Exercise

_ALLOWED = {"torch", "triton", *sys.stdlib_module_names}

_HEAD = '"""Exercise {id} of the FlashAttention course. Run this file on any CUDA GPU."""\n\n'

# Judged as in the course: float64 truth, twice the error of eager attention, twice the rounding.
_MAIN = """

def main():
    if not torch.cuda.is_available():
        raise SystemExit("This file needs a CUDA GPU, and torch finds none here.")
    sdpa, bench = torch.nn.functional.scaled_dot_product_attention, triton.testing.do_bench
    new_gpu = torch.cuda.get_device_capability() >= (8, 0)
    backend = getattr(torch.nn.attention.SDPBackend, ("EFFICIENT", "FLASH")[new_gpu] + "_ATTENTION")
    print(torch.cuda.get_device_name(), "torch", torch.__version__, "triton", triton.__version__)
    for causal in (False, True):
        q, k, v = torch.randn(3, 2, 4, 1000, 64, device="cuda").half()
        hidden = torch.ones(1000, 1000, device="cuda").triu(1).bool() & causal
        eager = lambda q, k, v: (q @ k.mT / 8).masked_fill(hidden, -torch.inf).softmax(-1) @ v
        truth = eager(q.double(), k.double(), v.double())
        outputs = {function}(q, k, v, causal=causal)[0], eager(q, k, v), truth.half()
        mine, other, rounding = ((x - truth).abs().max().item() for x in outputs)
        if not mine <= 2 * other + 2 * rounding:
            raise SystemExit(f"causal={{causal}}: wrong, the largest error is {{mine:.1e}}")
        q, k, v = torch.randn(3, 1, 8, 8192, 64, device="cuda").half()
        t_mine = bench(lambda: {function}(q, k, v, causal=causal), return_mode="median")
        with torch.nn.attention.sdpa_kernel(backend):
            t_sdpa = bench(lambda: sdpa(q, k, v, is_causal=causal), return_mode="median")
        print(f"causal={{causal}}: right (error {{mine:.1e}}); 8 heads, N=8192, d=64, fp16: "
              f"{{t_mine:.2f}} ms, SDPA {{backend.name}} {{t_sdpa:.2f}} ms")


if __name__ == "__main__":
    main()
"""


def require_exportable(spec: Exercise) -> None:
    """Raise FileProblem unless ``spec`` is an attention launcher that takes ``causal``."""
    arguments = spec.signature
    if not all(name in arguments for name in ("q", "k", "v", "causal")):
        raise FileProblem(
            f"{spec.id} is no complete attention: course export takes the launcher of 7.4 or 7★."
        )


def exported(spec: Exercise, cells: Sequence[CodeCell]) -> str:
    """Return the text of the file: the kernel, its helpers, and a main that checks and times it.

    Raises FileProblem if the exercise is not attempted yet, or imports more than torch, triton
    and the standard library; BrokenCell if its cells cannot be loaded.
    """
    from course_lib.accounting.extract import to_source
    from course_lib.authoring.collect import load

    function: Callable[..., Any] = load(cells, spec)
    source = to_source(function, inline_library=True).strip()
    if NOT_ATTEMPTED in source:
        raise FileProblem(f"{spec.id} is {NOT_ATTEMPTED} yet: there is no kernel to export.")
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
