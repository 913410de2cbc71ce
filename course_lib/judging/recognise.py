"""Whose answer does a wrong one look like? The known mistakes, held against all that was seen.

A mistake is refuted by a case that passed and where it would have shown, and by an output that it
does not explain. What is left is tried on further cases where it shows: a coincidence does not
survive them.
Longer than 400 lines because all that speaks for a name, and against it, stands together.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations, count, islice
from typing import Any, NamedTuple

import numpy as np

from course_lib.judging import strides
from course_lib.judging.by_numbers import (
    ADDED,
    BY_NUMBERS,
    INT32,
    are_shrunk,
    lost_shares,
    overflows,
)
from course_lib.judging.mixing import can_mix, mixed, of_both, told
from course_lib.judging.spec import Case, Exercise, Mistake, Observed
from course_lib.judging.tolerance import (
    FEWEST_NUMBERS,
    Precision,
    flat,
    has_numbers,
    is_exact,
    may_be_rounded,
    resembles,
    rounded,
    same,
    share_explained,
)
from course_lib.sandbox.inputs import copy_inputs, is_array

_MOST_NUMBERS = 1 << 20  # in a result that is compared with known mistakes
_TO_BE_CERTAIN = 2  # further cases that show a mistake, before it is said as a fact
_MOST_TRIED = 4  # further cases on which the student's function is run
_A_PART = 0.3  # of what is wrong in a case, in which a mistake and its model may part ways
_MOSTLY = 0.6  # of the cases where it should show, it does so in part: it may be the mistake
_MOST_IN_HALF = 65504.0
_MOST_PAIRS = 400
_MOST_SCORES = 3 << 18  # computed for all pairs together: what they may cost
_MOST_MIXED = 8  # cases looked at for weights
_NOTHING = object()


def _rounding(precision: Precision, in_a_kernel: bool) -> Mistake:
    """Return the mistake of rounding to a precision; only kernels have a ``tl.dot``."""
    dot = ", or `tl.dot` multiplies float32 tiles in tf32" if in_a_kernel else ""
    where = {"half": f"float16 or bfloat16{dot}", "single": "float32"}[precision]
    return Mistake(
        f"{precision} precision",
        f"every number is a little off, some up and some down, as far as {precision} precision "
        f"reaches: somewhere numbers are rounded to {where}. Compute in the precision of the task.",
        lambda *_args, **_kwargs: None,
    )


class Made(NamedTuple):
    """What a mistake makes of a case (``_NOTHING``: it cannot be made), and that laid flat."""

    answer: Any
    laid: Any


@dataclass(frozen=True, eq=False)
class Seen:
    """A case that was run: the answer that is right, and the student's where that is wrong."""

    exercise: Exercise
    case: Case
    answer: Any
    result: Any = None
    passed: bool = True
    _made: dict[Any, Made] = field(default_factory=dict, init=False, repr=False)
    _alike: dict[int, bool] = field(default_factory=dict, init=False, repr=False)  # by id of Made

    @classmethod
    def of(cls, exercise: Exercise, case: Case) -> Seen:
        """Return a case that passed."""
        return cls(exercise, case, exercise.answer(exercise.truth(*case.args, **case.kwargs)))

    def __post_init__(self) -> None:
        """Take a list of numbers for the array that was asked for."""
        if isinstance(self.answer, np.ndarray) and isinstance(self.result, tuple | list):
            with contextlib.suppress(Exception):
                object.__setattr__(self, "result", np.asarray(self.result, dtype=np.float64))

    def answered(self, result: Any) -> Seen:
        """Return this case with what the student's function makes of it."""
        run = replace(self, result=result, passed=self.accepts(result))
        run._made.update(self._made)
        return run

    def accepts(self, result: Any) -> bool:
        """Whether this is right here: as good as the answer in numbers, or to the judge."""
        if same(result, self.answer):
            return True
        return _shape(result) == _shape(self.answer) and self.is_right(result)

    def is_right(self, result: Any) -> bool:
        """Whether the judge finds nothing in it."""
        expected = self.exercise.truth(*self.case.args, **self.case.kwargs)
        try:
            return self.exercise.judge(self.case, Observed(result), expected) is None
        except Exception:  # a judge that looks at more than the result
            return False

    def made_by(self, mistake: Mistake) -> Made:
        """Return what the mistake makes of this case; what two make alike is computed once."""
        model: Any = mistake.model
        args, kwargs = self.case.args, self.case.kwargs
        reads_only = hasattr(model, "as_called")
        if reads_only:
            model = model.as_called(**kwargs)
        if model not in self._made:
            if reads_only:
                made = _mistaken(model.with_twins, args, kwargs)
                wrong, twins = (made, [model]) if made is _NOTHING else made
            else:
                wrong, twins = _mistaken(model, *copy_inputs((args, dict(kwargs)))), [model]
            self._made.update(dict.fromkeys(twins, Made(wrong, _laid(wrong))))
        return self._made[model]

    @cached_property
    def laid(self) -> tuple[Any, Any]:
        """The result and the answer laid flat: hundreds of mistakes are compared with them."""
        return _laid(self.result), _laid(self.answer)

    def resembles(self, wrong: Made) -> bool:
        """Whether the result looks like what a mistake makes of this case: once for all twins."""
        if id(wrong) not in self._alike:
            result, answer = self.laid
            self._alike[id(wrong)] = resembles(result, wrong.laid, answer)
        return self._alike[id(wrong)]

    def share_explained(self, wrong: Made) -> float:
        """Return which share of what is wrong in the result is what a mistake makes of it."""
        result, answer = self.laid
        return share_explained(result, wrong.laid, answer)


class Named(NamedTuple):
    """A known mistake, and whether further cases have confirmed it."""

    mistake: Mistake
    certain: bool


def recognise(exercise: Exercise, seen: Sequence[Seen], run: Callable[[Case], Any]) -> Named | None:
    """Return the known mistake that explains everything seen, or None.

    The last of ``seen`` is the first that failed. ``run`` returns what the student's function
    makes of another case. Where no mistake explains all, two of them together may.
    """
    failed = seen[-1]
    if numbers_in(failed.result) > _MOST_NUMBERS:  # no mistake gives as much; comparing takes long
        return None
    if overflows(failed.result, failed.answer):
        return Named(INT32, certain=True)
    if not same(failed.result, failed.answer):  # else no mistake shows
        tried = list(seen)
        known = [*exercise.mistakes, *strides.known(exercise, failed.case)]
        resembling = (m for m in known if failed.resembles(failed.made_by(m)))
        cheap = failed.case.args and all(map(_is_plain, failed.case.args))
        likely = _everywhere(exercise, resembling, run) if cheap else resembling
        if named := _confirmed(exercise, likely, tried, run):  # of those after it none is computed
            return named
        others = [m for m in known if not failed.resembles(failed.made_by(m))]
        pairs = (m for m in _pairs(others, failed) if _explains(m, failed))
        if named := _confirmed(exercise, pairs, tried, run):
            return named
    if failed.case.args and _is_shrunk(exercise, failed, run):
        return Named(ADDED, certain=True)
    if failed.case.args and (mistake := _by_numbers(exercise, failed, run)):
        return Named(mistake, certain=True)
    precision, certain = _rounded_to(exercise, failed, run)
    weights = None
    if precision != "single" and failed.case.args:
        weights = _by_weights(exercise, failed, run)
    if weights or not precision:
        return weights
    if precision == "half" and sum(_would_show(one, failed) for one in seen[:-1]) > _TO_BE_CERTAIN:
        return None  # what is rounded in one case and not in others of its kind is not known
    return Named(_rounding(precision, exercise.kind == "kernel"), certain)


def _confirmed(
    exercise: Exercise, likely: Iterator[Mistake], tried: list[Seen], run: Callable[[Case], Any]
) -> Named | None:
    """Return the first that survives all that was seen, or the one that most speaks for.

    The student's function is run on cases that show it: ``tried`` grows, and speaks for or
    against the others as well. One that seldom shows, even in part, was a coincidence.
    """
    begun, most = len(tried), _MOSTLY
    best: Named | None = None
    alike = list[Mistake]()  # that explain as much, so far: many do of answers that are NaN alone
    for mistake in likely:
        if not all(_explains(mistake, one) for one in tried[:begun]):
            continue
        if not tried[begun - 1].case.args:  # a question has no other case
            return Named(mistake, certain=True)
        others = _others(exercise, mistake, tried)
        while True:
            shown = [_explains(mistake, one) for one in tried[begun:] if _shows(mistake, one)]
            enough = shown[:_TO_BE_CERTAIN] == [True] * _TO_BE_CERTAIN
            told = any(_explains(mistake, one) for one in tried if _tells(one))
            if (enough and told) or len(tried) - begun >= _MOST_TRIED:
                break
            telling = (one for one in others if has_numbers(one.made_by(mistake).answer))
            if not (other := next(telling if enough else others, None)):
                break
            if (result := run(other.case)) is not None:  # an exception, say, is no evidence
                tried.append(other.answered(result))
        if enough and told:
            as_much = (m for m in alike if all(_explains(m, one) for one in tried))
            return Named(next(as_much, mistake), certain=True)  # the one that is named first
        where = [tried[begun - 1], *(one for one in tried[begun:] if _shows(mistake, one))]
        share = sum(_share(mistake, one) >= _A_PART for one in where) / len(where)
        if share > most:
            best, most = Named(mistake, certain=False), share
        if enough or share == most:
            alike.append(mistake)
    return best


def is_formula(case: Case) -> bool:
    """Whether a case holds numbers alone, so that the answer to many of them costs nothing."""
    return bool(case.args) and all(map(_is_of_numbers, case.args))


def _is_of_numbers(x: Any) -> bool:
    if isinstance(x, tuple | list):
        return all(map(_is_of_numbers, x))
    return isinstance(x, int | float)


def _is_plain(x: Any) -> bool:
    """Whether this is made of numbers and words: to answer such a case costs nothing, either."""
    if isinstance(x, dict):
        return all(map(_is_plain, [*x, *x.values()]))
    if type(x) in (tuple, list):  # no walk: its calls may be many
        return all(map(_is_plain, x))
    return x is None or isinstance(x, int | float | str)


def _everywhere(
    exercise: Exercise, likely: Iterator[Mistake], run: Callable[[Case], Any]
) -> Iterator[Mistake]:
    """Yield those that explain every case, where that costs little: also where none should show.

    Where they show, who chooses among equals may choose otherwise, but for a formula.
    """
    tried: list[Seen] | None = None
    formula = False
    for mistake in likely:
        if tried is None:
            drawn = [Seen.of(exercise, c) for c in exercise.cases(np.random.default_rng(1))]
            formula = all(is_formula(one.case) for one in drawn)
            ran = [(one, run(one.case)) for one in drawn]
            tried = [one.answered(result) for one, result in ran if result is not None]
        asked = tried if formula else (one for one in tried if not _shows(mistake, one))
        if all(_explains(mistake, one) for one in asked):
            yield mistake


def _others(exercise: Exercise, mistake: Mistake, tried: list[Seen]) -> Iterator[Seen]:
    """Yield cases, drawn anew, in which a mistake shows: those of another kind come first."""
    rng = np.random.default_rng(len(tried))
    names = {one.case.name for one in tried if not one.passed}
    drawn = sorted(exercise.cases(rng), key=lambda case: case.name in names)
    for case in drawn:
        one = Seen.of(exercise, case)
        if numbers_in(one.answer) <= _MOST_NUMBERS and _shows(mistake, one):
            yield one


def _rounded_to(
    exercise: Exercise, failed: Seen, run: Callable[[Case], Any]
) -> tuple[Precision | None, bool]:
    """Return the precision to which this result was rounded, and those of two other cases too.

    And whether that is certain: it is not where a case is as good as if nothing was rounded.
    """
    if not failed.case.args:  # a question: it is answered on paper
        return None, False
    if numbers_in(failed.answer) < FEWEST_NUMBERS:
        return _rounded_together(exercise, failed, run), False
    if not (precision := _rounded(failed, failed.result)):
        return None, False
    drawn = exercise.cases(np.random.default_rng(1))
    certain = True
    others = islice((c for c in drawn if c.name != failed.case.name), 2 * _TO_BE_CERTAIN)
    for i, case in enumerate(others):
        seen, result = Seen.of(exercise, case), run(case)
        if _rounded(seen, result) == precision:
            continue
        if i < _TO_BE_CERTAIN and not seen.accepts(result):
            return None, False
        certain = certain and (precision == "single" or not is_exact(result, seen.answer))
    return precision, certain


def _is_shrunk(exercise: Exercise, failed: Seen, run: Callable[[Case], Any]) -> bool:
    """Whether rows are right but for a factor each, here and where else they are wrong."""
    told = lost_shares(failed.result, failed.answer)
    if told is None or (exercise.kind == "kernel" and not len(told)):  # whose cases take long
        return False
    elsewhere = 0
    for case in exercise.cases(np.random.default_rng(1)):
        seen, result = Seen.of(exercise, case), run(case)
        if result is None or seen.is_right(result):
            continue
        if (more := lost_shares(result, seen.answer)) is None:
            return False
        told, elsewhere = np.concatenate([told, more]), elsewhere + bool(len(more))
        if elsewhere >= _TO_BE_CERTAIN and are_shrunk(told):
            return True
    return False


def _by_numbers(exercise: Exercise, failed: Seen, run: Callable[[Case], Any]) -> Mistake | None:
    """Return what the numbers themselves tell: here, and in the next cases that fail."""
    places = dict(zip(exercise.names(failed.case), failed.case.args, strict=False))
    asked = [(ask, one) for ask in BY_NUMBERS if (one := ask(failed.result, failed.answer, places))]
    elsewhere, formula = 0, is_formula(failed.case)
    cheap = all(map(_is_plain, failed.case.args))
    for case in exercise.cases(np.random.default_rng(1)) if asked else ():
        seen, result = Seen.of(exercise, case), run(case)
        if result is None or same(seen.answer, failed.answer):
            continue
        if seen.is_right(result) if formula else seen.accepts(result):
            zero = (laid := flat(seen.answer)) is not None and not laid.numbers.any()
            asked = [pair for pair in asked if zero or not pair[1].always]
            continue
        places = dict(zip(exercise.names(case), case.args, strict=False))
        more = [(ask, one, ask(result, seen.answer, places)) for ask, one in asked]
        asked = [(ask, one) for ask, one, other in more if other and other.of_all == one.of_all]
        elsewhere += 1
        if not asked or (elsewhere >= _TO_BE_CERTAIN and not cheap):
            break
    return asked[0][1].mistake if asked and elsewhere else None


def _by_weights(exercise: Exercise, failed: Seen, run: Callable[[Case], Any]) -> Named | None:
    """Return what the weights tell that an answer is made of, here and in one more case."""
    said: Mistake | None = None
    drawn = (c for c in exercise.cases(np.random.default_rng(1)) if c.name != failed.case.name)
    for case in islice(chain([failed.case], drawn), _MOST_MIXED):
        if not can_mix(exercise, case):
            continue
        if said and ((result := run(case)) is None or Seen.of(exercise, case).accepts(result)):
            continue
        if not (mix := mixed(exercise, case, run)):
            continue
        mistake = told(mix)
        if said or not mistake:
            both = of_both(said, mistake) if said and mistake else None
            return Named(both, certain=True) if both else None
        said = mistake
    return Named(said, certain=False) if said else None


def _would_show(passed: Seen, failed: Seen) -> bool:
    """Whether a case that passed, like the failed one, does not if its inputs are in half."""
    args, kwargs = passed.case.args, passed.case.kwargs
    if _dtypes(args) != _dtypes(failed.case.args):
        return False
    if not 1e-2 < _size(passed) / max(_size(failed), 1e-300) < 1e2:
        return False
    try:
        truth = passed.exercise.truth(*map(_in_half_and_back, args), **kwargs)
        return not passed.is_right(passed.exercise.answer(truth))
    except Exception:  # rounded, they may be no inputs any more
        return False


def _size(seen: Seen) -> float:
    laid = flat(seen.answer)
    return 0.0 if laid is None else float(laid.scales.max(initial=0.0))


def _dtypes(args: Sequence[Any]) -> list[str]:
    return [str(getattr(x, "dtype", "")) for x in args]


def _in_half_and_back(x: Any) -> Any:
    """Return an array or tensor of floats as far as half precision holds its numbers."""
    if not is_array(x) or "float" not in str(x.dtype):
        return x
    with np.errstate(over="ignore"):
        return (
            x.astype(np.float16).astype(x.dtype) if hasattr(x, "astype") else x.half().to(x.dtype)
        )


def _is_half(result: Any) -> bool:
    """Whether it is handed in so: then it is no wonder that it is rounded."""
    return "16" in str(getattr(result, "dtype", ""))


def _rounded(seen: Seen, result: Any) -> Precision | None:
    """Return the precision to which a result was rounded, or some of several: others are right.

    What is handed in as half says nothing, unless the inputs are as short.
    """
    answer, inputs = seen.answer, seen.case.args
    several = isinstance(result, tuple) and isinstance(answer, tuple)
    pairs = [*zip(result, answer, strict=False)] if several else [(result, answer)]
    off = [pair for pair in pairs if may_be_rounded(*pair, inputs)]
    if not off or (any(_is_half(one) for one, _ in off) and not any(map(_is_half, inputs))):
        return None
    results, answers = map(list, zip(*off, strict=True))
    return rounded(results, answers, inputs) or _input_rounded(seen, result)


def _input_rounded(seen: Seen, result: Any) -> Precision | None:
    """Return the precision in which one input, taken so, explains all but a hundredth of errors.

    They need not be errors of all kinds: of few values each error is the same in many rows.
    """
    got, truth = flat(result), flat(seen.answer)
    args = seen.case.args
    short: tuple[tuple[Precision, Any], ...] = (("single", np.float32), ("half", np.float16))
    for precision, dtype in short:
        for i, x in enumerate(args):
            if not isinstance(x, np.ndarray) or x.dtype != np.float64:
                continue
            with np.errstate(over="ignore"):
                read = [*args[:i], x.astype(dtype).astype(x.dtype), *args[i + 1 :]]
            made = seen.exercise.answer(seen.exercise.truth(*read, **seen.case.kwargs))
            there = flat(made)
            if got is None or truth is None or there is None or got.words != there.words:
                return None
            off, left = (float(np.abs(got.numbers - x.numbers).max()) for x in (truth, there))
            if left < off / 100:
                return precision
    return None


def _rounded_together(
    exercise: Exercise, failed: Seen, run: Callable[[Case], Any]
) -> Precision | None:
    """Return the precision to which answers were rounded that are a number or a few: many tell."""
    if not same(failed.result, failed.answer):
        return None
    if not may_be_rounded(failed.result, failed.answer, failed.case.args):
        return None  # a race, say: it is not a number that is wrong
    told = [(failed.result, failed.answer)]
    drawn = (case for seed in count(1) for case in exercise.cases(np.random.default_rng(seed)))
    for case in islice(drawn, 2 * FEWEST_NUMBERS):
        seen, result = Seen.of(exercise, case), run(case)
        if result is None or seen.is_right(result) or not _in_half(seen.answer):
            continue  # no rounding shows, or it makes something infinite
        if not same(result, seen.answer):
            return None
        told.append((result, seen.answer))
        if sum(numbers_in(answer) for _, answer in told) >= 3 * FEWEST_NUMBERS:
            break  # of fewer, many err to one side by chance
    results, answers = map(list, zip(*told, strict=True))
    return rounded(results, answers, failed.case.args)


def _in_half(answer: Any) -> bool:
    """Whether half precision has numbers as large as those of an answer."""
    laid = flat(answer)
    return laid is not None and bool((np.abs(laid.numbers) <= _MOST_IN_HALF).all())


def _explains(mistake: Mistake, seen: Seen) -> bool:
    """Whether someone with this mistake gets this result: a right one if the case passed."""
    wrong = seen.made_by(mistake)
    if seen.passed:
        return not _fits(wrong.answer, seen.answer) or seen.accepts(wrong.answer)
    return seen.resembles(wrong)


def _share(mistake: Mistake, seen: Seen) -> float:
    """Return how much of what is wrong it explains: all, where the answer is in words."""
    if _explains(mistake, seen):
        return float(not seen.passed)
    return seen.share_explained(seen.made_by(mistake))


def _tells(seen: Seen) -> bool:
    """Whether a wrong result has numbers: many mistakes make NaN alone."""
    return not seen.passed and has_numbers(seen.result)


def _shows(mistake: Mistake, seen: Seen) -> bool:
    wrong = seen.made_by(mistake).answer
    return _fits(wrong, seen.answer) and not seen.accepts(wrong)


def _fits(wrong: Any, answer: Any) -> bool:
    """Whether a mistake can be made here at all: it may run only where sizes happen to be equal."""
    return wrong is not _NOTHING and _shape(wrong) == _shape(answer)


def _shape(x: Any) -> Any:
    return getattr(x, "shape", ())


def _pairs(mistakes: list[Mistake], failed: Seen) -> Iterator[Mistake]:
    """Yield two mistakes in one, as far as they go together; a bounded number of them.

    The models know: those of attention have a method ``beside``. What explains a part on its own
    comes first, and of the others what stands last: an lse is wrong beside anything else.
    """
    shares = [
        (share := failed.share_explained(failed.made_by(m)), -i if share else i, m)
        for i, m in enumerate(mistakes)
        if hasattr(m.model, "beside")
    ]
    alone = [m for _, _, m in sorted(shares, key=lambda one: one[:2], reverse=True)]
    scores = max(1, numbers_in(failed.answer))
    most = min(_MOST_PAIRS, _MOST_SCORES // scores)
    both = (_pair(a, b) for a, b in combinations(alone, 2) if a.name != b.name)
    return islice(filter(None, both), most)


def _pair(a: Mistake, b: Mistake) -> Mistake | None:
    model = a.model.beside(b.model)  # type: ignore[attr-defined]  # `_pairs` asked for it
    return model and Mistake(f"{a.name}; {b.name}", f"{a.says} And {b.says}", model)


def numbers_in(x: Any) -> int:
    """Return how many numbers a nested answer holds."""
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, tuple | list):
        return sum(map(numbers_in, x))
    return int(np.prod(x.shape)) if is_array(x) else 1


def _mistaken(model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what a mistake's model makes of a call, ``_NOTHING`` if it cannot be made there."""
    try:
        with np.errstate(all="ignore"):
            return model(*args, **kwargs)
    except Exception:  # a mistake that does not apply to this input
        return _NOTHING


def _laid(x: Any) -> Any:
    """Return an answer laid flat, as it is where that cannot be."""
    return flat(x) or x
