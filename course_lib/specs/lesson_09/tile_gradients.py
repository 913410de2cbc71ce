"""Exercise 9.3: what one tile adds to dQ, dK and dV, in NumPy and float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging import sizes
from course_lib.judging.attention_judge import attention_truth
from course_lib.judging.cases import Triple
from course_lib.judging.faults import find_fault
from course_lib.judging.finding import Finding
from course_lib.judging.spec import REMAINDER, Case, Exercise, Mistake, Observed, table
from course_lib.judging.where import Where, seen_by
from course_lib.specs.lesson_09.gradients import (
    FOR_K,
    FOR_Q,
    FOR_V,
    OF_DS,
    OF_ONE_SCALE,
    OF_SCALE,
    SCALED_V,
    Slip,
    exchanged,
    gradients,
    gradients_finding,
    mistakes_of,
)


def _tile(
    rng: Generator,
    name: str,
    qkv: Triple,
    keys: slice,
    *,
    scale: float | None = None,
    causal: bool = False,
    shows: frozenset[str] = frozenset(),
) -> Case:
    """Return a case: all queries against ``keys`` of a longer row, whose lse and delta it gets."""
    q, k, v = draw.in_double(rng, qkv)
    root = q.shape[-1] ** -0.5
    scale = root if scale is None else scale
    o, lse = attention_truth(q * (scale / root), k, v, causal=causal)
    do = rng.standard_normal(o.shape) + 0.3
    seen = seen_by(len(q), len(k), causal=causal)
    delta = (do * o).sum(-1)
    args = (q, k[keys], v[keys], do, lse, delta, np.ascontiguousarray(seen[:, keys]), scale)
    return Case(name, args, shows=shows)


def _masked(rng: Generator, name: str, n_q: int, n_k: int, d: int, by: float) -> Case:
    """Return a case of any mask at all, and scores, up to ``by``, of the pairs that it hides."""
    seen, scale = draw.masked(rng, n_q, n_k), d**-0.5
    q, k, v = draw.loud_where_hidden(rng, seen, d, by)
    s = np.where(seen, scale * q @ k.T, -np.inf)
    with np.errstate(divide="ignore"):
        lse = np.log(np.exp(s).sum(-1))
    do = rng.standard_normal(q.shape) + 0.3
    o = np.exp(s - np.where(np.isfinite(lse), lse, 0.0)[:, None]) @ v
    return Case(name, (q, k, v, do, lse, (do * o).sum(-1), seen, scale))


def _cases(rng: Generator) -> list[Case]:
    def drawn(name: str, n_q: int, n_k: int, d: int, keys: slice, **how: Any) -> Case:
        return _tile(rng, name, draw.draw(rng, n_q, n_k, d, size=how.pop("size", 1.0)), keys, **how)

    every = slice(None)
    hard = [
        _tile(rng, f"{name}, the last 5 of 9 keys, causal", qkv,
              slice(4, 9), causal=True, shows=shows - {REMAINDER})
        for name, qkv, shows in draw.hard(rng, 6, 9, 4)
    ]  # fmt: skip
    return [
        drawn("4 queries, 4 keys, d = 4: all there are", 4, 4, 4, every),
        drawn("the first 4 of 12 keys: a row of P does not add up to 1", 4, 12, 4, slice(4)),
        drawn("6 queries, the last 3 of 10 keys, d = 5", 6, 10, 5, slice(7, 10)),
        drawn("causal, 5 queries and keys: the tile on the diagonal", 5, 5, 3, every, causal=True),
        drawn("causal, 7 queries, 4 keys: the first 3 rows see nothing, and their lse is -inf",
              7, 4, 2, every, causal=True),
        drawn("a scale of 0.3", 5, 8, 4, slice(3, 8), scale=0.3),
        drawn("large scores (q and k times 4)", 5, 8, 4, slice(3, 8), size=4),
        drawn("one query, one key of 3", 1, 3, 2, slice(1, 2)),
        # nothing for five products; to move each number in turn, and ask f, takes minutes
        drawn("256 queries and keys, d = 32", 256, 256, 32, every),
        *(
            drawn(f"{n_q} queries, {last - first} of {n_k} keys, d = {d}", n_q, n_k, d,
                  slice(first, last))
            for n_q, n_k, d in sizes.attention(rng)
            for first, last in [sorted(rng.choice(n_k + 1, 2, replace=False).tolist())]
        ),
        *hard,
        *(
            _masked(rng, f"{n_q} queries, {n_k} keys, any mask{also}", n_q, n_k, 4, by)
            for n_q, n_k in ((6, 9), (9, 5), (7, 7))
            for also, by in (("", 1.0), (", and hidden scores of 5000 and -5000", 5000.0))
        ),
    ]  # fmt: skip


def _answer(slip: Slip) -> Callable[..., Any]:
    def model(
        q_tile: Any, k_tile: Any, v_tile: Any, do_tile: Any, lse_row: Any, delta_row: Any,
        seen: Any, scale: float,
    ) -> Any:  # fmt: skip
        d = scale**-2  # of whose root the scale is one over
        (block_q, block_k), causal = seen.shape, not seen.all()
        where = Where(seen, d, block_q, block_k, causal)
        inputs = (q_tile, k_tile, v_tile, do_tile, lse_row, delta_row)
        return gradients(*inputs, where, slip=slip, scale=scale)

    return model


def _judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
    if fault := find_fault(observed.result, expected):
        return fault
    limits = [_allowed(truth) for truth in expected]
    return gradients_finding(observed.result, expected, limits, ("`dq`", "`dk`", "`dv`"), ())


def _allowed(truth: np.ndarray) -> float:
    """Return what float64 may be off: a score of -20000 is exact to 4e-12, and so is its weight."""
    return 1e-9 * max(1.0, float(np.abs(truth).max(initial=0.0)))


_OF_ROWS = table(
    ("P and dS are not transposed",
     "row i of P tells query i whom to look at; for a key its *column* is wanted: dV = P^T dO, dK "
     "= scale dS^T Q.",
     Slip(for_k=lambda p, ds, where: _square(ds).T, for_v=lambda p, ds, where: _square(p).T)),
)  # fmt: skip
_ORDER = "return dq, dk, dv, in this order."


def _square(x: np.ndarray) -> np.ndarray:
    if x.shape[0] != x.shape[1]:
        raise ValueError("this mistake has a shape of its own only here")
    return x


TILE_GRADIENTS = Exercise.of(
    "9.3",
    cases=_cases,
    truth=_answer(Slip()),
    judge=_judge,
    spared={REMAINDER: "one tile, of any size: nothing is cut into tiles here"},
    mistakes=(
        *mistakes_of(
            _answer,
            *_OF_ROWS,
            *OF_DS,
            *OF_SCALE,
            *OF_ONE_SCALE,
            SCALED_V,
            FOR_Q,
            FOR_K,
            FOR_V,
        ),
        *(
            Mistake(f"{a} and {b} are exchanged", _ORDER, exchanged(_answer(Slip()), a, b))
            for a, b in (("dK", "dV"), ("dQ", "dK"))
        ),
    ),
    without_torch=True,
)
