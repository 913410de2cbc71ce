"""What an H100 took to decode from pages, against the same keys in one piece (lesson 11)."""

from __future__ import annotations

from course_lib.accounting.measurements import load_measurements
from course_lib.style.table import Table

PAGES = (1, 16, 64, 256)


def longer(batch: int, n: int, kv_heads: int, page_size: int) -> float:
    """Return how much longer than from one piece a step took: 0.07 is 7 %."""
    shape = {"batch": batch, "n": n, "kv_heads": kv_heads, "way": f"pages of {page_size}"}
    rows = load_measurements("h100_paged")["rows"]
    return next(row["ratio"] for row in rows if shape.items() <= row.items()) - 1


def paged_times() -> Table:
    """Return how much longer each shape took, for each page size."""
    record = load_measurements("h100_paged")
    whole = [row for row in record["rows"] if row["way"] == "one piece"]
    shapes = [(row["batch"], row["n"], row["kv_heads"]) for row in whole]
    more = [[longer(*shape, page_size) for page_size in PAGES] for shape in shapes]
    rows = [
        (*shape, row["median_us"], *found)
        for shape, row, found in zip(shapes, whole, more, strict=True)
    ]
    sizes = [f"pages of {page_size}" for page_size in PAGES]
    columns = ("requests", "keys each", "K/V heads", "one piece, µs", *sizes)
    return Table(
        columns,
        rows,
        formats={"keys each": ",", "one piece, µs": ".0f", **dict.fromkeys(sizes, "+.1%")},
        finding=f"From pages a step takes {1 + min(map(min, more)):.0%} to "
        f"{1 + max(map(max, more)):.0%} of its time from one piece",
        note="Pages: how much longer than from one piece. Measured, medians, in turns: "
        f"{record['device']}, 32 query heads, d = 128, bf16; the course's kernel, pages shuffled.",
    )
