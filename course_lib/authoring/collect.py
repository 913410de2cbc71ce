"""Find the exercises in a student's file and load each one alone, without running the rest.

A notebook draws, measures and checks as it goes; to judge one function only the statements that
it needs are executed: its definition and, step by step, whatever that names.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
import symtable
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.authoring.course_file import CodeCell, python_of
from course_lib.grading.spec import Exercise

LOAD_SECONDS = 60.0


class BrokenCell(Exception):
    """An exercise's cell cannot be loaded; the message is one sentence for its author."""


@dataclass(frozen=True)
class _Statement:
    """A top-level statement: its text, the line it starts on, names it binds, globals it uses."""

    text: str
    line: int
    binds: frozenset[str]
    uses: frozenset[str]


def present(cells: Sequence[CodeCell], specs: Sequence[Exercise]) -> list[Exercise]:
    """Return the specs whose cell, or else whose function, is in ``cells``; in the specs' order."""
    return [
        spec
        for spec in specs
        if any(cell.id == spec.slug or _defines(cell, spec.function) for cell in cells)
    ]


def load(cells: Sequence[CodeCell], spec: Exercise) -> Callable[..., Any]:
    """Return the exercise's function, imported from a real file so that its source is readable.

    Raises BrokenCell if a needed cell is no Python, or fails, or defines no such function.
    """
    function = getattr(_import(program(cells, spec), spec), spec.function, None)
    if function is None:
        raise BrokenCell(f"No function named {spec.function} is defined here any more.")
    return function


def program(cells: Sequence[CodeCell], spec: Exercise) -> str:
    """Return the statements that the exercise needs, on the lines on which they stand."""
    lines: list[str] = []
    for statement in _needed(list(_statements(cells, spec)), spec.function):
        lines += [""] * (statement.line - 1 - len(lines))
        lines += statement.text.split("\n")
    return "\n".join(lines) + "\n"


def _statements(cells: Sequence[CodeCell], spec: Exercise) -> Iterator[_Statement]:
    own_cell = any(cell.id == spec.slug for cell in cells)
    above = 0
    for cell in cells:
        offset, above = above, above + cell.source.count("\n") + 1
        is_other = own_cell and cell.id != spec.slug
        if cell.id.startswith("check-") or (is_other and _defines(cell, spec.function)):
            continue
        try:
            source = python_of(cell.source)
        except SyntaxError as error:
            if cell.id == spec.slug or _defines(cell, spec.function):
                raise BrokenCell(f"SyntaxError: {error.msg} (line {error.lineno})") from None
            continue
        for node in ast.parse(source).body:
            yield _statement(node, source, offset)


def _defines(cell: CodeCell, function: str) -> bool:
    """Whether the cell binds the name, told from its text, so that broken cells count too."""
    binding = rf"^(?:def\s+{function}\b|{function}\s*=[^=])"
    return re.search(binding, cell.source, re.MULTILINE) is not None


def _statement(node: ast.stmt, source: str, offset: int) -> _Statement:
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    text = "\n".join(source.split("\n")[first - 1 : node.end_lineno])
    table = symtable.symtable(ast.unparse(node), "cell", "exec")
    binds = {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()}
    return _Statement(text, first + offset, frozenset(binds), frozenset(_globals_of(table)))


def _globals_of(table: symtable.SymbolTable) -> Iterator[str]:
    at_top = table.get_type() == "module"
    yield from (s.get_name() for s in table.get_symbols() if at_top or s.is_global())
    for child in table.get_children():
        yield from _globals_of(child)


def _needed(statements: Sequence[_Statement], function: str) -> list[_Statement]:
    """Return, in order, what binds ``function`` and everything that this names in turn."""
    wanted, seen, chosen = [function], set[str](), set[_Statement]()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        binding = {s for s in statements if name in s.binds}
        chosen |= binding
        wanted.extend(used for statement in binding for used in statement.uses)
    return [s for s in statements if s in chosen]


def _import(text: str, spec: Exercise) -> Any:
    from course_lib.grading.frames import describe
    from course_lib.grading.limit import TookTooLong, at_most

    name = spec.slug.replace("-", "_")
    file = Path(tempfile.mkdtemp(dir=_folder().name)) / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    found = importlib.util.spec_from_file_location(name, file)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    try:
        with at_most(LOAD_SECONDS):
            found.loader.exec_module(module)
    except TookTooLong:
        raise BrokenCell(f"Its cells did not finish within {LOAD_SECONDS:g} seconds.") from None
    except (Exception, SystemExit) as error:
        raise BrokenCell(f"{describe(error)} (while its cells were loaded)") from error
    return module


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder that lives as long as the process: getsource reads the files again."""
    return tempfile.TemporaryDirectory(prefix="course-")
