"""What exercises about a cache share: how exact an answer must be, and what its bytes were for.

Counted cases run under the eager ledger: the cache is an input, so that reading it, and writing
tensors as large as it, are in the books.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from course_lib.attention.slips import FILLS, LN_2
from course_lib.judging.cases import Triple
from course_lib.judging.finding import Finding
from course_lib.judging.judges import hidden_finding
from course_lib.judging.mask_mistakes import NOT_HIDDEN
from course_lib.judging.misconceptions import (
    BASES,
    NOT_THE_MAXIMUM,
    SAYS,
    weights_of_tiles,
)
from course_lib.judging.picture import Bar, TrafficBars
from course_lib.judging.spec import table
from course_lib.judging.tolerance import as_float64, score_rounding

Array = np.ndarray


def tensors(arrays: Iterable[Array]) -> Iterator[Any]:
    """Return arrays as tensors of their own, in one piece."""
    import torch

    return (torch.from_numpy(np.ascontiguousarray(x)) for x in arrays)


def heads_side_by_side(*tensors: Any) -> Iterator[Any]:
    """Return tensors (B, H, n, d) that lie in memory as (B, n, H, d)."""
    return (x.transpose(1, 2).contiguous().transpose(1, 2) for x in tensors)


def rows_as_heads(q: Array, k: Array, v: Array) -> Triple:
    """Return the rows of q (B, n_q, d) as heads (B, n_q, 1, d) that all have the same keys."""
    k, v = (np.repeat(x[:, None], q.shape[1], axis=1) for x in (k, v))
    return q[:, :, None], k, v


# what people write for the lse of no key, -inf; some of them in base 2
NOT_NONE = (0.0, *(unit * low for unit in (1.0, LN_2) for low in (-1e4, -1e5, -1e6, -1e9, -1e30)))


def allowed(truth: Array, q: Any, k: Any, v: Any) -> float:
    """Return what an answer (o; lse, if v is 1) may be off by, in q's dtype: float32 or float64."""
    finite = np.abs(truth[np.isfinite(truth)])
    biggest = max(1.0, float(finite.max(initial=0.0)))
    if q.element_size() == 8:
        return 1e-9 * biggest
    return 1e-5 * biggest + score_rounding(q, k, v)


_COPIES = (  # operators that move numbers: what they make of a cache is a copy
    *("cat", "clone", "_to_copy", "copy_", "repeat", "constant_pad_nd"),
    *("index", "index_select", "gather", "take"),
    *("where", "masked_fill"),
)


_PRODUCTS = {"mm", "bmm", "mv", "dot", "addmm", "baddbmm", "addmv"}


def _made_of_inputs(crossings: Iterable[Any]) -> Iterator[Any]:
    """Yield what operators wrote that read an input: copies of it, and it times a number.

    Products of matrices are left out: scores and sums over values are no copies, and of many small
    tiles of keys they are more than the cache.
    """
    op, reads, before = "", False, ""
    for crossing in crossings:
        if crossing.op != op or (before, crossing.direction) == ("written", "read"):
            op, reads = crossing.op, False
        before = crossing.direction
        if crossing.direction == "read":
            reads |= crossing.tensor == "input"
        elif reads and op not in _PRODUCTS and crossing.tensor != "input":
            yield crossing


def copy_finding(ledger: Any, one: int, most: int) -> Finding | None:
    """Return a finding if a cache of ``one`` bytes (K, or V) is copied, or ``most`` are written.

    Of new tensors that are made of inputs, that is: more than ``most`` in all, or half a cache by
    operators that copy. SDPA itself may multiply K by the scale, so arithmetic is held against
    ``most`` alone.
    """
    if hidden := hidden_finding(ledger):
        return hidden
    new = [*_made_of_inputs(ledger.crossings)]
    moved = [x for x in new if x.op in _COPIES]
    if sum(x.n_bytes for x in moved) <= one // 2:
        moved = []
    made = sum(x.n_bytes for x in new)
    if made <= most and not moved:
        return None
    largest = max(moved or new, key=lambda x: x.n_bytes)
    says = "the cache is copied" if moved else "that is as much as a copy of the cache"
    return Finding(
        "makes no copy of the cache",
        f"the numbers are right, but {made:,} bytes of new tensors are written, the largest by "
        f"`{largest.op}` ({largest.n_bytes:,} bytes): {says}, at each token.",
        look="slice it: a view costs nothing. Nothing that is repeated, concatenated, padded, "
        "converted, or picked by a mask or a list is a view, and each of these may be a `clone` "
        "inside. Who reads the same rows shares one product.",
    )


def read_finding(ledger: Any, cached: int, *places: int) -> Finding | None:
    """Return a finding if of K and V, of ``cached`` bytes, more is read than a quarter twice.

    ``places``: which of the tensors that the function is given they are. Others are small, and
    whoever goes over the keys in tiles reads q again for each.
    """
    read = sum(ledger.of_given[place] for place in places)
    if read <= 1.25 * cached:
        return None
    bars = TrafficBars("Read", (Bar("K and V", read, cached),))
    return Finding(
        "reads each cached byte once",
        f"the numbers are right, but {read:,} bytes of K and V are read, and they hold {cached:,}: "
        f"that is {read / cached:.1f} times as many, where 1.25 times are allowed. (What is read "
        "of q is not counted.)",
        look="one product reads K, one reads V. Whoever shares a cached row (the heads of a group, "
        "the drafts) is a row of one matrix.",
        picture=bars,
    )


def hidden_otherwise(answer: Callable[..., Any]) -> tuple[tuple[str, str, Any], ...]:
    """Return the mistakes about the score of what is hidden, which ``answer`` makes.

    ``fill``: that score, or what is ``added`` to it.
    """
    return table(
        ("what is hidden has score zero",
         "exp(0) = 1 is a weight: what is hidden needs the score -inf.", answer(fill=0.0)),
        (NOT_HIDDEN,
         "scores far below it exist: then what is hidden gets all the weight. Fill with -inf.",
         *(answer(fill=-fill, added=added) for added in (False, True) for _, fill in FILLS)),
    )  # fmt: skip


def of_the_scale(answer: Callable[[float], Any]) -> tuple[tuple[str, str, Any], ...]:
    """Return the mistakes about sqrt(d): ``answer(power)`` divides the scores by d ** power."""
    says = "divide the scores by sqrt(d)"
    return (
        ("the scale is missing", f"{says}.", answer(0)),
        ("scaled twice", f"{says}, once: not by d.", answer(1)),
        ("the scale is upside down", f"{says}: they are not multiplied by it.", answer(-0.5)),
    )


def of_the_softmax(dtype: type[np.floating[Any]]) -> tuple[tuple[str, str, Any], ...]:
    """Return the mistakes about weights of scores (..., n), which are made in ``dtype``."""

    def against(top: Callable[[Array], Any]) -> Callable[[Array], Array]:
        return lambda s: softmax(s, top, dtype)

    return table(
        ("not divided by the sum", "the weights do not add up to 1: divide by their sum.",
         lambda s: np.exp(s - s.max(axis=-1, keepdims=True))),
        ("no maximum is subtracted", SAYS["no maximum is subtracted"], against(lambda s: 0)),
        (NOT_THE_MAXIMUM, SAYS[NOT_THE_MAXIMUM],
         against(lambda s: s.min(axis=-1, keepdims=True)),
         against(lambda s: s.mean(axis=-1, keepdims=True)),
         against(lambda s: s[..., :1])),
        (BASES, SAYS[BASES], lambda s: softmax(np.log(2) * s)),
        ("a very negative maximum is replaced", SAYS["a very negative maximum is replaced"],
         against(lambda s: np.maximum(s.max(axis=-1, keepdims=True), 0))),
        *weights_of_tiles(dtype),
    )  # fmt: skip


def softmax(
    s: Array, top: Callable[[Array], Any] | None = None, dtype: type[np.floating[Any]] = np.float64
) -> Array:
    """Return the weights of rows (..., n); a row that is all -inf is NaN, as in PyTorch.

    ``top``: what is subtracted, (..., 1), in place of the largest score. ``dtype``: of the
    exponentials, which may be infinite there.
    """
    with np.errstate(all="ignore"):
        below = s - (top(s) if top else s.max(axis=-1, keepdims=True))
        e = np.exp(below.astype(dtype)).astype(np.float64)
        return np.asarray(e / e.sum(axis=-1, keepdims=True))


def scores(q: Any, k: Any, power: float = 0.5) -> Array:
    """Return q k^T / d ** power in float64."""
    product: Array = as_float64(q) @ as_float64(k).swapaxes(-1, -2) * q.shape[-1] ** -power
    return product
