"""Whose answer does a wrong one look like? The known mistakes, held against all that was seen.

Known mistakes come first, each and then two in one; then what the wrong numbers tell themselves.
All are confirmed in the same way (`confirming`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, combinations, islice

import numpy as np

from course_lib.judging import strides
from course_lib.judging.by_numbers import BY_NUMBERS, INT32, overflows
from course_lib.judging.confirming import (
    MOST_NUMBERS,
    SILENT,
    TO_BE_CERTAIN,
    Clue,
    Explanation,
    Known,
    Named,
    Run,
    confirmed,
    everywhere,
)
from course_lib.judging.mixing import can_mix, weighed
from course_lib.judging.rounding import rounded_to, rounding, would_show
from course_lib.judging.seen import Seen, is_plain, numbers_in
from course_lib.judging.spec import Exercise, Mistake
from course_lib.judging.tolerance import same

_MOST_PAIRS = 400
_MOST_SCORES = 3 << 18  # computed for all pairs together: what they may cost
_MOST_MIXED = 8  # cases looked at for weights


def recognise(exercise: Exercise, seen: Sequence[Seen], run: Run) -> Named | None:
    """Return the known mistake that explains everything seen, or None.

    The last of ``seen`` is the first that failed. ``run`` returns what the student's function
    makes of another case. Where no mistake explains all, two of them together may.
    """
    # what is nearly right is compared more finely
    fine = same(seen[-1].result, seen[-1].answer)
    tried = [replace(one, fine=fine) for one in seen]
    failed = tried[-1]
    if numbers_in(failed.result) > MOST_NUMBERS:  # no mistake gives as much; comparing takes long
        return None
    if overflows(failed.result, failed.answer):
        return Named(INT32, certain=True)
    cheap = failed.case.args and all(map(is_plain, failed.case.args))

    def survives(likely: Iterator[Explanation]) -> Named | None:
        return confirmed(exercise, likely, tried, len(seen) - 1, run)

    def in_every_case(likely: Iterator[Explanation]) -> Iterator[Explanation]:
        return everywhere(exercise, likely, run) if cheap else likely

    known = [*exercise.mistakes, *strides.known(exercise, failed.case)]
    resembling = (Known(m) for m in known if failed.resembles(failed.made_by(m)))
    if named := survives(in_every_case(resembling)):  # of those after it none is computed
        return named
    others = [m for m in known if not failed.resembles(failed.made_by(m))]
    if not fine and (
        named := survives(one for one in _pairs(others, failed) if one.explains(failed))
    ):
        return named
    if not failed.case.args:  # a question has no other case
        return None
    clues = (Clue(first=failed, ask=ask) for ask in BY_NUMBERS)
    if named := survives(in_every_case(one for one in clues if one.in_case(failed))):
        return named
    precision, certain = rounded_to(exercise, failed, run)
    weights = None
    if precision != "single" and (clue := _weights(exercise, tried[len(seen) - 1 :], run)):
        weights = survives(iter([clue]))
    if weights or not precision:
        return weights
    if precision == "half" and sum(would_show(one, failed) for one in seen[:-1]) > TO_BE_CERTAIN:
        return None  # what is rounded in one case and not in others of its kind is not known
    return Named(rounding(precision, exercise.kind == "kernel"), certain)


def _weights(exercise: Exercise, tried: Sequence[Seen], run: Run) -> Clue | None:
    """Return what the weights tell of the first case that shows them."""
    drawn = (Seen.of(exercise, case) for case in exercise.cases(np.random.default_rng(1)))
    others = (one for one in drawn if one.case.name != tried[0].case.name)
    ask = partial(weighed, run=run)
    for one in islice(filter(can_mix, chain(tried, others)), _MOST_MIXED):
        seen = one if one.result is not None else one.answered(run(one.case))
        if not seen.passed and seen.result is not None:
            clue = Clue(first=seen, ask=ask, can_ask=can_mix, wanted=1, most=_MOST_MIXED, least=0)
            if clue.in_case(seen) is not SILENT:
                return clue
    return None


def _pairs(mistakes: list[Mistake], failed: Seen) -> Iterator[Known]:
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
    return map(Known, islice(filter(None, both), most))


def _pair(a: Mistake, b: Mistake) -> Mistake | None:
    model = a.model.beside(b.model)  # type: ignore[attr-defined]  # `_pairs` asked for it
    return model and Mistake(f"{a.name}; {b.name}", f"{a.says} And {b.says}", model)
