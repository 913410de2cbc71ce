"""The inputs that attention must survive, and the tolerance it is held to.

Everything is NumPy; a test that wants tensors converts. ``CASES`` are built when asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

TILES = [(16, 32), (64, 16), (7, 48), (32, 32)]


@dataclass(frozen=True)
class Case:
    """q (..., H, n_q, d), k and v (..., H_kv, n_k, d), and whether attention is causal."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    causal: bool = False

    @property
    def allowed(self) -> np.ndarray:
        """Bool (n_q, n_k), by a loop: slow, and nothing to share with what is tested."""
        n_q, n_k = self.q.shape[-2], self.k.shape[-2]
        seen = [j <= i + n_k - n_q for i in range(n_q) for j in range(n_k)]
        return np.array(seen if self.causal else [True] * (n_q * n_k), bool).reshape(n_q, n_k)

    @property
    def kv_repeated(self) -> tuple[np.ndarray, np.ndarray]:
        """k and v with one head for each query head."""
        if self.q.ndim == 2:
            return self.k, self.v
        group = self.q.shape[-3] // self.k.shape[-3]
        return tuple(
            np.stack([x[..., h // group, :, :] for h in range(self.q.shape[-3])], axis=-3)
            for x in (self.k, self.v)
        )


def normal(
    n_q: int,
    n_k: int,
    d: int,
    *,
    lead: tuple[int, ...] = (),
    kv_heads: int | None = None,
    seed: int = 0,
    factor: float = 1.0,
    causal: bool = False,
    dtype: type = np.float32,
) -> Case:
    """Normal q, k, v; q and k times ``factor``."""
    rng = np.random.default_rng(seed)
    kv_lead = lead if kv_heads is None else (*lead[:-1], kv_heads)
    draw = lambda *shape: rng.standard_normal(shape)  # noqa: E731
    q, k, v = draw(*lead, n_q, d), draw(*kv_lead, n_k, d), draw(*kv_lead, n_k, d)
    return Case(*((x * f).astype(dtype) for x, f in ((q, factor), (k, factor), (v, 1))), causal)


def steered(scores: np.ndarray, n_q: int, d: int, *, causal: bool = False) -> Case:
    """q and k such that every query's scaled scores are close to ``scores`` (n_k,)."""
    case = normal(n_q, len(scores), d, factor=0.1, causal=causal)
    case.q[:, 0] = np.sqrt(d)
    case.k[:, 0] = scores
    return case


def strided() -> Case:
    """(batch, n, heads, d) in memory, seen as (batch, heads, n, d); v with every other column."""
    rng = np.random.default_rng(5)
    q, k = (rng.standard_normal((2, n, 3, 32), np.float32).swapaxes(1, 2) for n in (45, 61))
    v = rng.standard_normal((2, 61, 3, 64), np.float32)[..., ::2].swapaxes(1, 2)
    return Case(q, k, v, causal=True)


def uniform_half() -> Case:
    """All scores 0, values near 100, half precision: a half accumulator passes 65504."""
    case = normal(16, 1100, 32, dtype=np.float16)
    return Case(case.q * np.float16(0), case.k, case.v + np.float16(100))


CASES: dict[str, Callable[[], Case]] = {
    "d16, ragged": lambda: normal(37, 37, 16),
    "d32, ragged, causal": lambda: normal(70, 70, 32, causal=True),
    "d64, fewer queries, causal": lambda: normal(19, 83, 64, causal=True),
    "d128, more queries": lambda: normal(83, 19, 128),
    "more queries, causal: empty rows": lambda: normal(83, 19, 16, causal=True),
    "batch and heads": lambda: normal(33, 50, 16, lead=(2, 3), causal=True),
    "grouped heads": lambda: normal(33, 50, 16, lead=(2, 6), kv_heads=2, causal=True),
    "heads without batch": lambda: normal(33, 50, 16, lead=(4,), kv_heads=1),
    "q and k times 4": lambda: normal(65, 130, 64, factor=4),
    "scores below -110": lambda: steered(np.linspace(-150, -111, 90), 20, 16),
    "scores above +100": lambda: steered(np.linspace(101, 140, 90), 20, 16),
    "maxima ascending": lambda: steered(np.linspace(-20, 20, 90), 20, 32),
    "maxima descending": lambda: steered(np.linspace(20, -20, 90), 90, 32, causal=True),
    "uniform scores, v near 100, half": uniform_half,
    "half, causal": lambda: normal(40, 72, 64, causal=True, dtype=np.float16),
    "float64": lambda: normal(40, 72, 16, dtype=np.float64),
    "strides": strided,
    "one key": lambda: normal(21, 1, 16),
    "one query": lambda: normal(1, 77, 16, causal=True),
    "no key": lambda: normal(5, 0, 16),
}


def assert_as_good_as_eager(o: np.ndarray, eager: np.ndarray, truth: np.ndarray) -> None:
    """Error at most twice that of eager attention in the same dtype, and a little.

    The little: 1e-5 in float32 and wider, twice the rounding of the truth in half types.
    """
    assert o.shape == truth.shape
    assert o.dtype == eager.dtype
    error = np.abs(o.astype(np.float64) - truth)
    eager_error = np.abs(eager.astype(np.float64) - truth).max(initial=0)
    rounding = 2 * np.abs(truth.astype(o.dtype) - truth).max(initial=0)
    limit = 2 * eager_error + (rounding if o.dtype.itemsize == 2 else 1e-5)
    assert np.isfinite(o).all()
    assert (error <= limit).all(), f"largest error {error.max()}, allowed {limit}"


def assert_lse(lse: np.ndarray, truth: np.ndarray) -> None:
    """Equal to float32 rounding, -inf exactly where the truth is -inf."""
    np.testing.assert_allclose(lse, truth, rtol=2e-6, atol=2e-5)
