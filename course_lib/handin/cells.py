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
from typing import Any, TypeVar

from course_lib.handin.blank import is_blank
from course_lib.handin.course_file import CodeCell, python_of
from course_lib.judging.spec import Exercise
from course_lib.lessons import ExerciseFacts

LOAD_SECONDS = 60.0
_FUTURE = re.compile(r"from\s+__future__\s")  # nothing names it, and it changes what follows
_Facts = TypeVar("_Facts", bound=ExerciseFacts)


class BrokenCell(Exception):
    """An exercise's cell cannot be loaded; the message is one sentence for its author."""


@dataclass(frozen=True)
class _Statement:
    """A top-level statement of a cell: the line it starts on, names it binds, globals it uses."""

    cell: int
    text: str
    line: int
    binds: frozenset[str]
    uses: frozenset[str]


@dataclass(frozen=True)
class _Parsed:
    """All statements of a file, who binds which name, and why some cells cannot be parsed."""

    statements: list[_Statement]
    binding: dict[str, list[int]]  # name -> indices of statements
    broken: dict[int, str]  # index of a cell -> sentence


def present(cells: Sequence[CodeCell], specs: Sequence[_Facts]) -> list[_Facts]:
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
    parsed = _parsed(tuple(cells))
    lines: list[str] = []
    last = (-1, 0)
    for statement in _needed(parsed, spec.function, _left_out(cells, spec)):
        end = (statement.cell, statement.line + statement.text.count("\n"))
        if end <= last:
            continue  # its line is there already: a = 1; b = 2
        last = end
        lines += [""] * (statement.line - 1 - len(lines))
        lines += statement.text.split("\n")
    if lines and not lines[0]:  # in a notebook a later cell may say it: here it must come first
        lines[0] = next((s.text for s in parsed.statements if _FUTURE.match(s.text)), "")
    return "\n".join(lines) + "\n"


def _left_out(cells: Sequence[CodeCell], spec: Exercise) -> set[int]:
    """Return the cells that do not count for ``spec``: checks, and what its own cell overrides.

    An own cell that is still blank overrides nothing. Raises BrokenCell if a cell that counts
    cannot be parsed.
    """
    defining = [i for i, cell in enumerate(cells) if _defines(cell, spec.function)]
    own = {i for i, cell in enumerate(cells) if cell.id == spec.slug}
    written = [i for i in defining if not is_blank(cells[i].source)]
    overrides = own and (not written or not own.isdisjoint(written))
    out = {i for i, cell in enumerate(cells) if cell.id.startswith("check-")}
    out |= set(defining) - own if overrides else set()
    broken = _parsed(tuple(cells)).broken
    for i in sorted((own | set(defining)) - out):
        if i in broken:
            raise BrokenCell(broken[i])
    return out


@functools.lru_cache(maxsize=1)
def _parsed(cells: tuple[CodeCell, ...]) -> _Parsed:
    """Parse all cells: once for a file, however many exercises are looked for in it."""
    found = _Parsed([], {}, {})
    above = 0
    for i, cell in enumerate(cells):
        try:
            statements = list(_statements(i, cell, above))
        except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
            statements, found.broken[i] = [], _sentence(error)
        for statement in statements:
            for name in statement.binds:
                found.binding.setdefault(name, []).append(len(found.statements))
            found.statements.append(statement)
        above += _lined(cell.source).count("\n") + 1
    return found


def _lined(source: str) -> str:
    """Return the text with the line ends that the parser sees: a lone CR is one too."""
    return source.replace("\r\n", "\n").replace("\r", "\n")


def _statements(index: int, cell: CodeCell, above: int) -> Iterator[_Statement]:
    source = python_of(_lined(cell.source))
    lines = source.split("\n")
    for node in ast.parse(source).body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        text = "\n".join(lines[first - 1 : node.end_lineno])
        table = symtable.symtable(ast.unparse(node), "cell", "exec")
        binds = {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()}
        uses = frozenset(_globals_of(table))
        yield _Statement(index, text, first + above, frozenset(binds), uses)


def _sentence(error: Exception) -> str:
    if not isinstance(error, SyntaxError):
        return f"Its cells cannot be parsed ({type(error).__name__})."
    where = f" (line {error.lineno})" if error.lineno else ""
    return f"SyntaxError: {error.msg}{where}"


def _defines(cell: CodeCell, function: str) -> bool:
    """Whether the cell binds the name, told from its text, so that broken cells count too."""
    binding = rf"^(?:(?:def|class)\s+{function}\b|{function}\s*(?::[^=\n]+)?=[^=])"
    return re.search(binding, cell.source, re.MULTILINE) is not None


def _globals_of(table: symtable.SymbolTable) -> Iterator[str]:
    at_top = table.get_type() == "module"
    yield from (s.get_name() for s in table.get_symbols() if at_top or s.is_global())
    for child in table.get_children():
        yield from _globals_of(child)


def _needed(parsed: _Parsed, function: str, left_out: set[int]) -> list[_Statement]:
    """Return, in order, what binds ``function`` and everything that this names in turn.

    Where a name is bound by stubs and by something else, the stubs do not count.
    """
    wanted, seen, chosen = [function], set[str](), set[int]()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        found = {i: parsed.statements[i] for i in parsed.binding.get(name, [])}
        found = {i: s for i, s in found.items() if s.cell not in left_out}
        binding = {i: s for i, s in found.items() if not is_blank(s.text)} or found
        chosen.update(binding)
        wanted.extend(used for statement in binding.values() for used in statement.uses)
    return [parsed.statements[i] for i in sorted(chosen)]


def _import(text: str, spec: Exercise) -> Any:
    from course_lib.child.student_error import describe
    from course_lib.sandbox.limit import TookTooLong, at_most

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
