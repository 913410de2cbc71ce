"""Exercise 9★: dropout whose mask is never stored, but drawn again from a counter.

Longer than 400 lines because random numbers are judged by their statistics: one a mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging.attention_judge import attention_truth, lse_rounding
from course_lib.judging.both_ways import with_probes
from course_lib.judging.finding import Finding
from course_lib.judging.judges import array_finding
from course_lib.judging.kernel_judge import formal_fault, in_turn, stored_whole, was_launched
from course_lib.judging.spec import FAR, HARD, Case, Exercise, Observed
from course_lib.judging.tolerance import allowed_error, as_float64, score_rounding
from course_lib.judging.where import Where
from course_lib.sandbox.inputs import is_tensor
from course_lib.specs.lesson_09 import dropped
from course_lib.specs.lesson_09.dropped import Mask
from course_lib.specs.lesson_09.forward import as_far_as_right, forward_mistakes
from course_lib.specs.lesson_09.function import keeps_little
from course_lib.specs.lesson_09.gradients import (
    EVERY,
    Slip,
    allowed,
    gradients,
    gradients_finding,
    in_one_kernel,
    mistakes_there_and_back,
)
from course_lib.specs.lesson_09.weights import right, scaled_scores

_NAMES = ("`o`", "`lse`", "the gradient of `q`", "the gradient of `k`", "the gradient of `v`")
_AXES = ("batch", "head", "row", "column")


def _case(
    rng: Generator, rate: float, *shape: Any, causal: bool, eyes: bool, level: bool = False,
    groups: tuple[int, ...] = (), turn: int = 0, seed: int | None = None, **how: Any,
) -> Case:  # fmt: skip
    """Return a case of q, k, v; do and ``eyes``, the columns of an identity, come later.

    ``level``: do is 0, as in 9.4. ``groups``: they show the keys from these on only, as many of
    each. ``turn``, 0 to 3: how far away the other seed is, see `another_seed`.
    """
    import torch

    case = draw.launch(rng, *shape, causal=causal, **how)
    q, _, v = case.args
    n_k, d = v.shape[-2:]
    do = torch.from_numpy(rng.standard_normal((*q.shape[:-1], d)) + 0.3).to(q.dtype)
    do = torch.empty_like(q).copy_(0 * do if level else do)  # it lies in memory as q does
    count = -(-n_k // d) if eyes else 0
    wide = torch.eye(n_k, count * d, dtype=q.dtype)
    if groups:
        each = d // len(groups)
        parts = [wide[:, first : first + each] for first in groups]
        rest = wide.new_zeros(n_k, d - each * len(groups))
        count, wide = 1, torch.cat([*parts, rest], 1)
    wide = wide.reshape(n_k, count, d).transpose(0, 1)
    looking = wide[:, None, None].repeat(1, *v.shape[:2], 1, 1)
    tiles = {name: case.kwargs[name] for name in ("block_q", "block_k")}
    seed = 4 * int(rng.integers(1, 2**28)) + turn if seed is None else seed
    kwargs = {"causal": causal, "rate": rate, "seed": seed} | tiles
    return replace(case, args=(*case.args, do, looking), kwargs=kwargs)


def _cases(rng: Generator) -> list[Case]:
    def case(rate: float, *shape: Any, causal: bool = False, eyes: bool = True, **how: Any) -> Case:
        return _case(rng, rate, *shape, causal=causal, eyes=eyes, **how)

    jump, far = draw.hard_names(150)
    return [
        # the second tile of keys holds one, which the last row alone sees
        case(0.0, "rate 0: nothing is dropped; causal, 40 queries, 65 keys",
             40, 65, 16, tiles=(32, 64), causal=True, eyes=False),
        # two tiles for each row: what is not rescaled shows in o where nothing is dropped
        case(0.0, "rate 0, scores near -150, 20 queries, 40 keys",
             20, 40, 16, near=-150, tiles=(16, 32), eyes=False),
        # so many more queries than keys that heads which share numbers are found out
        # (and whose rate lies between two 16ths)
        case(0.22, "rate 0.22, 2 x 2 heads, 80 queries, 64 keys in tiles of 128 and 32, "
                   "strided memory",
             80, 64, 64, heads=(2, 2), tiles=(128, 32), strided="all"),
        # the second tile of keys is first seen by the last row of a tile of queries; d is so wide
        # that one identity shows all keys
        case(0.5, "rate 1/2, causal, 60 queries, 93 keys: aligned at the end",
             60, 93, 128, heads=(1, 2), tiles=(32, 64), causal=True, turn=2),
        # more heads than 8
        case(0.7777, "rate 0.7777, seed 0, 3 x 3 heads, 32 queries, 32 keys",
             32, 32, 32, heads=(3, 3), tiles=(32, 64), seed=0),
        case(0.1, "rate 1/10, causal, 80 queries, 50 keys: the first 30 rows see nothing",
             80, 50, 64, tiles=(64, 32), causal=True),
        case(0.25, "float16, rate 1/4, causal, 60 queries and keys, d = 64",
             60, 60, 64, dtype="float16", tiles=(32, 32), causal=True, compiled=True, turn=1),
        case(0.25, "rate 1/4, causal, 384 queries and keys, d = 16: what is kept is counted",
             384, 384, 16, tiles=(64, 128), causal=True, eyes=False, counted=True),
        case(0.0, f"rate 0, {draw.FINE_NAME}",
             16, 64, 16, fine=0.0, tile=1, dtype="float16", tiles=(16, 16), eyes=False),
        # row i and key j + 1024 have the number of row i + 1 and key j, if 1024 are counted a row;
        # so it is with 96, 128, 256 and others that lie between two of the groups
        case(0.5, "rate 1/2, 16 queries, 1040 keys",
             16, 1040, 64, tiles=(64, 256), groups=(0, 96, 224, 480, 1024), turn=3),
        # so few keys in a tile that whole rows of it are dropped
        replace(case(0.875, f"rate 7/8, {jump}", 33, 33, 64, jump=150, tiles=(32, 16)),
                shows=HARD - {FAR}),
        case(0.0, f"rate 0, {far}, and dO = 0",
             33, 33, 16, far=draw.FAR_BELOW, tiles=(32, 16), eyes=False, level=True),
        case(0.0, f"rate 0, {draw.ROOMY_NAME}",
             17, 33, 16, heads=(2, 2), tiles=(16, 32), eyes=False, strided="room"),
        case(0.0, f"rate 0, {draw.CREEP_NAME}",
             16, 64, 16, creep=draw.CREEP, tiles=(16, 16), eyes=False),
        # small: gone through once more, and for each input alone
        case(0.5, "rate 1/2, 16 queries, 4 keys", 16, 4, 16, tiles=(16, 16), eyes=False),
    ]  # fmt: skip


def _truth(
    q: Any, k: Any, v: Any, do: Any, eyes: Any, *, causal: bool, rate: float, seed: int,
    block_q: int, block_k: int,
) -> Any:  # fmt: skip
    """Return o, lse, dq, dk and dv of attention that drops nothing, and its weights three times."""
    call = _Call.of(q, k, v, causal=causal)
    found = (call.o(v), call.lse, *call.gradients(do, *_derived(1.0)))
    other = [call.o(eyes[0][..., : q.shape[-1] // 2])] if len(eyes) else []  # its form counts
    return (*found, *(call.o(eye) for _ in range(3) for eye in eyes), *other)


def _backward(slip: Slip, *, only: slice = EVERY) -> Callable[..., Any]:
    """Return the answer where nothing is dropped, with something wrong in the backward pass."""

    def model(q: Any, k: Any, v: Any, do: Any, _eyes: Any, **how: Any) -> Any:
        saved = _saved(q, k, v, do, **how)
        o, lse = attention_truth(q, k, v, causal=how["causal"])
        return (o, lse, *in_one_kernel(slip, only, *saved(o, lse)))

    return model


def _saved(
    q: Any, k: Any, v: Any, do: Any, *, causal: bool, rate: float, block_q: int, block_k: int,
    **_seed: int,
) -> Callable[[Any, Any], tuple[Any, ...]]:  # fmt: skip
    """Return what gives the arguments of `gradients`, of o and lse.

    Raises ValueError where something is dropped: nobody knows what.
    """
    if rate:
        raise ValueError("the mask is the student's own")
    where = Where.of(q, k, causal=causal, block_q=block_q, block_k=block_k)
    return lambda o, lse: (q, k, v, do, lse, (as_float64(do) * o).sum(-1), where)


def _onward(*inputs: Any, **how: Any) -> Callable[..., Any]:
    """Return what makes a whole answer of o and lse: right gradients, if both are right.

    Where something is dropped, nobody knows what.
    """
    right = _truth_again(*inputs, **how)
    if how["rate"]:
        return lambda o, lse: _undropped(o, lse, right)
    return lambda o, lse: (o, lse, *right[2:])


@lru_cache(maxsize=1)
def _truth_again(*inputs: Any, **how: Any) -> Any:
    """Return the truth of the tensors that were last asked for: of one case, for many mistakes."""
    return _truth(*inputs, **how)


def _compared(case: Case, result: Any) -> Any:
    truth = _truth_again(*case.args, **case.kwargs)
    if case.kwargs["rate"] and isinstance(result, tuple) and len(result) == len(truth):
        return _undropped(result[0], result[1], truth)
    return as_far_as_right(result, truth, first=2)


def _undropped(o: Any, lse: Any, truth: Any) -> tuple[Any, ...]:
    """Return an answer of which only what nothing was dropped from is not the truth: lse, and o of
    rows that see no key."""
    empty = np.isneginf(truth[1])[..., None]
    return (np.where(empty, as_float64(o), truth[0]), lse, *truth[2:])


@dataclass(frozen=True)
class _Call:
    """Attention in float64 of which each weight is multiplied by ``kept``."""

    qkv: tuple[Any, Any, Any]
    lse: np.ndarray
    p: np.ndarray
    where: Where
    kept: Any = 1.0

    @classmethod
    def of(cls, q: Any, k: Any, v: Any, *, causal: bool) -> _Call:
        _, lse = attention_truth(q, k, v, causal=causal)
        where = Where.of(q, k, causal=causal)
        with np.errstate(all="ignore"):
            return cls((q, k, v), lse, right(scaled_scores(q, k), lse[..., None], where), where)

    def o(self, v: Any) -> np.ndarray:
        return np.asarray(self.p * self.kept @ as_float64(v))

    def gradients(self, do: Any, ds: Callable[..., Any], for_v: Callable[..., Any]) -> Any:
        delta = (as_float64(do) * self.o(self.qkv[2])).sum(-1)
        slip = Slip(ds=ds, for_v=for_v)
        return gradients(*self.qkv, do, self.lse, delta, self.where, slip=slip)


def _derived(kept: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return how dS and dV are made where each weight is multiplied by ``kept``."""
    return lambda p, dp, delta: p * (dp * kept - delta), lambda p, ds, where: p * kept


def _known_slips(kept: np.ndarray, rate: float) -> list[tuple[str, str, Any]]:
    """Return what people do instead on the way back: the property, what to tell, how dS and dV.

    What one gradient alone tells stands before what two tell.
    """
    ds, for_v = _derived(kept)
    whole, whole_for_v = _derived(1.0)
    unscaled, unscaled_for_v = _derived(kept * (1 - rate))
    drops, scales = "drops on the way back as well", "scales on the way back as well"
    delta = (
        "D, or its gaps, multiplies delta as well as dP. What was dropped has a dS, too: delta is "
        "subtracted there as everywhere, dS = P * (dP * D - delta)."
    )
    return [
        (drops, "dV is made of P without its gaps: dV = (P * D)^T dO.", (ds, whole_for_v)),
        (drops, "dP has no gaps; what was dropped passes no gradient: dS = P * (dP * D - delta).",
         (whole, for_v)),
        (drops, "neither P nor dP is multiplied by what dropped the weights.",
         (whole, whole_for_v)),
        ("makes dS of the whole P",
         "D belongs to dP, and the P before it is the softmax's: dS = P * (dP * D - delta).",
         (lambda p, dp, delta: p * kept * (dp * kept - delta), for_v)),
        ("drops dP, not dS", delta,
         (lambda p, dp, delta: p * kept * (dp - delta), for_v)),
        ("drops dP, not dS", delta,
         (lambda p, dp, delta: p * (dp * kept - (kept > 0) * delta), for_v)),
        (scales, "1 / (1 - rate) is missing in dV.", (ds, unscaled_for_v)),
        (scales, "1 / (1 - rate) is missing in dP.", (unscaled, for_v)),
        (scales, "1 / (1 - rate) is missing in dV and in dP.", (unscaled, unscaled_for_v)),
    ]  # fmt: skip


def _judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
    import torch

    got, dtype = observed.result, case.args[0].dtype
    if got is None:
        return Finding(
            "is an autograd.Function",
            "there is nothing to apply: DroppedAttention should be a class, class "
            "DroppedAttention(torch.autograd.Function), with forward and backward.",
        )
    if not is_tensor(got[0]) or not is_tensor(got[1]):
        return Finding("returns o and lse", "forward should return two tensors: return o, lse.")
    if fault := formal_fault(got, expected, dtype, torch.float32, dtype):
        return fault
    call, rate = _Call.of(*case.args[:3], causal=case.kwargs["causal"]), case.kwargs["rate"]
    probes, eyes = got[5:], case.args[4]
    masks = _masks(probes, eyes, call.p, str(dtype).removeprefix("torch."))
    if finding := _of_lse(case, got[1], call, masks) or (
        masks and _of_masks(case, masks, _in_another_call(case, probes[-1]), call.p)
    ):
        return finding
    if rate and not (masks and _all_seen(case)):  # there is nothing to compare with
        return None
    kept = masks[0].kept / (1 - rate) if masks else np.ones_like(call.p)
    return _of_values(case, got, replace(call, kept=kept))


def _masks(outputs: Any, eyes: Any, p: np.ndarray, dtype: str) -> list[Mask]:
    """Return the masks of a call, of one with other tiles, and of one with another seed."""
    count = len(outputs) // 3
    return [
        dropped.read(outputs[i * count :][:count], eyes, p, dtype) for i in range(3 if count else 0)
    ]


def _in_another_call(case: Case, output: Any) -> Mask:
    """Return the mask of a call in which head_dim, causal, dtype and numbers are others."""
    q, k, _, _, eyes = case.args
    columns = q.shape[-1] // 2
    q, k, few = q[..., columns:], k[..., columns:], eyes[:1, ..., :columns]
    p = _Call.of(q, k, few[0], causal=not case.kwargs["causal"]).p
    return dropped.read([output], few, p, "float16")


def _all_seen(case: Case) -> bool:
    """Whether a case's eyes show the weight of every key."""
    _, keys = dropped.keys_seen(case.args[4])
    return len(keys) == case.args[1].shape[-2]


def _of_lse(case: Case, got: Any, call: _Call, masks: list[Mask]) -> Finding | None:
    allowed_here = lse_rounding(*case.args[:2])
    found = array_finding(got, call.lse, allowed=allowed_here, name="`lse`", axes=_AXES[:3])
    if found is None or not masks:
        return found
    for share in (1.0, 1 - case.kwargs["rate"]):
        with np.errstate(all="ignore"):
            less = call.lse + np.log((call.p * masks[0].kept / share).sum(-1))
        if array_finding(got, less, allowed=2 * allowed_here) is None:
            return replace(
                found,
                property="sums before it drops",
                says="`lse` is the sum of what was kept. Softmax comes before dropout: l_sum adds "
                "up every weight, and only the product with V has gaps.",
            )
    return found


def _of_masks(case: Case, masks: list[Mask], elsewhere: Mask, p: np.ndarray) -> Finding | None:
    """Judge what was dropped, and what became of the rest."""
    rate, tiles = case.kwargs["rate"], (case.kwargs["block_q"], case.kwargs["block_k"])
    first, in_other_tiles, other_seed = masks
    return (
        dropped.tiles_finding(first, in_other_tiles, tiles)
        or dropped.elsewhere_finding(first, elsewhere)
        or dropped.repeat_finding(first, other_seed)
        or dropped.line_finding(first, rate)
        or dropped.rate_finding(first, rate)
        or _scaled(first, p * first.kept * first.shown, rate, largest=float(case.args[4].max()))
    )


def _scaled(mask: Mask, kept: np.ndarray, rate: float, largest: float) -> Finding | None:
    """Ask that what is kept is divided by 1 - rate; say what was done instead, if that is known."""

    def fits(by: Any) -> bool:
        return np.allclose(mask.weights, largest * kept * by, rtol=1e-2, atol=1e-4)

    if fits(1 / (1 - rate)):
        return None
    says, there = "", kept > 1e-3
    with np.errstate(all="ignore"):
        by = float(np.median(mask.weights[there] / kept[there])) / largest if there.any() else 1.0
        if fits(1.0):
            says = "what is kept is not scaled: without 1 / (1 - rate) the outputs shrink."
        elif fits(1 / rate):
            says = "what is kept is divided by rate: it is to be divided by 1 - rate."
        elif fits(np.nan_to_num(1 / kept.sum(-1, keepdims=True))):
            says = (
                "what is kept is normalised anew, so that it adds up to 1: it is to be divided by "
                "1 - rate, and adds up to 1 on average."
            )
        elif fits(by):
            says = (
                f"what is kept is multiplied by {by:.4g}: 1 / (1 - rate) is {1 / (1 - rate):.4g}."
            )
    return Finding("scales what it keeps", says) if says else None


def _of_values(case: Case, got: Any, call: _Call) -> Finding | None:
    """Judge o and the gradients against float64, with the mask that was read."""
    import torch

    q, k, v, do, _ = case.args
    rate, dtype = case.kwargs["rate"], str(q.dtype).removeprefix("torch.")
    kept = torch.from_numpy(np.asarray(call.kept)).float().to(q.device)
    o = call.o(v)
    eager = (torch.from_numpy(call.p).to(q) * kept).to(q.dtype) @ v
    near = allowed_error(o, as_float64(eager), dtype) + score_rounding(q, k, v) / (1 - rate)
    if finding := array_finding(got[0], o, allowed=near, name="`o`", axes=_AXES):
        return _with_mask(finding, rate)
    truths = call.gradients(do, *_derived(call.kept))
    lse = torch.from_numpy(call.lse).float().to(q.device)
    delta = (do.float() * eager.float()).sum(-1)  # of o as it is stored
    limits = allowed(q, k, v, do, lse, delta, seen=call.where.seen, truths=truths, kept=kept)
    finding = gradients_finding(got[2:5], truths, limits, _NAMES[2:])
    if finding is None or not rate:
        return finding
    for known, says, how in _known_slips(np.asarray(call.kept), rate):
        made = [  # each kernel makes its own
            truth if array_finding(one, truth, allowed=limit) is None else wrong
            for one, truth, limit, wrong in zip(
                got[2:5], truths, limits, call.gradients(do, *how), strict=True
            )
        ]
        if gradients_finding(got[2:5], made, limits, _NAMES[2:]) is None:
            return replace(finding, property=known, says=f"{finding.says} It looks as if {says}")
    return _with_mask(finding, rate)


def _with_mask(finding: Finding, rate: float) -> Finding:
    """Return a finding that says what it was compared with: a mask that the answer showed itself.

    (Of a smaller input the mask is another one: none is looked for.)
    """
    if not rate or finding.property != "the values":
        return finding
    says = f"{finding.says} It is compared with the mask that your own output shows if V is an "
    says += "identity: is it the same one in all three kernels, and after other calls? If it is, "
    says += "dV takes P * D, and dS is P * (dP * D - delta)."
    return replace(finding, property="the values with that mask", says=says)


DROPPED_ATTENTION = Exercise.of(
    "9-star",
    cases=_cases,
    truth=_truth,
    judge=in_turn(stored_whole(_judge, *_NAMES), was_launched, keeps_little),
    kind="kernel",
    run=with_probes,
    races=True,
    later=2,
    compared=_compared,
    mistakes=(*mistakes_there_and_back(_backward), *forward_mistakes(_onward)),
    seconds=40.0,
)
