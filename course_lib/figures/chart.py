"""A chart in which everybody writes a number for everybody: S (lesson 01)."""

from __future__ import annotations

from typing import Any

import numpy as np

from course_lib.style.look import PAGE_INK, styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure


@styled
def draw_charts(few: int, many: int) -> Any:
    """Draw the N x N charts of two parties with drawn numbers, cells of one size."""
    rng = np.random.default_rng(1)
    figure, axes = new_figure(figsize=(7, 3.6))
    left = 0.0
    for guests in (few, many):
        for (row, column), much in np.ndenumerate(rng.random((guests, guests))):
            x, y = left + column + 0.5, many - guests + row + 0.5
            axes.bar(x, 0.92, 0.92, y - 0.46, color=hex_of("s"), alpha=0.5 * much)
            axes.text(x, y, f"{9 * much:.0f}", ha="center", va="center")
        middle, top = left + guests / 2, many - guests
        frame = {"fill": False, "edgecolor": PAGE_INK, "linewidth": 0.8}
        axes.bar(middle, guests, guests, top, **frame)
        axes.text(middle, top - 0.2, f"{guests} guests, {guests**2} numbers", ha="center")
        axes.text(middle, many + 0.2, "sits by …", ha="center", va="top")
        axes.text(left - 0.2, top + guests / 2, "guest", ha="right", va="center", rotation=90)
        left += guests + 1.5
    axes.set(xlim=(-0.8, left - 1), ylim=(many + 0.9, -0.8), aspect="equal")
    axes.axis("off")
    return figure.says(
        f"{many / few:g} times as many guests, {many**2 / few**2:g} times as many numbers",
        alt=f"A {few} x {few} and a {many} x {many} chart of numbers, cells of the same size.",
    )
