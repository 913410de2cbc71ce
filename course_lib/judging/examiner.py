"""The trusted side: draw secret inputs, let the sandbox run the function, judge what comes back.

Truths, seeds, tolerances and the clock stay here. A student's process only ever sees one input
after the other.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from course_lib.judging import books, check
from course_lib.judging.kernel_judge import BY_THE_KERNEL, STORED
from course_lib.judging.origins import Origins, leaves
from course_lib.judging.replay import Replay, Unclear
from course_lib.judging.report import Report, Verdict
from course_lib.judging.spec import Case, Exercise, Finding, Observed
from course_lib.sandbox.frame import BadFrame, Closed, TooLate
from course_lib.sandbox.workshop import Child, InfrastructureError, Workshop

FEEDBACK_SECONDS = 10.0  # after the first failure, to try the remaining cases
COMPILE_SECONDS = 120.0
COMPILE_FOR = 80  # sm_80
MOST_PROGRAMS = 1 << 16  # of one launch
MOST_TENSORS, MOST_ELEMENTS = 64, 1 << 24  # of one launch, elements of all its tensors together
_KEPT_TO_COMPILE = 8  # launches of a case
_PLAIN = (bool, int, float, str, type(None))


@dataclass
class Result:
    """What came of one exercise: the report, what each case showed, what it cost."""

    report: Report
    properties: list[dict[str, Any]] = field(default_factory=list)
    traffic: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    cpu_seconds: float = 0.0  # of the confined processes
    judging_seconds: float = 0.0  # CPU, of truth and comparison
    launches: list[dict[str, Any]] = field(default_factory=list)  # of the case to compile


class _DeviceDied(Exception):
    """The device's process ended during a student's case."""


class _Failed(Exception):
    """A case came to an end without a result: its report."""

    def __init__(self, report: Report, *, fatal: bool = False) -> None:
        super().__init__(report.text())
        self.report, self.fatal = report, fatal


def draw_cases(exercise: Exercise, secret: bytes, content: str) -> list[Case]:
    """Return the cases for one submission: its own, the same every time, unknown beforehand."""
    seed = hashlib.sha256(b"|".join([secret, content.encode(), exercise.id.encode()])).digest()
    return list(exercise.cases(np.random.default_rng(int.from_bytes(seed))))


def examine(workshop: Workshop, exercise: Exercise, program: str, cases: Sequence[Case]) -> Result:
    """Run and judge one exercise. Raises InfrastructureError if the machine is at fault.

    A device that dies once may be the machine's fault; if it dies again, it is the launch's.
    """
    started = time.monotonic()
    for _ in range(2):
        examination = _Examination(workshop, exercise)
        with examination:
            try:
                examination.load(program)
                report = examination.try_all(cases)
            except _Failed as failed:
                report = failed.report
            except _DeviceDied as died:
                report = _report(exercise, str(died), "ProcessEnded")
                continue
        break
    result = examination.result
    result.report, result.seconds = report, time.monotonic() - started
    return result


def compiles(
    workshop: Workshop, exercise: Exercise, launches: list[dict[str, Any]]
) -> Report | None:
    """Compile what the device ran for a GPU; return a report if it does not compile, else None.

    A compiler that takes too long says nothing against the kernel: the report is *passed*, with a
    note. Raises InfrastructureError if it cannot be found out here.
    """
    deadline = time.monotonic() + COMPILE_SECONDS
    for launch in launches:
        cpu_seconds = int(COMPILE_SECONDS) + 30  # the deadline comes first
        with workshop.compiler(cpu_seconds=cpu_seconds, memory_bytes=8 << 30) as child:
            try:
                answer = child.ask({**launch, "arch": COMPILE_FOR}, deadline)
            except TooLate:
                note = f"Whether it compiles for a GPU is open: not within {COMPILE_SECONDS:g} s."
                return Report(exercise, Verdict.PASSED, (exercise.notice, note))
            except (Closed, BadFrame) as error:
                raise InfrastructureError(f"The compiler died: {type(error).__name__}.") from None
        if answer["ok"]:
            continue
        if answer["kind"] == "infrastructure":
            raise InfrastructureError(str(answer["message"]))
        says = ("The interpreter runs it and every answer is right. Compiling it for a GPU fails:",)
        lines = (*says, "   " + str(answer["message"]).replace("\n", "\n   "))
        return Report(exercise, Verdict.NOT_ON_A_GPU, lines, failed_property="compiles for a GPU")
    return None


class _Examination:
    """One exercise of one submission: a child for the student, one more for the device."""

    def __init__(self, workshop: Workshop, exercise: Exercise) -> None:
        self.exercise, self.workshop = exercise, workshop
        self.is_kernel = exercise.kind == "kernel"
        self.result = Result(Report(exercise, Verdict.ERROR))
        self._stack = contextlib.ExitStack()
        self._children: list[Child] = []
        self._passed: list[Case] = []
        self._failed = False
        self._launched = False
        self._replay: Replay | None = None

    def __enter__(self) -> _Examination:
        cpu = int(3 * self.exercise.seconds) + 5
        self.student = self._start(self.workshop.student(cpu_seconds=cpu))
        if self.is_kernel:
            self.device = self._start(self.workshop.interpreter(cpu_seconds=4 * cpu))
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
        self.result.cpu_seconds = sum(c.usage.get("cpu_seconds", 0.0) for c in self._children)

    def _start(self, child: Child) -> Child:
        self._children.append(child)
        return self._stack.enter_context(child)

    def load(self, program: str) -> None:
        """Let the child execute the student's program."""
        request = {"do": "load", "program": program, "slug": self.exercise.slug}
        request |= {
            "function": self.exercise.function,
            "run": None if self.is_kernel else self._run(),
        }
        with self._the_students_fault(None):
            answer = _message(self.student.ask(request, time.monotonic() + self.exercise.seconds))
        if "launch" in answer:
            says = "your cells start a kernel while they are loaded: start it in the function."
            raise _Failed(_report(self.exercise, says, "loads"))
        if error := answer.get("error"):
            raise _Failed(self._error(None, error), fatal=True)
        if answer.get("found") is not True:
            name = self.exercise.function
            raise _Failed(_report(self.exercise, f"{name} is no function here.", "signature"))

    def try_all(self, cases: Sequence[Case]) -> Report:
        """Judge every case; the first failure decides, the rest is feedback while time allows."""
        first: Report | None = None
        until = float("inf")
        replayed = _any_of(cases) if self.is_kernel else None
        for case in cases:
            if time.monotonic() > until:
                break
            self._replay = Replay(case) if case is replayed else None
            try:
                report, fatal = self._try(case), False
            except _Failed as failed:
                report, fatal = failed.report, failed.fatal
            self._note(case, report)
            if report and first is None:
                first, until = report, time.monotonic() + FEEDBACK_SECONDS
            if fatal:
                break
        return first or Report(self.exercise, Verdict.PASSED, (self.exercise.notice,))

    def _try(self, case: Case) -> Report | None:
        """Run one case and judge it. Raises _Failed if nothing came back."""
        before = time.process_time()
        deadline = time.monotonic() + self.exercise.seconds
        origins = Origins(_tensors(case), deadline)
        if self.is_kernel:
            self._open(case, deadline)
        request = {"do": "case", "args": tuple(case.args), "kwargs": dict(case.kwargs)}
        request |= {"counted": case.counted, "kernel": self.is_kernel}
        request |= {"fits": self.exercise.run is None or self.is_kernel}
        with self._the_students_fault(case):
            self.student.send(request, deadline=deadline)
            answer = self._next(case, deadline, origins)
        if error := answer.get("error"):
            raise _Failed(self._error(case, error), fatal=False)
        with self._the_students_fault(case):
            observed = self._observed(case, answer, deadline)
        report = self._judge(case, observed, answer.get("tampering"), origins)
        if report is None and self._replay and (finding := self._follows(observed)):
            report = check.incorrect(self.exercise, case, finding)
        self.result.judging_seconds += time.process_time() - before
        return report

    def _next(self, case: Case, deadline: float, origins: Origins) -> dict[str, Any]:
        """Return the student's answer, serving launches until it comes."""
        launches = []
        while True:
            answer = _message(self.student.receive(deadline))
            if "launch" not in answer:
                if case.compiled:
                    self.result.launches = launches
                return answer
            launch = clean_launch(answer["launch"])
            if case.compiled and len(launches) < _KEPT_TO_COMPILE:
                launches.append(launch)
            written = self._launch(case, launch, deadline, origins)
            self.student.send({"written": written}, deadline=deadline)

    def _launch(
        self, case: Case, launch: dict[str, Any], deadline: float, origins: Origins
    ) -> dict[str, Any]:
        """Have a launch done by the device; return the tensors that it wrote."""
        if not self.is_kernel:
            finding = Finding("needs no kernel", "this exercise is not about launching kernels.")
            raise _Failed(check.incorrect(self.exercise, case, finding))
        if name := origins.stranger(launch["args"]):
            finding = Finding(
                BY_THE_KERNEL,
                f"the tensor given as `{name}` holds numbers that are neither inputs nor written "
                "by a kernel: the kernel is to compute them.",
            )
            raise _Failed(check.incorrect(self.exercise, case, finding), fatal=True)
        if many := origins.too_many(launch):
            finding = Finding(BY_THE_KERNEL, f"your launches have more {many} than a kernel needs.")
            raise _Failed(check.incorrect(self.exercise, case, finding), fatal=True)
        self._launched = True
        written = self._ask_device({"do": "launch", **launch}, case, deadline)["written"]
        origins.note_written(written.values())
        if self._replay:
            self._replay.note(launch, written)
        return written

    def _open(self, case: Case, deadline: float) -> None:
        """Have the device open new books."""
        self._ask_device({"do": "open", "races": self.exercise.run is not None}, case, deadline)

    def _follows(self, seen: Observed) -> Finding | None:
        """Do the launches of the case that passed again on other inputs; judge what they give."""
        replay, deadline = self._replay, time.monotonic() + self.exercise.seconds
        case = replay.other_case()

        def run(launch: dict[str, Any]) -> dict[str, Any]:
            return self._ask_device({"do": "launch", **launch}, case, deadline)["written"]

        self._open(case, deadline)
        try:
            result = replay.again(run, seen.result)
        except Unclear:
            return None
        observed = Observed(result, self._books(case, deadline), seen.allocated)
        expected = self.exercise.truth(*case.args, **case.kwargs)
        if self.exercise.judge(case, observed, expected) is None:
            return None
        return Finding(
            BY_THE_KERNEL,
            "the answer is right, but the same launches on other inputs do not give theirs: some "
            "of its numbers come from beside the kernel.",
        )

    def _ask_device(self, request: Any, case: Case | None, deadline: float) -> dict[str, Any]:
        try:
            answer = self.device.ask(request, deadline)
        except TooLate:
            raise _Failed(self._endless(case), fatal=True) from None
        except BadFrame:
            says = "a launch asks for more memory than this exercise needs."
            raise _Failed(_report(self.exercise, says, "memory"), fatal=True) from None
        except Closed:
            status = self.device.end()["status"]
            if not self._launched:
                says = f"The device's process died ({status})."
                raise InfrastructureError(says) from None
            says = f"a launch ended the process that runs the kernels (exit status {status})."
            raise _DeviceDied(says) from None
        if error := answer.get("error"):
            raise _Failed(self._error(case, error), fatal=True)
        return answer

    def _observed(self, case: Case, answer: dict[str, Any], deadline: float) -> Observed:
        allocated = answer.get("allocated")
        allocated = allocated if isinstance(allocated, int) else None
        if not self.is_kernel:
            return Observed(answer.get("result"), books.rebuilt(answer.get("ledger")), allocated)
        return Observed(answer.get("result"), self._books(case, deadline), allocated)

    def _books(self, case: Case, deadline: float) -> Any:
        counted = self._ask_device({"do": "books"}, case, deadline)
        return books.kernel_ledger(counted["books"], counted["races"])

    def _judge(
        self, case: Case, observed: Observed, tampering: Any, origins: Origins
    ) -> Report | None:
        expected = self.exercise.truth(*case.args, **case.kwargs)
        if case.counted and (seen := books.traffic(observed.ledger)):
            self.result.traffic[case.name] = seen
        try:
            finding = self.exercise.judge(case, observed, expected)
        except Exception as error:  # only a result that the judge never expected gets here
            says = f"your result cannot be compared with the right one ({type(error).__name__})."
            finding = Finding("the form", says)
        if finding is None and (texts := _texts(tampering)):
            finding = Finding(texts[0], texts[-1])
        if finding is None and self.is_kernel and not origins.from_a_kernel(observed.result):
            says = "the result holds numbers that no kernel wrote: return what the kernel computed."
            finding = Finding(BY_THE_KERNEL, says)
        if finding is None:
            self._passed.append(case)
            return None
        mistake = None
        if not self._failed:  # a name for the first failure is enough, and costs seconds
            self._failed = True
            if finding.property != STORED:  # NaN that nobody computed is no misconception
                result = observed.result
                mistake = check.recognise(self.exercise, case, self._passed, result, expected)
        return check.incorrect(self.exercise, case, finding, mistake)

    @contextlib.contextmanager
    def _the_students_fault(self, case: Case | None) -> Any:
        """Turn silence, garbage and death of the student's process into a report."""
        try:
            yield
        except TooLate:
            raise _Failed(self._endless(case), fatal=True) from None
        except BadFrame as error:
            says = f"what came back cannot be read as a result ({error})."
            raise _Failed(_report(self.exercise, says, "the form"), fatal=True) from None
        except Closed:
            raise _Failed(self._died(case), fatal=True) from None

    def _endless(self, case: Case | None) -> Report:
        finding = Finding(
            "comes to an end",
            f"your code did not finish within {self.exercise.seconds:g} seconds: "
            "does every loop move on?",
        )
        return check.incorrect(self.exercise, case or Case("loading your cells"), finding)

    def _died(self, case: Case | None) -> Report:
        usage = self.student.end()
        if usage["cpu_seconds"] >= 3 * self.exercise.seconds:
            return self._endless(case)
        status = usage["status"]
        how = f"signal {-status}" if status is not None and status < 0 else f"exit status {status}"
        says = f"your code ended the whole process ({how}) instead of returning."
        return _report(self.exercise, says, "ProcessEnded")

    def _error(self, case: Case | None, error: Any) -> Report:
        """Report what a student's code, or a kernel, raised; all of it is only text."""
        error = error if isinstance(error, dict) else {}
        kinds = _texts(error.get("kinds")) or [str(error.get("type", ""))]
        text, exercise = str(error.get("text", ""))[:4000], self.exercise
        if check.NOT_ATTEMPTED in text and {"NotImplementedError", "AssertionError"} & set(kinds):
            says = f"Write the marked lines of {exercise.function}."
            return Report(exercise, Verdict.NOT_ATTEMPTED, (says,))
        if kinds[0] == "OutOfBounds":
            says = text.partition(": ")[2] or text
            return check.incorrect(
                exercise, case or Case(""), Finding("stays inside its tensors", says)
            )
        if kinds[0] == "signature":
            text = (
                f"{exercise.function} is called as {exercise.function}{exercise.signature}: {text}"
            )
        if error.get("loading"):
            text += " (while its cells were loaded)"
        lines = [f"On: {case.name}."] if case and case.name else []
        lines += [text, *_texts(error.get("lines"))]
        return Report(exercise, Verdict.ERROR, tuple(lines), failed_property=kinds[0][:100])

    def _note(self, case: Case, report: Report | None) -> None:
        entry: dict[str, Any] = {"case": case.name, "passed": report is None}
        if report is not None:
            entry |= {"property": report.failed_property, "misconception": report.misconception}
        self.result.properties.append(entry)

    def _run(self) -> str | None:
        """Return the source of an unusual way to call the function; it holds no answers."""
        from course_lib.child.extract import extract

        if self.exercise.run is None:
            return None
        piece = extract(self.exercise.run, inline_library=True)
        return f"{piece.source}\n\nrun = {piece.name}\n"


def clean_launch(launch: Any) -> dict[str, Any]:
    """Return a launch with the fields it must have and no others. Raises BadFrame."""
    try:
        grid = [int(n) for n in launch["grid"]]
        args, options = dict(launch["args"]), dict(launch["options"])
        names = [launch["source"], launch["name"], *args, *options]
    except (KeyError, TypeError, ValueError):
        raise BadFrame("a launch without its parts") from None
    for key, value in args.items():
        _check_argument(str(key), value)
    if not all(isinstance(x, str) for x in names) or not 1 <= len(grid) <= 3:
        raise BadFrame("a launch with strange names or a strange grid")
    if min(grid) < 0 or math.prod(grid) > MOST_PROGRAMS:
        raise BadFrame(f"a launch of more than {MOST_PROGRAMS} programs")
    sizes = [value.numel() for _, value in leaves(args) if hasattr(value, "data_ptr")]
    if len(sizes) > MOST_TENSORS or sum(sizes) > MOST_ELEMENTS:
        raise BadFrame(f"a launch with over {MOST_TENSORS} tensors or {MOST_ELEMENTS} elements")
    options = {k: v for k, v in options.items() if isinstance(v, int)}
    fields = {"source": launch["source"], "name": launch["name"], "grid": grid}
    return {**fields, "args": args, "options": options}


def _check_argument(key: str, value: Any) -> None:
    """Raise BadFrame unless this is a plain value, a tensor, a descriptor, or a tuple of them."""
    import torch

    if isinstance(value, dict):
        parts = value.get("descriptor")
        base, *numbers = parts if isinstance(parts, tuple) and parts else (None,)
        whole = all(isinstance(n, list) and all(isinstance(i, int) for i in n) for n in numbers)
        if len(numbers) != 3 or not isinstance(base, torch.Tensor) or not whole:
            raise BadFrame(f"the launch argument {key!r} is no descriptor")
    elif isinstance(value, tuple):
        for item in value:
            _check_argument(key, item)
    elif not isinstance(value, (*_PLAIN, torch.Tensor, torch.dtype)):
        raise BadFrame(f"the launch argument {key!r} is a {type(value).__name__}")


def _any_of(cases: Sequence[Case]) -> Case:
    """Return one of the cases: which, only those who know the inputs can tell."""
    drawn = hashlib.sha256()
    for tensor in (x for case in cases for x in _tensors(case)):
        drawn.update(tensor.detach().double().numpy().tobytes())
    return cases[int.from_bytes(drawn.digest()) % len(cases)]


def _message(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise BadFrame("no answer")
    return answer


def _texts(lines: Any) -> list[str]:
    """Return the first few of a list of untrusted texts, each cut."""
    return [str(line)[:300] for line in lines[:8]] if isinstance(lines, list) else []


def _report(exercise: Exercise, says: str, failed: str) -> Report:
    return Report(exercise, Verdict.ERROR, (says,), failed_property=failed)


def _tensors(case: Case) -> list[Any]:
    return [x for x in [*case.args, *case.kwargs.values()] if hasattr(x, "data_ptr")]
