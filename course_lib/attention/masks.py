"""Who may look at whom, and what that means for a whole tile (lesson 04).

Every mask answers two questions: ``allowed`` for single pairs, ``classify`` for a tile: skip it,
compute it in full, or compute it and mask. Positions are aligned at the end: query i stands at
position i + n_k - n_q, so that the last query sees the last key.

>>> causal().classify(0, 4, 4, 8, n_q=8, n_k=8)
<Tile.SKIP: 'skip'>
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike


class Tile(StrEnum):
    """What to do with one (block_q, block_k) tile of scores."""

    SKIP = "skip"  # no pair is allowed: neither load nor compute
    FULL = "full"  # every pair is allowed: no mask needed
    PARTIAL = "partial"  # compute, then mask


class Mask(ABC):
    """A rule for pairs (query, key), and its consequence for tiles."""

    @abstractmethod
    def _pairs(self, position: np.ndarray, key: np.ndarray) -> np.ndarray:
        """Answer for query positions (r, 1) and keys (1, c): bool (r, c)."""

    def _check(self, n_k: int) -> None:  # noqa: B027 (most masks fit any number of keys)
        """Raise ValueError if the mask cannot be laid over n_k keys."""

    def allowed(self, rows: ArrayLike, cols: ArrayLike, n_q: int, n_k: int) -> np.ndarray:
        """Return bool (len(rows), len(cols)): may query rows[i] look at key cols[j]?"""
        self._check(n_k)
        position = np.asarray(rows)[:, None] + n_k - n_q
        return self._pairs(position, np.asarray(cols)[None, :])

    def dense(self, n_q: int, n_k: int) -> np.ndarray:
        """Return the whole mask, bool (n_q, n_k), as pictures and SDPA want it."""
        return self.allowed(np.arange(n_q), np.arange(n_k), n_q, n_k)

    def classify(
        self, row_start: int, row_stop: int, col_start: int, col_stop: int, n_q: int, n_k: int
    ) -> Tile:
        """Say what to do with the tile [row_start, row_stop) x [col_start, col_stop).

        Raises ValueError for a tile that is empty or not inside (n_q, n_k).
        """
        if not (0 <= row_start < row_stop <= n_q and 0 <= col_start < col_stop <= n_k):
            raise ValueError(
                f"the tile must be non-empty and inside ({n_q}, {n_k}), got rows "
                f"[{row_start}, {row_stop}) and columns [{col_start}, {col_stop})"
            )
        self._check(n_k)
        shift = n_k - n_q
        return self._tile(row_start + shift, row_stop - 1 + shift, col_start, col_stop - 1)

    def _tile(self, q_min: int, q_max: int, k_min: int, k_max: int) -> Tile:
        """Classify by smallest and largest position and key; here by looking at every pair."""
        pairs = self._pairs(
            np.arange(q_min, q_max + 1)[:, None], np.arange(k_min, k_max + 1)[None, :]
        )
        return _verdict(none=not pairs.any(), every=bool(pairs.all()))


def _verdict(*, none: bool, every: bool) -> Tile:
    return Tile.SKIP if none else Tile.FULL if every else Tile.PARTIAL


@dataclass(frozen=True)
class Everything(Mask):
    """Every query sees every key."""

    def _pairs(self, position: np.ndarray, key: np.ndarray) -> np.ndarray:
        return np.ones((position.size, key.size), dtype=bool)

    def _tile(self, q_min: int, q_max: int, k_min: int, k_max: int) -> Tile:
        return Tile.FULL


@dataclass(frozen=True)
class Causal(Mask):
    """No query sees a key that comes after it."""

    def _pairs(self, position: np.ndarray, key: np.ndarray) -> np.ndarray:
        return key <= position

    def _tile(self, q_min: int, q_max: int, k_min: int, k_max: int) -> Tile:
        # skip: even the last query stands before the first key
        # full: even the first query stands at or after the last key
        return _verdict(none=q_max < k_min, every=q_min >= k_max)


@dataclass(frozen=True)
class SlidingWindow(Mask):
    """Causal, and at most ``window`` keys back, the query's own position included."""

    window: int

    def _pairs(self, position: np.ndarray, key: np.ndarray) -> np.ndarray:
        return (key <= position) & (position - key < self.window)

    def _tile(self, q_min: int, q_max: int, k_min: int, k_max: int) -> Tile:
        nearest, farthest = q_min - k_max, q_max - k_min  # steps back from query to key
        return _verdict(
            none=farthest < 0 or nearest >= self.window,
            every=nearest >= 0 and farthest < self.window,
        )


@dataclass(frozen=True)
class Prefix(Mask):
    """The first ``n_prefix`` keys are seen by everybody; the rest is causal."""

    n_prefix: int

    def _pairs(self, position: np.ndarray, key: np.ndarray) -> np.ndarray:
        return (key < self.n_prefix) | (key <= position)

    def _tile(self, q_min: int, q_max: int, k_min: int, k_max: int) -> Tile:
        return _verdict(
            none=k_min >= self.n_prefix and q_max < k_min,
            every=k_max < self.n_prefix or q_min >= k_max,
        )


@dataclass(frozen=True)
class Document(Mask):
    """Documents packed into one sequence: nobody looks into another document."""

    lengths: tuple[int, ...]

    def _check(self, n_k: int) -> None:
        if sum(self.lengths) != n_k:
            raise ValueError(f"lengths must add up to n_k = {n_k}, got {sum(self.lengths)}")

    def _number(self, position: ArrayLike) -> np.ndarray:
        """Return the document at each position; before the first key it is -1, which is none."""
        starts = list(accumulate(self.lengths[:-1], initial=0))
        return np.searchsorted(starts, position, side="right") - 1

    def _pairs(self, position: np.ndarray, key: np.ndarray) -> np.ndarray:
        return self._number(position) == self._number(key)

    def _tile(self, q_min: int, q_max: int, k_min: int, k_max: int) -> Tile:
        # documents are numbered along the sequence, so a range of positions is one of numbers
        q_first, q_last, k_first, k_last = self._number([q_min, q_max, k_min, k_max])
        return _verdict(
            none=q_last < k_first or k_last < q_first,
            every=q_first == q_last == k_first == k_last,
        )


@dataclass(frozen=True)
class Both(Mask):
    """A pair is allowed if two masks both allow it."""

    a: Mask
    b: Mask

    def _check(self, n_k: int) -> None:
        self.a._check(n_k)
        self.b._check(n_k)

    def _pairs(self, position: np.ndarray, key: np.ndarray) -> np.ndarray:
        return self.a._pairs(position, key) & self.b._pairs(position, key)

    def _tile(self, q_min: int, q_max: int, k_min: int, k_max: int) -> Tile:
        tiles = {m._tile(q_min, q_max, k_min, k_max) for m in (self.a, self.b)}
        if Tile.SKIP in tiles:
            return Tile.SKIP
        if tiles == {Tile.FULL}:
            return Tile.FULL
        return super()._tile(q_min, q_max, k_min, k_max)  # two halves may have nothing in common


def everything() -> Mask:
    """No mask: every query sees every key."""
    return Everything()


def causal() -> Mask:
    """Query i sees key j iff j <= i + n_k - n_q."""
    return Causal()


def sliding_window(window: int) -> Mask:
    """Causal, ``window`` keys at most, the query's own included (Jiang et al. 2023, section 2)."""
    return SlidingWindow(_at_least(1, "window", window))


def prefix(n_prefix: int) -> Mask:
    """Prefix-LM: keys 0 .. n_prefix - 1 are seen by all, the rest is causal.

    Source: Raffel et al. 2020, section 3.2.1.
    """
    return Prefix(_at_least(0, "n_prefix", n_prefix))


def document(lengths: Iterable[int]) -> Mask:
    """Block-diagonal: documents of these lengths, which add up to n_k, do not see each other.

    For packed causal training: ``both(document(lengths), causal())``.
    """
    lengths = tuple(_at_least(1, "every length", n) for n in lengths)
    if not lengths:
        raise ValueError("lengths must hold at least one document, got none")
    return Document(lengths)


def both(a: Mask, b: Mask) -> Mask:
    """Allow what a and b both allow."""
    return Both(a, b)


def _at_least(least: int, name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number, at least {least}, got {value!r}")
    return int(value)
