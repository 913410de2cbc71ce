"""The judge of a variant: the numbers, a kernel that ran, and the bytes of the tiles it visits."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from course_lib.judging.attention_judge import attention_judge
from course_lib.judging.finding import Finding
from course_lib.judging.judges import Judge
from course_lib.judging.kernel_judge import in_turn, stored_whole, too_much_memory, was_launched
from course_lib.judging.spec import Case, Observed
from course_lib.judging.tolerance import as_float64
from course_lib.specs.variants.rule import visited
from course_lib.specs.variants.variant import Variant

LOADS = "skips what nobody sees"


def judge(variant: Variant) -> Judge:
    """Return the judge of ``variant``."""
    numbers = attention_judge(with_lse=True, in_dtype=True, eager=partial(_eager, variant))
    return in_turn(stored_whole(numbers), was_launched, partial(_traffic, variant))


def _eager(variant: Variant, case: Case) -> Any:
    """Return o as eager PyTorch gives it in the inputs' own dtype: what may be wrong twice over."""
    import torch

    q, k, v, *sinks = (x.cpu() for x in case.args)
    group, causal = q.shape[1] // k.shape[1], bool(case.kwargs.get("causal"))
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    plain = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    o = torch.empty_like(q)
    for at in np.ndindex(*q.shape[:2]):
        changed = variant.rule.change(as_float64(plain[at]), (at[1], q.shape[1]), causal)
        s = torch.from_numpy(changed).to(q.dtype)
        if sinks:
            s = torch.cat([s, sinks[0][at[1]].to(q.dtype).expand(len(s), -1)], 1)
        weights = torch.nan_to_num(torch.softmax(s, -1))
        o[at] = weights[:, : k.shape[2]] @ v[at]
    return o


def _traffic(variant: Variant, case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask of a counted case: no more loads than the visited tiles need, o and lse stored once."""
    if not case.counted or observed.ledger is None:
        return None
    return _bytes(variant, case, observed.ledger) or too_much_memory(case, observed)


def _bytes(variant: Variant, case: Case, ledger: Any) -> Finding | None:
    tiles, read, written = wanted(variant, case)
    loads, stores = sum(ledger.read.values()), sum(ledger.written.values())
    if loads > read:  # fewer is possible: a loop may begin at the very first key that is seen
        return Finding(
            LOADS,
            f"the numbers are right, but your kernel loads {loads:,} bytes where {read:,} are "
            f"enough: of {tiles.size} tiles of scores only {int(tiles.sum())} hold a pair that is "
            "seen, and K and V are loaded once for each of those, Q once.",
        )
    if stores != written:
        return Finding(
            "moves only what it must",
            f"the numbers are right, but your kernel stores {stores:,} bytes: o and lse, each "
            f"once, are {written:,}.",
        )
    return None


def wanted(variant: Variant, case: Case) -> tuple[np.ndarray, int, int]:
    """Return the visited tiles of one head (bool, T_q x T_k), bytes to load, bytes to store."""
    q, k = case.args[:2]
    n_q, n_k, d, size = q.shape[-2], k.shape[-2], q.shape[-1], q.element_size()
    block_q, block_k = case.kwargs["block_q"], case.kwargs["block_k"]
    causal = bool(case.kwargs.get("causal"))
    tiles = visited(variant.rule, n_q, n_k, block_q, block_k, causal)
    heights = np.minimum(block_k, n_k - block_k * np.arange(tiles.shape[1]))
    heads = math.prod(q.shape[:-2])
    read = (n_q + 2 * int((tiles * heights).sum())) * d * size + 4 * variant.n_sinks * len(tiles)
    return tiles, heads * read, heads * n_q * (d * size + 4)
