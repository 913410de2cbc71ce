"""Eager and fused attention on a GPU: time and memory over N (lesson 07)."""

from __future__ import annotations

from typing import Any

from course_lib.accounting.measurements import load_measurements
from course_lib.figures import marks
from course_lib.style.axes import label_ends, length_axis, name_above, plain_log
from course_lib.style.look import styled
from course_lib.style.picture import new_figure
from course_lib.style.table import Table

_WAYS = {
    "naive": ("eager", "naive", "-"),
    "course_64x64": ("this kernel,\n64 × 64", "flash", "-"),
    "sdpa_flash": ("FA2", "other", "-"),
    "sdpa_cudnn": ("cuDNN (- -)", "other", "--"),
}


def _rows() -> list[dict[str, Any]]:
    rows = load_measurements("h100_forward")["rows"]
    return [r for r in rows if not r["causal"] and r["n"] >= 1024]


def _note() -> str:
    record = load_measurements("h100_forward")
    return f"Measured, medians: {record['device']}, torch {record['versions']['torch']}."


def _at(n: int) -> dict[str, dict[str, Any]]:
    return {r["way"]: r for r in _rows() if r["n"] == n}


@styled
def draw_time_and_memory() -> Any:
    """Draw the median times over N, and below them the memory above the inputs."""
    figure, axes = new_figure(2, 1, figsize=(7, 6.4))
    longest = 0
    for ax, key, unit in (
        (axes[0], "median_us", "microseconds, median"),
        (axes[1], "peak_mib", "MiB above the inputs"),
    ):
        ends, lengths = [], set()
        for way, (words, meaning, line) in _WAYS.items():
            mine = [r for r in _rows() if r["way"] == way and r[key]]
            x, y = [r["n"] for r in mine], [r[key] for r in mine]
            marks.measured(ax, x, y, meaning, line=line)
            ends.append((words, x[-1], y[-1], meaning))
            lengths |= set(x)
            longest = max(x) if way == "naive" else longest
        plain_log(ax)
        length_axis(ax, lengths)
        name_above(ax, unit)
        label_ends(ax, ends)
    at = _at(longest)
    faster = at["naive"]["median_us"] / at["course_64x64"]["median_us"]
    less = at["naive"]["peak_mib"] / at["course_64x64"]["peak_mib"]
    return figure.says(
        f"At N = {longest:,} this kernel is {faster:.1f} times as fast as eager attention, "
        f"with {less:,.0f} times less memory",
        _note(),
    )


def against_naive() -> Table:
    """Return how many times faster and smaller the kernel is, and its share of FA2's speed."""
    rows = []
    for n in (4096, 8192, 16384):
        at = _at(n)
        mine = at["course_64x64"]
        rows.append((n, at["naive"]["median_us"] / mine["median_us"],
                     at["naive"]["peak_mib"] / mine["peak_mib"],
                     at["sdpa_flash"]["median_us"] / mine["median_us"]))  # fmt: skip
    columns = ("N", "× faster than eager", "× less memory", "× FlashAttention-2's speed")
    return Table(
        columns,
        rows,
        formats=dict(zip(columns, (",", ".1f", ",.0f", ".2f"), strict=True)),
        bars={columns[1]: "flash", columns[2]: "flash"},
        note=_note(),
    )


def by_tiles() -> Table:
    """Return what the kernel takes at N = 8192 with three tile sizes."""
    at = _at(8192)
    rows = [(tiles, at[f"course_{tiles}"]["median_us"]) for tiles in ("64x64", "128x64", "128x128")]
    return Table(("tiles, N = 8192", "µs"), rows, {"µs": ".0f"}, {"µs": "flash"}, note=_note())
