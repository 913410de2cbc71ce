"""A call that was answered rightly is made again: an answer depends on its arguments alone.

Once at once, once with new numbers, which a call before found otherwise in the same arrays, and
once after all other inputs: what a function keeps from one call to the next (a buffer, a counter,
answers by some of the arguments, or by where they lie) shows in the second answer or in the first.
A wrong answer is asked for once more where no call came before it: what is right there is no fault
of this input.
Kernels are asked again in ways of their own, and each of their cases takes long; only whether they
keep strides, or answers, is asked here, and a wrong answer once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from course_lib.judging.finding import Finding, endless
from course_lib.judging.hosts import Host, Ran
from course_lib.judging.spec import Case, Exercise
from course_lib.judging.tolerance import off_by, same
from course_lib.judging.walks import is_walk
from course_lib.sandbox.inputs import holds_floats, is_tensor

REWRITTEN = "with other numbers in the same arrays"
OTHERS = "of other numbers of the same shapes"
LAID_OUT = "with the same numbers in other strides"
THE_SAME = "answers the same call alike"
_NEAR = 2e-2
_LOOK = (
    "what outlives a call: a global, a list or dict as a default, an attribute of the function or "
    "of the class?"
)
_OR_NUMBERS = " If nothing does, these other numbers are what it is wrong on."


def asked_again(exercise: Exercise, host: Host, case: Case, when: str) -> Finding | None:
    """Return what is wrong with a second answer to a case whose first was right, else None.

    ``when`` says which of the times it is: "at once", `REWRITTEN`.
    """
    if exercise.play or (when != REWRITTEN and (exercise.kind == "kernel" or exercise.later)):
        return None
    if when == REWRITTEN:
        if exercise.kind == "question" or (exercise.run and exercise.kind == "python"):
            return None  # what runs a function of NumPy hands it copies
        case = replace(_new_numbers(exercise), rewritten=True)
        if not holds_floats([*case.args, *case.kwargs.values()]):
            return None
    return _asked(exercise, host, case, when)


def _new_numbers(exercise: Exercise) -> Case:
    """Return a case of numbers of which no answer can be kept, wherever they lie."""
    return replace(exercise.cases(np.random.default_rng(2**32))[0], counted=False)


def wrong_on_its_own(exercise: Exercise, host: Host, when: str) -> Case | None:
    """Return the case of new numbers if its answer is wrong where no call came before it, too.

    It is these numbers then, and nothing is kept. So it is where an answer is but a little off.
    """
    if when != REWRITTEN or exercise.later:
        return None
    case = _new_numbers(exercise)
    if exercise.kind == "kernel":
        ran = host.run(case)
        if ran.observed is None or ran.found:
            return None
        finding, observed, expected = exercise.judged(case, ran.given, ran.observed)
        return case if finding and _is_near(observed.result, exercise.answer(expected)) else None
    return case if _is_right(exercise, case, host.afresh(case)) is False else None


def laid_out_again(exercise: Exercise, host: Host, cases: Sequence[Case]) -> Finding | None:
    """Return what is wrong with a kernel's answer if its strided inputs come without gaps.

    A launcher that keeps strides by some of the arguments, their shapes say, is off then.
    """
    strided = [case for case in cases if not case.refused and any(map(_has_gaps, case.args))]
    if exercise.kind != "kernel" or exercise.play or exercise.later or not strided:
        return None
    case = min(strided, key=lambda case: sum(x.numel() for x in case.args if is_tensor(x)))
    args = tuple(x.contiguous() if is_tensor(x) else x for x in case.args)
    return _asked(exercise, host, replace(case, args=args, counted=False), LAID_OUT)


def right_afresh(
    exercise: Exercise, host: Host, case: Case, finding: Finding, result: Any
) -> Finding | None:
    """Return what is wrong with an answer that is right where no call came before it, else None.

    Nobody loads a kernel anew: it keeps something if the same call has another ``result`` now.
    """
    if exercise.play or exercise.later or not case.args:
        return None
    plain = replace(case, counted=False, compiled=False)
    if exercise.kind == "kernel":
        ran = host.run(plain)
        if ran.observed is None or same(ran.observed.result, result):
            return None
        if ran.found:  # it is the tensor of the call before, say
            return ran.found
        says = "the same call, made twice, has two answers, and this one is wrong"
        look = f"{_LOOK[:-1]}, or memory in which nothing was stored?"
        return replace(finding, property=THE_SAME, says=f"{says}: {finding.says}", look=look)
    for run, right in ((host.run, False), (host.afresh, True)):
        if _is_right(exercise, case, run(plain)) is not right:
            return None
    says = "your answer here is right if nothing was called before, but not after the check's calls"
    return replace(finding, property=THE_SAME, says=f"{says}: {finding.says}", look=_LOOK)


def _is_right(exercise: Exercise, case: Case, ran: Ran | None) -> bool | None:
    """Return whether an answer is right, None if there is none to judge."""
    if ran is None or ran.observed is None or ran.found:
        return None
    return exercise.judged(case, ran.given, ran.observed)[0] is None


def _is_near(result: Any, answer: Any) -> bool:
    """Whether an answer is so near to the right one as none is that was kept."""
    return off_by(result, answer) < _NEAR


def _has_gaps(x: Any) -> bool:
    return is_tensor(x) and not x.is_contiguous()


def _asked(exercise: Exercise, host: Host, case: Case, when: str) -> Finding | None:
    ran = host.run(replace(case, compiled=False))
    if ran.found or is_walk(case):  # whose other cases tell which of its calls goes wrong
        return ran.found
    if ran.failure and ran.failure.kinds[0] == "TookTooLong":  # of nothing that was kept
        return endless(exercise.seconds * case.calls)
    if ran.observed is None:
        kinds, text = (ran.failure.kinds, ran.failure.text) if ran.failure else (("Error",), "")
        text = text.partition(f"{kinds[0]}: ")[2] or text
        return _otherwise(when, f"it ends in {kinds[0]}: {text}" if text else kinds[0])
    finding, observed, expected = exercise.judged(case, ran.given, ran.observed)
    if finding is None or (when == REWRITTEN and finding.numbers_right):  # only these are asked for
        return None
    if when == REWRITTEN and _is_near(observed.result, exercise.answer(expected)):
        return replace(finding, says=f"your answer was right, but not {OTHERS}: {finding.says}")
    return replace(_otherwise(when, finding.says), where=finding.where)


def _otherwise(when: str, says: str) -> Finding:
    again = "the same call was made again"
    if when == REWRITTEN:
        again = "the function was called again"
    told = f"your answer was right, but not when {again} {when}: {says}"
    return Finding(THE_SAME, told, look=_LOOK + _OR_NUMBERS * (when == REWRITTEN))
