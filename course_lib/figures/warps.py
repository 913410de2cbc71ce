"""How four warps share one tile of scores: by keys, or by queries (lesson 08)."""

from __future__ import annotations

from typing import Any

from course_lib.style.look import PAGE_INK, styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure

_SIDE, _WIDE = 4.0, 2.6  # the tile of scores is square; a tile of O is drawn narrower


def _box(
    axes: Any, x: float, y: float, width: float, height: float, meaning: str, warp: int
) -> None:
    """Draw a warp's part of S or of O, with the warp's number in it."""
    stripes, plate = None, None
    if meaning == "s":  # a number does not stand on stripes
        stripes = "////"
        plate = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
    axes.bar(x, height, width, y, align="edge", color=hex_of(meaning), hatch=stripes,
             edgecolor=PAGE_INK, linewidth=0.8)  # fmt: skip
    axes.text(x + width / 2, y + height / 2, warp, ha="center", va="center", color="black",
              bbox=plate)  # fmt: skip


@styled
def draw_split(block_q: int, block_k: int, d: int, warps: int = 4) -> Any:
    """Draw which part of S and of O each warp has, split over keys (above) and queries (below)."""
    figure, axes = new_figure(2, 1, figsize=(7, 4.4), narrow_height=3.4)
    part = _SIDE / warps
    for ax, by_keys in zip(axes, (True, False), strict=True):
        for warp in range(warps):
            if by_keys:
                _box(ax, warp * part, 0, part, _SIDE, "s", warp)
                x = _SIDE + 1.2 + warp * (_WIDE + 0.8)
                _box(ax, x, 0, _WIDE, _SIDE, "o", warp)
                if warp:
                    ax.text(x - 0.4, _SIDE / 2, "+", ha="center", va="center", weight="bold")
            else:
                _box(ax, 0, warp * part, _SIDE, part, "s", warp)
                _box(ax, _SIDE + 1.2, warp * part, _WIDE, part, "o", warp)
        ax.text(_SIDE + 0.6, _SIDE / 2, "→", ha="center", va="center")
        ax.set(xlim=(-0.1, _SIDE + 1.2 + warps * (_WIDE + 0.8)), ylim=(_SIDE + 0.1, -0.1),
               aspect="equal", xticks=[], yticks=[], anchor="W")  # fmt: skip
        ax.spines[:].set_visible(False)
        words = ("K: a warp has some keys", "a part of O each") if by_keys else (
            "Q: a warp has some queries", "its rows of O")  # fmt: skip
        ax.set_title(f"Split {words[0]} of S, and {words[1]}", loc="left")
    kib = warps * block_q * d * 4 / 1024  # each warp's part of O, fp32
    return figure.says(
        f"Split K: {warps} parts of O to add up, {kib:.0f} KiB a tile of keys; split Q: none",
        f"S of {block_q} queries (down) and {block_k} keys (across), O of {block_q} × {d}; "
        "the numbers are those of the warps.",
        alt="Above, S in upright strips and an O for each warp; below, S and O in level strips.",
    )
