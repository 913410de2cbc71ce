"""Who sees whom in a call of attention, and in which tiles: for models of what goes wrong there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np


def seen_by(n_q: int, n_k: int, *, causal: bool) -> np.ndarray:
    """Return which keys each query sees, (n_q, n_k), aligned at the end."""
    last = np.arange(n_q)[:, None] + (n_k - n_q if causal else n_k + n_q)
    return np.asarray(np.arange(n_k) <= last)


@dataclass(frozen=True)
class Where:
    """Which keys the queries of a call see, and where its tiles begin."""

    seen: np.ndarray  # (n_q, n_k): which keys each query sees
    d: float
    block_q: int
    block_k: int
    causal: bool
    half: bool = False  # whether the inputs are float16

    @classmethod
    def of(
        cls, q: Any, k: Any, *, causal: bool = False, block_q: int = 64, block_k: int = 64
    ) -> Self:
        """Return that of a call."""
        seen = seen_by(q.shape[-2], k.shape[-2], causal=causal)
        half = str(q.dtype) == "torch.float16"
        return cls(seen, q.shape[-1], block_q, block_k, causal, half)

    @cached_property
    def row(self) -> np.ndarray:
        """The numbers of the queries, (n_q, 1)."""
        return np.arange(len(self.seen))[:, None]

    @cached_property
    def key(self) -> np.ndarray:
        """The numbers of the keys, (n_k,)."""
        return np.arange(self.seen.shape[1])

    @property
    def shift(self) -> int:
        """How many keys more than queries there are."""
        n_q, n_k = self.seen.shape
        return int(n_k - n_q)

    @property
    def first_row(self) -> np.ndarray:
        """The first row of each row's tile."""
        return np.asarray(self.row_tile(self.row))

    @property
    def first_key(self) -> np.ndarray:
        """The first key of each key's tile."""
        return np.asarray(self.key_tile(self.key))

    def row_tile(self, row: Any) -> Any:
        """Return where the tile of a row begins."""
        return row // self.block_q * self.block_q

    def key_tile(self, key: Any) -> Any:
        """Return where the tile of a key begins."""
        return key // self.block_k * self.block_k
