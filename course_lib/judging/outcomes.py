"""The report on each end that a case can come to: wrong, an error, right here and not on a GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from course_lib import _mode
from course_lib.child.compiler_messages import COMPILED, known_trap, name_of_trap
from course_lib.child.student_error import Failure
from course_lib.judging.confirming import Named
from course_lib.judging.finding import Finding, endless
from course_lib.judging.load_map import LoadMap
from course_lib.judging.next_step import next_step, shapes_that_do_not_meet
from course_lib.judging.picture import ErrorMap
from course_lib.judging.report import Report, Verdict
from course_lib.judging.seen import is_formula
from course_lib.judging.spec import Case, Exercise
from course_lib.sandbox.calling import SIGNATURE

NOT_ATTEMPTED = "not attempted"
OUT_OF_BOUNDS = "OutOfBounds"  # the exception of an address outside of its tensor
ROUNDED = "multiplies float32 as float32"  # the property of a tl.dot that a GPU does in TF32
_LONGEST = 600  # characters of a message
# "1 queries", but not "2 x 1 heads", "0.1 seconds" or "1 pass"
_ONE_OF_SEVERAL = re.compile(r"(?<!x )(?<![\d.])\b1 ([a-z]+[^isu\W]s)\b")


def passed(exercise: Exercise, *notes: str) -> Report:
    """Return the report that everything was right."""
    return Report(exercise, Verdict.PASSED, (exercise.notice, *notes))


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


def failed(exercise: Exercise, case: Case, failure: Failure, named: Named | None = None) -> Report:
    """Return the report on a case that ended in an exception, of a known mistake or not."""
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
    if kinds[0] == OUT_OF_BOUNDS:
        says = text.partition(": ")[2] or text
        return incorrect(
            exercise,
            case,
            Finding("stays inside its tensors", says, look=stopped(failure.look)),
            named,
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
    report = error(exercise, kinds[0], *lines, f"Next: {stopped(known)}")
    return replace(report, misconception=name)


def error(exercise: Exercise, failed_property: str, *lines: str) -> Report:
    """Return the report on an answer that could not be judged at all."""
    return Report(exercise, Verdict.ERROR, lines, failed_property=failed_property[:100])


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


def stopped(text: str) -> str:
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
