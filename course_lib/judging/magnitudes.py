"""Inputs with numbers far apart, so that what was left out, cut off or rounded shows.

Each score is a product of two numbers, so it is exact. (None lies below -1e30, which many
kernels take for -inf.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from course_lib.judging.cases import Triple, draw


@dataclass(frozen=True)
class Range:
    """How far apart numbers may lie in a type: ``span`` of scores whose weights values make up for,
    and the ``rise`` of scores that is too much for values of ``size``."""

    span: float
    rise: float
    size: float


DOUBLE = Range(400.0, 280.0, 1e200)
SINGLE = Range(80.0, 640.0, 1e35)  # float32 holds them; what a program computes may be float64


def shares(rng: Generator, n: int, span: float = DOUBLE.span) -> tuple[np.ndarray, np.ndarray]:
    """Return scores (n,) in eighths, over a span, and values (n,) that make up for their weights.

    Each score has about as large a share in the answer, however small its weight: none may be cut
    off, or rounded to 0 as float32 does. The largest follows on the lower half, so the maximum
    jumps, and more stand behind it than before.
    """
    scores = np.round(8 * np.linspace(-span / 2, span / 2, n)) / 8
    low, high = np.split(scores[:-1], [(n - 1) // 2])
    scores = np.concatenate([rng.permutation(low), scores[-1:], rng.permutation(high)])
    return scores, np.exp(scores.max() - scores) * rng.uniform(1, 2, n)


def steep(
    rng: Generator, n: int, rise: float = DOUBLE.rise, size: float = DOUBLE.size
) -> tuple[np.ndarray, np.ndarray]:
    """Return scores (n,) of which the later ones lie higher, and values (n,) near ``size``.

    Weights against a maximum that does not follow are numbers yet; times the values they are none.
    """
    scores = np.round(8 * rng.standard_normal(n)) / 8 + rise * (np.arange(n) >= n // 2)
    return scores, size * (1 + rng.uniform(0, 1, n))


LEAD_NAME = "one score ahead of all others: nearly all of the weight, not all"


def lead(rng: Generator, n: int, by: float = 15.0) -> tuple[np.ndarray, np.ndarray]:
    """Return scores (n,) of which one lies ``by`` above the others, and values (n,) near -1, or 1.

    The weights add up to a little more than 1. No number of ``rng`` is used up.
    """
    (own,) = rng.spawn(1)
    first = np.arange(n) == n // 2
    return by * (first - 1.0), np.where(first, -1, 1) * own.uniform(1, 2, n)


def rows(
    rng: Generator, n: int, of: Range = DOUBLE
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield (name, scores (n,), values (n,))."""
    yield from _far(rng, n, of)
    yield LEAD_NAME, *lead(rng, n)


def _far(rng: Generator, n: int, of: Range) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    name = f"scores {of.span:g} apart, and values that make up for it"
    yield name, *shares(rng, n, of.span)
    name = f"scores that rise by {of.rise:g}, and values of {of.size:g}"
    yield name, *steep(rng, n, of.rise, of.size)


def attention(
    rng: Generator, n_q: int, n_k: int, d: int, *, heads: tuple[int, ...] = (), of: Range = DOUBLE
) -> list[tuple[str, Triple]]:
    """Return all of them as (name, (q, k, v)); d is a power of 4.

    In every other row key 0 lies above all others, and has a value of 0: such a row has its maximum
    from the start, while that of the others jumps. Where one leads, rows differ in by how much.
    """
    found = []
    for name, scores, values in _far(rng, n_k, of):
        q, k = np.zeros((*heads, n_q, d)), np.zeros((*heads, n_k, d))
        q[..., ::2, 0] = q[..., 1::2, 1] = np.sqrt(d)
        k[..., 0] = k[..., 1] = scores
        k[..., 0, 1] = scores.max() + 1
        v = values[:, None] * rng.uniform(1, 2, (*heads, n_k, d))
        v[..., 0, :] = 0
        found.append((name, (q, k, v)))
    scores, values = lead(rng, n_k)
    q, k = np.zeros((*heads, n_q, d)), np.zeros((*heads, n_k, d))
    q[..., 0], k[..., 0] = np.sqrt(d) * np.linspace(0.4, 1.6, n_q), scores
    return [*found, (LEAD_NAME, (q, k, np.broadcast_to(values[:, None], k.shape).copy()))]


UNEVEN = {"q very large, k very small": 2.0**20, "q very small, k very large": 2.0**-20}


def uneven(rng: Generator, n_q: int, n_k: int, d: int) -> list[tuple[str, Triple]]:
    """Return float32 inputs of ordinary scores in which q or k is far larger than the other."""
    drawn = ((name, draw(rng, n_q, n_k, d), np.float32(by)) for name, by in UNEVEN.items())
    return [(name, (q * by, k / by, v)) for name, (q, k, v), by in drawn]
