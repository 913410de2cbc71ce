"""The one engine: a host runs a case, the exercise judges it, a report says what was found.

`check` in a notebook and `course grade` in the sandbox are this engine with another host, so that
both say the same about the same answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from course_lib.child.student_error import Failure
from course_lib.judging import books
from course_lib.judging.as_meant import as_meant
from course_lib.judging.asked_again import (
    REWRITTEN,
    asked_again,
    laid_out_again,
    right_afresh,
    wrong_on_its_own,
)
from course_lib.judging.by_numbers import UNSET, added_to_nothing
from course_lib.judging.confirming import Named
from course_lib.judging.desk import holds_nan
from course_lib.judging.finding import Finding
from course_lib.judging.hosts import Host, Ran
from course_lib.judging.kernel_judge import no_race
from course_lib.judging.load_map import LoadMap, load_map
from course_lib.judging.misconceptions import OF_ADDRESSES
from course_lib.judging.outcomes import (
    OUT_OF_BOUNDS,
    failed,
    incorrect,
    passed,
    rounded_on_a_gpu,
    stopped,
)
from course_lib.judging.provenance import BY_THE_KERNEL
from course_lib.judging.recognise import recognise
from course_lib.judging.replay import OF_FORGED_DATA
from course_lib.judging.report import Report
from course_lib.judging.seen import Seen
from course_lib.judging.shrink import can_shrink, smallest, told
from course_lib.judging.spec import STORED, UNDEFINED, Case, Exercise, Observed
from course_lib.judging.walks import is_walk, shortest
from course_lib.sandbox.inputs import UNCHANGED, copy_inputs, is_tensor

REFUSES = "stops where it must not be built"
ASSERTED = "CompileTimeAssertionFailure"  # what tl.static_assert raises where kernels are compiled


class Judged(NamedTuple):
    """What came of one case: the report if it failed, and what was observed if anything was.

    ``seen`` is there if its answer is right. ``doubted``: that is so, and still something speaks
    against it. ``numbers_right``: it failed, but not by its numbers.
    """

    case: Case
    report: Report | None
    observed: Observed | None
    fatal: bool = False
    seen: Seen | None = None
    doubted: bool = False
    numbers_right: bool = False

    def outweighs(self, earlier: Judged | None) -> bool:
        """Whether this is what is told: the first failure, but a doubt gives way to wrong numbers.

        Who is right by chance, say, is told what is wrong where chance does not help.
        """
        if self.report is None or earlier is None:
            return self.report is not None
        return earlier.doubted and not (self.doubted or self.numbers_right)


def judge(exercise: Exercise, host: Host, cases: Sequence[Case]) -> Iterator[Judged]:
    """Yield what came of each case, in order, until one leaves nobody to run another.

    Only the first failure is given the name of a mistake: one name is enough, and costs time.
    """
    passed: list[Seen] = []
    named = doubted = False
    for case in (case for case in cases if not case.refused):
        judged = _judge_one(exercise, host, case, None if named else passed)
        yield judged
        if judged.fatal:
            return
        if judged.seen:
            passed.append(judged.seen)
        # at once: who hands out one buffer often has one for each shape
        for when in ("at once", REWRITTEN) if judged.seen and len(passed) == 1 else ():
            if named or doubted or judged.doubted:
                break
            if found := asked_again(exercise, host, case, when):
                other = wrong_on_its_own(exercise, host, when)
                alone = _judge_one(exercise, host, other, passed).report if other else None
                # whose answer is right by now keeps something after all
                yield Judged(case, alone or incorrect(exercise, case, found), None)
                named = True
        doubted = doubted or judged.doubted
        named = named or (judged.report is not None and not judged.doubted)
    named = named or doubted
    later = "after other inputs"
    if len(cases) > 1 and not named and (found := asked_again(exercise, host, cases[0], later)):
        yield Judged(cases[0], incorrect(exercise, cases[0], found), None)
    if not named and (found := laid_out_again(exercise, host, cases)):
        yield Judged(cases[0], incorrect(exercise, replace(cases[0], name=""), found), None)
    for case in (case for case in cases if case.refused):  # after which nobody may be left
        ran = host.run(case)
        built = _built_after_all(exercise, case, ran)
        yield Judged(case, built, None, ran.fatal, numbers_right=True)
        if ran.fatal:
            return


def first_failure(exercise: Exercise, host: Host, cases: Sequence[Case]) -> Report:
    """Return the report on the first case that fails, or that all passed."""
    rounded = False
    told: Judged | None = None
    for judged in judge(exercise, host, cases):
        if judged.outweighs(told):
            told = judged
            if not told.doubted:
                break
        rounded = rounded or is_rounded(judged)
    if told and told.report:
        return told.report
    return rounded_on_a_gpu(exercise) if rounded else passed(exercise)


def is_rounded(judged: Judged) -> bool:
    """Return whether a GPU would round float32 inputs of this case to TF32 in ``tl.dot``."""
    books = judged.observed and judged.observed.ledger
    numbers = [x for x in judged.case.args if is_tensor(x) and x.dtype.is_floating_point]
    most = max((x.dim() for x in numbers), default=0)  # lse and the like have fewer
    exact = any(str(x.dtype) == "torch.float32" for x in numbers if x.dim() == most)
    return bool(exact and getattr(books, "rounded", 0))


def _judge_one(exercise: Exercise, host: Host, case: Case, before: list[Seen] | None) -> Judged:
    """Judge one case. ``before``: the cases that passed, None if no mistake is to be named."""
    ran = host.run(case)
    observed = ran.observed
    if observed is None:
        if ran.found:
            report = incorrect(exercise, case, ran.found)
        else:
            failure = ran.failure or Failure(("Error",), "")
            asks = before is not None and failure.kinds[0] == OUT_OF_BOUNDS and not ran.fatal
            named = _named_elsewhere(exercise, host) if asks else None
            report = failed(exercise, case, failure, named)
        return Judged(case, report, None, ran.fatal)
    finding, observed, expected = exercise.judged(case, ran.given, observed)
    answer = exercise.answer(expected)
    finding = finding or no_race(case, observed, expected)  # of every kernel, asked last
    spoilt = ran.found and ran.found.property == UNCHANGED and observed.result is not None
    if spoilt or finding is None or finding.numbers_right:  # what is wrong in any case comes first
        finding = ran.found or finding
    if finding is None:
        doubt = host.doubt(case, observed, expected)
        doubts = incorrect(exercise, case, doubt) if doubt else None
        seen = Seen(exercise, case, answer)
        return Judged(case, doubts, observed, seen=seen, doubted=doubt is not None)
    unstored = stopped(books.nothing_stored(observed.ledger))
    finding = replace(finding, look=finding.look or unstored)
    note = books.other_tiles(case.kwargs, observed.ledger, observed.origins)
    loads = _loads(exercise, case, observed)
    right = finding.numbers_right or finding.property == BY_THE_KERNEL
    unnamed = finding.numbers_right or finding.property in (STORED, UNDEFINED, UNCHANGED)
    if before is None or unnamed:  # nobody computed this NaN, or nothing is wrong with the numbers
        report = incorrect(exercise, case, finding, note=note, loads=loads)
        return Judged(case, report, observed, numbers_right=right)
    named, small = None, list[str]()
    with contextlib.suppress(*OF_FORGED_DATA):  # what it is called is told if it can be
        # a copy: what is kept between calls changes with the calls that follow
        theirs = copy_inputs(exercise.compared(case, observed.result))
        failed_now = Seen(exercise, case, answer, theirs, passed=False)
        named = recognise(exercise, [*before, failed_now], partial(_result, exercise, host))
        if not named and added_to_nothing(observed.result, observed.ledger):
            named = Named(UNSET, certain=False)
        if not named and (kept := right_afresh(exercise, host, case, finding, theirs)):
            finding = kept
        elif is_walk(case):
            case, finding = _shortest(exercise, host, case, finding)
        elif case.args and not named:
            small = _smallest(exercise, host, case, finding)
    report = incorrect(exercise, case, finding, named, small, note, loads)
    return Judged(case, report, observed, numbers_right=right)


def _named_elsewhere(exercise: Exercise, host: Host) -> Named | None:
    """Return what is wrong with the addresses in the first case in which none leads out.

    What leads out of a tensor in one case reads other numbers of it in the next. (Where anything
    else is wrong there, it is another mistake, or numbers that nobody has written.)
    """
    passed = list[Seen]()
    for case in exercise.cases(np.random.default_rng(1)):
        ran = host.run(replace(case, counted=False, compiled=False))
        if ran.fatal:
            return None
        if ran.observed is None or case.refused:
            continue
        finding, observed, expected = exercise.judged(case, ran.given, ran.observed)
        answer = exercise.answer(expected)
        if finding is None or finding.numbers_right:
            passed.append(Seen(exercise, case, answer))
        elif finding.property not in (STORED, UNDEFINED, UNCHANGED, BY_THE_KERNEL):
            theirs = copy_inputs(exercise.compared(case, observed.result))
            failed_now = Seen(exercise, case, answer, theirs, passed=False)
            with contextlib.suppress(*OF_FORGED_DATA):
                named = recognise(exercise, [*passed, failed_now], partial(_result, exercise, host))
                tells = named and named.certain and named.mistake.name in OF_ADDRESSES
                return named if tells else None
    return None


def _loads(exercise: Exercise, case: Case, observed: Observed) -> LoadMap | None:
    if exercise.cuts is None:
        return None
    return load_map(exercise.cuts(case), case.args, observed.ledger, observed.origins)


def _built_after_all(exercise: Exercise, case: Case, ran: Ran) -> Report | None:
    """Return the report on a kernel that is to be refused while it is built, None if it is."""
    failure = ran.failure
    if failure:
        asserted = "static_assert" in "".join(failure.lines[-1:])
        asserted = (asserted and "AssertionError" in failure.kinds) or ASSERTED in failure.kinds
        if asserted and not ran.claimed:  # a launcher could write the word, too
            return None
        return failed(exercise, case, failure)
    finding = ran.found or Finding(
        REFUSES,
        f"this launch is built and runs, and {case.refused}.",
        look='write tl.static_assert(what must hold, "words"), as a line of the kernel.',
        numbers_right=True,
    )
    return incorrect(exercise, case, finding)


def _result(exercise: Exercise, host: Host, case: Case) -> Any:
    """Return the student's result on one more case, None if there is none."""
    observed = host.run(replace(case, counted=False, compiled=False)).observed
    if observed is None:
        return None
    answer = exercise.answer(exercise.truth(*case.args, **case.kwargs))
    return exercise.compared(case, as_meant(observed.result, answer))


def _tried(exercise: Exercise, host: Host, case: Case) -> tuple[Finding | None, Any, Any]:
    """Return what is found on another case, the student's result there, and the right one."""
    observed = host.run(case).observed
    if observed is None:
        return None, None, None
    finding, observed, expected = exercise.judged(case, case, observed)
    return finding, observed.result, exercise.answer(expected)


def _fails_alike(exercise: Exercise, host: Host, finding: Finding) -> Callable[[Case], bool]:
    """Return what says whether a case has the same finding."""

    def fails(small: Case) -> bool:
        try:
            with np.errstate(all="ignore"):
                found, _, answer = _tried(exercise, host, small)
        except Exception:  # the truth has no answer to an input that is cut
            return False
        same = found is not None and found.property == finding.property
        return same and not holds_nan(answer)  # nor where it is NaN: every key is masked

    return fails


def _smallest(exercise: Exercise, host: Host, case: Case, finding: Finding) -> list[str]:
    """Return the smallest input found with the same finding, in lines; none if it stays large."""
    if finding.property not in ("the values", "the answer"):
        return []
    small = smallest(exercise, case, _fails_alike(exercise, host, finding))
    _, result, answer = _tried(exercise, host, small)
    lines = told(exercise, small, result, answer)
    which = "The smallest input found" if can_shrink(exercise, case) else "An input"
    return [f"{which} on which it fails:", *lines] if lines else []


def _shortest(exercise: Exercise, host: Host, case: Case, finding: Finding) -> tuple[Case, Finding]:
    """Return the shortest walk found with the same finding, and that."""
    short = shortest(case, _fails_alike(exercise, host, finding))
    return short, _tried(exercise, host, short)[0] or finding
