"""What one SM does, tile after tile: tensor cores beside exponentials, by the data sheet (08)."""

from __future__ import annotations

from typing import Any, NamedTuple

from course_lib.accounting.hardware import gpu
from course_lib.style.look import PAGE_INK, styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure

_EXP_PER_S = 16 * 1.83e9  # an SM of an H100: 16 exponentials a clock (white paper), 1.83 GHz
_LANES = {"tensor cores": ("S", "P V"), "exponentials": ("exp",)}


class Task(NamedTuple):
    """One piece of work of one program, in microseconds."""

    program: int
    what: str
    start: float
    end: float


def overlapped(programs: int, tiles: int, d: int, block: int) -> list[Task]:
    """Return when S, exp and P V of each tile run, in µs, on one SM of an H100.

    A program does them one after the other; a unit works for one program at a time, for whoever
    can begin first. Tiles are (block, block) of attention with head dimension d.
    """
    chip = gpu("H100")
    product = 2 * block * block * d / (chip.tflops_half * 1e6 / chip.sms)
    lasts = {"S": product, "exp": block * block / _EXP_PER_S * 1e6, "P V": product}
    unit = {what: lane for lane, kinds in _LANES.items() for what in kinds}
    ready, done = [0.0] * programs, [0] * programs
    free = dict.fromkeys(_LANES, 0.0)
    found: list[Task] = []
    order = list(lasts) * tiles
    while min(done) < len(order):
        waiting = [p for p in range(programs) if done[p] < len(order)]
        begins = {p: max(ready[p], free[unit[order[done[p]]]]) for p in waiting}
        first = min(begins, key=lambda p: (begins[p], ready[p]))
        what = order[done[first]]
        end = begins[first] + lasts[what]
        found.append(Task(first, what, begins[first], end))
        ready[first] = free[unit[what]] = end
        done[first] += 1
    return found


def busy(tasks: list[Task]) -> float:
    """Return which share of the time the tensor cores multiply."""
    products = [t for t in tasks if t.what != "exp"]
    return sum(t.end - t.start for t in products) / max(t.end for t in products)


@styled
def draw_overlap(d: int, block: int, tiles: int = 4) -> Any:
    """Draw the timeline of one program on an SM above that of two."""
    figure, axes = new_figure(2, 1, figsize=(7, 3.6), sharex=True)
    runs = {
        "one program": overlapped(1, 2 * tiles, d, block),
        "two": overlapped(2, tiles, d, block),
    }
    for ax, (name, tasks) in zip(axes, runs.items(), strict=True):
        for y, kinds in enumerate(_LANES.values()):
            for task in (t for t in tasks if t.what in kinds):
                ax.barh(y, task.end - task.start, 0.8, task.start, edgecolor=PAGE_INK,
                        color=hex_of(("flash", "k")[task.program]), linewidth=0.6)  # fmt: skip
                ax.text((task.start + task.end) / 2, y, task.what, ha="center", va="center",
                        color="white", size=7)  # fmt: skip
        ax.set_yticks(range(len(_LANES)), _LANES)
        ax.invert_yaxis()
        ax.set_title(f"{name}: tensor cores busy {busy(tasks):.0%}", loc="left")
    axes[-1].set_xlabel("µs")
    one, two = (busy(tasks) for tasks in runs.values())
    return figure.says(
        f"One program keeps the tensor cores busy {one:.0%} of the time, two {two:.0%}",
        f"Computed from an H100's data sheet: d = {d}, tiles of {block} × {block}, {2 * tiles} "
        "tiles in all. A colour is a program; copies and all other work are left out.",
        alt="Two rows of bars over time, tensor cores and exponentials, for one and two programs.",
    )
