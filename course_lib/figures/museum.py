"""Answers of a streaming average by mistake, on one line with the truth (lesson 03)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from course_lib.style.look import PAGE_INK, styled, text_colour
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure


@styled
def draw_museum(
    by_order: Mapping[str, Mapping[str, float]], truth: float, possible: tuple[float, float]
) -> Any:
    """Draw each mistake's answer for two orders of the tiles.

    Args:
        by_order: order, in words -> mistake, in words -> the answer it gives.
        truth: the right answer. possible: the least and the largest value, which bound an average.
    """
    (first, one), (second, other) = by_order.items()
    names = list(one)
    figure, axes = new_figure(figsize=(7, 1.2 + 0.5 * len(names)))
    axes.axvspan(*possible, alpha=0.12, color=PAGE_INK, linewidth=0)
    axes.axvline(truth, color=hex_of("right"), linewidth=3)
    for row, name in enumerate(names):
        axes.plot(one[name], row, "o", color=hex_of("flash"), markersize=9)
        axes.plot(other[name], row, "x", color=hex_of("naive"), markersize=10, markeredgewidth=3)
    for words, mark, x, meaning in (
        (f"truth {truth:.3f}", "", truth, "right"),
        ("an average\nis in here", "", possible[0], "other"),
    ):
        side = "left" if meaning == "other" else "center"
        axes.annotate(mark + words, (x, 1), (0, 5), xycoords=("data", "axes fraction"), ha=side,
                      textcoords="offset points", color=text_colour(meaning))  # fmt: skip
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.7)
    axes.set_xlabel("answer")
    outside = sum(not possible[0] <= x <= possible[1] for x in [*one.values(), *other.values()])
    moved = [name for name in names if abs(one[name] - other[name]) > 0.005]
    return figure.says(
        f"{len(moved)} of {len(names)} get another answer in the other order; "
        f"{outside} of {2 * len(names)} answers lie outside the values",
        f"Dots: {first}. Crosses: {second}.",
    )
