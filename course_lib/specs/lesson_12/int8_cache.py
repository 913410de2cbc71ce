"""Exercise 12.2: K and V in one byte a number, a scale for each token and head, and the error.

Longer than 400 lines because its mistakes are one table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging import sizes
from course_lib.judging.faults import find_fault
from course_lib.judging.finding import Finding
from course_lib.judging.judges import array_finding
from course_lib.judging.spec import FAR, REMAINDER, Case, Exercise, Mistake, Observed
from course_lib.judging.tolerance import as_float64, output_rounding
from course_lib.specs.lesson_10.caches import (
    heads_side_by_side,
    of_the_scale,
    of_the_softmax,
    rows_as_heads,
    softmax,
)

Array = np.ndarray
Rows = tuple[Array, Array]  # numbers (B, H, n, d) and scales (B, H, n, 1)
_AXES = ("sequence", "head", "token", "column")
_ONE = np.ones(1)  # the scale of rows that are as they came


def _case(
    name: str, qkv: Any, *, dtype: str = "float32", strided: bool = False, **flags: Any
) -> Case:
    tensors = (draw.tensor(x, dtype) for x in qkv)
    return Case(name, tuple(heads_side_by_side(*tensors) if strided else tensors), **flags)


def _drawn(rng: Generator, heads: int, n: int, d: int, **how: Any) -> draw.Triple:
    return draw.draw(rng, 1, n, d, heads=(2, heads), **how)


def _uneven(rng: Generator) -> draw.Triple:
    """Return tokens and heads of different sizes: an outlier a head of K and of V, and a midget."""
    q, k, v = _drawn(rng, 3, 9, 8)
    k[:, :, 4] *= 1000
    v[:, :, 6] *= 1000
    q[..., :4], k[:, :, 4, 4:] = 0, 0  # the outlier does not take all the weight
    k[:, :, 2] *= 1e-4
    v[:, :, 1] *= 1e-4
    return q, k, v


def _with_zeros(rng: Generator) -> draw.Triple:
    q, k, v = _drawn(rng, 2, 6, 8)
    k[0, 0, 3] = v[0, 1, 2] = v[1, 0, :] = 0
    return q, k, v


def _tiny(rng: Generator, size: float) -> draw.Triple:
    q, k, v = _drawn(rng, 2, 6, 8)
    return q, k * size, v * size


def _cases(rng: Generator) -> list[Case]:
    n = int(rng.integers(6, 14))
    heads = 2, 3
    far = draw.farthest(rng, 1, 129, 16, heads=heads)
    hard = [*draw.hard(rng, 1, 129, 16, heads=heads),
            (draw.FARTHEST_NAME, far, frozenset({FAR, REMAINDER}))]  # fmt: skip
    jump = draw.jumping(rng, 3, 129, 16, 2000.0, heads=(2,))  # of its three rows each is a head's
    return [
        _case("2 sequences of 5 tokens, 3 heads", _drawn(rng, 3, 5, 8)),
        # early: slips in tiles are alike in one tile, and a name is confirmed by what comes next
        _case("150 tokens whose scores climb by 20",
              draw.sloped(rng, 1, 150, 16, 20.0, heads=(2, 2))),
        _case(f"2 sequences of {n} tokens, 2 heads", _drawn(rng, 2, n, 16)),
        _case("one token", _drawn(rng, 3, 1, 8)),
        _case("a token of K and one of V are 1000 times as large as the others", _uneven(rng)),
        _case("rows of zeros in K and in V", _with_zeros(rng)),
        *(_case(f"rows of {size:g}", _tiny(rng, size), blind_to=frozenset({"mean(V)", *blind}))
          for size, blind in ((1e-9, ()), (1e-20, ("zeros",)))),
        _case("memory that lies as (B, n, H, d)", _drawn(rng, 3, 7, 8), strided=True),
        _case("bfloat16 inputs", _drawn(rng, 3, 11, 16), dtype="bfloat16"),
        *(_case(name, qkv, shows=shows) for name, qkv, shows in hard[1:]),
        _case(hard[0][0], rows_as_heads(*jump), shows=hard[0][2]),
        *(
            _case(f"{one['n']} tokens, {one['heads']} heads, d = {one['d']}",
                  _drawn(rng, one["heads"], one["n"], one["d"]))
            for one in sizes.paired(rng, n=(2, 3, 17, 65), heads=sizes.FEW, d=sizes.WIDTHS[1:])
        ),
    ]  # fmt: skip


# The right answer, and others ---------------------------------------------------------------------


def _largest(x: Array, axes: Any = -1) -> Array:
    return np.asarray(np.abs(x).max(axis=axes, keepdims=True))


def _by(
    largest: Array, x: Array, over: float = 127, to: Callable[[Array], Array] = np.rint
) -> Rows:
    """Return x in scales ``largest / over``; what int8 does not hold comes out at its other end."""
    return _in(np.where(largest == 0, 1, largest / over), x, to)


def _in(scale: Array, x: Array, to: Callable[[Array], Array] = np.rint) -> Rows:
    """Return x in these scales.

    In float32, as it is asked for: who cuts off sees whether 127 is a little less there.
    """
    scale = scale.astype(np.float32)
    numbers = to(x.astype(np.float32) / scale).astype(np.float64)
    return (numbers + 128) % 256 - 128, scale.astype(np.float64)


def _rows(x: Array, of: Callable[[Array], Array] = _largest, **how: Any) -> Rows:
    return _by(of(x), x, **how)


def _attend(
    q: Array,
    k: Rows,
    v: Rows,
    *,
    power: float = 0.5,
    weights: Callable[[Array], Array] = softmax,
) -> Array:
    s = q @ (k[0] * k[1]).mT * q.shape[-1] ** -power
    return weights(s) @ (v[0] * v[1])


def _answer(
    *,
    rows: Callable[[Array], Rows] = _rows,
    attend: Callable[[Array, Rows, Rows], Array] = _attend,
    error: Callable[[Array, Array], Any] = lambda o, exact: np.abs(o - exact).max(),
    compared: Literal["came", "kept"] = "came",
    compared_by: Callable[..., Array] = _attend,
    attended: str = "kv",
    of_rows: Callable[[Array, Array], Any] | None = None,
    returned: str = "",
) -> Callable[..., Any]:
    """Return a model: how ``rows`` are kept, who attends to them, and what the error is.

    o is ``compared`` with attention (``compared_by``) over K and V as they came, or over what is
    kept. What is not ``attended`` as it is kept is as it came. ``returned``: "exact" in place of o.
    """

    def model(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (as_float64(x) for x in (q, k, v))
        with np.errstate(all="ignore"):
            k_rows, v_rows = rows(k), rows(v)
            kept, came = (k_rows, v_rows), ((k, _ONE), (v, _ONE))
            o = attend(
                q, *(kept[i] if name in attended else came[i] for i, name in enumerate("kv"))
            )
            with_what = kept if compared == "kept" else came
            exact = compared_by(q, *with_what)
            off = of_rows(k, k_rows[0] * k_rows[1]) if of_rows else error(o, exact)
        return exact if returned else o, float(off), k_rows, v_rows

    return model


# Judging ------------------------------------------------------------------------------------------


def _judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
    import torch

    if fault := find_fault(observed.result, (0.0, 0.0, 0.0, 0.0)):
        return fault
    o, error, *kept = observed.result
    q, k, v = (x.float() for x in case.args)
    if fault := find_fault(o, q, "`o`"):
        return fault
    for x, rows, truth, name in zip((k, v), kept, expected[2:], ("k_rows", "v_rows"), strict=True):
        like = x.new_empty(x.shape, dtype=torch.int8), x[..., :1]
        if finding := _rows_finding(as_float64(x), rows, like, truth, name):
            return finding
    held = [as_float64(numbers) * as_float64(scale) for numbers, scale in kept]
    right = _attend(as_float64(q), (held[0], _ONE), (held[1], _ONE))
    exact = _attend(as_float64(q), (as_float64(k), _ONE), (as_float64(v), _ONE))
    may = 1e-5 * max(1.0, float(np.abs(right).max())) + output_rounding(q, *held)
    if finding := array_finding(o, right, allowed=may, name="`o`", axes=_AXES):
        return finding
    may += 1e-5 * float(np.abs(exact).max()) + output_rounding(q, k, v)
    off = np.abs(right - exact).max()
    if getattr(error, "size", None) == 1 or getattr(error, "numel", lambda: 0)() == 1:
        error = error.reshape(())  # a tensor, or an array, that holds one number
    return array_finding(error, np.asarray(off), allowed=may, name="`error`")


def _rows_finding(x: Array, rows: Any, like: Any, truth: Rows, name: str) -> Finding | None:
    """Return what is wrong with the numbers and scales that are kept of rows x (B, H, n, d)."""
    if fault := find_fault(rows, (0.0, 0.0), f"`{name}`"):
        return fault
    for i in range(2):
        if fault := find_fault(rows[i], like[i], f"`{name}[{i}]`"):
            return fault
    numbers, scale = (as_float64(y) for y in rows)
    empty = _largest(x) == 0
    fine = np.where(empty, (scale > 0) & np.isfinite(scale), abs(scale / truth[1] - 1) < 1e-5)
    scale = np.where(fine, truth[1], scale)
    if finding := array_finding(scale, truth[1], allowed=0, name=f"`{name}[1]`", axes=_AXES):
        return finding
    nearest = abs(x / truth[1] - numbers) < 0.502  # of two as near either one
    numbers = np.where(nearest, truth[0], numbers)
    return array_finding(numbers, truth[0], allowed=0, name=f"`{name}[0]`", axes=_AXES)


# What people do instead ---------------------------------------------------------------------------


def _shared(axes: Any, keeps: bool) -> Callable[[Array], Rows]:
    """Return rows whose scale is shared along ``axes``; ``keeps``: it is written for each row."""

    def rows(x: Array) -> Rows:
        numbers, scale = _by(_largest(x, axes), x)
        return numbers, np.broadcast_to(scale, (*x.shape[:-1], 1)) if keeps else scale

    return rows


def _zero_point(x: Array) -> Rows:
    low, high = x.min(axis=-1, keepdims=True), x.max(axis=-1, keepdims=True)
    scale = np.where(high == low, 1, (high - low) / 255)
    return np.rint((x - low) / scale) - 128, scale


def _clamped(x: Array, low: float = -128) -> Rows:
    scale = np.where(_largest(x) == 0, 1, _largest(x) / 128)
    return np.clip(np.rint(x / scale), low, 127), scale


def _at_least(x: Array, least: float, added: float = 0, of_zeros: float | None = 1) -> Rows:
    """Return rows whose scales are guarded by a small number, which is not small to all rows.

    ``of_zeros``: the scale of a row of zeros, None: that number.
    """
    guarded = np.maximum(_largest(x) / 127, least) + added
    return _in(np.where(_largest(x) == 0, of_zeros or guarded, guarded), x)


def _rounded(x: Array, dtype: str, first: bool) -> Rows:
    """Return rows whose scales are rounded to ``dtype``: ``first``, or once they have divided."""
    import torch

    numbers, scale = _rows(x)
    scale = torch.from_numpy(scale).to(getattr(torch, dtype)).double().numpy()
    return _in(scale, x) if first else (numbers, scale)


def _in_their_type(first: bool, q: Any, k: Any, v: Any) -> Any:
    """Return the answer of somebody whose scales are rounded to what the inputs are."""
    dtype = str(k.dtype).removeprefix("torch.")
    return _answer(rows=partial(_rounded, dtype=dtype, first=first))(q, k, v)


def _upside_down(rows: Rows) -> Rows:
    return rows[0], 1 / rows[1]


def _one(rows: Rows) -> Rows:
    return rows[0], _ONE


def _behind(q: Array, k: Rows, v: Rows) -> Array:
    """Return o with K's scales on the weights, where V's belong as well."""
    s = q @ k[0].mT * q.shape[-1] ** -0.5
    return np.asarray((softmax(s) * k[1].mT) @ (v[0] * v[1]))


def _normed_again(q: Array, k: Rows, v: Rows) -> Array:
    """Return o whose weights are divided by their sum once V's scales are on them."""
    p = softmax(q @ (k[0] * k[1]).mT * q.shape[-1] ** -0.5) * v[1].mT
    return np.asarray(p / p.sum(axis=-1, keepdims=True) @ v[0])


def _query_too(q: Array, k: Rows, v: Rows) -> Array:
    numbers, scale = _rows(q)
    return _attend(numbers * scale, k, v)


_SHARED_SCALE = (
    (None, "one scale for the whole cache",
     "one token with an outlier then costs all others their digits: a scale for each row, the "
     "largest of its own d numbers / 127."),
    ((-2, -1), "one scale for all tokens of a head",
     "one token with an outlier then costs all others their digits, and the next token may need "
     "another scale: a scale for each token."),
    ((-3, -1), "one scale for all heads of a token",
     "heads are of different sizes: a scale for each token and head."),
    ((-3, -2, -1), "one scale for the whole cache", "a scale for each row, not for a sequence."),
    ((0, -1), "sequences share their scales",
     "what another request holds at the same place says nothing: a scale for each row."),
)  # fmt: skip
_OF_THE_SCALE = of_the_scale(lambda power: partial(_attend, power=power))
_OF_ATTENTION = (
    *_OF_THE_SCALE,
    *((name, says, partial(_attend, weights=made))
      for name, says, made in of_the_softmax(np.float32)),
)  # fmt: skip


def _with_one_scale(one: Callable[[Array], Any], q: Array, k: Rows, v: Rows) -> Array:
    return _attend(q, (k[0], np.full_like(k[1], one(k[1]))), v)


def _largest_of_both(q: Any, k: Any, v: Any) -> Any:
    """Return the answer of somebody whose error is the largest of the rows of K and of V."""
    right = _answer()(q, k, v)
    rows = zip((k, v), right[2:], strict=True)
    off = max(np.abs(as_float64(x) - numbers * scale).max() for x, (numbers, scale) in rows)
    return right[0], float(off), *right[2:]


_MISTAKES = Mistake.table(
    *((name, says, *(_answer(rows=_shared(axes, keeps)) for keeps in (True, False)))
      for axes, name, says in _SHARED_SCALE),
    ("a scale for each column",
     "a column's largest number is known only when the last token is: a scale for each token and "
     "head, over its d numbers.",
     _answer(rows=lambda x: _by(_largest(x, -2), x))),
    ("the range does not end at 127",
     "divide by 127: then the largest number of a row is 127 or -127. 128 does not fit into int8 "
     "and comes out as -128.",
     *(_answer(rows=partial(_rows, over=over)) for over in (128, 127.5, 255, 256, 126)),
     *(_answer(rows=partial(_clamped, low=low)) for low in (-128, -127))),
    ("a small number guards the scale",
     "a row may be that small itself: only a row of zeros needs another scale than its own.",
     *(_answer(rows=partial(_at_least, least=least, added=added, of_zeros=of_zeros))
       for of_zeros in (1, None)
       for epsilon in (1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-12)
       for least, added in ((epsilon, 0), (epsilon / 127, 0), (0, epsilon), (0, epsilon / 127)))),
    ("cut off, not rounded",
     "to(torch.int8) cuts the fraction off, and floor goes down: with round a number is off by "
     "half a scale at most, not by a whole one.",
     *(_answer(rows=partial(_rows, to=to)) for to in (np.trunc, np.floor, np.ceil))),
    ("the scale is not of the largest number",
     "a row's scale is made of its largest absolute value, of either sign: with a smaller one "
     "there are numbers that int8 does not hold.",
     _answer(rows=lambda x: _by(np.abs(x).min(-1, keepdims=True), x)),
     _answer(rows=lambda x: _by(np.abs(x).mean(-1, keepdims=True), x)),
     _answer(rows=lambda x: _by(np.abs(x.min(-1, keepdims=True)), x))),
    ("the scale is of the whole range",
     "from the smallest number to the largest is up to twice as far as from 0: half of the 255 "
     "numbers is never used. A row's scale is its largest absolute value / 127.",
     *(_answer(rows=partial(_rows, of=partial(np.ptp, axis=-1, keepdims=True), over=over))
       for over in (127, 254, 255))),
    ("the scale is rounded to half precision",
     "it multiplies every number of the row, so that all of them are off by as much: keep it in "
     "float32.",
     *(_answer(rows=partial(_rounded, dtype=dtype, first=first))
       for dtype in ("bfloat16", "float16") for first in (True, False)),
     *(partial(_in_their_type, first) for first in (True, False))),
    ("the scale is returned upside down",
     "a row is numbers * scale: what is kept is largest / 127, and not 127 / largest.",
     _answer(rows=lambda x: _upside_down(_rows(x))),
     _answer(rows=lambda x: _upside_down(_rows(x)),
             attend=lambda q, k, v: _attend(q, _upside_down(k), _upside_down(v)))),
    ("a row of zeros has scale 0",
     "0 / 0 is NaN, which no int8 holds: the scale of a row of zeros is 1.",
     _answer(rows=lambda x: (_rows(x)[0], np.where(_largest(x) == 0, 0, _rows(x)[1])))),
    ("the sign is forgotten in the scale",
     "the largest number of a row may be negative: take the largest absolute value.",
     _answer(rows=lambda x: _by(x.max(axis=-1, keepdims=True), x))),
    ("a zero point is subtracted",
     "the range is symmetric here: 0 stays 0, and a row is numbers * scale.",
     _answer(rows=_zero_point)),
    ("K's scales are forgotten", "a score is q · numbers, times the scale of that row of K.",
     _answer(attend=lambda q, k, v: _attend(q, _one(k), v))),
    ("one scale of all keys multiplies the scores",
     "every row of K has a scale of its own: it multiplies that key's scores. A mean or a largest "
     "one does not.",
     *(_answer(attend=partial(_with_one_scale, one)) for one in (np.mean, np.max))),
    ("V's scales are forgotten", "a value is numbers * scale: multiply each weight by its scale.",
     _answer(attend=lambda q, k, v: _attend(q, k, _one(v)))),
    ("all scales are forgotten", "a row is numbers * scale, of K and of V.",
     _answer(attend=lambda q, k, v: _attend(q, _one(k), _one(v)))),
    ("K's and V's scales are exchanged", "K's scales belong to the scores, V's to the weights.",
     _answer(attend=lambda q, k, v: _attend(q, (k[0], v[1]), (v[0], k[1])))),
    ("K's scales come behind the softmax", "they are part of the scores: multiply before softmax.",
     _answer(attend=_behind)),
    ("V's scales are in the wrong place",
     "each value has its scale: it multiplies a weight once the weights are divided by their sum.",
     _answer(attend=_normed_again)),
    ("o is not attention over what is kept",
     "K and V are kept as numbers and scales: attend to numbers * scale, of both.",
     *(_answer(attended=attended) for attended in ("k", "v", "")), _answer(returned="exact")),
    ("the query is quantised as well", "only what is kept is: q is used once, as it is.",
     _answer(attend=_query_too),
     _answer(attend=_query_too, compared_by=_query_too)),
    ("an int8 cache is free",
     "the error is 0 only between two answers of the same cache. Compare o with attention over K "
     "and V as they came.",
     _answer(error=lambda o, exact: 0.0), _answer(compared="kept")),
    ("the error is not the largest difference",
     "error is the largest of the absolute differences |o - exact|, of all sequences and heads.",
     _answer(error=lambda o, exact: np.abs(o - exact).mean()),
     _answer(error=lambda o, exact: np.sqrt(((o - exact) ** 2).mean())),
     _answer(error=lambda o, exact: ((o - exact) ** 2).mean()),
     _answer(error=lambda o, exact: np.abs(o - exact).sum()),
     _answer(error=lambda o, exact: np.linalg.norm(o - exact)),
     _answer(error=lambda o, exact: (o - exact).max()),
     _answer(error=lambda o, exact: (exact - o).max()),
     _answer(error=lambda o, exact: np.abs(o - exact).min())),
    ("the error is relative", "error is a difference of o, not divided by anything.",
     _answer(error=lambda o, exact: np.abs(o - exact).max() / np.abs(exact).max()),
     _answer(error=lambda o, exact: (np.abs(o - exact) / np.abs(exact)).max())),
    ("the error is that of the rows",
     "what counts is how far o is off: compare attention's outputs.",
     _answer(of_rows=lambda k, kept: np.abs(k - kept).max()),
     _largest_of_both),
    *((name, says, _answer(compared_by=slip)) for name, says, slip in _OF_THE_SCALE),
    *((name, says, _answer(attend=slip), _answer(attend=slip, compared_by=slip))
      for name, says, slip in _OF_ATTENTION),
)  # fmt: skip

EXERCISE = Exercise.of(
    "12.2",
    cases=_cases,
    truth=_answer(),
    judge=_judge,
    kind="torch",
    mistakes=_MISTAKES,
)
