"""Which tile of keys each program reads, step by step: together, or each for itself (lesson 08)."""

from __future__ import annotations

from typing import Any

from course_lib.style.look import styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure


def walks(lengths: list[int], sms: int) -> list[list[tuple[int, int]]]:
    """Return for each program (step, tile of keys) of its walk; a free SM takes the next.

    ``lengths`` are the programs' tiles of keys, in the order in which they start.
    """
    free = [0] * sms
    found = []
    for length in lengths:
        sm = free.index(min(free))
        found.append([(free[sm] + key, key) for key in range(length)])
        free[sm] += length
    return found


def read_at_a_time(programs: list[list[tuple[int, int]]], sms: int) -> float:
    """Return how many tiles of keys are read at a time, on average while all SMs work."""
    tiles: dict[int, list[int]] = {}
    for step, key in (pair for walk in programs for pair in walk):
        tiles.setdefault(step, []).append(key)
    busy = [len(set(keys)) for keys in tiles.values() if len(keys) == sms]
    return sum(busy) / len(busy)


@styled
def draw_drift(tiles: int, sms: int) -> Any:
    """Draw the walks of one head's programs on a few SMs, all keys (above) and causal (below)."""
    figure, axes = new_figure(2, 1, figsize=(7, 4.4), sharex=True)
    runs = {
        "all keys": walks([tiles] * tiles, sms),
        "causal": walks([tile + 1 for tile in range(tiles)], sms),
    }
    reads = {}
    last = max(step for walk in runs["all keys"] for step, _ in walk)
    for ax, (mask, programs) in zip(axes, runs.items(), strict=True):
        for walk in programs:
            steps = [step for step, _ in walk]
            ax.plot(steps, [key for _, key in walk], "o-", color=hex_of("k"), markersize=3.5,
                    linewidth=1.2)  # fmt: skip
        reads[mask] = read_at_a_time(programs, sms)
        several = "tile" if reads[mask] == 1 else "tiles"
        ax.set_title(f"{mask}: {sms} programs read {reads[mask]:.2g} {several} at a time",
                     loc="left")  # fmt: skip
        ax.set(ylabel="tile of keys", xlim=(-0.5, last + 0.5), ylim=(-0.7, tiles - 0.3))
        ax.set_yticks([0, tiles - 1], [1, tiles])
    axes[0].text(tiles / 2, tiles / 2 - 1, f" {sms} programs", va="top")
    axes[-1].set_xlabel("step")
    return figure.says(
        f"Without a mask {sms} programs walk as one; causal ones drift apart, and read "
        f"{reads['causal']:.2g} tiles at a time",
        f"Computed: one head, {tiles} tiles of queries, {sms} SMs, a tile of keys a step; a line "
        "is a program, and whoever has ended starts the next at key 0.",
        alt="Lines that climb over time: above all on one another, below each by itself.",
    )
