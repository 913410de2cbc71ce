"""Where a kernel's tensors lie: their exact addresses, and padded copies with guard bands.

Torch's CPU tensors lie 128 bytes apart, so an over-read of one lands in the next and looks like
an honest access. Here each storage is copied, for the length of a launch, into the middle of a
larger buffer, so that addresses just outside a tensor belong to nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

BAND = 1 << 16  # bytes on either side, at least
_MAX_BAND = 1 << 26
_ALIGN = 128  # offsets stay congruent to the storage's start, so alignment is kept


@dataclass(frozen=True, eq=False)
class View:
    """The addresses of one tensor argument: ``address = lo + sum(index[a] * stride[a])``, bytes."""

    name: str
    lo: int
    hi: int  # one past the last byte
    axes: tuple[tuple[int, int, int], ...]  # (stride in bytes, size, axis), widest stride first
    ndim: int
    itemsize: int
    gapless: bool  # every address between lo and hi is an element
    nested: bool  # strides nest, so an address has one index; not so for overlapping windows
    expanded: tuple[int, ...] = ()  # axes of stride 0: their entries lie on each other

    @classmethod
    def of(cls, name: str, tensor: torch.Tensor) -> View:
        """Describe ``tensor`` at the place where it lies now."""
        item, lo = tensor.element_size(), tensor.data_ptr()
        if tensor.numel() == 0:
            return cls(name, lo, lo, (), tensor.dim(), item, True, True)
        strides = [stride * item for stride in tensor.stride()]
        widest_first = sorted(
            ((s, n, a) for a, (s, n) in enumerate(zip(strides, tensor.shape, strict=True)) if s),
            key=lambda axis: (-axis[0], -axis[1]),
        )
        axes = tuple((s, n, a) for s, n, a in widest_first if n > 1)
        shape = enumerate(zip(tensor.stride(), tensor.shape, strict=True))
        expanded = tuple(axis for axis, (stride, n) in shape if not stride and n > 1)
        below, nested, gapless = item, True, True  # what one step of the next wider axis covers
        for stride, size, _ in reversed(axes):
            nested, gapless = nested and stride >= below, gapless and stride == below
            below = stride * (size - 1) + below
        hi = lo + item + sum(stride * (size - 1) for stride, size, _ in axes)
        return cls(name, lo, hi, axes, tensor.dim(), item, gapless, nested, expanded)

    def holds(self, addresses: np.ndarray, width: int) -> np.ndarray:
        """Return for each address whether ``width`` bytes there are inside this tensor."""
        if self.hi - self.lo < width:
            return np.zeros(addresses.shape, dtype=bool)
        inside = (addresses >= self.lo) & (addresses <= self.hi - width)
        if not self.gapless and self.nested and inside.any():
            left = addresses - self.lo  # wraps below lo, where inside is False already
            for stride, size, _ in self.axes:
                step, left = np.divmod(left, stride)
                inside &= step < size
            inside &= left + width <= self.itemsize
        return inside

    def holds_all(self, addresses: np.ndarray, low: int, high: int, width: int) -> bool:
        """Return whether all addresses, from ``low`` to ``high``, are inside; cheap if gapless."""
        if low < self.lo or high + width > self.hi:
            return False
        return self.gapless or bool(self.holds(addresses, width).all())

    def index(self, address: Any) -> list[Any]:
        """Return the index, per axis, of addresses inside (0 along size 1 or stride 0)."""
        index, left = [0] * self.ndim, address - self.lo
        for stride, _, axis in self.axes:
            index[axis], left = divmod(left, stride)
        return index

    def place(
        self, addresses: np.ndarray, low: int, high: int
    ) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return (first, last + 1) of rows and of columns, as a `Visit` has them.

        ``low`` and ``high`` are the lowest and the highest of the addresses.
        """
        if self.ndim == 0:
            return (0, 1), (0, 1)
        axis = max(self.ndim - 2, 0)
        first, last = self.index(low), self.index(high)
        columns = (first[-1], last[-1] + 1) if self.ndim > 1 else (0, 1)
        if first[:axis] != last[:axis]:  # several heads at once: ask every address
            rows = np.asarray(self.index(addresses)[axis])
            return (int(rows.min()), int(rows.max()) + 1), columns
        return (first[axis], last[axis] + 1), columns

    def where(self, outside: np.ndarray) -> str:
        """Say on which side of this tensor the addresses lie."""
        if (outside < self.lo).all():
            return "before its start"
        if (outside >= self.lo).all() and (outside >= self.hi).any():
            return "past its end"
        return "between its rows, where the buffer holds something else"

    def distance(self, address: int) -> int:
        """Return how many bytes an address is from this tensor, 0 inside its extent."""
        return max(self.lo - address, address - self.hi + 1, 0)


Span = tuple[int, int, int]  # storage address, first byte, one past the last byte


def span(tensor: torch.Tensor) -> Span:
    """Return which bytes of which storage a tensor reaches; equal spans share a copy."""
    item = tensor.element_size()
    first = int(tensor.storage_offset()) * item
    reach = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    n_bytes = (reach + 1) * item if tensor.numel() else 0
    return tensor.untyped_storage().data_ptr(), first, first + n_bytes


class GuardedCopy:
    """Bytes of one storage that a launch uses, copied between two guard bands."""

    def __init__(self, storage: torch.UntypedStorage, first: int, end: int) -> None:
        n = end - first
        self.first = first
        self.band = max(BAND, min(-(-n // _ALIGN) * _ALIGN, _MAX_BAND))  # as wide as the tensor
        self.at = self.band + first % _ALIGN  # keeps the alignment the tensor had
        self.buffer = torch.empty(self.at + n + self.band, dtype=torch.uint8, device="cpu")
        whole = torch.empty(0, dtype=torch.uint8, device=storage.device)
        self.original = whole.set_(storage, first, (n,), (1,))
        self.copy = self.buffer[self.at : self.at + n]
        self.copy.copy_(self.original)
        self.dirty = False

    def rebuild(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return ``tensor``'s twin in the buffer: same dtype, size, strides."""
        item = tensor.element_size()
        offset = (self.at - self.first) // item + tensor.storage_offset()
        twin = torch.empty(0, dtype=tensor.dtype, device="cpu")
        return twin.set_(self.buffer.untyped_storage(), offset, tensor.size(), tensor.stride())

    def write_back(self) -> None:
        """Copy what the kernel wrote into the original storage."""
        if self.dirty:
            self.original.copy_(self.copy)

    def surrounds(self, address: int) -> bool:
        """Return whether an address lies in this buffer, bands included."""
        return 0 <= address - self.buffer.data_ptr() < self.buffer.numel()


def copy_with_guard_bands(tensors: Iterable[torch.Tensor]) -> dict[Span, GuardedCopy]:
    """Copy every tensor's bytes between guard bands; tensors whose spans overlap share a copy.

    So memory that was shared stays shared, and tensors that only lie side by side in one buffer
    come apart.
    """
    storages = {span(tensor): tensor.untyped_storage() for tensor in tensors}
    groups: list[list[Span]] = []
    for this in sorted(storages):
        last = groups[-1] if groups else []
        if last and last[0][0] == this[0] and this[1] < max(end for *_, end in last):
            last.append(this)
        else:
            groups.append([this])
    copies: dict[Span, GuardedCopy] = {}
    for group in groups:
        end = max(end for *_, end in group)
        copies |= dict.fromkeys(group, GuardedCopy(storages[group[0]], group[0][1], end))
    return copies
