"""Who sits where, and a server's memory over time, for several ways to batch (lesson 12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from course_lib.accounting.serving import Request, Run, trace
from course_lib.style.axes import name_above
from course_lib.style.look import PAGE_INK, styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure

PAGES, PAGE_SIZE = 64, 16
_MOST_DRAWN = 150  # steps of a run

Ride = tuple[int, int, int]  # a seat, the first step, and the step after the last


def requests() -> list[Request]:
    """Return the requests of the lesson: 60, one each 20 ms or so, 256 tokens at most."""
    return trace(np.random.default_rng(0), 60, every=0.02)


@styled
def draw_seats(ways: Mapping[str, Sequence[Ride]]) -> Any:
    """Draw for each way who sits where in which step; an empty seat stays empty."""
    figure, axes = new_figure(len(ways), 1, figsize=(8, 1.5 * len(ways)), sharex=True)
    last = max(stop for rides in ways.values() for *_, stop in rides)
    panels = np.atleast_1d(axes)
    for panel, (name, rides) in zip(panels, ways.items(), strict=True):
        seats, steps = 1 + max(seat for seat, *_ in rides), max(stop for *_, stop in rides)
        for seat in range(seats):
            panel.barh(seat, steps, 0.8, facecolor="none", edgecolor=hex_of("other"), hatch="////",
                       linewidth=0.5)  # fmt: skip
        for letter, (seat, start, stop) in zip("ABCDEFGHIJ", rides, strict=False):
            panel.barh(seat, stop - start, 0.8, start, color=hex_of("k"), edgecolor=PAGE_INK)
            panel.text((start + stop) / 2, seat, letter, ha="center", va="center", color="white",
                       fontweight="bold")  # fmt: skip
        idle = seats * steps - sum(stop - start for _, start, stop in rides)
        name_above(panel, f"{name}: {steps} steps, {idle} empty places")
        panel.set(xlim=(0, last), ylim=(seats - 0.5, -0.5), xticks=range(last + 1))
        panel.set_yticks(range(seats), [f"seat {seat + 1}" for seat in range(seats)])
    panels[-1].set_xlabel("steps")
    takes = ", ".join(f"{name} {max(stop for *_, stop in rides)}" for name, rides in ways.items())
    return figure.says(
        f"Steps until everybody has ended: {takes}",
        "Striped: a seat that is there and computes nothing.",
        alt="For each way, a row for every seat, in which the requests are bars over the steps.",
    )


@styled
def draw_memory(runs: Mapping[str, Run], *, pages: int = PAGES, page_size: int = PAGE_SIZE) -> Any:
    """Draw the rows that are needed and those that are wasted, over time, for each run."""
    figure, axes = new_figure(len(runs), 1, figsize=(8, 1.9 * len(runs)), sharex=True)
    pool = pages * page_size
    for panel, (name, run) in zip(np.atleast_1d(axes), runs.items(), strict=True):
        steps = run.steps[:: 1 + len(run.steps) // _MOST_DRAWN]
        times = [step.at for step in steps] + [run.seconds]
        needed, room = [step.rows for step in steps], [step.room for step in steps]
        panel.stairs(room, times, baseline=needed, fill=True, facecolor="none", hatch="////",
                     edgecolor=hex_of("other"), linewidth=0)  # fmt: skip
        panel.stairs(needed, times, fill=True, color=hex_of("flash"))
        panel.axhline(pool, color=PAGE_INK, linestyle=":", linewidth=2)
        panel.set(ylim=(0, pool * 1.08), ylabel="rows", yticks=[0, pool // 2, pool])
        name_above(panel, f"{name}: {run.tokens_per_second:,.0f} tokens a second")
    np.atleast_1d(axes)[-1].set_xlabel("seconds, by the cost model")
    speeds = [run.tokens_per_second for run in runs.values()]
    return figure.says(
        f"The same requests and the same memory, {max(speeds) / min(speeds):.1f} times as fast",
        f"Simulated, not measured: {pages} pages of {page_size} rows, 8 billion weights on an "
        "H100. Full: rows that are needed. Striped: held, and wasted. Dotted: the pool.",
        alt="For each way, the rows of the cache that are needed and held, over the seconds.",
    )
