"""Inside the sandbox: run checked kernels in Triton's interpreter, under a ledger.

No line of a student's Python runs here: only jitted functions that `kernel_source.clean` has let
pass, with every address looked at by the ledger before it is touched. So what this process says
about results, launches, loads and stores is what happened.
"""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from course_lib.accounting.ledger import FIRST_LOADS
from course_lib.child.codec import BadFrame
from course_lib.child.student_error import Failure
from course_lib.sandbox import kernel_source
from course_lib.sandbox.channel import Channel
from course_lib.sandbox.profile import Limits, confine_computing

if TYPE_CHECKING:
    from course_lib.accounting.ledger import Visit

_TOO_LARGE = "MemoryError: this launch needs more memory than the exercise."


def warm_up() -> None:
    """In the zygote: import the interpreter's hooks, and try them once."""
    from course_lib.accounting.kernel_ledger import KernelLedger
    from course_lib.accounting.races import RaceLedger  # noqa: F401

    with contextlib.suppress(RuntimeError), KernelLedger():
        pass


def serve(channel: Channel, settings: dict[str, Any]) -> None:
    """Confine this process, then serve launches until the parent closes the channel."""
    confine_computing(Limits(**settings))
    interpreter = _Interpreter()
    while True:
        request = channel.receive()
        try:
            channel.send(getattr(interpreter, f"do_{request.pop('do')}")(**request))
        except (MemoryError, BadFrame):  # of the answer nothing has been sent
            channel.send({"error": asdict(Failure(("MemoryError",), _TOO_LARGE))})


class _Interpreter:
    """The launches of one case, and their books."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._modules: dict[tuple[str, str], Any] = {}
        self._ledger: Any = None

    def do_open(self, races: bool) -> dict[str, Any]:
        """Open new books, closing old ones."""
        from course_lib.accounting.kernel_ledger import KernelLedger
        from course_lib.accounting.races import RaceLedger

        self._stack.close()
        self._ledger = self._stack.enter_context(RaceLedger() if races else KernelLedger())
        return {"ok": True}

    def do_books(self) -> dict[str, Any]:
        """Return what has been counted since `do_open`."""
        races = [str(race) for race in getattr(self._ledger, "races", [])]
        self._ledger.visits = _asked_for(self._ledger.visits)
        return {"books": self._ledger.to_plain(), "races": races}

    def do_launch(
        self,
        source: str,
        name: str,
        grid: list[int],
        args: dict[str, Any],
        options: dict[str, Any],
    ) -> dict[str, Any]:
        """Run one launch; return the tensors that it stored to, or why it failed."""
        from course_lib.accounting.launch_arguments import from_plain, in_order, tensors_in

        try:
            if (source, name) not in self._modules:
                self._modules[source, name] = kernel_source.load(source, name)
            kernel = getattr(self._modules[source, name], name)
            given = {key: from_plain(value) for key, value in args.items()}
            tensors = dict(part for key, value in given.items() for part in tensors_in(key, value))
            before = {key: _contents(tensor) for key, tensor in tensors.items()}
            counted = dict(self._ledger.written)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                by_place, by_name = in_order(given, kernel.arg_names)
                kernel[tuple(grid)](*by_place, **by_name)
            stored = {key for key, n in self._ledger.written.items() if n > counted.get(key, 0)}
            written = {  # zeros may be stored onto zeros
                key: t for key, t in tensors.items() if key in stored or before[key] != _contents(t)
            }
        except Exception as error:
            function = getattr(self._modules.get((source, name)), name, None)
            failure = Failure.of(error, function and function.fn)
            if isinstance(error, kernel_source.NotTriton):
                failure = replace(failure, text=str(error))
            return {"error": asdict(failure)}
        return {"written": written}


def _asked_for(visits: list[Visit]) -> list[Visit]:
    """Return the first loads, a visit of each program, and one of each range of rows stored.

    That is all that judges ask (does every program work, and how much of the whole, is every row
    stored), and what a picture of the loads shows; an attention kernel makes a hundred times as
    many. What a program loads of a tensor later is one visit, of as many bytes.
    """
    loads = [visit for visit in visits if visit.kind == "load"]
    later: dict[Any, Visit] = {}
    for visit in loads[FIRST_LOADS:]:
        before = later.get((visit.program, visit.tensor))
        n_bytes = visit.n_bytes + (before.n_bytes if before else 0)
        later[visit.program, visit.tensor] = visit._replace(n_bytes=n_bytes)
    stores = [visit for visit in visits if visit.kind == "store"]
    by_program = {visit.program: visit for visit in stores}
    by_rows = {(visit.tensor, visit.rows): visit for visit in stores}
    kept = dict.fromkeys([*by_program.values(), *by_rows.values()])
    return [*loads[:FIRST_LOADS], *later.values(), *kept]


def _contents(tensor: Any) -> bytes:
    """Return the bytes a tensor shows."""
    import torch

    shown: bytes = tensor.reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()
    return shown
