"""What came from DRAM when an H100 ran fused attention, as tables (lessons 04 and 08)."""

from __future__ import annotations

from collections.abc import Callable

from course_lib.accounting.measurements import load_measurements
from course_lib.style.table import Table

_MASK = {False: "all keys", True: "causal"}


def calls(bounds_gb: Callable[[int, bool], tuple[float, float]]) -> Table:
    """Return each measured call with 8 heads between its bounds.

    ``bounds_gb(n, causal)`` gives the compulsory GB and those of the tile loads.
    """
    record = load_measurements("h100_dram_traffic")
    rows = []
    for r in (row for row in record["rows"] if row["heads"] == 8):
        low, high = bounds_gb(r["n"], r["causal"])
        kv = 2 * r["n"] * 128 * 2 * r["heads"] / 1e9  # K and V of all heads
        seen = sorted(set(r["dram_gb"]))
        rows.append((r["n"], _MASK[r["causal"]], kv, low, max(seen), high))
    columns = ("N", "mask", "K and V", "compulsory", "DRAM measured", "tile loads")
    return Table(
        columns,
        rows,
        formats={"N": ",", **dict.fromkeys(columns[2:], ".3g")},
        bars=dict.fromkeys(columns[3:], "flash"),
        note=f"GB; 8 heads, d = 128; of several runs the most. {record['device']}, "
        f"{record['dtype']}, {record['source']}.",
    )


def orders() -> Table:
    """Return the DRAM traffic of one kernel at the longest N, its programs in several orders."""
    record = load_measurements("h100_dram_traffic")
    longest = max(r["n"] for r in record["orders"])
    rows = []
    for r in record["orders"]:
        if r["n"] == longest:
            heads = r["together"]
            how = f"{heads} heads side by side" if heads > 1 else "one head after the other"
            how += ", long tiles first" * r["longest_first"] + ", keys from the end" * r["from_end"]
            rows.append((_MASK[r["causal"]], how, r["dram_gb"]))
    columns = ("mask", "order of the programs", "GB of DRAM")
    note = f"Measured: {record['device']}, N = {longest:,}, 8 heads, d = 128."
    return Table(columns, rows, {"GB of DRAM": ".3g"}, {"GB of DRAM": "flash"}, note=note)
