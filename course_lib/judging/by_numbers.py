"""Mistakes that need no model of an exercise: the wrong numbers themselves tell them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from course_lib.judging.confirming import Told
from course_lib.judging.seen import Seen
from course_lib.judging.spec import Mistake
from course_lib.judging.tolerance import as_float64, flat, has_numbers, noise_of
from course_lib.sandbox.inputs import is_array

_EXACT = 2.0**53  # up to here float64 has every whole number
_ROWS = 8  # of which each lost something, before they tell more than chance does
_MOST_LOST = 0.9  # of a row


INT32 = Mistake(
    "an integer of 32 bits overflows",
    "what is counted goes beyond 2**31 - 1, and begins again at -2**31: count in Python's "
    "integers, or in int64.",
)
ADDED = Mistake(
    "something is added to the sum",
    "each row is right but for a factor of its own below 1, as it is where a number is added to "
    "the sum of its weights (or a weight, as that of a key past the end), or where it is divided "
    "by the sum twice: divide by the sum itself, once. Where that may be 0, choose another divisor "
    "by `where`.",
)
UNSET = Mistake(
    "a sum is added to memory that holds anything",
    "all that the kernel stores there it adds, and nobody set what was there before: begin with "
    "torch.zeros, not with torch.empty.",
)


def added_to_nothing(result: Any, ledger: Any) -> bool:
    """Whether there is nothing but NaN where a kernel read as much as it stored: by atomics."""
    if has_numbers(result) or not getattr(ledger, "launches", None):
        return False
    read, written = ledger.read, ledger.written
    return any(written.values()) and all(read.get(x) == n for x, n in written.items() if n)


def overflows(result: Any, answer: Any) -> bool:
    """Whether the wrong whole numbers are the right ones as far as 32 bits hold them."""
    got, truth = flat(result), flat(answer)
    if got is None or truth is None or got.words != truth.words:
        return False
    large = (np.abs(truth.numbers) >= 2.0**31) & (np.abs(truth.numbers) < _EXACT)
    off = large & (got.numbers != truth.numbers) & np.isfinite(got.numbers)
    got_off, right = got.numbers[off], truth.numbers[off]
    whole = right % 1 == 0
    got_off, right = got_off[whole], right[whole]
    signed = (right + 2.0**31) % 2.0**32 - 2.0**31
    held = (got_off == signed) | (got_off == right % 2.0**32) | (got_off < 0)
    return bool(held.any() and ((got_off - right) % 2.0**32 == 0).all())  # sums of such as well


def lost_shares(result: Any, answer: Any) -> np.ndarray | None:
    """Return which share of each row (..., d) is lost, if it is right but for that, else None.

    Of several results the first is looked at: beside it stands the lse. A row of one number tells
    nothing, nor does one that is right.
    """
    if isinstance(result, tuple | list) and isinstance(answer, tuple):
        result, answer = (x[0] if x else None for x in (result, answer))
    try:
        got, truth = as_float64(result), as_float64(answer)
    except (TypeError, ValueError):
        return None
    if got.shape != truth.shape or got.ndim < 1 or not np.isfinite(got).all():
        return None
    if got.shape[-1] < 2:
        return np.empty(0)
    got, truth = (x.reshape(-1, x.shape[-1]) for x in (got, truth))
    there = np.isfinite(truth).all(axis=1) & truth.any(axis=1)
    got, truth = got[there], truth[there]
    scale = np.abs(truth).max(axis=1, keepdims=True, initial=0.0)  # so that squares are numbers
    got, truth = got / scale, truth / scale
    lost = 1 - (got * truth).sum(axis=1) / (truth**2).sum(axis=1)
    rest = np.abs(got - truth * (1 - lost[:, None])).max(axis=1, initial=0.0)
    error = np.abs(got - truth).max(axis=1, initial=0.0)
    short = any(word in str(getattr(result, "dtype", "")) for word in ("16", "32"))
    noise = 2.0**-20 if short else 2.0**-45
    told: np.ndarray = lost[error > 20 * noise]
    if (rest > 0.02 * error + noise).any() or (told <= 0).any() or (told > _MOST_LOST).any():
        return None
    return told


def are_shrunk(lost: np.ndarray) -> bool:
    """Whether the shares that rows lose tell of a sum: one factor for all would be another."""
    return len(lost) >= _ROWS and bool(lost.std() > 0.02 * lost.mean())


@dataclass(frozen=True)
class Shrunk(Told):
    """That rows lost a share each: of few rows together with those of other cases."""

    lost: np.ndarray | None = None

    @property
    def enough(self) -> bool:
        """Whether the rows are many, and their shares differ."""
        return self.lost is not None and are_shrunk(self.lost)

    def beside(self, other: Told) -> Told | None:
        """Return what the rows of both cases tell."""
        if self.lost is None or not isinstance(other, Shrunk) or other.lost is None:
            return None
        return replace(self, lost=np.concatenate([self.lost, other.lost]))


def shrunk(seen: Seen) -> Told | None:
    """Tell of rows that are right but for a factor each."""
    lost = lost_shares(seen.result, seen.answer)
    if lost is None or (seen.exercise.kind == "kernel" and not len(lost)):  # its cases take long
        return None
    return Shrunk(ADDED, lost=lost)


def leaves(result: Any, answer: Any, name: str = "the answer") -> Iterator[tuple[str, Any, Any]]:
    """Yield what stands in a nested result, and what should, with a name; of one form alone."""
    if isinstance(answer, dict):
        if isinstance(result, dict) and result.keys() == answer.keys():
            for key in answer:
                yield from leaves(result[key], answer[key], f"`{key}`")
    elif isinstance(answer, tuple | list):
        if isinstance(result, tuple | list) and len(result) == len(answer):
            for i, pair in enumerate(zip(result, answer, strict=True)):
                yield from leaves(*pair, f"number {i + 1} of {len(answer)}")
    elif is_array(answer) or isinstance(answer, int | float | np.number):
        try:
            got, truth = as_float64(result), as_float64(answer)
        except (TypeError, ValueError):
            return
        if got.shape == truth.shape:
            yield name, got, truth


def one_factor(seen: Seen) -> Told | None:
    """Tell of numbers that are right but for one factor: of a lone one, the same in all cases."""
    result, answer = seen.result, seen.answer
    told = list[tuple[str, float, bool]]()
    for name, got, truth in leaves(result, answer):
        finite = np.isfinite(truth)
        if not (np.isfinite(got) == finite).all():
            return None
        got, truth = got[finite], truth[finite]
        scale = float(np.abs(truth).max(initial=0.0))
        if np.abs(got - truth).max(initial=0.0) <= 1e-3 * scale:
            continue
        unit = truth / scale if scale else truth  # its squares are numbers of float64
        factor = float((got / scale * unit).sum() / (unit**2).sum()) if scale else 0.0
        lone = np.unique(truth[truth != 0]).size < _FEW
        left = np.abs(got - factor * truth).max()
        if not 1e-9 <= abs(factor) < 1e9 or left > (1e-9 if lone else 1e-3) * abs(factor) * scale:
            return None
        if not lone and abs(factor - 1) < _HARDLY:
            return None
        told.append((name, factor, lone))
    if not told or len({round(np.log(abs(factor)), 3) for _, factor, _ in told}) > 1:
        return None
    factor = told[0][1]
    which = " and ".join(name for name, _, _ in told)
    says = (
        f"{which} {'are' if len(told) > 1 else 'is'} {factor:.4g} times what should stand there, "
        "here, and other inputs are off by one factor as well: which product or division is "
        "missing, or made twice?"
    )
    lone = any(one for _, _, one in told)
    same = (which, round(float(np.log(abs(factor))), 6) if lone else None, factor > 0)
    return Told(Mistake("right but for one factor", says), same, always=lone)


def one_more(seen: Seen) -> Told | None:
    """Tell of numbers to which one number was added, the same in all cases."""
    result, answer = seen.result, seen.answer
    told = list[tuple[str, float]]()
    for name, got, truth in leaves(result, answer):
        finite = np.isfinite(truth)
        if not (np.isfinite(got) == finite).all():
            return None
        more = got[finite] - truth[finite]
        noise = noise_of(result) * np.abs(truth[finite]).max(initial=0.0)
        if not more.size or np.abs(more).max() <= noise:
            continue
        if np.ptp(more) > max(2 * noise, 1e-9 * np.abs(more).max()) or abs(more[0]) < 64 * noise:
            return None
        told.append((name, float(np.format_float_scientific(more.mean(), 2))))
    if len({more for _, more in told}) != 1:
        return None
    which, more = " and ".join(name for name, _ in told), told[0][1]
    says = (
        f"{which}: {abs(more):g} too {'much' if more > 0 else 'little'}, in other cases as well. "
        "What is it added for?"
    )
    return Told(Mistake("one number is added", says), (which, more), always=True)


def cut(seen: Seen) -> Told | None:
    """Tell of numbers that were made whole."""
    result, answer = seen.result, seen.answer
    names = list[str]()
    how: set[str] = set()
    for name, got, truth in leaves(result, answer):
        if (got == truth).all() or np.abs(got - truth).max() <= 1e-9 * np.abs(truth).max():
            continue
        ways = {word for word, whole in _WHOLE if (got == whole(truth)).all()}
        if not ways or (got.size >= _FEW and not got.any()):  # 0 everywhere: by underflow as well
            return None
        how = how & ways if names else ways
        names.append(name)
    if not names or not how:
        return None
    says = (
        f"{' and '.join(names)}: whole numbers, where the right ones have a fraction (// divides "
        "so, and int and round cut). Return what `/` gives."
    )
    return Told(Mistake("a fraction is cut off", says), tuple(names))


def in_floats(seen: Seen) -> Told | None:
    """Tell of large whole numbers that are off by as much as float64 rounds."""
    result, answer = seen.result, seen.answer
    exact, got = _whole_numbers(answer), _whole_numbers(result)
    if len(exact) != len(got):
        return None
    off = [(a, b) for a, b in zip(got, exact, strict=True) if a != b]
    if not off or any(abs(b) < _EXACT or abs(a - b) > abs(b) * 2.0**-50 for a, b in off):
        return None
    says = (
        "beyond 2**53 a float has not every whole number, and yours are as far off as that makes "
        "them: count in integers, with // and never /."
    )
    return Told(Mistake("whole numbers pass through a float", says))


def _whole_numbers(x: Any) -> list[int]:
    """Return the numbers of a nested answer, exactly, as far as they are whole."""
    if isinstance(x, dict):
        return [n for key in sorted(x, key=str) for n in _whole_numbers(x[key])]
    if isinstance(x, tuple | list):
        return [n for part in x for n in _whole_numbers(part)]
    whole = isinstance(x, int) or (isinstance(x, float) and x.is_integer())
    return [int(x)] if whole else []


def moved(seen: Seen) -> Told | None:
    """Tell of rows, or of numbers that are copies, that are right and stand in another's place."""
    result, answer = seen.result, seen.answer
    for name, got, truth in leaves(result, answer):
        if got.ndim < 2 or not truth.size or truth.size > _MOST_MOVED:
            continue
        copied = next((x for x in _copied(truth, seen.inputs)), None)
        where, source = copied or (name, truth)
        rows = got.shape[-1] > 1
        width = got.shape[-1] if rows and source.shape[-1] == got.shape[-1] else 1
        for d in {width: 0, 1: 0} if copied else {width: 0} if rows else ():
            if told := _moved(name, where, got, truth, source, d):
                return told
    return None


def _copied(truth: np.ndarray, inputs: Mapping[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the inputs of which an answer holds nothing but copies."""
    for name, x in inputs.items():
        there = as_float64(x) if is_array(x) else np.empty(0)
        if 0 < there.size <= _MOST_MOVED and there.ndim and np.isin(truth, there).all():
            yield f"`{name}`", there


def _moved(
    name: str, where: str, got: np.ndarray, truth: np.ndarray, source: np.ndarray, d: int
) -> Told | None:
    """Tell of pieces of ``d`` numbers, each of which is one of ``source``, and the wrong one."""
    near = 1e-3 * np.abs(truth[np.isfinite(truth)]).max(initial=0.0) if d > 1 else 0.0
    pieces, right, all_there = (x.reshape(-1, d) for x in (got, truth, source))
    with np.errstate(invalid="ignore"):  # inf - inf
        off = np.flatnonzero(~(np.abs(pieces - right) <= near).all(axis=1))
    if len(off) < 2 or not np.isfinite(all_there).all() or len(off) * all_there.size > 1 << 24:
        return None
    found = (np.abs(pieces[off][:, None] - all_there) <= near).all(axis=2)
    found &= ~(np.abs(pieces[off][:, None]) <= near).all(axis=2)  # zeros are everywhere
    there = found.any(axis=1)
    bare = (np.nan_to_num(pieces[off]) == 0).all(axis=1)
    if there.sum() < 2 or not (there | bare).all() or 4 * there.sum() < len(off):
        return None
    first = int(np.flatnonzero(there)[0])
    shapes = [x.shape[:-1] if d > 1 else x.shape for x in (got, source)]
    at, other = (
        [int(i) for i in np.unravel_index(i, shape)]
        for i, shape in zip((off[first], found[first].argmax()), shapes, strict=True)
    )
    what = "rows" if d > 1 else "numbers"
    says = (
        f"{what} of {name} stand in another's place: at {at} stands what {where} has at {other}. "
        "Compare how a place is found where numbers are read and where they are written."
    )
    return Told(Mistake(f"{what} stand in another's place", says))


_HARDLY = 5e-3  # off: rounding may be as well
_FEW = 4  # numbers, of which a factor may be chance
_MOST_MOVED = 1 << 14
_WHOLE = (("down", np.floor), ("to the nearest", np.round), ("up", np.ceil))
BY_NUMBERS: tuple[Callable[[Seen], Told | None], ...] = (
    shrunk,
    in_floats,
    cut,
    one_factor,
    one_more,
    moved,
)
"""What wrong numbers are asked, when no known mistake makes them."""
