"""Loads, stores and atomics of the interpreter on raw addresses, in NumPy.

The memory of this process is one array: element i of ``_memory(dtype)`` lies i elements above
``_LOWEST``. Reading it at many addresses is a gather, writing a scatter. Addresses that belong to
nobody end the process, as they do with Triton's own core; a ledger's guard band stops them before.

Arguments: ``ptrs`` are addresses, uint64; ``mask`` are bools; ``other``, ``value`` and the like are
arrays; all have the same number of elements, and lanes count in C order: where two lanes write to
one address, the later one stays. Raises ValueError where the numbers of elements differ.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

_LOWEST = 1 << 12  # the first page belongs to nobody; NumPy takes address 0 for no array at all
_HIGHEST = 1 << 56  # above every address that a system gives to a process


def load(ptrs: Any, mask: Any, other: Any, dtype: Any) -> np.ndarray:
    """Return what lies at each address, and ``other``'s bits where the mask is off."""
    dtype, addresses, lanes = np.dtype(dtype), *_flat(ptrs, mask)
    if lanes.all():
        return _gather(addresses, dtype).reshape(np.shape(ptrs))
    values = other.reshape(lanes.size).view(dtype).copy()
    values[lanes] = _gather(addresses[lanes], dtype)
    return values.reshape(np.shape(ptrs))


def store(ptrs: Any, value: Any, mask: Any) -> None:
    """Write each value, in as many bytes as it has, to its address where the mask is on."""
    addresses, lanes = _flat(ptrs, mask)
    values = value.reshape(lanes.size)
    if not lanes.all():
        addresses, values = addresses[lanes], values[lanes]
    _scatter(addresses, values)


def _flat(ptrs: np.ndarray, mask: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return addresses and mask in one dimension each."""
    addresses = np.asarray(ptrs, dtype=np.uint64).reshape(-1)
    return addresses, np.asarray(mask).astype(bool, copy=False).reshape(addresses.size)


def _gather(addresses: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return what lies at addresses, one dimension, as ``dtype``."""
    if _aligned(addresses, dtype.itemsize):
        return _memory(dtype)[_places(addresses, dtype.itemsize)]
    return _memory(np.dtype(np.uint8))[_bytes(addresses, dtype.itemsize)].view(dtype).reshape(-1)


def _scatter(addresses: np.ndarray, values: np.ndarray) -> None:
    """Write values to addresses, both of one dimension: NumPy does it in order."""
    if _aligned(addresses, values.itemsize):
        _memory(values.dtype)[_places(addresses, values.itemsize)] = values
    else:
        parts = np.ascontiguousarray(values).view(np.uint8)
        _memory(parts.dtype)[_bytes(addresses, values.itemsize).reshape(-1)] = parts


def _aligned(addresses: np.ndarray, itemsize: int) -> bool:
    return itemsize == 1 or not np.bitwise_or.reduce(addresses) & (itemsize - 1)


def _places(addresses: np.ndarray, itemsize: int) -> np.ndarray:
    """Return where addresses are in `_memory`; itemsize is a power of two."""
    shift = np.uint64(itemsize.bit_length() - 1)
    return ((addresses - np.uint64(_LOWEST)) >> shift).view(np.int64)


def _bytes(addresses: np.ndarray, itemsize: int) -> np.ndarray:
    """Return (number of addresses, itemsize): where each byte is in `_memory` of bytes."""
    return _places(addresses, 1)[:, None] + np.arange(itemsize)


class _Everything:
    """All of a process's memory, told to NumPy by address: nothing is read or copied."""

    def __init__(self, dtype: np.dtype) -> None:
        length = (_HIGHEST - _LOWEST) // dtype.itemsize
        self.__array_interface__ = {
            "data": (_LOWEST, False),  # False: it may be written to
            "shape": (length,),
            "typestr": dtype.str,
            "version": 3,
        }


@cache
def _memory(dtype: np.dtype) -> np.ndarray:
    return np.asarray(_Everything(dtype))


# Atomics ---------------------------------------------------------------------------------------
#
# Lanes of one tile may share an address, and each gets what the lane before it left there. So
# lanes are put in groups, one an address, each in the order of the lanes; a group is a row of a
# table, and ufunc.accumulate goes along the rows.

_INTEGERS = {np.dtype(name) for name in ("int32", "uint32", "int64", "uint64")}
_SIGNED = {dtype for dtype in _INTEGERS if dtype.kind == "i"}
_FLOATS = {np.dtype(name) for name in ("float16", "float32", "float64")}
_RMW: dict[str, tuple[np.ufunc | None, set[np.dtype]]] = {
    "ADD": (np.add, _INTEGERS),
    "FADD": (np.add, _FLOATS),
    "AND": (np.bitwise_and, _INTEGERS),
    "OR": (np.bitwise_or, _INTEGERS),
    "XOR": (np.bitwise_xor, _INTEGERS),
    "XCHG": (None, _INTEGERS),
    "MAX": (np.maximum, _SIGNED),
    "MIN": (np.minimum, _SIGNED),
    "UMAX": (np.maximum, _INTEGERS - _SIGNED),
    "UMIN": (np.minimum, _INTEGERS - _SIGNED),
}  # as in Triton's core, which refuses other types: Triton hands floats over as their bits


def atomic_rmw(op: Any, ptrs: Any, value: Any, mask: Any, sem: Any) -> np.ndarray:
    """Combine each value with what lies at its address; return what lay there before.

    Lanes that the mask leaves out get 0 (in Triton's core: anything).

    Raises:
        ValueError: for a type that Triton's core refuses for this operation.
        OverflowError: where a sum of float16 leaves its range, as Triton's core does.
    """
    combine, dtypes = _RMW[op.name]
    if value.dtype not in dtypes:
        raise ValueError("Unsupported data type")
    addresses, lanes = _flat(ptrs, mask)
    found = np.zeros(lanes.size, value.dtype)
    found[lanes] = _one_by_one(addresses[lanes], value.reshape(lanes.size)[lanes], combine)
    return found.reshape(np.shape(ptrs))


def _one_by_one(addresses: np.ndarray, values: np.ndarray, combine: np.ufunc | None) -> np.ndarray:
    """Combine in the order of the lanes, return what each lane found; None: exchange."""
    found = np.empty_like(values)
    for lanes in _rows(addresses):
        table = np.zeros((lanes.shape[0], lanes.shape[1] + 1), values.dtype)
        table[:, 0] = _gather(addresses[lanes[:, 0]], values.dtype)
        table[:, 1:] = values[lanes]
        if combine is not None:
            table = _accumulated(combine, table)
        found[lanes] = table[:, :-1]
        _scatter(addresses[lanes[:, 0]], table[:, -1])
    return found


def _accumulated(combine: np.ufunc, table: np.ndarray) -> np.ndarray:
    try:
        with np.errstate(over="raise" if table.dtype == np.float16 else "ignore", invalid="ignore"):
            return combine.accumulate(table, axis=1, dtype=table.dtype)
    except FloatingPointError:
        raise OverflowError("overflow to signed inf") from None


def _rows(addresses: np.ndarray) -> list[np.ndarray]:
    """Return tables of lanes, (addresses, lanes of each): one for each number of lanes."""
    order = np.argsort(addresses, kind="stable")
    _, first, counts = np.unique(addresses[order], return_index=True, return_counts=True)
    return [
        order[first[counts == count][:, None] + np.arange(count)] for count in np.unique(counts)
    ]


def atomic_cas(ptrs: Any, cmp: Any, value: Any, sem: Any) -> np.ndarray:
    """Write each value where the bits at its address are those of ``cmp``; return what lay there.

    Lanes that share an address take turns: as many rounds as the most of them.
    """
    addresses = np.asarray(ptrs, dtype=np.uint64).reshape(-1)
    bits = np.dtype(f"u{cmp.dtype.itemsize}")
    expected = cmp.reshape(addresses.size).view(bits)
    values = value.reshape(addresses.size).view(bits)
    found = np.empty_like(expected)
    for lanes in (turn for table in _rows(addresses) for turn in table.T):
        found[lanes] = _gather(addresses[lanes], bits)
        same = lanes[found[lanes] == expected[lanes]]
        _scatter(addresses[same], values[same])
    return found.view(cmp.dtype).reshape(np.shape(ptrs))
