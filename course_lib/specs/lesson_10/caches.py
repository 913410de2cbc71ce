"""What exercises about a cache share: how exact an answer must be, and what its bytes were for.

Counted cases run under the eager ledger: the cache is an input, so that reading it, and writing
tensors as large as it, are in the books.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from course_lib.judging.finding import Finding
from course_lib.judging.picture import Bar, TrafficBars
from course_lib.judging.tolerance import as_float64, score_rounding

Array = np.ndarray


def allowed(truth: Array, q: Any, k: Any, v: Any) -> float:
    """Return what an answer (o; lse, if v is 1) may be off by, in q's dtype: float32 or float64."""
    finite = np.abs(truth[np.isfinite(truth)])
    biggest = max(1.0, float(finite.max(initial=0.0)))
    if q.element_size() == 8:
        return 1e-9 * biggest
    return 1e-5 * biggest + score_rounding(q, k, v)


def copy_finding(ledger: Any, cached: int) -> Finding | None:
    """Return a finding if more than ``cached`` bytes of new tensors were made."""
    new = [x for x in ledger.crossings if x.direction == "written" and x.tensor != "input"]
    made = sum(x.n_bytes for x in new)
    if made <= cached:
        return None
    largest = max(new, key=lambda x: x.n_bytes)
    return Finding(
        "makes no copy of the cache",
        f"the numbers are right, but {made} bytes of new tensors are written, the largest by "
        f"`{largest.op}` ({largest.n_bytes} bytes): the cache is copied, at each token.",
        look="index and slice it: a view costs nothing. Nothing that is repeated, concatenated, "
        "padded or converted is a view.",
    )


def read_finding(ledger: Any, cached: int, small: int) -> Finding | None:
    """Return a finding if inputs are read as if the cache of ``cached`` bytes were read twice.

    ``small``: bytes of the other inputs, which may be read now and then.
    """
    read = ledger.read.get("input", 0)
    if read <= 1.5 * cached + 8 * small:
        return None
    times = read / cached
    bars = TrafficBars("Bytes read", (Bar("K and V", read, cached),))
    return Finding(
        "reads each cached byte once",
        f"the numbers are right, but K and V are read {times:.1f} times.",
        look="whoever shares a cached row (the heads of a group, the drafts) is a row of one "
        "matrix: one product serves them all.",
        picture=bars,
    )


def softmax(s: Array) -> Array:
    """Return the weights of rows (..., n); a row that is all -inf is NaN, as in PyTorch."""
    with np.errstate(all="ignore"):
        e = np.exp(s - s.max(axis=-1, keepdims=True))
        weights: Array = e / e.sum(axis=-1, keepdims=True)
    return weights


def scores(q: Any, k: Any, power: float = 0.5) -> Array:
    """Return q k^T / d ** power in float64."""
    product: Array = as_float64(q) @ as_float64(k).swapaxes(-1, -2) * q.shape[-1] ** -power
    return product
