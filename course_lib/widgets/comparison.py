"""What happened beside what was predicted, as text and as HTML: cards, an axis, or a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from string import ascii_lowercase
from typing import Any

from course_lib.style.palette import hex_of
from course_lib.widgets.asking import is_number, rich, said

_TRUTH, _GUESS, _LINE = hex_of("right"), hex_of("flash"), hex_of("other")
_FRAME = "box-sizing:border-box;max-width:48em;margin:6px 2px"
_LETTER = (
    "flex:none;width:1.8em;line-height:1.8em;text-align:center;border-radius:50%;"
    f"background:{_LINE}26"
)


def scalar(value: Any) -> Any:
    """Return a NumPy or torch number as Python's own, which JSON can hold."""
    return value.item() if getattr(value, "shape", None) == () else value


class Comparison:
    """The truth beside the predictions, as text and as HTML."""

    def __init__(
        self,
        answer: Any,
        predictions: list[Any],
        unit: str,
        explanation: str,
        options: Sequence[str] = (),
        question: str = "",
    ) -> None:
        several = isinstance(answer, (list, tuple, set))
        self.answers = [scalar(item) for item in (answer if several else [answer])]
        self.predictions, self.unit, self.explanation = predictions, unit, explanation
        self.options, self.question = options, question

    def lines(self) -> list[tuple[str, str]]:
        """Return (label, text) pairs, the truth last."""
        if not self.predictions:
            lines = [
                ("Your prediction", "none this time, and that is fine; next time, guess first")
            ]
        else:
            names = ["Your prediction", "Your first prediction", "Your last prediction"]
            lines = [(names[0], self._judged(self.predictions[-1]))]
            if len(set(map(str, self.predictions))) > 1:
                lines = [
                    (names[1], self._judged(self.predictions[0])),
                    (names[2], self._judged(self.predictions[-1])),
                ]
        truth = " and ".join(said(answer, self.unit) for answer in self.answers)
        return [*lines, ("The answer", truth)]

    def _judged(self, value: Any) -> str:
        text, truth = said(value, self.unit), self.answers[0]
        if not (is_number(value) and is_number(truth)):
            return f"{text}, {'as it is' if value in self.answers else 'it turned out differently'}"
        if math.isclose(value, truth, rel_tol=0.01):
            return f"{text}, as it is"
        if truth == 0 or value / truth <= 0:
            return f"{text}, off by {abs(value - truth):.4g}"
        ratio = max(value / truth, truth / value)
        return f"{text}, {ratio:.3g} times too {'high' if value > truth else 'low'}"

    def __repr__(self) -> str:
        text = "\n".join(f"{label}: {value}" for label, value in self.lines())
        return f"{text}\n{self.explanation}" if self.explanation else text

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left">{label}</th>'
            f'<td style="text-align:left">{rich(value)}</td></tr>'
            for label, value in self.lines()
        )
        why = f"<p>{rich(self.explanation)}</p>" if self.explanation else ""
        asked = f'<p style="margin:0 0 12px;font-size:1.13em"><b>{rich(self.question)}</b></p>'
        shown = asked * bool(self.question) + (
            self._cards() or self._axis() or f"<table>{rows}</table>"
        )
        shown = f'<div style="{_FRAME}">{shown}{why}</div>'  # as wide as the question
        if self.predictions:
            return shown
        first = "You have not predicted yet: do it above, or open the answer"
        return f"<details><summary>{first}</summary>{shown}</details>"

    def _cards(self) -> str:
        """Return the options as cards, marked with what happened and what was said; "" of none."""
        if not self.options or not set(self.answers) <= set(self.options):
            return ""
        names = [label for label, _ in self.lines()[:-1]]
        said_before = [*self.predictions[:1], *self.predictions[-1:]][-len(names) :]
        cards = ""
        for letter, option in zip(ascii_lowercase, self.options, strict=False):
            marks = [
                f"◀ {name.lower()}" for name, guess in zip(names, said_before, strict=False)
                if guess == option
            ]  # fmt: skip
            happened = option in self.answers
            colour = _TRUTH if happened else _LINE
            look = f"border:1px solid {colour}" + f";background:{_TRUTH}2e" * happened
            if marks:
                look += f";box-shadow:inset 0 0 0 2px {_GUESS}"
            text = f"<b>{rich(option)}</b>" if happened else rich(option)
            marks = ["<b>✓ the answer</b>"] * happened + marks
            cards += (
                '<div style="display:flex;flex-wrap:wrap;align-items:center;gap:2px 12px;'
                f'padding:8px 10px;margin:0 0 8px;border-radius:8px;{look}">'
                f'<b style="{_LETTER}">{letter}</b>'
                f'<span>{text}</span><span style="margin-left:auto">{" ".join(marks)}</span></div>'
            )
        return cards

    def _axis(self) -> str:
        """Return the truth and each guess as bars of one scale; "" where one has no place on it.

        The axis begins at 0 and is linear: what was twice too much is twice as long.
        """
        *said_before, (label, truth) = self.lines()
        ends = [*self.predictions[:1], *self.predictions[-1:]]  # the first guess and the last
        guesses = ends[-len(said_before) :]
        known = [*self.answers, *guesses]
        if len(self.answers) > 1 or not guesses or not all(map(is_number, known)):
            return ""
        if self.answers[0] <= 0 or min(guesses) < 0:
            return ""
        far = 100 / max(self.answers[0], *guesses)
        guessed = "".join(
            _bar(guess * far, _GUESS, f"{name}: {rich(text)}")
            for guess, (name, text) in zip(guesses, said_before, strict=True)
        )
        return guessed + _bar(self.answers[0] * far, _TRUTH, f"<b>{label}: {rich(truth)}</b>")


def _bar(wide: float, colour: str, words: str) -> str:
    """Return words above a bar that is ``wide`` percent of the axis."""
    bar = f'<div style="width:{wide:.4g}%;min-width:2px;height:20px;background:{colour}"></div>'
    return f'<div>{words}</div><div style="margin:4px 0 10px">{bar}</div>'
