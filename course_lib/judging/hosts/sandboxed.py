"""The sandbox: a confined process for the student's code, another one that runs kernels.

Truths, seeds, tolerances and the clock stay with the engine. A student's process only ever sees
one input after the other, and a launch becomes a message that is carried to the other process: so
neither results nor traffic of a kernel can be made up. Longer than 400 lines because what is
trusted of a submission is read in one place.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from course_lib.child.as_compiled import MOST_LAUNCHES
from course_lib.child.codec import BadFrame
from course_lib.child.student_error import Failure
from course_lib.judging import books
from course_lib.judging.finding import Finding
from course_lib.judging.hosts import Ran
from course_lib.judging.hosts.answers import failure_of, message_of, tampering_of
from course_lib.judging.hosts.asked import Asked
from course_lib.judging.hosts.launch_message import clean_launch
from course_lib.judging.kernel_judge import no_race
from course_lib.judging.origins import Origins
from course_lib.judging.provenance import BY_THE_KERNEL, Provenance, idle_finding, leaves
from course_lib.judging.replay import OF_FORGED_DATA, Replay, Unclear
from course_lib.judging.spec import NUMPY_ONLY, Case, Exercise, Observed, Subject
from course_lib.sandbox.calling import SIGNATURE
from course_lib.sandbox.channel import Closed, TooLate
from course_lib.sandbox.limit import Clock
from course_lib.sandbox.workshop import Child, InfrastructureError, Workshop

_TO_END = 1.0  # seconds for a process that has closed its end, to say how it ended
FOLLOWS = "follows the inputs"  # the property of an answer that only a person can decide
TOO_LONG = Failure(("TookTooLong",), "")
ALL_CASES = 5  # all cases of an exercise together may take so many times as long as one


class ProcessDied(Exception):
    """The process that runs kernels ended during a student's case, or the student's was killed.

    Once, that may be this machine's doing: for want of memory a system kills.
    """


class _Over(Exception):
    """A case came to an end without an answer."""

    def __init__(
        self,
        failure: Failure | None = None,
        *,
        found: Finding | None = None,
        fatal: bool = True,
    ) -> None:
        super().__init__(failure or found)
        self.failure, self.found, self.fatal = failure, found, fatal


class Sandboxed:
    """One exercise of one submission. Use as a context manager: its processes end with it.

    ``launches`` are the first of the cases that ``compared`` names (`Compiler.report`); those of
    the case to be compiled are ``assembled``. ``cpu_seconds`` is what the processes used.
    Clocks, one for each case and one for all, count the CPU time of these processes and of this
    one. The launches of every case are done again on other inputs, which ``secret`` chooses.
    """

    def __init__(
        self,
        workshop: Workshop,
        exercise: Exercise,
        secret: np.random.Generator,
        compared: Collection[str] = (),
    ) -> None:
        self.exercise, self.workshop, self._secret = exercise, workshop, secret
        self._compared = compared
        self.launches: list[dict[str, Any]] = []
        self._kept = set[str]()  # of which cases
        self.cpu_seconds = 0.0
        self._is_kernel = exercise.kind == "kernel"
        self._stack = contextlib.ExitStack()
        self._children: list[Child] = []
        self._program: dict[str, Any] = {}  # what a student's process is asked to load
        self._alone: tuple[Child, dict[str, Any]] | None = None  # where there is NumPy alone
        self._has_launched = False
        self._replay: Replay | None = None
        self._origins: Origins | None = None
        self._first: list[Any] = []  # what was answered before the later inputs were handed over
        self._clock = self._whole = self._new_clock(ALL_CASES)

    def __enter__(self) -> Sandboxed:
        self._student = self._start(self.workshop.student)
        if self._is_kernel:
            self._interpreter = self._start(self.workshop.interpreter)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
        self.cpu_seconds = sum(child.usage.get("cpu_seconds", 0.0) for child in self._children)

    def _start(self, start: Callable[..., Child]) -> Child:
        cpu = int(ALL_CASES * self.exercise.seconds) + 5  # the clocks come first
        self._children.append(child := start(cpu_seconds=cpu))
        return self._stack.enter_context(child)

    def _new_clock(self, calls: int = 1) -> Clock:
        """Return a clock for so many calls."""
        return Clock(calls * self.exercise.seconds, self._used)

    def _used(self) -> float:
        return time.process_time() + sum(child.cpu_seconds() for child in self._children)

    def load(self, program: str) -> Failure | None:
        """Let the child execute the student's program; return what went wrong, if anything."""
        exercise, self._clock = self.exercise, self._new_clock()
        request: dict[str, Any] = {"do": "load", "program": program, "slug": exercise.slug}
        self._program = request | {"function": exercise.function, "run": self._run()}
        try:
            with self._the_students_fault():
                answer = message_of(self._student.ask(self._program, self._clock))
        except _Over as over:
            return over.failure
        if "launch" in answer:
            says = "your cells start a kernel while they are loaded: start it in the function."
            return Failure(("loads",), says)
        if failure := failure_of(answer):
            return failure
        if answer.get("found") is not True:
            return Failure((SIGNATURE,), "it is no function")
        return None

    def run(self, case: Case) -> Ran:
        """Run one case. Raises ProcessDied, and InfrastructureError for the machine's fault."""
        if self._whole.left() <= 0:
            return Ran(case, found=self._all_too_long(), fatal=True)
        self._clock = self._new_clock(case.calls)
        self._replay = Replay(case, self._secret) if self._is_kernel else None
        provenance, inputs = None, _tensors(case)
        if self._is_kernel:
            # of a call before nobody here knows the numbers
            provenance = None if case.rewritten else Provenance(inputs, self._clock)
            sources = provenance.sources if provenance else None
            self._origins = Origins(inputs, self._clock, sources)
        try:
            with self._the_students_fault():
                return self._answered(case, provenance)
        except _Over as over:
            return Ran(case, failure=over.failure, found=over.found, fatal=over.fatal)

    def _answered(self, case: Case, provenance: Provenance | None) -> Ran:
        if self.exercise.play is not None:
            return self._played(self.exercise.play, case)
        if self._is_kernel:
            self._open_books(self.exercise.watches_races(case))
        self._call(case, counted=case.counted)
        answer = self._next(case, provenance)
        if failure := failure_of(answer):
            return Ran(case, failure=failure, claimed=True)
        allocated = answer.get("allocated")
        ledger = self._books() if self._is_kernel else books.rebuilt(answer.get("ledger"))
        observed = Observed(
            self._result(answer),
            ledger,
            allocated if isinstance(allocated, int) else None,
            provenance,
            self._origins,
        )
        return Ran(case, observed, found=tampering_of(answer.get("tampering")))

    def _played(self, play: Callable[[Subject, Case], Any], case: Case) -> Ran:
        """Let an exercise's ``play`` use the function from here: each call is a message."""

        def ask(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            self._call(replace(case, args=args, kwargs=kwargs))
            answer = self._next(case, None)
            if failure := failure_of(answer):
                raise _Over(failure, fatal=False)
            return answer.get("result")

        return Ran(case, Observed(play(Asked(ask), case)))

    def _request(self, case: Case, counted: bool = False) -> dict[str, Any]:
        """Return what to say to a student's process, so that it calls the function."""
        request: dict[str, Any] = {"do": "case", "counted": counted, "kernel": self._is_kernel}
        request["rewritten"] = case.rewritten
        args, _ = case.phases(self.exercise.later)
        return request | {"args": args, "kwargs": dict(case.kwargs)}

    def _call(self, case: Case, *, counted: bool = False) -> None:
        """Have the student's process call the function; what it says next is the answer's."""
        self._first = []
        self._student.send(self._request(case, counted), deadline=self._clock)

    def _hand_over(self, case: Case, answer: dict[str, Any]) -> bool:
        """Hand over what comes later, once, if this is a first answer; say whether it is."""
        if "first" not in answer or not self.exercise.later or self._first:
            return False
        self._first.append(answer["first"])
        _, later = case.phases(self.exercise.later)
        self._student.send({"later": later}, deadline=self._clock)
        return True

    def _result(self, answer: dict[str, Any]) -> Any:
        """Return what was answered, the first answer before the rest."""
        result = answer.get("result")
        if not self._first:
            return result
        return (*self._first, *(result if isinstance(result, tuple | list) else [result]))

    def doubt(self, case: Case, observed: Observed, expected: Any) -> Finding | None:
        """Do the launches of a case that passed again, on other inputs; judge what they give.

        And call the function once more while launches store nothing: its answer must change, and
        lie in memory of its own. One that is to be NumPy is called where there is nothing else,
        and judged once more.
        """
        if self.exercise.without_torch:
            return self._with_numpy_alone(case, observed, expected)
        if not self._is_kernel:
            return None
        return self._not_replayed(case, observed) or self._idle_too(case, observed)

    def afresh(self, case: Case) -> Ran | None:
        """Run one case in a new process, which loads the program again."""
        earlier = self._student
        self._student = self._start(self.workshop.student)
        try:
            return None if self.load(self._program["program"]) else self.run(case)
        finally:
            self._student = earlier

    def _with_numpy_alone(self, case: Case, observed: Observed, expected: Any) -> Finding | None:
        self._clock = self._new_clock()
        try:
            answer = self._asked_where_numpy_is_alone(case)
            failure = failure_of(answer)
            ledger = books.rebuilt(answer.get("ledger")) or observed.ledger
        except TooLate:
            return _to_be_looked_at("NumPy alone gives it was not found out")
        except (BadFrame, Closed) as error:
            answer, ledger = {}, None
            says = "its process ended" if isinstance(error, Closed) else str(error)
            failure = Failure(("lost",), says)
        seen = replace(observed, result=answer.get("result"), ledger=ledger)
        if failure is None and self.exercise.finding(case, seen, expected) is None:
            return None
        why = f" ({failure.text or failure.kinds[0]})" if failure else ""
        return Finding(
            NUMPY_ONLY,
            "the answer is right, but where there is NumPy alone, and neither PyTorch nor mmap, "
            f"ctypes or sqlite3, your function does not give it{why}: write the lines, in arrays "
            "of NumPy's.",
        )

    def _asked_where_numpy_is_alone(self, case: Case) -> dict[str, Any]:
        """Return what the function answers there, or what went wrong when it was loaded there."""
        if self._alone is None:
            child = self._start(self.workshop.without_torch)
            self._alone = child, message_of(child.ask(self._program, self._clock))
        child, loaded = self._alone
        if failure_of(loaded):
            return loaded
        counts_itself = case.counted and self.exercise.run is not None  # not under PyTorch's ledger
        return message_of(child.ask(self._request(case, counts_itself), self._clock))

    def _idle_too(self, case: Case, observed: Observed) -> Finding | None:
        self._clock = self._new_clock()
        try:
            with self._the_students_fault():
                self._call(case)
                while True:
                    answer = message_of(self._student.receive(self._clock))
                    if self._hand_over(case, answer):
                        continue
                    if "launch" not in answer:
                        kept = tampering_of(answer.get("tampering"))
                        return kept or idle_finding(observed.result, self._result(answer))
                    self._student.send({"written": {}}, deadline=self._clock)
        except _Over as over:
            return over.found

    def _not_replayed(self, case: Case, observed: Observed) -> Finding | None:
        if self._replay is None:
            return None
        replay, self._replay = self._replay, None
        self._clock = self._new_clock(2 * case.calls)  # looks for tensors, too
        other = replay.other_case
        origins = Origins(_tensors(other), self._clock)
        try:
            self._open_books(self.exercise.races)
            result = replay.again(partial(self._interpreted, origins), observed.result)
            if observed.origins:  # other memory tells no copies, and these are the same launches
                origins.copied = observed.origins.copied
            seen = Observed(result, self._books(), observed.allocated, origins=origins)
        except Unclear as why:
            return _to_be_looked_at(_COMPUTED, why)
        except TooLate:
            return _to_be_looked_at(_COMPUTED)
        except _Over as over:
            failure = over.failure or TOO_LONG
            if failure.kinds[0] in _SAYS_NOTHING:
                return _to_be_looked_at(_COMPUTED, _SAYS_NOTHING[failure.kinds[0]])
            seen = Observed(None)
        expected = self.exercise.truth(*other.args, **other.kwargs)
        found = self.exercise.finding(other, seen, expected) or no_race(other, seen, expected)
        if found is None:
            return None
        if found.numbers_right:  # a kernel that knows this case's numbers may look them up
            says = f"the launches of this case were done again on other inputs: {found.says}"
            return Finding(BY_THE_KERNEL, says)
        return Finding(
            BY_THE_KERNEL,
            "the answer is right, but the same launches on other inputs do not give theirs: some "
            "of its numbers come from beside the kernel, or it is right here by chance.",
        )

    def _all_too_long(self) -> Finding:
        most = ALL_CASES * self.exercise.seconds
        says = f"its cases take more than {most:g} seconds of computing together."
        return Finding("comes to an end", says)

    # Launches -----------------------------------------------------------------------------------

    def _next(self, case: Case, provenance: Provenance | None) -> dict[str, Any]:
        """Return the student's answer, serving launches until it comes."""
        launches: list[dict[str, Any]] = []
        while True:
            answer = message_of(self._student.receive(self._clock))
            if self._hand_over(case, answer):
                continue
            if "launch" not in answer:
                self._kept.add(case.name)
                self.launches += launches
                return answer
            if not self._is_kernel:
                says = "this exercise is not about launching kernels."
                raise _Over(found=Finding("needs no kernel", says), fatal=False)
            launch = clean_launch(answer["launch"])
            written = self._launch(launch, provenance)
            if len(launches) < MOST_LAUNCHES and self._is_compared(case):
                launches.append({**launch, "written": written, "assembled": case.compiled})
            self._student.send({"written": written}, deadline=self._clock)

    def _is_compared(self, case: Case) -> bool:
        """Return whether its launches are to be compared with compiled ones.

        Once; and not what is too much for the replay, after which a person has to look anyway.
        """
        if case.name in self._kept or (self._replay and self._replay.too_much):
            return False
        return case.name in self._compared

    def _launch(self, launch: dict[str, Any], provenance: Provenance | None) -> dict[str, Any]:
        """Have a launch interpreted; return the tensors that it wrote."""
        if provenance and (forged := provenance.launched(launch)):
            raise _Over(found=forged)
        self._has_launched = True
        assert self._origins is not None  # made together with `provenance`
        written = self._interpreted(self._origins, launch)
        if self._replay:
            self._replay.note(launch, written)
        return written

    def _interpreted(self, origins: Origins, launch: dict[str, Any]) -> dict[str, Any]:
        """Have a launch interpreted; note what it is given, and what it writes."""
        given = leaves(launch["args"])
        origins.note({name: x for name, x in given if hasattr(x, "data_ptr")})
        written: dict[str, Any] = self._ask_interpreter({"do": "launch", **launch})["written"]
        origins.sources.note_written(written.values())
        return written

    def _open_books(self, races: bool) -> None:
        self._ask_interpreter({"do": "open", "races": races})

    def _books(self) -> Any:
        counted = self._ask_interpreter({"do": "books"})
        return books.kernel_ledger(counted["books"], counted["races"])

    def _ask_interpreter(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = self._interpreter.ask(request, self._clock)
        except TooLate:
            raise _Over(TOO_LONG) from None
        except BadFrame:
            says = "a launch asks for more memory than this exercise needs."
            raise _Over(Failure(("memory",), says)) from None
        except Closed:
            self._interpreter.wait(_TO_END)
            usage = self._interpreter.end()
            if self._is_used_up(usage):
                raise _Over(TOO_LONG) from None
            status = usage["status"]
            if not self._has_launched:
                says = f"The process that runs kernels died{_how(status)}."
                raise InfrastructureError(says) from None
            says = f"a launch ended the process that runs the kernels{_how(status)}."
            raise ProcessDied(says) from None
        if failure := failure_of(answer):
            raise _Over(failure)
        return answer

    # The student's process ----------------------------------------------------------------------

    @contextlib.contextmanager
    def _the_students_fault(self) -> Iterator[None]:
        """Turn silence, garbage and death of the student's process into a failure."""
        try:
            yield
        except TooLate:
            raise _Over(TOO_LONG) from None
        except BadFrame as error:
            says = f"what came back cannot be read as a result ({error})."
            raise _Over(Failure(("the form",), says)) from None
        except OF_FORGED_DATA as error:
            says = f"what came back cannot be judged ({type(error).__name__})."
            raise _Over(Failure(("the form",), says)) from None
        except Closed:
            failure = self._died()
            if failure is not TOO_LONG and self._student.usage["status"] == -signal.SIGKILL:
                raise ProcessDied(failure.text) from None
            raise _Over(failure) from None

    def _died(self) -> Failure:
        self._student.wait(_TO_END)
        usage = self._student.end()
        if self._is_used_up(usage):
            return TOO_LONG
        says = f"your code ended the whole process{_how(usage['status'])} instead of returning."
        return Failure(("ProcessEnded",), says)

    def _is_used_up(self, usage: dict[str, Any]) -> bool:
        """Return whether a process that has ended was stopped by its limit of CPU time."""
        return bool(usage["cpu_seconds"] >= ALL_CASES * self.exercise.seconds)

    def _run(self) -> str | None:
        """Return the source of an unusual way to call the function; it holds no answers."""
        from course_lib.child.extract import extract

        if self.exercise.run is None:
            return None
        piece = extract(self.exercise.run, inline_library=True)
        return f"{piece.source}\n\nrun = {piece.name}\n"


_COMPUTED = "your kernel computed it could not be tried with other inputs"
# what an answer may end in that tells nothing of its numbers: this machine may be slow or small
_SAYS_NOTHING = {
    "TookTooLong": "that takes too long",
    "MemoryError": (little := "there is too little memory for that"),
    "memory": little,
}


def _to_be_looked_at(whether: str, why: object = "that takes too long") -> Finding:
    says = f"the answer is right; whether {whether}, so a person has to look: {why}."
    return Finding(FOLLOWS, says)


def _how(status: int | None) -> str:
    """Say in brackets how a process ended, nothing where that is not known."""
    if status is None:
        return ""
    return f" (signal {-status})" if status < 0 else f" (exit status {status})"


def _tensors(case: Case) -> list[Any]:
    return [x for x in [*case.args, *case.kwargs.values()] if hasattr(x, "data_ptr")]
