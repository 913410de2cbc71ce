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

    A square unit of the axes is a byte. Naive's peak is a rectangle of two squares, so the dotted
    line at the height of half the limit's root is crossed by what does not fit, and only by that.
    Fused attention's peak lies below the baseline, as wide as naive's prediction.
    """
    size = 20 if presenter else FONT_SIZE
    figure, axes = new_figure(figsize=(14, 6.6) if presenter else (7, 3.5))
    lengths = sorted({record.n for record in records})
    side = _side_per_row(records)
    limit = sqrt(limit_bytes / 2) if limit_bytes else 0.0
    top = max([limit, *(side * n for n in lengths)]) or 1.0
    room = 0.5 * top  # of the narrowest column: its words need it
    left, lefts = 0.0, []
    for n in lengths:
        for record in (record for record in records if record.n == n):
            _draw_area(axes, record, left, side * n, size, top)
        lefts.append(left)
        left += max(2 * side * n, room) + 0.12 * top
    right = max(left, 4.6 * top)  # four doublings: the scale stays while they arrive
    if limit_bytes:
        axes.axhline(limit, color=PAGE_INK, linestyle=":", linewidth=size / 7, zorder=0)
        axes.annotate(f"limit {bytes_binary(limit_bytes)}",
                      (0, limit), (0, 4), textcoords="offset points", fontsize=size)  # fmt: skip
    axes.axhline(0, color=PAGE_INK, linewidth=size / 14, zorder=0)
    axes.set(xlim=(-0.05 * top, right), ylim=(-0.62 * top, 1.4 * top), aspect="equal", anchor="N")
    axes.set_xticks(lefts, [short_count(n) for n in lengths], ha="left")
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(labelsize=size, length=0)
    says = "peak memory above the inputs at N rows, by area\ndots: counted by the ledger"
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
    says = f"{record.method} {'out of memory' if record.out_of_memory else _short(n_bytes)}"
    if 2 * side < 0.9 * top:  # a narrow column
        says = says.replace(" ", "\n")
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
