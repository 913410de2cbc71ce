"""A question is a function without arguments that returns its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from course_lib.judging.finding import Finding
from course_lib.judging.judges import exactly
from course_lib.judging.spec import Case, Exercise, Mistake, Observed, table


def wrong_answers(*rows: tuple[Any, ...]) -> tuple[Mistake, ...]:
    """Return the mistakes of a table of (name, what to tell, *the wrong answers that show it)."""
    return tuple(
        Mistake(name, says, lambda answer=answer: answer) for name, says, answer in table(*rows)
    )


def _texts(*answers: Any) -> set[str]:
    """Return the texts that stand in answers as values."""
    found = set[str]()
    for answer in answers:
        if isinstance(answer, str):
            found.add(answer)
        elif isinstance(answer, dict | tuple | list):
            found |= _texts(*(answer.values() if isinstance(answer, dict) else answer))
    return found


def _exactly(texts: set[str], case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Judge an answer exactly, and say which texts there are to one that has another."""
    finding = exactly(case, observed, expected)
    strange = sorted(_texts(observed.result) - texts)
    if finding is None or len(texts) < 2 or not strange:
        return finding
    known = ", ".join(f'"{text}"' for text in sorted(texts))
    return replace(finding, look=f'"{strange[0]}" is none of the texts of this answer: {known}.')


def question(id: str, answer: Any, *, wrong: Sequence[Mistake] = ()) -> Exercise:
    """Return the exercise for a question with one right ``answer``."""
    return Exercise.of(
        id,
        cases=lambda _rng: [Case("")],
        truth=lambda: answer,
        judge=partial(_exactly, _texts(answer, *(one.model() for one in wrong))),
        kind="question",
        mistakes=tuple(wrong),
    )
