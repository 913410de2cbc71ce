"""The launches of a case once more, on other inputs: does the answer follow?

Where numbers come from (`provenance`) cannot be told from values alone: an answer hides in the
order of the inputs, in their last bits, in a grid. So the interpreter does the launches of every
case again, on inputs of which about half the numbers are halved: which, a secret of the grader
decides for each number that is there, however often it is there. Copying, transposing, padding
with a constant, packing, converting (of numbers that are one in float16 all or none are halved)
and scaling can be done again on those inputs. Inputs that belong together (an lse, and what its
scores are made of) stay as they are beside others that change, and so do inputs that are plain: who
converts ones gives what anybody may make. What a kernel computes follows the inputs; what was
computed beside it would have to guess a bit for each number. Where a launcher does more between
two launches the replay is `Unclear`: a person has to look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np

from course_lib.judging.alike import (
    adds_up,
    bits_of,
    is_floating,
    is_plain,
    plainest_kind,
    precision_of,
)
from course_lib.judging.provenance import leaves, span_of
from course_lib.judging.spec import Case

_MOST_LAUNCHES, _MOST_BYTES = 4096, 64 << 20
_MOST_COMPARED = 1 << 28  # elements, in looking for what a tensor was made from
# what forged integers, books and tensors may provoke while they are looked at
OF_FORGED_DATA = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)

Pair = tuple[Any, Any]  # a tensor as it was then, and now


class Unclear(Exception):
    """What the launcher did beside its launches cannot be done again; the message says why."""


class Replay:
    """The launches of one case, kept to be done again on inputs that ``secret`` chooses.

    Attributes:
        too_much: there are too many launches, or their tensors are too large: it is `Unclear`.
    """

    def __init__(self, case: Case, secret: np.random.Generator) -> None:
        self._is_halved = secret.integers(0, 2, 1 << 16).astype(bool)  # for each float16
        places = range(len(case.args))
        free = replace(case, args=tuple(case.args[i] for i in places if i not in case.together))
        uneven = [x for x in _floating(free) if not is_plain(bits_of(x))]
        self._plain_too = not uneven
        if not any(self._is_halved[_as_float16(x)].any() for x in uneven or _floating(free)):
            self._is_halved[:] = True  # few numbers, and none was chosen
        args = [x if i in case.together else self._other(x) for i, x in enumerate(case.args)]
        kwargs = {key: self._other(x) for key, x in case.kwargs.items()}
        self.other_case = replace(case, args=tuple(args), kwargs=kwargs)
        self._inputs = list(zip(_floating(case), _floating(self.other_case), strict=True))
        self._written: list[Pair] = []
        self._now: dict[Any, Any] = {}  # bits then -> tensor now
        self._launches: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._bytes, self.too_much = 0, False
        self._compared = 0

    def note(self, launch: dict[str, Any], written: dict[str, Any]) -> None:
        """Keep a launch and what it wrote, while they are few and small."""
        if self.too_much:
            return
        given = [x for _, x in leaves(launch["args"]) if hasattr(x, "data_ptr")]
        self._bytes += sum(x.untyped_storage().nbytes() for x in [*given, *written.values()])
        self._launches.append((launch, written))
        if len(self._launches) > _MOST_LAUNCHES or self._bytes > _MOST_BYTES:
            self._launches.clear()
            self.too_much = True

    def again(self, run: Callable[[dict[str, Any]], dict[str, Any]], result: Any) -> Any:
        """Do all launches with ``run``; return what ``result`` becomes. Raises Unclear."""
        if not self._launches:
            much = f"over {_MOST_LAUNCHES} launches, or {_MOST_BYTES >> 20} MiB of tensors"
            raise Unclear(much if self.too_much else "there are no launches")
        try:
            for old, new in self._inputs:
                self._now[_key(old)] = new
            for launch, written in self._launches:
                self._launch_again(run, launch, written)
            if isinstance(result, tuple | list):
                return type(result)(map(self._returned, result))
            return self._returned(result)
        except OF_FORGED_DATA as error:
            raise Unclear(f"tensors of strange forms ({type(error).__name__})") from None

    def _launch_again(
        self,
        run: Callable[[dict[str, Any]], dict[str, Any]],
        launch: dict[str, Any],
        written: dict[str, Any],
    ) -> None:
        """Launch with the other inputs; what only one of the two runs has written counts too."""
        arguments = _Arguments(self._given)
        again = {key: arguments.again(value) for key, value in launch["args"].items()}
        before, given = _tensors(launch["args"]), _tensors(again)
        now = run({**launch, "args": again})
        for name in written | now:
            pair = written.get(name, before.get(name)), now.get(name, given.get(name))
            self._written.append(pair)
            self._now[_key(pair[0])] = pair[1]

    def _other(self, x: Any) -> Any:
        """Return an input with its numbers halved or not; what is no tensor stays as it is."""
        if not is_floating(x) or (is_plain(bits_of(x)) and not self._plain_too):
            return x
        import torch

        return torch.where(torch.from_numpy(self._is_halved[_as_float16(x)]), x / 2, x)

    def _given(self, value: Any) -> Any:
        """Return what a tensor of a launch is with the other inputs."""
        if (now := self._now.get(_key(value))) is not None:
            return now.reshape(value.shape)
        if not value.dtype.is_floating_point or is_plain(bits_of(value)):
            return value
        for pairs in (self._inputs, self._written):
            if (found := self._made_from(pairs, value)) is not None:
                return found
        if (found := _looked_up([*self._inputs, *self._written], value)) is not None:
            return found
        if (kind := plainest_kind(value)) != value.dtype:  # half precision, converted back
            return self._given(value.to(kind)).to(value.dtype)
        raise Unclear("a launch is given numbers that are made in an unusual way")

    def _returned(self, value: Any) -> Any:
        """Return what a part of the result is with the other inputs."""
        if not hasattr(value, "data_ptr"):
            return value
        if (now := self._now.get(_key(value))) is not None:
            return now.reshape(value.shape)
        if value.numel() == 1:
            for old, new in self._written:
                if adds_up(value, old):
                    return new.double().sum().to(value.dtype).reshape(value.shape)
        for found in (self._made_from(self._written, value), self._combined(value)):
            if found is not None:
                return found
        raise Unclear("the result is made from what kernels wrote in an unusual way")

    def _made_from(self, pairs: list[Pair], value: Any) -> Any:
        """Return ``value`` made anew from tensors as they are now, None if nobody knows how."""
        for old, new in [*reversed(pairs), *_joined(pairs, value)]:
            if (moved := self._moved(old, new, value)) is not None:
                return moved
        return _looked_up(pairs, value)

    def _moved(self, old: Any, new: Any, value: Any) -> Any:
        """Return ``new``, moved as ``old`` was to give ``value``, None if it was not moved.

        Moved is: cut to size after padding; or transposed, converted, scaled.
        """
        import torch

        if old.dim() == value.dim() and old.numel() > value.numel():
            part = tuple(map(slice, value.shape))
            old, new = old[part], new[part]
        if old.numel() != value.numel():
            return None
        there = value.detach().double().numpy().ravel()
        precision = precision_of(value)
        ratio = _ratio(there, old.detach().double().numpy(), precision)
        for order in permutations(range(old.dim())) if old.dim() <= 4 else ():
            self._compared += there.size
            if self._compared > _MOST_COMPARED:
                raise Unclear("its tensors are too many to be compared")
            moved = old.detach().permute(order).double().numpy().ravel()
            for factor in (ratio, -ratio):
                few = _near(moved[:64] * factor, there[:64], precision)  # soon says no
                if few and _near(moved * factor, there, precision):
                    now = new.detach().permute(order).double().numpy().ravel()
                    now = _scaled(now, moved, there, factor)
                    return torch.from_numpy(now.reshape(value.shape)).to(value.dtype)
        return None

    def _combined(self, value: Any) -> Any:
        """Return lse made anew from a maximum and a sum that a kernel stored, None if it is not."""
        alike = [p for p in self._written if p[0].shape == value.shape and is_floating(p[0])][-4:]
        for m, l_sum in permutations(alike, 2):
            for log in ("log", "log2"):
                then, now = (m[i] + getattr(l_sum[i], log)() for i in (0, 1))
                if (moved := self._moved(then, now, value)) is not None:
                    return moved
        return None


class _Arguments:
    """The arguments of one launch made anew: tensors that share memory share it again."""

    def __init__(self, given: Callable[[Any], Any]) -> None:
        self._given = given
        self._storages: dict[int, Any] = {}  # address of a storage then -> storage now

    def again(self, value: Any) -> Any:
        """Return what an argument is with the other inputs."""
        if isinstance(value, dict) and "pointers" in value:
            targets, *places = value["pointers"]
            return {"pointers": (self.again(targets), *places)}
        if isinstance(value, dict):
            base, *sizes = value["descriptor"]
            return {"descriptor": (self.again(base), *sizes)}
        if isinstance(value, tuple):
            return tuple(map(self.again, value))
        return self._laid_out(value) if hasattr(value, "data_ptr") else value

    def _laid_out(self, value: Any) -> Any:
        """Return a tensor in the form of ``value``: its strides, and its place in its memory."""
        import torch

        storage = value.untyped_storage()
        if storage.data_ptr() not in self._storages:
            self._storages[storage.data_ptr()] = storage.clone()
        twin = torch.empty(0, dtype=value.dtype)
        twin.set_(
            self._storages[storage.data_ptr()],
            value.storage_offset(),
            value.shape,
            value.stride(),
        )
        there, wanted = span_of(twin), self._given(span_of(value))
        for axis in range(there.dim()):  # where it stands still (stride 0) once is enough
            if there.stride(axis) == 0 and there.shape[axis] > 1:
                there, wanted = there.narrow(axis, 0, 1), wanted.narrow(axis, 0, 1)
        there.copy_(wanted)
        return twin


def _floating(case: Case) -> list[Any]:
    return [x for x in (*case.args, *case.kwargs.values()) if is_floating(x)]


def _as_float16(x: Any) -> np.ndarray:
    """Return the bits of a tensor's numbers, converted to float16."""
    bits: np.ndarray = x.detach().half().numpy().view(np.uint16)
    return bits


def _tensors(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: x for name, x in leaves(arguments) if hasattr(x, "data_ptr")}


def _key(x: Any) -> tuple[str, bytes]:
    """Return what two tensors have in common that hold the same bits in the same order."""
    return str(x.dtype), bits_of(x).tobytes()


def _joined(pairs: list[Pair], value: Any) -> Iterator[Pair]:
    """Yield tensors of one shape, joined, where together they are as long as ``value``."""
    import torch

    for shape in {old.shape for old, _ in pairs}:
        alike = [pair for pair in pairs if pair[0].shape == shape]
        if len(alike) > 1 and sum(old.numel() for old, _ in alike) == value.numel():
            then, now = (torch.cat([pair[i].reshape(-1) for pair in alike]) for i in (0, 1))
            yield then, now


def _scaled(now: np.ndarray, then: np.ndarray, scaled: np.ndarray, factor: float) -> np.ndarray:
    """Return ``now`` times the factor that gave ``scaled`` from ``then``.

    The factor was found among rounded numbers. So it is used only where it is 1 or -1, or where
    there is no ratio of now and then, which for inputs is exactly 1 or 1/2.
    """
    usual = np.isfinite(then) & (then != 0) & (abs(factor) != 1)
    ratio = np.divide(now, then, out=np.ones_like(now), where=usual)
    return np.where(usual, scaled * ratio, now * factor)


def _near(x: np.ndarray, y: np.ndarray, precision: float) -> bool:
    return np.allclose(x, y, rtol=precision, atol=precision * 2.0**-14, equal_nan=True)


def _ratio(values: np.ndarray, others: np.ndarray, precision: float) -> float:
    """Return by what ``others`` are multiplied to be as large as ``values``, 1 if by little."""
    large, small = (np.abs(x[np.isfinite(x)]).max(initial=0.0) for x in (values, others))
    ratio = large / small if large and small else 1.0
    return 1.0 if abs(ratio - 1) <= precision else float(ratio)


def _looked_up(pairs: list[Pair], value: Any) -> Any:
    """Return ``value`` with each number that stood in the pairs replaced by that of now.

    None if some stood nowhere (and are not one constant), or are two different numbers now.
    """
    import torch

    if not pairs:
        return None
    old, new = (
        torch.cat([pair[i].detach().reshape(-1).to(value.dtype) for pair in pairs]).double().numpy()
        for i in (0, 1)
    )
    values = value.detach().double().numpy()
    at, first, which = np.unique(old, return_index=True, return_inverse=True)
    place = np.minimum(np.searchsorted(at, values), at.size - 1)
    found = (at[place] == values) | (np.isnan(at[place]) & np.isnan(values))
    if not is_plain(bits_of(value[torch.from_numpy(~found)])):
        return None
    same = (new == new[first][which]) | (np.isnan(new) & np.isnan(new[first][which]))
    ambiguous = np.zeros(at.size, dtype=bool)
    ambiguous[which[~same]] = True
    if ambiguous[place[found]].any():
        return None
    return torch.from_numpy(np.where(found, new[first][place], values)).to(value.dtype)
