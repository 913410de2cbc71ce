"""Inputs with numbers far apart, so that what was left out, cut off or rounded shows.

In float64 (but for `uneven`), for exercises whose answers are float64; scores stand in the first
column of K alone, so they are exact. (No score lies below -1e30, which many kernels take for -inf.)
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from course_lib.judging.cases import Triple, draw


def shares(rng: Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return scores (n,) over a span of 400, and values (n,) that make up for their weights.

    Each score has about as large a share in the answer, however small its weight: none may be cut
    off, or rounded to 0 as float32 does.
    """
    scores = rng.permutation(np.linspace(-200, 200, n))
    return scores, np.exp(scores.max() - scores) * rng.uniform(1, 2, n)


def steep(rng: Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return scores (n,) of which the later ones lie 280 higher, and values (n,) near 1e200.

    Weights against a maximum that does not follow are numbers yet; times the values they are none.
    """
    scores = rng.standard_normal(n) + 280.0 * (np.arange(n) >= n // 2)
    return scores, 1e200 * (1 + rng.uniform(0, 1, n))


NAMES = {
    "scores 400 apart, and values that make up for it": shares,
    "scores that rise by 280, and values of 1e200": steep,
}


def attention(
    rng: Generator, n_q: int, n_k: int, d: int, *, heads: tuple[int, ...] = ()
) -> list[tuple[str, Triple]]:
    """Return all of them as (name, (q, k, v)); d is a power of 4."""
    found = []
    for name, drawn in NAMES.items():
        scores, values = drawn(rng, n_k)
        q, k = np.zeros((*heads, n_q, d)), np.zeros((*heads, n_k, d))
        q[..., 0], k[..., 0] = np.sqrt(d), scores
        v = values[:, None] * rng.uniform(1, 2, (*heads, n_k, d))
        found.append((name, (q, k, v)))
    return found


UNEVEN = {"q very large, k very small": 2.0**20, "q very small, k very large": 2.0**-20}


def uneven(rng: Generator, n_q: int, n_k: int, d: int) -> list[tuple[str, Triple]]:
    """Return float32 inputs of ordinary scores in which q or k is far larger than the other."""
    drawn = ((name, draw(rng, n_q, n_k, d), np.float32(by)) for name, by in UNEVEN.items())
    return [(name, (q * by, k / by, v)) for name, (q, k, v), by in drawn]
