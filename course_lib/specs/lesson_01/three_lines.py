"""Exercises 1.2 and 1.4: attention in three lines of NumPy, and of PyTorch in four trips.

Longer than 400 lines because both are one attention, whose mistakes are one table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.attention.slips import ANYTHING, LN_2, is_coarse
from course_lib.judging import cases, faults, magnitudes, sizes
from course_lib.judging.attention_judge import attention_truth, output_only
from course_lib.judging.finding import Finding
from course_lib.judging.judges import array_finding, hidden_finding, tells_what_is_cut_off
from course_lib.judging.misconceptions import (
    BASES,
    BOUNDED,
    CLIPPED,
    LEFT_OUT,
    MOST_BELOW,
    NOT_THE_MAXIMUM,
    SAYS,
    UNSCALED_MAXIMUM,
    attention_mistakes,
)
from course_lib.judging.picture import Bar, TrafficBars
from course_lib.judging.spec import HARD, NUMPY_ONLY, Case, Exercise, Mistake, Observed, table
from course_lib.judging.tolerance import IN_DOUBLE, allowed_error, as_float64, score_rounding


def _numpy_cases(rng: Generator) -> list[Case]:
    n, n_q, n_k = (int(x) for x in rng.choice(np.arange(20, 60), 3, replace=False))
    d = int(rng.choice([16, 32]))
    example = (np.array(x, np.float32) for x in ([[1]], [[1], [3]], [[10], [20]]))
    drawn = [
        Case(f"{n} tokens, head_dim {d}", cases.draw(rng, n, n, d)),
        Case(f"{n_q} queries and {n_k} keys", cases.draw(rng, n_q, n_k, 64)),
        Case("q and k four times as large", cases.draw(rng, n_q, n_k, 32, size=4)),
        # float32 / np.sqrt(d) is float64 in NumPy, where exp overflows above 709 only
        Case("scores near +1000", cases.shifted(rng, n, n_k, 16, 1000)),
        Case("scores near -1000", cases.shifted(rng, n, n_k, 16, -1000)),
        Case("rows whose scores lie from -1000 to +1000", _far_rows(rng, n_q, n_k, 16)),
        Case("one key", cases.draw(rng, n_q, 1, 16), blind_to=frozenset({"mean(V)"})),
        *[Case(name, qkv, shows=shows) for name, qkv, shows in cases.hard(rng, 21, 33, 16)],
        Case("300 keys, head_dim 128", cases.draw(rng, 5, 300, 128)),
        Case("300 keys whose scores rise by 2000", cases.sloped(rng, 5, 300, 64, 2000)),
        Case(cases.FARTHEST_NAME, cases.farthest(rng, 9, 20, 16)),
        Case(
            "q, k and v that lie in memory column by column",
            cases.by_columns(cases.draw(rng, 9, 14, 16)),
        ),
        Case("the example of the task", tuple(example)),
    ]
    related = [
        (f"{n_q} queries, {n_k} keys, d = {d}", cases.draw(rng, n_q, n_k, d))
        for n_q, n_k, d in sizes.attention(rng)
    ]
    name = "float64, {} keys, d = {}: its root is no float32"
    double = [
        (name.format(n_k, d), cases.in_double(rng, cases.draw(rng, 4, n_k, d)))
        for n_k, d in ((6, 5), (300, 3))
    ]
    wide = [*magnitudes.attention(rng, 3, 14, 4), *magnitudes.uneven(rng, 9, 11, 5)]
    alone = Case(
        "one query and one key", cases.draw(rng, 1, 1, 3), blind_to=frozenset({"mean(V)", "V"})
    )
    return [
        *(replace(case, counted=True) for case in drawn),
        *(Case(*one) for one in (*wide, *double, *related)),
        alone,
    ]


def _far_rows(rng: Generator, n_q: int, n_k: int, d: int) -> cases.Triple:
    """Return inputs whose row i has all its scores near a level of its own."""
    q, k, v = cases.draw(rng, n_q, n_k, d)
    q[:, 0] = np.linspace(-1000, 1000, n_q)
    k[:, 0] = np.sqrt(d)
    return q, k, v


def _judge_numpy(case: Case, observed: Observed, expected: Any) -> Finding | None:
    from course_lib.attention import naive

    o_true = expected[0]
    got = observed.result
    if fault := faults.find_fault(got, o_true):
        return fault
    if case.args[0].dtype == np.float64:
        allowed = IN_DOUBLE * float(np.abs(o_true).max())
    else:
        allowed = allowed_error(o_true, as_float64(naive(*case.args)), "float32")
        allowed += score_rounding(*case.args)
    if finding := array_finding(got, o_true, allowed=allowed, name="o"):
        return finding
    if observed.ledger and observed.ledger.crossings:
        ops = list(dict.fromkeys(one.op for one in observed.ledger.crossings))
        which = ", ".join(f"`{op}`" for op in ops[:4]) + (" and more" if len(ops) > 4 else "")
        says = f"PyTorch computed for you (its operations: {which})"
        return Finding(NUMPY_ONLY, f"the answer is right, but {says}: write the lines.")
    return None


def _along(axis: int) -> dict[str, Any]:
    """Return how a softmax along another axis takes the maximum and the sum."""
    return {
        "top": partial(np.max, axis=axis, keepdims=True),
        "total": partial(np.sum, axis=axis, keepdims=True),
    }


_OF_A_ROW = _along(-1)


def _maximum_times(unit: float, s: np.ndarray) -> Any:
    return _OF_A_ROW["top"](s) * s.dtype.type(unit)


def _three_lines(
    scale: Callable[[Any, Any], float] = lambda q, k: q.shape[-1] ** -0.5,
    *,
    exchanged: bool = False,
    top: Callable[[np.ndarray], Any] = _OF_A_ROW["top"],
    total: Callable[[np.ndarray], Any] = _OF_A_ROW["total"],
    exps: tuple[Any, Any] = (np.exp, np.exp),
    mix: Callable[..., Any] = lambda p, q, k, v: p @ v,
) -> Callable[..., np.ndarray]:
    """Return a model of the lesson's three lines, with a slip in one of them.

    ``top(scores)`` is subtracted, ``total(exponentials)`` divides; ``exps``: that of the weights
    and that of their sum.
    """

    def model(q: Any, k: Any, v: Any, *, dtype: Any = np.float64) -> np.ndarray:
        q, k, v = as_float64(q), as_float64(k), as_float64(v)
        s = ((k @ q.mT if exchanged else q @ k.mT) * scale(q, k)).astype(dtype)
        e, summed = (exp(s - top(s)) for exp in exps)
        whole = np.asarray(total(summed))
        o = mix(e / whole, q, k, v)
        by_rows = whole.shape == (*e.shape[:-1], 1)
        return np.where(is_coarse(whole), ANYTHING, o) if by_rows else o

    return model


def _reading_k(change: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda q, k, v: _three_lines()(q, change(as_float64(k)), v)


def _cut_off(case: Case, least: float) -> Iterator[Any]:
    q, k, v = map(as_float64, case.args)
    s = q @ k.T / q.shape[-1] ** 0.5
    e = np.exp(np.maximum(s - _OF_A_ROW["top"](s), least))
    yield (e / _OF_A_ROW["total"](e) @ v,)


def _in_single(q: Any, k: Any, v: Any, *, root: type) -> np.ndarray:
    """Return the three lines of inputs in float32; scores have the type of d's ``root``."""
    with np.errstate(over="ignore"):
        q, k, v = (np.asarray(x).astype(np.float32) for x in (q, k, v))
    s = q @ k.T / root(q.shape[-1] ** 0.5)
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v


def _of_all_heads(q: Any, k: Any, v: Any, *, batch: bool) -> np.ndarray:
    """Return what becomes of heads (and ``batch``) whose rows are laid one after the other."""
    kept = q.shape[: 0 if batch else 1]
    rows = [as_float64(x).reshape(*kept, -1, x.shape[-1]) for x in (q, k, v)]
    return _three_lines()(*rows).reshape(*q.shape[:-1], v.shape[-1])


def _maximum_of_unscaled(q: Any, k: Any, v: Any, *, dtype: Any = np.float64) -> np.ndarray:
    """Return the three lines whose maximum is taken before the scale, and subtracted after it."""

    def top(s: np.ndarray) -> Any:
        return _OF_A_ROW["top"](s) * dtype(np.shape(q)[-1] ** 0.5)

    return _three_lines(top=top)(q, k, v, dtype=dtype)


def _below_a_bound(q: Any, k: Any, v: Any, *, longest: Any, dtype: Any = np.float64) -> np.ndarray:
    """Return the three lines where |q| |k| is subtracted, which no score of the row is above."""
    lengths, of_keys = (np.linalg.norm(as_float64(x), axis=-1, keepdims=True) for x in (q, k))
    bound = longest(lengths) * of_keys.max() / np.shape(q)[-1] ** 0.5
    return _three_lines(top=lambda s: bound.astype(s.dtype))(q, k, v, dtype=dtype)


def _reshaped(k: np.ndarray) -> np.ndarray:
    turned = k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])
    return np.asarray(turned.mT)


_SHARED = frozenset({
    BASES, BOUNDED, CLIPPED, LEFT_OUT, MOST_BELOW, "the scale is missing", "scaled twice",
    "the scale is upside down", "softmax over the wrong axis", "not divided by the sum",
    "the root of head_dim is cut to a whole number",
})  # fmt: skip
_ROW_MISTAKES = (
    *attention_mistakes(without_masks=_SHARED),
    *Mistake.table(
        ("scaled by the number of tokens",
         "the rows of q are the queries, and those of k the keys. d is the length of a row.",
         _three_lines(lambda q, k: 1 / q.shape[-2] ** 0.5),
         _three_lines(lambda q, k: 1 / k.shape[-2] ** 0.5),
         _three_lines(lambda q, k: 1 / q.shape[-2])),
        ("the weights are scaled, not the scores",
         "the scale belongs before the softmax: after it, the weights of a row no longer sum to 1.",
         _three_lines(lambda q, k: 1, mix=lambda p, q, k, v: p @ v * q.shape[-1] ** -0.5)),
        ("the sum of each column",
         "the maximum is that of each row, but the sum runs down the columns (axis 0).",
         _three_lines(total=_along(-2)["total"])),
        ("q and k are exchanged",
         "the scores are those of k with q: a row must belong to a query, q @ k.T.",
         _three_lines(exchanged=True)),
        ("K is reshaped, not transposed",
         "k.reshape(d, n_k) has the right shape, but its numbers keep their order: k.T, or k.mT, "
         "turns rows into columns.",
         _reading_k(lambda k: k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2]).mT)),
        ("the weights are transposed",
         "each query's weights are a row: mix the values with the weights as they are.",
         _three_lines(mix=lambda p, q, k, v: p.mT @ v)),
        ("K is read in place of V", "the weights mix the values: the last product takes v.",
         _three_lines(mix=lambda p, q, k, v: p @ k)),
        ("K is reshaped, not transposed",
         "k was given the shape (head_dim, n_k), but its numbers kept their order: k.T has them in "
         "columns.",
         lambda q, k, v: _three_lines()(q, _reshaped(as_float64(k)), v)),
        (BASES, "exp and exp2 do not belong together: the weights and their sum take the same.",
         *(_three_lines(exps=exps, top=top)
           for exps in ((np.exp, np.exp2), (np.exp2, np.exp))
           for top in (_OF_A_ROW["top"], lambda s: 0))),
        ("one sum for the whole chart",
         "e.sum() adds up all rows, so only all weights together sum to 1: divide each row by its "
         "own sum, along axis -1.",
         _three_lines(total=np.sum)),
    ),
)  # fmt: skip
_OTHER_MAXIMA = table(
    (UNSCALED_MAXIMUM, SAYS[UNSCALED_MAXIMUM], _maximum_of_unscaled),
    (BASES,
     "the scores are given another base (a factor log2(e)) and the maximum that is subtracted from "
     "them is not, or the other way round: exp of the difference overflows, or vanishes. Give both "
     "the factor, or neither.",
     *(_three_lines(top=partial(_maximum_times, unit)) for unit in (LN_2, 1 / LN_2))),
    ("no maximum is subtracted",
     "Without it exp overflows to infinity, or every exp of a row is 0: subtract the row's maximum "
     "before exp.",
     _three_lines(top=lambda s: 0)),
    ("one maximum for the whole chart",
     "s.max() is the maximum of all rows. A row that lies far below it gets nothing but zeros: "
     "take the maximum of each row.",
     _three_lines(top=lambda s: s.max())),
    ("the maximum of each column",
     "The maximum is taken down the columns (axis 0): each row needs its own, along axis 1.",
     _three_lines(top=lambda s: s.max(axis=0, keepdims=True))),
    (NOT_THE_MAXIMUM,
     "Another number of the row than its maximum is subtracted: where a score lies far above it, "
     "exp overflows, and where all lie far below, it vanishes.",
     _three_lines(top=lambda s: s.mean(axis=1, keepdims=True)),
     _three_lines(top=lambda s: s.min(axis=1, keepdims=True)),
     _three_lines(top=lambda s: np.abs(s).max(axis=1, keepdims=True)),
     _three_lines(top=lambda s: s[:, :1])),
    (NOT_THE_MAXIMUM,
     "A bound that no score is above, |q| times the longest k, is subtracted: where all scores of "
     "a row lie far below it, every exp is 0. Subtract the row's own maximum.",
     *(partial(_below_a_bound, longest=longest) for longest in (np.asarray, np.max))),
    ("keepdims is missing",
     "Without keepdims=True the row maxima or sums are laid along the columns.",
     _three_lines(top=lambda s: s.max(axis=1), total=lambda e: e.sum(axis=1)),
     _three_lines(top=lambda s: s.max(axis=1)),
     _three_lines(total=lambda e: e.sum(axis=1)),
     _three_lines(top=lambda s: np.logaddexp.reduce(s, axis=1), total=lambda e: 1)),
)  # fmt: skip


IN_NUMPY = Exercise.of(
    "1.2",
    cases=_numpy_cases,
    truth=attention_truth,
    answer=output_only,
    judge=tells_what_is_cut_off(_judge_numpy, _cut_off),
    without_torch=True,
    mistakes=(
        *_ROW_MISTAKES,
        *Mistake.table(
            (
                "single precision",
                "numbers of float64 are made float32: that has seven digits, and nothing is larger "
                "than 3.4e38. Compute in the precision of the inputs.",
                *(partial(_in_single, root=root) for root in (np.float32, np.float64)),
            )
        ),
        # each twice: dividing by np.sqrt(d) makes float32 scores float64, dividing by math.sqrt(d)
        # does not, and exp overflows elsewhere
        *(
            Mistake(name, says, partial(model, dtype=dtype))
            for name, says, model in _OTHER_MAXIMA
            for dtype in (np.float32, np.float64)
        ),
    ),
)


def _torch_cases(rng: Generator) -> list[Case]:
    # so many tokens of so few numbers that all trips of Q, K, V and O make less than one of S
    n, n_q, n_k = (int(x) for x in rng.choice(np.arange(150, 250), 3, replace=False))
    heads = int(rng.integers(2, 5))

    def flat(*shape: int, dtype: str = "float32", **kwargs: Any) -> tuple[Any, ...]:
        return cases.as_tensors(cases.draw(rng, *shape, **kwargs), dtype)

    wide = cases.as_tensors(cases.draw(rng, n_q, n_k, 8, heads=(2, heads)), strided="all")
    counted = [
        Case(name, qkv, counted=True)
        for name, qkv in (
            (f"{n_q} queries and {n_k} keys in 2-D", flat(n_q, n_k, 8)),
            (f"batch 2, {heads} heads, strided", wide),
            ("q and k four times as large", flat(n_q, n_k, 8, size=4)),
            ("half precision", flat(n_q, n_k, 8, dtype="float16", heads=(1, heads))),
            ("bfloat16", flat(n, n, 8, dtype="bfloat16")),
            (f"{heads} heads of {n} tokens", flat(n, n, 8, heads=(1, heads))),
            ("1100 tokens, head_dim 64", flat(1100, 1100, 64)),
        )
    ]
    uneven = [(name, cases.as_tensors(qkv)) for name, qkv in magnitudes.uneven(rng, 9, 11, 5)]
    # here one trip of q or of k may be more than one of the scores: trips are not counted
    return [*counted, *(Case(*one) for one in (*uneven, *_related_tensors(rng)))]


def _related_tensors(rng: Generator) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield sizes by relation, of one head in 2-D and of more in 4-D, with a name."""
    batches = cycle(sizes.paired(rng, batch=sizes.FEW, heads=sizes.HEADS))
    for n_q, n_k, d in sizes.attention(rng):
        one = next(batches)
        heads = (one["batch"], one["heads"]) if rng.integers(4) else ()
        qkv = cases.draw(rng, n_q, n_k, d, heads=heads)
        what = f"batch {heads[0]}, {heads[1]} heads, " if heads else ""
        yield f"{what}{n_q} queries, {n_k} keys, d = {d}", cases.as_tensors(qkv)


def _judge_torch(case: Case, observed: Observed, expected: Any) -> Finding | None:
    from course_lib.attention.naive_eager import naive_eager

    o_true, (q, k, v) = expected[0], case.args
    if fault := faults.find_fault(observed.result, q.new_empty(o_true.shape)):
        return fault
    dtype = str(q.dtype).removeprefix("torch.")
    allowed = allowed_error(o_true, as_float64(naive_eager(q, k, v)), dtype)
    if finding := array_finding(observed.result, o_true, allowed=allowed, name="o"):
        return finding
    if observed.ledger is None:
        return None
    return hidden_finding(observed.ledger) or _trips_finding(observed.ledger, q, k)


_THE_LINES = ("mm", "bmm", "matmul", "_softmax")
_MOST_ROWS = 24  # of the ledger: who loops has thousands


def _trips_finding(ledger: Any, q: Any, k: Any) -> Finding | None:
    """Count the trips of the scores and the weights, whole or in parts, of 2 bytes or of 4.

    That is all but the inputs: what is as small as they are makes less than one trip. In half
    precision a softmax may be in float32, and PyTorch on a GPU converts on the way.
    """
    half = q.element_size() == 2
    n_scores = q.shape[:-1].numel() * k.shape[-2]
    own = [x for x in ledger.crossings if x.tensor != "input"]
    counted = [x for x in own if not (half and x.op == "_to_copy")]
    trips = sum(x.n_bytes // x.itemsize for x in counted) // n_scores
    fused = any(x.op.startswith("_scaled_dot") or x.op == "_safe_softmax" for x in own)
    if trips == 4 and not fused:
        return None
    if fused:
        says = "the answer is right, but a fused operator did the work."
        return Finding("makes four trips", says, look="write the three lines yourself.")
    says = f"the answer is right, but the ledger counts {trips} trips of an N x N matrix, not 4."
    if trips != ledger.trips(n_scores * q.element_size()) and not half:
        says += " (What crosses in parts is added up.)"
    if all("_softmax" not in x.op for x in ledger.crossings):
        says += " Use torch.softmax: it is one operation."
    elif more := _too_many(counted, n_scores):
        says += (
            f" Besides the two products and one softmax there are trips of {more}. Which need none?"
        )
    shown = ledger.crossings[:_MOST_ROWS]
    rows = "\n".join(f"{c.op:<10} {c.direction:<8} {c.n_bytes} bytes" for c in shown)
    if len(shown) < len(ledger.crossings):
        rows += f"\n... and {len(ledger.crossings) - len(shown)} more"
    bars = TrafficBars("N x N matrices read or written", (Bar("N x N", trips, 4),), "trips")
    return Finding("makes four trips", says, rows, picture=bars)


def _too_many(counted: list[Any], n_scores: int) -> str:
    """Return the operations that make trips which the three lines do not, and how many each."""
    numbers: Counter[str] = Counter()
    for x in counted:
        numbers[x.op] += x.n_bytes // x.itemsize
    needed = dict.fromkeys(_THE_LINES, 2)
    trips = {op: n // n_scores - needed.get(op, 0) for op, n in numbers.items()}
    return ", ".join(f"`{op}` ({n})" for op, n in trips.items() if n > 0)


_AXIS_MISTAKES = Mistake.table(
    ("queries see the keys of other heads",
     "the rows of several heads are laid one after the other, so that each query sees the keys of "
     "all: leave the axes as they are, and q @ k.mT multiplies head by head.",
     partial(_of_all_heads, batch=True), partial(_of_all_heads, batch=False)),
    ("dimensions are counted from the left",
     "dimension 1 is the last one in 2-D only: in 4-D it is the heads. Count from the right: -1 is "
     "the last dimension, whatever comes before it.",
     _three_lines(lambda q, k: q.shape[1] ** -0.5), _three_lines(**_along(1))),
    ("softmax over the wrong axis",
     "each query's weights are the last dimension, and the softmax runs along the first.",
     _three_lines(**_along(0))),
)  # fmt: skip


IN_TORCH = Exercise.of(
    "1.4",
    cases=_torch_cases,
    truth=attention_truth,
    answer=output_only,
    judge=_judge_torch,
    kind="torch",
    spared=dict.fromkeys(HARD, "torch.softmax takes the maximum: what is asked is the trips"),
    mistakes=(*_ROW_MISTAKES, *_AXIS_MISTAKES),
)
