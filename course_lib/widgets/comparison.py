"""What happened beside what was predicted, as text and as HTML: cards, an axis, or a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from string import ascii_lowercase
from typing import Any

from course_lib.style.palette import hex_of
from course_lib.widgets.asking import is_number, rich, said

_TRUTH = hex_of("right")
_NOT_THIS = f"border:1px solid {hex_of('other')}66"


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
        return [*lines, ("What happened", truth)]

    def _judged(self, value: Any) -> str:
        text, truth = said(value, self.unit), self.answers[0]
        if not (is_number(value) and is_number(truth)):
            return f"{text}: {'as it is' if value in self.answers else 'it turned out differently'}"
        if math.isclose(value, truth, rel_tol=0.01):
            return f"{text}: as it is"
        if truth == 0 or value / truth <= 0:
            return f"{text}: off by {abs(value - truth):.4g}"
        ratio = max(value / truth, truth / value)
        return f"{text}: {'above' if value > truth else 'below'} by a factor of {ratio:.3g}"

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
        asked = f'<p style="margin:0 0 6px"><b>{rich(self.question)}</b></p>'
        shown = asked * bool(self.question) + (
            self._cards() or self._axis() or f"<table>{rows}</table>"
        )
        shown += why
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
            look = f"border:1px solid {_TRUTH};background:{_TRUTH}2e" if happened else _NOT_THIS
            text = f"<b>{rich(option)}</b>" if happened else rich(option)
            marks = ["<b>✓ what happened</b>"] * happened + marks
            cards += (
                f'<div style="display:flex;flex-wrap:wrap;gap:2px 12px;padding:6px 12px;'
                f'margin:0 0 6px;border-radius:8px;{look}"><span>{letter}</span>'
                f'<span>{text}</span><span style="margin-left:auto">{" ".join(marks)}</span></div>'
            )
        return f'<div style="max-width:46em">{cards}</div>'

    def _axis(self) -> str:
        """Return the truth as a bar and each guess as a mark on its axis; "" where none has one.

        The axis begins at 0 and is linear: what was twice too much stands twice as far out.
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
        marks = "".join(
            _mark(guess * far, "▼", f"{name}: {rich(text)}")
            for guess, (name, text) in zip(guesses, said_before, strict=True)
        )
        wide = self.answers[0] * far
        guessed = "".join(
            f'<div style="width:{guess * far:.4g}%;min-width:2px;height:9px;margin-bottom:2px;'
            'background:currentColor;opacity:.45"></div>'
            for guess in reversed(guesses)  # each below its own words, the truth at the bottom
        )
        bar = f'<div style="width:{wide:.4g}%;min-width:2px;height:18px;background:{_TRUTH}"></div>'
        return (
            f'<div style="max-width:42em;padding:0 8px 4px">{marks}'
            '<div style="display:flex;flex-direction:column-reverse;'
            f'border-left:2px solid;border-bottom:1px solid">{bar}{guessed}</div>'
            f"{_mark(wide, '▲', f'<b>{label}: {rich(truth)}</b>')}</div>"
        )


def _mark(place: float, pointer: str, words: str) -> str:
    """Return words beside a pointer that stands at a percentage of the axis."""
    side, order = ("left", f"{pointer} {words}") if place <= 50 else ("right", f"{words} {pointer}")
    away = place if side == "left" else 100 - place
    style = f"margin-{side}:calc({away:.4g}% - 0.4em);text-align:{side};line-height:1.5"
    return f'<div style="{style}">{order}</div>'
