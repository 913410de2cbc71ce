"""What may explain a wrong answer, and the one way in which that is confirmed: on other cases.

An explanation is a known mistake, whose model says what it makes of a case, or a clue, which reads
it off wrong numbers. Either is refuted by a case that passed and where it would have shown, and by
an output that it does not explain. What is left is tried on further cases: a coincidence does not
survive them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from course_lib.judging.seen import NOTHING, Seen, is_formula, numbers_in, shape
from course_lib.judging.spec import Case, Exercise, Mistake
from course_lib.judging.tolerance import flat, has_numbers, same

Run = Callable[[Case], Any]  # what the student's function makes of a case, None if nothing
MOST_NUMBERS = 1 << 20  # in a result that is compared with what is known
TO_BE_CERTAIN = 2  # further cases that show a mistake, before it is said as a fact
_MOST_TRIED = 4  # further cases on which the student's function is run
_A_PART = 0.3  # of what is wrong in a case, in which a mistake and its model may part ways
_MOST_RIVALS = 8  # that are told apart from the one that is confirmed: NaN has hundreds of causes
_MOSTLY = 0.6  # of the cases where it should show, it does so in part: it may be the mistake


class Named(NamedTuple):
    """A known mistake, and whether further cases have confirmed it."""

    mistake: Mistake
    certain: bool


@dataclass(frozen=True, kw_only=True)
class Explanation(ABC):
    """What may be wrong. ``wanted``: so many other cases make it certain, of ``most``.

    ``strict``: a case that it does not explain refutes it, where else it may still be part of what
    is wrong; it may be the mistake once ``least`` others have shown it.
    """

    wanted: int = TO_BE_CERTAIN
    most: int = _MOST_TRIED
    least: int = 0
    strict: bool = False

    @abstractmethod
    def explains(self, seen: Seen) -> bool:
        """Whether this gives what was seen: a right result if the case passed."""

    @abstractmethod
    def shows(self, seen: Seen) -> bool:
        """Whether it can be seen in a case that was run."""

    @abstractmethod
    def may_show(self, case: Seen) -> bool:
        """Whether a case that was not run yet is worth a try."""

    @abstractmethod
    def speaks(self, case: Seen) -> bool:
        """Whether there will be numbers in it: NaN has many causes."""

    @abstractmethod
    def share(self, seen: Seen) -> float:
        """Return how much of what is wrong it explains."""

    @abstractmethod
    def named(self, seen: Sequence[Seen]) -> Mistake | None:
        """Return what these cases tell together, None if that is not enough."""


@dataclass(frozen=True)
class Known(Explanation):
    """A known mistake: its model says what it makes of any case."""

    mistake: Mistake

    def explains(self, seen: Seen) -> bool:  # noqa: D102  as `Explanation` says
        wrong = seen.made_by(self.mistake)
        if seen.passed:
            return not _fits(wrong.answer, seen.answer) or seen.accepts(wrong.answer)
        return seen.resembles(wrong)

    def shows(self, seen: Seen) -> bool:  # noqa: D102
        wrong = seen.made_by(self.mistake).answer
        return _fits(wrong, seen.answer) and not seen.accepts(wrong)

    def may_show(self, case: Seen) -> bool:  # noqa: D102
        return self.shows(case)

    def speaks(self, case: Seen) -> bool:  # noqa: D102
        return has_numbers(case.made_by(self.mistake).answer)

    def share(self, seen: Seen) -> float:  # noqa: D102  all, where the answer is in words
        if self.explains(seen):
            return float(not seen.passed)
        return seen.share_explained(seen.made_by(self.mistake))

    def named(self, seen: Sequence[Seen]) -> Mistake | None:  # noqa: D102
        return self.mistake


@dataclass(frozen=True)
class Told:
    """What the wrong numbers of one case tell, and what is to be the same of them in every case.

    ``always``: it is told of a number or a few, which no case but one of zeros may have right.
    """

    mistake: Mistake
    of_all: Any = None
    always: bool = False

    @property
    def enough(self) -> bool:
        """Whether this much makes it more than chance."""
        return True

    def beside(self, other: Told) -> Told | None:
        """Return what two cases tell together, None if it cannot be both."""
        return self if self.of_all == other.of_all else None


SILENT = Told(Mistake("", ""))  # of a case that tells nothing


@dataclass(frozen=True, kw_only=True)
class Clue(Explanation):
    """What wrong numbers tell when they are asked: of the first case, and of others as well."""

    first: Seen
    ask: Callable[[Seen], Told | None]
    most: int = 1000  # a whole draw: those that pass tell little
    least: int = TO_BE_CERTAIN  # fewer are nothing: numbers may be alike by chance
    strict: bool = True
    can_ask: Callable[[Seen], bool] = lambda case: True
    _told: dict[Seen, Told | None] = field(default_factory=dict, init=False, repr=False)
    _right: dict[Seen, bool] = field(default_factory=dict, init=False, repr=False)

    def in_case(self, seen: Seen) -> Told | None:
        """Return what a case tells, whose result is wrong."""
        if seen not in self._told:
            with np.errstate(all="ignore"):  # of numbers that are as large as they come
                self._told[seen] = self.ask(seen) if self.can_ask(seen) else SILENT
        return self._told[seen]

    def _is_right(self, seen: Seen) -> bool:
        """Whether a result is right: that of a formula exactly, no other one tells anything."""
        if seen not in self._right:
            right = seen.passed and (seen.result is None or seen.is_right(seen.result))
            if seen.passed and not right and not is_formula(seen.case):
                right = self.in_case(seen) in (None, SILENT)
            self._right[seen] = right
        return self._right[seen]

    def explains(self, seen: Seen) -> bool:  # noqa: D102
        first = self.in_case(self.first)
        if first is None or self._is_right(seen):
            return first is not None and not (first.always and not _is_zero(seen))
        told = self.in_case(seen)
        return told is SILENT or (told is not None and first.beside(told) is not None)

    def shows(self, seen: Seen) -> bool:  # noqa: D102
        if seen is self.first:  # it is what the others are to confirm
            return False
        return not self.explains(seen) if self._is_right(seen) else self.in_case(seen) is not SILENT

    def may_show(self, case: Seen) -> bool:  # noqa: D102
        return self.can_ask(case) and not same(case.answer, self.first.answer)

    def speaks(self, case: Seen) -> bool:  # noqa: D102
        return has_numbers(case.answer)

    def share(self, seen: Seen) -> float:  # noqa: D102
        return float(self.explains(seen))

    def named(self, seen: Sequence[Seen]) -> Mistake | None:  # noqa: D102
        together = self.in_case(self.first)
        for one in seen:
            if one is self.first or self._is_right(one) or self.in_case(one) is SILENT:
                continue
            told = self.in_case(one)
            together = together.beside(told) if together and told else together
        return together.mistake if together and together.enough else None


def confirmed(
    exercise: Exercise,
    likely: Iterator[Explanation],
    tried: list[Seen],
    first: int,
    run: Run,
) -> Named | None:
    """Return the first that survives all that was seen, or the one that most speaks for.

    ``tried[first]`` is the case that failed. The student's function is run on cases that show an
    explanation: ``tried`` grows, and speaks for or against the others as well. One that seldom
    shows, even in part, was a coincidence.
    """
    begun, most = len(tried), _MOSTLY
    best: Named | None = None
    unsure: Explanation | None = None  # the best, while nothing but NaN was seen
    alike = list[Explanation]()  # that explain as much, so far: many do of answers that are NaN
    earlier = list[Explanation]()
    for one in likely:
        if not all(map(one.explains, tried[:begun])):
            continue
        if not tried[first].case.args and (mistake := one.named(tried[first:])):
            return Named(mistake, certain=True)  # a question has no other case
        others = _others(exercise, one, tried)
        while True:
            where = [seen for seen in tried[first + 1 :] if one.shows(seen)]
            shown = [*map(one.explains, where)]
            mistake = one.named([tried[first], *where])
            enough = shown[: one.wanted] == [True] * one.wanted and mistake is not None
            told = any(seen.tells and one.explains(seen) for seen in tried)
            refuted = one.strict and not all(shown)
            if (enough and told) or refuted or len(tried) - begun >= one.most:
                break
            telling = (other for other in others if one.speaks(other))
            if not (other := next(telling if enough else others, None)):
                break
            if (result := run(other.case)) is not None:  # an exception, say, is no evidence
                tried.append(other.answered(result))
        if refuted or mistake is None:
            continue
        if enough and told:
            as_much = (m for m in alike if all(map(m.explains, tried)))
            one = _told_apart(exercise, next(as_much, one), chain(earlier, likely), tried, run)
            named = one.named([tried[first], *where])
            return Named(named or mistake, certain=True)  # the one that is named first
        share_of = one.share if told else one.explains  # of NaN no part tells anything
        parts = [share_of(seen) >= _A_PART for seen in [tried[first], *where]]
        share = sum(parts) / len(parts) if len(where) >= one.least else 0.0
        if share > most:
            best, most = Named(mistake, certain=False), share
            unsure = None if told else one
        if enough or share == most:
            alike.append(one)
        earlier.append(one)
    if best and unsure:
        unsure = _told_apart(exercise, unsure, iter(earlier), tried, run)
        mistake = unsure.named(tried[first:])
        return Named(mistake, certain=False) if mistake else None
    return best


def _told_apart(
    exercise: Exercise,
    one: Explanation,
    rivals: Iterator[Explanation],
    tried: list[Seen],
    run: Run,
) -> Explanation:
    """Return ``one``, or another that explains more: where they part ways, ask.

    What was seen may be what several known mistakes make. A case of which one makes this and the
    other that tells them apart, if there is any.
    """
    drawn: list[Seen] = []
    asked = 0
    for rival in rivals if isinstance(one, Known) else ():
        assert isinstance(one, Known)
        if not isinstance(rival, Known) or rival.mistake.name == one.mistake.name:
            continue
        if _explained(rival, tried) < _explained(one, tried):
            continue
        if (asked := asked + 1) > _MOST_RIVALS:
            break
        drawn = drawn or [*_drawn(exercise, tried)]
        for other in map(replace, drawn):  # which forgets what others make of it: that is large
            mine, theirs = (other.made_by(known.mistake).answer for known in (one, rival))
            if not _fits(mine, other.answer) or not _fits(theirs, other.answer):
                continue
            if same(mine, theirs) or (result := run(other.case)) is None:
                continue
            tried.append(other.answered(result))
            break
        if _explained(rival, tried) > _explained(one, tried):
            one = rival
    return one


def _explained(one: Known, tried: Sequence[Seen]) -> int:
    return sum(map(one.explains, tried))


def _others(exercise: Exercise, one: Explanation, tried: list[Seen]) -> Iterator[Seen]:
    """Yield cases, drawn anew, in which it may show."""
    return filter(one.may_show, _drawn(exercise, tried))


def _drawn(exercise: Exercise, tried: list[Seen]) -> Iterator[Seen]:
    """Yield cases that are drawn anew: those of another kind than failed come first."""
    names = {seen.case.name for seen in tried if not seen.passed}
    fine = any(seen.fine for seen in tried)
    drawn = exercise.cases(np.random.default_rng(len(tried)))
    for case in sorted(drawn, key=lambda case: case.name in names):
        other = Seen.of(exercise, case, fine=fine)
        if numbers_in(other.answer) <= MOST_NUMBERS:
            yield other


def everywhere(
    exercise: Exercise, likely: Iterator[Explanation], run: Run
) -> Iterator[Explanation]:
    """Yield those that explain every case, where that costs little: also where none should show.

    Where they show, who chooses among equals may choose otherwise, but for a formula.
    """
    tried: list[Seen] | None = None
    formula = False
    for one in likely:
        if tried is None:
            drawn = [Seen.of(exercise, c) for c in exercise.cases(np.random.default_rng(1))]
            formula = all(is_formula(seen.case) for seen in drawn)
            ran = [(seen, run(seen.case)) for seen in drawn]
            tried = [seen.answered(result) for seen, result in ran if result is not None]
        all_of = formula or one.strict
        if all(map(one.explains, tried if all_of else [s for s in tried if not one.shows(s)])):
            yield one


def _fits(wrong: Any, answer: Any) -> bool:
    """Whether a mistake can be made here at all: it may run only where sizes happen to be equal."""
    return wrong is not NOTHING and shape(wrong) == shape(answer)


def _is_zero(seen: Seen) -> bool:
    laid = flat(seen.answer)
    return laid is not None and not laid.numbers.any()
