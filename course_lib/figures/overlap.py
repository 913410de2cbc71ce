"""What one SM does, tile after tile: tensor cores beside exponentials, by the data sheet (08)."""

from __future__ import annotations

from typing import Any, NamedTuple

from course_lib.style.look import PAGE_INK, styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure

_EXP_PER_CLOCK = 16  # an SM of an H100 (CUDA programming guide, arithmetic instructions)
_FLOPS_PER_CLOCK = (
    4096  # the same SM's tensor cores, 16-bit: 132 of them at 1.83 GHz are 989 TFLOP/s
)
_UNITS = {"S": "tensor cores", "exp": "exponentials", "P V": "tensor cores"}
COLOURS = {"S": "flash", "exp": "other", "P V": "o"}
"""What a program does -> its colour, in the measured timeline too."""


class Task(NamedTuple):
    """One piece of work of one program, in clock cycles."""

    program: int
    what: str
    start: float
    end: float


def product_cycles(rows: int, keys: int, d: int) -> float:
    """Return the clock cycles of one tile's S (or P V) on an H100's tensor cores, nominal."""
    return 2 * rows * keys * d / _FLOPS_PER_CLOCK


def overlapped(programs: int, tiles: int, d: int, block: int) -> list[Task]:
    """Return when S, exp and P V of each tile run, in clock cycles, on one SM of an H100.

    A program does them one after the other; a unit works for one program at a time, for whoever
    can begin first. Tiles are (block, block) of attention with head dimension d.
    """
    product = product_cycles(block, block, d)
    lasts = {"S": product, "exp": block * block / _EXP_PER_CLOCK, "P V": product}
    ready, done = [0.0] * programs, [0] * programs
    free = dict.fromkeys(_UNITS.values(), 0.0)
    found: list[Task] = []
    order = list(lasts) * tiles
    while min(done) < len(order):
        waiting = [p for p in range(programs) if done[p] < len(order)]
        begins = {p: max(ready[p], free[_UNITS[order[done[p]]]]) for p in waiting}
        first = min(begins, key=lambda p: (begins[p], ready[p]))
        what = order[done[first]]
        end = begins[first] + lasts[what]
        found.append(Task(first, what, begins[first], end))
        ready[first] = free[_UNITS[what]] = end
        done[first] += 1
    return found


def busy(tasks: list[Task]) -> float:
    """Return which share of the time the tensor cores multiply."""
    products = [t for t in tasks if t.what != "exp"]
    return sum(t.end - t.start for t in products) / max(t.end for t in products)


@styled
def draw_overlap(d: int, block: int, tiles: int = 4) -> Any:
    """Draw the timeline of one program on an SM above that of two."""
    figure, axes = new_figure(2, 1, figsize=(7, 2.8), sharex=True, height_ratios=(1, 2))
    runs = {
        ("program",): overlapped(1, 2 * tiles, d, block),
        ("program A", "program B"): overlapped(2, tiles, d, block),
    }
    for ax, (lanes, tasks) in zip(axes, runs.items(), strict=True):
        for task in tasks:
            ax.barh(task.program, task.end - task.start, 0.8, task.start, edgecolor=PAGE_INK,
                    color=hex_of(COLOURS[task.what]), linewidth=0.6)  # fmt: skip
            ax.text((task.start + task.end) / 2, task.program, task.what, ha="center",
                    va="center", color="black" if task.what == "P V" else "white",
                    size=7)  # fmt: skip
        ax.set_yticks(range(len(lanes)), lanes)
        ax.invert_yaxis()
        ax.set_title(f"{len(lanes)} on the SM: tensor cores busy {busy(tasks):.0%}", loc="left")
    axes[-1].set_xlabel("clock cycles of one SM")
    one, two = (busy(tasks) for tasks in runs.values())
    return figure.says(
        f"One program keeps the tensor cores busy {one:.0%} of the time, two {two:.0%}",
        f"Computed from an H100's data sheet: d = {d}, tiles of {block} × {block}, {2 * tiles} "
        "tiles in all. A row is a program. Blue and yellow: tensor cores, S and P V. Grey: "
        "exponentials. Empty: waiting. Copies and all other work are left out.",
        alt="Bars over time, S, exponentials and P V in turn, for one and for two programs.",
    )
