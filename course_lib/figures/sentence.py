"""Who looks at whom: one word of a sentence, its weights as arcs (lesson 01)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from course_lib.style.look import PAGE_INK, styled, text_colour
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure


@styled
def draw_sentence(words: Sequence[str], weights: Sequence[float], who: int) -> Any:
    """Draw an arc from word number ``who`` to every other, as wide as its weight.

    Args:
        words: of the sentence. weights: (N,), of that word, they sum to 1. who: its place.
    """
    figure, axes = new_figure(figsize=(7, 2.4))
    turn = np.linspace(0, np.pi, 60)
    for i, (word, weight) in enumerate(zip(words, weights, strict=True)):
        colour = text_colour("q") if i == who else PAGE_INK
        axes.text(i, -0.35, word, ha="center", va="top", color=colour, weight="bold")
        axes.text(i, -1.0, f"{weight:.1%}", ha="center", va="top", fontsize=10, color=PAGE_INK)
        middle, half = (i + who) / 2, abs(i - who) / 2 or 0.2
        axes.plot(middle + half * np.cos(turn), 1.6 * np.sqrt(half) * np.sin(turn),
                  color=hex_of("q"), linewidth=1 + 14 * weight, alpha=0.75,
                  solid_capstyle="butt")  # fmt: skip
    axes.set(xlim=(-0.6, len(words) - 0.4), ylim=(-1.5, 3.4))
    axes.axis("off")
    most = int(np.argmax(weights))
    return figure.says(
        f"{words[who]!r} gives {weights[most]:.0%} of its weight to {words[most]!r}",
        alt=f"Arcs from {words[who]!r} to all words; the widest ends at {words[most]!r}.",
    )
