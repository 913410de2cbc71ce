"""Exercise 11★: eviction with sinks and a window; positions are those within what is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging import sizes
from course_lib.judging.faults import find_fault
from course_lib.judging.finding import Finding
from course_lib.judging.judges import array_finding
from course_lib.judging.spec import REMAINDER, Case, Exercise, Mistake, Observed
from course_lib.judging.tolerance import as_float64
from course_lib.specs.lesson_10.caches import (
    allowed,
    copy_finding,
    of_the_scale,
    rows_as_heads,
    scores,
    softmax,
    tensors,
)

Array = np.ndarray
Kept = Callable[[int, int, int], Array]  # (n, sinks, window) -> rows
Places = Callable[[Array, int], Array]  # (rows that are kept, n) -> their positions


def _case(
    rng: Generator,
    name: str,
    n: int,
    sinks: int,
    window: int,
    *,
    qkv: draw.Triple | None = None,
    size: float = 2.0,
    gone: bool = False,
    **flags: Any,
) -> Case:
    """Return a case; ``gone``: what is evicted holds NaN, in the first of two sequences."""
    q, k, v = qkv or draw.draw(rng, 1, n, 16, heads=(2, 3), size=size)
    if gone:
        k[0, :, sinks : n - window], v[0, :, sinks : n - window] = np.nan, np.nan
    says = f"{name}: {n} rows, {sinks} sinks, a window of {window}"
    return Case(says, (*tensors((q, k, v)), sinks, window), **flags)


def _hard(rng: Generator) -> list[Case]:
    """Return hard scores in float64: they hang on the two numbers that are rotated least."""
    found = []
    for name, qkv, shows in draw.hard(rng, 3, 17, 16, heads=(2,)):
        q, k, v = draw.in_double(rng, qkv)
        q, k = (x[..., [*range(1, 8), 0, *range(8, 16)]] for x in (q, k))
        one = rows_as_heads(q, k, v)
        found.append(_case(rng, name, 17, 4, 8, qkv=one, shows=shows - {REMAINDER}))
    return found


def _cases(rng: Generator) -> list[Case]:
    n, sinks, window = int(rng.integers(25, 40)), int(rng.integers(2, 5)), int(rng.integers(7, 12))
    one = frozenset({"mean(V)", "V"})
    return [
        _case(rng, "a row in the middle goes", 9, 2, 6),
        _case(rng, "a long text", n, sinks, window),
        _case(rng, "a text ten times as long as what is kept", 120, 4, 8),
        _case(rng, "nothing to evict yet", 5, 4, 8),
        _case(rng, "sinks and window overlap", 10, 4, 8),
        _case(rng, "exactly full", 12, 4, 8),
        _case(rng, "no sinks", n, 0, window),
        _case(rng, "no sinks, and nothing to evict yet", 5, 0, 8),
        _case(rng, "sinks, and the newest row alone", 15, 3, 1),
        _case(rng, "fewer rows than sinks", 2, 4, 3),
        _case(rng, "the first token", 1, 4, 8, blind_to=one),
        *(  # places that neither bfloat16 (256) nor float16 (2048) can tell from their neighbours
            _case(rng, "more rows than half precision can count", n, 4, n - 12, qkv=qkv)
            for n in (314, 2074)
            for qkv in [draw.draw(rng, 1, n, 16, heads=(1, 1), size=2.0)]
        ),
        *_sized(rng),
        *_hard(rng),
        _case(rng, "what is evicted holds NaN", 30, 4, 8, gone=True),
        _case(rng, "what is evicted holds NaN, and there are no sinks", 21, 0, 5, gone=True),
        _case(rng, "a text 40 times as long as what is kept, counted", 480, 4, 8, counted=True),
    ]  # fmt: skip


def _sized(rng: Generator) -> Iterator[Case]:
    """Yield every relation of the rows to what is kept of them."""
    for one in sizes.paired(rng, sinks=(0, 1, 2, 4), window=(1, 2, 5, 8), n=sizes.BESIDE):
        n = max(one["n"](one["sinks"] + one["window"]), 2)
        yield _case(rng, "sinks and window of other sizes", n, one["sinks"], one["window"])


def _rows(n: int, sinks: int, window: int) -> Array:
    return np.array([i for i in range(n) if i < sinks or i >= n - window])


def _twice(whole: Callable[[int, int], int], n: int, sinks: int, window: int) -> Array:
    """Return sinks and window one behind the other, but for so few rows that none is evicted.

    ``whole(sinks, window)``: up to how many rows somebody keeps as they are.
    """
    if n <= whole(sinks, window):
        return np.arange(n)
    return np.r_[: min(n, sinks), max(0, n - window) : n]


def rotated(x: Any, positions: Array) -> Array:
    """Return rows (..., n, d) rotated by their positions (n,), as the given `rotate` does."""
    x = as_float64(x)
    half = x.shape[-1] // 2
    angles = positions[:, None] * 10000.0 ** (-np.arange(half) / half)
    cos, sin = np.cos(angles), np.sin(angles)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def _answer(
    rows: Kept = _rows,
    keys_at: Places | None = lambda rows, n: np.arange(len(rows)),
    query_at: Places | None = lambda rows, n: np.array([len(rows) - 1]),
    *,
    values_too: bool = False,
    masked: bool = False,
    power: float = 0.5,
) -> Callable[..., tuple[Array, Array]]:
    """Return a model: the rows that are kept, and the positions of keys and query.

    None: they are not rotated. masked: rows that are evicted are read, and weigh 0.
    """

    def model(q: Any, k: Any, v: Any, sinks: int, window: int) -> tuple[Array, Array]:
        n = k.shape[2]
        kept = rows(n, sinks, window)
        q, k, v = as_float64(q), as_float64(k)[:, :, kept], as_float64(v)
        q = q if query_at is None else rotated(q, query_at(kept, n))
        k = k if keys_at is None else rotated(k, keys_at(kept, n))
        weights = softmax(scores(q, k, power))
        if masked:
            all_rows = np.zeros((*weights.shape[:-1], n))
            all_rows[..., kept] = weights
            return all_rows @ v, kept
        v = v[:, :, kept]
        return weights @ (rotated(v, np.arange(len(kept))) if values_too else v), kept

    return model


def _compared(_case: Case, result: Any) -> Any:
    """Return o and kept, which may be a list: mistakes are known by an array of rows."""
    if isinstance(result, tuple | list) and len(result) == 2:
        o, kept = result
        if isinstance(kept, tuple | list | range) and all(isinstance(i, int) for i in kept):
            return o, np.array(kept, dtype=np.int64)
    return result


def _judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
    q, k, v, _, _ = case.args
    o_true, kept_true = expected
    if fault := find_fault(observed.result, (q.new_empty(q.shape), kept_true)):
        return fault
    o, kept = observed.result
    if finding := array_finding(kept, as_float64(kept_true), allowed=0.0, name="`kept`"):
        return finding
    may = allowed(o_true, q, k[:, :, kept_true], v[:, :, kept_true])
    if q.element_size() == 4:  # float32 rounds the last angles by so much, which moves scores
        norms = (np.linalg.norm(as_float64(x), axis=-1).mean() for x in (q, k[:, :, kept_true]))
        may += len(kept_true) * 2.0**-24 * float(np.prod([*norms])) / q.shape[-1] ** 0.5
    axes = ("sequence", "head", "row", "column")
    if finding := array_finding(o, o_true, allowed=may, name="`o`", axes=axes):
        return finding
    if observed.ledger is None:
        return None
    return copy_finding(observed.ledger, k.nbytes, k.nbytes)


def _first_alone(q: Any, k: Any, v: Any, sinks: int, window: int) -> tuple[Array, Array]:
    """Return what a causal mask that begins at the top left leaves: the first row that stays."""
    kept = _rows(k.shape[2], sinks, window)
    return as_float64(v)[:, :, kept[:1]], kept


_MISTAKES = Mistake.table(
    ("is_causal with one query sees the first key",
     "PyTorch aligns `is_causal=True` at the top left: query 0 sees key 0 only. The newest token "
     "sees all rows that stay: no mask.",
     _first_alone),
    ("the sinks are evicted", "the first `sinks` rows stay, however long the text gets.",
     _answer(lambda n, sinks, window: np.arange(max(0, n - window), n)),
     _answer(lambda n, sinks, window: np.arange(max(0, n - sinks - window), n))),
    ("nothing is evicted", "between the sinks and the window all rows go.",
     _answer(lambda n, sinks, window: np.arange(n))),
    ("the newest rows are evicted", "the window are the LAST rows, the query's own among them.",
     _answer(lambda n, sinks, window: np.arange(min(n, sinks + window)))),
    ("the sinks are taken out of the window",
     "sinks and window are counted each for itself: sinks + window rows stay.",
     _answer(lambda n, sinks, window: _rows(n, sinks, max(1, window - sinks)))),
    ("the window is one row too long",
     "the last `window` rows begin with row n - window; the newest counts as one of them.",
     _answer(lambda n, sinks, window: _rows(n, sinks, window + 1))),
    ("the window is one row too short", "the last `window` rows begin with row n - window.",
     _answer(lambda n, sinks, window: _rows(n, sinks, window - 1))),
    ("one sink too many", "rows 0 to sinks - 1 are the sinks: sinks of them.",
     _answer(lambda n, sinks, window: _rows(n, sinks + 1, window))),
    ("a row is kept twice",
     "while sinks and window overlap, nothing is evicted, and each row is there once.",
     *(_answer(partial(_twice, whole)) for whole in (
         lambda sinks, window: 0,
         lambda sinks, window: window,
         lambda sinks, window: window - 1,
         lambda sinks, window: sinks + window - 2))),
    ("the sinks come last", "rows stay in the order of the text: first the sinks.",
     _answer(lambda n, sinks, window: np.roll(_rows(n, sinks, window), -min(sinks, n)))),
    ("positions are those of the text",
     "a row's position is its place among the rows that are kept: 0, 1, 2 and so on. In the text "
     "the distance to the sinks grows without end, beyond what the model has ever seen.",
     _answer(keys_at=lambda rows, n: rows, query_at=lambda rows, n: np.array([n - 1])),
     _answer(keys_at=lambda rows, n: rows)),
    ("the query stands elsewhere than its own row",
     "the newest row is the query's own token: both have the last position of what is kept. (A "
     "query that is not rotated stands at 0.)",
     _answer(query_at=lambda rows, n: np.array([n - 1])),
     _answer(query_at=lambda rows, n: np.array([len(rows)])),
     _answer(query_at=lambda rows, n: np.array([0]))),
    ("something is not rotated",
     "queries and keys are both rotated, each by its position: only then the score knows how far "
     "apart they are. The cache holds keys that are not rotated yet.",
     _answer(keys_at=None), _answer(keys_at=None, query_at=None)),
    ("evicted rows are masked, not left out",
     "what was evicted is overwritten, by any number: 0 * NaN is NaN, so do not read it.",
     _answer(masked=True)),
    ("values are rotated", "positions are for the scores: V stays as it is.",
     _answer(values_too=True)),
    *of_the_scale(lambda power: _answer(power=power)),
)  # fmt: skip

EXERCISE = Exercise.of(
    "11-star",
    cases=_cases,
    truth=_answer(),
    judge=_judge,
    kind="torch",
    compared=_compared,
    spared={REMAINDER: "nothing is cut into tiles here"},
    mistakes=_MISTAKES,
)
