"""Which program has which numbers (lesson 05) and how addresses are made (lesson 06)."""

from __future__ import annotations

from typing import Any

import numpy as np

from course_lib.style.look import PAGE_INK, styled, text_colour
from course_lib.style.palette import HUES, hex_of
from course_lib.style.picture import new_figure


@styled
def draw_programs(n: int, block: int) -> Any:
    """Draw n numbers cut into blocks, one program each; places behind the end are dotted."""
    figure, axes = new_figure(figsize=(7, 1.7))
    count = -(-n // block)
    for i in range(count * block):
        hue = list(HUES)[i // block]
        inside = {"facecolor": hex_of(hue)} if i < n else {"facecolor": "none", "linestyle": ":"}
        axes.bar(i, 1, 0.86, align="edge", edgecolor=PAGE_INK, **inside)
        if i % 2 == 0:  # all of them would touch on a phone, where text keeps its size
            axes.text(i + 0.43, -0.5, str(i), ha="center", fontsize=10)
        if i % block == 0:
            middle = i + block / 2
            words = f"program {i // block}"
            axes.text(middle, 1.2, words, ha="center", color=text_colour(hue), weight="bold")
    axes.set(xlim=(-0.2, count * block + 0.1), ylim=(-0.7, 1.7))
    axes.axis("off")
    return figure.says(
        f"{n} numbers in blocks of {block}: {count} programs, and the last has {count * block - n} "
        "places too many",
        alt=f"Numbers 0 to {n - 1} in {count} blocks; dotted frames stand behind the end.",
    )


@styled
def draw_addresses(rows: np.ndarray, columns: np.ndarray, stride: int) -> Any:
    """Draw how a column of row starts and a row of columns add up to a tile of addresses."""
    starts, places = rows[:, None] * stride, columns[None, :]
    figure, axes = new_figure(figsize=(7, 1.9))
    wide = places.shape[1]
    tables = (
        (starts, 0.0, f"rows[:, None] * {stride}", "q"),
        (places, 3.6, "cols[None, :] * 1", "k"),
        (starts + places, 4.6 + wide, "their sum", "flash"),
    )
    for table, left, words, meaning in tables:
        for (i, j), number in np.ndenumerate(table):
            axes.bar(left + j, 0.9, 0.9, 1 - i, align="edge", facecolor="none", linewidth=2.5,
                     edgecolor=hex_of(meaning))  # fmt: skip
            axes.text(left + j + 0.45, 1.45 - i, number, ha="center", va="center")
        axes.text(left, 2.2, words, fontsize=10, color=text_colour(meaning))
    axes.text(2.9, 0.95, "+", fontsize=18)
    axes.text(3.9 + wide, 0.95, "=", fontsize=18)
    axes.set(xlim=(-0.1, 4.7 + 2 * wide), ylim=(-0.2, 2.7))
    axes.axis("off")
    total = starts + places
    return figure.says(
        f"{starts.size} row starts and {places.size} columns make {total.size} addresses, "
        f"{total.min()} to {total.max()}",
        alt="A column of numbers plus a row of numbers gives a tile.",
    )
