"""Exercise 9.6: forward and backward as one ``torch.autograd.Function``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging import sizes
from course_lib.judging.attention_judge import attention_judge, attention_truth, eager_output
from course_lib.judging.both_ways import there_and_back
from course_lib.judging.finding import Finding
from course_lib.judging.kernel_judge import (
    formal_fault,
    in_turn,
    stored_whole,
    too_much_memory,
    was_launched,
)
from course_lib.judging.sized_launches import HEADS
from course_lib.judging.spec import FAR, HARD, Case, Exercise, Mistake, Observed
from course_lib.judging.tolerance import as_float64, same
from course_lib.judging.where import Where, seen_by
from course_lib.specs.lesson_09.forward import as_far_as_right, forward_mistakes
from course_lib.specs.lesson_09.gradients import (
    EVERY,
    Slip,
    allowed,
    exchanged,
    gradients,
    gradients_finding,
    in_one_kernel,
    mistakes_there_and_back,
)

_NAMES = ("`o`", "the gradient of `q`", "the gradient of `k`", "the gradient of `v`")


def _case(
    rng: Generator, *shape: Any, summed: bool = False, level: bool = False, loud: float = 1.0,
    **how: Any,
) -> Case:  # fmt: skip
    """Return a case of q, k, v and do, which is handed over when o is known.

    ``summed``: do is that of ``o.sum()``: one number, seen everywhere (all strides are 0); else it
    lies in memory as q does. ``loud``: it is so many times as large as usual.
    ``level``: do is 0, as in 9.4: of scores near -20000 o alone can be asked.
    """
    import torch

    case = draw.launch(rng, *shape, **{"causal": False} | how)
    q, _, v = case.args
    size = (*q.shape[:-1], v.shape[-1])
    do = torch.from_numpy(loud * (rng.standard_normal(size) + 0.3)).to(q.dtype)
    do = torch.empty_like(q).copy_(do)
    do = torch.ones((), dtype=q.dtype).expand(size) if summed else 0 * do if level else do
    return replace(case, args=(*case.args, do))


def _cases(rng: Generator) -> list[Case]:
    case = partial(_case, rng)
    return [
        case("64 queries and keys, d = 16", 64, 64, 16),
        # three tiles of keys: the first alone is another thing than all but the last
        case("causal, 70 queries, 170 keys: aligned at the end", 70, 170, 16, causal=True),
        case("2 x 2 heads, 40 queries, 70 keys", 40, 70, 16, heads=(2, 2)),
        case("o.sum(): dO is one number, and all its strides are 0", 48, 80, 32, summed=True),
        case("causal, 70 queries, 71 keys, d = 32, each tensor stored as (B, N, H, d)",
             70, 71, 32, heads=(1, 2), causal=True, strided=True),
        case("causal, 80 queries, 50 keys: the first 30 rows see nothing",
             80, 50, 32, causal=True),
        case("large scores (q and k times 4), gradients in the thousands",
             64, 33, 32, size=4, loud=3000.0),
        case("1 query, 2 keys, d = 16", 1, 2, 16),  # small: gone through for each input alone
        case("float16, causal, 100 queries and keys, d = 64, of o.sum()",
             100, 100, 64, heads=(1, 2), dtype="float16", causal=True, summed=True, compiled=True),
        # at 384 a byte for each weight is more than a few copies of the inputs
        case("causal, 384 queries and keys, d = 16: what is kept is counted",
             384, 384, 16, causal=True, counted=True),
        *(
            case(f"{'causal, ' if one['causal'] else ''}{one['n_q']} queries, {one['n_k']} keys, "
                 f"d = {one['d']}", one["n_q"], one["n_k"], one["d"], heads=one["heads"],
                 causal=one["causal"])
            for one in sizes.related(rng, 5, n_q=(1, 2, 63, 65), n_k=(1, 2, 64, 65, 129),
                                     d=(16, 32), heads=HEADS, causal=(True, False))
        ),
        case("scores near -150, 20 queries, 70 keys", 20, 70, 16, near=-150),
        case(draw.FINE_NAME, 16, 64, 16, fine=0.0, dtype="float16"),
        # two tiles of 64 keys and one key: the maximum jumps from each to the next
        replace(case(draw.hard_names(150)[0], 65, 129, 16, jump=150), shows=HARD - {FAR}),
        case(f"{draw.hard_names(150)[1]}, and dO = 0", 33, 65, 16, far=draw.FAR_BELOW, level=True),
        case(draw.ROOMY_NAME, 17, 33, 16, heads=(2, 2), strided="room"),
        case(draw.CREEP_NAME, 16, 192, 16, creep=draw.CREEP),
        case("causal, 5 queries, 1 key", 5, 1, 16, causal=True),
    ]  # fmt: skip


def _answer(
    slip: Slip,
    *,
    instead: str = "",
    only: slice = EVERY,
    another: bool = False,
    of_another: str = "",
) -> Callable[..., Any]:
    """Return o, dq, dk and dv with something wrong or nothing.

    ``instead`` of do the backward takes "o" or "ones"; or delta is that of "do alone" or of
    "o alone". ``only``: which of the gradients come from the kernel with the slip. ``another``:
    causal in the backward is that of another call, the contrary. ``of_another``: "lse" or "o" is
    that of the call in between.
    """

    def model(q: Any, k: Any, v: Any, do: Any, *, causal: bool = False) -> Any:
        o, lse = attention_truth(q, k, v, causal=causal)
        between = attention_truth(q, v, k, causal=not causal)  # as `there_and_back` makes it
        lse = between[1] if "lse" in of_another else lse
        kept = between[0] if "o" in of_another.split() else o
        do = {"o": o, "ones": np.ones_like(o)}.get(instead, as_float64(do))
        alone = {"do alone": do * do, "o alone": o * o}.get(instead, do * kept)
        saved = (q, k, v, do, lse, alone.sum(-1), Where.of(q, k, causal=causal != another))
        return (o, *in_one_kernel(slip, only, *saved))

    return model


_truth = _answer(Slip())


def _onward(q: Any, k: Any, v: Any, do: Any, *, causal: bool = False) -> Callable[..., Any]:
    """Return what makes a whole answer of o and lse: right gradients, if o is right."""
    where, right = Where.of(q, k, causal=causal), _truth(q, k, v, do, causal=causal)

    def whole(o: Any, lse: Any) -> Any:
        if not same(o, right[0]):
            return (o, *right[1:])
        return (o, *gradients(q, k, v, do, lse, (as_float64(do) * o).sum(-1), where))

    return whole


def _compared(case: Case, result: Any) -> Any:
    return as_far_as_right(result, _truth(*case.args, **case.kwargs), first=1)


_judge_o = stored_whole(attention_judge(with_lse=False, in_dtype=True))


def _judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
    import torch

    if observed.result is None:
        return Finding(
            "is an autograd.Function",
            "there is nothing to apply: Attention should be a class, class "
            "Attention(torch.autograd.Function), with forward and backward.",
        )
    q, k, v, do = case.args
    causal = bool(case.kwargs.get("causal"))
    o, lse = attention_truth(q, k, v, causal=causal)
    first = replace(observed, result=observed.result[0])
    if finding := _judge_o(case, first, (o, lse)):
        return finding
    if fault := formal_fault(observed.result[1:], expected[1:], q.dtype):
        return fault
    lse = torch.from_numpy(lse).float().to(q.device)
    delta = (do.float() * eager_output(case).float()).sum(-1)  # of o as it is stored
    seen = seen_by(q.shape[-2], k.shape[-2], causal=causal)
    limits = allowed(q, k, v, do, lse, delta, seen=seen, truths=expected[1:])
    return gradients_finding(observed.result[1:], expected[1:], limits, _NAMES[1:])


def keeps_little(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask that what waits for the backward beyond the inputs is linear in N."""
    if not case.counted or observed.ledger is None:
        return None
    q, k = case.args[:2]
    (*batch, n_q, d), n_k = q.shape, k.shape[-2]
    linear = math.prod(batch) * (n_q + n_k) * d * 4
    if (observed.allocated or 0) > 3 * linear:  # o, lse, and a copy of each input
        return Finding(
            "keeps a receipt, not the goods",
            f"the numbers are right, but {observed.allocated:,} bytes are still held when forward "
            f"has returned, beyond its inputs: o and lse are {_receipt(q):,}. The weights "
            f"({n_q} x {n_k}) can be made again from lse.",
            look="save q, k, v, o and lse, and nothing of n_q times n_k numbers.",
            numbers_right=True,
        )
    return too_much_memory(case, replace(observed, allocated=None))


def _receipt(q: Any) -> int:
    """Return the bytes of o and lse."""
    return int(q.numel() * q.element_size() + 4 * q.numel() // q.shape[-1])


_MISTAKES = Mistake.table(
    ("backward takes another call's causal",
     "between a forward and its backward others are called, with flags of their own: what is kept "
     "in a global or on the class is then theirs. Keep it in ctx.causal.",
     _answer(Slip(), another=True)),
    ("backward takes what another call kept",
     "between a forward and its backward others are called: what is kept in a global or on the "
     "class is then theirs. Keep o and lse by ctx.save_for_backward.",
     *(_answer(Slip(), of_another=kept) for kept in ("lse", "o", "o lse"))),
    ("dK and dV are exchanged",
     "backward returns one gradient for each input of forward, in their order: dq, dk, dv, and "
     "None for causal.",
     exchanged(_truth, "dK", "dV")),
    ("dQ and dK are exchanged",
     "backward returns one gradient for each input of forward, in their order.",
     exchanged(_truth, "dQ", "dK")),
    ("o is taken for do",
     "backward is given the gradient of the loss by o; o itself is only needed for delta.",
     _answer(Slip(), instead="o")),
    ("delta is not of do and o", "delta is the sum of do * o along a row.",
     *(_answer(Slip(), instead=x) for x in ("do alone", "o alone"))),
    ("do is not used",
     "backward is given the gradient of the loss by o, and every gradient is made of it.",
     _answer(Slip(), instead="ones")),
)  # fmt: skip

ATTENTION = Exercise.of(
    "9.6",
    cases=_cases,
    truth=_truth,
    judge=in_turn(stored_whole(_judge, *_NAMES), was_launched, keeps_little),
    kind="kernel",
    run=there_and_back,
    races=True,
    later=1,
    compared=_compared,
    mistakes=(*_MISTAKES, *mistakes_there_and_back(_answer), *forward_mistakes(_onward)),
)
