"""Which tensors hold the same numbers: all of them, a part, scaled, padded, with some replaced.

Where numbers lie and in which shape does not matter: values are compared sorted.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np


def replaced_in(x: Any, written: Any) -> tuple[int, int]:
    """Return how many numbers of ``x`` are not those of ``written``, and how many of these NaN.

    None are, where one is larger: what lies beyond a result may be anything.
    """
    if x.numel() != written.numel():
        return 0, 0
    kinds, change = _changes(x, written)
    less = np.maximum(-change, 0)
    return int(less.sum()), int(less[np.isnan(kinds)].sum())


def is_cleared(x: Any, known: Any) -> bool:
    """Return whether ``x``, a part of ``known``, has a constant where others of its numbers were.

    (One that is as large or larger was padded if nothing is lost of it. Of a smaller one the rest
    may have been cut off; then the padding lies around what is left, and nowhere in it.)
    """
    kinds, change = _changes(x, known)
    if not (change > 0).any() or not (change < 0).any():
        return False
    if x.numel() >= known.numel():
        return True
    padding = kinds[change.argmax()]
    same = np.isnan if np.isnan(padding) else partial(np.equal, padding)
    rest = ~same(x.detach().double().numpy())
    return not is_box(rest)


def _changes(x: Any, known: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return each number of the two tensors, and how much oftener ``x`` has it than ``known``."""
    got, there = (y.detach().to(x.dtype).double().numpy().ravel() for y in (x, known))
    if np.array_equal(got, there, equal_nan=True):  # most often
        return got[:0], np.zeros(0, np.intp)
    kinds, place = np.unique(np.concatenate([there, got]), return_inverse=True)
    before, after = (
        np.bincount(one, minlength=kinds.size) for one in np.split(place, [there.size])
    )
    return kinds, after - before


def adds_up(total: Any, written: Any) -> bool:
    """Return whether a number is the sum of several: in any order, so rounding is allowed."""
    if written.numel() == 1:  # what was written is the number, to the last bit
        return False
    values = values_of(written)
    near = values.size * precision_of(total) * float(np.abs(values).sum())
    return bool(abs(float(values.sum()) - float(total)) <= near)


def bits_of(x: Any) -> np.ndarray:
    """Return the bit patterns of a tensor as integers, in its shape."""
    import torch

    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    bits: np.ndarray = x.detach().contiguous().view(kind).numpy()
    return bits


def values_of(x: Any) -> np.ndarray:
    """Return the finite values of a tensor, sorted, float64."""
    short = is_floating(x) and x.element_size() <= 4  # float32 is sorted in half the time
    values = (x.detach().float() if short else x.detach().double()).numpy().ravel()
    return np.sort(values[np.isfinite(values)]).astype(np.float64, copy=False)


def precision_of(x: Any) -> float:
    """Return two units in the last place, relative; of float32 for all that is finer."""
    return 2 * {"torch.float16": 2.0**-10, "torch.bfloat16": 2.0**-7}.get(str(x.dtype), 2.0**-23)


def plainest_kind(x: Any) -> Any:
    """Return the dtype of fewest bits that holds all numbers of ``x``, which may be converted back.

    What half precision has rounded was half precision, whatever it is now.
    """
    import torch

    if not is_floating(x):
        return x.dtype
    for kind in (torch.float16, torch.bfloat16) if x.element_size() > 2 else ():
        if torch.equal(x.to(kind).to(x.dtype).nan_to_num(), x.nan_to_num()):
            return kind
    return x.dtype


def is_part(values: np.ndarray, known: np.ndarray) -> bool:
    """Return whether ``values`` are among ``known``, each as often as there or whole copies.

    Both are sorted.

    One value may come more often: the padding, where there is more than one other. (A sum of all
    blocks but the last, and a last block of one number, are no padded input.)
    """
    if not values.size or not known.size:
        return not values.size
    if np.array_equal(values, known):  # most often
        return True
    few = values[:: -(-values.size // 8)]
    near = known[np.minimum(np.searchsorted(known, few), known.size - 1)]
    if np.unique(few[near != few]).size > 1:  # no padding is two values, and this is soon known
        return False
    (unique, counts), (at, there) = _counted(values), _counted(known)
    place = np.minimum(np.searchsorted(at, unique), at.size - 1)
    often = np.where(at[place] == unique, there[place], 0)
    copies = max(1, values.size // known.size)
    excess = counts > often * copies
    padded = excess.sum() == 1 and counts[excess].sum() + 1 < values.size
    return bool(padded or not excess.any())


def _counted(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each of some sorted numbers, and how often it is there (`np.unique` sorts them)."""
    first = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    return values[first], np.diff(first, append=values.size)


def is_scaled(values: np.ndarray, known: np.ndarray, precision: float) -> bool:
    """Return whether ``values`` are ``known`` times one number (q * scale, say)."""
    if values.size != known.size or not known.size:
        return False
    ratio = np.abs(values).max() / max(np.abs(known).max(), 1e-300)
    least = precision * 2.0**-14  # where float16 becomes coarse
    for scaled in (known * ratio, np.sort(-known * ratio)):
        if np.all(np.abs(values - scaled) <= precision * np.abs(scaled) + least):
            return True
    return False


def is_box(mask: np.ndarray) -> bool:
    """Return whether what is True fills a box, if there is any."""
    if mask.ndim == 0 or not mask.any():
        return True
    sides = [np.ptp(at) + 1 for at in np.nonzero(mask)]
    return int(np.count_nonzero(mask)) == math.prod(int(side) for side in sides)


def is_plain(bits: np.ndarray) -> bool:
    """Return whether these are constant, or one constant in a box and another around it."""
    if bits.size == 0:
        return True
    first = bits == bits.flat[0]
    rest = bits[~first]
    if not rest.size:
        return True
    return bool((rest == rest[0]).all()) and (is_box(first) or is_box(~first))


def is_floating(x: Any) -> bool:
    """Return whether this is a tensor of floating-point numbers."""
    return hasattr(x, "data_ptr") and x.dtype.is_floating_point
