"""Which launched tensor holds the numbers of which input, and does it hold them where they are?

Parameters have the names that a student likes; launchers transpose, scale, convert and pad. So a
tensor is known by its numbers, sorted. One that holds an input's numbers in other memory than the
input's is a copy: how numbers lie in memory, with what lies between them, tells the two apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from course_lib.judging.alike import is_floating, values_of
from course_lib.judging.provenance import span_of
from course_lib.judging.sources import Sources
from course_lib.sandbox.channel import TooLate
from course_lib.sandbox.inputs import is_tensor
from course_lib.sandbox.limit import Deadline, left_of

Places = frozenset[int]  # among the inputs


class Origins:
    """What is known of the tensors of one case's launches.

    ``sources``: of the case, shared with its `Provenance`; they know what launches wrote.
    """

    def __init__(
        self,
        inputs: Iterable[Any],
        deadline: Deadline = math.inf,
        sources: Sources | None = None,
    ) -> None:
        self._deadline = deadline
        inputs = list(inputs)
        self.sources = sources or Sources(inputs, deadline)
        self._memories = [memory_of(x) for x in self.sources.inputs]
        self._known: dict[Any, tuple[Places, bool]] = {}
        self._of: dict[str, set[Places | None]] = {}
        # parameter -> the inputs whose numbers it holds: several are packed in it, none: a launch
        # or nobody wrote it, None: it holds numbers that come from nowhere
        self.launches: list[dict[str, Places | None]] = []
        self.copied: set[int] = set()  # inputs that were given to a launch in memory of its own
        self._whole = [values_of(x) for x in inputs if is_tensor(x) and not is_floating(x)]
        self.most_made = 0  # whole numbers in a tensor of a launch, that are no input's

    def note(self, tensors: Mapping[str, Any]) -> None:
        """Look at the tensors of a launch before it runs. Raises TooLate after the deadline."""
        self.launches.append({})
        for name, tensor in tensors.items():
            if left_of(self._deadline) <= 0:
                raise TooLate
            if not is_floating(tensor):
                if not self._is_given(values_of(tensor)):
                    self.most_made = max(self.most_made, tensor.numel())
                continue
            if not tensor.numel():
                continue
            of = self._held_by(span_of(tensor))
            self._of.setdefault(name, set()).add(of)
            self.launches[-1][name] = of

    def input_of(self, name: str) -> int | None:
        """Return the place among the inputs of what parameter ``name`` held, if it held one."""
        held = self._of.get(name, set())
        of = next(iter(held)) if len(held) == 1 else None
        return next(iter(of)) if of and len(of) == 1 else None

    def that_hold_inputs(self, launches: Sequence[Any]) -> Iterator[Any]:
        """Yield those of a ledger's launches that were given an input."""
        for launch, held in zip(launches, self.launches, strict=False):
            if any(held.values()):
                yield launch

    def _is_given(self, values: np.ndarray) -> bool:
        """Return whether whole numbers are an input's, each as often as there but for a padding."""
        kinds, counts = np.unique(values, return_counts=True)
        for known in self._whole:
            first, last = (np.searchsorted(known, kinds, side) for side in ("left", "right"))
            if np.count_nonzero(counts > last - first) <= 1:
                return True
        return False

    def _held_by(self, tensor: Any) -> Places | None:
        """Return the inputs whose numbers a tensor holds; those that it copies are noted."""
        memory = memory_of(tensor)
        key = tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), hash(memory)
        if key not in self._known:
            lies_in = frozenset(i for i, there in enumerate(self._memories) if memory in there)
            of = self.sources.holds(tensor, lies_in)
            if of is None:  # a launch may write these numbers yet
                return None
            self._known[key] = of, not of <= lies_in
        of, copied = self._known[key]
        self.copied |= of if copied else set()
        return of


def memory_of(x: Any) -> bytes:
    """Return the bytes from a tensor's first element to its last, gaps between them included."""
    import torch

    reach = sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True) if n)
    flat = x.detach().as_strided((reach + 1,), (1,)) if x.numel() else x.detach().reshape(-1)
    whole: np.ndarray = flat.contiguous().view(torch.uint8).numpy()
    return whole.tobytes()
