"""Tile sizes, warps and stages per GPU: a small table, and where each entry comes from.

Entries for sm_90 were measured (up to head_dim 128: records ``h100_tiles``,
``h100_backward_tiles``); the others were chosen with the compiler: tiles that fit the shared memory
of a block and, where any do, spill no register (``tests/kernels/test_tiles.py`` compiles each). On
sm_75 ``tl.dot`` is FMA, so tiles stay small.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.kernels.launch import cdiv


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
# Rung 8, written by hand (`course_lib.kernels.gluon_forward`): head_dim -> the fastest choice
# measured on an H100. It needs sm_90, Triton 3.6 to 3.9, half types, at least 128 queries, rows in
# a line, no window and a scale above 0 (`attention_forward.forward`); any other call falls back on
# _PLAIN. So does one with a soft-cap, slopes, sinks, packed sequences or pages (`scores`). At
# head_dim 64 few keys go to _DESCRIPTORS, and a call with too little to do for large tiles goes to
# _PLAIN (`attention_forward.SMALL`). _DESCRIPTORS lacks 96: its tiles are powers of two.
# Its programs stay, each with a LIST of tiles, where that should be faster (`by_hand_for`).
BY_HAND = {
    64: {"groups": 3, "block_k": 128, "stages": 2, "overlap": False},
    96: {"groups": 3, "block_k": 128, "stages": 2, "overlap": False},
    128: {"groups": 3, "block_k": 64, "stages": 3, "overlap": True},
    256: {"groups": 2, "block_k": 64, "stages": 2, "overlap": True},
}
# At head_dim 256 there is no room for a second tile of Q
LISTS = {d: BY_HAND[d] | {"stays": True} for d in (64, 96, 128)}
# Pairs of tiles of 192 rows make unequal lists: with 128 rows each tile is slower, the longest list
# shorter
_TWO_GROUPS = {"groups": 2, "block_k": 128, "stages": 2, "overlap": True, "stays": True}
CAUSAL_LISTS = LISTS | {64: _TWO_GROUPS | {"stages": 3}, 128: _TWO_GROUPS}
# At head_dim 64 so few keys are two to eight tiles of 128: half of the last one is hidden
FEW_KEYS, FEW = 1024, _TWO_GROUPS | {"block_k": 64, "stages": 4}
# what a list saves for each tile of queries, in the time that a key takes; less what its tiles lose
_KEYS_SAVED = {64: 48, 96: 200, 128: 30}
_FLOAT32 = {
    (64, None): Tiles(32, 32, 4, 1),
    (128, None): Tiles(32, 16, 8, 1),
    (256, None): Tiles(16, 16, 4, 1),
}


def by_hand_for(q: torch.Tensor, k: torch.Tensor, causal: bool, sms: int) -> dict[str, int]:
    """Return how rung 8 should run for these: keyword arguments of `specialised`.

    Lists of tiles are made beforehand, causal ones of pairs. So the longest may have much more
    than the mean, where programs that come and go share the work out as they end. The numbers
    above are fitted to the record ``h100_short_keys``; a test holds the choice to it.
    """
    batch, heads, n_q, d = q.shape
    if not causal or d not in LISTS:
        return LISTS.get(d, BY_HAND[d])
    lists = FEW if d == 64 and k.shape[2] <= FEW_KEYS else CAUSAL_LISTS[d]
    tiles = cdiv(n_q, 64 * lists["groups"])
    longest = 2 * cdiv(batch * heads * cdiv(tiles, 2), sms)
    lost = longest * sms / (batch * heads * tiles) - 1
    keys = max(k.shape[2] - n_q / 2, 1)
    return lists if _KEYS_SAVED[d] / keys > lost else BY_HAND[d]


def sm_of(x: torch.Tensor) -> int:
    """Return the compute capability of x's GPU, times ten; 80 for a tensor on a CPU."""
    return _sm_of_device(x.device) if x.is_cuda else 80


@functools.cache
def _sm_of_device(device: torch.device) -> int:
    major, minor = torch.cuda.get_device_capability(device)
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
    return _looked_up(q.shape[-1], q.dtype == torch.float32, causal, descriptors, sm)


def _nearest(sm: int, table: Iterable[int]) -> int:
    """Return the newest GPU of a table that is not newer than sm, at least a T4."""
    return max((known for known in table if known <= sm), default=75)


@functools.cache
def _looked_up(d: int, float32: bool, causal: bool, descriptors: bool, sm: int) -> Tiles:
    if float32:
        row = _FLOAT32
    else:
        table = _DESCRIPTORS if descriptors and sm in _DESCRIPTORS else _PLAIN
        row = table[_nearest(sm, table)]
    fitting: dict[tuple[int, bool | None], Tiles] = {
        key: tiles for key, tiles in row.items() if d <= key[0]
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
        # likewise (216 and 80 bytes by descriptors); 16 x 16 with 8 warps, which spills nothing, is
        # five times as slow
        256: (Tiles(64, 64, 8, 2), Tiles(128, 32, 8, 3)),
    },
}
_BACKWARD |= {100: _BACKWARD[80], 120: _BACKWARD[89]}
# head_dim 256 where it was not measured, and float32. On sm_75 a head_dim of 256 spills with any
# tiles, with these least
_BACKWARD_LARGE = (Tiles(16, 16, 8, 1), Tiles(16, 16, 8, 1))


def backward_tiles_for(q: torch.Tensor, *, sm: int | None = None) -> tuple[Tiles, Tiles]:
    """Return tiles for the dK, dV kernel and for the dQ kernel; arguments as in `tiles_for`."""
    sm = sm_of(q) if sm is None else sm
    row = _BACKWARD[_nearest(sm, _BACKWARD)]
    nearest = min((d for d in row if q.shape[-1] <= d), default=None)
    return _BACKWARD_LARGE if nearest is None or q.dtype == torch.float32 else row[nearest]


def decode_tiles_for(q: torch.Tensor, rows: int, *, sm: int | None = None) -> Tiles:
    """Return tiles for decoding with ``rows`` packed query rows; other arguments as in `tiles_for`.

    Small where products are FMA (float32, and sm_75): those need more registers and shared memory.
    """
    sm = sm_of(q) if sm is None else sm
    block_q = max(16, 1 << (rows - 1).bit_length())
    if q.dtype == torch.float32 or sm < 80:
        return Tiles(block_q, 16, 8, 1)
    return Tiles(block_q, 64, 4 if rows <= 32 else 8, 3 if q.shape[-1] <= 128 else 1)
