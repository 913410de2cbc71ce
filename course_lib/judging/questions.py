"""A question is a function without arguments that returns its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from course_lib.judging.judges import exactly, within
from course_lib.judging.spec import Case, Exercise, Mistake


def wrong_answer(answer: Any, name: str, says: str) -> Mistake:
    """Return the mistake that is recognised by this one wrong answer."""
    return Mistake(name, says, lambda: answer)


def question(
    id: str,
    function: str,
    title: str,
    answer: Any,
    *,
    minutes: int,
    points: int,
    hints: tuple[str, str, str],
    notice: str,
    relative: float | None = None,
    wrong: Sequence[Mistake] = (),
) -> Exercise:
    """Return the exercise for a question with one right ``answer``.

    ``relative`` is the relative error allowed in numbers (0.01: 1 %); None asks for equality.
    """
    return Exercise(
        id=id,
        function=function,
        signature="()",
        title=title,
        minutes=minutes,
        points=points,
        hints=hints,
        cases=lambda _rng: [Case("")],
        truth=lambda: answer,
        judge=exactly if relative is None else within(relative),
        notice=notice,
        kind="question",
        mistakes=tuple(wrong),
    )
