"""Tile sizes, warps and stages per GPU: a small table, and where each entry comes from.

Entries for sm_90 up to head_dim 128 were measured (records ``h100_tiles``,
``h100_backward_tiles``); the others were chosen with the compiler: tiles that fit the shared memory
of a block and spill no register (``tests/kernels/test_tiles.py`` compiles each). On sm_75
``tl.dot`` is FMA, so tiles stay small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


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


# sm -> (largest head_dim, causal or None for both) -> tiles, for half types
_PLAIN = {
    75: {
        (64, None): Tiles(32, 32, 4, 1),
        (128, None): Tiles(32, 32, 8, 1),
        (256, None): Tiles(16, 16, 8, 1),
    },
    80: {
        (64, None): Tiles(64, 64, 4, 3),
        (128, None): Tiles(128, 64, 8, 3),
        (256, None): Tiles(64, 32, 8, 2),
    },
    89: {
        (64, None): Tiles(64, 64, 4, 2),
        (128, None): Tiles(128, 32, 8, 2),
        (256, None): Tiles(64, 32, 8, 1),
    },
    90: {
        (64, None): Tiles(64, 64, 4, 3),
        (128, None): Tiles(64, 64, 4, 3),
        (256, None): Tiles(64, 64, 8, 2),
    },
    100: {
        (64, None): Tiles(128, 64, 4, 3),
        (128, None): Tiles(128, 64, 8, 3),
        (256, None): Tiles(128, 32, 8, 2),
    },
    120: {
        (64, None): Tiles(64, 64, 4, 2),
        (128, None): Tiles(128, 32, 8, 2),
        (256, None): Tiles(64, 32, 8, 1),
    },
}
_DESCRIPTORS = {
    90: {
        (64, None): Tiles(64, 128, 4, 2),
        (128, None): Tiles(128, 64, 4, 2),
        (256, None): Tiles(128, 64, 8, 2),
    },
}
_FLOAT32 = {
    (64, None): Tiles(32, 32, 4, 1),
    (128, None): Tiles(32, 16, 8, 1),
    (256, None): Tiles(16, 16, 4, 1),
}


def sm_of(x: torch.Tensor) -> int:
    """Return the compute capability of x's GPU, times ten; 80 for a tensor on a CPU."""
    if not x.is_cuda:
        return 80
    major, minor = torch.cuda.get_device_capability(x.device)
    return 10 * major + minor


def tiles_for(
    q: torch.Tensor, *, causal: bool = False, descriptors: bool = False, sm: int | None = None
) -> Tiles:
    """Return the table's tiles for q's GPU (on a CPU: an A100's), dtype and head_dim.

    Args:
        q: (..., head_dim); only device, dtype and head_dim count.
        causal: the best tiles may differ with it.
        descriptors: for the kernel with tensor descriptors (sm_90 and later).
        sm: compute capability times ten, to ask for another GPU.
    """
    sm = sm_of(q) if sm is None else sm
    if q.dtype == torch.float32:
        row = _FLOAT32
    else:
        table = _DESCRIPTORS if descriptors and sm in _DESCRIPTORS else _PLAIN
        row = table[max((known for known in table if known <= sm), default=75)]
    fitting: dict[tuple[int, bool | None], Tiles] = {
        key: tiles for key, tiles in row.items() if q.shape[-1] <= key[0]
    }
    nearest = min(d for d, _ in fitting)
    return fitting.get((nearest, causal)) or fitting[nearest, None]


# sm -> largest head_dim -> (tiles of the dK, dV kernel, tiles of the dQ kernel), for half types
_BACKWARD = {
    75: {64: (Tiles(16, 16, 4, 1),) * 2, 128: (Tiles(16, 16, 8, 1),) * 2},
    80: {
        64: (Tiles(32, 32, 4, 2), Tiles(64, 32, 4, 2)),
        128: (Tiles(32, 64, 4, 2), Tiles(64, 32, 4, 2)),
    },
    89: {d: (Tiles(32, 32, 4, 2), Tiles(32, 32, 4, 2)) for d in (64, 128)},
    90: {
        64: (Tiles(32, 64, 4, 2), Tiles(128, 64, 8, 3)),
        # measured: faster than any choice that does not spill (96 bytes per thread)
        128: (Tiles(64, 64, 4, 2), Tiles(128, 64, 8, 3)),
    },
}
# head_dim 256, and float32. On sm_75 a head_dim of 256 spills with any tiles, with these least
_BACKWARD_LARGE = (Tiles(16, 16, 8, 1), Tiles(16, 16, 8, 1))


def backward_tiles_for(q: torch.Tensor, *, sm: int | None = None) -> tuple[Tiles, Tiles]:
    """Return tiles for the dK, dV kernel and for the dQ kernel; arguments as in `tiles_for`."""
    sm = sm_of(q) if sm is None else sm
    known = 80 if sm in (100, 103) else 89 if sm >= 120 else max(s for s in _BACKWARD if s <= sm)
    row = _BACKWARD[known]
    if q.dtype == torch.float32 or q.shape[-1] > 128:
        return _BACKWARD_LARGE
    return row[64 if q.shape[-1] <= 64 else 128]


def decode_tiles_for(q: torch.Tensor, rows: int, *, sm: int | None = None) -> Tiles:
    """Return tiles for decoding with ``rows`` packed query rows; other arguments as in `tiles_for`.

    Small where products are FMA (float32, and sm_75): those need more registers and shared memory.
    """
    sm = sm_of(q) if sm is None else sm
    block_q = max(16, 1 << (rows - 1).bit_length())
    if q.dtype == torch.float32 or sm < 80:
        return Tiles(block_q, 16, 8, 1)
    return Tiles(block_q, 64, 4 if rows <= 32 else 8, 3 if q.shape[-1] <= 128 else 1)
