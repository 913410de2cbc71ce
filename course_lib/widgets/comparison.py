"""What happened beside what was predicted, as text and as HTML: cards, a line and bars, a table."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from types import MappingProxyType
from typing import Any

from course_lib.style.palette import hex_of
from course_lib.style.tokens import SHEET
from course_lib.widgets.asking import bar_width, is_number, rich, said
from course_lib.widgets.guess_line import guess_line

_TRUTH, _GUESS, _LINE = "currentColor", hex_of("hand"), hex_of("other")
_WORDS = f"color-mix(in srgb, {_GUESS} 55%, currentColor)"
_TINT = "color-mix(in srgb, currentColor 5%, transparent)"
_RING = f"color-mix(in srgb, {_GUESS} 75%, currentColor)"  # lighter in the dark
# Sizes and gaps are the question's, so that nothing jumps where the one stands below the other.
_HEAD = (
    '<small style="display:block;font-size:13px;line-height:19px;margin-bottom:2px;'
    f'font-weight:650;color:{_WORDS}">⚑ What you predicted</small>'
)
_FRAME = f"{SHEET};max-width:930px;margin:8px 0;line-height:1.5;font-size:16px"
_READ = "58em"  # a line that can be read
_CODE = f"background:{_LINE}26;border-radius:3px;padding:0 3px;color:inherit"
_MARK = "display:inline-block;white-space:nowrap"  # on a phone two stand one below the other
_NOTE = "margin:0;font-size:0.87em;opacity:0.8"
_NOTHING: Mapping[str, float] = MappingProxyType({})
_CUT = "var(--jp-layout-color0, Canvas)"  # the page's ground, between two parts of a bar
_REASON = "grid-column:2/-1"
_LETTER = (
    "flex:none;width:1.8em;line-height:1.8em;text-align:center;border-radius:50%;"
    f"background:{_LINE}26"
)


_TENSORS = {"Q": "q", "K": "k", "V": "v", "O": "o", "S": "s", "P": "s"}
"""Tensor -> its colour; P is S, turned into weights."""

Size = float | Mapping[str, float]
"""What something comes to, or the parts of it by name."""


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
        sizes: Mapping[str, Size] = _NOTHING,
        note: str = "",
        one: str = "the same",
        ends: tuple[float | None, float | None] = (None, None),
    ) -> None:
        several = isinstance(answer, (list, tuple, set))
        self.answers = [scalar(item) for item in (answer if several else [answer])]
        self.predictions, self.unit, self.explanation = predictions, unit, explanation
        self.options, self.question, self.sizes = options, question, sizes
        self.note, self.one, self.ends = note, one, ends

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
        digits = 2 if ratio > 1.1 else 3  # a guess has no more
        told = f"{float(f'{ratio:.{digits}g}'):,.10g}"
        return f"{text}, {told} times too {'high' if value > truth else 'low'}"

    def __repr__(self) -> str:
        said_ = [f"{label}: {value}" for label, value in self.lines()]
        return "\n".join(filter(None, [*said_, self.explanation, self.note]))

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left">{label}</th>'
            f'<td style="text-align:left">{rich(value)}</td></tr>'
            for label, value in self.lines()
        )
        line, why = "", f"<p>{rich(self.explanation)}</p>" if self.explanation else ""
        if self._is_to_scale():
            why = why.replace("<p>", f'<p style="max-width:{_READ};margin:8px 0">')
            line = self._on_its_line() + self._to_scale()
        look = "margin:0 0 12px;font-size:19px;line-height:27px"
        asked = f'<p style="{look}"><b>{rich(self.question)}</b></p>'
        note = f'<p style="{_NOTE}">{rich(self.note)}</p>'.replace(" = ", "\xa0=\xa0")
        shown = (
            (cards + note * bool(self.note))
            if (cards := self._cards())
            else (line or f"<table>{rows}</table>") + why
        )
        shown = (_HEAD + asked) * bool(self.question) + shown
        shown = shown.replace("<code>", f'<code style="{_CODE}">')
        shown = f'<div style="{_FRAME}">{shown}</div>'  # as wide as the question
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
            sign = "◀" if option in self.answers else "✗"
            marks = [
                f'<b style="{_MARK};color:{_WORDS}">{sign} {name.lower()}</b>'
                for name, guess in zip(names, said_before, strict=False)
                if guess == option
            ]
            happened = option in self.answers
            colour = _TRUTH if happened else _RING if marks else _LINE
            look = f"border:1px solid {colour}" + f";background:{_TINT}" * happened
            rings = [_RING] * bool(marks) + [
                _TRUTH
            ] * happened  # a wider border would move the words
            if rings:
                shadows = (f"inset 0 0 0 {i}px {ring}" for i, ring in enumerate(rings, 1))
                look += f";box-shadow:{','.join(shadows)}"
            text = f"<b>{rich(option)}</b>" if happened else rich(option)
            marks = [f'<b style="{_MARK}">✓ the answer</b>'] * happened + marks
            reason = f"{_REASON};margin-top:6px;max-width:{_READ}"
            why = f'<span style="{reason}">{rich(self.explanation)}</span>' * happened
            cards += (
                '<div style="display:grid;align-items:center;gap:2px 12px;'
                "grid-template-columns:1.8em minmax(0,1fr) fit-content(40%);"
                f'padding:8px 10px;margin:0 0 8px;border-radius:8px;box-sizing:border-box;{look}">'
                f'<b style="{_LETTER}">{letter}</b>'
                f'<span>{text}</span><span style="text-align:right">'
                f"{' '.join(marks)}</span>{self._bar(option, happened)}{why}</div>"
            )
        return cards

    def _bar(self, option: str, happened: bool) -> str:
        """Return what an option comes to as a bar of one scale; "" where nothing is known."""
        if option not in self.sizes:
            return ""
        sums = {name: sum(_parts(size).values()) for name, size in self.sizes.items()}
        parts, share = _parts(self.sizes[option]), bar_width(sums[option], sums.values())
        digits = _digits(list(map(_parts, self.sizes.values()))) if len(parts) > 1 else None
        words = _added(parts, self.unit, digits) + _told(parts, share / 70, digits)
        return _bar(
            f"{share:.1f}%", _TRUTH if happened else _LINE, words, _REASON, parts, 16, share / 70
        )

    def _rows(self) -> list[tuple[float, str, str]]:
        """Return value, colour and name of the guess, or the first and the last, and of truth."""
        (answer,), first, last = self.answers, self.predictions[0], self.predictions[-1]
        guesses = [(last, _GUESS, "you")]
        if first != last:
            guesses = [(first, _GUESS, "you first"), (last, _GUESS, "you at last")]
        return [*guesses, (answer, _TRUTH, "the answer")]

    def _on_its_line(self) -> str:
        """Return the line on which the guess was planted, with the answer's flag on it."""
        unit = self.unit if len(self.unit) == 1 else ""  # the bars below have it
        flags = [
            (value, colour, f"{name}: {said(value, unit)}") for value, colour, name in self._rows()
        ]
        line = guess_line(flags, self._verdict(), *self.ends)
        caption = f'<p style="{_NOTE}">By factors: a long tick is 10 times the one before.</p>'
        even = f'<p style="{_NOTE}">The same on an even scale:</p>'
        return f'{caption}<div style="margin:4px 23px 0">{line}</div>{even}'

    def _to_scale(self) -> str:
        """Return guesses and truth, and what is 1 × of a factor, as bars of an even scale."""
        *guesses, truth = self._rows()
        rows, answer = [truth, *guesses], truth[0]
        if self.unit == "×":
            rows.append((1, _LINE, self.one))
        known = {} if self.options else self.sizes
        parts = {name: size for name, size in known.items() if not isinstance(size, Mapping)}
        most = max(value for value, *_ in rows)
        words = [f"{said(value, self.unit)}, {name}" for value, _, name in rows]
        long = [len(text) for text, row in zip(words, rows, strict=True) if row[0] > most / 2]
        room = 0.62 * max(long) + 0.5  # em: the longest bar and its words take the whole width
        bars = "".join(
            _bar(
                f"calc({100 * value / most:.1f}% - {room * value / most:.2f}em)",
                colour,
                text,
                f"margin:5px 0;font-weight:{400 if name == self.one else 650}",
                parts if name == "the answer" else {},
                22,
            )
            for text, (value, colour, name) in sorted(
                zip(words, rows, strict=True), key=lambda pair: pair[1][0]
            )
        )
        digits = _digits([parts])
        whole = said(answer, self.unit)
        if digits is not None and abs(sum(parts.values()) - answer) < 0.01 * answer:
            whole = _added(parts, self.unit, digits)
        told = f"<small>{whole}{_told(parts, digits=digits)}</small>" * (len(parts) > 1)
        return f'<div style="margin:4px 23px 0">{bars}{told}</div>'

    def _verdict(self) -> str:
        """Return how the guess, or the first and the last one, did: "4 times too low."."""
        judged = [text.rsplit(", ", 1)[1] for _, text in self.lines()[:-1]]
        text = judged[0] if len(judged) == 1 else f"at first {judged[0]}, at last {judged[1]}"
        return f"{text[0].upper()}{text[1:]}."

    def _is_to_scale(self) -> bool:
        """Return whether the truth and the guesses are numbers that bars can show."""
        known = [*self.answers, *self.predictions[:1], *self.predictions[-1:]]
        numbers = all(map(is_number, known)) and min(known) > 0
        return len(self.answers) == 1 and bool(self.predictions) and numbers


def _parts(size: Size) -> Mapping[str, float]:
    """Return a size as parts: of one whose parts nobody knows, it itself."""
    return size if isinstance(size, Mapping) else {"": size}


def _whole(name: str) -> str:
    """Return a part's name with all that is in it."""
    return "Q, K, V, O" if name == "Q to O" else name


def _hues(name: str) -> list[str]:
    """Return the colours of the tensors in a part's name: of "Q and K" two, of "Q to O" four."""
    return [hex_of(_TENSORS[one]) for one in re.findall(r"\b[QKVOSP]\b", _whole(name))]


def _stripes(parts: Mapping[str, float]) -> str:
    """Return parts as stripes in their tensors' colours; "" where one is of no tensor."""
    if not all(map(_hues, parts)):
        return ""
    at, stops = 0.0, []
    for name, size in parts.items():
        for hue in _hues(name):
            at += 100 * size / len(_hues(name)) / sum(parts.values())
            stops.append(f"{hue} 0 {at:.2f}%")
    return f"linear-gradient(90deg,{','.join(stops)})"


def _inside(parts: Mapping[str, float], share: float) -> list[str]:
    """Return which parts have room for their name in a bar that is ``share`` of the longest."""
    coloured = len(parts) > 1 and bool(_stripes(parts))  # S and P have one colour
    return [n for n, size in parts.items() if coloured and share * size / sum(parts.values()) > 0.2]


def _digits(sizes: Sequence[Mapping[str, float]]) -> int | None:
    """Return the fewest decimals with which the parts that are written add to a sum that is right.

    To three digits, as sums are written elsewhere: 1.07 and 1.07 are not 2.15, 1.074 and 1.074 are.
    None where no few do.
    """
    cut = [parts for parts in sizes if len(parts) > 1]
    for digits in range(5):
        if all(
            all(round(size, digits) or not size for size in parts.values())
            and said(_sum(parts, digits), "") == said(sum(parts.values()), "")
            for parts in cut
        ):
            return digits
    return None


def _sum(parts: Mapping[str, float], digits: int) -> float:
    """Return the sum of parts as they are written."""
    return round(sum(round(size, digits) for size in parts.values()), digits)


def _added(parts: Mapping[str, float], unit: str, digits: int | None) -> str:
    """Return what parts come to as text: the sum of what is written of them."""
    whole = sum(parts.values())
    return said(whole, unit) if digits is None else f"{_sum(parts, digits):,.{digits}f} {unit}"


def _told(parts: Mapping[str, float], share: float = 1.0, digits: int | None = None) -> str:
    """Return what the parts of a bar are: ": S 1.074, Q and K 0.034"; "" of one part."""
    marked = set(parts) - set(_inside(parts, share)) if _stripes(parts) else ()
    written = {n: said(x, "") if digits is None else f"{x:,.{digits}f}" for n, x in parts.items()}
    named = [
        f'<span style="{_MARK}">{_swatch(name) * (name in marked)}{_whole(name)}\xa0{told}</span>'
        for name, told in written.items()
    ]
    return f": {', '.join(named)}" if len(named) > 1 else ""


def _swatch(name: str) -> str:
    """Return the mark of a part beside its name."""
    look = "display:inline-block;width:0.75em;height:0.75em;margin:0 4px 0 3px"
    return f'<i style="{look};outline:1px solid;background:{_stripes({name: 1.0})}"></i>'


def _bar(
    wide: str,
    colour: str,
    words: str,
    place: str = "",
    parts: Mapping[str, float] = _NOTHING,
    tall: int = 10,
    share: float = 1.0,
) -> str:
    """Return a bar as ``wide`` as said, cut where its parts end, and words behind it."""
    bar = f"flex:none;height:{tall}px;width:{wide};min-width:2px;background:{colour}"
    name_ = f"font:650 12px/{tall}px sans-serif;color:#1c1c1c;text-align:center;overflow:hidden"
    inside, whole = _inside(parts, share), sum(parts.values())
    names = "".join(
        f'<b style="flex:0 0 {100 * size / whole:.1f}%;{name_}">{name * (name in inside)}</b>'
        for name, size in parts.items()
    ) * bool(inside)  # fmt: skip
    if len(parts) > 1:
        at, cuts = 0.0, []
        for size in list(parts.values())[:-1]:
            at += 100 * size / sum(parts.values())
            cuts.append(f"transparent {at:.1f}%,{_CUT} 0 calc({at:.1f}% + 2px),transparent 0")
        layers = [f"linear-gradient(90deg,{cut})" for cut in cuts]
        if stripes := _stripes(parts):
            layers, bar = [*layers, stripes], f"{bar};outline:1px solid"  # yellow is pale on white
        bar += f";display:flex;background-image:{','.join(layers)}"
    fold = "flex-wrap:wrap;row-gap:0;" * ("<" in words)  # on a phone the parts' names go below
    look = f"{place};display:flex;{fold}align-items:center;column-gap:8px".removeprefix(";")
    return f'<span style="{look}"><i style="{bar}">{names}</i><span>{words}</span></span>'
