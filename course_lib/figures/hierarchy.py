"""The places where a GPU keeps numbers, and how fast each one is (lesson 02)."""

from __future__ import annotations

from course_lib.accounting.format import bytes_binary
from course_lib.accounting.hardware import MEMORY_HIERARCHY
from course_lib.style.table import Table


def places() -> Table:
    """Return every GPU's levels with size, bandwidth, and bandwidth as a multiple of HBM's."""
    rows = []
    for gpu, levels in MEMORY_HIERARCHY.items():
        hbm = levels[-1].gb_per_s or 1.0
        for level in levels:
            times = level.gb_per_s and level.gb_per_s / hbm  # None where nothing is published
            size = bytes_binary(level.n_bytes)
            rows.append((gpu, level.name, size, level.gb_per_s, times, level.origin))
    fastest, gpu = max((row[4], row[0]) for row in rows if row[4])
    return Table(
        ("GPU", "place", "size", "GB/s", "× HBM", "speed is"),
        rows,
        formats={"GB/s": ",.0f", "× HBM": ".1f"},
        bars={"× HBM": "other"},
        finding=f"The fast places are small, and up to {fastest:.0f} times as fast as HBM ({gpu})",
    )
