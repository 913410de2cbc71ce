"""What the size of a tile does: to a kernel's speed, and to what a thread spills (lesson 08)."""

from __future__ import annotations

from typing import Any

from course_lib.accounting.measurements import load_measurements
from course_lib.figures import marks
from course_lib.style.axes import name_above
from course_lib.style.look import FONT_SIZE, PAGE_INK, styled
from course_lib.style.palette import hex_of
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


@styled
def draw_spills(names: tuple[str, ...] = ("T4", "A100", "H100")) -> Any:
    """Draw the bytes that a thread spills over the side of the tile, 4 and 8 warps, d = 128."""
    compiled = load_measurements("xray_tiles")["rows"]
    figure, axes = new_figure(1, len(names), figsize=(8, 3.6), sharey=True)
    clean = {}
    for ax, name in zip(axes, names, strict=True):
        mine = [r for r in compiled if r["gpu"] == name and r["head_dim"] == 128]
        for warps, mark, apart, filled in ((4, "o", 0.95, False), (8, "s", 1.05, True)):
            some = [r for r in mine if r["num_warps"] == warps]
            side = [(r["block_q"] * r["block_k"]) ** 0.5 * apart for r in some]
            face = hex_of("flash") if filled else "none"
            ax.plot(side, [r["stack_bytes"] for r in some], mark, markersize=7, clip_on=False,
                    markerfacecolor=face, markeredgecolor=hex_of("flash"))  # fmt: skip
        clean[name] = sum(not r["stack_bytes"] for r in mine) / len(mine)
        ax.set_xscale("log", base=2)
        ax.set_yscale("symlog", linthresh=10)
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        ax.set_xticks([16, 32, 64, 128], ["16", "32", "64", "128"])
        ax.minorticks_off()
        ax.set(xlim=(12, 180), ylim=(-3, None), xlabel="side of the tile")
        ax.set_title(name, fontsize=FONT_SIZE)
        ax.axhline(0, color=PAGE_INK, linestyle=":", linewidth=1)
    axes[0].set_ylabel("bytes spilled a thread")
    shares = ", ".join(f"{share:.0%} on {name}" for name, share in clean.items())
    return figure.says(
        f"Tiles that spill nothing: {shares}",
        "Rung 3, causal, compiled, not run: d = 128. Circles: 4 warps. Squares: 8 warps. A tile "
        "of 32 × 128 stands at the side √(32 · 128) = 64.",
    )
