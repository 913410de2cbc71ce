"""A failing input made as small as it can be and still fail: something to work out by hand.

Sizes first, then the numbers. Lengths that are equal, or in an order, in the given case are so in
the small one, and so are whole multiples where an exercise promises them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from course_lib.judging.seen import is_formula, numbers_in
from course_lib.judging.spec import REMAINDER, Case, Exercise
from course_lib.judging.tolerance import as_float64
from course_lib.sandbox.inputs import each_array, is_array, is_tensor

SECONDS = 0.5  # after which no smaller input is tried
_MOST_SHOWN = 40  # numbers of one array
_MOST_READ = 500  # characters of the inputs: nobody works out more by hand
_WIDEST = 120  # characters of an answer in several parts that is shown whole
_DIGITS, _MOST_DIGITS = 4, 17  # of a number
_MOST_ROUNDED = 1000  # numbers of an array
_LEAST_IN_A_KERNEL = 16  # of a tile, and of a row: `tl.dot` asks for it
_TARGETS = (1, 2, 3, 4, 5, 8, 16, 17, 32)

_IN_TILES = ("tile", "length")
_PARTS = "parts"
_KINDS_OF_NUMBERS = ("b", "itemsize")  # the bytes of a number: there are not any of them
# "head", "length", "row" (head_dim) or "tile", and how many; "number": one given to a formula
Axis = tuple[str, int]
Sizes = Mapping[Axis, int]  # ... of them there are in the small case


def smallest(exercise: Exercise, case: Case, fails: Callable[[Case], bool]) -> Case:
    """Return the smallest case found that fails as well, or the case itself. It takes a moment."""
    if case.together:
        return case
    until = time.monotonic() + SECONDS
    best = case = replace(case, counted=False, compiled=False)
    sizes = {axis: axis[1] for axis in _axes(exercise, case)}
    for axis in [*sizes, *sizes]:  # twice: one may get smaller only when others are
        for target in _targets(axis):
            smaller = {**sizes, axis: target}
            if target >= sizes[axis] or time.monotonic() > until:
                break
            if not _keeps_promises(exercise, smaller):
                continue
            tried = _cut(exercise, case, smaller)
            if fails(tried) and _is_readable(exercise, tried, best):
                best, sizes = tried, smaller
                break
    for simpler in (_in_two_columns, _in_whole_numbers, _in_few_digits):
        if time.monotonic() < until and fails(tried := simpler(best)):
            best = tried
    return best


def _is_readable(exercise: Exercise, case: Case, than: Case) -> bool:
    """Whether the answer to a case is short, or no longer: smaller tiles make more of them."""
    one, other = (
        numbers_in(exercise.answer(exercise.truth(*x.args, **x.kwargs))) for x in (case, than)
    )
    return one <= max(other, 2 * _MOST_SHOWN)


def told(exercise: Exercise, case: Case, result: Any, expected: Any) -> list[str]:
    """Return a small case and what came of it as lines to read; none if it is not small.

    None either where its arguments are not numbers.
    """
    inputs = _inputs(exercise, case)
    if not all(_is_of_numbers(value) for _, value in inputs):
        return []
    try:
        lines = [f"   {name} = {_shown(value, _digits_of(value))}" for name, value in inputs]
        if sum(map(len, lines)) > _MOST_READ:
            return []
        for digits in range(_DIGITS, _MOST_DIGITS):  # as many as it takes to tell the two apart
            yours, right = _shown(result, digits), _shown(expected, digits)
            if yours != right:
                break
        if max(len(yours), len(right)) > _WIDEST and (parts := _that_differ(result, expected)):
            for i, mine, other in parts:
                of = f"number {i + 1} of {len(expected)}"
                lines += [f"   yours, {of}: {mine}", f"   right, {of}: {other}"]
            return lines
        return [*lines, f"   yours: {yours}", f"   right: {right}"]
    except ValueError:
        return []


def _that_differ(result: Any, expected: Any) -> list[tuple[int, str, str]]:
    """Return which parts of an answer that is a tuple differ, with what is shown of them."""
    if not (isinstance(result, tuple | list) and isinstance(expected, tuple | list)):
        return []
    if len(result) != len(expected):
        return []
    pairs = [(_shown(a), _shown(b)) for a, b in zip(result, expected, strict=True)]
    return [(i, mine, other) for i, (mine, other) in enumerate(pairs) if mine != other]


def _inputs(exercise: Exercise, case: Case) -> list[tuple[str, Any]]:
    if exercise.inputs:
        return [*exercise.inputs(case).items()]
    return [*zip(exercise.names(case), case.args, strict=False), *case.kwargs.items()]


def _is_of_numbers(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_of_numbers, value))
    return value is None or is_array(value) or isinstance(value, int | float | np.number)


def _axes_of(x: Any) -> list[Axis]:
    """Return what is known of an array's axes, or of a list's: tied are those that are equal.

    A tuple of numbers and arrays has parts, as a state does, and no length.
    """
    if not is_array(x):
        mixed = len({is_array(item) for item in x}) > 1
        return [(_PARTS if mixed else "length", len(x))]
    words = ["head"] * (x.ndim - 2) + (["length", "row"] if x.ndim > 2 else ["length"] * x.ndim)
    return list(zip(words, x.shape, strict=True))


def can_shrink(exercise: Exercise, case: Case) -> bool:
    """Return whether anything smaller is tried at all."""
    return not case.together and bool(_axes(exercise, case))


def _axes(exercise: Exercise, case: Case) -> list[Axis]:
    """Return what can be made smaller, the smallest first."""
    found = {("tile", n) for n in _tiles(case).values()}
    if is_formula(case):
        found |= {("number", n) for n in _whole_numbers(exercise, case)}

    def note(value: Any) -> None:
        if is_array(value) or isinstance(value, list | tuple):
            found.update(_axes_of(value))
        if isinstance(value, list | tuple):
            for item in value:
                note(item)

    for value in case.args:
        note(value)
    cut = (axis for axis in found if axis[1] > 1 and axis[0] != _PARTS)
    return sorted(cut, key=lambda axis: axis[1])


def _targets(axis: Axis) -> list[int]:
    """Return the sizes to be tried, the smallest first; a formula may have a threshold anywhere."""
    word, n = axis
    powers = (1 << i for i in range(n.bit_length()))
    tried = {t for p in powers for t in (p, p + 1)} if word == "number" else _TARGETS
    return sorted(t for t in tried if t < n)


def _whole_numbers(exercise: Exercise, case: Case) -> Iterator[int]:
    def each(value: Any) -> Iterator[int]:
        if isinstance(value, list | tuple):
            for one in value:
                yield from each(one)
        elif type(value) is int:
            yield value

    for name, value in _inputs(exercise, case):
        if name not in _KINDS_OF_NUMBERS:
            yield from each(value)


def _tiles(case: Case) -> dict[str, int]:
    return {name: n for name, n in case.kwargs.items() if name.startswith("block")}


def _keeps_promises(exercise: Exercise, sizes: Sizes) -> bool:
    """Whether lengths are in their order, multiples are whole ones, and a kernel can do it."""
    whole = REMAINDER in exercise.spared
    for (word, a), small_a in sizes.items():
        power = not a & (a - 1)
        too_small = small_a < min(a, _LEAST_IN_A_KERNEL) or (power and small_a & (small_a - 1))
        if exercise.kind == "kernel" and word in ("row", "tile") and too_small:
            return False
        for (other, b), small_b in sizes.items():
            if word == other and a < b and small_a > small_b:
                return False
            both = word, other
            tied = both in (("head",) * 2, ("number",) * 2) or (whole and both == _IN_TILES)
            if tied and b % a == 0 and small_b % small_a:
                return False
    return True


def _cut(exercise: Exercise, case: Case, sizes: Sizes) -> Case:
    """Return the case with each length, tile and number made as small as ``sizes`` says."""

    def cut(value: Any) -> Any:
        if is_array(value):
            part = value[tuple(slice(sizes.get(axis, axis[1])) for axis in _axes_of(value))]
            if is_tensor(value):
                return part.contiguous() if value.is_contiguous() else part
            return np.ascontiguousarray(part)
        if isinstance(value, list | tuple):
            (axis,) = _axes_of(value)
            return type(value)(cut(item) for item in value[: sizes.get(axis, axis[1])])
        return sizes.get(("number", value), value) if type(value) is int else value

    tiles = {name: sizes.get(("tile", n), n) for name, n in _tiles(case).items()}
    fixed = [i for i, name in enumerate(exercise.names(case)) if name in _KINDS_OF_NUMBERS]
    args = tuple(x if i in fixed else cut(x) for i, x in enumerate(case.args))
    numbers = {
        name: cut(n)
        for name, n in case.kwargs.items()
        if type(n) is int and name not in _KINDS_OF_NUMBERS
    }
    return replace(case, args=args, kwargs={**case.kwargs, **numbers, **tiles})


def _in_two_columns(case: Case) -> Case:
    """Return the case whose rows hold nothing but 0 from the third column on."""
    return replace(case, args=each_array(_first_two, case.args))


def _first_two(x: Any) -> Any:
    if x.ndim < 2 or x.shape[-1] <= 2:
        return x
    x = x.clone() if is_tensor(x) else x.copy()
    x[..., 2:] = 0
    return x


def _in_whole_numbers(case: Case) -> Case:
    def whole(x: Any) -> Any:
        if is_tensor(x):
            return x.round() if x.is_floating_point() else x
        return np.round(x) if x.dtype.kind == "f" else x

    return replace(case, args=each_array(whole, case.args))


def _in_few_digits(case: Case) -> Case:
    def short(x: Any) -> Any:
        return _rounded(x, _DIGITS) if x.ndim and numbers_in(x) <= _MOST_ROUNDED else x

    return replace(case, args=each_array(short, case.args))


def _rounded(x: Any, digits: int) -> Any:
    """Return an array of the numbers that are read where so many digits of x are shown."""
    if not (x.is_floating_point() if is_tensor(x) else x.dtype.kind == "f"):
        return x
    flat = as_float64(x).ravel()
    new = np.array([float(f"{one:.{digits}g}") for one in flat]).reshape(x.shape)
    return x.new_tensor(new) if is_tensor(x) else new.astype(x.dtype)


def _digits_of(value: Any) -> int:
    """Return how many digits it takes to read an argument as it is: it is worked out by hand."""
    if is_array(value):
        exact = as_float64(value)
        same = (n for n in range(_DIGITS, _MOST_DIGITS) if np.array_equal(
            as_float64(_rounded(value, n)), exact, equal_nan=True))  # fmt: skip
        return next(same, _MOST_DIGITS)
    if isinstance(value, list | tuple):
        return max(map(_digits_of, value), default=_DIGITS)
    return len(repr(value)) if isinstance(value, float) else _DIGITS


def _shown(value: Any, digits: int = _DIGITS) -> str:
    """Return an argument or an answer in short. Raises ValueError if it is too long to read."""
    if is_array(value):
        x = value if _is_whole(value) else as_float64(value)
        x = x.reshape(x.shape[-2:]) if x.ndim > 2 and x.size == np.prod(x.shape[-2:]) else x
        zeros = 0
        if x.ndim > 1 and x.shape[-1] > 2 and not x[..., 2:].any():
            zeros = x.shape[-1] - 2
            x = x[..., :2]
        if x.size > _MOST_SHOWN:
            raise ValueError("too many numbers")
        text = _numbers(x, digits)
        return f"{text} and {zeros} more columns of 0" if zeros else text
    if isinstance(value, list | tuple):
        return f"({', '.join(_shown(one, digits) for one in value)})"
    if isinstance(value, dict):
        raise ValueError("no answer in numbers")
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def _is_whole(x: Any) -> bool:
    """Return whether this is an array of whole numbers, which a float may not hold."""
    return isinstance(x, np.ndarray | np.generic) and x.dtype.kind in "iu"


def _numbers(x: np.ndarray, digits: int) -> str:
    if x.ndim == 0:
        return str(x) if _is_whole(x) else f"{x + 0.0:.{digits}g}"
    return f"[{', '.join(_numbers(one, digits) for one in x)}]"
