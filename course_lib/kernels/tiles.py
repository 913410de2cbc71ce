"""Tile sizes, warps and stages per GPU: a small table, and where each entry comes from.

Entries for sm_90 were measured (record ``h100_ladder``); the others were chosen with the compiler:
the largest tiles that fit the shared memory of a block and spill no register
(``tests/kernels/test_tiles.py`` compiles each). On sm_75 ``tl.dot`` is FMA, so tiles stay small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Tiles:
    """How one kernel is cut: rows of Q and of K per tile, warps per program, pipeline stages.

    ``max_registers`` caps the registers per thread (None: the compiler decides).
    """

    block_q: int
    block_k: int
    num_warps: int = 4
    num_stages: int = 2
    max_registers: int | None = None

    def options(self) -> dict[str, Any]:
        """Return keyword arguments for a launch."""
        options = {"BLOCK_Q": self.block_q, "BLOCK_K": self.block_k}
        options |= {"num_warps": self.num_warps, "num_stages": self.num_stages}
        if self.max_registers is not None:
            options["maxnreg"] = self.max_registers
        return options
