"""``check(function)``: run a student's function on fresh inputs and say what was found.

This is formative: it runs in the student's own process, draws new inputs each time, and its only
aim is to say in one sentence what to look at next.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from course_lib import _mode, lessons, store
from course_lib.accounting.within_reach import modules_within_reach
from course_lib.judging import engine, outcomes
from course_lib.judging.hosts import compared
from course_lib.judging.hosts.here import Here
from course_lib.judging.report import CheckFailed, Report, Verdict, display_in_notebook
from course_lib.judging.spec import Exercise
from course_lib.judging.threads import one_thread
from course_lib.laptop import interpreter_only
from course_lib.sandbox.allowed import refused
from course_lib.specs import find

_QUIET = 1.5  # seconds; what takes longer says that it works
_MOST_PRINTED = 20_000  # characters, as many as a child process hands on
_COMPILED_LATER = "Right here, in Triton's interpreter; compiled when graded, or on Linux."
_TO_COMPILE = 120.0  # seconds; a loop without end was found in the interpreter before


def check(function: Callable[..., Any], *, variant: str | None = None) -> None:
    """Judge ``function`` (the exercise is found by its name), print the verdict, remember it.

    Its name is its own, or else that to which it was assigned (``echo = lambda x: x.copy()``).
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
    name = exercise if isinstance(exercise, str) else _name_of(exercise)
    found = find(name) if ":" in name else lessons.find(name)  # facts suffice: no spec is imported
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
    if seed is None:  # both halves of a kernel's check are to draw the same inputs
        seed = int(np.random.default_rng().integers(1, 2**32))
    says = refused(modules_within_reach(function))
    if says and exercise.kind != "kernel":  # whose kernel was launched is told by the books
        return outcomes.error(exercise, "PermissionError", f"{says[0].upper()}{says[1:]}")
    with _few_words(), _sign_of_life(exercise):
        return _judged(exercise, function, seed)


class _Printed:
    """Pass on what is printed as far as ``left`` characters go, and say that there was more."""

    def __init__(self, to: Any, left: int) -> None:
        self._to, self._left = to, left

    def write(self, text: str) -> int:
        if self._left >= 0:
            self._to.write(text[: self._left])
            if len(text) > self._left:
                self._to.write("\n... (your code prints more; it is left out)\n")
            self._left -= len(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._to, name)


def _few_words() -> contextlib.AbstractContextManager[Any]:
    """Let the block print a little: a print in a kernel's loop is one for each tile and program."""
    return contextlib.redirect_stdout(_Printed(sys.stdout, _MOST_PRINTED))


@contextlib.contextmanager
def _sign_of_life(exercise: Exercise) -> Iterator[None]:
    """Print a line if the block takes more than a moment."""
    timer = threading.Timer(_QUIET, print, [f"Checking {exercise.label} ..."], {"flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _judged(exercise: Exercise, function: Callable[..., Any], seed: int) -> Report:
    """Return the report on ``function``, in whatever ways this machine can try it."""
    if exercise.kind != "kernel":
        return _here(exercise, function, seed)
    if _mode.mode() == "none":
        says = "This exercise needs Triton, which has wheels for Linux only."
        does = "Its interpreter is enough: `course triton`. Or open the notebook on Colab."
        return Report(exercise, Verdict.CANNOT_RUN, (says, does))
    if _mode.mode() == "gpu":
        return _judge_on_gpu(exercise, function, seed)
    rng = np.random.default_rng(seed)
    host = Here(exercise, function, compared(exercise.cases(rng), rng))
    report = _here(exercise, function, seed, host)
    if not report.passed:
        return report
    if interpreter_only():
        return replace(report, lines=(*report.lines, _COMPILED_LATER))
    launches = [one for kept in host.launches.values() for one in kept]
    return _compiled(report, function, seed, launches)


def _here(
    exercise: Exercise, function: Callable[..., Any], seed: int, host: Here | None = None
) -> Report:
    """Return the report on ``function`` run on every case, in the mode that this process has."""
    cases = exercise.cases(np.random.default_rng(seed))
    with one_thread():
        return engine.first_failure(exercise, host or Here(exercise, function), cases)


def _judge_on_gpu(exercise: Exercise, function: Callable[..., Any], seed: int) -> Report:
    """Judge a launcher interpreted, in a child, and what passes there compiled, here."""
    from course_lib.child.extract import NotExtractable
    from course_lib.judging.hosts.interpreted import judge_interpreted

    compiling = replace(exercise, seconds=_TO_COMPILE)
    try:
        interpreted = judge_interpreted(exercise, function, seed, f"{__name__}:_in_the_child")
    except NotExtractable as why:  # a lambda, an object: nothing is wrong with its kernels
        here = _here(compiling, function, seed)
        note = (
            f"The numbers are right; whose they are, and what is loaded, could not be seen: {why}"
        )
        return replace(here, lines=(*here.lines, note)) if here.passed else here
    if not interpreted.passed:
        return interpreted
    here = _here(compiling, function, seed)
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


def _in_the_child(student: Any, payload: dict[str, Any]) -> dict[str, Any]:
    """In an interpreting child: judge every case as a machine without a GPU does."""
    from course_lib.judging.hosts.interpreted import packed

    function = getattr(student, payload["name"])
    return packed(_here(find(payload["exercise"]), function, payload["seed"]))


def _exercise_of(function: Callable[..., Any], variant: str | None) -> Exercise:
    name = _name_of(function)
    if variant is None:
        return find(name)
    exercise = find(variant)
    if exercise.function != name:
        raise LookupError(f"{exercise.label} asks for {exercise.function}, not for {name}.")
    return exercise


def _name_of(function: Callable[..., Any]) -> str:
    plain = inspect.unwrap(getattr(function, "fn", function))
    while isinstance(plain, functools.partial):
        plain = plain.func
    if not callable(function) and not hasattr(function, "fn"):
        raise TypeError(
            f"a function is wanted, as in check(my_function), not {type(function).__name__}."
        )
    name = getattr(plain, "__name__", type(function).__name__)
    if not _is_exercise(getattr(function, "__name__", "")):
        name = _assigned_name(function, plain) or name
    if (getattr(plain, "__module__", None) or "").split(".")[0] == "course_lib":
        raise TypeError(f"{name} belongs to course_lib: write your own and check that.")
    if hasattr(function, "fn"):
        raise TypeError(f"{name} is a kernel: check the launcher, the function that starts it.")
    return name


def _assigned_name(function: Callable[..., Any], plain: Any) -> str | None:
    """Return the exercise's name that stands for this very object where it was written, in a
    module or where it is checked; None if there is no such name, or more than one.

    Graders look for the name, too: whatever it stands for is judged.
    """
    spaces = [getattr(plain, "__globals__", {})]
    spaces += [getattr(module, "__dict__", {}) for module in list(sys.modules.values())]
    spaces += [info.frame.f_locals for info in inspect.stack(0)]
    names = [exercise.function for exercise in lessons.all_exercises()]
    found = {name for name in names for space in spaces if space.get(name) is function}
    return found.pop() if len(found) == 1 else None


def _is_exercise(name: str) -> bool:
    return any(name == exercise.function for exercise in lessons.all_exercises())


def _compiled(
    report: Report,
    function: Callable[..., Any],
    seed: int,
    launches: Sequence[Mapping[str, Any]] = (),
) -> Report:
    """Compile for sm_80 in a child. Return ``report``, or one that says why that fails.

    ``launches`` were interpreted, and have to do the same as they are compiled.
    """
    from course_lib.child.compile_check import CompileReport, compile_for
    from course_lib.child.extract import NotExtractable, python_function

    exercise, notes = report.exercise, []
    untried = "Whether it compiles for a GPU could not be tried:"
    try:
        isinstance(function, type) or python_function(function)
    except NotExtractable as why:  # a lambda, an object: nothing is wrong with its kernels
        return replace(report, lines=(*report.lines, f"{untried} {why}"))
    for case in exercise.cases(np.random.default_rng(seed)):
        if not case.compiled:
            continue
        args, _ = case.phases(exercise.later)
        outcome = compile_for(function, *args, launches=launches, **case.kwargs)
        launches = ()  # once is enough, where several cases are compiled
        assert isinstance(outcome, CompileReport)  # one target, one report
        if outcome.ok:
            continue
        if outcome.kind not in ("infrastructure", "timeout", "unclear"):
            return outcomes.not_on_a_gpu(exercise, outcome.message)
        compiles = "It compiles for a GPU;" if outcome.kind == "unclear" else untried
        notes.append(f"{compiles} {outcome.message}")
    return replace(report, lines=(*report.lines, *dict.fromkeys(notes)))


def _show(report: Report) -> None:
    """Print the report, in colour if the terminal has any; display it in a notebook."""
    if not display_in_notebook(report):
        from rich.console import Console

        Console().print(report, soft_wrap=True)
