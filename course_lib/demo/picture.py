"""Peaks as areas at one scale: naive's two square matrices, fused attention's line, the limit."""

from __future__ import annotations

from collections.abc import Sequence
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


@styled
def draw(records: Sequence[Peak], limit_bytes: int | None, *, presenter: bool) -> Figure:
    """Draw what naive and fused hold at each N as areas; ``presenter``: type for a room.

    A square unit of the axes is a byte. Naive's peak is a rectangle of two squares, and so is the
    dotted limit: what does not fit is larger than it, and only that. Fused attention's peak lies
    below the baseline, as wide as naive's prediction.
    """
    size = 20 if presenter else FONT_SIZE
    figure, axes = new_figure(figsize=(14, 4.9) if presenter else (7, 2.45), narrow_height=2.1)
    lengths = sorted({record.n for record in records})
    side = _side_per_row(records)
    limit = sqrt(limit_bytes / 2) if limit_bytes else 0.0
    top = max([limit, *(side * n for n in lengths)]) or 1.0
    room = 0.8 * top  # of the narrowest column: its words need it
    left, lefts = 0.0, []
    for n in lengths:
        for record in (record for record in records if record.n == n):
            _draw_area(axes, record, left, side * n, size, top)
        axes.annotate(f"N = {short_count(n)}", (left, -0.08 * top), (0, -1.5 * size),
                      textcoords="offset points", va="top", fontsize=size)  # fmt: skip
        lefts.append(left)
        left += max(2 * side * n, room) + 0.12 * top
    right = max(left, 5 * top)  # four doublings: the scale stays while they arrive
    if limit_bytes:
        x = lefts[-1] if lefts else 0.0
        axes.plot([x, x, x + 2 * limit, x + 2 * limit], [0, limit, limit, 0],
                  color=PAGE_INK, linestyle=":", linewidth=size / 6)  # fmt: skip
        axes.annotate(f"limit {bytes_binary(limit_bytes)}", (x, limit), (-0.5 * size, 0), va="top",
                      ha="right", textcoords="offset points", fontsize=size)  # fmt: skip
    axes.axhline(0, color=PAGE_INK, linewidth=size / 14, zorder=0)
    for method, way in (("naive", 1), ("fused", -1)):
        axes.annotate(method, (-0.05 * top, 0), (0, way * 0.4 * size), textcoords="offset points",
                      ha="right", va="bottom" if way > 0 else "top", fontsize=size * 0.85,
                      color=text_colour(_COLOURS[method]))  # fmt: skip
    axes.set(xlim=(-0.5 * top, right), ylim=(-0.5 * top, 1.25 * top), aspect="equal", anchor="N")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    says = "areas: measured peaks; points: where the ledger's area ends"
    axes.set_title(says, loc="left", fontsize=size, fontweight="normal")
    return figure


def _side_per_row(records: Sequence[Peak]) -> float:
    """Return the side of one of naive's squares for each row of N, so that a unit is a byte."""
    naive = next((r for r in records if r.method == "naive"), None)
    return sqrt(naive.predicted_bytes / 2) / naive.n if naive else 1.0


def _draw_area(axes: Any, record: Peak, x: float, side: float, size: int, top: float) -> None:
    """Draw a record from x on: naive above the baseline, fused below; ``side`` is naive's."""
    from matplotlib.patches import Rectangle

    naive, colour = record.method == "naive", hex_of(_COLOURS[record.method])
    n_bytes = (record.predicted_bytes if record.out_of_memory else record.bytes) or 0
    wide, tall = _extent(naive, n_bytes, side)
    y = 0.0 if naive else -0.04 * top - tall
    look: dict[str, Any] = {"facecolor": colour}
    if record.out_of_memory:  # as large as it wanted to be, hatched because it never was
        look = {"facecolor": "none", "edgecolor": colour, "hatch": "//", "linewidth": 2}
    axes.add_patch(Rectangle((x, y), wide, tall, **look))
    if naive:  # two matrices: the scores and the weights
        axes.plot([x + wide / 2] * 2, [0, tall], color=PAGE_INK, linewidth=size / 14)
    says = _short(n_bytes)
    if record.out_of_memory:
        says = f"needs {says}: out of memory" if 2 * side > 0.9 * top else "out of\nmemory"
    axes.annotate(
        says, (x, y + tall if naive else y),
        (0, size * (0.4 if naive else -0.4)),
        textcoords="offset points", ha="left", va="bottom" if naive else "top",
        color=text_colour(_COLOURS[record.method]), fontsize=size * 0.85, linespacing=1.05,
    )  # fmt: skip
    if record.ledger_bytes:
        wide, counted = _extent(naive, record.ledger_bytes, side)
        spot = (x + wide, counted if naive else -0.04 * top - counted)
        axes.plot(*spot, "o", color=PAGE_INK, markersize=size * 0.45)


def _extent(naive: bool, n_bytes: float, side: float) -> tuple[float, float]:
    """Return width and height of an area of ``n_bytes``: two squares, or a line below them."""
    if naive:
        return 2 * sqrt(n_bytes / 2), sqrt(n_bytes / 2)
    return 2 * side, n_bytes / (2 * side)


def _short(n_bytes: int) -> str:
    """Return three digits: a label on a bar has no room for more."""
    number, unit = bytes_binary(n_bytes).split()
    return f"{float(number):.3g} {unit}" if float(number) < 1000 else f"{number} {unit}"
