"""A small GPT trained with three attentions on a GPU, and the backward's clock (lesson 09)."""

from __future__ import annotations

from typing import Any

from course_lib.accounting.measurements import load_measurements
from course_lib.figures import marks
from course_lib.style.axes import name_above
from course_lib.style.look import styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure
from course_lib.style.table import Table

_MEANINGS = {"naive": "naive", "naive again": "naive", "FA2": "other", "course": "flash"}


def _record() -> dict[str, Any]:
    return load_measurements("h100_small_gpt")


def _note(record: dict[str, Any]) -> str:
    sizes = record["sizes"]
    return (
        f"Measured: {record['device']}, {sizes['layers']} layers of {sizes['heads']} heads, "
        f"N = {sizes['n']}, batch {record['batch']}, {record['dtype']}."
    )


@styled
def draw_losses() -> Any:
    """Draw the losses of all ways, and below them how far each is off the first naive run."""
    record = _record()
    losses = {row["way"]: row["losses"] for row in record["rows"]}
    naive = losses["naive"]
    figure, (above, below) = new_figure(2, 1, figsize=(7, 4.6), height_ratios=(3, 2))
    for width, (way, curve) in zip((7, 5, 3, 1.2), losses.items(), strict=True):
        above.plot(curve, color=hex_of(_MEANINGS[way]), linewidth=width)
    gaps = {
        way: [abs(a - b) for a, b in zip(curve, naive, strict=True)]
        for way, curve in losses.items()
        if way != "naive"
    }
    for place, (way, gap) in enumerate(gaps.items()):
        marks.measured(below, max(gap), place, _MEANINGS[way])
    below.set_yticks(range(len(gaps)), gaps)
    below.set(xlim=(0, None), ylim=(len(gaps) - 0.5, -0.5))
    below.locator_params(axis="x", nbins=5)
    below.set_xlabel("largest distance from the first naive run, in any step")
    above.set_xlabel("step")
    name_above(above, "loss, four curves on top of one another")
    fell = naive[0] - naive[-1]
    return figure.says(
        f"The loss falls by {fell:.2f}; no run is further than "
        f"{max(map(max, gaps.values())):.4f} from the first naive one",
        _note(record),
        alt="Four loss curves that cannot be told apart; below, their largest distances.",
    )


def memory_of_a_step() -> Table:
    """Return what a step takes at its peak, above the model itself."""
    gib = {row["way"]: (row["peak_bytes"] - row["held_bytes"]) / 2**30 for row in _record()["rows"]}
    return _steps(
        "GiB at the peak of a step",
        gib,
        ".2f",
        f"Naive needs {gib['naive'] / gib['course']:.1f} times the memory of the course's",
        " Above the weights, their gradients and Adam's notes.",
    )


def time_of_a_step() -> Table:
    """Return how long a step lasts."""
    ms = {row["way"]: row["step_ms"] for row in _record()["rows"]}
    times = ms["naive"] / ms["course"]
    return _steps("ms a step", ms, ".1f", f"Naive takes {times:.1f} times as long as the course's")


def _steps(what: str, of: dict[str, float], form: str, finding: str, more: str = "") -> Table:
    return Table(
        ("attention", what),
        [(way, number) for way, number in of.items() if way != "naive again"],
        formats={what: form},
        bars={what: "other"},
        marks=_MEANINGS,
        finding=finding,
        note=_note(_record()) + more,
    )


def backward_alone() -> Table:
    """Return what one attention's forward and backward took over N, and what was kept between."""
    record = _record()
    us = {(r["n"], r["way"], r["part"]): r["median_us"] for r in record["attention"]}
    kept = {(r["n"], r["way"]): r["kept_bytes"] / 1e6 for r in record["attention"]}
    columns = ("N", "attention", "forward µs", "backward µs", "MB kept for it")
    rows = [
        (n, way, us[n, way, "forward"], us[n, way, "backward"], kept[n, way])
        for n in sorted({n for n, _ in kept})
        for way in ("naive", "FA2", "course")
    ]
    ratios = [us[n, "naive", "backward"] / us[n, "course", "backward"] for n, way in kept]
    return Table(
        columns,
        rows,
        formats=dict.fromkeys(columns[2:], ",.0f"),
        finding=f"The course's backward, which computes P again, is {min(ratios):.1f} to "
        f"{max(ratios):.1f} times as fast as naive's, which kept P",
        note=f"Measured, medians: {record['device']}, 12 heads, d = 64, bf16, causal, "
        "batch 8192 / N: 8192 queries in each head.",
    )


def one_walk_or_two() -> Table:
    """Return TFLOP/s of the course's two backwards, by the convention of five products."""
    record = load_measurements("h100_backward")
    speed = {(r["d"], r["causal"], r["way"]): r["tflops"] for r in record["rows"]}
    rows = []
    for d in (128, 64):
        for causal, mask in ((False, "all keys"), (True, "causal")):
            one = speed[d, causal, "course"]
            two = speed[d, causal, "course, the same every time"]
            rows.append((d, mask, two, one, one / two))
    columns = ("d", "mask", "two walks, TFLOP/s", "one walk, TFLOP/s", "times as fast")
    return Table(
        columns,
        rows,
        formats={**dict.fromkeys(columns[2:4], ".0f"), columns[4]: ".2f"},
        bars={columns[4]: "flash"},
        note=f"Measured, medians: {record['device']}, N = 8192, bf16. Counted: five products.",
    )
