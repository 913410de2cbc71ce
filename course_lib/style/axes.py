"""What every plot of the course shares: ticks that people read, labels where the lines end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log2
from typing import Any

from course_lib.style.look import FONT_SIZE, text_colour
from course_lib.style.palette import HUES, hex_of


def short_count(n: float) -> str:
    """Return a power of two as people say it: 64, 512, 4k, 32k, 1M; else a short number."""
    for unit, size in (("M", 2**20), ("k", 2**10)):
        if n >= size:
            return f"{n / size:.3g}{unit}"
    return f"{n:g}"


def length_axis(axes: Any, lengths: Iterable[int], label: str = "sequence length N") -> None:
    """Make x logarithmic with ticks at 64, 512, 4k, 32k …, or closer where these are too few."""
    low, high = min(lengths := list(lengths)), max(lengths)
    for step in (3, 2, 1):
        ticks = [2**i for i in range(6 % step, 24, step) if low <= 2**i <= high]
        if len(ticks) >= 3:
            break
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [short_count(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel(label)


def plain_log(axes: Any) -> None:
    """Make y logarithmic with numbers as people write them: 0.01, 1, 1,000."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.yaxis.set_minor_formatter("")
    axes.grid(axis="y")


def name_above(axes: Any, words: str) -> None:
    """Say what the y axis shows in a line above it: text that lies on its side is read late."""
    axes.set_title(words, loc="left", fontsize=FONT_SIZE, fontweight="normal")


def ink_of(colour: str) -> str:
    """Return the text colour that belongs to a hex colour; other colours stay as they are."""
    names = {hex_of(name): name for name in HUES}
    return text_colour(names[colour]) if colour in names else colour


def label_ends(axes: Any, ends: Sequence[tuple[str, float, float, str]]) -> None:
    """Write each line's name where it ends, in its colour, and push apart those that would overlap.

    ``ends`` has (words, x, y, meaning or hex colour). Call it once limits and scales are set.
    """
    place = axes.transData + axes.transAxes.inverted()
    spots = [place.transform((x, y)) for _, x, y, _ in ends]
    rows_of_axes = axes.get_subplotspec().get_gridspec().nrows
    line = 1.3 * FONT_SIZE / 72 / (axes.figure.get_size_inches()[1] * 0.72 / rows_of_axes)
    rows = [words.count("\n") + 1 for words, *_ in ends]
    heights = spread([y for _, y in spots], [line * n for n in rows])
    for (words, _, _, colour), (x, _), y in zip(ends, spots, heights, strict=True):
        paint = ink_of(colour if colour.startswith("#") else hex_of(colour))
        axes.annotate(
            words, (x, y), (7, 0), xycoords="axes fraction", textcoords="offset points",
            va="center", color=paint, annotation_clip=False, linespacing=1.1,
        )  # fmt: skip


def spread(places: Sequence[float], sizes: Sequence[float]) -> list[float]:
    """Return the places, moved as little as need be so that neighbours of these sizes fit.

    The order stays. Neighbours that touch are laid side by side around the middle that they had.
    """
    groups: list[tuple[list[int], float]] = []  # members from below, and the lowest edge
    for i in sorted(range(len(places)), key=lambda i: places[i]):
        members, low = [i], places[i] - sizes[i] / 2
        while groups and groups[-1][1] + sum(sizes[j] for j in groups[-1][0]) > low:
            members = groups.pop()[0] + members
            height = sum(sizes[j] for j in members)
            low = sum(places[j] for j in members) / len(members) - height / 2
        groups.append((members, low))
    found = list(places)
    for members, low in groups:
        for i in members:
            found[i] = low + sizes[i] / 2
            low += sizes[i]
    return found


def doublings(low: int, high: int) -> list[int]:
    """Return low, 2 low, 4 low … up to high: where the lines of a formula are drawn."""
    return [low * 2**i for i in range(int(log2(high / low)) + 1)]
