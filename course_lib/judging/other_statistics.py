"""Another statistic of the numbers of a row than the largest, in exercises that ask for that."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Statistic = Callable[[np.ndarray], np.ndarray]  # (..., n) -> (...)

OTHER_STATISTICS: tuple[tuple[str, str, Statistic], ...] = (
    ("the smallest, not the largest", "tl.min is the smallest of a row: tl.max is the largest.",
     lambda x: np.asarray(x.min(-1))),
    ("the sum, not the maximum",
     "tl.sum adds the numbers of a row up: tl.max is the largest of them.",
     lambda x: np.asarray(x.sum(-1))),
    ("the mean, not the maximum",
     "A row's mean is no number of the row: tl.max is the largest of them.",
     lambda x: np.asarray(x.mean(-1))),
    ("the first, not the largest",
     "A row's first number is seldom its largest: tl.max looks at all of them.",
     lambda x: np.asarray(x[..., 0])),
    ("the place of the largest, not the largest",
     "tl.argmax is the number of the largest's column: tl.max is the largest itself.",
     lambda x: x.argmax(-1).astype(np.float64)),
)  # fmt: skip
"""(name, sentence, what is taken)."""
