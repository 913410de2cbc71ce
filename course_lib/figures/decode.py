"""A cache grows by rows and is read by tiles; what an H100 took to read one (lesson 10)."""

from __future__ import annotations

from typing import Any

from course_lib.accounting.measurements import load_measurements
from course_lib.figures import marks
from course_lib.style.axes import label_ends, name_above
from course_lib.style.look import PAGE_INK, styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure
from course_lib.style.table import Table

SHAPES = ((1, 65536), (16, 16384), (64, 4096))  # requests, keys of each
_SPLITS = "flash_decode "


def row(batch: int, n: int, kv_heads: int, way: str = "flash_decode") -> dict[str, Any]:
    """Return the record's row of one shape, 32 query heads, d = 128, and one way to compute it."""
    shape = {"batch": batch, "n": n, "kv_heads": kv_heads, "way": way}
    rows = load_measurements("h100_decode")["rows"]
    return next(r for r in rows if shape.items() <= r.items())


@styled
def draw_cache(n: int, block: int) -> Any:
    """Draw the rows of K that a cache holds: above as they came, below as a kernel reads them.

    Args:
        n: rows, the newest of them just appended. block: rows of a tile.
    """
    tiles, last = -(-n // block), (n - 1) % block + 1
    figure, axes = new_figure(figsize=(8, 2.6))
    axes.barh(1.5, tiles * block, 0.5, color="none", edgecolor=PAGE_INK, linestyle=":")
    axes.barh(1.5, n - 1, 0.5, color=hex_of("k"), alpha=0.5)
    axes.barh(1.5, block / 32, 0.5, n - 1, color=hex_of("k"), edgecolor=PAGE_INK)
    axes.annotate(f"row {n - 1}, appended now", (n, 1.76), (0, 4), textcoords="offset points",
                  ha="center")  # fmt: skip
    axes.text(0, 2.15, f"K in memory: {n} rows, one more a token", va="bottom")
    for tile in range(tiles):
        rows = min(block, n - tile * block)
        axes.barh(0.45, block - 4, 0.5, tile * block + 2, color="none", edgecolor=PAGE_INK)
        axes.barh(0.45, max(block / 32, rows - 4), 0.5, tile * block + 2, color=hex_of("k"))
        says = f"tile {tile}: {rows} row{'s' * (rows > 1)}"
        axes.text((tile + 0.5) * block, 0.05, says, ha="center", va="top")
    axes.set(xlim=(-4, tiles * block + 4), ylim=(-0.4, 2.5), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    return figure.says(
        f"{n} rows are {tiles} tiles of {block}, and {block - last} rows of the last are not there",
        "Above: how the cache grows. Below: how one step reads it, all tiles, the last one masked.",
        alt=f"A strip of {n} rows, and below it {tiles} tiles; the last one holds {last} rows.",
    )


@styled
def draw_splits(batch: int = 1, n: int = 65536, kv_heads: int = 8) -> Any:
    """Draw the speed of a decode step over the splits of each request's keys."""
    record = load_measurements("h100_decode")
    shape = {"batch": batch, "n": n, "kv_heads": kv_heads}
    found = {
        int(r["way"].removeprefix(_SPLITS)): r["of_copy"]
        for r in record["rows"]
        if shape.items() <= r.items() and r["way"].startswith(_SPLITS)
    }
    splits, share = list(found), list(found.values())
    figure, axes = new_figure(figsize=(7, 3.4))
    marks.bound(axes, [splits[0], splits[-1]], [1, 1])
    marks.measured(axes, splits, share, "flash", line="-")
    axes.set(xscale="log", ylim=(0, 1.15), xlabel=f"splits of each cache; {batch * kv_heads} times "
             "as many programs")  # fmt: skip
    axes.set_xticks(splits, splits)
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    name_above(axes, "bytes of K and V a second, as a share of a copy's")
    label_ends(axes, [(f"{share[-1]:.0%}", splits[-1], share[-1], "flash")])
    best = max(found, key=lambda count: found[count])
    return figure.says(
        f"{best} splits are {found[best] / found[1]:.1f} times as fast as one",
        f"Measured: {record['device']}. {batch} request{'s' * (batch > 1)}, {n:,} keys each, 32 "
        f"query heads on {kv_heads}, d = 128, bf16. Dotted: a copy.",
    )


def against_others() -> Table:
    """Return how fast the course's kernel, FlashAttention-2 and -4 and cuDNN read a cache."""
    record = load_measurements("h100_decode")
    ways = {"flash_decode": "course", "FA2": "FA2", "cuDNN": "cuDNN", "FA4": "FA4"}
    rows = [
        (batch, n, kv_heads, *(row(batch, n, kv_heads, way)["of_copy"] for way in ways))
        for batch, n in SHAPES
        for kv_heads in (8, 32)
    ]
    columns = ("requests", "keys each", "K/V heads", *ways.values())
    least = min(r[3] for r in rows)
    return Table(
        columns,
        rows,
        formats={"keys each": ",", **dict.fromkeys(ways.values(), ".0%")},
        finding=f"The course's kernel reads at {least:.0%} of a copy's speed or more",
        note=f"Bytes of K and V a second, over those of a copy ({record['copy_gb_per_s']:.0f} "
        f"GB/s read and written). Measured, medians: {record['device']}, 32 query heads, d = 128, "
        "bf16.",
    )
