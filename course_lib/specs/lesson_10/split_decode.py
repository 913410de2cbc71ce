"""Exercise 10.3: decode in parts, each with its o and lse, and their merge, in PyTorch.

Longer than 400 lines because its mistakes are one table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from course_lib.attention.decode import split_slices
from course_lib.judging import cases as draw
from course_lib.judging import sizes
from course_lib.judging.faults import find_fault
from course_lib.judging.finding import Finding
from course_lib.judging.judges import array_finding
from course_lib.judging.misconceptions import BASES, PAST_LOST, SAYS
from course_lib.judging.spec import Case, Exercise, Mistake, Observed, table
from course_lib.judging.tolerance import as_float64
from course_lib.specs.lesson_10.caches import (
    NOT_NONE,
    allowed,
    copy_finding,
    heads_side_by_side,
    of_the_scale,
    read_finding,
    softmax,
    tensors,
)

Array = np.ndarray


def _case(
    rng: Generator,
    name: str,
    heads: tuple[int, int, int],
    n: int,
    d: int,
    splits: int,
    *,
    drawn: Callable[..., draw.Triple] = draw.draw,
    by: tuple[float, ...] = (),
    double: bool = False,
    strided: bool = False,
    **flags: Any,
) -> Case:
    """Return a case of (batch, heads, kv_heads); the heads of a group are the rows that are drawn.

    ``double``: in float64, where a score of -20000 leaves lse as exact as it need be.
    """
    import torch

    batch, many, kv_heads = heads
    group = many // kv_heads
    arrays = drawn(rng, group, n, d, *by, heads=(batch, kv_heads))
    q, k, v = tensors(draw.in_double(rng, arrays) if double else arrays)
    q = q.reshape(batch, many, 1, d)
    if strided:
        k, v = heads_side_by_side(k, v)
        q = torch.cat((q, k.new_ones(batch, many, 1, 2 * d)), -1)[..., :d]
    return Case(name, (q, k, v, splits), **flags)


def _cases(rng: Generator) -> list[Case]:
    case = partial(_case, rng)
    hard = (draw.jumping, (2000.0,)), (draw.far_below, (draw.FAR_BELOW,))
    shown = [(name, shows) for name, _, shows in draw.hard(rng, 3, 33, 16)]
    return [
        case("8 keys in 2 splits, one head", (1, 1, 1), 8, 4, 2),
        case("2 sequences, 4 heads on 2, 24 keys in 3 splits", (2, 4, 2), 24, 8, 3),
        case("6 heads on 2, 10 keys in 4 splits: 3, 3, 3, 1", (1, 6, 2), 10, 8, 4),
        case("7 keys in 5 splits: 2, 2, 2, 1 and an empty one", (2, 2, 1), 7, 8, 5),
        case("one split holds all keys", (1, 4, 4), 9, 8, 1),
        case("more splits than keys: 3 keys, 6 splits", (2, 6, 3), 3, 8, 6),
        case("scores that climb by 20 along the row: the last split has nearly all the weight",
             (1, 4, 2), 21, 16, 3, drawn=draw.sloped, by=(20.0,)),
        case("scores near +1000, float64", (1, 4, 2), 21, 16, 3, drawn=draw.shifted, by=(1000.0,),
             double=True),
        case("caches that lie in memory as (B, n, H, d), q of a wider tensor", (2, 4, 2), 13, 8, 3,
             strided=True),
        *(
            case(f"{name}, float64", (2, 6, 2), 33, 16, 4, drawn=how, by=by, double=True,
                 shows=shows)
            for (name, shows), (how, by) in zip(shown, hard, strict=True)
        ),
        case("2 sequences, 8 heads on 2, 250 keys in 4 splits: counted", (2, 8, 2), 250, 64, 4,
             counted=True),
        # one: of several PyTorch's own product copies the parts, as no batch of matrices lies so
        case("1 sequence, 8 heads on 2, 250 keys in 4 splits, caches in memory as (B, n, H, d): "
             "counted", (1, 8, 2), 250, 64, 4, counted=True, strided=True),
        *(
            case(f"2 sequences, {2 * group} heads on 2, 250 keys in 4 splits: counted",
                 (2, 2 * group, 2), 250, 128, 4, counted=True)
            for group in (3, 5, 6, 7)
        ),
        *(
            case(f"{one['batch']} sequences, {one['kv_heads'] * one['group']} heads on "
                 f"{one['kv_heads']}, {one['n']} keys in {one['splits'](one['n'])} splits, "
                 f"d = {one['d']}",
                 (one["batch"], one["kv_heads"] * one["group"], one["kv_heads"]),
                 one["n"], one["d"], one["splits"](one["n"]))
            for one in sizes.paired(
                rng, n=(2, 3, 8, 17, 65), splits=sizes.BESIDE, d=sizes.WIDTHS, batch=sizes.FEW,
                kv_heads=sizes.FEW, group=sizes.FEW,
            )
        ),
    ]  # fmt: skip


class Part(NamedTuple):
    """What one split knows of all rows: (..., d), and four of (...)."""

    o: Array
    lse: Array
    m: Array
    l_sum: Array
    n: int


@dataclass(frozen=True)
class Slip:
    """Decode in parts with one thing wrong; every default is right."""

    keys: Callable[[int, int], list[Any]] = split_slices
    key_head: Callable[[int, int], int] = lambda head, group: head // group
    power: float = 0.5
    turned: Callable[[Array], Array] = lambda k: k.swapaxes(-1, -2)
    shown: Callable[[Part], Part] = lambda part: part  # what a part becomes
    weights: Callable[[Array], Array] | None = None  # of lse (splits, ...): what multiplies each o
    of_parts: Callable[[list[Part]], Array] | None = None  # the same, of the parts
    total: Callable[[Array], Array] | None = None  # of lse
    guarded: bool = True
    shifted: bool = True  # whether the maximum of a split is subtracted
    in_place: bool = False  # whether the parts are multiplied by their weights


_max, _sum = partial(np.max, axis=0), partial(np.sum, axis=0)  # of all splits


def _mean(lse: Array) -> Array:
    return np.asarray(lse.mean(axis=0))


def _seen(s: Array, v: Array, guarded: bool, shifted: bool) -> Part:
    """Return the part of one split: scores (..., n), values (..., n, d)."""
    n = s.shape[-1]
    guarded = guarded or not (shifted or n)  # without a shift: weights that vanish, not keys
    m = s.max(axis=-1, initial=-np.inf) if shifted or not n else np.zeros(s.shape[:-1])
    p = np.exp(s - np.where((m == -np.inf) & guarded, 0, m)[..., None])
    l_sum = p.sum(axis=-1)
    below = np.where((l_sum == 0) & guarded, 1, l_sum)
    o = (p[..., None, :] @ v)[..., 0, :] / below[..., None]
    return Part(o, m + np.log(below), m, l_sum, n)


def _total(lse: Array) -> Array:
    m = lse.max(axis=0)
    with np.errstate(all="ignore"):
        found: Array = m + np.log(np.exp(lse - np.where(m == -np.inf, 0, m)).sum(axis=0))
    return found


def _answer(slip: Slip) -> Callable[..., Any]:
    def model(q: Any, k: Any, v: Any, splits: int) -> Any:
        q, k, v = (as_float64(x) for x in (q, k, v))
        heads, group = q.shape[1], q.shape[1] // k.shape[1]
        of = [slip.key_head(head, group) % k.shape[1] for head in range(heads)]
        k, v = k[:, of], v[:, of]  # (B, H, n_k, d)
        with np.errstate(all="ignore"):
            parts = []
            for keys in slip.keys(k.shape[2], splits):
                s = (q @ slip.turned(k[:, :, keys]) / q.shape[-1] ** slip.power)[:, :, 0]
                parts.append(slip.shown(_seen(s, v[:, :, keys], slip.guarded, slip.shifted)))
            lse = np.stack([part.lse for part in parts])  # (splits, B, H)
            o = np.stack([part.o for part in parts])
            total = (slip.total or _total)(lse)
            weights = slip.weights(lse) if slip.weights else np.exp(lse - total)
            weights = slip.of_parts(parts) if slip.of_parts else weights
            weighed = weights[..., None] * o
            out = weighed.sum(axis=0)
            o = weighed if slip.in_place else o
        return o[:, :, :, None], lse[..., None], out[:, :, None], total[..., None]

    return model


_NAMES = ("`o_parts`", "`lse_parts`", "`o`", "`lse`")


def _judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
    q, k, v, splits = case.args
    like = tuple(q.new_empty(truth.shape) for truth in expected)
    if fault := find_fault(observed.result, like):
        return fault
    axes = ("split", "sequence", "head", "row", "column")
    for i, (got, truth, name) in enumerate(zip(observed.result, expected, _NAMES, strict=True)):
        may = allowed(truth, q, k, v if i % 2 == 0 else 1.0)
        of = axes[: truth.ndim] if i < 2 else axes[1 : truth.ndim + 1]
        if finding := array_finding(got, truth, allowed=may, name=name, axes=of):
            return finding
    if observed.ledger is None:
        return None
    cached = k.nbytes + v.nbytes
    parts = 4 * splits * q.numel()  # o_parts in float32, which may be made and merged in steps
    return copy_finding(observed.ledger, k.nbytes, k.nbytes + 2 * parts) or read_finding(
        observed.ledger, cached, 1, 2
    )


def _by_count(parts: list[Part]) -> Array:
    """Return the share of all keys that a part has seen."""
    counts = np.array([part.n for part in parts], dtype=np.float64)
    return _normed(np.broadcast_to(counts[:, None, None], (len(parts), *parts[0].lse.shape)))


def _normed(weights: Array) -> Array:
    found: Array = weights / weights.sum(axis=0)
    return found


def _powers_of_2(lse: Array) -> Array:
    return np.asarray(2.0 ** (lse - _max(lse)))


def _over(total: Callable[[Array], Array], lse: Array) -> Array:
    """Return the parts' weights, if ``total`` is taken for the lse of all."""
    return np.exp(lse - total(lse))


def _softmax(lse: Array) -> Array:
    return np.exp(lse - _total(lse))


def _over_axis(lse: Array, *, axis: int) -> Array:
    return softmax(lse.swapaxes(axis, -1)).swapaxes(axis, -1)


def _total_in_base_2(lse: Array) -> Array:
    return np.asarray(np.log2(_powers_of_2(lse).sum(axis=0)) + _max(lse))


def _lse(change: Callable[[Part], Array]) -> Slip:
    """Return the slip of parts with another lse."""
    return Slip(shown=lambda part: part._replace(lse=change(part)))


def _empty(o: float, lse: float) -> Slip:
    """Return the slip of parts without keys that hold these two numbers."""
    return Slip(shown=lambda x: x if x.n else x._replace(o=x.o + o, lse=np.full_like(x.lse, lse)))


def _rounded_down(n: int, splits: int) -> list[Any]:
    size = n // splits
    return [slice(i * size, (i + 1) * size) for i in range(splits)]


def _rest_to_the_last(n: int, splits: int) -> list[Any]:
    size = n // splits
    return [slice(i * size, n if i == splits - 1 else (i + 1) * size) for i in range(splits)]


def _off_by_one(more: int, n: int, splits: int) -> list[Any]:
    """Return runs that end one key too late, or one too early."""
    return [slice(run.start, max(run.start, run.stop + more)) for run in split_slices(n, splits)]


def _one_by_one(
    old: Callable[[Array], Array], new: Callable[[Array], Array] = np.exp
) -> Callable[[Array], Array]:
    """Return weights of parts that are merged one after the other into one.

    What is merged already is multiplied by ``old`` of how much lse grows, a part by ``new``.
    """

    def weights(lse: Array) -> Array:
        so_far = np.logaddexp.accumulate(lse)
        kept = np.where(np.isneginf(so_far[:-1]), 1, old(so_far[:-1] - so_far[1:]))
        after = np.cumprod(kept[::-1], axis=0)[::-1]
        return new(lse - so_far) * np.concatenate([after, np.ones_like(lse[:1])])

    return weights


_MERGES = table(
    ("parts are averaged",
     "a split with small scores counts as much as one with large ones: each part weighs exp(lse_i "
     "- lse), the share of all weight that its keys have.",
     *(Slip(weights=lambda lse: np.full(lse.shape, 1 / len(lse)), total=x)
       for x in (None, _mean, _max, _sum)),
     *(Slip(of_parts=_by_count, total=x) for x in (None, _mean))),
    ("weighted by lse, not by exp(lse)",
     "lse is a logarithm: the weight a part stands for is exp(lse_i).",
     Slip(weights=_normed)),
    ("weighted by l",
     "each split's l is measured against its own maximum. exp(lse_i) holds that maximum as well.",
     Slip(of_parts=lambda parts: _normed(np.stack([part.l_sum for part in parts])))),
    (BASES, "lse is a natural logarithm: its inverse is exp, not 2 to the power of it.",
     Slip(weights=lambda lse: _normed(2.0**lse)),
     Slip(weights=lambda lse: _normed(_powers_of_2(lse))),
     Slip(weights=lambda lse: 2.0 ** (lse - _total(lse))),
     Slip(weights=_one_by_one(np.exp2, np.exp)),
     Slip(weights=_one_by_one(np.exp, np.exp2)),
     Slip(weights=_one_by_one(np.exp2, np.exp2)),
     Slip(total=_total_in_base_2),
     Slip(weights=lambda lse: _normed(_powers_of_2(lse)),
          total=lambda lse: _max(lse) + np.log(_powers_of_2(lse).sum(0))),
     Slip(weights=lambda lse: _normed(_powers_of_2(lse)), total=_total_in_base_2)),
    ("parts are added without weights",
     "each part's o is divided already, as if there were no other keys: multiply it by exp(lse_i "
     "- lse) before you add.",
     *(Slip(weights=np.ones_like, total=x) for x in (None, _sum, _max))),
    ("the weights do not add up to 1",
     "divide by the sum of the weights, or take exp(lse_i - lse) with the merged lse.",
     Slip(weights=lambda lse: np.exp(lse - _max(lse))),
     Slip(weights=np.exp)),
    ("O is not rescaled",
     "of parts that are merged one after the other: what is merged already was measured against "
     "the lse so far, and the new one is larger.",
     Slip(weights=_one_by_one(np.ones_like))),
    (PAST_LOST,
     "of parts that are merged one after the other: the last one alone is left in o. What is "
     "merged already is multiplied by exp(its lse - the new lse), and then the new part is added.",
     Slip(weights=_one_by_one(np.zeros_like))),
    ("the part with the largest lse is taken",
     "the other parts have weight as well: exp(lse_i - lse).",
     Slip(weights=lambda lse: 1.0 * (lse == _max(lse)))),
    ("no maximum is subtracted",
     "exp(lse_i) overflows where scores are large: subtract the largest lse first, or the merged "
     "one (torch.logsumexp).",
     Slip(weights=lambda lse: _normed(np.exp(lse))),
     Slip(weights=lambda lse: _normed(np.exp(lse)), total=lambda lse: np.log(np.exp(lse).sum(0))),
     Slip(weights=lambda lse: _normed(np.exp(lse)),  # and it is added all the same
          total=lambda lse: _max(lse) + np.log(np.exp(lse).sum(0)))),
    ("the softmax runs over the heads",
     "the weights of the parts add up to 1 over the splits, for each head: dim 0 of (splits, B, "
     "H).",
     *(Slip(weights=partial(_over_axis, axis=axis)) for axis in (2, 1))),
    ("the lse of the parts is not merged",
     "lse is that of all keys: the logarithm of the sum of exp(lse_i).",
     *(Slip(weights=_softmax, total=total)
       for total in (_max, _sum, _mean, lambda lse: lse[-1],
                     lambda lse: _total(lse) - np.log(len(lse)))),
     *(Slip(weights=partial(_over, total), total=total) for total in (_sum, _mean))),
)  # fmt: skip

_PARTS = table(
    ("a part is not divided by its sum",
     "o of a part is attention over its keys alone: divide by its own sum, so that lse is all "
     "that the merge needs.",
     Slip(shown=lambda x: x._replace(o=x.o * x.l_sum[..., None])),
     Slip(shown=lambda x: x._replace(o=x.o * x.l_sum[..., None]),
          of_parts=lambda parts: np.exp(
              np.stack([x.m for x in parts]) - _total(np.stack([x.lse for x in parts]))))),
    *(
        (name, SAYS[name], _lse(change))
        for name, change in (
            ("lse is m + l", lambda x: x.m + x.l_sum),
            ("lse is only l", lambda x: x.l_sum),
            ("lse is ln(l)", lambda x: np.log(x.l_sum)),
            ("lse is m", lambda x: x.m),
            ("lse in base 2", lambda x: x.lse / np.log(2)),
            ("lse in base 2", lambda x: x.m + np.log2(x.l_sum)),
        )
    ),
    ("an empty split is not the identity",
     "a split without keys has o = 0 and lse = -inf: exp(-inf) = 0 is what it weighs.",
     Slip(guarded=False),
     _empty(np.nan, np.nan),
     *(_empty(0.0, lse) for lse in (1.0, *NOT_NONE))),
    ("the last keys are lost",
     "n_k // splits rounds down: keys are left over. A split has ceil(n_k / splits) keys.",
     Slip(keys=_rounded_down)),
    ("the keys are cut at other places",
     "split i holds keys i * size to (i + 1) * size, size = ceil(n_k / splits); the last ones may "
     "be short, or empty.",
     Slip(keys=_rest_to_the_last),
     Slip(keys=lambda n, splits: list(np.array_split(np.arange(n), splits))),
     Slip(keys=lambda n, splits: [slice(i * n // splits, (i + 1) * n // splits)
                                  for i in range(splits)]),
     Slip(keys=lambda n, splits: [slice(i, n, splits) for i in range(splits)])),
    ("a key belongs to two splits",
     "split i ends before key (i + 1) * size: that one is the first of the next split.",
     Slip(keys=partial(_off_by_one, 1))),
    ("the last key of a split is lost",
     "a slice ends before its stop: split i is i * size to (i + 1) * size, not one less.",
     Slip(keys=partial(_off_by_one, -1))),
    ("the parts are weighed in place",
     "o_parts are returned as attention over their own keys, divided by their own sums: here they "
     "are multiplied by their weights in the merge, perhaps by `*=`.",
     Slip(in_place=True)),
    ("no maximum is subtracted",
     "exp(s) overflows where scores are large: subtract the split's largest score first.",
     Slip(shifted=False), Slip(shifted=False, guarded=False)),
    ("a head reads another group's keys",
     "the group of query head h is h // (H / H_kv): neighbours share a key head. (% deals them "
     "out in turns.)",
     Slip(key_head=lambda head, group: head)),
    *of_the_scale(lambda power: Slip(power=power)),
    ("K is reshaped, not transposed",
     "K got the shape (d, n), but its numbers kept their order: transpose it.",
     Slip(turned=lambda k: k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2]))),
)  # fmt: skip

EXERCISE = Exercise.of(
    "10.3",
    cases=_cases,
    truth=_answer(Slip()),
    judge=_judge,
    kind="torch",
    mistakes=tuple(Mistake(name, says, _answer(slip)) for name, says, slip in (*_PARTS, *_MERGES)),
)
