"""Faults that any answer can have, whatever the exercise: each gets a sentence of its own."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from course_lib.judging.spec import Finding


def is_array(x: Any) -> bool:
    """Return whether ``x`` is a NumPy array or a torch tensor."""
    return isinstance(x, np.ndarray) or is_tensor(x)


def is_tensor(x: Any) -> bool:
    """Return whether ``x`` is a torch tensor, without importing torch."""
    return type(x).__module__.startswith("torch") and hasattr(x, "data_ptr")


def find_fault(result: Any, expected: Any, name: str = "the result") -> Finding | None:
    """Return what is formally wrong with ``result``: None, generator, type, shape, dtype, device.

    ``expected`` is the truth, or for tensors an example with the right dtype and device.
    """
    if result is None:
        return Finding("returns a value", f"{name} is None: is a `return` missing?")
    if inspect.isgenerator(result):
        return Finding("returns a value", f"{name} is a generator (`yield`): return it whole.")
    if callable(result) and not callable(expected):
        return Finding("returns a value", f"{name} is a function: call it.")
    if isinstance(expected, tuple):
        return _tuple_fault(result, expected, name)
    if is_array(expected):
        return _array_fault(result, expected, name)
    return None


def _tuple_fault(result: Any, expected: tuple[Any, ...], name: str) -> Finding | None:
    if not isinstance(result, tuple | list):
        return Finding("returns a tuple", f"{name} should be {len(expected)} values: return a, b.")
    if len(result) != len(expected):
        return Finding(
            "returns a tuple", f"{name} should be {len(expected)} values; there are {len(result)}."
        )
    for i, (one, wanted) in enumerate(zip(result, expected, strict=True)):
        if fault := find_fault(one, wanted, f"value {i + 1} of {len(expected)}"):
            return fault
    return None


def _array_fault(result: Any, expected: Any, name: str) -> Finding | None:
    if is_tensor(expected):
        import torch

        if type(result) not in (torch.Tensor, torch.nn.Parameter):
            return Finding("the type", f"{name} should be a torch.Tensor, not {_kind(result)}.")
        if result.device != expected.device:
            return Finding("the device", f"{name} is on {result.device}, not {expected.device}.")
        if result.dtype != expected.dtype:
            return Finding("the dtype", f"{name} has dtype {result.dtype}, not {expected.dtype}.")
    elif fault := _not_numbers(result, name):
        return fault
    try:
        shape = tuple(result.shape) if hasattr(result, "shape") else np.shape(result)
    except ValueError:
        return Finding("the shape", f"{name} is a ragged list, not one array.")
    if shape != tuple(expected.shape):
        return Finding("the shape", f"{name} has shape {shape}, not {tuple(expected.shape)}.")
    return None


def _not_numbers(result: Any, name: str) -> Finding | None:
    """Return a finding unless ``result`` is an array, a tensor or a nest of plain numbers."""
    if is_tensor(result):
        return None
    if not isinstance(result, np.ndarray | np.generic | list | tuple | int | float):
        return Finding("the type", f"{name} should be an array, not {_kind(result)}.")
    if getattr(result, "dtype", None) is not None and result.dtype.kind not in "fiub":
        return Finding("the dtype", f"{name} has dtype {result.dtype}, not numbers.")
    try:
        np.asarray(result, dtype=np.float64)
    except (TypeError, ValueError):
        return Finding("the type", f"{name} should be one array of numbers.")
    return None


def copy_inputs(x: Any) -> Any:
    """Return a deep copy of arrays, tensors (strides kept) and containers of them."""
    if isinstance(x, np.ndarray):
        return x.copy(order="K")
    if is_tensor(x):
        # a tensor that is a strided view of a larger buffer stays one
        base = (
            x.detach()
            .new_empty(0)
            .set_(x.untyped_storage().clone(), x.storage_offset(), x.size(), x.stride())
        )
        return base
    if isinstance(x, dict):
        return {key: copy_inputs(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return type(x)(copy_inputs(value) for value in x)
    return x


def find_tampering(given: Any, before: Any, result: Any) -> Finding | None:
    """Return a finding if an input was modified or the result shares memory with an input."""
    for label, array, original in _arrays(given, before):
        if not _equal(array, original):
            return Finding(
                "leaves its inputs alone",
                f"your function changed its input {label}: work on a copy (x = x + y, not x += y).",
            )
        for one in result if isinstance(result, tuple | list) else [result]:
            if is_array(one) and _shares_memory(one, array):
                return Finding(
                    "returns new memory",
                    f"the result shares its memory with the input {label}: "
                    "return an array of its own.",
                )
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
        mine = a.untyped_storage().data_ptr()
        return mine != 0 and mine == b.untyped_storage().data_ptr()
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.may_share_memory(a, b)


def _kind(x: Any) -> str:
    return f"{'an' if type(x).__name__[0] in 'aeiou' else 'a'} {type(x).__name__}"
