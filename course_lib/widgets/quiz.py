"""Questions: an explanation for every answer, as many tries as you like.

A `Quiz` asks about what was shown. It works without a kernel as text whose answers are folded away.

What counts as right is tested in tests/widgets/test_javascript.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import traitlets

from course_lib.style.look import styled
from course_lib.widgets.asking import (
    asked,
    asked_html,
    check_question,
    is_number,
    number,
    rich,
    text_figure,
)
from course_lib.widgets.base import CourseWidget, static_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Option = tuple[str, bool, str] | tuple[str, bool, str, float | Mapping[str, float]]


class Quiz(CourseWidget):
    """One question, with choices or with a number for an answer.

    Args:
        question: the text; `backticks` mark code.
        options: ``(text, right, explanation)`` each, one or several of them right. A fourth part
            is what the option comes to, a number in ``unit``: after an answer it is a bar.
        answer: the number, where there are no options.
        tolerance: how far off still counts, relative to the answer (absolute where it is 0).
        unit: shown behind the number, or behind those of the options.
        whole: of what the options' numbers are parts: then one strip is all of it, from which each
            answer that was tried strikes its part, at the end. As ``{name: number}`` it is their
            sum, and the strip is cut where they end.
        inside: what of the whole goes on within those pieces, as ``{name: number}``. An option
            strikes a part of one of these where its fourth part is ``{name: number}``.
        explanation: of the number.

    Raises:
        ValueError: unless there are options, at least one right, or a finite answer.

    Attributes:
        solved: whether an attempt was right. tries: how many there were.
        chosen: places of the options last checked. given: the number last checked.
    """

    _esm = static_text("tokens.js", "common.js", "quiz.js")
    _css = static_text("tokens.css", "common.css", "quiz.css")

    question = traitlets.Unicode().tag(sync=True)
    options: traitlets.List = traitlets.List().tag(sync=True)
    answer = traitlets.Float(None, allow_none=True).tag(sync=True)
    tolerance = traitlets.Float(0.01, min=0).tag(sync=True)
    unit = traitlets.Unicode().tag(sync=True)
    whole = traitlets.Float(None, allow_none=True).tag(sync=True)
    pieces: traitlets.List = traitlets.List().tag(sync=True)  # of the whole: name and number
    inside: traitlets.List = traitlets.List().tag(sync=True)
    explanation = traitlets.Unicode().tag(sync=True)
    tries = traitlets.Int(0).tag(sync=True)
    solved = traitlets.Bool(False).tag(sync=True)
    chosen = traitlets.List(traitlets.Int()).tag(sync=True)
    given = traitlets.Float(None, allow_none=True).tag(sync=True)

    def __init__(
        self,
        question: str,
        options: Sequence[Option] = (),
        *,
        answer: float | None = None,
        tolerance: float = 0.01,
        unit: str = "",
        whole: float | Mapping[str, float] | None = None,
        inside: Mapping[str, float] | None = None,
        explanation: str = "",
        presenter: bool = False,
    ) -> None:
        check_question(question)
        if bool(options) == (answer is not None):
            raise ValueError("Quiz needs either options or answer=number, and not both.")
        choices = [_option(option) for option in options]
        if choices:
            if not any(choice["right"] for choice in choices):
                raise ValueError("options must have at least one right answer, got none.")
        elif not is_number(answer):
            raise ValueError(f"answer must be a finite number, got {answer!r}.")
        if not is_number(tolerance) or tolerance < 0:
            raise ValueError(f"tolerance must be a number of at least 0, got {tolerance!r}.")
        pieces: Mapping[str, float] = whole if isinstance(whole, Mapping) else {}
        if isinstance(whole, Mapping):
            whole = sum(whole.values())
        sizes = [choice["size"] for choice in choices if choice["size"] is not None]
        if whole is not None and not (is_number(whole) and sizes and float(whole) >= max(sizes)):
            raise ValueError(f"whole must be at least what each option comes to, got {whole!r}.")
        within = {name: float(size) for name, size in (inside or {}).items()}
        for choice in choices:
            if choice["of"] and not (whole and choice["size"] <= within.get(choice["of"], -1)):
                raise ValueError(f"inside must hold what an option takes of {choice['of']!r}.")
        super().__init__(
            question=question,
            options=choices,
            answer=None if answer is None else float(answer),
            tolerance=float(tolerance),
            unit=unit,
            whole=None if whole is None else float(whole),
            pieces=[[name, float(size)] for name, size in pieces.items()],
            inside=[[name, float(size)] for name, size in within.items()],
            explanation=explanation,
            presenter=presenter,
        )

    def to_table(self) -> str:
        """Return the question and its choices as text, without the answer."""
        return asked("Question", self.question, [o["text"] for o in self.options], self.unit)

    def fallback_html(self, picture: bool | None = None) -> str:
        """Return the question with every answer and its explanation folded away."""
        if self.options:
            answers = "".join(
                f"<li>{'✓' if o['right'] else '✗'} <strong>{rich(o['text'])}</strong> "
                f"{'' if o['size'] is None else self._part(o['size']) + ': '}"
                f"{rich(o['explanation'])}</li>"
                for o in self.options
            )
            answers = f"<ul>{answers}</ul>"
        else:
            answers = f"<p><strong>{number(float(self.answer or 0), self.unit)}</strong></p>"
            answers += f"<p>{rich(self.explanation)}</p>" if self.explanation else ""
        return asked_html(
            self.question,
            [o["text"] for o in self.options],
            f"<details><summary>Answer</summary>{answers}</details>",
        )

    def _part(self, size: float) -> str:
        if self.whole is None:
            return number(size, self.unit)
        return f"{rough(size)} of {number(self.whole, self.unit)}"

    @styled
    def to_figure(self) -> Figure:
        """Return the question as a picture of its text."""
        return text_figure(self.to_table())


def rough(size: float) -> str:
    """Return a part of a whole as exactly as what it rests on: two digits, below 1 one."""
    if abs(size) >= 100:
        return number(round(size), "")
    return f"{float(f'{size:.{1 if abs(size) < 1 else 2}g}'):g}"


def _option(option: Any) -> dict[str, Any]:
    try:
        text, right, explanation, size = option if len(option) == 4 else (*option, None)
    except (TypeError, ValueError):
        raise ValueError(f"an option is (text, right, explanation), got {option!r}.") from None
    if not isinstance(right, bool) or not isinstance(text, str) or not str(explanation).strip():
        raise ValueError(
            f"an option is (text, True or False, an explanation that is not empty), got {option!r}."
        )
    of = ""
    if isinstance(size, Mapping):
        ((of, size),) = size.items()
    if size is not None and not (is_number(size) and float(size) >= 0):
        raise ValueError(f"what an option comes to must be a number of at least 0, got {size!r}.")
    size = None if size is None else float(size)
    return {"text": text, "right": right, "explanation": str(explanation), "size": size, "of": of}
