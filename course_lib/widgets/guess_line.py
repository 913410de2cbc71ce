"""The line of numbers on which a guess was planted, with the answer's flag beside the guess's.

Its ends are those of the question: `place` in static/predict.js has the same rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations, product

from course_lib.style.palette import hex_of

Flag = tuple[float, str, str]
"""A value, its colour, and what stands on its flag."""

_GROUND = "var(--jp-layout-color0, Canvas)"
_ROW = 28  # px, of a flag
_PHONE, _LETTER = 418, 9.3  # px: of a line there, with 20 beside it; of a letter that is wide


def ends(values: Sequence[float], least: float | None, most: float | None) -> tuple[int, int]:
    """Return the powers of ten at which the line begins and ends."""
    low, high = math.floor(math.log10(least or 0.1)), math.ceil(math.log10(most or 1e4))
    powers = [math.log10(value) for value in values]
    return min(low, math.floor(min(powers))), max(high, math.ceil(max(powers)))


def guess_line(
    flags: Sequence[Flag], told: str, least: float | None = None, most: float | None = None
) -> str:
    """Return the line as HTML: flags, the way from the last but one to the last, and its words."""
    low, high = ends([value for value, *_ in flags], least, most)
    at = [100 * (math.log10(value) - low) / (high - low) for value, *_ in flags]
    start, end = sorted(at[-2:])
    foot = _ROW * len(flags) + 8
    rows = _rows(at, [len(text) for *_, text in flags])
    poles = "".join(
        _flag(x, 1 + _ROW * row, foot, right, flag)
        for x, (row, right), flag in zip(at, rows, flags, strict=True)
    )
    way = (
        f'<i style="position:absolute;top:{foot - 2}px;left:{start:.2f}%;'
        f'width:{end - start:.2f}%;height:8px;background:currentColor"></i>'
    )
    line = "left:0;right:0;height:4px;background:" + hex_of("other")
    middle = (start + end) / 2
    return (
        f'<div style="position:relative;height:{foot + 36}px" role="img" '
        f'aria-label="{"; ".join(text for *_, text in flags)}">'
        f'<i style="position:absolute;top:{foot}px;{line}"></i>{_ticks(low, high, foot + 4)}'
        f"{way}{poles}</div>"
        f'<div style="display:flex;margin-bottom:8px"><i style="flex:{middle:.1f}"></i>'
        f'<b>{told}</b><i style="flex:{100 - middle:.1f}"></i></div>'
    )


def _rows(at: Sequence[float], letters: Sequence[int]) -> list[tuple[int, bool]]:
    """Return each flag's row and whether it points right: so that none is cut or on a pole."""
    xs = [x / 100 * _PHONE for x in at]
    wide = [18 + _LETTER * many for many in letters]

    def cost(how: tuple[tuple[int, ...], tuple[bool, ...]]) -> float:
        rows, right = how
        sides = zip(xs, wide, right, strict=True)
        flags = [(x, x + w) if to_right else (x - w, x) for x, w, to_right in sides]
        cut = sum(max(0, -20 - left) + max(0, end - _PHONE - 20) for left, end in flags)
        on_poles = sum(
            left + 2 < x < end - 2 and above < row
            for (left, end), row in zip(flags, rows, strict=True)
            for x, above in zip(xs, rows, strict=True)
        )
        return cut + 100 * on_poles - 0.1 * sum(right)

    ways = product(permutations(range(len(at))), product((True, False), repeat=len(at)))
    return list(zip(*min(ways, key=cost), strict=True))


def _flag(x: float, top: int, foot: int, right: bool, flag: Flag) -> str:
    """Return a flag on its pole, and the mark where it stands."""
    _, colour, text = flag
    side, radius = ("left", "0 6px 6px 0") if right else ("right", "6px 0 0 6px")
    there = x if right else 100 - x
    ink = _GROUND if colour == "currentColor" else "#fff"
    pole = f"width:3px;margin-{side}:-1.5px;height:{foot - top + 2}px"
    return (
        f'<i style="position:absolute;{side}:{there:.2f}%;top:{top}px;{pole};'
        f'background:{colour}"></i>'
        f'<i style="position:absolute;left:calc({x:.2f}% - 7px);top:{foot - 5}px;width:14px;'
        f'height:14px;border-radius:50%;background:{colour}"></i>'
        f'<span style="position:absolute;{side}:{there:.2f}%;top:{top}px;padding:0 9px;'
        f'border-radius:{radius};background:{colour};line-height:25px;white-space:nowrap">'
        f'<b style="font-weight:650;color:{ink}">{text}</b></span>'
    )


def _ticks(low: int, high: int, top: int) -> str:
    """Return a tick for each number of one digit, and what the powers of ten among them are."""
    marks = "".join(
        f"M{100 * (power - low + math.log10(x)) / (high - low):.2f} 0v{8 if x == 1 else 4}"
        for power in range(low, high + 1)
        for x in (range(1, 10) if power < high else (1,))
    )
    every = math.ceil((high - low) / 8)
    look = "position:absolute;transform:translateX(-50%);font-size:13px;line-height:20px"
    names = "".join(
        f'<span style="{look};top:{top + 10}px;left:{100 * (power - low) / (high - low):.2f}%">'
        f"{_power(power)}</span>"
        for power in range(low, high + 1, every)
    )
    return (
        f'<svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" '
        f'style="position:absolute;top:{top}px;left:0;width:100%;height:8px">'
        f'<path d="{marks}" stroke="currentColor" vector-effect="non-scaling-stroke"/></svg>{names}'
    )


def _power(power: int) -> str:
    """Return a power of ten as it is written."""
    if -5 < power < 6:
        return f"{10.0**power:,.{max(0, -power)}f}"
    return f'10<sup style="line-height:0">{power}</sup>'
