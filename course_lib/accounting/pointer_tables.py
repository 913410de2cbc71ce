"""Tensors of addresses: a kernel that loads its pointers, as a grouped product does.

Such a table is a launch argument of integers. What it points at is no argument, so it is looked up
among the tensors that are alive; then it is copied, guarded, counted and sent elsewhere as one.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

_MOST = 64  # entries: a longer tensor of integers is no table
_LEAST = 1 << 20  # no address of a tensor is as small: a low heap begins at some millions


@dataclass(frozen=True)
class PointerTable:
    """A tensor of addresses, and for each of them the tensor and the byte in it."""

    table: Any
    targets: tuple[Any, ...]
    offsets: tuple[int, ...]

    @classmethod
    def of(
        cls, targets: tuple[Any, ...], offsets: tuple[int, ...], shape: list[int]
    ) -> PointerTable:
        """Return a table of ``shape`` that points into ``targets``, wherever they lie now."""
        import torch

        table = torch.empty(shape, dtype=torch.int64, device="cpu")
        made = cls(table, targets, offsets)
        made.point(table, targets)
        return made

    def point(self, table: Any, targets: tuple[Any, ...]) -> None:
        """Let ``table``, a tensor like this one's, point at the twins of its targets."""
        import torch

        addresses = [t.data_ptr() + at for t, at in zip(targets, self.offsets, strict=True)]
        table.copy_(torch.tensor(addresses, dtype=torch.int64).reshape(table.shape))


def with_targets(value: Any) -> Any:
    """Return the `PointerTable` in a launch argument; ``value`` itself if it is none.

    It is one if it is a small tensor of 64-bit integers, each an address in a living CPU tensor.
    """
    import torch

    if not isinstance(value, torch.Tensor) or value.dtype is not torch.int64:
        return value
    if not 0 < value.numel() <= _MOST or value.device.type != "cpu" or int(value.min()) < _LEAST:
        return value
    addresses = [int(x) for x in value.reshape(-1).tolist()]
    found = [_owner(address) for address in addresses]
    targets = tuple(owner for owner in found if owner is not None)
    if len(targets) < len(addresses):
        return value
    offsets = tuple(a - t.data_ptr() for a, t in zip(addresses, targets, strict=True))
    return PointerTable(value, targets, offsets)


def _owner(address: int) -> Any:
    """Return the largest living tensor whose memory an address lies in, None if there is none."""
    import torch

    alive = (x for x in gc.get_objects() if type(x) in (torch.Tensor, torch.nn.Parameter))
    holding = (
        x for x in alive if x.device.type == "cpu" and 0 <= address - x.data_ptr() < _reach(x)
    )
    return max(holding, key=_reach, default=None)


def _reach(x: Any) -> int:
    """Return how many bytes lie between a tensor's first and the end of its last."""
    if not x.numel():
        return 0
    steps: int = sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    size: int = x.element_size()
    return (steps + 1) * size
