"""The launches of a case once more, on other inputs: does the answer follow?

Where numbers come from (`provenance`) cannot be told from values alone: an answer hides in the
order of the inputs, in their last bits, in a grid. So the interpreter does the launches of one
case again,
with x / 2 in place of every positive number x of the inputs and x / 4 of every negative one.
Copying, transposing, converting, scaling, padding with zeros or infinities give the same before
and after that; what a kernel computes follows, and what was computed beside it does not. Where a
launcher does more between two launches the replay is `Unclear` and says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from course_lib.judging.provenance import Provenance, bits_of, is_plain, leaves
from course_lib.judging.spec import Case

_MOST_LAUNCHES, _MOST_BYTES = 256, 64 << 20


class Unclear(Exception):
    """What the launcher did beside its launches cannot be done again."""


class Replay:
    """The launches of one case, kept to be done again."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._inputs = [x for x in (*case.args, *case.kwargs.values()) if hasattr(x, "data_ptr")]
        self._launches: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._bytes, self._too_much = 0, False
        self._pairs: list[tuple[Any, Any]] = []  # what was written then, and now

    def note(self, launch: dict[str, Any], written: dict[str, Any]) -> None:
        """Keep a launch and what it wrote, while they are few and small."""
        if self._too_much:
            return
        given = [x for _, x in leaves(launch["args"]) if hasattr(x, "data_ptr")]
        self._bytes += sum(x.untyped_storage().nbytes() for x in [*given, *written.values()])
        self._launches.append((launch, written))
        if len(self._launches) > _MOST_LAUNCHES or self._bytes > _MOST_BYTES:
            self._launches.clear()
            self._too_much = True

    def again(self, run: Callable[[dict[str, Any]], dict[str, Any]], result: Any) -> Any:
        """Do all launches with ``run``; return what ``result`` becomes. Raises Unclear."""
        if not self._launches:
            raise Unclear
        try:
            for launch, written in self._launches:
                self._launch_again(run, launch, written)
            if isinstance(result, tuple | list):
                return type(result)(map(self._returned, result))
            return self._returned(result)
        except (RuntimeError, TypeError, ValueError, IndexError):  # tensors of strange forms
            raise Unclear from None

    def _launch_again(
        self,
        run: Callable[[dict[str, Any]], dict[str, Any]],
        launch: dict[str, Any],
        written: dict[str, Any],
    ) -> None:
        if _shares_what_it_writes(launch["args"], written):
            raise Unclear
        now = run({**launch, "args": {k: self._given(x) for k, x in launch["args"].items()}})
        if now.keys() != written.keys():
            raise Unclear
        self._pairs += [(written[name], now[name]) for name in written]

    def other_case(self) -> Case:
        """Return the case with the other inputs."""
        kwargs = {key: _other(x) for key, x in self.case.kwargs.items()}
        return replace(self.case, args=tuple(map(_other, self.case.args)), kwargs=kwargs)

    def _given(self, value: Any) -> Any:
        """Return what a launch argument is with the other inputs."""
        if isinstance(value, dict):
            base, *sizes = value["descriptor"]
            return {"descriptor": (self._given(base), *sizes)}
        if isinstance(value, tuple):
            return tuple(map(self._given, value))
        if not hasattr(value, "data_ptr"):
            return value
        for old, new in reversed(self._pairs):
            if old.dtype == value.dtype and _same(old, value):
                return _laid_out(new.reshape(value.shape), value)
        is_input = any(x.dtype == value.dtype and _same(x, value) for x in self._inputs)
        if not value.dtype.is_floating_point or (not is_input and is_plain(bits_of(value))):
            return value
        if is_input or Provenance(self._inputs).stranger({"": value}) is None:
            reach = sum((n - 1) * step for n, step in zip(value.shape, value.stride(), strict=True))
            whole = value.as_strided((reach + 1,), (1,))
            return _other(whole).as_strided(value.shape, value.stride(), 0)
        return _laid_out(self._looked_up(value), value)

    def _returned(self, value: Any) -> Any:
        """Return what a part of the result is with the other inputs."""
        if not hasattr(value, "data_ptr"):
            return value
        for old, new in reversed(self._pairs):
            old, new = old.to(value.dtype), new.to(value.dtype)
            if _same(old, value):
                return new.reshape(value.shape)
            if old.dim() == value.dim():  # cut to size, after padding
                part = tuple(map(slice, value.shape))
                if old[part].shape == value.shape and _same(old[part], value):
                    return new[part]
        if value.numel() == 1:
            for old, new in self._pairs:
                if np.allclose(old.double().sum(), value.double(), rtol=1e-4):
                    return new.double().sum().to(value.dtype).reshape(value.shape)
        return self._looked_up(value)

    def _looked_up(self, tensor: Any) -> Any:
        """Return ``tensor`` with each number that was written then replaced by that of now."""
        import torch

        if not self._pairs:
            raise Unclear
        old, new = (
            torch.cat([pair[i].reshape(-1).to(tensor.dtype) for pair in self._pairs]).double()
            for i in (0, 1)
        )
        at, first, which = np.unique(old.numpy(), return_index=True, return_inverse=True)
        there = new.numpy()
        if not np.array_equal(there[first][which], there, equal_nan=True):
            raise Unclear  # two that were the same are not the same now
        values = tensor.double().numpy()
        place = np.minimum(np.searchsorted(at, values), at.size - 1)
        found = at[place] == values
        if not is_plain(bits_of(tensor[torch.from_numpy(~found)])):
            raise Unclear
        return torch.from_numpy(np.where(found, there[first][place], values)).to(tensor.dtype)


def _same(x: Any, y: Any) -> bool:
    """Return whether two tensors of one dtype hold the same bits in the same order."""
    return np.array_equal(bits_of(x).ravel(), bits_of(y).ravel())


def _other(x: Any) -> Any:
    """Return x / 2 where x is positive, x / 4 elsewhere; what is no tensor stays as it is."""
    if not hasattr(x, "data_ptr") or not x.dtype.is_floating_point:
        return x
    return x * (0.25 + 0.25 * (x > 0)).to(x.dtype)


def _laid_out(values: Any, like: Any) -> Any:
    """Return ``values`` with the strides of ``like``. Raises Unclear if elements share a place."""
    import torch

    try:
        return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype).copy_(values)
    except RuntimeError:
        raise Unclear from None


def _shares_what_it_writes(arguments: dict[str, Any], written: Iterable[str]) -> bool:
    """Return whether a tensor that is written lies in one storage with another argument."""
    tensors = {name: x for name, x in leaves(arguments) if hasattr(x, "data_ptr")}
    places = {name: x.untyped_storage().data_ptr() for name, x in tensors.items()}
    alike = list(places.values())
    return any(alike.count(places[name]) > 1 for name in written)
