"""What each launch was given and what it wrote: the evidence for who computed the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from course_lib.accounting.kernel_ledger import KernelLedger, _eager_paused
from course_lib.accounting.launch_arguments import tensors_in
from course_lib.accounting.races import RaceLedger


class _Evidence(KernelLedger):
    """A ledger that keeps copies of every launch's tensors.

    Attributes:
        inputs: the tensors among ``inputs`` as they were at the start.
        evidence: for each launch (what it was given, by parameter; the tensors it wrote).
    """

    def __init__(self, inputs: Iterable[Any]) -> None:
        super().__init__()
        self.inputs = [x.detach().clone() for x in inputs if hasattr(x, "data_ptr")]
        self.evidence: list[tuple[dict[str, Any], list[Any]]] = []

    def launch(self, executor: Any, args: tuple, kwargs: dict, run: Callable) -> Any:
        """Run one launch, with copies of its tensors before and of what it wrote after."""
        named = dict(zip(executor.arg_names, args, strict=False)) | kwargs
        tensors = {name: t for key, value in named.items() for name, t in tensors_in(key, value)}
        before = dict(self.written)
        with _eager_paused():
            given = {name: t.detach().clone() for name, t in tensors.items()}
        result = super().launch(executor, args, kwargs, run)
        with _eager_paused():
            written = [
                t.detach().clone()
                for name, t in tensors.items()
                if self.written.get(name, 0) > before.get(name, 0)
            ]
        self.evidence.append((given, written))
        return result


class Evidence(_Evidence):
    """A `KernelLedger` with evidence."""


class RaceEvidence(_Evidence, RaceLedger):
    """A `RaceLedger` with evidence."""
