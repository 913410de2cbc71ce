"""What explains the numbers of a launched tensor: an input, several in one, an earlier launch.

One place says so, for whether a tensor may be given (`provenance`) and for what its loads count as
(`origins`): what the one lets pass and the other does not know would be read for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from course_lib.judging.alike import (
    bits_of,
    is_floating,
    is_part,
    is_scaled,
    plainest_kind,
    precision_of,
    values_of,
)
from course_lib.sandbox.channel import TooLate
from course_lib.sandbox.limit import Deadline, left_of

_MOST_KEPT = 1 << 24  # elements of what launches wrote


class Sources:
    """The inputs of one case (``inputs``, of fractions), and what its launches have ``written``."""

    def __init__(self, inputs: Iterable[Any], deadline: Deadline = math.inf) -> None:
        self._deadline = deadline
        self.inputs = [x for x in inputs if is_floating(x)]
        self.written: list[Any] = []
        self._packed: list[Any] = []  # all inputs in one, as somebody may pack them
        self._values: dict[tuple[int, Any], np.ndarray] = {}
        if len(self.inputs) > 1 and len({x.dtype for x in self.inputs}) == 1:
            self._packed = [_in_one(self.inputs)]

    def tensors(self) -> list[Any]:
        """Return every tensor that may explain another."""
        return [*self.inputs, *self._packed, *self.written]

    def note_written(self, tensors: Iterable[Any]) -> None:
        """Remember what a launch has written; the oldest is forgotten where it becomes much."""
        self.written += tensors
        while self.written and sum(x.numel() for x in self.written) > _MOST_KEPT:
            del self.written[0]

    def each(self, dtype: Any) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield what is known with its values in ``dtype``. Raises TooLate after the deadline."""
        for known in self.tensors():
            yield known, self.values(known, dtype)

    def values(self, known: Any, dtype: Any = None) -> np.ndarray:
        """Return the sorted values of one of `tensors`, in ``dtype``. Raises TooLate."""
        if left_of(self._deadline) <= 0:
            raise TooLate
        key, converted = (id(known), dtype), known if dtype is None else known.to(dtype)
        if any(known is x for x in self.written):  # these come and go
            return values_of(converted)
        if key not in self._values:
            self._values[key] = values_of(converted)
        return self._values[key]

    def holds(self, tensor: Any, lies_in: frozenset[int]) -> frozenset[int] | None:
        """Return the places of the inputs whose numbers ``tensor`` holds, None if nobody knows.

        It holds none if it is constant and not in the memory of the inputs ``lies_in``, or if a
        launch wrote it. Raises TooLate after the deadline.
        """
        values, dtype = values_of(tensor), plainest_kind(tensor)
        for place, known in enumerate(self.inputs):
            if values.size and np.array_equal(values, self.values(known, dtype)):
                return frozenset({place})
        constant = not values.size or values[0] == values[-1]
        # a constant is no scaled input, and no part of one that lies elsewhere: it is where a
        # launcher lets results be added up
        if constant:
            return frozenset(sorted(lies_in)[:1])
        for place, known in enumerate(self.inputs):
            if is_scaled(values, self.values(known), precision_of(tensor)):
                return frozenset({place})
        for place, known in enumerate(self.inputs):
            if is_part(values, self.values(known, dtype)):
                return frozenset({place})
        if any(np.array_equal(bits_of(x), bits_of(tensor)) for x in self._alike(tensor)):
            return frozenset()
        return self._several(tensor, values) or self._of_a_launch(tensor, values)

    def _alike(self, tensor: Any) -> Iterator[Any]:
        for x in self.written:
            if x.dtype == tensor.dtype and x.shape == tensor.shape:
                yield x

    def _several(self, tensor: Any, values: np.ndarray) -> frozenset[int] | None:
        """Return as few inputs as hold all of these numbers together, None if all do not."""
        for known in self._packed:
            every = frozenset(range(len(self.inputs)))
            if is_part(values, self.values(known, tensor.dtype)):
                return self._fewest(values, tensor.dtype, every)
            if is_scaled(values, self.values(known), precision_of(tensor)):
                return every
        return None

    def _fewest(self, values: np.ndarray, dtype: Any, these: frozenset[int]) -> frozenset[int]:
        for place in sorted(these):
            rest = [x for i, x in enumerate(self.inputs) if i in these - {place}]
            if rest and is_part(values, values_of(_in_one(rest).to(dtype))):
                these -= {place}
        return these

    def _of_a_launch(self, tensor: Any, values: np.ndarray) -> frozenset[int] | None:
        kind = plainest_kind(tensor)
        for known in self.written:
            if is_part(values, self.values(known, kind)):
                return frozenset()
            if is_scaled(values, self.values(known), precision_of(tensor)):
                return frozenset()
        return None


def _in_one(tensors: list[Any]) -> Any:
    import torch

    return torch.cat([x.reshape(-1) for x in tensors])
