"""The answers of a built notebook: what its quizzes and reveals would show, taken from their calls.

The calls are made in Python, with a stand-in for each value that only a run would give.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

from nbformat import NotebookNode

from course_lib.widgets import Quiz

_UNKNOWN = "\0"


class Unknown:
    """Stands for a value that a run would give: anything can be done with it."""

    def __getattr__(self, name: str) -> Unknown:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Unknown:
        return self

    __getitem__ = __add__ = __sub__ = __mul__ = __truediv__ = __pow__ = __floordiv__ = __call__
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rpow__ = __neg__ = __call__

    def __iter__(self) -> Iterator[Unknown]:
        return iter(())

    def __float__(self) -> float:
        return 0.0

    def __format__(self, form: str) -> str:
        return _UNKNOWN

    __str__ = __repr__ = lambda self: _UNKNOWN


Real.register(Unknown)  # a quiz may ask for a number that a run computes


@dataclass(frozen=True)
class Answer:
    """What one cell would give away: the truth as texts, and texts that explain it."""

    slug: str
    truths: tuple[str, ...]
    explanations: tuple[str, ...]


def answers(cells: list[NotebookNode]) -> list[Answer]:
    """Return the answer of every quiz and every reveal in a notebook's cells."""
    found = []
    for cell in cells:
        if cell.cell_type != "code" or not re.search(r"Quiz\(|\.reveal\(", cell.source):
            continue
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Call) and (answer := _answer(cell.id, node)):
                found.append(answer)
    return found


def plain(text: str) -> str:
    """Return text as a reader compares it: no marks of code, one blank between words."""
    return " ".join(text.replace("`", "").split())


def _answer(slug: str, call: ast.Call) -> Answer | None:
    if getattr(call.func, "id", "") == "Quiz":
        quiz = _value(call)
        right = [option["text"] for option in quiz.options if option["right"]]
        why = [option["explanation"] for option in quiz.options] + [quiz.explanation]
        return Answer(slug, _texts(right), _texts(why))
    if getattr(call.func, "attr", "") == "reveal":
        told = [k.value for k in call.keywords if k.arg != "one"]  # the question names what 1 × is
        truth, *why = [_value(arg) for arg in (*call.args, *told)]
        return Answer(
            slug, _texts([str(truth)]), _texts([said for said in why if isinstance(said, str)])
        )
    return None


def _texts(said: list[str]) -> tuple[str, ...]:
    """Return the known stretches of some texts; a word or two may stand anywhere."""
    parts = [plain(part) for text in said for part in text.split(_UNKNOWN)]
    return tuple(part for part in parts if len(part.split()) > 2)


def _value(node: ast.expr) -> Any:
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    known: dict[str, Any] = {name: Unknown() for name in names if not hasattr(builtins, name)}
    known["Quiz"] = Quiz
    return eval(compile(ast.Expression(node), "<answer>", "eval"), known)
