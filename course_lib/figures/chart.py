"""A chart in which everybody writes a number for everybody: S (lesson 01)."""

from __future__ import annotations

from typing import Any

import numpy as np

from course_lib.style.look import PAGE_INK, styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure


@styled
def draw_charts(few: int, many: int) -> Any:
    """Draw the N x N charts of two parties with drawn numbers; areas are areas."""
    rng = np.random.default_rng(1)
    figure, axes = new_figure(1, 2, figsize=(7, 3.4), width_ratios=[few, many])
    for ax, guests in zip(axes, (few, many), strict=True):
        interest = rng.random((guests, guests))
        ax.set(xlim=(0, guests), ylim=(guests, 0), aspect="equal")
        for (row, column), much in np.ndenumerate(interest):
            ax.bar(column + 0.5, 0.92, 0.92, row + 0.04, color=hex_of("s"), alpha=0.5 * much)
            ax.text(column + 0.5, row + 0.5, f"{9 * much:.0f}", ha="center", va="center")
        ax.set(xticks=[], yticks=[], xlabel="sits by …", ylabel="guest")
        ax.set_title(f"{guests} guests, {guests**2} numbers", fontweight="normal")
        ax.spines[:].set(visible=True, color=PAGE_INK)
    return figure.says(
        f"{many / few:g} times as many guests, {many**2 / few**2:g} times as many numbers",
        alt=f"A {few} x {few} and a {many} x {many} chart of numbers, cells of the same size.",
    )
