"""A question is a function without arguments that returns its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from course_lib.judging.judges import exactly
from course_lib.judging.spec import Case, Exercise, Mistake


def wrong_answer(answer: Any, name: str, says: str) -> Mistake:
    """Return the mistake that is recognised by this one wrong answer."""
    return Mistake(name, says, lambda: answer)


def question(id: str, answer: Any, *, wrong: Sequence[Mistake] = ()) -> Exercise:
    """Return the exercise for a question with one right ``answer``."""
    return Exercise.of(
        id,
        cases=lambda _rng: [Case("")],
        truth=lambda: answer,
        judge=exactly,
        kind="question",
        mistakes=tuple(wrong),
    )
