"""The inputs of a call: copied before it, and compared with their copies after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

UNCHANGED, NEW = TAMPERING = ("leaves its inputs alone", "returns new memory")
"""The properties of a function that treats its inputs well."""


def is_array(x: Any) -> bool:
    """Return whether ``x`` is a NumPy array or a torch tensor."""
    return isinstance(x, np.ndarray) or is_tensor(x)


def is_tensor(x: Any) -> bool:
    """Return whether ``x`` is a torch tensor, without importing torch."""
    return type(x).__module__.startswith("torch") and hasattr(x, "data_ptr")


def each_array(change: Callable[[Any], Any], x: Any) -> Any:
    """Return ``x``, in which ``change`` has been made to every array and tensor."""
    if is_array(x):
        return change(x)
    if isinstance(x, dict):
        return {key: each_array(change, value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return type(x)(each_array(change, value) for value in x)
    return x


def copy_inputs(x: Any) -> Any:
    """Return a deep copy of arrays, tensors (strides kept) and containers of them."""
    return each_array(_copy, x)


def _copy(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return x.copy(order="K")
    # a tensor that is a strided view of a larger buffer stays one
    whole = x.untyped_storage().clone()
    return x.detach().new_empty(0).set_(whole, x.storage_offset(), x.size(), x.stride())


def find_tampering(given: Any, before: Any, result: Any) -> tuple[str, str] | None:
    """Return (property, sentence) if an input was modified or shares memory with the result."""
    for label, array, original in _arrays(given, before):
        if not _equal(array, original):
            says = f"changed its input {label}: work on a copy (x = x + y, not x += y)."
            return UNCHANGED, f"your function {says}"
        for one in result if isinstance(result, tuple | list) else [result]:
            if is_array(one) and _shares_memory(one, array):
                says = f"shares its memory with the input {label}: return an array of its own."
                return NEW, f"the result {says}"
    return None


def _arrays(given: Any, before: Any, label: str = "") -> Any:
    if is_array(given):
        yield label or "argument", given, before
    elif isinstance(given, dict):
        for key in given:
            yield from _arrays(given[key], before[key], f"`{key}`")
    elif isinstance(given, list | tuple) and len(given) == len(before):
        for i, (one, original) in enumerate(zip(given, before, strict=True)):
            yield from _arrays(one, original, label or f"number {i + 1}")


def _equal(a: Any, b: Any) -> bool:
    if is_tensor(a):
        import torch

        return torch.equal(torch.nan_to_num(a), torch.nan_to_num(b.to(a.device)))
    return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


def _shares_memory(a: Any, b: Any) -> bool:
    if is_tensor(a) and is_tensor(b):
        mine: int = a.untyped_storage().data_ptr()
        return mine != 0 and mine == b.untyped_storage().data_ptr()
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.may_share_memory(a, b)
