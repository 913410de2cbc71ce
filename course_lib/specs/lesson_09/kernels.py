"""Exercises 9.4 and 9.5: one kernel for dK and dV, and one for dQ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging.attention_judge import attention_truth
from course_lib.judging.finding import Finding
from course_lib.judging.judges import Judge
from course_lib.judging.kernel_judge import (
    formal_fault,
    in_turn,
    linear_memory,
    stored_whole,
    was_launched,
)
from course_lib.judging.least import Least, counted
from course_lib.judging.spec import Case, Exercise, Mistake, Observed
from course_lib.judging.tolerance import as_float64
from course_lib.judging.where import Where, seen_by
from course_lib.specs.lesson_09.delta_and_dv import (
    drawn_gradient,
    loud_case,
    saved_cases,
    sizes,
    stands,
)
from course_lib.specs.lesson_09.gradients import (
    FOR_K,
    FOR_Q,
    FOR_V,
    OF_BOTH_SCALES,
    OF_DS,
    OF_SCALE,
    SCALED_V,
    Slip,
    allowed,
    exchanged,
    gradients,
    gradients_finding,
    mistakes_of,
    past_the_end,
)
from course_lib.specs.lesson_09.weights import KEYS_OUTSIDE, QUERIES_OUTSIDE

_INPUTS = ("q", "k", "v", "do", "lse", "delta")


def _case(rng: Generator, *shape: Any, level: bool = False, **how: Any) -> Case:
    """Return a case of q, k, v, do, lse, delta: what the forward pass saved, and a gradient.

    ``level``: do is 0, and so are dq, dk and dv, wherever P is finite. (Near -20000, where lse is
    off by 1e-3 in float32 and every weight by as much, nothing else can be asked.)
    """
    import torch

    loud = how.pop("loud", 1.0)
    case = draw.launch(rng, *shape, **how)
    o, lse = attention_truth(*case.args, **case.kwargs)
    dtype = case.args[0].dtype
    do = (loud * drawn_gradient(rng, o.shape, **how)).to(dtype)
    do = torch.empty_like(case.args[0]).copy_(0 * do if level else do)  # in memory as q is
    delta = torch.from_numpy((as_float64(do) * o).sum(-1)).float()
    return replace(case, args=(*case.args, do, torch.from_numpy(lse).float(), delta))


def _cases(rng: Generator, *, walks: str) -> list[Case]:
    case = partial(_case, rng)
    of_dq = "float16, " if walks == "keys" else ""
    # where scores are far apart, exp(S - lse) of another lse than that of S is infinite
    apart: dict[str, Any] = {"together": frozenset(map(_INPUTS.index, ("q", "k", "lse")))}
    return [
        *saved_cases(rng, case, walks=walks),
        # what is past the end scores 0, so that exp(S - lse) is infinite there; and who makes
        # it finite has a dS that float16 does not hold, which dQ alone is made of
        case(f"{of_dq}scores near -150, short last tiles",
             20, 48, 16, near=-150, dtype="float16" if of_dq else "float32", tiles=(16, 32),
             **apart),
        case(draw.FINE_NAME, 16, 64, 16, fine=64.0, tile=1,
             dtype="float16", tiles=(16, 16), **apart),
        case(draw.hard_names(150)[0], 33, 65, 16, jump=150, tiles=(32, 16), **apart),
        case(draw.ROOMY_NAME, 17, 33, 16, heads=(2, 2), tiles=(16, 32), strided="room"),
        *(
            case(f"{prefix}{draw.hard_names(150)[1]}, and dO = 0", 33, 65, 16, far=draw.FAR_BELOW,
                 tiles=(32, 16), causal=bool(prefix), level=True, blind_to=frozenset({"zeros"}),
                 **apart)
            for prefix in ("", "causal, ")
        ),
        loud_case(case),
    ]  # fmt: skip


def _of_kernel(slip: Slip, *, which: slice) -> Callable[..., Any]:
    """Return dk and dv, or dq alone, with something wrong or nothing."""

    def model(
        q: Any, k: Any, v: Any, do: Any, lse: Any, delta: Any, *, causal: bool = False,
        block_q: int = 64, block_k: int = 64,
    ) -> Any:  # fmt: skip
        where = Where.of(q, k, causal=causal, block_q=block_q, block_k=block_k)
        found = gradients(q, k, v, do, lse, delta, where, slip=slip)[which]
        return found if len(found) > 1 else found[0]

    return model


def _judge(*names: str, places: slice) -> Judge:
    """Judge dk and dv, or dq alone."""

    def judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
        q, k = case.args[:2]
        truths = list(expected) if isinstance(expected, tuple) else [expected]
        if fault := formal_fault(observed.result, expected, q.dtype):
            return fault
        got = list(observed.result) if isinstance(expected, tuple) else [observed.result]
        causal = bool(case.kwargs.get("causal"))
        every = _of_kernel(Slip(), which=slice(None))(*case.args, causal=causal)
        seen = seen_by(q.shape[-2], k.shape[-2], causal=causal)
        limits = allowed(*case.args, seen=seen, truths=every)[places]
        return gradients_finding(got, truths, limits, names)

    return stored_whole(judge, *names)


_OF_KEYS_RULE = (
    "k and v once; q, do, lse and delta once for each tile of keys that they see; dk and dv stored "
    "once"
)
_OF_QUERIES_RULE = (
    "q, do, lse and delta once; k and v once for each tile of queries that sees a key of theirs; "
    "dq stored once"
)


def _least(case: Case, *, of_keys: bool) -> Least:
    """Return what dK and dV cost at least (``of_keys``), or dQ: one side once, one tile by tile."""
    heads, d, counts, b_q, b_k = sizes(case)
    rows = heads * counts["visited_q_rows" if of_keys else "n_q"]
    keys = heads * counts["n_k" if of_keys else "visited_k_rows"]
    loads = {"q": rows * d, "k": keys * d, "v": keys * d, "do": rows * d, "lse": rows}
    again = ("q", "do", "lse", "delta") if of_keys else ("k", "v")
    return Least(
        rule=_OF_KEYS_RULE if of_keys else _OF_QUERIES_RULE,
        loads=loads | {"delta": rows},
        stores=2 * keys * d if of_keys else rows * d,
        tiles={"k": (f"block_k={b_k}", b_k * d), "q": (f"block_q={b_q}", b_q * d)},
        flops=(8 if of_keys else 6) * heads * counts["visited_tiles"] * b_q * b_k * d,
        properties=dict.fromkeys(again, "skips tiles that see nothing"),
        share=("a tile of keys", 2 * b_k * d) if of_keys else ("a tile of queries", b_q * d),
    )


def _last_queries(x: np.ndarray, where: Where) -> np.ndarray:
    """Return ``x`` (..., n_q, n_k) in the last tile of queries, 0 above it."""
    return np.where(where.row >= where.first_row[-1], x, 0.0)


_DQ = _of_kernel(Slip(), which=slice(1))
_ONLY = "the tile is overwritten in each step: add to it."
_OF_KEYS = mistakes_of(
    partial(_of_kernel, which=slice(1, 3)),
    *OF_DS,
    *OF_SCALE,
    *OF_BOTH_SCALES,
    FOR_K,
    FOR_V,
    SCALED_V,
    ("only the last tile of queries counts in dK", _ONLY,
     Slip(for_k=lambda p, ds, where: _last_queries(ds, where))),
    ("only the last tile of queries counts in dV", _ONLY,
     Slip(for_v=lambda p, ds, where: _last_queries(p, where))),
    loops=KEYS_OUTSIDE,
)  # fmt: skip
_KEYS = _of_kernel(Slip(), which=slice(1, 3))


def _of_rows_past_the_end(
    q: Any, k: Any, v: Any, *saved: Any, block_q: int = 64, **how: Any
) -> Any:
    """Return NaN wherever the last tile of queries is short: exp(s + inf) times what is 0 there."""
    found = _KEYS(q, k, v, *saved, block_q=block_q, **how)
    return tuple(x * np.nan for x in found) if q.shape[-2] % block_q else found


def _in_one(which: int, *args: Any, **how: Any) -> Any:
    """Return dk (0) or dv (1) twice: what was stored last, where both have the same memory."""
    last = _KEYS(*args, **how)[which]
    return last, last


DK_AND_DV = Exercise.of(
    "9.4",
    cases=partial(_cases, walks="queries"),
    truth=_KEYS,
    judge=in_turn(
        _judge("`dk`", "`dv`", places=slice(1, 3)),
        was_launched,
        linear_memory,
        counted(partial(_least, of_keys=True)),
        partial(stands, keys_first=True),
    ),
    kind="kernel",
    mistakes=(
        *_OF_KEYS,
        *Mistake.table(
            ("dK and dV are exchanged", "return dk, dv, in this order.",
             exchanged(_KEYS, "dK", "dV")),
            ("the lse of rows past the end is -inf",
             "in the last, short tile of queries P is then exp(s + inf), infinite, and times what "
             "is 0 there it is NaN: load lse with other=inf, or set these weights to 0.",
             _of_rows_past_the_end),
            ("dK and dV are one tensor",
             "Both results are the same numbers, of which what was stored last is left: give each "
             "a tensor of its own.",
             partial(_in_one, 1), partial(_in_one, 0)),
        ),
    ),
)  # fmt: skip
DQ = Exercise.of(
    "9.5",
    cases=partial(_cases, walks="keys"),
    truth=_DQ,
    judge=in_turn(
        _judge("`dq`", places=slice(1)),
        was_launched,
        linear_memory,
        counted(partial(_least, of_keys=False)),
        partial(stands, keys_first=False),
    ),
    kind="kernel",
    mistakes=(
        *past_the_end(partial(_of_kernel, which=slice(1))),
        *mistakes_of(
            partial(_of_kernel, which=slice(1)),
            *OF_DS,
            *OF_SCALE,
            *OF_BOTH_SCALES,
            FOR_Q,
            loops=QUERIES_OUTSIDE,
        ),
    ),
)
