"""Peaks as areas at one scale and of one shape, naive's two squares; the limit is one too."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from typing import TYPE_CHECKING, Any

from course_lib.accounting.format import bytes_binary
from course_lib.demo.peak import Peak
from course_lib.style.axes import short_count
from course_lib.style.look import FONT_SIZE, PAGE_INK, styled, text_colour
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = {"naive": "naive", "fused": "flash"}  # method -> what its colour means
_WIDE = 8.0  # inches: a narrow page's figure has fewer
_GAP = 0.035  # between the baseline and what hangs below it, of the largest square


@styled
def draw(records: Sequence[Peak], limit_bytes: int | None, *, presenter: bool) -> Figure:
    """Draw what naive and fused hold at each N as areas; ``presenter``: type for a room.

    A square unit of the axes is a byte. Every peak is a rectangle of two squares, and so is the
    dotted limit: what does not fit is larger than it, and only that. Fused attention's peak hangs
    below the baseline.
    """
    size = 20 if presenter else FONT_SIZE
    figure, axes = new_figure(figsize=(14, 4.2) if presenter else (11, 2.85), narrow_height=1.6,
                              grows=True)  # fmt: skip
    figure.get_layout_engine().set(w_pad=0.02)
    lengths = sorted({record.n for record in records})
    side = _side_per_row(records)
    limit = sqrt(limit_bytes / 2) if limit_bytes else 0.0
    top = max([limit, *(side * n for n in lengths)]) or 1.0
    room = 0.88 * top  # of the narrowest column: its words need it
    left, x = 0.0, 0.0
    deep = max([0.05 * top, *(_extent(r.bytes or 0)[1] for r in records if r.method == "fused")])
    for n in lengths:
        x = left
        for record in (record for record in records if record.n == n):
            _draw_area(axes, record, x, side * n, size, top, limit)
        _say(axes, short_count(n), (x, -_GAP * top - deep), (0, -0.75), size, va="top")
        left += max(2 * side * n, room) + 0.12 * top
    right = max(left, 5 * top)  # four doublings: the scale stays while they arrive
    if limit_bytes:
        axes.plot([x, x, x + 2 * limit, x + 2 * limit], [0, limit, limit, 0],
                  color=PAGE_INK, linestyle=":", linewidth=size / 6)  # fmt: skip
        says = f"limit {bytes_binary(limit_bytes)}"
        inside = limit > 0.4 * top and any(r.out_of_memory for r in records if r.n == n)
        says = says.replace(" ", "\n", 1) if inside else says  # beside the line between S and P
        _say(axes, says, (x + 2 * limit, limit), (-0.3 * inside, -0.3 if inside else 0.35),
             size * (0.74 if inside else 0.85), ha="right", va="top" if inside else "bottom",
             linespacing=1.05)  # fmt: skip
    last = [record for record in records if record.n in lengths[-1:]]
    _say_how_much_less(axes, last, x, -_GAP * top, size)
    naives = [r.bytes or r.predicted_bytes or 0 for r in records if r.method == "naive"]
    law = [b / a for a, b in pairwise(naives)]
    doubled = all(b == 2 * a for a, b in pairwise(lengths))
    if len(law) > 1 and doubled and all(abs(factor - 4) < 0.1 for factor in law):
        look = {"fontweight": "bold", "color": text_colour("naive"), "va": "top", "ha": "left"}
        for wide, gap in ((True, " "), (False, "\n")):  # on a phone in two lines
            says, size_ = f"N × 2: naive’s{gap}memory × 4", size * (1 if wide else 0.85)
            _only(_say(axes, says, (0, 0.98 * top), (0, 0), size_, in_layout=False, **look), wide)
    axes.axhline(0, color=PAGE_INK, linewidth=size / 14, zorder=0)
    for method, up in (("naive", 0.4), ("fused", -0.3)):
        _say(axes, method, (-0.12 * top, -_GAP * top * (up < 0)), (0, up), size * 0.85, ha="right",
             va="bottom" if up > 0 else "top", color=text_colour(_COLOURS[method]))  # fmt: skip
    _say(axes, "N =", (-0.12 * top, -_GAP * top - deep), (0, -0.75), size, ha="right", va="top")
    axes.set(xlim=(-0.69 * top, right), ylim=(-0.33 * top, 1.2 * top), aspect="equal", anchor="NW")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    return figure


def _say_how_much_less(axes: Any, last: Sequence[Peak], x: float, y: float, size: float) -> None:
    """Write beside fused attention's last peak how many times naive's it would go into."""
    peaks = {record.method: record.bytes or record.predicted_bytes for record in last}
    if peaks.get("naive") and peaks.get("fused"):
        measured = any(record.method == "naive" and record.bytes for record in last)
        less = f"{peaks['naive'] / peaks['fused']:.0f} × less"
        look = {"color": text_colour(_COLOURS["fused"]), "fontweight": "bold", "va": "top"}
        spot, behind = (x + _extent(peaks["fused"])[0]), 1.1 + 0.56 * len(_short(peaks["fused"]))
        full = f"{less} than naive" + " needs" * (not measured)
        for wide, words in ((True, full), (False, less)):  # a phone has room for the number
            label = _say(
                axes, words, (spot, y), (behind, -0.05), size * 0.85, ha="left", in_layout=False,
                **look,
            )  # fmt: skip
            _only(label, wide)


def _only(label: Any, wide: bool) -> None:
    """Draw a label only where the figure is wide, or only where it is narrow."""
    draw = label.draw
    label.draw = lambda renderer: (
        draw(renderer) if (label.figure.get_figwidth() > _WIDE) == wide else None
    )


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
    axes: Any, record: Peak, x: float, side: float, size: int, top: float, limit: float
) -> None:
    """Draw a record from x on: naive above the baseline, fused below; ``side`` is naive's."""
    from matplotlib.patches import Rectangle

    naive, text = record.method == "naive", text_colour(_COLOURS[record.method])
    n_bytes = (record.predicted_bytes if record.out_of_memory else record.bytes) or 0
    wide, tall = _extent(n_bytes)
    y = 0.0 if naive else -_GAP * top - tall
    colour = hex_of(_COLOURS[record.method])
    look: dict[str, Any] = {"facecolor": colour}
    if record.out_of_memory:  # as large as it wanted to be, empty because it never was
        look = {"facecolor": "none", "edgecolor": colour, "linewidth": 2}
        _hatch_excess(axes, x, (wide, tall), limit, colour)
    axes.add_patch(Rectangle((x, y), wide, tall, **look))
    if naive:
        inside = record.out_of_memory and limit > wide / 4
        axes.plot([x + wide / 2] * 2, [0, tall], color=PAGE_INK, linewidth=size / 14)
    if naive and tall > 0.4 * top and (inside or not record.out_of_memory):  # scores and weights
        for i, name in enumerate("SP"):
            spot = (x + wide * (0.25 + 0.5 * i), 0.32 * tall)
            ink = PAGE_INK if record.out_of_memory else "#000000"  # on orange, whatever the page
            _say(axes, name, spot, (0, 0), size, ha="center", va="center", fontweight="bold",
                 color=ink)  # fmt: skip
    says = _short(n_bytes)
    if record.out_of_memory:
        long = f"needs {says}: out of memory"
        says = long if 2 * side > 0.9 * top else "out of\nmemory"
    over = bool(record.out_of_memory)  # its words are wider than it: they end where it ends
    if naive:
        spot, off = (x + over * wide, y + tall), (0.0, 0.45)
    else:
        spot, off = (x + wide, -_GAP * top), (0.4, 0.15)
    _say(axes, says, spot, off, size * 0.85,
         va="bottom" if naive else "top", ha="right" if over else "left",
         color=text, linespacing=1.05, fontweight="bold" if over else "normal",
         in_layout=False)  # fmt: skip


def _hatch_excess(
    axes: Any, x: float, extent: tuple[float, float], limit: float, colour: str
) -> None:
    """Hatch what of an area lies outside of the limit's, and tint what lies inside."""
    from matplotlib.patches import Polygon

    (wide, tall), (inner, low) = extent, (min(2 * limit, extent[0]), min(limit, extent[1]))
    corners = [(0, low), (0, tall), (wide, tall), (wide, 0), (inner, 0), (inner, low)]
    axes.fill([x, x + inner, x + inner, x], [0, 0, low, low], color=colour, alpha=0.18, lw=0)
    shape = [(x + right, up) for right, up in corners]
    axes.add_patch(Polygon(shape, facecolor="none", edgecolor=colour, hatch="//", linewidth=0))


def _extent(n_bytes: float) -> tuple[float, float]:
    """Return width and height of an area of ``n_bytes``: two squares."""
    return 2 * sqrt(n_bytes / 2), sqrt(n_bytes / 2)


def _short(n_bytes: int) -> str:
    """Return three digits, below 10 two: there is no room for more. 1024 MiB are above 768 MiB."""
    if n_bytes < 2**31:
        mib = n_bytes / 2**20
        return f"{mib:.0f} MiB" if mib >= 1000 else f"{mib:.{3 if mib >= 10 else 2}g} MiB"
    number, unit = bytes_binary(n_bytes).split()
    return f"{float(number):.3g} {unit}" if float(number) < 1000 else f"{number} {unit}"
