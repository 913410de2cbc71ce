"""Where do the numbers come from that a launcher gives to its kernel, and returns?

A launcher may copy, transpose, pad, repeat, convert and scale its inputs, and may make constant
tensors. What it may not do is compute the answer in PyTorch and let a kernel carry it about, or
clear what the kernel is to leave out. So
every tensor of a launch must hold numbers of the inputs, of an earlier launch, or a constant, and
what is returned must hold numbers that a kernel wrote. Tensors are compared as sorted values, so
their order and shape do not matter. What can carry numbers in another way (integers, scalars,
zeros with a sign, the payload of a NaN, literals in the source) is counted, and may be little.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np

from course_lib.judging.alike import (
    adds_up,
    bits_of,
    is_cleared,
    is_floating,
    is_part,
    is_plain,
    is_scaled,
    plainest_kind,
    precision_of,
    replaced_in,
    values_of,
)
from course_lib.judging.finding import Finding
from course_lib.judging.sources import Sources
from course_lib.sandbox.channel import TooLate
from course_lib.sandbox.limit import Deadline, left_of

BY_THE_KERNEL = "is computed by the kernel"

_ONE_WROTE = "the kernel wrote (by PyTorch, of a part of it): let the kernel itself"
MOST_NUMBERS = 1024  # in a case, of 16 bits: offsets and lengths; more could hide an answer
MOST_SCALARS = 64  # of a launch
MOST_SOURCES = 16  # in a case
MOST_LITERALS = 256  # of a source
_FEW_PLACES = 128  # that may be added up after a launch, even if the input is shorter


class Provenance:
    """The numbers known so far in one case."""

    def __init__(self, inputs: Iterable[Any], deadline: Deadline = math.inf) -> None:
        inputs = list(inputs)
        self._deadline = deadline
        self.sources = Sources(inputs, deadline)
        self._longest = max((x.numel() for x in inputs), default=0)
        self._fine: set[Any] = set()  # tensors that have been looked at
        self._numbers = 0
        self._launches = 0
        self._forged: Finding | None = None
        self._scalars: set[str] = set()
        self._sources: set[str] = set()

    def launched(self, launch: dict[str, Any]) -> Finding | None:
        """Look at a launch (``args``, ``grid``, ``source``); return what is wrong with it, if so.

        The first such finding is remembered for `finding`. Raises TooLate after the deadline.
        """
        says = ""
        self._launches += 1
        if name := self.stranger(launch["args"]):
            says = self._why_not(name, dict(leaves(launch["args"]))[name])
        elif many := self.too_many(launch):
            says = f"your launches have more {many} than a kernel needs."
        if says and self._forged is None:
            self._forged = Finding(BY_THE_KERNEL, says)
        return self._forged

    def finding(self, result: Any) -> Finding | None:
        """Return why a launcher's ``result`` is not the kernel's own work, None if it is."""
        if self._forged or self.from_a_kernel(result):
            return self._forged
        says = "the result holds numbers that no kernel wrote: return what the kernel computed."
        replaced = [one for x in _tensors_in(result) for one in self._replaced(x)]
        if replaced:
            places, nan = max(replaced)
            what = "leaves NaN" if nan else "stores something else"
            says = (
                f"your kernel {what} in {places:,} {'place' if places == 1 else 'places'} of its "
                "result, and your launcher puts numbers there afterwards: let the kernel store "
                "what is right."
            )
        elif self._is_put_together(result):
            of = "several launches wrote: let one launch" if self._launches > 1 else _ONE_WROTE
            says = f"the result is put together, outside a kernel, of what {of} store all of it."
        return Finding(BY_THE_KERNEL, says)

    def _is_put_together(self, result: Any) -> bool:
        """Return whether every number of a result is one that some launch wrote."""
        known = [values_of(x) for x in self.sources.written]
        return bool(known) and all(
            np.isin(values_of(x), np.concatenate(known)).all() for x in _tensors_in(result)
        )

    def _why_not(self, name: str, tensor: Any) -> str:
        values = values_of(tensor)
        alike = (  # a mask of 0 and 1 is no part of an input's whole parts
            there
            for known, there in self.sources.each(tensor.dtype)
            if is_floating(known) == is_floating(tensor)
        )
        if any(is_part(values, there) for there in alike):
            return (
                f"the tensor given as `{name}` is an input in which other numbers were put before "
                "the launch: let the kernel mask what does not count."
            )
        return (
            f"the tensor given as `{name}` holds numbers that are neither inputs nor written "
            "by a kernel: the kernel is to compute them."
        )

    def stranger(self, arguments: dict[str, Any]) -> str | None:
        """Return the name of a launch argument whose numbers come from nowhere, else None.

        Raises TooLate after the deadline.
        """
        for name, value in leaves(arguments):
            if not hasattr(value, "data_ptr"):
                continue
            tensor = span_of(value)
            bits = bits_of(tensor)
            seen = str(tensor.dtype), bits.size, hash(bits.tobytes())
            if seen not in self._fine and not self._may_be_given(tensor, bits):
                return name
            self._fine.add(seen)
        return None

    def too_many(self, launch: dict[str, Any]) -> str | None:
        """Say what a launch has so many of that they could be the answer, else None."""
        scalars = [*_scalars(launch["args"]), *map(repr, launch["grid"])]
        self._scalars.update(scalars)
        if len(scalars) > MOST_SCALARS or len(self._scalars) > MOST_NUMBERS:
            return "numbers as arguments"
        if launch["source"] not in self._sources and _literals(launch["source"]) > MOST_LITERALS:
            return "numbers in its source"
        self._sources.add(launch["source"])
        return "different kernels" if len(self._sources) > MOST_SOURCES else None

    def note_written(self, tensors: Iterable[Any]) -> None:
        """Remember what a launch has written; the oldest is forgotten where it becomes much."""
        self.sources.note_written(tensors)

    def from_a_kernel(self, result: Any) -> bool:
        """Return whether every tensor of ``result`` holds what a kernel wrote."""
        tensors = _tensors_in(result)
        longest = max((x.numel() for x in tensors), default=0)
        if longest == 1:  # a total, added up after the launch
            return any(self._is_total(x, w) for x in tensors for w in self.sources.written)
        tensors = [x for x in tensors if x.numel() > 1]
        return all(map(self._was_written, tensors)) and not self._taken_twice(tensors)

    def _taken_twice(self, tensors: list[Any]) -> bool:
        """Return whether a part of a result was made of what is returned as another part."""
        if len(tensors) < 2:
            return False
        known = [values_of(x) for x in self.sources.written]
        parts = [values_of(x) for x in tensors]
        held = [[at for at, there in enumerate(known) if is_part(x, there)] for x in parts]
        for at, there in enumerate(known):
            alone = [x for x, places in zip(parts, held, strict=True) if places == [at]]
            if len(alone) > 1 and not is_part(np.sort(np.concatenate(alone)), there):
                return True
        return False

    def _may_be_given(self, tensor: Any, bits: np.ndarray) -> bool:
        if left_of(self._deadline) <= 0:
            raise TooLate
        plain, floating = is_plain(bits), tensor.dtype.is_floating_point
        if not bits.size or (not plain and self._is_copy(tensor, bits)):
            return True
        if floating and not plain:
            self._numbers += _odd(tensor, bits)
            return self._numbers <= MOST_NUMBERS and self._explains(tensor)
        words = max(1, tensor.element_size() // 2) if floating else _words(tensor)
        few = plain or _is_range(tensor)  # what is inside and around; a start and a step
        self._numbers += (min(bits.size, 2) if few else bits.size) * words
        return self._numbers <= MOST_NUMBERS

    def _is_copy(self, tensor: Any, bits: np.ndarray) -> bool:
        alike = (
            x for x in self.sources.tensors() if x.dtype == tensor.dtype and x.numel() == bits.size
        )
        return any(np.array_equal(bits_of(x).ravel(), bits.ravel()) for x in alike)

    def _explains(self, tensor: Any) -> bool:
        values, kind = values_of(tensor), plainest_kind(tensor)
        return any(
            (is_part(values, there) and not is_cleared(tensor.to(kind), known))
            or is_scaled(values, self.sources.values(known), precision_of(tensor))
            for known, there in self.sources.each(kind)
        )

    def _was_written(self, x: Any) -> bool:
        values = values_of(x)
        for written in self._candidates(x):
            there = values_of(written.to(x.dtype))
            if is_part(values, there) and not replaced_in(x, written)[0]:
                return True
            if is_scaled(values, values_of(written), precision_of(x)):
                return True
        return any(is_scaled(values, values_of(y), 1e-4) for y in self._notes_combined(x))

    def _replaced(self, x: Any) -> Iterator[tuple[int, int]]:
        """Yield `replaced_in` of what ``x``, a result, was before a launcher mended it."""
        for written in self._candidates(x):
            found = replaced_in(x, written)
            known = found[1] or is_part(values_of(x), values_of(written.to(x.dtype)))
            if found[0] and known:
                yield found

    def _candidates(self, x: Any) -> Iterator[Any]:
        written = self.sources.written
        yield from written
        if len(written) > 1 and written[0].numel() < x.numel():  # a launch per head
            import torch

            yield torch.cat([w.reshape(-1).to(x.dtype) for w in written])

    def _notes_combined(self, x: Any) -> Iterator[Any]:
        """Yield lse from a maximum and a sum that a kernel stored, added up after the launch."""
        alike = [w for w in self.sources.written if w.shape == x.shape and is_floating(w)][-4:]
        for m, l_sum in permutations(alike, 2):
            yield m + l_sum.log()
            yield m + l_sum.log2()

    def _is_total(self, result: Any, written: Any) -> bool:
        """Return whether a number was written, or adds up partial sums (not a copy of all)."""
        total = values_of(result)
        if not total.size or np.any(values_of(written.to(result.dtype)) == total[0]):
            return True
        few = max(self._longest // 2, _FEW_PLACES)  # two in one, at least; zeros add nothing
        partial = int(np.count_nonzero(values_of(written))) <= few
        return partial and adds_up(result, written)


def idle_finding(result: Any, without: Any) -> Finding | None:
    """Say so if a tensor of ``result`` is the same ``without`` anything that a kernel stored."""
    for x, y in zip(_parts(result), _parts(without), strict=False):
        if not is_floating(x) or not is_floating(y) or x.dtype != y.dtype:
            continue
        if x.numel() > 1 and is_plain(bits_of(x)):  # zeros, say, need nobody to store them
            continue
        if np.array_equal(bits_of(x), bits_of(y)):
            says = (
                "the result is the same when your kernel stores nothing: return what it computed."
            )
            return Finding(BY_THE_KERNEL, says)
    return None


def leaves(arguments: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of a launch's arguments, and of what tuples and the like hold."""
    for name, value in arguments.items():
        if isinstance(value, dict) and "pointers" in value:
            targets, offsets, shape = value["pointers"]
            value = (*targets, *offsets, *shape)
        elif isinstance(value, dict):
            yield name, value["descriptor"][0]
            value = value["descriptor"][1:]
        if isinstance(value, tuple | list):
            yield from leaves({f"{name}[{i}]": item for i, item in enumerate(value)})
        else:
            yield name, value


def _scalars(arguments: dict[str, Any]) -> Iterator[str]:
    """Yield the scalars among a launch's arguments as texts, long texts in pieces."""
    for _, value in leaves(arguments):
        if isinstance(value, str):
            yield from (value[i : i + 8] for i in range(0, len(value), 8))
        elif isinstance(value, int | float):
            yield repr(value)


@lru_cache(maxsize=8)  # a launcher launches the same kernel over and over
def tree_of(source: str) -> ast.Module | None:
    """Return a kernel's source as Python reads it, None if it does not."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@lru_cache(maxsize=8)
def _literals(source: str) -> int:
    tree = tree_of(source)
    if tree is None:
        return 0  # no launch message holds such a source (`launch_message`)
    return sum(isinstance(node, ast.Constant) for node in ast.walk(tree))


def _parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]


def _tensors_in(result: Any) -> list[Any]:
    return [x for x in _parts(result) if hasattr(x, "data_ptr")]


def span_of(x: Any) -> Any:
    """Return ``x``; of an overlapping view all that lies between its first and its last byte."""
    from course_lib.accounting.guard_band import View

    if x.numel() == 0 or View.of("", x).nested:
        return x
    reach = sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True))
    return x.as_strided((reach + 1,), (1,))


def _odd(x: Any, bits: np.ndarray) -> int:
    """Count zeros, infinities and NaN that do not look like the commonest of them."""
    values = x.detach().double().numpy()
    special: np.ndarray = bits[~np.isfinite(values) | (values == 0)]
    return special.size - int(np.unique(special, return_counts=True)[1].max(initial=0))


def _words(x: Any) -> int:
    """Return how many words of 16 bits the largest whole number takes, at least one."""
    return -(-max(1, int(x.detach().long().abs().max()).bit_length()) // 16)


def _is_range(x: Any) -> bool:
    return int(np.ptp(np.diff(x.detach().long().numpy().ravel()))) == 0
