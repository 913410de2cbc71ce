"""Peaks as a picture: a pair of bars for each N, hatched where memory ran out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from course_lib.accounting.format import bytes_binary
from course_lib.demo.peak import Peak
from course_lib.style.axes import name_above, short_count
from course_lib.style.look import FONT_SIZE, PAGE_INK, styled, text_colour
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = {"naive": "naive", "fused": "flash"}  # method -> what its colour means


@styled
def draw(records: Sequence[Peak], limit_bytes: int | None, *, presenter: bool) -> Figure:
    """Draw a pair of bars per N on a logarithmic scale; ``presenter``: type for a room."""
    size = 20 if presenter else FONT_SIZE
    figure, axes = new_figure(figsize=(14, 8.5) if presenter else (7, 4.6))
    axes.set_yscale("log", base=2)
    lengths = sorted({record.n for record in records})
    known = [r.bytes for r in records if r.bytes] + [limit_bytes or 2**20]
    floor, top = min(known) / 2, max([*known, *_failed_heights(records)])
    for record in records:
        _draw_bar(axes, record, lengths.index(record.n), floor, size)
    if limit_bytes:
        axes.axhline(limit_bytes, color=PAGE_INK, linestyle=":", linewidth=size / 7, zorder=0)
        axes.annotate(f"limit {bytes_binary(limit_bytes)}", (-0.55, limit_bytes), (0, 4),
                      textcoords="offset points", fontsize=size)  # fmt: skip
    axes.set_ylim(floor, top * 6)
    axes.set_xlim(-0.6, max(len(lengths), 2) - 0.4)
    axes.set_xticks(range(len(lengths)), [f"N = {short_count(n)}" for n in lengths])
    axes.yaxis.set_major_formatter(lambda value, _: bytes_binary(value))
    axes.tick_params(labelsize=size)
    name_above(axes, "peak memory above the inputs; dots: counted by the ledger")
    axes.title.set_fontsize(size)
    return figure


def _failed_heights(records: Sequence[Peak]) -> list[int]:
    return [r.predicted_bytes for r in records if r.out_of_memory]


def _draw_bar(axes: Any, record: Peak, place: int, floor: float, size: int) -> None:
    x = place + (-0.21 if record.method == "naive" else 0.21)
    colour = hex_of(_COLOURS[record.method])
    height: float
    if record.out_of_memory:  # as high as it wanted to be, hatched because it never was
        height, text = record.predicted_bytes, f"{record.method}\nout of\nmemory"
        look = {"facecolor": "none", "edgecolor": colour, "hatch": "//", "linewidth": 2}
    else:
        height = max(record.bytes or 0, floor)
        text = f"{record.method}\n{_short(record.bytes or 0)}".replace(" ", "\n")
        look = {"color": colour}
    axes.bar(x, height - floor, width=0.4, bottom=floor, **look)
    axes.annotate(
        text, (x, height), (0, size * 0.4), textcoords="offset points", ha="center", va="bottom",
        color=text_colour(_COLOURS[record.method]), fontsize=size * 0.85, linespacing=0.95,
    )  # fmt: skip
    if record.ledger_bytes:
        axes.plot(x, record.ledger_bytes, "o", color=PAGE_INK, markersize=size * 0.55)


def _short(n_bytes: int) -> str:
    """Return three digits: a label on a bar has no room for more."""
    number, unit = bytes_binary(n_bytes).split()
    return f"{float(number):.3g} {unit}" if float(number) < 1000 else f"{number} {unit}"
