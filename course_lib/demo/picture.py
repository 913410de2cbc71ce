"""Peaks as areas at one scale and of one shape, naive's two squares; the limit is one too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import TYPE_CHECKING, Any

from course_lib.accounting.format import bytes_binary
from course_lib.demo.peak import Peak
from course_lib.style.look import FONT_SIZE, PAGE_INK, styled, text_colour
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = {"naive": "naive", "fused": "flash"}  # method -> what its colour means
PALE = 0.16  # of a colour, where what needs it did not run
_GAP = 0.035  # between the baseline and what hangs below it, of the largest square


@styled
def draw(records: Sequence[Peak], limit_bytes: int | None, *, presenter: bool) -> Figure:
    """Draw what naive and fused hold at each N as areas; ``presenter``: type for a room.

    A square unit of the axes is a byte. Every peak is a rectangle of two squares; the limit is one
    too, dotted, at the corner of the last. Fused attention's peak hangs below the baseline. On a
    narrow page what has no room in a row begins the next. Between two neighbours stands by what
    each method's peak grew; in the larger one the smaller fits as often as is drawn.
    """
    size = 20 if presenter else FONT_SIZE
    figure, axes = new_figure(figsize=(14, 4.2) if presenter else (11, 2.85), grows=True)
    figure.narrow, narrow_axes = new_figure(figsize=(4.9, 5.2))
    for drawn, at, shape in (
        (figure, axes, _Shape(size)),
        (figure.narrow, narrow_axes, _Shape(FONT_SIZE, narrow=True)),
    ):
        drawn.get_layout_engine().set(w_pad=0.02)
        _draw(at, records, limit_bytes, shape)
    return figure


@dataclass(frozen=True)
class _Shape:
    """Size of the type (points), and whether the page is narrow: then areas stand in rows."""

    size: float
    narrow: bool = False


def _places(
    lengths: Sequence[int], side: float, top: float, deep: float, *, narrow: bool
) -> dict[int, tuple[float, float]]:
    """Return where the areas of each N begin: from the left, and on which baseline."""
    room, gap = (0.34 if narrow else 0.88) * top, (0.08 if narrow else 0.12) * top
    places, left, base = {}, 0.0, 0.0
    for n in lengths:
        if narrow and left and left + 2 * side * n > 2.1 * top:
            left, base = 0.0, base - deep - side * n - 0.47 * top
        places[n] = (left, base)
        left += max(2 * side * n, room) + gap
    return places


def _draw(axes: Any, records: Sequence[Peak], limit_bytes: int | None, shape: _Shape) -> None:
    size, narrow = shape.size, shape.narrow
    lengths = sorted({record.n for record in records})
    side = _side_per_row(records)
    limit = sqrt((limit_bytes or 0) / 2)
    top = max([limit, *(side * n for n in lengths)]) or 1.0
    gap = (0.04 if narrow else 0.12) * top
    deep = max([0.05 * top, *(sqrt((r.bytes or 0) / 2) for r in records if r.method == "fused")])
    places = _places(lengths, side, top, deep, narrow=narrow)
    for n, (x, base) in places.items():
        whole, half = n == lengths[-1] and n / 2 in lengths and side * n > 0.6 * top, side * n / 2
        for record in (record for record in records if record.n == n):
            _draw_area(axes, record, (x, base), top, shape, limit=limit, parts=not whole)
        if n / 2 in lengths and half > 0.05 * top:  # the one before fits in four times
            for a, b in ((0, 0), (2, 0), (0, 1), (2, 1)):
                left, low = x + a * half, base + b * half
                axes.plot([left, left + 2 * half, left + 2 * half, left, left],
                          [low, low, low + half, low + half, low], color=PAGE_INK, gid="half",
                          linestyle=(0, (3, 3)), linewidth=size / 14)  # fmt: skip
                if whole:
                    ink = PAGE_INK if side * n > limit > 0 else "#000000"
                    spot = (left + half, low + 0.36 * half)
                    _say(axes, f"N = {n // 2}", spot, (0, 0), size * 0.85, ha="center",
                         va="center", color=ink)  # fmt: skip
        _say(axes, str(n), (x, base - _GAP * top - deep), (0, _n_row(shape)), size, va="top")
        if not x:
            _name_row(axes, base, top, deep, gap, shape)
    if limit_bytes and lengths:
        x, base = places[lengths[-1]]
        axes.plot([x, x, x + 2 * limit, x + 2 * limit, x],
                  [base, base + limit, base + limit, base, base], color=PAGE_INK, linestyle=":",
                  linewidth=size / 6, gid="limit")  # fmt: skip
        _say(axes, f"our limit {bytes_binary(limit_bytes)}", (x, base + limit), (0.4, -0.3),
             size * 0.85, va="top", fontweight="bold")  # fmt: skip
    for method in _COLOURS:
        for before, after in pairwise(r for r in records if r.method == method):
            _say_factor(axes, before, after, places, (side * before.n, top), shape)
    left, right = (-0.3, 2.15) if narrow else (-0.69, max([5, *(
        (x + 2 * side * n) / top + 0.12 for n, (x, _) in places.items()
    )]))  # fmt: skip
    least = min([0.0, *(base for _, base in places.values())]) - deep
    highest = max([side * n for n, (_, base) in places.items() if not base] or [top])
    high = highest + 0.12 * top if least < -top else 1.22 * top
    axes.set(xlim=(left * top, right * top), ylim=(least - (0.25 if narrow else 0.28) * top, high),
             aspect="equal", anchor="NW")  # fmt: skip
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def _n_row(shape: _Shape) -> float:
    """Return how far below what hangs N stands, in lines; on a narrow page factors are between."""
    return -1.5 if shape.narrow else -0.75


def _name_row(axes: Any, base: float, top: float, deep: float, gap: float, shape: _Shape) -> None:
    """Draw a row's baseline, and what stands on it and hangs below it."""
    size = shape.size
    axes.axhline(base, color=PAGE_INK, linewidth=size / 14, zorder=0)
    for method, way in (("naive", 0.4), ("fused", -0.3)):
        _say(axes, method, (-gap, base - _GAP * top * (way < 0)), (0, way), size * 0.85, ha="right",
             va="bottom" if way > 0 else "top", color=text_colour(_COLOURS[method]))  # fmt: skip
    spot = (-gap, base - _GAP * top - deep)
    _say(axes, "N =", spot, (0, _n_row(shape)), size, ha="right", va="top")


def _need(record: Peak) -> int:
    """Return a peak's bytes, by formula where it did not end."""
    return (record.predicted_bytes if record.out_of_memory else record.bytes) or 0


def _say_factor(
    axes: Any, before: Peak, after: Peak, places: dict[int, tuple[float, float]],
    sizes: tuple[float, float], shape: _Shape,
) -> None:  # fmt: skip
    """Write between two neighbours by what the peak grew; ``sizes``: one's height, the largest's.

    Where the next stands in another row, only its areas say it.
    """
    (_, base), (x, below) = places[before.n], places[after.n]
    if base != below or not (_need(before) and _need(after)):
        return
    tall, top = sizes
    naive, look = before.method == "naive", {"ha": "right", "fontweight": "bold"}
    spot = (x, base + tall) if naive else (x, base - _GAP * top)
    off = 1.9 if naive else -1.15 if shape.narrow else 0.15
    _say(axes, f"× {_need(after) / _need(before):.2g}", spot, (-0.4, off), shape.size * 0.85,
         va="bottom" if naive else "top", color=text_colour(_COLOURS[before.method]),
         **look)  # fmt: skip


def _say(
    axes: Any, says: str, spot: tuple[float, float], off: tuple[float, float], size: float,
    **look: Any,
) -> Any:  # fmt: skip
    """Write at a spot of the axes, ``off`` by so many heights of a line; return the label."""
    shift = (off[0] * size, off[1] * size)
    return axes.annotate(says, spot, shift, textcoords="offset points", fontsize=size, **look)


def _side_per_row(records: Sequence[Peak]) -> float:
    """Return the side of one of naive's squares for each row of N, so that a unit is a byte."""
    naive = next((r for r in records if r.method == "naive"), None)
    return sqrt(naive.predicted_bytes / 2) / naive.n if naive else 1.0


def _draw_area(
    axes: Any, record: Peak, at: tuple[float, float], top: float, shape: _Shape, *, limit: float,
    parts: bool,
) -> None:  # fmt: skip
    """Draw a record from ``at`` on: naive above the baseline, fused below.

    ``limit`` is a side; ``parts``: naive's two matrices are told apart.
    """
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Polygon, Rectangle

    naive, text, size = record.method == "naive", text_colour(_COLOURS[record.method]), shape.size
    n_bytes = _need(record)
    square = sqrt(n_bytes / 2)  # S, and P
    (x, base), wide, tall = at, 2 * square, square
    y = base if naive else base - _GAP * top - tall
    colour = hex_of(_COLOURS[record.method])
    look: dict[str, Any] = {"facecolor": colour}
    if record.out_of_memory:  # as large as it wanted to be, pale because it never was
        look = {"facecolor": to_rgba(colour, PALE), "edgecolor": colour, "linewidth": 2}
        fits = min(limit, square)
        beyond = [(0, fits), (0, tall), (wide, tall), (wide, 0), (2 * fits, 0), (2 * fits, fits)]
        axes.add_patch(Polygon(
            [(x + a, y + b) for a, b in beyond],
            facecolor="none", edgecolor=colour, hatch="//", linewidth=0,
        ))  # fmt: skip
    axes.add_patch(Rectangle((x, y), wide, tall, **look))
    if naive and parts:
        axes.plot([x + square] * 2, [y, y + tall], color=PAGE_INK, linewidth=size / 14)
    if naive and parts and tall > 0.4 * top and (limit > tall / 2 or not record.out_of_memory):
        for i, name in enumerate("SP"):  # scores and weights
            part = 0.94 if record.out_of_memory else 1
            spot = (x + square * (0.5 + i) * part, y + square * 0.66)
            ink = PAGE_INK if record.out_of_memory else "#000000"  # on orange, whatever the page
            _say(axes, name, spot, (0, 0), size, ha="center", va="center", fontweight="bold",
                 color=ink)  # fmt: skip
    says = _short(n_bytes)
    if record.out_of_memory:
        long = f"needs {says}: out of memory"
        says = long if tall > 0.45 * top else "out of\nmemory"
    over = bool(record.out_of_memory)  # its words are wider than it: they end where it ends
    if naive:
        spot, off = (x + over * wide, y + tall), (0.0, 0.45)
    else:
        spot, off = (x + wide, base - _GAP * top), (0.4, 0.15)
    _say(axes, says, spot, off, size * 0.85,
         va="bottom" if naive else "top", ha="right" if over else "left",
         color=text, linespacing=1.05, fontweight="bold" if over else "normal",
         in_layout=False)  # fmt: skip


def _short(n_bytes: int) -> str:
    """Return three digits, so that ratios can be had from them. 1024 MiB are above 768 MiB."""
    if n_bytes < 2**31:
        mib = n_bytes / 2**20
        return (
            f"{mib:.0f} MiB" if mib >= 1000 else f"{mib:.3g} MiB" if mib >= 10 else f"{mib:.2f} MiB"
        )
    number, unit = bytes_binary(n_bytes).split()
    return f"{float(number):.3g} {unit}" if float(number) < 1000 else f"{number} {unit}"
