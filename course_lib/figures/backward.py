"""Which tiles the two kernels of the backward visit, and in which order (lesson 09)."""

from __future__ import annotations

from typing import Any

from course_lib.style.look import PAGE_INK, styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure


@styled
def draw_walks(tiles: int, *, causal: bool = False) -> Any:
    """Draw both walks over a grid of tiles: an arrow is one program, numbered as it goes.

    Args:
        tiles: tiles of queries, and as many of keys. causal: whether later keys are hidden.
    """
    figure, axes = new_figure(1, 2, figsize=(7, 4))
    walks = (("keys stay: dK and dV", "k", True), ("queries stay: dQ", "q", False))
    visits = 0
    for ax, (words, meaning, down) in zip(axes, walks, strict=True):
        for owner in range(tiles):
            path = [(owner, i) if down else (i, owner) for i in range(tiles)]  # (key, query)
            path = [(key, query) for key, query in path if key <= query or not causal]
            visits += len(path)
            for number, (key, query) in enumerate(path, start=1):
                ax.bar(key, 1, 1, query, align="edge", color=hex_of(meaning), alpha=0.35)
                ax.text(key + 0.2, query + 0.25, number, ha="center", va="center", fontsize=10)
            (key, query), (last_key, last_query) = path[0], path[-1]
            ends = (last_key + 0.5, last_query + 0.8), (key + 0.5, query + 0.2)
            if not down:
                ends = (last_key + 0.8, last_query + 0.5), (key + 0.2, query + 0.5)
            ax.annotate("", *ends, arrowprops={"arrowstyle": "-|>", "color": PAGE_INK})
        ax.set(xlim=(0, tiles), ylim=(tiles, 0), aspect="equal", xticks=[], yticks=[])
        ax.set(xlabel="tile of keys", ylabel="tile of queries")
        ax.spines[:].set(visible=True, color=PAGE_INK)
        ax.set_title(words, fontweight="normal")
    return figure.says(
        f"Two walks over {visits // 2} tiles: each makes S and dP for itself",
        f"An arrow is one program. {'Causal' if causal else 'All keys'}, "
        f"{tiles} × {tiles} tiles, drawn from the rule.",
        alt="On the left arrows run down columns of the grid, on the right along its rows.",
    )
