"""Predictions: asked before the answer is shown, kept, and shown beside it afterwards.

What was said is in `course_lib.store`. Without a kernel a `Predict` is its question as text.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from string import ascii_lowercase
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import traitlets

from course_lib import store
from course_lib.style.look import PAGE_INK, styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure
from course_lib.widgets.asking import (
    asked,
    asked_html,
    check_question,
    is_number,
    said,
    text_figure,
)
from course_lib.widgets.base import CourseWidget, static_text
from course_lib.widgets.comparison import Comparison, Size, scalar

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_REVEALED: dict[str, Callable[[], None]] = {}
"""What shows the answer of each key now, and shows it again when a prediction is made."""


class Predict(CourseWidget):
    """A prediction, asked before the answer is shown; the first one stays in the store.

    Args:
        key: names the prediction in the store: ``"1-dearest"``.
        question: the text; `backticks` mark code.
        options: what to choose from; without options the prediction is a number.
        unit: shown behind the number.
        least, most: what the number cannot pass; the line of numbers begins and ends with them.

    Raises:
        ValueError: for an empty key or question, or options that are not distinct texts, or where
            not 0 < least < most.

    Example:
        >>> p = Predict("1-dearest", "Which is dearest?", options=["q @ k.T", "softmax"])
        >>> p.answer = "softmax"  # what a click does
        >>> p.reveal("softmax", "It reads and writes all N x N scores.")
    """

    _esm = static_text("tokens.js", "common.js", "predict.js")
    _css = static_text("tokens.css", "common.css", "quiz.css", "predict.css")

    key = traitlets.Unicode().tag(sync=True)
    question = traitlets.Unicode().tag(sync=True)
    options = traitlets.List(traitlets.Unicode()).tag(sync=True)
    unit = traitlets.Unicode().tag(sync=True)
    least = traitlets.Float(None, allow_none=True).tag(sync=True)
    most = traitlets.Float(None, allow_none=True).tag(sync=True)
    answer = traitlets.Any(None, allow_none=True).tag(sync=True)

    def __init__(
        self,
        key: str,
        question: str,
        options: Sequence[str] = (),
        *,
        unit: str = "",
        least: float | None = None,
        most: float | None = None,
        presenter: bool = False,
    ) -> None:
        if not isinstance(key, str) or not key.strip():
            raise ValueError(f"key must be a text that names the prediction, got {key!r}.")
        check_question(question)
        options = [options] if isinstance(options, str) else [str(option) for option in options]
        if options and len(set(options)) < max(2, len(options)):
            raise ValueError(f"options must be two or more different texts, got {options!r}.")
        if not 0 < (least or 0.1) < (most or math.inf):
            raise ValueError(f"least and most must be 0 < least < most, got {least} and {most}.")
        unit = "×" if unit == "x" else unit  # as the course writes it everywhere
        super().__init__(
            key=key, question=question, options=options, unit=unit, least=least, most=most,
            presenter=presenter,
        )  # fmt: skip
        earlier = self._predictions()
        if earlier:  # shown again after a restart, not stored twice
            self.answer = earlier[-1]
        self.observe(self._keep, "answer")

    @traitlets.validate("answer")
    def _valid_answer(self, proposal: Any) -> Any:
        value = scalar(proposal["value"])
        if value is None or self._fits(value):
            return value
        wanted = f"one of {', '.join(self.options)}" if self.options else "a finite number"
        if is_number(value):
            wanted += f" from {self.least:g}" if self.least is not None else ""
            wanted += f", at most {self.most:g}" if self.most is not None else ""
        raise traitlets.TraitError(f"answer must be {wanted}, got {value!r}.")

    def _fits(self, value: Any) -> bool:
        if self.options:
            return value in self.options
        low = -math.inf if self.least is None else self.least
        return is_number(value) and low <= value <= (self.most or math.inf)

    def _keep(self, change: Any) -> None:
        if change["new"] is None:
            return
        store.record_prediction(self.key, change["new"])
        if self.key in _REVEALED:
            _REVEALED[self.key]()

    def _predictions(self) -> list[Any]:
        """Return the stored predictions that fit this question, oldest first."""
        return [value for value in store.predictions(self.key) if self._fits(value)]

    def reveal(
        self,
        answer: Any,
        explanation: str = "",
        *,
        sizes: Mapping[str, Size] | None = None,
        note: str = "",
        one: str = "the same",
    ) -> None:
        """Show the truth beside what was predicted.

        Without a prediction the truth waits, folded away, and opens when one is made: so after
        "Run All" there is still something to guess.

        Args:
            answer: an option (or several, in a list or tuple), or a number.
            explanation: why.
            sizes: for options, what each comes to, in the question's unit, or the parts of it by
                name: bars on their cards. For a number, its own parts by name.
            note: below the cards, of what these sizes are.
            one: of a factor, what 1 × is.
        """
        from IPython.display import display

        def compared() -> Comparison:
            return self.comparison(answer, explanation, sizes=sizes, note=note, one=one)

        shown = display(compared(), display_id=True)
        if shown is not None:  # in a notebook
            _REVEALED[self.key] = lambda: shown.update(compared())

    def comparison(
        self,
        answer: Any,
        explanation: str = "",
        *,
        sizes: Mapping[str, Size] | None = None,
        note: str = "",
        one: str = "the same",
    ) -> Comparison:
        """Return what `reveal` shows."""
        stored = self._predictions()
        if not stored and self.answer is not None:
            stored = [self.answer]
        ends = (self.least, self.most)
        asked = (self.options, self.question, sizes or {}, note, one, ends)
        return Comparison(answer, stored, self.unit, explanation, *asked)

    def room(self, answers: str, answer: Any = None) -> Figure:
        """Draw the answers of a room, pasted in as text, as a histogram.

        Args:
            answers: numbers between commas, blanks or line ends; for a question with options, the
                options' letters (``"a, c, c, b"``) or their texts, one a line.
            answer: the truth, marked in the figure if given.

        Raises:
            ValueError: if nothing in the text is an answer.
        """
        votes, ignored = self.parse_room(answers)
        if not votes:
            wanted = "letters a, b, ... or the options' texts" if self.options else "numbers"
            raise ValueError(f"answers must hold {wanted}, got {answers!r}.")
        return _histogram(self, votes, ignored, answer)

    def parse_room(self, answers: str) -> tuple[list[Any], list[str]]:
        """Return the answers in a pasted text, and the pieces that are none."""
        votes: list[Any] = []
        ignored: list[str] = []
        read = self._read_option if self.options else _read_number
        if self.options:  # an option may hold blanks and commas: whole lines are tried first
            pieces = []
            for line in re.split(r"[\n;]+", answers):
                whole = read(line) is not None
                pieces += [line] if whole else re.split(r"[\s,…]+", line)
        else:
            pieces = re.split(r"[\s,;…]+", _without_units(answers, self.unit))
        for piece in filter(None, (piece.strip() for piece in pieces)):
            vote = read(piece)
            if vote is None:
                ignored.append(piece)
            else:
                votes.append(vote)
        return votes, ignored

    def _read_option(self, piece: str) -> str | None:
        text = piece.strip().casefold().strip("().")
        letters = {chr(ord("a") + i): option for i, option in enumerate(self.options)}
        texts = {option.casefold(): option for option in self.options}
        return texts.get(piece.strip().casefold()) or letters.get(text)

    def to_table(self) -> str:
        """Return the question, its choices and the student's prediction as text."""
        text = asked("Predict", self.question, self.options, self.unit)
        if self.answer is not None:
            text += f"\nYour prediction: {said(self.answer, self.unit)}"
        return text

    def fallback_html(self, picture: bool | None = None) -> str:
        """Return the question as HTML; the answer comes with `reveal`."""
        where = "Decide before you read on; the answer comes below."
        return asked_html(
            self.question,
            self.options,
            f"<details><summary>Your prediction first</summary><p>{where}</p></details>",
        )

    @styled
    def to_figure(self) -> Figure:
        """Return the question as a picture of its text."""
        return text_figure(self.to_table())


def _without_units(answers: str, unit: str) -> str:
    """Return a text without what people write beside a number: ``~4``, ``4x``, ``4 times``."""
    units = "|".join(map(re.escape, filter(None, (unit, "x", "×", "times"))))
    return re.sub(rf"(?i)[~≈]\s*|(?<=\d)\s*(?:{units})(?=[\s,;…]|$)", "", answers)


def _read_number(piece: str) -> float | None:
    try:
        value = float(piece.replace("−", "-").replace("_", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _bins(axes: Any, votes: list[float], answer: Any) -> Any:
    """Return bins in which no outlier hides the rest: far apart, each is a factor wide."""
    known = [*votes, *([answer] if is_number(answer) else [])]
    sizes = [abs(value) for value in known if value]
    low, high = min(sizes), max(sizes)
    if high < 20 * low:
        return "auto"
    count = max(24, math.ceil(6 * math.log10(high / low)))
    edges = [low * (high / low) ** (i / count) for i in range(count)] + [high]
    if min(known) > 0:
        axes.set_xscale("log")
        return edges
    axes.set_xscale("symlog", linthresh=low)
    return [*(-edge for edge in reversed(edges)), *edges]


@styled
def _histogram(question: Predict, votes: list[Any], ignored: list[str], answer: Any) -> Figure:
    tall = 0.8 * len(question.options) + 0.9 if question.options else 3.4
    figure, axes = new_figure(figsize=(7, tall))
    if question.options:
        counts = Counter(votes)
        letters = list(ascii_lowercase[: len(question.options)])
        bars = axes.barh(
            letters, [counts[o] for o in question.options], height=0.45, color=hex_of("blue")
        )
        axes.bar_label(bars, padding=3)
        axes.set_ylim(len(letters) - 0.6, -0.75)
        axes.xaxis.set_visible(False)
        axes.spines["bottom"].set_visible(False)
        for i, option in enumerate(question.options):
            right = answer is not None and option == answer
            text = shorten(option.replace("`", ""), 56, placeholder=" …") + (
                "  ✓ the answer" if right else ""
            )
            weight = "bold" if right else "normal"
            label = axes.annotate(
                text, (0, i - 0.25), (3, 2), textcoords="offset points", weight=weight, va="bottom"
            )
            label.set_in_layout(False)  # a long one does not squeeze the bars
            if right:
                bars[i].set(color=PAGE_INK)
    else:
        values = Counter(votes)
        if len(values) <= 12:  # few different answers: one bar each, evenly spaced
            shown = sorted(values)
            bars = axes.bar([f"{x:g}" for x in shown], [values[x] for x in shown], width=0.7)
            axes.bar_label(bars)
            if answer in values:
                bars[shown.index(answer)].set(color=PAGE_INK)
        else:
            axes.hist(votes, bins=_bins(axes, votes, answer), edgecolor=hex_of("grey"))
            if answer is not None:
                axes.axvline(answer, color=PAGE_INK, linestyle="--")
        axes.set_xlabel(f"answer{f' ({question.unit})' if question.unit else ''}")
        axes.set_ylabel("how many")
        axes.yaxis.get_major_locator().set_params(integer=True)
    lost = f", {len(ignored)} not understood" if ignored else ""
    axes.set_title(f"{len(votes)} answers{lost}")
    return figure
