"""What leaves the chip and comes back between the three lines of naive attention (lesson 01)."""

from __future__ import annotations

from typing import Any

from course_lib.style.look import PAGE_INK, styled, text_colour
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure

_CRATES = (("S", 0, -1), ("S", 1, 1), ("P", 1, -1), ("P", 2, 1))  # what, at which line, which way


@styled
def draw_trips() -> Any:
    """Draw an arrow for each trip of an N x N matrix: down to be stored, up to be fetched."""
    figure, axes = new_figure(figsize=(7, 2.8))
    for x, line in enumerate(("line 1", "line 2", "line 3")):
        axes.text(x, 1.1, line, ha="center", weight="bold")
    for trip, (crate, job, way) in enumerate(_CRATES, 1):
        place = job - 0.2 * way
        ends = [(place, 0.05), (place, 0.95)]
        arrow = {"arrowstyle": "-|>", "color": hex_of("s"), "lw": 3, "mutation_scale": 18}
        axes.annotate("", ends[way > 0], ends[way < 0], arrowprops=arrow)
        beside, height, side = (-0.06, 0.6, "right") if way > 0 else (0.06, 0.2, "left")
        words = f"trip {trip}:\n{crate}"
        axes.text(place + beside, height, words, ha=side, color=text_colour("s"))
    for height in (0, 1):
        axes.axhline(height, color=PAGE_INK)
    axes.set(xlim=(-0.5, 2.6), ylim=(-0.2, 1.3), xticks=[], yticks=[0, 1])
    axes.set_yticklabels(["warehouse\n(HBM)", "workshop\n(chip)"])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    words = {2: "two", 4: "four"}[len(_CRATES)]
    return figure.says(
        f"Three lines, {words} trips of a whole N × N matrix",
        alt="Line 1 stores S, line 2 fetches S and stores P, line 3 fetches P.",
    )
