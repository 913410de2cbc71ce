"""What torch.compile makes of eager attention, on an H100 (lessons 02 and 08)."""

from __future__ import annotations

from typing import Any

from course_lib.accounting.measurements import load_measurements
from course_lib.figures import marks
from course_lib.style.axes import name_above
from course_lib.style.look import styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure
from course_lib.style.table import Table

_SHAPE = "N = 8192, 8 heads, d = 128, bf16"


def _called(row: dict[str, Any]) -> str:
    """Return the name of a version: the record calls naive what the lessons call eager."""
    name: str = row["version"]
    return name.replace("eager naive", "eager").replace("naive", "eager")


@styled
def draw_fusion() -> Any:
    """Draw microseconds and the peak in MiB of each version, as bars."""
    record = load_measurements("h100_compile_fusion")
    rows = record["rows"]
    names = [f"{_called(r)}\n{r['trips']} trips" for r in rows]
    figure, axes = new_figure(2, 1, figsize=(7, 5.2))
    units = {"us": "microseconds", "peak_mib": "MiB at the peak"}
    for ax, (key, words) in zip(axes, units.items(), strict=True):
        sizes = [r[key] for r in rows]
        marks.bars(ax, names, sizes, "naive", [f"{size:,.0f}" for size in sizes])
        name_above(ax, words)
        for bar, row in zip(ax.patches, rows, strict=True):
            if not row["trips"]:
                bar.set_color(hex_of("flash"))
    slow, fast = max(r["us"] for r in rows), min(r["us"] for r in rows)
    return figure.says(
        f"Without trips it takes {slow / fast:.1f} times less time than with "
        f"{max(r['trips'] for r in rows)}",
        f"Measured: {record['device']}, {_SHAPE}.",
    )


def versions() -> Table:
    """Return the versions with trips, time, peak and DRAM traffic."""
    record = load_measurements("h100_compile_fusion")
    keys = ("trips", "us", "peak_mib", "dram_gb")
    rows = [[_called(row), *(row[key] for key in keys)] for row in record["rows"]]
    columns = ("version", "trips", "µs", "peak MiB", "DRAM GB")
    bars = dict.fromkeys(columns[2:], "naive")
    before = load_measurements("h100_regimes")["rows"]
    us = next(row["flash_us"] for row in before if row["n"] == record["n"])
    note = (
        f"Measured: {record['device']}, {_SHAPE}. Trips: the model. SDPA flash took {us:.0f} µs "
        "in the run of the table over N."
    )
    return Table(columns, rows, {"µs": ",.0f", "peak MiB": ",.0f"}, bars, note=note)


def kernels() -> Table:
    """Return the names of the kernels that each compiled version launches."""
    rows = load_measurements("h100_compile_fusion")["rows"][1:]
    names = ["\n".join(name[:60] for name in row["names"]) for row in rows]
    versions = [_called(row) for row in rows]
    return Table(("version", "its kernels"), list(zip(versions, names, strict=True)))
