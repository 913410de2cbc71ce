"""What happened beside what was predicted, as text and as HTML: cards, a line, or a table."""

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

_TRUTH, _GUESS, _LINE = "currentColor", hex_of("hand"), hex_of("other")
_WORDS = f"color-mix(in srgb, {_GUESS} 55%, currentColor)"
_TINT = "color-mix(in srgb, currentColor 5%, transparent)"
_RING = f"color-mix(in srgb, {_GUESS} 75%, currentColor)"  # lighter in the dark
# Sizes and gaps are the question's, so that nothing jumps where the one stands below the other.
_HEAD = (
    '<small style="display:block;font-size:13px;line-height:19px;margin-bottom:2px;'
    f'font-weight:650;color:{_WORDS}">⚑ What you predicted</small>'
)
_ROW = 22  # px: of a flag on the line
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
        ends: tuple[int, int] = (-1, 4),
        note: str = "",
        one: str = "the same",
    ) -> None:
        several = isinstance(answer, (list, tuple, set))
        self.answers = [scalar(item) for item in (answer if several else [answer])]
        self.predictions, self.unit, self.explanation = predictions, unit, explanation
        self.options, self.question, self.sizes, self.ends = options, question, sizes, ends
        self.note, self.one = note, one

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
        line, why = self._line(), f"<p>{rich(self.explanation)}</p>" if self.explanation else ""
        if line:  # what it comes to, evenly; then where that is on the line that was asked on
            told = f"<b>{self._verdict()}</b> {rich(self.explanation)}"
            why = f'<p style="max-width:{_READ};margin:8px 0">{told}</p>{line}'
            line = self._to_scale()
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
        words = said(sums[option], self.unit) + _told(parts)
        return _bar(f"{share:.1f}%", _TRUTH if happened else _LINE, words, _REASON, parts, 16)

    def _to_scale(self) -> str:
        """Return guess and truth, and what is 1 × of a factor, as bars of an even scale.

        On the line of the question each step is ten times the one before: there a factor looks
        small.
        """
        (answer,), guess = self.answers, self.predictions[-1]
        rows = [(answer, _TRUTH, "the answer"), (guess, _GUESS, "you")]
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
        told = f"<small>{said(answer, self.unit)}{_told(parts)}</small>" * (len(parts) > 1)
        return f'<div style="margin:4px 23px 0">{bars}{told}</div>'

    def _verdict(self) -> str:
        """Return how the guess, or the first and the last one, did: "4 times too low."."""
        judged = [text.rsplit(", ", 1)[1] for _, text in self.lines()[:-1]]
        text = judged[0] if len(judged) == 1 else f"at first {judged[0]}, at last {judged[1]}"
        return f"{text[0].upper()}{text[1:]}."

    def _line(self) -> str:
        """Return the truth and each guess as flags on one line; "" where one has no place on it.

        It is the line of the question: its steps are factors, and its ends are the same.
        """
        *said_before, (label, truth) = self.lines()
        ends = [*self.predictions[:1], *self.predictions[-1:]]  # the first guess and the last
        guesses = ends[-len(said_before) :]
        known = [*self.answers, *guesses]
        if len(self.answers) > 1 or not guesses or not all(map(is_number, known)):
            return ""
        if min(known) <= 0:
            return ""
        low = min(self.ends[0], *(math.floor(math.log10(x)) for x in known))
        high = max(self.ends[1], *(math.ceil(math.log10(x)) for x in known))
        names = ["You"] if len(guesses) == 1 else ["You at last", "You first"]
        flags = [(self.answers[0], guesses[-1], f"{label}: {truth}", _TRUTH, "")] + [
            (guess, self.answers[0], f"{name}: {said(guess, self.unit)}", _GUESS, "#fff")
            for guess, name in zip(guesses[::-1], names, strict=True)
        ]
        foot = _ROW * len(flags) + 8  # px: where the line lies
        shown = [
            _flag(100 * (math.log10(value) - low) / (high - low), value > other, row, foot, *look)
            for row, (value, other, *look) in enumerate(flags)
        ]
        every = -(-(high - low) // 8)
        powers = range(low, high + 1, every)
        ratio = self.unit == "×"
        ticks = [_tick(100 * (p - low) / (high - low), foot, p) for p in powers]
        line = f"position:absolute;top:{foot - 1}px;width:100%;height:2px;background:{_LINE}"
        sense = {low: "less", 0: "the same", high: "more"} if ratio and low < 0 else {}
        words = [_sense(100 * (p - low) / (high - low), foot, text) for p, text in sense.items()]
        return (
            f'<div style="position:relative;height:{foot + 30 + 17 * bool(sense)}px;'
            f'margin:14px 23px 0;font-size:0.81em"><div style="{line}"></div>'
            f"{_small_ticks(low, high, foot)}{''.join(ticks)}{''.join(words)}{''.join(shown)}</div>"
        )


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


def _told(parts: Mapping[str, float]) -> str:
    """Return what the parts of a bar are: ": S 1.07, Q and K 0.0336"; "" of one part."""
    named = [
        f'<span style="{_MARK}">{_swatch(name) * bool(_stripes(parts))}'
        f"{_whole(name)}\xa0{told}</span>"
        for name, told in ((name, said(size, "")) for name, size in parts.items())
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
) -> str:
    """Return a bar as ``wide`` as said, cut where its parts end, and words behind it."""
    bar = f"flex:none;height:{tall}px;width:{wide};min-width:2px;background:{colour}"
    if len(parts) > 1:
        at, cuts = 0.0, []
        for size in list(parts.values())[:-1]:
            at += 100 * size / sum(parts.values())
            cuts.append(f"transparent {at:.1f}%,{_CUT} 0 calc({at:.1f}% + 2px),transparent 0")
        layers = [f"linear-gradient(90deg,{cut})" for cut in cuts]
        if stripes := _stripes(parts):
            layers, bar = [*layers, stripes], f"{bar};outline:1px solid"  # yellow is pale on white
        bar += f";background-image:{','.join(layers)}"
    fold = "flex-wrap:wrap;row-gap:0;" * ("<" in words)  # on a phone the parts' names go below
    look = f"{place};display:flex;{fold}align-items:center;column-gap:8px".removeprefix(";")
    return f'<span style="{look}"><i style="{bar}"></i><span>{words}</span></span>'


# Narrower than twice the line's margin: at its ends, on a phone, nothing stands out of the page.
_ON_ITS_TICK = (
    "width:3.4em;margin-left:-1.7em;display:flex;justify-content:center;white-space:nowrap;"
)


def _to_the_right(at: float, right: bool, words: str) -> bool:
    """Return whether a flag's words lie at the right of it: where there is room, as it should."""
    needs = 1.9 * len(words) + 5  # percent, on a phone
    return at + needs <= 100 if right else at < needs


def _flag(at: float, right: bool, row: int, foot: int, words: str, colour: str, ink: str) -> str:
    """Return a flag that stands ``at`` percent of the line; its words lie away from the other."""
    right = _to_the_right(at, right, words)
    side, x, round_ = ("left", at, "0 6px 6px 0") if right else ("right", 100 - at, "6px 0 0 6px")
    pole = f"position:absolute;{side}:{x:.4g}%;top:{_ROW * row}px;height:{foot - _ROW * row + 6}px"
    cloth = f"background:{colour};color:{ink}" if ink else "box-shadow:inset 0 0 0 2px"
    cloth = f"{cloth};padding:0 7px;border-radius:{round_}"
    return (
        f'<div style="{pole};border-{side}:3px solid {colour};margin-{side}:-1.5px">'
        f'<div style="{cloth};line-height:19px;white-space:nowrap;font-weight:650">'
        f"{rich(words)}</div></div>"
    )


def _small_ticks(low: int, high: int, foot: int) -> str:
    """Return the ticks between powers of ten, as the question's line has them."""
    at = (p + math.log10(x) for p in range(low, high) for x in range(2, 10))
    d = "".join(f"M{100 * (x - low) / (high - low):.2f} 0v4" for x in at)
    return (
        f'<svg viewBox="0 0 100 8" preserveAspectRatio="none" style="position:absolute;left:0;'
        f'top:{foot}px;width:100%;height:8px" aria-hidden="true"><path d="{d}" stroke="{_LINE}" '
        'vector-effect="non-scaling-stroke"/></svg>'
    )


def _sense(at: float, foot: int, words: str) -> str:
    """Return what a place of the line means."""
    place = f"position:absolute;left:{at:.4g}%;top:{foot + 27}px;{_ON_ITS_TICK}"
    return f'<div style="{place};opacity:0.75">{words}</div>'


def _tick(at: float, foot: int, power: int) -> str:
    """Return a tick of the line and its number below it."""
    number = f"{10.0**power:,.10g}" if -5 < power < 6 else f"10<sup>{power}</sup>"
    place = f"position:absolute;left:{at:.4g}%;top:{foot + 8}px;{_ON_ITS_TICK}"
    tick = f"position:absolute;left:{at:.4g}%;top:{foot}px;width:1px;height:8px;background:{_LINE}"
    return f'<div style="{tick}"></div><div style="{place}">{number}</div>'
