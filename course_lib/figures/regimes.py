"""Eager and fused attention over N: overhead, traffic, arithmetic (lessons 02 and 08)."""

from __future__ import annotations

from typing import Any

from course_lib.accounting.hardware import gpu
from course_lib.accounting.measurements import load_measurements
from course_lib.accounting.traffic import (
    attention_flops,
    eager_six_trips,
    flash_compulsory,
    time_bounds,
)
from course_lib.figures import marks
from course_lib.style.axes import label_ends, length_axis, name_above, plain_log
from course_lib.style.look import styled
from course_lib.style.picture import new_figure
from course_lib.style.table import Table

_SHAPE = "8 heads, d = 128, bf16"


def _least(n: int) -> dict[str, float]:
    """Return the least seconds of eager attention at N on an H100."""
    moved = eager_six_trips.bytes(n=n, d=128, heads=8)
    return time_bounds(attention_flops(n, n, 128, 8), moved, 4, gpu("H100"))


@styled
def draw_regimes() -> Any:
    """Draw the measured times over N, and the least that traffic and arithmetic need."""
    record = load_measurements("h100_regimes")
    rows = record["rows"]
    n = [row["n"] for row in rows]
    figure, axes = new_figure(figsize=(7, 4))
    ends = []
    for key, meaning, words in (("eager_us", "naive", "eager"), ("flash_us", "flash", "fused")):
        y = [row[key] for row in rows]
        marks.measured(axes, n, y, meaning, line="-")
        ends.append((words, n[-1], y[-1], meaning))
    for key, words in (
        ("traffic_s", "least for\neager's bytes"),
        ("arithmetic_s", "least for\nFLOPs"),
    ):
        y = [_least(x)[key] * 1e6 for x in n]
        marks.bound(axes, n, y)
        ends.append((words, n[-1], y[-1], "other"))
    plain_log(axes)
    length_axis(axes, n)
    name_above(axes, "microseconds")
    axes.set_xlim(n[0] / 1.3, n[-1] * 1.15)
    label_ends(axes, ends)
    short, long = (rows[i]["eager_us"] / rows[i]["flash_us"] for i in (0, -1))
    return figure.says(
        f"Fused is {short:.1f} times as fast as eager at N = {n[0]}, and {long:.1f} times "
        f"at N = {n[-1]:,}",
        f"Measured on {record['device']}, host time included: {_SHAPE}.",
    )


def bounds(flops: int, naive_bytes: int, least_bytes: int) -> Table:
    """Return what overhead, traffic and arithmetic take at least: eager's four launches, one."""
    found = [
        ("eager", time_bounds(flops, naive_bytes, 4, gpu("H100"))),
        ("the least", time_bounds(flops, least_bytes, 1, gpu("H100"))),
    ]
    columns = ("least µs", *(key.removesuffix("_s") for key in found[0][1]))
    rows = [(name, *(t * 1e6 for t in times.values())) for name, times in found]
    return Table(columns, rows, formats=dict.fromkeys(columns, ".1f"))


def times() -> Table:
    """Return what eager and fused took over N, host time included, and how many fewer bytes."""
    record = load_measurements("h100_regimes")
    rows = []
    for row in record["rows"]:
        size = {"n": row["n"], "d": 128, "heads": 8}
        fewer = eager_six_trips.bytes(**size) / flash_compulsory.bytes(**size)
        faster = row["eager_us"] / row["flash_us"]
        rows.append((row["n"], row["eager_us"], row["flash_us"], faster, fewer))
    columns = ("N", "eager µs", "fused µs", "times faster", "times fewer bytes")
    return Table(
        columns,
        rows,
        formats={**dict.fromkeys(columns[1:3], ",.0f"), **dict.fromkeys(columns[3:], ".1f")},
        bars={"times faster": "flash", "times fewer bytes": "other"},
        note=f"Measured on {record['device']}, host time included: {_SHAPE}. Bytes: the models.",
    )


def beside_the_products() -> Table:
    """Return for each N both times and what the products alone need at least."""
    record = load_measurements("h100_regimes")
    rows = [
        (r["n"], r["eager_us"], r["flash_us"], r["eager_us"] / r["flash_us"],
         _least(r["n"])["arithmetic_s"] * 1e6)
        for r in record["rows"]
    ]  # fmt: skip
    columns = ("N", "eager µs", "flash µs", "times faster", "the products alone, µs")
    return Table(
        columns,
        rows,
        formats={**dict.fromkeys(columns[1:], ",.0f"), columns[3]: ".1f", columns[4]: ",.1f"},
        bars={columns[3]: "flash"},
        note=f"Measured on {record['device']}, host time included: {_SHAPE}.",
    )
