"""The staircase of a causal mask, aligned at the end, and where a tile of queries stops (7.4)."""

from __future__ import annotations

from typing import Any

from course_lib.attention.masks import Causal
from course_lib.style.look import PAGE_INK, styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure


@styled
def draw_staircase(
    n_q: int, n_k: int, block_q: int, block_k: int, tile: int, *, boundary: bool = False
) -> Any:
    """Draw which query sees which key, the tiles, and where one tile of queries ends.

    Args:
        n_q, n_k: queries and keys. block_q, block_k: rows of a tile.
        tile: number of the tile of queries that is looked at.
        boundary: mark where its first tile of keys begins that needs a mask, too (8.2).
    """
    seen = Causal().dense(n_q, n_k)
    rows = range(tile * block_q, min((tile + 1) * block_q, n_q))
    all_see = int(seen[rows[0]].sum())
    whole = all_see // block_k * block_k  # keys of whole tiles that all its rows see
    end = int(seen[rows[-1]].sum())  # keys that any of them sees
    figure, axes = new_figure(figsize=(7, 0.42 * n_q + 1.3))
    for i in range(n_q):
        for j in range(n_k):
            full = bool(seen[i, j])
            look = {"color": hex_of("k"), "alpha": 0.7 if i in rows else 0.25}
            axes.bar(j, 0.9, 0.9, i + 0.05, align="edge", **(look if full else {"color": "none"}),
                     edgecolor=PAGE_INK, linewidth=0.5)  # fmt: skip
    for j in range(0, n_k + 1, block_k):
        axes.plot([j - 0.05] * 2, [0, n_q], color=PAGE_INK, linewidth=1.5)
    for i in [*range(0, n_q, block_q), n_q]:
        axes.plot([0, n_k], [i] * 2, color=PAGE_INK, linewidth=1.5)
    marked = [("end", end, "left")] + [("boundary", whole, "right")] * boundary
    for words, at, side in marked:
        axes.plot([at - 0.05] * 2, [-0.3, n_q], color=hex_of("flash"), linewidth=2.5)
        axes.text(at, -0.45, f"{words} = {at}", ha=side, va="bottom", color=hex_of("flash"),
                  weight="bold")  # fmt: skip
    axes.set(xlim=(-0.1, n_k + 0.1), ylim=(n_q + 0.1, -1.2), xlabel="key", ylabel="query")
    axes.set_xticks([j + 0.45 for j in range(n_k)], range(n_k))
    axes.set_yticks([i + 0.5 for i in range(n_q)], range(n_q))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure.says(
        f"The last of {n_q} queries sees the last of {n_k} keys; queries {rows[0]} to {rows[-1]} "
        f"see no key from {end} on",
        f"Tiles of {block_q} queries and {block_k} keys. Filled: seen."
        + f" Query {rows[0]} sees {all_see} keys; rounded down to tiles of {block_k}, "
        f"boundary = {whole}." * boundary,
        alt=f"A staircase of {n_q} rows and {n_k} columns that ends in the last corner.",
    )
