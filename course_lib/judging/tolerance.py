"""When is an answer right? The course's standard, in one place (lesson 01 explains it).

Truth is float64 attention on the already rounded inputs. An answer may be off by twice what
PyTorch's own eager attention is off in the same dtype, plus a little. Comparisons are written
``~(error <= allowed)``, so that NaN fails.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from course_lib.attention.slips import is_anything

_HALF_DIGITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
IN_DOUBLE = 1e-10  # relative: of float64 whose scores are exact
SINGLE, DOUBLE = 2.0**-24, 2.0**-53  # what one rounding costs


def as_float64(x: Any) -> np.ndarray:
    """Return a NumPy array, a tensor of any dtype, or a number as a float64 array.

    Raises TypeError or ValueError if it is none; of a whole number beyond float64, too.
    """
    if hasattr(x, "detach"):
        x = x.detach().cpu().double().numpy()
    try:
        return np.asarray(x, dtype=np.float64)
    except OverflowError as error:
        raise ValueError(str(error)) from None


def allowed_error(truth: np.ndarray, eager: np.ndarray | None, dtype: str) -> float:
    """Return the largest absolute error that still counts as right.

    ``truth`` is float64, ``eager`` the same computation done eagerly in ``dtype`` (None: use the
    scale of the truth). fp32 adds 1e-5; half types add twice the rounding of the truth itself.
    """
    finite = np.abs(truth[np.isfinite(truth)])
    biggest = float(finite.max(initial=0.0))
    atol = 2 * _HALF_DIGITS[dtype] * biggest if dtype in _HALF_DIGITS else 1e-5
    if eager is None:
        return atol + 1e-5 * biggest
    difference = np.abs(eager - truth)
    return 2 * float(difference[np.isfinite(difference)].max(initial=0.0)) + atol


def score_rounding(q: Any, k: Any, v: Any, unit: float = SINGLE) -> float:
    """Return what the rounding of scores may cost o, in whichever order they are summed.

    A sum of d products that begins with a large one is rounded d times at that size, at random: it
    is off by less than sqrt(d) units (1.7 standard deviations), and moves o by as much of V. Which
    order a machine takes, and so what eager PyTorch shows of this, is chance. Rows of NaN, which
    nobody is to read, count for nothing.
    """
    q, k, v = as_float64(q), as_float64(k), as_float64(v)
    if not (q.size and k.size):
        return 0.0
    d = q.shape[-1]
    longest_q, longest_k = (float(np.nanmax(np.sqrt((x**2).sum(-1)))) for x in (q, k))
    score = longest_q * longest_k / np.sqrt(d)
    return float(np.sqrt(d) * unit * score * np.nanmax(np.abs(v)))


def output_rounding(q: Any, k: Any, v: Any, unit: float = SINGLE) -> float:
    """Return what the rounding of scores may cost o.

    It is nothing where they are `far_apart`, or each a single product that float32 holds.
    """
    a, b = as_float64(q), as_float64(k)
    if a.shape[:-2] == b.shape[:-2]:
        scores = a @ b.swapaxes(-1, -2)
        exact = _single_products(a, b) and _is_single(scores / np.sqrt(a.shape[-1]))
        if exact or far_apart(scores):
            return 0.0
    return score_rounding(q, k, v, unit)


def in_double(scores: np.ndarray) -> float:
    """Return the relative error that is allowed of sums of exp(scores), all in float64.

    The larger the scores, the more a difference of two may be off.
    """
    largest = np.abs(scores[np.isfinite(scores)]).max(initial=0.0)
    return min(IN_DOUBLE + 2.0**-48 * float(largest), 1e-6)


def _single_products(q: np.ndarray, k: np.ndarray) -> bool:
    """Return whether every score is one product, all others being 0."""
    products = (q != 0).astype(float) @ (k != 0).astype(float).swapaxes(-1, -2)
    return bool(products.max(initial=0) <= 1)


def _is_single(x: np.ndarray) -> bool:
    return bool((x.astype(np.float32) == x).all())


def far_apart(scores: np.ndarray) -> bool:
    """Return whether of any scores of a row one has all the weight, however they are rounded."""
    gap = 1000 + 2.0**-16 * np.abs(scores).max(initial=0.0)
    if not scores.size or np.ptp(scores) < gap * (
        scores.shape[-1] - 1
    ):  # most are not: spare the sorting
        return False
    return bool((np.diff(np.sort(scores, axis=-1)) > gap).all())


def in_float32(x: np.ndarray) -> np.ndarray:
    """Return ``x`` with infinities where float32 has no number as large."""
    return np.where(np.abs(x) > np.finfo(np.float32).max, np.copysign(np.inf, x), x)


def in_digits(number: float, digits: int) -> float:
    """Return the largest relative error of a number that is given to so many digits.

    That is half a unit of the last one; zeros in front are no digits.
    """
    last = np.floor(np.log10(abs(number))) - digits + 1
    return float(0.5 * 10.0**last / abs(number)) * (1 + 1e-9)


def wrong_places(got: np.ndarray, truth: np.ndarray, allowed: float | np.ndarray) -> np.ndarray:
    """Return a boolean array: True where ``got`` is not the truth within ``allowed``.

    Infinities must agree exactly (an empty row's lse is -inf); NaN is wrong everywhere.
    """
    with np.errstate(invalid="ignore"):
        near = np.abs(got - truth) <= allowed
    return np.asarray(~(near | (np.isinf(truth) & (got == truth))))


def same(a: Any, b: Any) -> bool:
    """Return whether two answers agree to three digits (nested, NaN equal to NaN)."""
    a, b = flat(a), flat(b)
    return a is not None and b is not None and a.words == b.words and bool(_near(a, b).all())


def resembles(result: Any, wrong: Any, expected: Any) -> bool:
    """Return whether ``result`` looks like ``wrong``, the answer of a known mistake.

    They must agree to three digits wherever both are finite, and some of what is wrong in
    ``result`` must be explained: equal to ``wrong`` there, and not to ``expected``. Where only
    one of the two is NaN (a mistake guarded against it, say) neither may be right: a mistake
    that ruins everything does not explain one bad row among good ones. A number that is infinite
    in one of them is so in both. A lone number that is NaN in ``wrong``, or ``ANYTHING``, may be
    anything. An answer
    without a number says nothing of those that ``wrong`` has, nor the other way round.
    """
    result, wrong, expected = flat(result), flat(wrong), flat(expected)
    if result is None or wrong is None or expected is None or result.words != wrong.words:
        return False
    near = _near(result, wrong)
    if wrong.words != expected.words:
        return bool(near.all())
    here, there = np.isfinite(result.numbers), np.isfinite(wrong.numbers)
    told = ~is_anything(wrong.numbers)
    if not near[here & there].all() or here[told].any() != there[told].any():
        return False
    wrong_is_right = _near(wrong, expected)
    infinite = np.isinf(result.numbers) | np.isinf(wrong.numbers)
    torn = (here != there) & (infinite | (_near(result, expected) != wrong_is_right))
    return bool(not torn[told & ~wrong.lone].any() and (near & ~wrong_is_right).any())


def noise_of(result: Any) -> float:
    """Return how far rounding alone may leave a result from the right one, relative."""
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, tuple | list):
        return max(map(noise_of, result), default=0.0)
    short = any(word in str(getattr(result, "dtype", "")) for word in ("16", "32"))
    return 2.0**-18 if short else 2.0**-50


def off_by(result: Any, expected: Any) -> float:
    """Return how far a result is from the right one, relative to what is largest there."""
    got, truth = flat(result), flat(expected)
    if got is None or truth is None or got.words != truth.words:
        return math.inf
    finite = np.isfinite(truth.numbers)
    if not np.array_equal(got.numbers[~finite], truth.numbers[~finite], equal_nan=True):
        return math.inf
    most = np.abs(truth.numbers[finite]).max(initial=0.0)
    error = np.abs(got.numbers[finite] - truth.numbers[finite]).max(initial=0.0)
    return float(error / most) if most else math.inf if error else 0.0


def off_alike(result: Any, wrong: Any, expected: Any, noise: float) -> bool:
    """Return whether a result that is nearly right is off as a known mistake's answer is.

    The errors must be larger than the ``noise`` of rounding, and agree to two digits; where they
    are far larger, but for that noise.
    """
    result, wrong, expected = flat(result), flat(wrong), flat(expected)
    if result is None or wrong is None or expected is None:
        return False
    if not result.words == wrong.words == expected.words:
        return False
    finite = np.isfinite(expected.numbers)
    if any((np.isfinite(x.numbers) != finite).any() for x in (result, wrong)):
        return False
    truth = expected.numbers[finite]
    theirs, model = (x.numbers[finite] - truth for x in (result, wrong))
    most, noise = np.abs(model).max(initial=0.0), noise * np.abs(truth).max(initial=0.0)
    near = 1e-2 * most + (noise if most > 100 * noise else 0.0)
    return bool(most > noise and (np.abs(theirs - model) <= near).all())


def share_explained(result: Any, wrong: Any, expected: Any) -> float:
    """Return which share of what is wrong in ``result`` stands in ``wrong`` as well."""
    got, there, truth = flat(result), flat(wrong), flat(expected)
    if got is None or there is None or truth is None or not got.words == there.words == truth.words:
        return 0.0
    off = ~_near(got, truth)
    return float((_near(got, there) & off).sum() / max(1, off.sum()))


Precision = Literal["half", "single"]
FEWEST_NUMBERS = 16  # that tell rounding from another mistake
_ERRORS: dict[Precision, tuple[float, float]] = {
    "half": (2.0**-20, 2.0**-8),
    "single": (2.0**-33, 2.0**-20),
}


def rounded(result: Any, expected: Any, inputs: Any = ()) -> Precision | None:
    """Return to which precision numbers were rounded on the way, if ``result`` is right but for it.

    Its errors are small, everywhere, and neither go with the answer (as a wrong factor would) nor
    to one side. Inputs that are all as short already leave nothing to tell.
    """
    got, truth = flat(result), flat(expected)
    if got is None or truth is None or got.words != truth.words:
        return None
    if truth.numbers.size < FEWEST_NUMBERS:
        return None
    scale = np.where(truth.scales > 0, truth.scales, 1.0)
    finite = np.isfinite(truth.numbers)
    if not (finite == np.isfinite(got.numbers)).all() or not truth.numbers[finite].any():
        return None
    if _in_decimals(got.numbers[finite]):
        return None
    right, scale = truth.numbers[finite], scale[finite]
    error, right = (got.numbers[finite] - right) / scale, right / scale
    with np.errstate(over="ignore"):  # numbers near the end of float64
        size = float(np.sqrt((error**2).mean()))
        one_way = abs(error.mean()), abs((error * right).mean() / np.sqrt((right**2).mean()))
    everywhere = (np.abs(error) > size / 30).mean() > 0.6
    if not everywhere or max(one_way) >= 0.5 * size:
        return None
    for precision, (least, most) in _errors_of(inputs).items():
        if least < size < most and np.abs(error).max() < 8 * most:
            return precision
    return None


def _in_decimals(x: np.ndarray) -> bool:
    """Return whether numbers are rounded to decimals, which a short float rarely has."""
    with np.errstate(over="ignore", invalid="ignore"):
        return any(
            bool((np.round(x, n) == x).all() and (x * 2.0**n % 1 != 0).any()) for n in range(1, 9)
        )


def may_be_rounded(result: Any, expected: Any, inputs: Any) -> bool:
    """Return whether a number is off by as much as some precision may be the reason for."""
    got, truth = flat(result), flat(expected)
    if got is None or truth is None or got.words != truth.words:
        return False
    least = min((least for least, _ in _errors_of(inputs).values()), default=np.inf)
    with np.errstate(invalid="ignore"):  # of infinite numbers
        return not bool((np.abs(got.numbers - truth.numbers) <= least * truth.scales).all())


def is_exact(result: Any, expected: Any) -> bool:
    """Return whether numbers are nearer to the right ones than half precision leaves them."""
    got, truth = flat(result), flat(expected)
    if got is None or truth is None or got.words != truth.words:
        return False
    with np.errstate(invalid="ignore"):  # of infinite numbers
        off = np.abs(got.numbers - truth.numbers)
    return bool((off <= 2.0**-16 * truth.scales)[np.isfinite(truth.numbers)].all())


def _errors_of(inputs: Any) -> dict[Precision, tuple[float, float]]:
    """Return the precisions in which something was left to be lost, and the sizes of errors."""
    dtypes = [dtype for dtype in (str(getattr(x, "dtype", "")) for x in inputs) if "float" in dtype]
    if dtypes and all("16" in dtype for dtype in dtypes):
        return {}
    return {
        precision: errors
        for precision, errors in _ERRORS.items()
        if precision != "single" or "32" not in " ".join(dtypes)
    }


def has_numbers(x: Any) -> bool:
    """Return whether an answer holds anything but NaN and infinities."""
    leaves = flat(x)
    return leaves is None or not leaves.numbers.size or bool(np.isfinite(leaves.numbers).any())


class Flat(NamedTuple):
    """A nested answer laid flat.

    words: its strings, keys and shapes, in order; two answers of one form have the same.
    numbers: all its numbers; scales: for each the largest finite one of its array; lone: whether
    it is in no array.
    """

    words: list[str]
    numbers: np.ndarray
    scales: np.ndarray
    lone: np.ndarray


def flat(x: Any) -> Flat | None:
    """Return the words and numbers of a nested answer; None if there is something else in it."""
    if isinstance(x, Flat):
        return x
    if isinstance(x, dict):
        x = [leaf for key in sorted(x, key=str) for leaf in (str(key), x[key])]
    if isinstance(x, tuple | list):
        flats = [flat(item) for item in x]
        parts = [part for part in flats if part is not None]
        if len(parts) < len(flats):
            return None
        words = [word for part in parts for word in part.words]
        return Flat(
            words, *(np.concatenate(column) for column in zip(*_columns(parts), strict=True))
        )
    if isinstance(x, str | bool):
        return Flat([str(x)], *_EMPTY)
    try:
        x = as_float64(x)
    except (TypeError, ValueError):
        return None
    biggest = np.abs(x[np.isfinite(x)]).max(initial=0.0)
    each = np.full(x.size, biggest), np.full(x.size, x.ndim == 0)
    return Flat([str(x.shape)], x.ravel(), *each)


_EMPTY = np.empty(0), np.empty(0), np.empty(0, dtype=bool)


def _columns(parts: list[Flat]) -> list[tuple[np.ndarray, ...]]:
    return [_EMPTY, *(part[1:] for part in parts)]


def _near(a: Flat, b: Flat) -> np.ndarray:
    atol = 1e-3 * b.scales + 1e-9
    near: np.ndarray = np.isclose(a.numbers, b.numbers, rtol=1e-3, atol=atol, equal_nan=True)
    return near
