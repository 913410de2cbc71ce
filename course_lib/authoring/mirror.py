"""Sources and specs mirror each other: each exercise has one cell and one check, and no more."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from course_lib.authoring.percent import BuildError, Cell
from course_lib.lessons import ExerciseFacts


def check_slug(spec: ExerciseFacts) -> str:
    """Return the id of an exercise's check cell: ``check-3-3``."""
    return "check-" + spec.slug.removeprefix("ex-")


def require_mirror(file: Path, cells: Sequence[Cell], specs: Sequence[ExerciseFacts]) -> None:
    """Raise BuildError unless ``cells`` hold exactly the exercises ``specs``, checks included."""
    by_slug = {cell.slug: cell for cell in cells}
    for spec in specs:
        _require_definition(file, by_slug.get(spec.slug), spec)
        _require_no_other(file, cells, spec)
        _require_check(file, by_slug.get(check_slug(spec)), spec)
    known = {slug for spec in specs for slug in (spec.slug, check_slug(spec))}
    for cell in cells:
        if cell.slug.startswith(("ex-", "check-")) and cell.slug not in known:
            says = f"the cell {cell.slug!r} belongs to no exercise of this lesson's specs"
            raise BuildError(file, cell.line, says)


def _require_definition(file: Path, cell: Cell | None, spec: ExerciseFacts) -> None:
    if cell is None or cell.kind != "code":
        raise BuildError(file, 1, f"exercise {spec.id} has no code cell {spec.slug!r}")
    found = [_signature(node, spec.function) for node in _definitions(file, cell, spec.function)]
    try:
        wanted = _normal(spec.signature, spec.function)
    except SyntaxError:
        says = f"the spec's signature of {spec.id} is no Python: {spec.signature!r}"
        raise BuildError(file, cell.line, says) from None
    if found != [wanted]:
        says = f"the cell {cell.slug!r} must define {wanted} once; it has {found or 'nothing'}"
        raise BuildError(file, cell.line, says)


def _require_no_other(file: Path, cells: Sequence[Cell], spec: ExerciseFacts) -> None:
    definition = re.compile(rf"^(?:def|class) {spec.function}\b", re.MULTILINE)
    for cell in cells:
        if cell.kind == "code" and cell.slug != spec.slug and definition.search(cell.source):
            says = f"{spec.function} is exercise {spec.id} and is defined in {spec.slug!r} only"
            raise BuildError(file, cell.line, says)


def _require_check(file: Path, cell: Cell | None, spec: ExerciseFacts) -> None:
    slug = check_slug(spec)
    if cell is None or cell.kind != "code":
        raise BuildError(file, 1, f"exercise {spec.id} has no check cell {slug!r}")
    if f"check({spec.function})" not in cell.source:
        raise BuildError(file, cell.line, f"the cell {slug!r} must call check({spec.function})")


def _definitions(file: Path, cell: Cell, name: str) -> list[ast.FunctionDef]:
    """Return what in a cell is called by this name: functions, and of a class what takes the call.

    That is ``forward`` of a ``torch.autograd.Function``, else ``__init__``, either without its
    first argument.
    """
    try:
        body = ast.parse(cell.source).body
    except SyntaxError as error:
        line = cell.line + (error.lineno or 1)
        raise BuildError(file, line, f"this is no Python: {error.msg}") from None
    found = []
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            found.append(node)
        elif isinstance(node, ast.ClassDef) and node.name == name:
            methods = {x.name: x for x in node.body if isinstance(x, ast.FunctionDef)}
            if method := methods.get("forward") or methods.get("__init__"):
                del method.args.args[0]
                found.append(method)
    return found


def _signature(node: ast.FunctionDef, name: str) -> str:
    """Return ``name(arguments)`` without annotations: specs may leave those out."""
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return f"{name}({ast.unparse(node.args)})"


def _normal(signature: str, name: str) -> str:
    """Bring a spec's signature, ``f(a, b)``, ``(a, b)`` or ``def f(a, b) -> c``, to one form."""
    arguments = signature.strip().removeprefix("def ").removeprefix(name).rstrip(":")
    node = ast.parse(f"def {name}{arguments}: ...").body[0]
    assert isinstance(node, ast.FunctionDef)
    return _signature(node, name)
