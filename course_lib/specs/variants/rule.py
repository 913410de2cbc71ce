"""What a variant computes, as data: how a score is changed, which pairs are seen, what is added.

A `Rule` with its defaults is plain attention. A variant replaces some fields; a known mistake of
that variant replaces one more. `attend` runs them all, dense, in the precision that is asked for:
float64 for the truth, float32 for what a kernel with that mistake would give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from course_lib.judging.tolerance import as_float64

Array = np.ndarray


Head = tuple[int, int]  # number of a query head, and how many there are
Score = Callable[[Array, Array, Array, Head], Array]


def unchanged(s: Array, position: Array, key: Array, head: Head) -> Array:
    """Return the scores as they are."""
    return s


def past(position: Array, key: Array) -> Array:
    """Return whether a key stands at or before the query's position (causal)."""
    return key <= position


@dataclass(frozen=True)
class Rule:
    """Attention with something changed. Positions are aligned at the end: i + n_k - n_q.

    score: (s, position, key, head) -> s, on scaled scores (n_q, n_k); ``position`` is (n_q, 1),
        ``key`` (1, n_k), ``head`` is (number, how many).
    allowed: (position, key) -> bool (n_q, n_k); None sees everything.
    causal: the same, asked besides where a call says ``causal=True``.
    sink: (sinks (n_sinks,), m (n_q, 1)) -> what is added to the sum of exp(s - m).

    The other fields are slips; their defaults are right.
    """

    score: Score = unchanged
    allowed: Callable[[Array, Array], Array] | None = None
    causal: Callable[[Array, Array], Array] | None = past
    sink: Callable[[Array, Array], Array] | None = None
    align: Literal["end", "start"] = "end"
    when: Literal["scaled", "before the scale", "after the mask"] = "scaled"
    sink_in_max: bool = True
    sink_in_lse: bool = True
    sinks_of: Literal["each head", "the first head"] = "each head"

    def seen(self, n_q: int, n_k: int, causal: bool) -> Array:
        """Return bool (n_q, n_k): which pairs take part."""
        position, key = self._places(n_q, n_k)
        pairs = np.ones((n_q, n_k), dtype=bool)
        if self.allowed is not None:
            pairs &= self.allowed(position, key)
        if causal and self.causal is not None:
            pairs &= self.causal(position, key)
        return pairs

    def scores(self, q: Array, k: Array, head: Head, causal: bool, power: float = 1.0) -> Array:
        """Return the scores (n_q, n_k) of one head, -inf where a pair is not seen.

        ``power``: the scores are divided by sqrt(d) ** power (1 is right).
        """
        s = (q @ k.T) * q.shape[-1] ** (-power / 2)
        return self.change(s, head, causal, q.shape[-1] ** (power / 2))

    def change(self, s: Array, head: Head, causal: bool, root: float = 1.0) -> Array:
        """Return scaled scores changed and masked, in the order that the rule says."""
        places = self._places(*s.shape)
        hidden = ~self.seen(s.shape[0], s.shape[1], causal)
        if self.when == "before the scale":
            s = self.score(s * root, *places, head) / root
        elif self.when == "scaled":
            s = self.score(s, *places, head)
        s = np.where(hidden, -np.inf, s)
        return self.score(s, *places, head) if self.when == "after the mask" else s

    def own_sinks(self, sinks: Array, head: int) -> Array:
        """Return the sinks (n_sinks,) of a head out of ``sinks`` (heads, n_sinks)."""
        return sinks[head if self.sinks_of == "each head" else 0]

    def _places(self, n_q: int, n_k: int) -> tuple[Array, Array]:
        shift = n_k - n_q if self.align == "end" else 0
        return np.arange(n_q)[:, None] + shift, np.arange(n_k)[None, :]


def attend(
    rule: Rule, q: Any, k: Any, v: Any, sinks: Any = None, *, causal: bool = False, **how: Any
) -> tuple[Array, Array]:
    """Return o (B, H, n_q, d) and lse (B, H, n_q) by ``rule``; rows without anything: 0, -inf.

    q (B, H, n_q, d), k and v (B, H_kv, n_k, d), sinks (H, n_sinks): arrays or tensors. ``dtype``
    in ``how`` is that of scores, weights and sums (float64 by default), ``only`` (n_q, n_k) hides
    further pairs; tile sizes are ignored.
    """
    dtype, only = how.get("dtype", np.float64), how.get("only", True)
    q, k, v = heads_repeated(q, k, v)
    sinks = None if sinks is None else as_float64(sinks)
    o, lse = np.empty(q.shape), np.empty(q.shape[:-1])
    for at in np.ndindex(*q.shape[:-2]):
        s = rule.scores(q[at], k[at], (at[-1], q.shape[-3]), causal)
        s = np.where(only, s, -np.inf).astype(dtype)
        own = None if sinks is None else rule.own_sinks(sinks, at[-1]).astype(dtype)
        with np.errstate(all="ignore"):
            o[at], lse[at] = _weighted(rule, s, v[at].astype(dtype), own)
    return o, lse


def heads_repeated(q: Any, k: Any, v: Any) -> tuple[Array, Array, Array]:
    """Return q, k, v in float64 with as many key/value heads as query heads."""
    q, k, v = as_float64(q), as_float64(k), as_float64(v)
    group = q.shape[-3] // k.shape[-3]
    return (q, k, v) if group == 1 else (q, k.repeat(group, -3), v.repeat(group, -3))


def _weighted(rule: Rule, s: Array, v: Array, sinks: Array | None) -> tuple[Array, Array]:
    m = s.max(axis=-1, keepdims=True, initial=-np.inf)
    if rule.sink and sinks is not None and rule.sink_in_max:
        m = np.maximum(m, sinks.max())
    m = np.where(m == -np.inf, 0, m).astype(s.dtype)
    p = np.exp(s - m)
    l_sum = p.sum(axis=-1, keepdims=True)
    total = l_sum if rule.sink is None or sinks is None else l_sum + rule.sink(sinks, m)
    o = (p @ v) / np.where(total == 0, 1, total)
    return o, (m + np.log(total if rule.sink_in_lse else l_sum))[:, 0]


def visited(
    rule: Rule, n_q: int, n_k: int, block_q: int, block_k: int, causal: bool = False
) -> Array:
    """Return bool (T_q, T_k): the tiles that hold at least one pair that is seen."""
    pairs = rule.seen(n_q, n_k, causal)
    pairs = np.pad(pairs, ((0, -n_q % block_q), (0, -n_k % block_k)))
    tiles = pairs.reshape(pairs.shape[0] // block_q, block_q, -1, block_k)
    return np.asarray(tiles.any(axis=(1, 3)))
