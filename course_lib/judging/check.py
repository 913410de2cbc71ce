"""``check(function)``: run a student's function on fresh inputs and say what was found.

This is formative: it runs in the student's own process, draws new inputs each time, and its only
aim is to say in one sentence what to look at next.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from course_lib import _mode, store
from course_lib.child import frames
from course_lib.judging.kernel_judge import STORED
from course_lib.judging.next_step import next_step
from course_lib.judging.picture import ErrorMap
from course_lib.judging.report import CheckFailed, Report, Verdict, display_in_notebook
from course_lib.judging.runners import on_device, run_case
from course_lib.judging.spec import Case, Exercise, Finding, Mistake
from course_lib.judging.threads import one_thread
from course_lib.judging.tolerance import has_numbers, resembles, same
from course_lib.sandbox import faults
from course_lib.sandbox.limit import TookTooLong, at_most
from course_lib.specs import find

NOT_ATTEMPTED = "not attempted"
_TO_COMPILE = 120.0  # seconds; a loop without end was found in the interpreter before
_MOST_NUMBERS = 1 << 20  # in a result that is compared with known mistakes


def check(function: Callable[..., Any], *, variant: str | None = None) -> None:
    """Judge ``function`` (the exercise is found by its name), print the verdict, remember it.

    ``variant`` names a seeded variant, "7-star:SEED", as its notebook does.

    Raises ``CheckFailed``, which carries the report, unless the verdict is *passed*.
    ``COURSE_SEED`` in the environment fixes the drawn inputs.
    """
    report = report_for(function, variant=variant)
    store.record_attempt(report.exercise.id, report.verdict.value)
    if not report.passed:
        raise CheckFailed(report)
    _show(report)


def hint(exercise: Callable[..., Any] | str) -> None:
    """Print one more hint for an exercise (its function, or its id) each time; three at most."""
    found = _exercise_of(exercise)
    number = store.next_hint(found.id, len(found.hints))
    print(f"Hint {number + 1} of {len(found.hints)} for {found.label}: {found.hints[number]}")


def report_for(
    function: Callable[..., Any], *, seed: int | None = None, variant: str | None = None
) -> Report:
    """Return the report on ``function``. Nothing that the student's code does raises here.

    Raises TypeError or LookupError, in one sentence, if ``function`` is no exercise at all.
    """
    if isinstance(function, str):
        raise TypeError(f"check takes your function itself, not a text: got {function!r}.")
    exercise = _exercise_of(function, variant)
    if seed is None:
        seed = int(os.environ.get("COURSE_SEED", "0")) or None
    if exercise.kind == "kernel" and _mode.mode() == "none":
        return Report(
            exercise,
            Verdict.CANNOT_RUN,
            (
                "This exercise needs Triton, which exists for Linux only.",
                "Open the notebook on Colab, in WSL, or in a Linux container.",
            ),
        )
    if exercise.kind != "kernel":
        return judge_cases(exercise, function, seed)
    if seed is None:  # both halves are to draw the same inputs
        seed = int(np.random.default_rng().integers(1, 2**32))
    if _mode.mode() == "gpu":
        return _judge_on_gpu(exercise, function, seed)
    report = judge_cases(exercise, function, seed)
    return _compiled(report, function, seed) if report.passed else report


def judge_cases(exercise: Exercise, function: Callable[..., Any], seed: int | None) -> Report:
    """Return the report on ``function`` run on every case, in the mode that this process has."""
    cases = list(exercise.cases(np.random.default_rng(seed)))
    if complaint := _cannot_be_called(exercise, function, cases[0]):
        return Report(exercise, Verdict.ERROR, (complaint,), failed_property="signature")
    with one_thread():
        for number, case in enumerate(cases):
            if report := _judge_case(exercise, function, case, cases[:number]):
                return report
    return Report(exercise, Verdict.PASSED, (exercise.notice,))


def _judge_on_gpu(exercise: Exercise, function: Callable[..., Any], seed: int) -> Report:
    """Judge a launcher interpreted, in a child, and what passes there compiled, here."""
    from course_lib.child.extract import NotExtractable
    from course_lib.judging.interpreted import judge_interpreted

    try:
        interpreted = judge_interpreted(exercise, function, seed)
    except NotExtractable as why:
        here = judge_cases(exercise, function, seed)
        lines = ("The numbers are right, but the rest could not be checked:", f"{why}")
        unchecked = Report(exercise, Verdict.ERROR, lines, failed_property="can be copied")
        return unchecked if here.passed else here
    if not interpreted.passed:
        return interpreted
    here = judge_cases(exercise, function, seed)
    if here.passed:
        return here
    # the compiler's own words are long: the compile check knows what they mean
    explained = _compiled(here, function, seed)
    if explained.verdict is Verdict.NOT_ON_A_GPU:
        return explained
    first = "The interpreter runs it and every answer is right. Compiled, on this GPU:"
    return replace(
        here,
        verdict=Verdict.NOT_ON_A_GPU,
        lines=(first, *here.lines),
        drawn_after=here.drawn_after + 1,
    )


def _exercise_of(function: Callable[..., Any] | str, variant: str | None = None) -> Exercise:
    if isinstance(function, str):
        return find(function)
    plain = inspect.unwrap(getattr(function, "fn", function))
    if not callable(function) and not hasattr(function, "fn"):
        raise TypeError(
            f"a function is wanted, as in check(my_function), not {type(function).__name__}."
        )
    name = getattr(plain, "__name__", type(function).__name__)
    if (getattr(plain, "__module__", None) or "").split(".")[0] == "course_lib":
        raise TypeError(f"{name} belongs to course_lib: write your own and check that.")
    if hasattr(function, "fn"):
        raise TypeError(f"{name} is a kernel: check the launcher, the function that starts it.")
    if variant is None:
        return find(name)
    exercise = find(variant)
    if exercise.function != name:
        raise LookupError(f"{exercise.label} asks for {exercise.function}, not for {name}.")
    return exercise


def _cannot_be_called(exercise: Exercise, function: Callable[..., Any], case: Case) -> str | None:
    """Return a sentence if the function's parameters do not fit the exercise, else None."""
    if exercise.run is not None:
        return None
    try:
        inspect.signature(function).bind(*case.args, **case.kwargs)
    except TypeError as error:
        return (
            f"{exercise.function} is called as {exercise.function}{exercise.signature}; "
            f"yours cannot be: {error}."
        )
    return None


def _judge_case(
    exercise: Exercise,
    function: Callable[..., Any],
    case: Case,
    passed: list[Case],
) -> Report | None:
    """Return a report if the function fails on this case, else None."""
    args, kwargs = on_device(exercise, faults.copy_inputs((case.args, dict(case.kwargs))))
    given = replace(case, args=args, kwargs=kwargs)
    compiles = exercise.kind == "kernel" and _mode.mode() == "gpu"
    seconds = _TO_COMPILE if compiles else exercise.seconds
    try:
        with at_most(seconds):
            observed = run_case(exercise, function, given)
    except TookTooLong:
        return incorrect(
            exercise,
            case,
            Finding(
                "comes to an end",
                f"your function did not finish within {seconds:g} seconds: "
                "does every loop move on?",
            ),
        )
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        report = _error(exercise, case, function, error)
        if report is None:  # none of the student's lines took part: the fault is ours
            raise
        return report
    expected = exercise.truth(*case.args, **case.kwargs)
    finding = exercise.judge(given, observed, expected) or faults.find_tampering(
        (args, kwargs), (case.args, dict(case.kwargs)), observed.result
    )
    if finding is None:
        return None
    mistake = None
    if finding.property != STORED:  # NaN that nobody computed is no misconception
        mistake = recognise(exercise, case, passed, observed.result, expected)
    return incorrect(exercise, case, finding, mistake)


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
        finding = replace(finding, picture=finding.picture.tiled_as(case))
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


def _sentence(text: str) -> str:
    """Begin with a capital letter, unless the first word is code (m, np.exp, lse)."""
    first = text.split(" ", 1)[0]
    code = not first.isalpha() or first == "lse" or (len(first) == 1 and first != "a")
    return text if code else text[:1].upper() + text[1:]


def recognise(
    exercise: Exercise, case: Case, passed: list[Case], result: Any, expected: Any
) -> Mistake | None:
    """Return the known mistake that explains this result best, or None.

    Of those that give this result here, one that was invisible on the cases that passed comes
    first: NaN has many causes, and this tells them apart. An answer of nothing but NaN that no
    such mistake explains is given no name. If none gives the whole result, one is asked for
    that gives its first wrong value: o decides, even if lse is wrong in a way of its own.
    """
    answer = exercise.answer(expected)
    if _size(result) > _MOST_NUMBERS:  # no mistake gives as much, and comparing it takes long
        return None
    if same(result, answer):  # what was found is not about values
        return None
    wrongs = [(mistake, _mistaken(mistake, case)) for mistake in exercise.mistakes]
    alike = [m for m, wrong in wrongs if resembles(result, wrong, answer)]
    first = _first_wrong(result, answer)
    if not alike and first is not None:
        result = result[first]
        alike = [m for m, wrong in wrongs if resembles(result, _item(wrong, first), answer[first])]
    for mistake in alike:
        if all(_is_invisible(exercise, mistake, c) for c in passed):
            return mistake
    return alike[0] if alike and has_numbers(result) else None


def _size(x: Any) -> int:
    """Return how many numbers a nested answer holds."""
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, tuple | list):
        return sum(map(_size, x))
    return int(np.prod(x.shape)) if faults.is_array(x) or faults.is_tensor(x) else 1


def _first_wrong(result: Any, answer: Any) -> int | None:
    """Return which array of a tuple of arrays is the first that is wrong; None if no tuple."""
    if not (isinstance(result, tuple) and isinstance(answer, tuple) and len(result) == len(answer)):
        return None
    if not all(faults.is_array(x) for x in (*result, *answer)):
        return None
    return next((i for i, x in enumerate(result) if not same(x, answer[i])), None)


def _item(wrong: Any, index: int) -> Any:
    return wrong[index] if isinstance(wrong, tuple) else object()


def _is_invisible(exercise: Exercise, mistake: Mistake, case: Case) -> bool:
    truth = exercise.answer(exercise.truth(*case.args, **case.kwargs))
    return same(_mistaken(mistake, case), truth)


def _mistaken(mistake: Mistake, case: Case) -> Any:
    """Return what the mistake makes of a case; an object that resembles nothing if it cannot."""
    args, kwargs = faults.copy_inputs((case.args, dict(case.kwargs)))
    try:
        with np.errstate(all="ignore"):
            return mistake.model(*args, **kwargs)
    except Exception:  # a mistake that does not apply to this input
        return object()


def _error(
    exercise: Exercise, case: Case, function: Callable[..., Any], error: BaseException
) -> Report | None:
    cause = frames.root_cause(error)
    if NOT_ATTEMPTED in str(cause) and isinstance(cause, NotImplementedError | AssertionError):
        return Report(
            exercise,
            Verdict.NOT_ATTEMPTED,
            (f"Write the marked lines of {exercise.function}, then run this cell again.",),
        )
    if type(cause).__name__ == "OutOfBounds":
        return incorrect(exercise, case, Finding("stays inside its tensors", str(cause)))
    theirs = frames.student_lines(error, function)
    if not theirs:
        return None
    lines = [f"On: {case.name}."] if case.name else []
    lines += [frames.describe(cause), *theirs]
    if _mode.mode() != "gpu" and ("CUDA" in str(cause) or "NVIDIA" in str(cause)):
        lines.append('A check runs on the CPU too: write device=x.device, not "cuda".')
    return Report(exercise, Verdict.ERROR, tuple(lines), failed_property=type(cause).__name__)


def _compiled(report: Report, function: Callable[..., Any], seed: int) -> Report:
    """Compile for sm_80 in a child. Return ``report``, or one that says why that fails."""
    from course_lib.child.compile_check import compile_for

    exercise, notes = report.exercise, []
    for case in exercise.cases(np.random.default_rng(seed)):
        outcome = compile_for(function, *case.args, **case.kwargs) if case.compiled else None
        if outcome is None or outcome.ok:
            continue
        if outcome.kind in ("infrastructure", "timeout"):
            notes.append(f"Whether it compiles for a GPU could not be tried: {outcome.message}")
            continue
        return Report(
            exercise,
            Verdict.NOT_ON_A_GPU,
            (
                "The interpreter runs it and every answer is right. "
                "Compiling it for a GPU (sm_80) fails:",
                "   " + outcome.message.replace("\n", "\n   "),
            ),
            failed_property="compiles for a GPU",
        )
    return replace(report, lines=(*report.lines, *dict.fromkeys(notes)))


def _show(report: Report) -> None:
    """Print the report, in colour if the terminal has any; display it in a notebook."""
    if not display_in_notebook(report):
        from rich.console import Console

        Console().print(report, soft_wrap=True)
