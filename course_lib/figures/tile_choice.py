"""What the size of a tile does to a kernel's speed (lesson 08)."""

from __future__ import annotations

from typing import Any

from course_lib.accounting.measurements import load_measurements
from course_lib.figures import marks
from course_lib.style.axes import name_above
from course_lib.style.look import styled
from course_lib.style.picture import new_figure


def descriptor_speeds() -> dict[str, float]:
    """Return tiles -> TFLOP/s of rung 6 at N = 16384, d = 128, all keys; the slowest first."""
    rows = load_measurements("h100_tiles")["rows"]
    mine = [
        r for r in rows
        if r["way"].startswith("descriptors") and r["n"] == 16384 and not r["causal"]
    ]  # fmt: skip
    mine.sort(key=lambda r: r["tflops"])
    return {r["way"].removeprefix("descriptors "): r["tflops"] for r in mine}


@styled
def draw_speeds() -> Any:
    """Draw rung 6's TFLOP/s for each choice of tiles, the fastest first."""
    speeds = dict(reversed(descriptor_speeds().items()))
    record = load_measurements("h100_tiles")
    figure, axes = new_figure(figsize=(7, 0.6 + 0.33 * len(speeds)))
    names, sizes = list(speeds), list(speeds.values())
    marks.bars(axes, names, sizes, "flash", [f"{size:.0f}" for size in sizes])
    name_above(axes, "(block_q, block_k, warps, stages): TFLOP/s")
    return figure.says(
        f"Between the best tiles and the worst lies a factor of {sizes[0] / sizes[-1]:.1f}",
        f"Measured: {record['device']}. Rung 6, all keys, batch 1, 16 heads, N = 16384, d = 128; "
        "another run than the ladder's.",
    )
