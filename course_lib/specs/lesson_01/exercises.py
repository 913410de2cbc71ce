"""Exercises of lesson 01, naive attention."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import cases
from course_lib.judging.attention_judge import attention_truth, output_only
from course_lib.judging.judges import array_finding, within
from course_lib.judging.misconceptions import attention_mistakes
from course_lib.judging.picture import Bar, TrafficBars
from course_lib.judging.questions import question, wrong_answer
from course_lib.judging.spec import Case, Exercise, Finding, Mistake, Observed
from course_lib.judging.tolerance import allowed_error, as_float64, score_rounding
from course_lib.sandbox import faults

# --- 1.1 -----------------------------------------------------------------------------------------

_LINEAR = "The scores have a row and a column for every token: both sides double."
_MATMULS = (
    "Lines 1 and 3 do nearly all of the arithmetic, but each makes one trip of an N x N matrix. "
    "Count the trips of line 2."
)
_WRONG_PREDICTIONS = [
    *(wrong_answer((2, line), "linear thinking", _LINEAR) for line in (1, 2, 3)),
    *(wrong_answer((4, line), "the matmuls dominate", _MATMULS) for line in (1, 3)),
    wrong_answer((2, 4), "the two values are exchanged", "Return `how many times` first."),
]

# --- 1.2 -----------------------------------------------------------------------------------------


def _numpy_cases(rng: Generator) -> list[Case]:
    n, n_q, n_k = (int(x) for x in rng.choice(np.arange(20, 60), 3, replace=False))
    d = int(rng.choice([16, 32]))
    return [
        Case(f"{n} tokens, head_dim {d}", cases.draw(rng, n, n, d)),
        Case(f"{n_q} queries and {n_k} keys", cases.draw(rng, n_q, n_k, 64)),
        Case("q and k four times as large", cases.draw(rng, n_q, n_k, 32, size=4)),
        # float32 / np.sqrt(d) is float64 in NumPy, where exp overflows above 709 only
        Case("scores near +1000", cases.shifted(rng, n, n_k, 16, 1000)),
        Case("scores near -1000", cases.shifted(rng, n, n_k, 16, -1000)),
        Case("rows whose scores lie from -1000 to +1000", _far_rows(rng, n_q, n_k, 16)),
        Case(
            "one key",
            cases.draw(rng, n_q, 1, 16),
            blind_to=frozenset({"mean(V)"}),
        ),
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
    allowed = allowed_error(o_true, as_float64(naive(*case.args)), "float32")
    return array_finding(got, o_true, allowed=allowed + score_rounding(*case.args), name="o")


Take = Callable[[np.ndarray], Any]


def _with_max(take: Take, take_sum: Take, dtype: Any) -> Callable[..., np.ndarray]:
    """Return attention that subtracts ``take(scores)`` where the row's maximum goes."""

    def model(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        s = q @ k.T / np.sqrt(dtype(q.shape[-1]))
        e = np.exp(s - take(s))
        return (e / take_sum(e)) @ v

    return model


def _max_mistakes() -> tuple[Mistake, ...]:
    """Return each mistake twice: dividing by np.sqrt(d) makes float32 scores float64, dividing
    by math.sqrt(d) does not, and exp overflows elsewhere."""

    def row_sum(e: np.ndarray) -> np.ndarray:
        return e.sum(axis=-1, keepdims=True)

    return tuple(
        Mistake(name, says, _with_max(take, take_sum or row_sum, dtype))
        for name, says, take, take_sum in _MAX_MISTAKES
        for dtype in (np.float32, np.float64)
    )


_MAX_MISTAKES: tuple[tuple[str, str, Take, Take | None], ...] = (
    (
        "no maximum is subtracted",
        "Without it exp overflows to infinity, or every exp of a row is 0: subtract the row's "
        "maximum before exp.",
        lambda s: 0,
        None,
    ),
    (
        "one maximum for the whole chart",
        "s.max() is the maximum of all rows. A row that lies far below it gets nothing but "
        "zeros: take the maximum of each row.",
        lambda s: s.max(),
        None,
    ),
    (
        "the maximum of each column",
        "The maximum is taken down the columns (axis 0): each row needs its own, along axis 1.",
        lambda s: s.max(axis=0, keepdims=True),
        None,
    ),
    (
        "scores are clipped, not shifted",
        "Above the limit all scores become alike: subtract the row's maximum, which keeps their "
        "differences.",
        lambda s: s - np.clip(s, -80, 80),
        None,
    ),
    *(
        (
            "keepdims is missing",
            "Without keepdims=True the row maxima or sums are laid along the columns.",
            lambda s, keep=keep_max: s.max(axis=1, keepdims=keep),
            lambda e, keep=keep_sum: e.sum(axis=1, keepdims=keep),
        )
        for keep_max, keep_sum in ((False, False), (False, True), (True, False))
    ),
)
_SUM_MISTAKE = Mistake(
    "one sum for the whole chart",
    "e.sum() adds up all rows, so only all weights together sum to 1: divide each row by its own "
    "sum, along axis 1.",
    _with_max(lambda s: s.max(axis=1, keepdims=True), lambda e: e.sum(), np.float64),
)
_SHARED = {
    "the scale is missing",
    "scaled twice",
    "the scale is upside down",
    "softmax over the wrong axis",
    "not divided by l",
}


def _three_lines(
    scale: Callable[[Any], float] = lambda q: q.shape[-1] ** -0.5,
    *,
    exchanged: bool = False,
    axis: int = -1,
    sum_axis: int | None = None,
    mix: Callable[..., Any] = lambda p, q, k, v: p @ v,
) -> Callable[..., np.ndarray]:
    """Return a model of the lesson's three lines, with a slip in one of them."""

    def model(q: Any, k: Any, v: Any) -> np.ndarray:
        q, k, v = as_float64(q), as_float64(k), as_float64(v)
        s = (k @ q.mT if exchanged else q @ k.mT) * scale(q)
        e = np.exp(s - s.max(axis=-1 if sum_axis else axis, keepdims=True))
        return mix(e / e.sum(axis=sum_axis or axis, keepdims=True), q, k, v)

    return model


def _by_rows(power: float, q: Any) -> float:
    return 1 / q.shape[-2] ** power


_ROW_MISTAKES = (
    # a model's last argument, skipping, makes a difference under a causal mask only
    *(m for m in attention_mistakes() if m.name in _SHARED and m.model.args[-1]),  # type: ignore[attr-defined]
    *(
        Mistake(
            "scaled by the number of tokens",
            "the number of rows of q is the number of queries. d is the length of a row.",
            _three_lines(functools.partial(_by_rows, rows)),
        )
        for rows in (0.5, 1)
    ),
    Mistake(
        "the weights are scaled, not the scores",
        "the scale belongs before the softmax: after it, the weights of a row no longer sum to 1.",
        _three_lines(lambda q: 1, mix=lambda p, q, k, v: p @ v * q.shape[-1] ** -0.5),
    ),
    Mistake(
        "the sum of each column",
        "the maximum is that of each row, but the sum runs down the columns (axis 0).",
        _three_lines(sum_axis=-2),
    ),
    Mistake(
        "q and k are exchanged",
        "the scores are those of k with q: a row must belong to a query, q @ k.T.",
        _three_lines(exchanged=True),
    ),
    Mistake(
        "the weights are transposed",
        "each query's weights are a row: mix the values with the weights as they are.",
        _three_lines(mix=lambda p, q, k, v: p.mT @ v),
    ),
    Mistake(
        "K is read in place of V",
        "the weights mix the values: the last product takes v.",
        _three_lines(mix=lambda p, q, k, v: p @ k),
    ),
)

# --- 1.3 -----------------------------------------------------------------------------------------

_TRIPS = ("write_s", "read_s", "write_p", "read_p")


def _books(
    n: int, d: int, itemsize: int, *, square: int | None = None, linear: int | None = None
) -> dict[str, float]:
    """Return the answer of 1.3, if one (n, n) matrix has ``square`` bytes and Q, K, V, O
    ``linear`` together."""
    square = n * n * itemsize if square is None else square
    linear = 4 * n * d * itemsize if linear is None else linear
    total = 4 * square + linear
    trips = dict.fromkeys(_TRIPS, square)
    return {
        "qkvo": linear,
        **trips,
        "total": total,
        "total_gb": total / 1e9,
        "s_mib": square / 2**20,
    }


def _changed(**changes: Callable[[dict[str, float]], float]) -> Callable[..., dict[str, float]]:
    """Return a model of 1.3 in which some entries are computed from the right ones."""

    def model(n: int, d: int, itemsize: int) -> dict[str, float]:
        right = _books(n, d, itemsize)
        return right | {key: change(right) for key, change in changes.items()}

    return model


def _without_reads(n: int, d: int, itemsize: int) -> dict[str, float]:
    right = _books(n, d, itemsize)
    total = right["total"] - right["read_s"] - right["read_p"]
    return right | {"total": total, "total_gb": total / 1e9}


def _without_qkvo(n: int, d: int, itemsize: int) -> dict[str, float]:
    right = _books(n, d, itemsize)
    total = right["total"] - right["qkvo"]
    return right | {"total": total, "total_gb": total / 1e9}


def _six_trips(n: int, d: int, itemsize: int) -> dict[str, float]:
    right = _books(n, d, itemsize)
    total = right["total"] + right["write_s"] + right["read_s"]
    return right | {"total": total, "total_gb": total / 1e9}


def _trip_cases(rng: Generator) -> list[Case]:
    def case(n: int, d: int, itemsize: int) -> Case:
        return Case(f"n = {n}, d = {d}, itemsize = {itemsize}", (n, d, itemsize))

    n = int(rng.integers(100, 5000))
    return [
        case(8192, 128, 2),
        case(n, int(rng.choice([16, 32, 64])), 4),
        case(3, 2, 2),
    ]


_TRIP_MISTAKES = (
    Mistake(
        "the reads are forgotten in the total",
        "What was written is read again by the next step: S and P count twice each.",
        _without_reads,
    ),
    Mistake(
        "Q, K, V and O are not in the total",
        "The total is all trips: S and P, and Q, K, V and O as well.",
        _without_qkvo,
    ),
    Mistake(
        "a reading counts nothing",
        "Reading a matrix moves as many bytes as writing it.",
        _changed(read_s=lambda _: 0, read_p=lambda _: 0),
    ),
    Mistake(
        "a reading counts nothing",
        "Reading a matrix moves as many bytes as writing it.",
        lambda *shape: _without_reads(*shape) | {"read_s": 0, "read_p": 0},
    ),
    Mistake(
        "six trips instead of four",
        "Eager code that scales the scores makes six. The exercise asks for four.",
        _six_trips,
    ),
    Mistake(
        "KiB instead of MiB",
        "Dividing by 1024 once gives KiB. MiB are bytes / 2**20.",
        _changed(s_mib=lambda right: right["write_s"] / 1024),
    ),
    Mistake(
        "MB instead of MiB",
        "s_mib is in MiB: divide by 2**20, not by 10**6.",
        _changed(s_mib=lambda right: right["write_s"] / 1e6),
    ),
    Mistake(
        "GiB instead of GB",
        "total_gb is in GB: divide by 10**9, not by 2**30.",
        _changed(total_gb=lambda right: right["total"] / 2**30),
    ),
    Mistake(
        "MiB and GB the wrong way round",
        "GB is a power of ten, MiB a power of two.",
        _changed(
            s_mib=lambda right: right["write_s"] / 1e6,
            total_gb=lambda right: right["total"] / 2**30,
        ),
    ),
    Mistake(
        "elements instead of bytes",
        "An element has `itemsize` bytes: multiply by it.",
        lambda n, d, itemsize: _books(n, d, 1),
    ),
    Mistake(
        "O is forgotten",
        "Q, K and V are read, and O is written: four matrices of n x d.",
        lambda n, d, itemsize: _books(n, d, itemsize, linear=3 * n * d * itemsize),
    ),
    Mistake(
        "only one of Q, K, V and O",
        "Q, K, V and O are four matrices of n x d.",
        lambda n, d, itemsize: _books(n, d, itemsize, linear=n * d * itemsize),
    ),
    Mistake(
        "S is n x d",
        "S has a row and a column for every token: n x n.",
        lambda n, d, itemsize: _books(n, d, itemsize, square=n * d * itemsize),
    ),
)

# --- 1.4 -----------------------------------------------------------------------------------------


def _torch_cases(rng: Generator) -> list[Case]:
    n_q, n_k = (int(x) for x in rng.choice(np.arange(20, 90), 2, replace=False))
    n, heads = int(rng.integers(150, 250)), int(rng.integers(2, 5))

    def flat(*shape: int, dtype: str = "float32", **kwargs: Any) -> tuple[Any, ...]:
        return cases.as_tensors(cases.draw(rng, *shape, **kwargs), dtype)

    wide = cases.as_tensors(cases.draw(rng, n_q, n_k, 32, heads=(2, heads)), strided=True)
    return [
        Case(f"{n_q} queries and {n_k} keys in 2-D", flat(n_q, n_k, 16)),
        Case(f"batch 2, {heads} heads, strided", wide),
        Case("q and k four times as large", flat(n_q, n_k, 64, size=4)),
        Case("half precision", flat(n_q, n_k, 64, dtype="float16", heads=(1, heads))),
        Case(f"{n} tokens in 2-D, counted", flat(n, n, 16), counted=True),
        Case(
            f"{heads} heads of {n} tokens, counted",
            flat(n, n, 16, heads=(1, heads)),
            counted=True,
        ),
    ]


def _judge_torch(case: Case, observed: Observed, expected: Any) -> Finding | None:
    from course_lib.attention.naive_eager import naive_eager

    o_true, (q, k, v) = expected[0], case.args
    if fault := faults.find_fault(observed.result, q.new_empty(o_true.shape)):
        return fault
    dtype = str(q.dtype).removeprefix("torch.")
    allowed = allowed_error(o_true, as_float64(naive_eager(q, k, v)), dtype)
    if finding := array_finding(observed.result, o_true, allowed=allowed, name="o"):
        return finding
    return _trips_finding(observed.ledger, q, k) if observed.ledger is not None else None


def _trips_finding(ledger: Any, q: Any, k: Any) -> Finding | None:
    trips = ledger.trips(q.shape[:-1].numel() * k.shape[-2] * q.element_size())
    if trips == 4:
        return None
    says = f"the answer is right, but the ledger counts {trips} trips of an N x N matrix, not 4."
    if trips == 0:
        says += " A fused operator did the work: write the three lines yourself."
    elif trips > 6:
        says += " Use torch.softmax: it is one operation."
    elif trips == 6:
        says += " Which operation besides softmax still passes over all the scores?"
    rows = "\n".join(f"{c.op:<10} {c.direction:<8} {c.n_bytes} bytes" for c in ledger.crossings)
    bars = TrafficBars("N x N matrices read or written", (Bar("N x N", trips, 4),), "trips")
    return Finding("makes four trips", says, rows, picture=bars)


_LEFT_MISTAKES = tuple(
    Mistake(
        "dimensions are counted from the left",
        "dimension 1 is the last one in 2-D only: in 4-D it is the heads. Count from the right: "
        "-1 is the last dimension, whatever comes before it.",
        model,
    )
    for model in (_three_lines(lambda q: q.shape[1] ** -0.5), _three_lines(axis=1))
)

# --- the exercises -------------------------------------------------------------------------------

EXERCISES = (
    question(
        "1.1",
        "predict_doubling",
        "What doubles, and what costs most",
        (4, 2),
        minutes=3,
        points=1,
        hints=(
            "Draw the chart of scores for 2 tokens and for 4 tokens, and count the squares.",
            "For the second number count, line by line, how often an N x N matrix is read or "
            "written.",
            "Lines 1 and 3 make one such trip each; line 2 divides and then takes a softmax.",
        ),
        notice="Both guesses that most people make, `twice` and `the matmuls`, come from "
        "counting arithmetic. This course counts bytes.",
        wrong=_WRONG_PREDICTIONS,
    ),
    Exercise(
        id="1.2",
        function="naive_attention",
        signature="(q, k, v)",
        title="Attention in NumPy",
        minutes=8,
        points=2,
        hints=(
            "Three steps: the scores, the weights, the mix of values. Only the middle one takes "
            "more than one line.",
            "For the weights: subtract each row's maximum, take exp, divide by each row's sum. "
            "A row is axis 1; keepdims=True keeps it a column that fits.",
            "scores = q @ k.T / np.sqrt(d), and e = np.exp(scores - scores.max(axis=1, "
            "keepdims=True)); the division by the row sums and the last product are yours.",
        ),
        cases=_numpy_cases,
        truth=attention_truth,
        answer=output_only,
        judge=_judge_numpy,
        notice="The largest thing your function made is none of its inputs and not its output: "
        "it is the N x N matrix in the middle, and you made it several times over.",
        mistakes=(*_ROW_MISTAKES, *_max_mistakes(), _SUM_MISTAKE),
    ),
    Exercise(
        id="1.3",
        function="trip_bytes",
        signature="(n, d, itemsize)",
        title="The bytes of every trip",
        minutes=8,
        points=2,
        hints=(
            "One matrix of N x N elements travels four times; four matrices of N x d travel once.",
            "Bytes are elements times itemsize. The total is all four trips and qkvo together.",
            "square = n * n * itemsize fills four entries, 4 * n * d * itemsize the first; "
            "GB means / 1e9 and MiB means / 2**20.",
        ),
        cases=_trip_cases,
        truth=_books,
        judge=within(1e-9),
        notice="With n = 8192 and d = 128, S and P make up all but 1.5 % of the total: the parts "
        "that nobody asked for are nearly everything that moves.",
        mistakes=_TRIP_MISTAKES,
    ),
    Exercise(
        id="1.4",
        function="scale_queries_first",
        signature="(q, k, v)",
        title="Six trips become four",
        minutes=8,
        points=3,
        hints=(
            "(q @ k.mT) / sqrt(d) divides N x N numbers. What else could be divided by sqrt(d) "
            "and give the same scores?",
            "(q / c) @ k.mT equals (q @ k.mT) / c, and q has only N x d numbers.",
            "Divide q by math.sqrt(q.shape[-1]) before the first product; then softmax with "
            "dim=-1, then the second product. k.mT swaps the last two dimensions in 2-D and 4-D.",
        ),
        cases=_torch_cases,
        truth=attention_truth,
        answer=output_only,
        judge=_judge_torch,
        notice="One division moved, and a third of the traffic is gone, with the same arithmetic "
        "to rounding. Elementwise work is cheap in FLOPs and expensive in bytes.",
        kind="torch",
        mistakes=(*_ROW_MISTAKES, *_LEFT_MISTAKES),
    ),
)
