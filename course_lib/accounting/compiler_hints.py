"""What a kernel promises the compiler, held to it: `tl.multiple_of`, `tl.assume` and the like.

The interpreter does not look at most of them, and on a GPU a promise that is not kept makes wrong
addresses of right ones. Names that are private to Triton are used where they are there.
Import this module in interpreter mode only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from triton.runtime import interpreter

PROMISED = "is a promise to the compiler, and here it is not kept"
_CALLED = {
    "tt.divisibility": "multiple_of",
    "tt.contiguity": "max_contiguous",
    "tt.constancy": "max_constancy",
}


@contextmanager
def held_to_promises() -> Iterator[None]:
    """Raise AssertionError in the block where a kernel promises what is not so."""
    handle, builder = interpreter.TensorHandle, interpreter.InterpreterBuilder
    set_attr: Any = getattr(handle, "set_attr", None)
    assume: Any = getattr(builder, "create_assume", None)

    def set_attr_too(self: Any, key: str, values: Any) -> None:
        if key in _CALLED and not _is_so(key, self, list(values)):
            hint = f"tl.{_CALLED[key]}(x, {', '.join(map(str, values))})"
            shown = ", ".join(map(str, np.ravel(self.data)[:8]))
            raise AssertionError(f"{hint} {PROMISED}: x is {shown}{' ...' * (self.data.size > 8)}")
        set_attr(self, key, values)

    def create_assume(self: Any, condition: Any) -> Any:
        if not np.all(condition.data):
            raise AssertionError(f"tl.assume {PROMISED}")
        return assume(self, condition)

    if set_attr is not None:
        handle.set_attr = set_attr_too
    if assume is not None:
        builder.create_assume = create_assume
    try:
        yield
    finally:
        if set_attr is not None:
            handle.set_attr = set_attr
        if assume is not None:
            builder.create_assume = assume


def _is_so(key: str, x: Any, values: list[Any]) -> bool:
    """Whether a hint is true, as the compiler reads it, along each axis.

    max_contiguous(x, n): each n neighbours follow each other, or begin again at 0 (the common
    ``max_contiguous(rows % n_rows, BLOCK)``, whose rows past the end nobody stores).
    max_constancy: are equal.
    multiple_of(x, n): n divides each number that does not follow its neighbour. (Where memory
    lies differs between machines, so of addresses that is not asked.)
    """
    is_address, data = hasattr(x.dtype, "element_ty"), np.asarray(x.data)
    if data.dtype.kind not in "iu" or (is_address and key == "tt.divisibility"):
        return True
    step = max(1, x.get_element_ty().primitive_bitwidth // 8) if is_address else 1
    data = np.atleast_1d(data.astype(np.int64))
    for axis, n in enumerate(map(int, values)):
        lanes = np.moveaxis(data, axis, -1)
        apart = np.diff(lanes, axis=-1)
        if key == "tt.divisibility":
            begins = (lanes[..., :1], lanes[..., 1:][apart != step])
            kept = n == 0 or not any((first % n).any() for first in begins)
        else:
            within = np.arange(1, lanes.shape[-1]) % max(1, n) != 0
            fits = apart == (step if key == "tt.contiguity" else 0)
            if key == "tt.contiguity" and not is_address:
                fits |= (lanes[..., 1:] == 0) & (apart < 0)
            kept = bool(fits[..., within].all())
        if not kept:
            return False
    return True
