"""Peaks as a picture: a pair of bars for each N, hatched where memory ran out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from course_lib.accounting.format import bytes_binary
from course_lib.demo.peak import METHODS, Peak
from course_lib.style.palette import hex_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = {"naive": hex_of("naive"), "fused": hex_of("flash")}
_INK = "#808080"  # mid-grey: legible on white and on a dark page alike


def draw(
    records: Sequence[Peak], limit_bytes: int | None, title: str, *, presenter: bool
) -> Figure:
    """Draw a pair of bars per N on a logarithmic scale; ``presenter``: type for a room."""
    from matplotlib.figure import Figure

    size = 22 if presenter else 12
    figure = Figure(figsize=(14, 8.5) if presenter else (8.5, 5), layout="constrained")
    figure.patch.set_alpha(0)
    axes = figure.add_subplot(facecolor="none")
    axes.set_yscale("log", base=2)
    lengths = sorted({record.n for record in records})
    known = [r.bytes for r in records if r.bytes] + [limit_bytes or 2**20]
    floor, top = min(known) / 2, max([*known, *_failed_heights(records)])
    for record in records:
        _draw_bar(axes, record, lengths.index(record.n), floor, size)
    if limit_bytes:
        axes.axhline(limit_bytes, color=_INK, linestyle="--", linewidth=size / 9, zorder=0)
    axes.set_ylim(floor, top * 6)
    axes.set_xlim(-0.6, max(len(lengths), 2) - 0.4)
    axes.set_xticks(range(len(lengths)), [f"N = {n}" for n in lengths])
    axes.yaxis.set_major_formatter(lambda value, _: bytes_binary(value))
    axes.set_ylabel("peak memory above the inputs", color=_INK, fontsize=size)
    axes.set_title(title, color=_INK, fontsize=size * 0.85, loc="left")
    axes.tick_params(colors=_INK, labelsize=size)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_INK)
    axes.legend(handles=_legend(), frameon=False, labelcolor=_INK, fontsize=size, loc="upper left",
                ncols=3)  # fmt: skip
    return figure


def _failed_heights(records: Sequence[Peak]) -> list[int]:
    return [r.predicted_bytes for r in records if r.out_of_memory]


def _draw_bar(axes: Any, record: Peak, place: int, floor: float, size: int) -> None:
    x = place + (-0.21 if record.method == "naive" else 0.21)
    colour = _COLOURS[record.method]
    height: float
    if record.out_of_memory:  # as high as it wanted to be, hatched because it never was
        height, text = record.predicted_bytes, "out of\nmemory"
        look = {"facecolor": "none", "edgecolor": colour, "hatch": "//", "linewidth": 2}
    else:
        height = max(record.bytes or 0, floor)
        text, look = _short(record.bytes or 0).replace(" ", "\n"), {"color": colour}
    axes.bar(x, height - floor, width=0.4, bottom=floor, **look)
    axes.annotate(
        text, (x, height), (0, size * 0.4), textcoords="offset points", ha="center", va="bottom",
        color=_INK, fontsize=size * 0.8, linespacing=0.95,
    )  # fmt: skip
    if record.ledger_bytes:
        axes.plot(x, record.ledger_bytes, "D", color=_INK, markeredgecolor="white",
                  markersize=size * 0.55)  # fmt: skip


def _short(n_bytes: int) -> str:
    """Return three digits: a label on a bar has no room for more."""
    number, unit = bytes_binary(n_bytes).split()
    return f"{float(number):.3g} {unit}" if float(number) < 1000 else f"{number} {unit}"


def _legend() -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    bars: list[Any] = [Patch(color=_COLOURS[method], label=method) for method in METHODS]
    mark = Line2D([], [], marker="D", color=_INK, linestyle="", label="counted by the ledger")
    return [*bars, mark]
