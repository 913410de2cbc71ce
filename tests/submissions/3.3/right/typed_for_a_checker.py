# Types that only a type checker imports, and a class of one's own with slots.
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Pile = NDArray[np.float64]


class Notes:
    __slots__ = ("l_sum", "m", "o")

    def __init__(self, d: int) -> None:
        self.m, self.l_sum, self.o = -np.inf, 0.0, np.zeros(d)

    def push(self, s: Pile, v: Pile) -> Notes:
        m = max(self.m, float(s.max()))
        if m > -np.inf:
            alpha, p = np.exp(self.m - m), np.exp(s - m)
            self.m, self.l_sum, self.o = m, alpha * self.l_sum + p.sum(), alpha * self.o + p @ v
        return self


def stream_average(piles: Sequence[Pile], values: Sequence[Pile]) -> Pile:
    notes = Notes(values[0].shape[1])
    for s, v in zip(piles, values, strict=True):
        notes.push(s, v)
    return notes.o / notes.l_sum
