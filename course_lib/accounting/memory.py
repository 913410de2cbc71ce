"""The flat memory on which lesson 04's kernel-shaped NumPy program runs, and which counts.

A GPU kernel sees no matrices: it sees one array of numbers and computes addresses. So does a
program on `FlatMemory`. Tensors lie in one float32 array, one after the other, with guard gaps
between them; `load` and `store` take arrays of addresses (element indices) and a mask, as
`tl.load` and `tl.store` do, and book the bytes that were asked for.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from course_lib.accounting.ledger import ByteCounts, Ledger, Visit

GAP = 64
"""Unused elements before, between and after tensors: addresses there belong to no tensor."""

_MOST_TENSORS = 64  # that come from another process


@dataclass(frozen=True)
class Placement:
    """Where one tensor lies: first address, shape, and strides in elements."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def stop(self) -> int:
        """First address after the tensor."""
        return self.offset + int(np.prod(self.shape))

    def rows(self, addresses: NDArray[np.int64]) -> tuple[int, int]:
        """Return (first, last + 1) of the rows of the last axis but one that these touch."""
        along = (addresses - self.offset) // (self.shape[-1] if len(self.shape) > 1 else 1)
        along = along % self.shape[-2 if len(self.shape) > 1 else 0]
        return int(along.min()), int(along.max()) + 1


class FlatMemory(Ledger):
    """One flat float32 array that holds named tensors and counts what crosses.

    Attributes:
        loads: how often `load` was called.
        largest: tensor name -> the most bytes of it that one load read.
        visits: every load and store, in order. The memory knows no programs: all say (0, 0, 0).

    Args:
        itemsize: bytes that one element counts: 4, or 2 to count as half precision (the arithmetic
            stays float32).

    Raises:
        ValueError: if ``itemsize`` is neither 2 nor 4.

    Example:
        >>> memory = FlatMemory()
        >>> start = memory.place("q", np.arange(6.0).reshape(2, 3))
        >>> row, column = np.arange(2)[:, None], np.arange(3)[None, :]
        >>> memory.load(start + row * 3 + column).shape
        (2, 3)
        >>> memory.read["q"]
        24
    """

    def __init__(self, itemsize: int = 4) -> None:
        super().__init__()
        if itemsize not in (2, 4):
            raise ValueError(f"itemsize must be 2 or 4, got {itemsize!r}.")
        self.itemsize = itemsize
        self.placements: dict[str, Placement] = {}
        self.loads = 0
        self.largest = ByteCounts()
        self.visits: list[Visit] = []
        self._cells = np.full(GAP, np.nan, dtype=np.float32)
        self._owner = np.full(GAP, -1, dtype=np.int32)  # which tensor an address belongs to

    def place(self, name: str, array: ArrayLike) -> int:
        """Copy ``array`` into the memory, row-major, and return the address of its first element.

        Raises:
            ValueError: if the name is taken or the array is empty.
        """
        values = np.asarray(array, dtype=np.float32)
        if name in self.placements:
            raise ValueError(f"name must be new, but {name!r} is already in memory.")
        if not values.size:
            raise ValueError(f"array must have at least one element, got shape {values.shape}.")
        offset, index = len(self._cells), len(self.placements)
        strides = tuple(
            int(np.prod(values.shape[axis + 1 :], dtype=np.int64)) for axis in range(values.ndim)
        )
        self.placements[name] = Placement(offset, values.shape, strides)
        gap = np.full(GAP, np.nan, dtype=np.float32)
        self._cells = np.concatenate([self._cells, values.ravel(), gap])
        owners = [np.full(values.size, index, np.int32), np.full(GAP, -1, np.int32)]
        self._owner = np.concatenate([self._owner, *owners])
        return offset

    def to_plain(self) -> dict[str, Any]:
        """Return books and tensors as plain data, for another process; `from_plain` reads them."""
        arrays = {name: self.array(name) for name in self.placements}
        counts = {"itemsize": self.itemsize, "loads": self.loads, "largest": dict(self.largest)}
        return super().to_plain() | {"kind": "flat", "arrays": arrays} | counts

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> FlatMemory:
        """Return the memory that `to_plain` described. Raises something if this is none."""
        memory, arrays = cls(operator.index(data["itemsize"])), data["arrays"]
        if len(arrays) > _MOST_TENSORS:  # each moves all that came before
            raise ValueError(f"there are {len(arrays)} tensors, more than {_MOST_TENSORS}.")
        for name, array in arrays.items():
            memory.place(str(name), array)
        memory._take(data)
        memory.loads = operator.index(data["loads"])
        for name, n_bytes in data["largest"].items():
            memory.largest[str(name)] = operator.index(n_bytes)
        return memory

    def offset(self, name: str) -> int:
        """Return the address of the first element of tensor ``name``."""
        return self._placement(name).offset

    def strides(self, name: str) -> tuple[int, ...]:
        """Return the strides of tensor ``name`` in elements."""
        return self._placement(name).strides

    def array(self, name: str) -> NDArray[np.float32]:
        """Return a copy of tensor ``name`` in its own shape, without counting."""
        place = self._placement(name)
        return self._cells[place.offset : place.stop].reshape(place.shape).copy()

    def load(
        self, addresses: ArrayLike, mask: ArrayLike | None = None, other: float = 0.0
    ) -> NDArray[np.float32]:
        """Return the elements at ``addresses`` (integers, any shape), ``other`` where masked off.

        Args:
            addresses: element indices into the memory.
            mask: booleans that broadcast with ``addresses``; False reads nothing.
            other: what the masked-off places hold.

        Raises:
            TypeError: if the addresses are not integers or the mask is not boolean.
            IndexError: if an address that is not masked off belongs to no tensor.
        """
        where, active = self._resolve("load", addresses, mask)
        values = np.full(where.shape, other, dtype=np.float32)
        values[active] = self._cells[where[active]]
        self.loads += 1
        self._count("load", where[active], self._note_load)
        return values

    def store(self, addresses: ArrayLike, values: ArrayLike, mask: ArrayLike | None = None) -> None:
        """Write ``values`` (broadcast to the addresses) where the mask is True.

        Raises:
            TypeError, IndexError: as in `load`.
            ValueError: if ``values`` do not broadcast to the shape of the addresses.
        """
        where, active = self._resolve("store", addresses, mask)
        values = np.asarray(values, dtype=np.float32)
        try:
            values = np.broadcast_to(values, where.shape)
        except ValueError:
            raise ValueError(
                f"values must broadcast to the addresses' shape {where.shape}, got {values.shape}."
            ) from None
        self._cells[where[active]] = values[active]
        self._count("store", where[active], self.note_written)

    def _note_load(self, name: str, n_bytes: int) -> None:
        self.note_read(name, n_bytes)
        self.largest[name] = max(self.largest[name], n_bytes)

    def _placement(self, name: str) -> Placement:
        if name not in self.placements:
            known = ", ".join(self.placements) or "nothing yet"
            raise ValueError(f"name must be a tensor in memory ({known}), got {name!r}.")
        return self.placements[name]

    def _resolve(
        self, action: str, addresses: ArrayLike, mask: ArrayLike | None
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        where = np.asarray(addresses)
        active = np.asarray(True if mask is None else mask)
        if not np.issubdtype(where.dtype, np.integer):
            raise TypeError(f"addresses must be integers, got {where.dtype}.")
        if active.dtype != np.bool_:
            raise TypeError(f"mask must be boolean, got {active.dtype}.")
        where, active = np.broadcast_arrays(where.astype(np.int64), active)
        live = where[active]
        inside = (live >= 0) & (live < len(self._cells))
        inside[inside] = self._owner[live[inside]] >= 0
        if not inside.all():
            raise IndexError(self._complaint(action, live[~inside], live.size))
        return where, active

    def _complaint(self, action: str, wrong: NDArray[np.int64], n_live: int) -> str:
        verb = "address" if n_live == 1 else "addresses"
        what = f"{action}: {wrong.size} of {n_live} {verb} belong to no tensor"
        if not self.placements:
            return f"{what}: the memory is empty, place a tensor first."
        address = int(wrong.ravel()[0])
        name = min(
            self.placements,
            key=lambda n: max(
                self.placements[n].offset - address, address - self.placements[n].stop + 1
            ),
        )
        place = self.placements[name]
        if address < place.offset:
            side = f"{place.offset - address} before the first element of"
        else:
            side = f"{address - place.stop + 1} after the last element of"
        return f"{what}; the first, {address}, is {side} {name!r}: is a mask missing?"

    def _count(
        self,
        kind: Literal["load", "store"],
        live: NDArray[np.int64],
        note: Callable[[str, int], None],
    ) -> None:
        owners = self._owner[live]
        counts = np.bincount(owners, minlength=len(self.placements))
        for index, (name, place) in enumerate(self.placements.items()):
            if counts[index]:
                n_bytes = int(counts[index]) * self.itemsize
                note(name, n_bytes)
                rows = place.rows(live[owners == index])
                self.visits.append(Visit((0, 0, 0), name, rows, kind, n_bytes))
