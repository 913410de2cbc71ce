"""DRAM traffic that hardware counters recorded, for the plot between the two bounds (lesson 04).

Nsight Compute on SDPA's flash backend, one H100, d = 128, bf16, forward. Of a range the middle.
"""

from __future__ import annotations

from typing import Any


def _record(n: int, heads: int, causal: bool, dram_gb: float, kernel: str = "SDPA flash") -> dict:
    return {
        "label": f"{kernel}, H100, counted by ncu",
        "n": n,
        "d": 128,
        "heads": heads,
        "causal": causal,
        "dtype": "bf16",
        "bytes": dram_gb * 1e9,
    }


DRAM_H100: tuple[dict[str, Any], ...] = (
    _record(8192, 8, False, 0.066),
    _record(32768, 8, False, 0.400),
    _record(32768, 8, True, 1.30),
    _record(131072, 1, False, 0.386),
    _record(131072, 8, False, 4.47, "SDPA cuDNN 13.1"),
    _record(131072, 8, True, 143.0),
)
