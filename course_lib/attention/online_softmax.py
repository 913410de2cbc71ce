"""Online softmax: a sum of weights that can be merged pile by pile (lesson 03).

The state of a row is (m, l, O): the largest score seen, the sum of exp(score - m), and the values
summed with those same weights. Merging is associative and commutative and has an identity, so any
split of the keys in any order gives one answer: exactly in algebra, to rounding in floats.

Source: Milakov & Gimelshein 2018 (m and l); Dao et al. 2022, section 3.1 (with O).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class OnlineState:
    """What is remembered of all keys seen so far, for each row."""

    m: np.ndarray  # (...,) running maximum, -inf before the first key
    l_sum: np.ndarray  # (...,) sum of exp(score - m)
    o: np.ndarray  # (..., d_v) sum of exp(score - m) * value, not divided yet

    @classmethod
    def identity(cls, shape: tuple[int, ...], d_v: int) -> OnlineState:
        """Return the state of no keys at all, for rows of the given shape, in float64."""
        return cls(np.full(shape, -np.inf), np.zeros(shape), np.zeros((*shape, d_v)))

    @classmethod
    def from_tile(cls, scores: np.ndarray, values: np.ndarray) -> OnlineState:
        """Return the state of one pile of keys.

        ``scores`` is (n,) or (..., n_q, n), with -inf where a key is masked; ``values`` is
        (n, d_v) or (..., n, d_v). Raises ValueError if the two disagree about n.
        """
        scores, values = np.asarray(scores), np.asarray(values)
        if scores.ndim < 1 or values.ndim < 2 or scores.shape[-1] != values.shape[-2]:
            raise ValueError(
                "values must have shape (..., n, d_v), one row for each of the n scores in a row; "
                f"got scores {scores.shape} and values {values.shape}"
            )
        m = scores.max(axis=-1, initial=-np.inf)  # (...,)
        p = np.exp(scores - finite_max(m)[..., None])  # (..., n)
        return cls(m, p.sum(axis=-1), p @ values)

    def merge(self, other: OnlineState) -> OnlineState:
        """Return the state of both sets of keys together."""
        m = np.maximum(self.m, other.m)
        a = np.exp(self.m - finite_max(m))  # alpha: old scale -> new scale
        b = np.exp(other.m - finite_max(m))
        return OnlineState(
            m,
            a * self.l_sum + b * other.l_sum,
            a[..., None] * self.o + b[..., None] * other.o,
        )

    def finalize(self) -> tuple[np.ndarray, np.ndarray]:
        """Divide once, at the end: return o (..., d_v) and the natural-log lse (...,).

        A row without any key has o = 0 and lse = -inf.
        """
        l_sum = np.where(self.l_sum == 0, 1, self.l_sum)
        return self.o / l_sum[..., None], self.m + np.log(l_sum)


def finite_max(m: np.ndarray) -> np.ndarray:
    """Return the number to subtract before exp: m, but 0 where no key was seen.

    The trap: a fully masked pile has score -inf and maximum -inf, and -inf - (-inf) is NaN, which
    then spreads through every later merge. Subtracting 0 instead gives exp(-inf) = 0, which is
    what "no key" weighs.
    """
    return np.where(m == -np.inf, 0, m)
