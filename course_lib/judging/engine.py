"""The one engine: a host runs a case, the exercise judges it, a report says what was found.

`check` in a notebook and `course grade` in the sandbox are this engine with another host, so that
both say the same about the same answer.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from course_lib import _mode
from course_lib.child.compiler_messages import COMPILED, known_trap, name_of_trap
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
from course_lib.judging.desk import holds_nan
from course_lib.judging.finding import Finding, endless
from course_lib.judging.hosts import Host, Ran
from course_lib.judging.kernel_judge import no_race
from course_lib.judging.load_map import LoadMap, load_map
from course_lib.judging.next_step import next_step, shapes_that_do_not_meet
from course_lib.judging.picture import ErrorMap
from course_lib.judging.recognise import Named, Seen, is_formula, recognise
from course_lib.judging.replay import OF_FORGED_DATA
from course_lib.judging.report import Report, Verdict
from course_lib.judging.shrink import can_shrink, smallest, told
from course_lib.judging.spec import STORED, UNDEFINED, Case, Exercise, Observed
from course_lib.judging.walks import is_walk, shortest
from course_lib.sandbox.calling import SIGNATURE
from course_lib.sandbox.inputs import UNCHANGED, is_tensor

NOT_ATTEMPTED = "not attempted"
ROUNDED = "multiplies float32 as float32"  # the property of a tl.dot that a GPU does in TF32
REFUSES = "stops where it must not be built"
ASSERTED = "CompileTimeAssertionFailure"  # what tl.static_assert raises where kernels are compiled
_LONGEST = 600  # characters of a message
# "1 queries", but not "2 x 1 heads", "0.1 seconds" or "1 pass"
_ONE_OF_SEVERAL = re.compile(r"(?<!x )(?<![\d.])\b1 ([a-z]+[^isu\W]s)\b")


class Judged(NamedTuple):
    """What came of one case: the report if it failed, and what was observed if anything was."""

    case: Case
    report: Report | None
    observed: Observed | None
    fatal: bool = False
    seen: Seen | None = None  # if it passed


def judge(exercise: Exercise, host: Host, cases: Sequence[Case]) -> Iterator[Judged]:
    """Yield what came of each case, in order, until one leaves nobody to run another.

    Only the first failure is given the name of a mistake: one name is enough, and costs time.
    """
    passed: list[Seen] = []
    named = False
    for case in (case for case in cases if not case.refused):
        judged = _judge_one(exercise, host, case, None if named else passed)
        yield judged
        if judged.fatal:
            return
        if judged.seen:
            passed.append(judged.seen)
        # at once: who hands out one buffer often has one for each shape
        for when in ("at once", REWRITTEN) if judged.seen and len(passed) == 1 else ():
            if not named and (found := asked_again(exercise, host, case, when)):
                other = wrong_on_its_own(exercise, host, when)
                alone = _judge_one(exercise, host, other, passed).report if other else None
                # whose answer is right by now keeps something after all
                yield Judged(case, alone or incorrect(exercise, case, found), None)
                named = True
        named = named or judged.report is not None
    later = "after other inputs"
    if len(cases) > 1 and not named and (found := asked_again(exercise, host, cases[0], later)):
        yield Judged(cases[0], incorrect(exercise, cases[0], found), None)
    if not named and (found := laid_out_again(exercise, host, cases)):
        yield Judged(cases[0], incorrect(exercise, replace(cases[0], name=""), found), None)
    for case in (case for case in cases if case.refused):  # after which nobody may be left
        ran = host.run(case)
        yield Judged(case, _built_after_all(exercise, case, ran), None, ran.fatal)
        if ran.fatal:
            return


def first_failure(exercise: Exercise, host: Host, cases: Sequence[Case]) -> Report:
    """Return the report on the first case that fails, or that all passed."""
    rounded = False
    for judged in judge(exercise, host, cases):
        if judged.report:
            return judged.report
        rounded = rounded or is_rounded(judged)
    return rounded_on_a_gpu(exercise) if rounded else passed(exercise)


def passed(exercise: Exercise, *notes: str) -> Report:
    """Return the report that everything was right."""
    return Report(exercise, Verdict.PASSED, (exercise.notice, *notes))


def _judge_one(exercise: Exercise, host: Host, case: Case, before: list[Seen] | None) -> Judged:
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
    answer = exercise.answer(expected)
    result = as_meant(observed.result, answer)
    observed = replace(observed, result=result)
    finding = exercise.finding(ran.given, observed, expected)
    finding = finding or no_race(case, observed, expected)  # of every kernel, asked last
    spoilt = ran.found and ran.found.property == UNCHANGED and result is not None
    if spoilt or finding is None or finding.numbers_right:  # what is wrong in any case comes first
        finding = ran.found or finding
    if finding is None:
        if doubt := host.doubt(case, observed, expected):
            return Judged(case, incorrect(exercise, case, doubt), observed)
        return Judged(case, None, observed, seen=Seen(exercise, case, answer))
    unstored = _stopped(books.nothing_stored(observed.ledger))
    finding = replace(finding, look=finding.look or unstored)
    note = books.other_tiles(case.kwargs, observed.ledger, observed.origins)
    loads = _loads(exercise, case, observed)
    unnamed = finding.numbers_right or finding.property in (STORED, UNDEFINED, UNCHANGED)
    if before is None or unnamed:  # nobody computed this NaN, or nothing is wrong with the numbers
        report = incorrect(exercise, case, finding, note=note, loads=loads)
        return Judged(case, report, observed)
    named, small = None, list[str]()
    with contextlib.suppress(*OF_FORGED_DATA):  # what it is called is told if it can be
        theirs = exercise.compared(case, observed.result)
        failed_now = Seen(exercise, case, answer, theirs, passed=False)
        named = recognise(exercise, [*before, failed_now], partial(_result, exercise, host))
        if not named and added_to_nothing(observed.result, observed.ledger):
            named = Named(UNSET, certain=False)
        if not named and (kept := right_afresh(exercise, host, case, finding)):
            finding = kept
        elif is_walk(case):
            case, finding = _shortest(exercise, host, case, finding)
        elif case.args and not named:
            small = _smallest(exercise, host, case, finding)
    return Judged(case, incorrect(exercise, case, finding, named, small, note, loads), observed)


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
    expected = exercise.truth(*case.args, **case.kwargs)
    answer, observed = exercise.answer(expected), host.run(case).observed
    if observed is None:
        return None, None, answer
    observed = replace(observed, result=as_meant(observed.result, answer))
    return exercise.finding(case, observed, expected), observed.result, answer


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


# Reports ----------------------------------------------------------------------------------------


def incorrect(
    exercise: Exercise,
    case: Case,
    finding: Finding,
    named: Named | None = None,
    small: Sequence[str] = (),
    note: str = "",
    loads: LoadMap | None = None,
) -> Report:
    """Return the report on one finding: the known mistake behind it first, if there is one.

    ``small`` are lines about a smaller input, ``note`` is one more sentence. Loads that are all
    wrong are told and not drawn.
    """
    lines, mistake = list[str](), named and named.mistake
    if named and mistake:
        likely = "looks like" if named.certain else "may be"
        lines.append(f"This {likely} a known mistake: {mistake.name}. {_sentence(mistake.says)}")
    lines += _on(case)
    lines.append(_sentence(finding.says))
    if finding.where:
        lines.append("   " + finding.where.replace("\n", "\n   "))
    shown = len(lines)
    picture = finding.picture
    if isinstance(picture, ErrorMap):
        tiled = picture = picture.tiled_as(case.args, case.kwargs)
        finding = replace(finding, picture=tiled)
        if tiled.wrong_rows.all():  # a map of that would show nothing
            all_told = tiled.codes.all() and re.search(r"\b(\d+) of \1\b", finding.says)
            lines += [] if all_told and not tiled.tiles else [tiled.caption()]
            picture, shown = None, len(lines)
    if loads and loads.is_all_wrong:
        lines.append(loads.caption())
        loads = None
    lines += [note, *small] if note else small
    after = "step by step" if is_formula(case) else "after every line"
    look = f"work this small input out by hand, and compare {after}."
    lines.append(f"Next: {look if small else next_step(exercise, finding, mistake)}")
    lines.append(f"Stuck? hint({exercise.function}) gives a hint.")
    return Report(
        exercise,
        Verdict.INCORRECT,
        tuple(lines),
        failed_property=finding.property,
        misconception=mistake.name if mistake else "",
        picture=picture,
        drawn_after=shown,
        loads=loads,
    )


def _on(case: Case) -> list[str]:
    """Return the line that says on which input; sizes are drawn, so "1 queries" is "1 query"."""
    return [f"On: {_ONE_OF_SEVERAL.sub(_one, case.name)}."] if case.name else []


def _one(found: re.Match[str]) -> str:
    word = found[1]
    return f"1 {word[:-3] + 'y' if word.endswith('ies') else word[:-1]}"


def failed(exercise: Exercise, case: Case, failure: Failure) -> Report:
    """Return the report on a case that ended in an exception."""
    kinds, text = failure.kinds, failure.text
    if NOT_ATTEMPTED in text and {"NotImplementedError", "AssertionError"} & set(kinds):
        blank = [f"Write the marked lines of {exercise.function}, then run this cell again."]
        left = [line.partition(":  ") for line in failure.lines if NOT_ATTEMPTED in line]
        blank += [  # its number is true in a file only: a notebook's cells are counted together
            f"If your lines are already there, delete the line `{text}`."
            for _, _, text in left[-1:]
        ]
        return Report(exercise, Verdict.NOT_ATTEMPTED, tuple(blank))
    if kinds[0] == SIGNATURE:
        called = f"{exercise.function} is called as {exercise.function}{exercise.signature}"
        return error(exercise, SIGNATURE, f"{called}; yours cannot be: {text}.")
    if kinds[0] == "OutOfBounds":
        says = text.partition(": ")[2] or text
        return incorrect(
            exercise,
            case,
            Finding("stays inside its tensors", says, look=_stopped(failure.look)),
        )
    if kinds[0] == "TookTooLong":
        return incorrect(exercise, case, endless(exercise.seconds * case.calls))
    lines = [*_on(case), _cut(text), *failure.lines]
    if _mode.mode() != "gpu" and ("CUDA" in text or "NVIDIA" in text):
        lines.append('A check runs on the CPU too: write device=x.device, not "cuda".')
    known = failure.look
    if not known and exercise.kind == "kernel":
        known = known_trap("\n".join([text, *failure.lines[-1:]]))
    known = known or shapes_that_do_not_meet(text, "".join(failure.lines[-1:]))
    if not known:
        return error(exercise, kinds[0], *lines)
    name = name_of_trap(known)
    if name:
        lines.insert(0, f"This looks like a known mistake: {name}.")
    report = error(exercise, kinds[0], *lines, f"Next: {_stopped(known)}")
    return replace(report, misconception=name)


def error(exercise: Exercise, failed_property: str, *lines: str) -> Report:
    """Return the report on an answer that could not be judged at all."""
    return Report(exercise, Verdict.ERROR, lines, failed_property=failed_property[:100])


def is_rounded(judged: Judged) -> bool:
    """Return whether a GPU would round float32 inputs of this case to TF32 in ``tl.dot``."""
    books = judged.observed and judged.observed.ledger
    numbers = [x for x in judged.case.args if is_tensor(x) and x.dtype.is_floating_point]
    most = max((x.dim() for x in numbers), default=0)  # lse and the like have fewer
    exact = any(str(x.dtype) == "torch.float32" for x in numbers if x.dim() == most)
    return bool(exact and getattr(books, "rounded", 0))


def rounded_on_a_gpu(exercise: Exercise) -> Report:
    """Return the report on a kernel that is right when interpreted and multiplies in TF32."""
    lines = (
        "The interpreter multiplies in float32, and every answer is right. A GPU rounds the "
        "float32 tiles that tl.dot is given to TF32, ten binary digits after the first: each "
        "number may be off by about 1e-3 of itself, and an answer adds up many of them.",
        'Next: write tl.dot(a, b, input_precision="ieee") in every tl.dot.',
        f"Stuck? hint({exercise.function}) gives a hint.",
    )
    return Report(exercise, Verdict.NOT_ON_A_GPU, lines, failed_property=ROUNDED)


def not_on_a_gpu(exercise: Exercise, message: str) -> Report:
    """Return the report on a kernel that is right when interpreted and does not compile.

    Or that is another kernel when it is compiled: then the message says so.
    """
    fails = "" if message.startswith(COMPILED) else " Compiling it for a GPU (sm_80) fails:"
    says = f"The interpreter runs it and every answer is right.{fails}"
    lines = (says, "   " + message.replace("\n", "\n   "))
    return Report(
        exercise,
        Verdict.NOT_ON_A_GPU,
        lines,
        failed_property="compiles for a GPU",
        misconception=name_of_trap(message),
    )


def _stopped(text: str) -> str:
    """Return a sentence with a full stop, unless it asks or there is none."""
    return text if not text or text.endswith("?") else f"{text}."


def _cut(text: str) -> str:
    """Return a message without the pages of numbers that it may quote."""
    text = re.sub(r"\[[-+\d.eEnaif\s\[\],]{60,}\]", "[...]", text)  # a tile
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 100]} ... {text[-100:]}"


def _sentence(text: str) -> str:
    """Begin with a capital letter, unless the first word is code (m, np.exp, lse, dS)."""
    text = _cut(text)
    first = text.split(" ", 1)[0].rstrip(",")
    word = (
        first.isalpha() and first.islower() and first != "lse" and (len(first) > 1 or first == "a")
    )
    return text[:1].upper() + text[1:] if word else text
