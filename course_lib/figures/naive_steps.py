"""The bytes of each step of naive attention, counted and measured (lessons 01 and 08)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from course_lib.accounting.measurements import load_measurements
from course_lib.accounting.traffic import eager_six_trips
from course_lib.figures import marks
from course_lib.style.look import styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure
from course_lib.style.table import Table


@styled
def draw_steps(steps: Mapping[str, float]) -> Any:
    """Draw GB of each step: ``steps`` as counted, an H100's as measured, in the same order."""
    record = load_measurements("h100_naive_steps")
    taken = [row["dram_gb"] for row in record["rows"]]
    figure, axes = new_figure(figsize=(7, 3.4))
    for y, (gb, dram) in enumerate(zip(steps.values(), taken, strict=True)):
        for place, size, mark, words in (
            (y - 0.17, gb, marks.counted, "counted"),
            (y + 0.17, dram, marks.measured, "measured"),
        ):
            axes.hlines(place, 0, size, color=hex_of("naive"), linewidth=3)
            mark(axes, size, place, "naive")
            axes.annotate(f"{size:.2f} {words}", (size, place), (9, 0),
                          textcoords="offset points", va="center")  # fmt: skip
    axes.set_yticks(range(len(taken)), list(steps))
    axes.set(xlim=(0, 1.5 * max(taken)), xlabel="GB moved to and from memory")
    axes.invert_yaxis()
    total, seen = sum(steps.values()), sum(taken)
    return figure.says(
        f"Counted {total:.2f} GB, measured {seen:.2f} GB: {abs(seen / total - 1):.1%} apart",
        f"Dots: the ledger. Diamonds: DRAM counters, {record['device']}. "
        "N = 8192, 8 heads, d = 128, bf16.",
    )


def formula_and_counters() -> Table:
    """Return the steps' bytes by the formula and by an H100's counters, N = 8192, 8 heads."""
    record = load_measurements("h100_naive_steps")
    one, grid = (
        8 * 8192 * 128 * 2 / 1e9,
        8 * 8192 * 8192 * 2 / 1e9,
    )  # GB of Q and of an N x N grid
    model = [2 * one + grid, 2 * grid, 2 * grid, grid + 2 * one]
    taken = [row["dram_gb"] for row in record["rows"]]
    names = [row["step"] for row in record["rows"]]
    six = eager_six_trips.bytes(n=8192, d=128, heads=8) / 1e9
    rows = [*zip(names, model, taken, strict=True), ("in all", six, sum(taken))]
    columns = ("step", "model GB", "measured GB", "off by")
    return Table(
        columns,
        [(name, gb, dram, dram / gb - 1) for name, gb, dram in rows],
        formats={"model GB": ".3f", "measured GB": ".3f", "off by": "+.1%"},
        bars=dict.fromkeys(columns[1:3], "naive"),
        note=f"Measured: DRAM counters, {record['device']}. N = 8192, 8 heads, d = 128, bf16.",
        total=True,
    )


def six_trips_over_n() -> Table:
    """Return what the six trips are by the formula and by DRAM counters, over N."""
    record = load_measurements("h100_dram_traffic")
    rows = [
        (r["n"], r["six_trips_gb"], r["dram_gb"], r["dram_gb"] / r["six_trips_gb"] - 1)
        for r in record["naive"]
    ]
    columns = ("N", "model GB", "measured GB", "off by")
    formats = {"N": ",", "model GB": ".3f", "measured GB": ".3f", "off by": "+.1%"}
    note = f"Measured: DRAM counters, {record['device']}."
    return Table(columns, rows, formats, dict.fromkeys(columns[1:3], "naive"), note=note)
