"""Faults of form that any answer can have, whatever the exercise: each gets a sentence."""

from __future__ import annotations

import inspect
from numbers import Real
from typing import Any

import numpy as np

from course_lib.judging.finding import Finding
from course_lib.sandbox.inputs import is_array, is_tensor


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
    if not isinstance(result, tuple | list) and not _is_row(result):
        names = ", ".join("abcdefghij"[: len(expected)])
        says = f"{name} should be {len(expected)} values, not {_kind(result)}: return {names}."
        return Finding("returns a tuple", says)
    if len(result) != len(expected):
        return Finding(
            "returns a tuple", f"{name} should be {len(expected)} values; there are {len(result)}."
        )
    for i, (one, wanted) in enumerate(zip(result, expected, strict=True)):
        if fault := find_fault(one, wanted, f"value {i + 1} of {len(expected)}"):
            return fault
    return None


def _is_row(x: Any) -> bool:
    """Return whether this is an array that stands for several numbers."""
    return is_array(x) and len(x.shape) == 1


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
        wanted = tuple(expected.shape)
        says, look = f"{name} has shape {shape}, not {wanted}.", ""
        if sorted(shape) == sorted(wanted):
            look = "the sizes are right, in another order: which two axes are exchanged?"
        elif [n for n in shape if n != 1] == [n for n in wanted if n != 1]:
            look = (
                f"the entries are as many as they should be: .reshape({wanted}) gives that shape."
            )
        return Finding("the shape", says, look=look if hasattr(result, "reshape") else "")
    return None


def _not_numbers(result: Any, name: str) -> Finding | None:
    """Return a finding unless ``result`` is an array, a tensor or a nest of plain numbers."""
    if is_tensor(result):
        return None
    array, _, of = type(result).__name__.partition(" of ")
    if of and array == "ndarray":  # one that could not cross from the student's process
        return Finding("the dtype", f"{name} has dtype {of}, not numbers.")
    if not isinstance(result, np.ndarray | np.generic | list | tuple | Real):
        return Finding("the type", f"{name} should be an array, not {_kind(result)}.")
    dtype = getattr(result, "dtype", None)
    if dtype is not None and dtype.kind not in "fiub":
        return Finding("the dtype", f"{name} has dtype {dtype}, not numbers.")
    try:
        if np.asarray(result).dtype.kind in "SU":  # texts, which float would read
            raise ValueError
        np.asarray(result, dtype=np.float64)
    except (TypeError, ValueError):
        return Finding("the type", f"{name} should be one array of numbers.")
    return None


def _kind(x: Any) -> str:
    name = type(x).__name__.replace("ndarray", "array")
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
