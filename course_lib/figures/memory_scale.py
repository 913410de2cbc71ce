"""The memories of a GPU as areas at one scale, beside one head's S (lesson 02)."""

from __future__ import annotations

from typing import Any

from course_lib.accounting.format import bytes_binary
from course_lib.accounting.hardware import MEMORY_HIERARCHY
from course_lib.style.look import PAGE_INK, styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure

_LENS = 8  # how many times longer a side is in the column on the right
_SMALL, _LARGE = 1.08, 1.24  # where the two columns begin; HBM's side is 1


def _square(axes: Any, x: float, y: float, side: float, meaning: str) -> None:
    stripes = "////" if meaning == "s" else None
    axes.bar(x, side, side, y, align="edge", hatch=stripes, color=hex_of(meaning),
             edgecolor=PAGE_INK, linewidth=0.6)  # fmt: skip


@styled
def draw_scale(n: int, b: int, name: str = "H100") -> Any:
    """Draw each memory of a GPU, and the S of one head (n × n numbers of b bytes), as squares."""
    *fast, hbm = MEMORY_HIERARCHY[name]
    places = {level.name: level.n_bytes for level in fast}
    sizes = {**places, f"S, N = {n}": n * n * b}
    figure, axes = new_figure(figsize=(7, 3), narrow_height=2.3)
    _square(axes, 0, 0, 1, "other")
    axes.text(0.5, 0.5, f"HBM\n{bytes_binary(hbm.n_bytes)}", ha="center", va="center",
              color="black")  # fmt: skip
    sides = [(size / hbm.n_bytes) ** 0.5 for size in sizes.values()]
    gap = (1 - _LENS * sum(sides)) / (len(sides) - 1)
    top = 0.0
    for (words, size), side in zip(sizes.items(), sides, strict=True):
        large, meaning = _LENS * side, "other" if words in places else "s"
        middle = top + large / 2
        for edge in (-0.5, 0.5):
            axes.plot([_SMALL + side, _LARGE], [middle + edge * side, middle + edge * large],
                      color=PAGE_INK, linewidth=0.6, linestyle=":")  # fmt: skip
        _square(axes, _SMALL, middle - side / 2, side, meaning)
        _square(axes, _LARGE, top, large, meaning)
        axes.text(_LARGE + large + 0.05, middle, f"{words}\n{size / 2**20:.0f} MiB", va="center")
        top += large + gap
    axes.set(xlim=(0, 2.35), ylim=(1.01, -0.01), aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    together = sum(places.values())
    word = "larger" if n * n * b > together else "smaller"
    return figure.says(
        f"HBM is {hbm.n_bytes / together:.0f} times as large as all places on the chip together; "
        f"one head's S is {word} than they are",
        f"{name}. Left: all areas at one scale. Right: the same, each side {_LENS} times as long. "
        f"S: one head, {b} bytes a number.",
        alt="A large square for HBM, beside it tiny squares for registers, shared memory, L2 and "
        "S, and the same squares magnified.",
    )
