"""Solution regions: what a solution keeps and an exercise leaves blank."""

from __future__ import annotations

import ast
import textwrap
from dataclasses import dataclass
from pathlib import Path

from course_lib.authoring.percent import BuildError, Cell

BEGIN = "### BEGIN SOLUTION"
END = "### END SOLUTION"

_PYTHON_STUB = 'raise NotImplementedError("not attempted")'
# inside a kernel nothing can be raised; this stops compiler and interpreter alike
_KERNEL_STUB = 'tl.static_assert(False, "not attempted")'


@dataclass(frozen=True)
class Region:
    """A region of a cell: indices of its two marker lines, and the markers' indentation."""

    begin: int
    end: int
    indent: str


def find_regions(file: Path, cell: Cell) -> list[Region]:
    """Return the regions of ``cell`` in order; BuildError where the markers do not pair up."""
    regions: list[Region] = []
    opened: int | None = None
    lines = cell.source.split("\n")
    for index, line in enumerate(lines):
        marker = line.strip()
        here = cell.line + 1 + index
        if marker == BEGIN:
            if opened is not None:
                raise BuildError(file, here, f"{BEGIN} inside a region that is still open")
            opened = index
        elif marker == END:
            if opened is None:
                raise BuildError(file, here, f"{END} without a {BEGIN}")
            indent = lines[opened][: lines[opened].index("#")]
            regions.append(Region(opened, index, indent))
            opened = None
        elif marker.startswith("#") and ("BEGIN SOLUTION" in marker or "END SOLUTION" in marker):
            raise BuildError(file, here, f"a marker is exactly {BEGIN!r} or {END!r}")
    if opened is not None:
        raise BuildError(file, cell.line + 1 + opened, f"{BEGIN} without an {END}")
    return regions


def blank(file: Path, cell: Cell) -> str:
    """Return the cell's text with each region replaced by its stub."""
    regions = find_regions(file, cell)
    if not regions:
        return cell.source
    if cell.kind != "code":
        raise BuildError(file, cell.line, "only code cells can hold a solution region")
    kernels = _kernel_lines(file, cell)
    lines = cell.source.split("\n")
    for region in reversed(regions):
        text = "# your code here"
        if region.indent:  # outside a function a stub would stop the notebook, so none stands there
            text += "\n" + (_KERNEL_STUB if region.begin + 1 in kernels else _PYTHON_STUB)
        lines[region.begin : region.end + 1] = textwrap.indent(text, region.indent).split("\n")
    return "\n".join(lines)


def _kernel_lines(file: Path, cell: Cell) -> set[int]:
    """Return the lines (from 1) of the solved cell that belong to a ``triton.jit`` function."""
    try:
        tree = ast.parse(cell.source)
    except SyntaxError as error:
        says = f"the solved cell is no Python: {error.msg}"
        raise BuildError(file, cell.line + (error.lineno or 1), says) from None
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(map(_is_jit, node.decorator_list)):
            inside.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return inside


def _is_jit(decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(target) in {"triton.jit", "jit"}
