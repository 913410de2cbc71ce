"""The student's own exception: their frames only, wrappers taken off."""

from __future__ import annotations

import inspect
import linecache
import traceback
from collections.abc import Callable
from typing import Any

# Triton wraps what happens in a kernel, once per helper; the reason stands at the end.
_WRAPPERS = {"InterpreterError", "CompilationError"}

COPIES: dict[str, Any] = {}
"""A file into which the student's functions were copied -> where each of them stood."""


def root_cause(error: BaseException) -> BaseException:
    """Follow ``__cause__`` through Triton's wrappers to the exception that started it."""
    while type(error).__name__ in _WRAPPERS and error.__cause__ is not None:
        error = error.__cause__
    return error


def describe(error: BaseException) -> str:
    """Return the exception as one line, as Python prints it."""
    return "".join(traceback.format_exception_only(error)).strip()


def student_lines(error: BaseException, function: Callable[..., Any]) -> list[str]:
    """Return the student's frames, innermost last, as `line 7, in f:  x = y` (indented)."""
    frames = []
    while error is not None:
        frames += [f for f in traceback.extract_tb(error.__traceback__) if _is_theirs(f, function)]
        error = error.__cause__ if type(error).__name__ in _WRAPPERS else None
    seen = dict.fromkeys((f.name, _line(f), _text(f)) for f in frames)
    return [f"   line {line}, in {name}:  {text}" for name, line, text in seen][-4:]


def _is_theirs(frame: traceback.FrameSummary, function: Callable[..., Any]) -> bool:
    """A frame is the student's if it is from their file or from a notebook cell."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if frame.filename == (code.co_filename if code else inspect.getfile(function)):
        return True
    return "ipykernel" in frame.filename or frame.filename.startswith("<ipython-input")


def _line(frame: traceback.FrameSummary) -> int | None:
    if frame.filename not in COPIES:
        return frame.lineno
    from course_lib.child.process import where

    return where(frame.filename, frame.lineno or 1, COPIES[frame.filename])[1]


def _text(frame: traceback.FrameSummary) -> str:
    return (frame.line or linecache.getline(frame.filename, frame.lineno or 0)).strip()
