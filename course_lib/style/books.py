"""A ledger's books as bars: for each tensor what was read of it and what was written to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from course_lib.style.look import styled
from course_lib.style.palette import MEANINGS, hex_of
from course_lib.style.picture import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def draw_books(rows: Sequence[tuple[str, int, int]]) -> Figure:
    """Draw ``(tensor, bytes read, bytes written)`` in MB: read filled, written outlined."""
    figure, axes = new_figure(figsize=(7, 0.9 + 0.55 * len(rows)))
    names = [row[0] for row in rows]
    colours = [hex_of(n.lower() if n.lower() in MEANINGS else "other") for n in names]
    read, written = [row[1] / 1e6 for row in rows], [row[2] / 1e6 for row in rows]
    for shift, sizes, words in ((-0.2, read, "read"), (0.2, written, "written")):
        y = [i + shift for i in range(len(rows))]
        bars = axes.barh(y, sizes, height=0.38, label=words, color=colours)
        if words == "written":
            for bar, colour in zip(bars, colours, strict=True):
                bar.set(facecolor="none", edgecolor=colour, linewidth=2)
        said = [f"{size:,.4g} {words}" if size else "" for size in sizes]
        axes.bar_label(bars, said, padding=4)
    axes.set_yticks(range(len(rows)), names)
    axes.invert_yaxis()
    axes.margins(x=0.18)
    axes.set_xlabel("MB")
    return figure
