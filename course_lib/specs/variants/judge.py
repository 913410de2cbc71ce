"""The judge of a variant: the numbers, a kernel that ran, and the bytes of the tiles it visits."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from course_lib.judging.attention_judge import attention_judge
from course_lib.judging.judges import Judge
from course_lib.judging.kernel_judge import in_turn, linear_memory, stored_whole, was_launched
from course_lib.judging.least import Least, copies_nothing, counted
from course_lib.judging.spec import Case
from course_lib.judging.tolerance import as_float64
from course_lib.specs.variants.rule import visited
from course_lib.specs.variants.variant import Variant

LOADS = "skips what nobody sees"


def judge(variant: Variant) -> Judge:
    """Return the judge of ``variant``."""
    numbers = attention_judge(with_lse=True, in_dtype=True, eager=partial(_eager, variant))
    return in_turn(
        stored_whole(numbers),
        was_launched,
        copies_nothing,
        linear_memory,
        counted(partial(least, variant)),
    )


def _eager(variant: Variant, case: Case) -> Any:
    """Return o of eager PyTorch, which may be wrong twice over: weights and o in q's dtype.

    The scores are float32, as in the judge's yardstick of plain attention.
    """
    import torch

    q, k, v, *sinks = (x.cpu() for x in case.args)
    group, causal = q.shape[1] // k.shape[1], bool(case.kwargs.get("causal"))
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    plain = q.float() @ k.float().mT * q.shape[-1] ** -0.5  # as tl.dot makes them
    o = torch.empty_like(q)
    for at in np.ndindex(*q.shape[:2]):
        changed = variant.rule.change(as_float64(plain[at]), (at[1], q.shape[1]), causal)
        s = torch.from_numpy(changed).float()
        if sinks:
            s = torch.cat([s, sinks[0][at[1]].float().expand(len(s), -1)], 1)
        weights = torch.nan_to_num(torch.softmax(s, -1)).to(q.dtype)
        o[at] = weights[:, : k.shape[2]] @ v[at]
    return o


def least(variant: Variant, case: Case) -> Least:
    """Return the least of a case; a loop may begin at the very first key that is seen."""
    q, k = case.args[:2]
    n_q, n_k, d = q.shape[-2], k.shape[-2], q.shape[-1]
    block_q, block_k = case.kwargs["block_q"], case.kwargs["block_k"]
    tiles = visited(variant.rule, n_q, n_k, block_q, block_k, bool(case.kwargs.get("causal")))
    heads, rows, keys = math.prod(q.shape[:-2]), tiles.shape[0] * block_q, tiles.sum() * block_k
    if case.counted:
        heights = np.minimum(block_k, n_k - block_k * np.arange(tiles.shape[1]))
        rows, keys = n_q, (tiles * heights).sum()
    loads = {"q": heads * rows * d, "k": heads * int(keys) * d, "v": heads * int(keys) * d}
    if variant.n_sinks:
        loads["sinks"] = heads * variant.n_sinks * len(tiles)
    return Least(
        rule=f"of {tiles.size} tiles of scores {int(tiles.sum())} hold a pair that is seen; k and "
        "v are loaded once for each of those, q once, and o and lse are stored once",
        loads=loads,
        stores=heads * rows * (d + 1),
        properties=dict.fromkeys("kv", LOADS),
        dotted=(f"block_k={block_k}", block_k),
    )
