"""The student's own process: a time limit, one thread, kernels watched in the interpreter."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from types import ModuleType
from typing import Any

from course_lib import _mode
from course_lib.accounting import launch_arguments
from course_lib.accounting.pointer_tables import with_targets
from course_lib.child import codec, trusted_codec
from course_lib.child.as_compiled import MOST_LAUNCHES
from course_lib.child.codec import BadFrame
from course_lib.child.extract import Extract, NotExtractable, extract
from course_lib.child.student_error import Failure
from course_lib.judging.finding import Finding
from course_lib.judging.hosts import Ran
from course_lib.judging.origins import Origins
from course_lib.judging.provenance import Provenance, idle_finding
from course_lib.judging.spec import Case, Exercise, Observed
from course_lib.sandbox import calling
from course_lib.sandbox.calling import Called
from course_lib.sandbox.inputs import copy_inputs, each_array, is_tensor
from course_lib.sandbox.limit import TookTooLong, at_most


class Here:
    """Runs ``function`` where it stands. What goes wrong in the course's own code is raised."""

    def __init__(
        self, exercise: Exercise, function: Callable[..., Any], compared: Collection[str] = ()
    ) -> None:
        self.exercise, self.function, self._compared = exercise, function, compared
        self._is_kernel = exercise.kind == "kernel"
        self._compiled = self._is_kernel and _mode.mode() == "gpu"
        self._earlier: list[Any] = []
        self.launches: dict[str, list[dict[str, Any]]] = {}  # the first of each case compared
        self._copy: Extract | None = None
        if not self._is_kernel:
            with contextlib.suppress(NotExtractable):
                self._copy = extract(function, leave_undefined=True)

    def run(self, case: Case) -> Ran:
        """Run one case within the time limit."""
        args, kwargs = copy_inputs((case.args, dict(case.kwargs)))
        if self._compiled:
            args, kwargs = each_array(lambda x: x.cuda() if is_tensor(x) else x, (args, kwargs))
        given = replace(case, args=args, kwargs=kwargs)
        provenance = origins = None
        if self._is_kernel and not self._compiled:
            provenance = Provenance(case.args)
            origins = Origins(case.args, sources=provenance.sources)
        try:
            with at_most(case.calls * self.exercise.seconds):
                called = self._called(given, provenance, origins)
        except TookTooLong as error:
            called = Called(failure=Failure.of(error, None))
        self._raise_ours(called)
        if called.failure:
            return Ran(given, failure=called.failure)
        try:
            result = called.result if self._is_kernel else _as_it_crosses(called.result)
        except BadFrame as error:
            says = f"what came back cannot be read as a result ({error})."
            return Ran(given, failure=Failure(("the form",), says))
        observed = Observed(result, called.ledger, called.allocated, provenance, origins)
        return Ran(given, observed, found=called.tampering and Finding(*called.tampering))

    def doubt(self, case: Case, observed: Observed, expected: Any) -> Finding | None:
        """Call once more: doubt an answer that lies where the first does, or that no kernel stores.

        (Whoever can deceive this process only deceives themselves.)
        """
        if observed.provenance is None:
            return None
        args, kwargs = copy_inputs((case.args, dict(case.kwargs)))
        try:
            with at_most(self.exercise.seconds):
                again = replace(case, args=args, kwargs=kwargs, counted=False)
                called = self._in_phases(again, _idle())
        except TookTooLong:
            return None
        if called.tampering:  # of a tensor that is kept between calls no kernel is to blame
            return Finding(*called.tampering)
        return idle_finding(observed.result, called.result)

    def afresh(self, case: Case) -> Ran | None:
        """Run one case by a copy that was taken before the first call."""
        if self._copy is None:
            return None
        module = ModuleType(self._copy.name)
        exec(self._copy.source, vars(module))
        return Here(self.exercise, getattr(module, self._copy.name)).run(case)

    def _called(self, case: Case, provenance: Provenance | None, origins: Origins | None) -> Called:
        if self.exercise.play is not None:
            try:
                return Called(self.exercise.play(_Subject(self.function), case))
            except _Raised as raised:
                return raised.called
        watched = None
        if provenance and origins:
            races = self.exercise.watches_races(case)
            kept = None
            if case.name in self._compared and case.name not in self.launches:
                kept = self.launches[case.name] = []
            watched = _watched(provenance, origins, races, kept)
        called = self._in_phases(case, watched)
        if self._compiled and called.failure is None:
            import torch

            torch.cuda.synchronize()
        return called

    def _in_phases(
        self, case: Case, watched: contextlib.AbstractContextManager[Any] | None
    ) -> Called:
        """Call the function; what comes later is handed over once its first answer is copied."""
        first: list[Any] = []
        args, later = case.phases(self.exercise.later)

        def ask(answer: Any) -> tuple[Any, ...]:
            first.append(copy_inputs(answer) if is_tensor(answer) else answer)
            return later

        called = calling.call(
            self.function,
            args,
            case.kwargs,
            counted=case.counted and not self._compiled,
            kernel=self._is_kernel,
            run=self.exercise.run,
            watched=watched,
            ask=ask,
            earlier=self._earlier,
            rewritten=case.rewritten,
        )
        if first and called.failure is None:
            called = replace(called, result=(*first, *called.result))
        return called

    def _raise_ours(self, called: Called) -> None:
        """Raise an error in which none of the student's lines took part: the fault is ours."""
        if called.error is None or called.failure is None:
            return
        theirs = called.failure.lines or called.failure.kinds[0] in ("TookTooLong", "OutOfBounds")
        if self.exercise.later:  # PyTorch calls them, and says on its own what it cannot use
            theirs = theirs or isinstance(called.error, RuntimeError | TypeError)
        if isinstance(called.error, KeyboardInterrupt) or not theirs:
            raise called.error


def _as_it_crosses(result: Any) -> Any:
    """Return a result as the sandbox's grader would see it, so that both judge the same.

    (A kernel's are tensors, which cross as they are; whose memory they have is asked here.)
    """
    return codec.decode(codec.encode(calling.compact(result)))


class _Raised(Exception):
    """A student's code failed in the middle of a ``play``."""

    def __init__(self, called: Called) -> None:
        super().__init__(called.failure)
        self.called = called


@dataclass(frozen=True)
class _Subject:
    """A function, class or object of the student's, in this process."""

    thing: Any

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return _as_it_crosses(self._call(args, kwargs))
        except BadFrame as error:
            says = f"what came back cannot be read as a result ({error})."
            raise _Raised(Called(failure=Failure(("the form",), says))) from None

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        called = calling.call(self.thing, args, kwargs)
        if called.failure:
            raise _Raised(called)
        return called.result

    def make(self, *args: Any, **kwargs: Any) -> _Subject:
        return _Subject(self._call(args, kwargs))

    def method(self, name: str) -> _Subject:
        return _Subject(getattr(self.thing, name))

    def together(self, *calls: tuple[Any, ...]) -> list[Any]:
        with ThreadPoolExecutor(len(calls)) as ranks:
            return list(ranks.map(lambda args: self(*args), calls))


def _watched(
    provenance: Provenance, origins: Origins, races: bool, kept: list[dict[str, Any]] | None
) -> contextlib.AbstractContextManager[Any]:
    """Return a ledger that also tells the two what launches are given and write.

    The first of them are put into ``kept``, if it is given, as `as_compiled.difference` wants them.
    """
    from course_lib.accounting.kernel_ledger import KernelLedger
    from course_lib.accounting.races import RaceLedger

    kind = RaceLedger if races else KernelLedger

    class Watched(kind):  # type: ignore[misc, valid-type]  # one of two, chosen just above
        def launch(self, executor: Any, args: Any, kwargs: Any, run: Any) -> Any:
            if kept is None or len(kept) >= MOST_LAUNCHES:
                return super().launch(executor, args, kwargs, run)
            named = dict(zip(executor.arg_names, args, strict=False)) | kwargs
            named = {k: with_targets(v) for k, v in named.items() if k in executor.arg_names}
            plain = {key: launch_arguments.to_plain(value) for key, value in named.items()}
            given = trusted_codec.encode(plain)
            answer = super().launch(executor, args, kwargs, run)
            tensors = (p for k, v in named.items() for p in launch_arguments.tensors_in(k, v))
            written = {key: copy_inputs(tensor) for key, tensor in tensors}
            options = {k: v for k, v in kwargs.items() if k not in named and isinstance(v, int)}
            launch = {"name": executor.fn.__name__, "grid": self.launches[-1].grid}
            launch |= {"args": trusted_codec.decode(given), "options": options}
            kept.append({**launch, "written": written})
            return answer

        def _launching(self, tensors: dict[str, Any]) -> None:
            origins.note(tensors)
            self._given = {name: t.detach().clone() for name, t in tensors.items()}
            self._before = dict(self.written)

        def _launched(
            self, function: Callable[..., Any], named: dict[str, Any], tensors: dict[str, Any]
        ) -> None:
            numbers = {k: v for k, v in named.items() if isinstance(v, bool | int | float | str)}
            args = {**numbers, **self._given}
            source, grid = _source(function), self.launches[-1].grid
            provenance.launched({"args": args, "grid": grid, "source": source})
            changed = (n for n in tensors if self.written[n] > self._before.get(n, 0))
            provenance.note_written([tensors[name].detach().clone() for name in changed])

    return Watched()


def _idle() -> contextlib.AbstractContextManager[Any]:
    """Return a ledger under which launches do nothing."""
    from course_lib.accounting.kernel_ledger import KernelLedger

    class Idle(KernelLedger):
        def launch(self, *launch: Any) -> None:
            return None

    return Idle()


@lru_cache(
    maxsize=16
)  # a launcher launches the same kernel over and over, and this is a tenth of it
def _source(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""
