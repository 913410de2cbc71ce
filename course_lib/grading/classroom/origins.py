"""Where do the numbers come from that a launcher gives to its kernel, and returns?

A launcher may copy, transpose, pad, repeat, convert and scale its inputs, and may make constant
tensors. What it may not do is compute the answer in PyTorch and let a kernel carry it about. So
every tensor of a launch must hold numbers of the inputs, of an earlier launch, or a constant, and
what is returned must hold numbers that a kernel wrote. Tensors are compared as sorted values, so
their order and shape do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

_MOST_INTEGERS = 1024  # offsets and lengths; more could hide an answer
_FEW = 2  # distinct values that count as constant: a fill and a padding


class Origins:
    """The numbers known so far in one case."""

    def __init__(self, inputs: Iterable[Any]) -> None:
        self._known: list[Any] = [x for x in inputs if _is_floating(x)]
        self._written: list[Any] = []
        if len(self._known) > 1 and len({x.dtype for x in self._known}) == 1:
            import torch

            self._known.append(torch.cat([x.reshape(-1) for x in self._known]))  # packed

    def stranger(self, arguments: dict[str, Any]) -> str | None:
        """Return the name of a launch argument whose numbers come from nowhere, else None."""
        integers = 0
        for name, value in arguments.items():
            if isinstance(value, dict):
                value = value["descriptor"][0]
            if not hasattr(value, "data_ptr"):
                continue
            if not value.dtype.is_floating_point:
                integers += value.numel() if not _is_constant(value) else 0
            elif not _is_constant(value) and not self._explains(value):
                return name
            if integers > _MOST_INTEGERS:
                return name
        return None

    def note_written(self, tensors: Iterable[Any]) -> None:
        """Remember what a launch has written."""
        for tensor in tensors:
            self._written.append(tensor)
            self._known.append(tensor)

    def from_a_kernel(self, result: Any) -> bool:
        """Return whether the largest tensor of ``result`` holds what a kernel wrote."""
        parts = result if isinstance(result, tuple | list) else [result]
        tensors = [x for x in parts if hasattr(x, "data_ptr")]
        if not tensors:
            return True  # not ours to judge: the exercise's own judge wants tensors
        largest = max(tensors, key=lambda x: x.numel())
        if largest.numel() <= 1:  # a total, added up after the launch
            return any(_is_total(largest, w) for w in self._written)
        return any(_is_part(_values(largest), _values(w.to(largest.dtype))) for w in self._written)

    def _explains(self, tensor: Any) -> bool:
        values = _values(tensor)
        for known in self._known:
            there = _values(known.to(tensor.dtype))
            if _is_part(values, there) or _is_scaled(values, _values(known), _precision(tensor)):
                return True
        return False


def _is_floating(x: Any) -> bool:
    return hasattr(x, "data_ptr") and x.dtype.is_floating_point


def _values(x: Any) -> np.ndarray:
    """Return the finite values of a tensor, sorted, float64."""
    values = x.detach().double().numpy().ravel()
    return np.sort(values[np.isfinite(values)])


def _precision(x: Any) -> float:
    return {"torch.float16": 2.0**-10, "torch.bfloat16": 2.0**-7}.get(str(x.dtype), 1e-5)


def _is_constant(x: Any) -> bool:
    values = x.detach().double().numpy().ravel()
    return np.unique(values[~np.isnan(values)]).size <= _FEW


def _is_part(values: np.ndarray, known: np.ndarray) -> bool:
    """Return whether ``values`` are among ``known``, each as often as there or whole copies.

    One value may come more often: the padding.
    """
    if not values.size or not known.size:
        return not values.size
    unique, counts = np.unique(values, return_counts=True)
    at, there = np.unique(known, return_counts=True)
    place = np.minimum(np.searchsorted(at, unique), at.size - 1)
    often = np.where(at[place] == unique, there[place], 0)
    copies = max(1, values.size // known.size)
    excess = counts > often * copies
    return int(excess.sum()) <= 1 and counts[excess].sum() < values.size


def _is_scaled(values: np.ndarray, known: np.ndarray, precision: float) -> bool:
    """Return whether ``values`` are ``known`` times one number (q * scale, say)."""
    if values.size != known.size or not known.size:
        return False
    ratio = np.abs(values).max() / max(np.abs(known).max(), 1e-300)
    for scaled in (known * ratio, np.sort(-known * ratio)):
        if np.abs(values - scaled).max() <= 2 * precision * np.abs(values).max():
            return True
    return False


def _is_total(result: Any, written: Any) -> bool:
    values, total = _values(written), _values(result)
    if not total.size:
        return True
    near = 1e-4 * max(1.0, float(np.abs(values).sum()))
    return bool(np.any(values == total[0])) or abs(float(values.sum()) - total[0]) <= near
