"""The inputs of a call: copied before it, and compared with their copies after it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

UNCHANGED, NEW = TAMPERING = ("leaves its inputs alone", "returns new memory")
"""The properties of a function that treats its inputs well."""
_PLAIN = (int, float, str, bytes, type(None))


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
        make = getattr(type(x), "_make", type(x))  # of a namedtuple
        return make(each_array(change, value) for value in x)
    return x


def copy_inputs(x: Any) -> Any:
    """Return a deep copy of arrays, tensors (strides kept) and containers of them."""
    return each_array(_copy, x)


def _copy(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return x.copy(order="K")
    x = x.detach().resolve_conj().resolve_neg()  # bits that a storage does not hold
    # a tensor that is a strided view of a larger buffer stays one
    whole = x.untyped_storage().clone()
    return x.new_empty(0).set_(whole, x.storage_offset(), x.size(), x.stride())


def holds_floats(x: Any) -> bool:
    """Return whether `write_otherwise` finds anything to write into."""
    return any(
        one.is_floating_point() if is_tensor(one) else one.dtype.kind == "f" for one in _inside(x)
    )


def write_otherwise(x: Any) -> None:
    """Write other floats into the memory of arrays and tensors: theirs backwards, plus 1."""
    for one in _inside(x):
        if is_tensor(one) and one.is_floating_point():
            one.copy_(one.flatten().flip(0).reshape(one.shape) + 1)
        elif not is_tensor(one) and one.dtype.kind == "f":
            one[...] = one.ravel()[::-1].reshape(one.shape) + 1


def write_back(x: Any, copy: Any) -> None:
    """Write into the memory of arrays and tensors what their copies hold."""
    for one, before in zip(_inside(x), _inside(copy), strict=True):
        one[...] = before


def find_tampering(given: Any, before: Any, result: Any) -> tuple[str, str] | None:
    """Return (property, sentence) if an input was modified or shares memory with the result.

    ``given`` names the inputs: by their place, 1, 2 and so on, or as keyword arguments.
    """
    for label, one, original in _named(given, before):
        if _differs(one, original):
            how = _how(one, original)
            says = f"changed its input {label}: put what you compute into a new one ({how})."
            return UNCHANGED, f"your function {says}"
        results = result if isinstance(result, tuple | list) else [result]
        arrays = [x for x in results if is_array(x)]  # of words there may be hundreds
        if arrays and any(_shares_memory(x, y) for y in _inside(one) for x in arrays):
            says = f"shares its memory with input {label}: return an array of its own."
            return NEW, f"the result {says}"
    return None


def find_reuse(result: Any, earlier: list[Any]) -> tuple[str, str] | None:
    """Return (property, sentence) if this call wrote into the answer before it, or uses its memory.

    ``earlier`` holds that answer and a copy of it, and those of the result from now on: while an
    answer is kept, nobody else can be given its memory.
    """
    before = {_memory(x) for x in _inside(earlier[:1])} - {0}
    same = {id(x) for x in _lists(result)} & {id(x) for x in _lists(earlier[:1])}
    changed = len(earlier) > 1 and _differs(*earlier)
    earlier[:] = [result]
    with contextlib.suppress(Exception):  # a result that cannot be copied
        earlier.append(copy_inputs(result))
    if any(_memory(x) in before for x in _inside(result)):  # a walk has thousands of them
        says = "shares its memory with your answer to the call before"
        return NEW, f"the result {says}: return an array of its own, a new one in every call."
    if same:
        says = "the result is the same list or dict as your answer to the call before"
        return NEW, f"{says}: whoever changes one changes both. Return a new one every time."
    if changed:
        return NEW, "this call changed your answer to the call before: return a new one every time."
    return None


def _how(now: Any, before: Any) -> str:
    """Return how to leave alone what has changed in an input: an array, or a list."""
    if isinstance(now, list | tuple) and len(now) == len(before):
        for one, was in zip(now, before, strict=True):
            if _differs(one, was):
                return _how(one, was)
    return "x = x + y, not x += y" if is_array(now) else "x = x[1:], not x.pop(0)"


def _named(given: Any, before: Any) -> Iterator[tuple[str, Any, Any]]:
    for key in given:
        yield f"`{key}`" if isinstance(key, str) else f"number {key}", given[key], before[key]


def _inside(x: Any) -> Iterator[Any]:
    """Yield the arrays and tensors in ``x``."""
    if is_array(x):
        yield x
    elif isinstance(x, dict | list | tuple):
        for one in x.values() if isinstance(x, dict) else x:
            yield from _inside(one)


def _lists(x: Any) -> Iterator[Any]:
    """Yield the lists and dicts in ``x`` that hold anything."""
    if isinstance(x, dict | list | tuple):
        if x and not isinstance(x, tuple):
            yield x
        for one in x.values() if isinstance(x, dict) else x:
            yield from _lists(one)


def _differs(now: Any, before: Any) -> bool:
    """Return whether an input has changed: an array, or what a list or a dict holds."""
    if isinstance(now, dict) and isinstance(before, dict):  # a copy of a defaultdict is a dict
        return [*now] != [*before] or any(_differs(now[key], before[key]) for key in now)
    if type(now) is not type(before):
        return True
    if is_array(now):
        return not _equal(now, before)
    if isinstance(now, list | tuple):
        return len(now) != len(before) or any(map(_differs, now, before))
    return isinstance(now, _PLAIN) and now is not before and now != before


def _equal(a: Any, b: Any) -> bool:
    if is_tensor(a):
        b = b.to(a.device)
        return a.shape == b.shape and bool(((a == b) | (a.isnan() & b.isnan())).all())
    return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


def _shares_memory(a: Any, b: Any) -> bool:
    if is_tensor(a) and is_tensor(b):
        mine: int = a.untyped_storage().data_ptr()
        return mine != 0 and mine == b.untyped_storage().data_ptr()
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.may_share_memory(a, b)


def _memory(x: Any) -> int:
    """Return where the memory begins that an array or a tensor lies in, 0 if it has none."""
    if is_tensor(x):
        return int(x.untyped_storage().data_ptr())
    while isinstance(x.base, np.ndarray):
        x = x.base
    return int(x.__array_interface__["data"][0]) if x.size else 0
