"""Numbers that half precision has, around one that it has not (lesson 01)."""

from __future__ import annotations

from typing import Any

import numpy as np

from course_lib.style.look import PAGE_INK, styled, text_colour
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure


@styled
def draw_third() -> Any:
    """Draw the fp16 numbers near 1/3, the nearest one, and 1/3 between two of them."""
    nearest = np.float16(1 / 3)
    here, step = float(nearest), float(np.spacing(nearest))
    figure, axes = new_figure(figsize=(7, 1.9))
    for i in range(-3, 4):
        axes.axvline(here + i * step, color=PAGE_INK, linewidth=1.5)
    marks = ((here, "flash", "-", "the nearest in fp16", "right", -8),
             (1 / 3, "naive", "--", "1/3", "left", 8))  # fmt: skip
    for x, meaning, style, words, side, apart in marks:
        axes.axvline(x, color=hex_of(meaning), linestyle=style, linewidth=4)
        axes.annotate(
            words, (x, 1), (apart, 6), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha=side, color=text_colour(meaning), weight="bold",
        )  # fmt: skip
    axes.set(yticks=[], xticks=[here - 3 * step, here, here + 3 * step])
    axes.set_xlim(here - 4 * step, here + 4 * step)
    axes.xaxis.set_major_formatter("{x:.6f}")
    axes.spines["left"].set_visible(False)
    off = abs(1 / 3 - here)
    finding = f"fp16 has no 1/3: its nearest number is off by {off:.5f}"
    return figure.says(finding, f"Each line is a number of fp16, {step:.5f} from the next.")
