"""A server's memory and its speed over time, static batching against continuous (lesson 12)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from course_lib.accounting.serving import Costs, Request, Run, simulate, trace
from course_lib.attention.scheduling import continuous, static
from course_lib.style.axes import name_above
from course_lib.style.look import PAGE_INK, styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure

PAGES, PAGE_SIZE, BUDGET = 64, 16, 256
MOST = 256  # tokens that a request of `requests` can have at most: 128 of the prompt, 128 answered


def requests(seed: int = 0, n: int = 60) -> list[Request]:
    """Return the requests of the lesson: one each 20 ms on the average."""
    return trace(np.random.default_rng(seed), n, every=0.02)


def runs(seed: int = 0, n: int = 60) -> dict[str, Run]:
    """Return what static and continuous batching make of `requests`, with equal pools.

    Static batching sets room for `MOST` tokens aside for each; continuous has pages.
    """
    serve = partial(
        simulate, requests=requests(seed, n), pages=PAGES, page_size=PAGE_SIZE, budget=BUDGET
    )
    return {"static": serve(static(MOST), reserved=MOST), "continuous": serve(continuous)}


@styled
def draw_serving(seed: int = 0, n: int = 60) -> Any:
    """Draw the rows that are needed and those that are wasted, over time, for both."""
    both = runs(seed, n)
    figure, axes = new_figure(2, 1, figsize=(8, 4.6), sharex=True)
    for panel, (name, run) in zip(axes, both.items(), strict=True):
        _draw_memory(panel, run)
        name_above(panel, f"{name}: {run.tokens_per_second:,.0f} tokens a second, "
                   f"{run.wasted:.0%} of what is held is wasted")  # fmt: skip
    axes[1].set_xlabel("seconds, by the cost model")
    slow, fast = both.values()
    times = fast.tokens_per_second / slow.tokens_per_second
    return figure.says(
        f"Continuous batching answers {times:.1f} times as fast with the same memory",
        f"Simulated, not measured: {n} requests, {PAGES} pages of {PAGE_SIZE} tokens, 8 billion "
        f"weights on an {Costs().gpu}. Full: rows that are needed. Striped: held and wasted. "
        "Dotted: the pool.",
    )


def _draw_memory(axes: Any, run: Run) -> None:
    times = [step.at for step in run.steps] + [run.seconds]
    needed = [step.rows for step in run.steps]
    room = [step.room for step in run.steps]
    axes.stairs(room, times, baseline=needed, fill=True, facecolor="none", hatch="////",
                edgecolor=hex_of("naive"), linewidth=0)  # fmt: skip
    axes.stairs(needed, times, fill=True, color=hex_of("k"))
    axes.axhline(PAGES * PAGE_SIZE, color=PAGE_INK, linestyle=":", linewidth=2)
    axes.set(ylim=(0, PAGES * PAGE_SIZE * 1.08), ylabel="rows")
