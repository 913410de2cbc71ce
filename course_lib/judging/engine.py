"""The one engine: a host runs a case, the exercise judges it, a report says what was found.

`check` in a notebook and `course grade` in the sandbox are this engine with another host, so that
both say the same about the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from course_lib import _mode
from course_lib.child.student_error import Failure
from course_lib.judging.as_meant import as_meant
from course_lib.judging.finding import Finding
from course_lib.judging.hosts import Host
from course_lib.judging.next_step import next_step
from course_lib.judging.picture import ErrorMap
from course_lib.judging.recognise import recognise
from course_lib.judging.report import Report, Verdict
from course_lib.judging.spec import STORED, Case, Exercise, Mistake, Observed
from course_lib.sandbox.calling import SIGNATURE

NOT_ATTEMPTED = "not attempted"


class Judged(NamedTuple):
    """What came of one case: the report if it failed, and what was observed if anything was."""

    case: Case
    report: Report | None
    observed: Observed | None
    fatal: bool = False


def judge(exercise: Exercise, host: Host, cases: Sequence[Case]) -> Iterator[Judged]:
    """Yield what came of each case, in order, until one leaves nobody to run another.

    Only the first failure is given the name of a mistake: one name is enough, and costs time.
    """
    passed: list[Case] = []
    named = False
    for case in cases:
        judged = _judge_one(exercise, host, case, None if named else passed)
        yield judged
        if judged.fatal:
            return
        named = named or judged.report is not None
        if judged.report is None:
            passed.append(case)


def first_failure(exercise: Exercise, host: Host, cases: Sequence[Case]) -> Report:
    """Return the report on the first case that fails, or that all passed."""
    reports = (judged.report for judged in judge(exercise, host, cases))
    return next(filter(None, reports), None) or passed(exercise)


def passed(exercise: Exercise, *notes: str) -> Report:
    """Return the report that everything was right."""
    return Report(exercise, Verdict.PASSED, (exercise.notice, *notes))


def _judge_one(exercise: Exercise, host: Host, case: Case, before: list[Case] | None) -> Judged:
    """Judge one case. ``before``: the cases that passed, None if no mistake is to be named."""
    ran = host.run(case)
    observed = ran.observed
    if observed is None:
        if ran.found:
            report = incorrect(exercise, case, ran.found)
        else:
            report = failed(exercise, case, ran.failure or Failure(("Error",), ""))
        return Judged(case, report, None, ran.fatal)
    expected = exercise.truth(*case.args, **case.kwargs)
    result = as_meant(observed.result, exercise.answer(expected))
    observed = replace(observed, result=result)
    finding = _finding(exercise, ran.given, observed, expected) or ran.found
    if finding is None:
        doubt = host.doubt(case, observed)
        return Judged(case, incorrect(exercise, case, doubt) if doubt else None, observed)
    mistake = None
    if before is not None and finding.property != STORED:  # NaN that nobody computed has no name
        mistake = recognise(exercise, case, before, observed.result, expected)
    return Judged(case, incorrect(exercise, case, finding, mistake), observed)


def _finding(exercise: Exercise, case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Return what the exercise's judge says; whose numbers they are is asked whatever it is."""
    try:
        finding = exercise.judge(case, observed, expected)
        if finding is None and observed.provenance is not None:
            return observed.provenance.finding(observed.result)
        return finding
    except Exception as error:  # only a result that the judge never expected gets here
        says = f"your result cannot be compared with the right one ({type(error).__name__})."
        return Finding("the form", says)


# Reports ----------------------------------------------------------------------------------------


def incorrect(
    exercise: Exercise, case: Case, finding: Finding, mistake: Mistake | None = None
) -> Report:
    """Return the report on one finding, with the known mistake behind it if there is one."""
    lines = [f"On: {case.name}."] if case.name else []
    lines.append(_sentence(finding.says))
    if finding.where:
        lines.append("   " + finding.where.replace("\n", "\n   "))
    shown = len(lines)
    if isinstance(finding.picture, ErrorMap):
        finding = replace(finding, picture=finding.picture.tiled_as(case.args, case.kwargs))
    if mistake:
        lines.append(f"This looks like a known mistake: {mistake.name}. {_sentence(mistake.says)}")
    lines.append(f"Next: {next_step(exercise, finding, mistake)}")
    lines.append(f"Stuck? hint({exercise.function}) gives a hint.")
    return Report(
        exercise,
        Verdict.INCORRECT,
        tuple(lines),
        failed_property=finding.property,
        misconception=mistake.name if mistake else "",
        picture=finding.picture,
        drawn_after=shown,
    )


def failed(exercise: Exercise, case: Case, failure: Failure) -> Report:
    """Return the report on a case that ended in an exception."""
    kinds, text = failure.kinds, failure.text
    if NOT_ATTEMPTED in text and {"NotImplementedError", "AssertionError"} & set(kinds):
        says = f"Write the marked lines of {exercise.function}, then run this cell again."
        return Report(exercise, Verdict.NOT_ATTEMPTED, (says,))
    if kinds[0] == SIGNATURE:
        called = f"{exercise.function} is called as {exercise.function}{exercise.signature}"
        return error(exercise, SIGNATURE, f"{called}; yours cannot be: {text}.")
    if kinds[0] == "OutOfBounds":
        says = text.partition(": ")[2] or text
        return incorrect(exercise, case, Finding("stays inside its tensors", says))
    if kinds[0] == "TookTooLong":
        says = f"your function did not finish within {exercise.seconds:g} seconds"
        endless = Finding("comes to an end", f"{says}: does every loop move on?")
        return incorrect(exercise, case, endless)
    lines = [f"On: {case.name}."] if case.name else []
    lines += [text, *failure.lines]
    if _mode.mode() != "gpu" and ("CUDA" in text or "NVIDIA" in text):
        lines.append('A check runs on the CPU too: write device=x.device, not "cuda".')
    return error(exercise, kinds[0], *lines)


def error(exercise: Exercise, failed_property: str, *lines: str) -> Report:
    """Return the report on an answer that could not be judged at all."""
    return Report(exercise, Verdict.ERROR, lines, failed_property=failed_property[:100])


def not_on_a_gpu(exercise: Exercise, message: str) -> Report:
    """Return the report on a kernel that is right when interpreted and does not compile."""
    says = (
        "The interpreter runs it and every answer is right. Compiling it for a GPU (sm_80) fails:"
    )
    lines = (says, "   " + message.replace("\n", "\n   "))
    return Report(exercise, Verdict.NOT_ON_A_GPU, lines, failed_property="compiles for a GPU")


def _sentence(text: str) -> str:
    """Begin with a capital letter, unless the first word is code (m, np.exp, lse)."""
    first = text.split(" ", 1)[0]
    code = not first.isalpha() or first == "lse" or (len(first) == 1 and first != "a")
    return text if code else text[:1].upper() + text[1:]
