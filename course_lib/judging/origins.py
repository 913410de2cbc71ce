"""Which launched tensor holds the numbers of which input, and does it hold them where they are?

Parameters have the names that a student likes; launchers transpose, scale, convert and pad. So a
tensor is known by its numbers, sorted. One that holds an input's numbers in other memory than the
input's is a copy: how numbers lie in memory, with what lies between them, tells the two apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from course_lib.judging.alike import (
    is_floating,
    is_part,
    is_scaled,
    precision_of,
    values_of,
)
from course_lib.sandbox.channel import TooLate
from course_lib.sandbox.inputs import is_tensor
from course_lib.sandbox.limit import Deadline, left_of

_TIMES_AS_LARGE = 64  # a tensor so much larger than an input is no padded form of it


class Origins:
    """What is known of the tensors of one case's launches."""

    def __init__(self, inputs: Iterable[Any], deadline: Deadline = math.inf) -> None:
        self._deadline = deadline
        inputs = list(inputs)
        self._inputs = [x for x in inputs if is_floating(x)]
        self._values = [values_of(x) for x in self._inputs]
        self._memories = [memory_of(x) for x in self._inputs]
        self._known: dict[Any, tuple[int | None, bool]] = {}
        self._of: dict[str, set[int | None]] = {}
        self.launches: list[dict[str, int | None]] = []  # parameter -> place among the inputs
        self.copied: set[int] = set()  # inputs that were given to a launch in memory of its own
        self._whole = [values_of(x) for x in inputs if is_tensor(x) and not is_floating(x)]
        self.most_made = 0  # whole numbers in a tensor of a launch, that are no input's

    def note(self, tensors: Mapping[str, Any]) -> None:
        """Look at the tensors of a launch before it runs. Raises TooLate after the deadline."""
        self.launches.append({})
        for name, tensor in tensors.items():
            if not is_floating(tensor) and not self._is_given(values_of(tensor)):
                self.most_made = max(self.most_made, tensor.numel())
            if not is_floating(tensor) or not tensor.numel():
                continue
            if left_of(self._deadline) <= 0:
                raise TooLate
            memory = memory_of(tensor)
            key = tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), hash(memory)
            if key not in self._known:
                of = self._input_of(tensor, memory)
                self._known[key] = of, of is not None and memory not in self._memories[of]
            of, copied = self._known[key]
            self._of.setdefault(name, set()).add(of)
            self.launches[-1][name] = of
            if copied and of is not None:
                self.copied.add(of)

    def input_of(self, name: str) -> int | None:
        """Return the place among the inputs of what parameter ``name`` held, if it held one."""
        of = self._of.get(name, set())
        return next(iter(of)) if len(of) == 1 else None

    def that_hold_inputs(self, launches: Sequence[Any]) -> Iterator[Any]:
        """Yield those of a ledger's launches that were given an input."""
        for launch, held in zip(launches, self.launches, strict=False):
            if any(of is not None for of in held.values()):
                yield launch

    def _is_given(self, values: np.ndarray) -> bool:
        """Return whether whole numbers are an input's, each as often as there but for a padding."""
        kinds, counts = np.unique(values, return_counts=True)
        often = ([np.count_nonzero(known == x) for x in kinds] for known in self._whole)
        return any(np.count_nonzero(counts > there) <= 1 for there in often)

    def _input_of(self, tensor: Any, memory: bytes) -> int | None:
        values, precision = values_of(tensor), precision_of(tensor)
        if not values.size:
            return None
        zeros, memories = not values.any(), self._memories
        near = [
            (i, known)
            for i, known in enumerate(self._values)
            if known.size and values.size <= _TIMES_AS_LARGE * known.size
        ]
        # nothing but zeros is no scaled input, and no part of one that lies elsewhere: it is where
        # a launcher lets results be added up
        alike: tuple[Callable[[int, np.ndarray], bool], ...] = (
            lambda _, known: np.array_equal(values, known),
            lambda _, known: not zeros and is_scaled(values, known, precision),
            lambda i, known: is_part(values, known) and not (zeros and memory not in memories[i]),
        )
        return next((i for like in alike for i, known in near if like(i, known)), None)


def memory_of(x: Any) -> bytes:
    """Return the bytes from a tensor's first element to its last, gaps between them included."""
    reach = sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True) if n)
    flat = x.detach().as_strided((reach + 1,), (1,)) if x.numel() else x.detach().reshape(-1)
    whole: np.ndarray = flat.contiguous().view(_bytes()).numpy()
    return whole.tobytes()


def _bytes() -> Any:
    import torch

    return torch.uint8
