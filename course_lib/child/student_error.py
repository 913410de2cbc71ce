"""The student's own exception as plain data: what it is, what it says, and their lines alone.

Triton's wrappers are taken off, and the lines of a copied file are those of the original.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import linecache
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.child.kernel_slips import explain_frame, mask_slip

# Triton wraps what happens in a kernel, once per helper; the reason stands at the end.
_WRAPPERS = {"InterpreterError", "CompilationError"}
MOST_TEXT = 4000  # characters of a message

Origins = dict[str, tuple[str, int]]
"""Copied function -> file or cell it stood in, and the line of its ``def`` there."""

_copies: dict[str, Origins] = {}


@dataclass(frozen=True)
class Frame:
    """One line of the student's own code in a traceback: where it is and what it says.

    ``file`` and ``line`` are those of the cell or file the function was defined in.
    """

    file: str
    line: int
    function: str
    text: str


@dataclass(frozen=True)
class Failure:
    """An exception, as text: what it is (and what that is), what it says, the student's lines.

    ``look`` is a sentence on what to look at, where the place of the error tells it.
    """

    kinds: tuple[str, ...]
    text: str
    lines: tuple[str, ...] = ()
    look: str = ""

    @classmethod
    def of(cls, error: BaseException, function: Callable[..., Any] | None) -> Failure:
        """Return what ``error`` says; Triton's wrappers and the course's frames are taken off.

        ``function`` is the student's, whose file tells which lines are theirs. Nothing raises.
        """
        cause, lines, look = root_cause(error), list[str](), ""
        if function is not None:
            with contextlib.suppress(BaseException):  # what the student's exception does when asked
                lines = student_lines(error, function)
                look = _look(error, function)
        try:
            text = describe(cause)
        except BaseException:  # a message that cannot be printed
            text = type(cause).__name__
        kinds = tuple(kind.__name__ for kind in type(cause).__mro__)
        return cls(kinds, text[:MOST_TEXT], tuple(lines), look[:MOST_TEXT])


def _look(error: BaseException, function: Callable[..., Any]) -> str:
    """Return what the innermost of the student's frames tells about an exception, or nothing."""
    cause, file = root_cause(error), inspect.getfile(inspect.unwrap(function))
    theirs = [
        (frame, line)
        for one in _chain(error)
        for frame, line in traceback.walk_tb(one.__traceback__)
        if frame.f_code.co_filename == file or _is_cell(frame.f_code.co_filename)
    ]
    said = str(getattr(cause, "look", ""))  # by a ledger
    if type(cause).__name__ == "OutOfBounds":
        return (mask_slip(*theirs[-1]) if theirs else "") or said
    return explain_frame(*theirs[-1], cause, in_kernel=cause is not error) if theirs else ""


def note_copy(file: str, origins: Origins) -> None:
    """Remember that the student's functions in ``file`` are copies."""
    _copies[file] = origins


def root_cause(error: BaseException) -> BaseException:
    """Follow ``__cause__`` through Triton's wrappers to the exception that started it."""
    return _chain(error)[-1]


def _chain(error: BaseException) -> list[BaseException]:
    """Return Triton's wrappers from the outermost to the exception that started it."""
    chain = [error]
    while type(chain[-1]).__name__ in _WRAPPERS and chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    return chain


def describe(error: BaseException) -> str:
    """Return the exception as one line, as Python prints it."""
    return "".join(traceback.format_exception_only(error)).strip()


def student_lines(error: BaseException, function: Callable[..., Any]) -> list[str]:
    """Return the student's frames, innermost last, as `line 7, in f:  x = y` (indented)."""
    plain = inspect.unwrap(function)
    within = vars(plain).values() if isinstance(plain, type) else [plain]  # a class: its methods
    codes = (getattr(getattr(x, "__func__", x), "__code__", None) for x in within)
    file = next((code.co_filename for code in codes if code), None)
    frames = student_frames(error, file or inspect.getfile(function))
    return as_lines(list(dict.fromkeys(frames)))


def as_lines(frames: list[Frame]) -> list[str]:
    """Return the innermost four frames, a line of text each."""
    return [f"   line {f.line}, in {f.function}:  {f.text}" for f in frames[-4:]]


def student_frames(error: BaseException, file: str) -> list[Frame]:
    """Return the frames of an error, and of what Triton wrapped, in ``file`` or a notebook cell."""
    frames = []
    for one in _chain(error):
        for entry in traceback.extract_tb(one.__traceback__):
            if entry.filename == file or _is_cell(entry.filename):
                text = entry.line or linecache.getline(entry.filename, entry.lineno or 0)
                where = _original(entry.filename, entry.lineno or 1)
                frames.append(Frame(*where, entry.name, text.strip()))
    return frames


def _is_cell(file: str) -> bool:
    return "ipykernel" in file or file.startswith("<ipython-input")


def _original(file: str, line: int) -> tuple[str, int]:
    """Translate a line of a copied file into (file or cell, line) of the original."""
    if file not in _copies:
        return file, line
    for node in ast.parse(Path(file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name in _copies[file]:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first <= line <= (node.end_lineno or line):
                original, start = _copies[file][node.name]
                return original, start + line - node.lineno
    return Path(file).name, line
