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
_GAP = 0.035  # between the baseline and what hangs below it, of the largest square


@styled
def draw(records: Sequence[Peak], limit_bytes: int | None, *, presenter: bool) -> Figure:
    """Draw what naive and fused hold at each N as areas; ``presenter``: type for a room.

    A square unit of the axes is a byte. Every peak is a rectangle of two squares; the limit is a
    dotted level across the last one: below it lies as much as there is. Fused attention's peak
    hangs below the baseline.
    """
    size = 20 if presenter else FONT_SIZE
    figure, axes = new_figure(figsize=(14, 4.2) if presenter else (11, 2.85), grows=True)
    figure.narrow, narrow_axes = new_figure(figsize=(4.9, 3.6))
    for drawn, at, shape in (
        (figure, axes, _Shape(size)),
        (figure.narrow, narrow_axes, _Shape(FONT_SIZE, narrow=True)),
    ):
        drawn.get_layout_engine().set(w_pad=0.02)
        _draw(at, records, limit_bytes, shape)
    return figure


@dataclass(frozen=True)
class _Shape:
    """Size of the type (points), and whether the page is narrow: then S lies on P."""

    size: float
    narrow: bool = False

    @property
    def squares(self) -> tuple[int, int]:
        """Squares of a peak, across and up."""
        return (1, 2) if self.narrow else (2, 1)


def _draw(axes: Any, records: Sequence[Peak], limit_bytes: int | None, shape: _Shape) -> None:
    size, narrow, (across, up) = shape.size, shape.narrow, shape.squares
    lengths, starts = sorted({record.n for record in records}), []
    side = _side_per_row(records)
    top = up * max([sqrt((limit_bytes or 0) / 2), *(side * n for n in lengths)]) or 1.0
    room = (0.275 if narrow else 0.88) * top  # of the narrowest column: its words need it
    left, x, gap = 0.0, 0.0, (0.04 if narrow else 0.12) * top
    fused = [up * sqrt((r.bytes or 0) / 2) for r in records if r.method == "fused"]
    deep = max([0.05 * top, *fused])
    for n in lengths:
        x = left
        starts.append(x)
        for record in (record for record in records if record.n == n):
            _draw_area(axes, record, x, side * n, top, limit_bytes, shape)
        if n / 2 in lengths and n / 2 * side > 0.05 * top:  # the one before fits in four times
            wide, tall = across * side * n / 2, up * side * n / 2
            axes.plot([x, x + wide, x + wide], [tall, tall, 0], color=PAGE_INK,
                      linestyle=(0, (3, 3)), linewidth=size / 14, gid="half")  # fmt: skip
        _say(axes, str(n), (x, -_GAP * top - deep), (0, -0.75), size, va="top")
        left += max(across * side * n, room) + gap
    right = max(left, (1.4 if narrow else 5) * top)  # four doublings: the scale stays meanwhile
    if limit_bytes and lengths:
        wide = across * side * lengths[-1]
        level = limit_bytes / wide
        axes.plot([x, x + wide], [level] * 2, color=PAGE_INK, linestyle=":", linewidth=size / 6)
        _say(axes, f"our limit {bytes_binary(limit_bytes)}", (x + wide, level), (-0.3, -0.3),
             size * 0.85, ha="right", va="top")  # fmt: skip
    ran = [(r.n, r.bytes) for r in records if r.method == "naive" and r.bytes]  # not by formula
    steps = [(b / a, n, m) for (n, a), (m, b) in pairwise(ran)]
    if steps and all(m == 2 * n and abs(factor - 4) < 0.1 for factor, n, m in steps):
        _, n, m = steps[-1]
        start, end = ((starts[lengths.index(at)], up * side * at) for at in (n, m))
        middle = start[0] + across * side * n / 2, start[1] + (0.1 if narrow else 0.16) * top
        _say_law(axes, middle, (end[0], 0.85 * end[1]), shape, _fused_law(records))
    axes.axhline(0, color=PAGE_INK, linewidth=size / 14, zorder=0)
    for method, way in (("naive", 0.4), ("fused", -0.3)):
        _say(axes, method, (-gap, -_GAP * top * (way < 0)), (0, way), size * 0.85, ha="right",
             va="bottom" if way > 0 else "top", color=text_colour(_COLOURS[method]))  # fmt: skip
    _say(axes, "N =", (-gap, -_GAP * top - deep), (0, -0.75), size, ha="right", va="top")
    before, below, above = (-0.25, -0.26, 1.1) if narrow else (-0.69, -0.33, 1.22)
    axes.set(xlim=(before * top, right), ylim=(below * top, above * top),
             aspect="equal", anchor="NW")  # fmt: skip
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def _fused_law(records: Sequence[Peak]) -> str:
    """Return what each doubling of N did to fused attention's peak, from least to most."""
    peaks = [r.bytes or 0 for r in records if r.method == "fused"]
    if len(peaks) < 2 or not all(peaks):
        return ""
    least, most = (f"{f([b / a for a, b in pairwise(peaks)]):.2g}" for f in (min, max))
    return f"fused: × {least}" + f" to {most}" * (least != most)


def _say_law(
    axes: Any, start: tuple[float, float], end: tuple[float, float], shape: _Shape, fused: str
) -> None:
    """Write what one doubling does to either's memory, beside an arrow from area to area."""
    look = {"fontweight": "bold"}
    bow: dict[str, Any] = {"arrowstyle": "->", "connectionstyle": "arc3,rad=-0.35", "shrinkB": 4}
    bow |= {"color": text_colour("naive"), "linewidth": shape.size / 9}
    axes.annotate("", end, start, arrowprops=bow, fontsize=shape.size)
    says = ["N × 2: naive’s", "memory (area) × 4"]
    naive = says if shape.narrow else [" ".join(says)]
    for row, line in enumerate([*naive, fused]):  # each a text, so that each ends at the arrow
        look["color"] = text_colour("naive" if row < len(naive) else "flash")
        off = (-0.4, 0.5 + 1.2 * (len(naive) - row))
        _say(axes, line, start, off, shape.size, va="center", ha="right",
             in_layout=False, **look)  # fmt: skip


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
    axes: Any, record: Peak, x: float, side: float, top: float, limit: int | None,
    shape: _Shape,
) -> None:  # fmt: skip
    """Draw a record from x on: naive above the baseline, fused below; ``side`` is naive's."""
    from matplotlib.patches import Polygon, Rectangle

    naive, text, size = record.method == "naive", text_colour(_COLOURS[record.method]), shape.size
    n_bytes = (record.predicted_bytes if record.out_of_memory else record.bytes) or 0
    square = sqrt(n_bytes / 2)  # S, and P
    wide, tall = (square * many for many in shape.squares)
    y = 0.0 if naive else -_GAP * top - tall
    colour = hex_of(_COLOURS[record.method])
    look: dict[str, Any] = {"facecolor": colour}
    if record.out_of_memory:  # as large as it wanted to be, empty because it never was
        look = {"facecolor": "none", "edgecolor": colour, "linewidth": 2}
        level = min(tall, (limit or 0) / wide)
        axes.fill_between([x, x + wide], 0, level, color=colour, alpha=0.18, lw=0)
        beyond: dict[str, Any] = {
            "facecolor": "none",
            "edgecolor": colour,
            "hatch": "//",
            "linewidth": 0,
        }
        axes.add_patch(Polygon(
            [(x, level), (x, tall), (x + wide, tall), (x + wide, level)], **beyond
        ))  # fmt: skip
    axes.add_patch(Rectangle((x, y), wide, tall, **look))
    if naive:
        inside = record.out_of_memory and (limit or 0) > n_bytes / 4
        middle = ([x, x + wide], [square] * 2) if shape.narrow else ([x + square] * 2, [0, tall])
        axes.plot(*middle, color=PAGE_INK, linewidth=size / 14)
    if naive and tall > 0.4 * top and (inside or not record.out_of_memory):  # scores and weights
        for i, name in enumerate("SP"):
            spot = (x + square * (0.5 + i), square * 0.25)
            spot = (x + square / 4, square * (1.25 - i)) if shape.narrow else spot
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
        spot, off = (x + wide, -_GAP * top), (0.4, 0.15)
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
