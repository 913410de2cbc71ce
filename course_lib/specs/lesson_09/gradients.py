"""dQ, dK and dV in float64, right or with one thing wrong: for the truths and the mistakes.

The products of the backward are left to autograd, on two sums whose gradients they are: with P and
dS held fixed, sum(P * (dO V^T)) moves V by P^T dO, and sum(dS * S) moves Q and K.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from course_lib.judging.finding import Finding
from course_lib.judging.judges import array_finding
from course_lib.judging.misread import k_reshaped
from course_lib.judging.spec import Mistake, table
from course_lib.judging.tolerance import allowed_error, as_float64, in_float32
from course_lib.judging.where import Where
from course_lib.specs.lesson_09.weights import (
    KEYS_OUTSIDE,
    OF_MASKS,
    OF_TILES,
    PAST_END,
    QUERIES_OUTSIDE,
    Named,
    Weights,
    along_keys,
    as_inputs,
    at_keys_tile,
    right,
    unmasked,
)

_Change = Callable[..., np.ndarray]


@dataclass(frozen=True)
class Slip:
    """One thing wrong in the backward, or nothing.

    scores: S but for its scale, ``scores(q, k, where)``. weights: how P is made (`weights`). dp:
    what becomes of dP, ``dp(dp, where)``. ds: ``ds(p, dp, delta)``. for_q, for_k, for_v: what is
    multiplied for dQ, dK and dV, of ``(p, ds, where)``. power: of the scale that dQ and dK get.
    delta: what is subtracted, ``delta(p, dp, delta, where)``. operands: what dP, dQ, dK and dV are
    products with, of ``(q, k, v, do)``.
    """

    scores: _Change = lambda q, k, where: q @ k.mT
    weights: Weights = right
    dp: _Change = lambda dp, where: dp
    ds: _Change = lambda p, dp, delta: p * (dp - delta)
    for_q: _Change = lambda p, ds, where: ds
    for_k: _Change = lambda p, ds, where: ds
    for_v: _Change = lambda p, ds, where: p
    power: int = 1
    delta: _Change = lambda p, dp, delta, where: delta
    operands: Callable[..., tuple[np.ndarray, ...]] = lambda q, k, v, do: (v, k, q, do)


def gradients(
    q: Any, k: Any, v: Any, do: Any, lse: Any, delta: Any, where: Where, *,
    slip: Slip | None = None, scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Return dq, dk, dv, float64, of P = exp(S - lse) where a pair is seen."""
    slip = slip or Slip()
    q, k, v, do, lse, delta = (as_float64(x) for x in (q, k, v, do, lse, delta))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    with np.errstate(all="ignore"):
        p = slip.weights(scale * slip.scores(q, k, where), lse[..., None], where)
        for_dp, of_dq, of_dk, of_dv = slip.operands(q, k, v, do)
        dp = slip.dp(do @ for_dp.mT, where)
        ds = in_float32(slip.ds(p, dp, slip.delta(p, dp, delta[..., None], where)))
        for_q, for_k, for_v = (f(p, ds, where) for f in (slip.for_q, slip.for_k, slip.for_v))
        dq = _pulled(q, of_dq, for_q)[0]
        dk, dv = _pulled(of_dk, k, for_k)[1], _pulled(of_dv, v, for_v)[1]
        factor = scale**slip.power
        return in_float32(factor * dq), in_float32(factor * dk), in_float32(dv)


EVERY, OF_QUERIES, OF_KEYS = slice(0, 3), slice(0, 1), slice(1, 3)  # which of dq, dk, dv


def in_one_kernel(slip: Slip, only: slice, *saved: Any) -> tuple[np.ndarray, ...]:
    """Return dq, dk, dv of ``gradients(*saved)``, of which those in ``only`` have the slip."""
    wrong = gradients(*saved, slip=slip)
    if only == EVERY:
        return wrong
    mixed = list(gradients(*saved))
    mixed[only] = wrong[only]
    return tuple(mixed)


def _pulled(a: np.ndarray, b: np.ndarray, by: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradients of sum(by * (a b^T)) by a and by b."""
    import torch

    leaves = [torch.from_numpy(x).requires_grad_() for x in (a, b)]
    pulled = (torch.from_numpy(by) * (leaves[0] @ leaves[1].mT)).sum()
    da, db = (x.numpy() for x in torch.autograd.grad(pulled, leaves))
    return da, db


def _of_reshaped_k(q: np.ndarray, k: np.ndarray, where: Where) -> np.ndarray:
    return np.asarray(q @ k_reshaped(padded=True)(q, k, k, where.block_k)[1].mT)


_RESHAPED = (
    "K is reshaped, not transposed",
    "the tile of K was given the shape (head_dim, block_k), but its numbers kept their order: "
    "transpose it.",
    Slip(scores=_of_reshaped_k),
)


def _of_the_tile(p: np.ndarray, dp: np.ndarray, delta: np.ndarray, where: Where) -> np.ndarray:
    """Return, in place of delta, the sums of P * dP over each tile of keys alone."""
    starts = np.arange(0, p.shape[-1], where.block_k)
    sums = np.add.reduceat(p * dp, starts, axis=-1)
    return np.asarray(sums[..., where.key // where.block_k])


def _rescaled(p: np.ndarray, ds: np.ndarray, where: Where) -> np.ndarray:
    """Return dS as it counts where each tile's maximum shrinks what the tiles before it added."""
    top = np.zeros_like(p)
    for start in range(0, p.shape[-1], where.block_k):
        stop = start + where.block_k
        top[..., start:stop] = p[..., :stop].max(-1, keepdims=True)
    return np.where(top == 0, 0.0, ds * top / np.where(top == 0, 1, p.max(-1, keepdims=True)))


OF_DS = table(
    ("delta is taken along the keys",
     "delta is one number a query: it is read at the numbers of rows, and belongs to a row of dS.",
     *(Slip(delta=lambda p, dp, delta, where, in_tile=in_tile: along_keys(
           delta, where, 0.0, in_tile=in_tile)) for in_tile in (False, True)),
     Slip(delta=lambda p, dp, delta, where: at_keys_tile(delta, where, 0.0))),
    ("delta is made of this tile alone",
     "delta belongs to the whole row, of which a tile is a part: use the delta that is given.",
     Slip(delta=_of_the_tile)),
    ("delta is subtracted behind the product",
     "the bracket is missing: dS = P * (dP - delta), not P * dP - delta.",
     Slip(ds=lambda p, dp, delta: p * dp - delta),
     Slip(ds=lambda p, dp, delta: np.where(p == 0, 0.0, p * dp - delta))),
    ("dP is made of K", "dP = dO V^T: how much a weight moves the loss, its value tells.",
     Slip(operands=lambda q, k, v, do: (k, k, q, do))),
    ("delta is not subtracted",
     "dS = P * (dP - delta): without delta, a row of dS does not add up to 0.",
     Slip(ds=lambda p, dp, delta: p * dp)),
    ("delta has the wrong sign", "delta is subtracted: dS = P * (dP - delta).",
     Slip(ds=lambda p, dp, delta: p * (dp + delta))),
    ("dS is not multiplied by P",
     "dP - delta is how far a score wants to move; a weight of 0 moves nothing: multiply by P.",
     Slip(ds=lambda p, dp, delta: np.where(p == 0, 0.0, dp - delta))),
    ("the softmax is derived number by number",
     "P * (1 - P) is the derivative of one weight by its own score; the other scores of the row "
     "move it too, and that is what delta is for.",
     Slip(ds=lambda p, dp, delta: p * (1 - p) * dp)),
    ("dP is rounded to float16",
     "dP and delta may be large and their difference small, and float16 loses it. tl.dot gives "
     "float32 even for float16 tiles: leave dP so, and round dS alone, for the last product.",
     Slip(dp=as_inputs),
     Slip(dp=as_inputs, delta=lambda p, dp, delta, where: as_inputs(delta, where))),
    ("delta is subtracted in the exponent",
     "exp(S - lse - delta) is P divided by exp(delta): delta is subtracted from dP, behind exp, "
     "dS = P * (dP - delta).",
     Slip(ds=lambda p, dp, delta: p * np.exp(-delta) * dp),
     Slip(ds=lambda p, dp, delta: p * np.exp(-delta) * (dp - delta))),
    ("a gradient is rescaled as the forward's output is",
     "lse is final, and P = exp(S - lse) is measured against nothing that changes: add each tile's "
     "product, and multiply nothing by alpha.",
     Slip(for_q=_rescaled)),
)  # fmt: skip
OF_SCALE = table(
    ("the last scale is missing",
     "S = scale * Q K^T: what reaches Q and K passes the scale once more, on its way back.",
     Slip(power=0)),
    ("scaled twice on the way back",
     "dQ and dK are multiplied by the scale once: in dS, or at the end.",
     Slip(power=2)),
    ("the scale is upside down",
     "dQ and dK are multiplied by the scale, as S was: they are not divided by it.",
     Slip(power=-1)),
)  # fmt: skip
_POWERS = {"the scale is missing": 0, "scaled twice": 2, "the scale is upside down": -1}
OF_BOTH_SCALES = tuple(
    (name, f"{says} On the way back as well.", Slip(weights=weights, power=_POWERS[name]))
    for name, says, weights in OF_TILES
    if name in _POWERS
)
"""... and where S is made of the same wrong number."""
OF_ONE_SCALE = table(
    ("scaled twice on the way back",
     "in dQ: it is multiplied by the scale once, in dS or at the end.",
     Slip(for_q=lambda p, ds, where: ds / np.sqrt(where.d))),
    ("scaled twice on the way back",
     "in dK: it is multiplied by the scale once, in dS or at the end.",
     Slip(for_k=lambda p, ds, where: ds / np.sqrt(where.d))),
    ("the last scale is missing",
     "in dQ: S = scale * Q K^T, so what reaches Q passes the scale once more.",
     Slip(for_q=lambda p, ds, where: ds * np.sqrt(where.d))),
    ("the last scale is missing",
     "in dK: S = scale * Q K^T, so what reaches K passes the scale once more.",
     Slip(for_k=lambda p, ds, where: ds * np.sqrt(where.d))),
)  # fmt: skip
"""... where dQ and dK are handed in together."""


def _seen_of(x: np.ndarray, where: Where) -> np.ndarray:
    return np.where(where.seen, x, 0.0)


def _of_one_mask(skip: bool | None) -> tuple[tuple[str, str, Slip], ...]:
    hidden = Slip(weights=partial(unmasked, skip=skip))
    return (
        ("the mask is missing in dS",
         "the weights that dV gets are masked, and those in dS = P * (dP - delta) are not: a "
         "hidden pair moves nothing.",
         replace(hidden, for_v=lambda p, ds, where: _seen_of(p, where))),
        ("the mask is missing in dV",
         "dS is masked, and the weights that dV gets are not: a hidden pair moves nothing.",
         replace(hidden, for_q=lambda p, ds, where: _seen_of(ds, where),
                 for_k=lambda p, ds, where: _seen_of(ds, where))),
    )  # fmt: skip


_OF_ONE_MASK = tuple(one for skip in (True, False, None) for one in _of_one_mask(skip))
OF_OPERANDS = table(
    ("dQ is a product with V", "dQ = scale * dS K: a query is moved by the keys.",
     Slip(operands=lambda q, k, v, do: (v, v, q, do))),
    ("dK is a product with dO", "dK = scale * dS^T Q: a key is moved by the queries.",
     Slip(operands=lambda q, k, v, do: (v, k, do, do))),
    ("dV is a product with Q", "dV = P^T dO: a value is moved by the gradients of the outputs.",
     Slip(operands=lambda q, k, v, do: (v, k, q, q))),
)  # fmt: skip
SCALED_V, FOR_Q, FOR_K, FOR_V = table(
    ("dV is scaled", "dV = P^T dO: the scale is in P already, and V itself was not scaled.",
     Slip(for_v=lambda p, ds, where: p / np.sqrt(where.d))),
    ("dQ is made of P",
     "dQ = scale * dS K: P is how far the values move, dS how far the scores do.",
     Slip(for_q=lambda p, ds, where: p)),
    ("dK is made of P",
     "dK = scale * dS^T Q: P is how far the values move, dS how far the scores do.",
     Slip(for_k=lambda p, ds, where: p)),
    ("dV is made of dS", "dV = P^T dO: the values are averaged by the weights themselves.",
     Slip(for_v=lambda p, ds, where: ds)),
)  # fmt: skip


def mistakes_of(
    model: Callable[[Slip], Callable[..., Any]],
    *slips: tuple[str, str, Slip],
    loops: Sequence[Named] = (),
) -> tuple[Mistake, ...]:
    """Return the known mistakes of an exercise, whose answer with a slip is ``model(slip)``."""
    made = (*OF_TILES, *loops, *OF_MASKS)
    every = [(name, says, Slip(weights=weights)) for name, says, weights in made]
    every += [*_OF_ONE_MASK, *slips, *OF_OPERANDS, _RESHAPED]
    return tuple(Mistake(name, says, model(slip)) for name, says, slip in every)


def mistakes_there_and_back(model: Callable[..., Callable[..., Any]]) -> tuple[Mistake, ...]:
    """Return the known mistakes of all three gradients, in both kernels or in one of them.

    An answer with a slip is ``model(slip, only=...)``, as in `in_one_kernel`.
    """
    ways = (*OF_DS, *OF_SCALE, *OF_BOTH_SCALES)
    both = mistakes_of(model, *ways, *OF_ONE_SCALE, SCALED_V, FOR_Q, FOR_K, FOR_V)
    keys = mistakes_of(partial(model, only=OF_KEYS), *ways, loops=KEYS_OUTSIDE)
    queries = mistakes_of(partial(model, only=OF_QUERIES), *ways, loops=QUERIES_OUTSIDE)
    return (*past_the_end(partial(model, only=OF_QUERIES)), *both, *keys, *queries)


def past_the_end(model: Callable[..., Callable[..., Any]]) -> tuple[Mistake, ...]:
    """Return the mistakes of the keys past the end, for dQ; before those that make NaN as well."""
    return tuple(Mistake(name, says, model(Slip(weights=w))) for name, says, w in PAST_END)


def exchanged(answer: Callable[..., Any], one: str, other: str) -> Callable[..., Any]:
    """Return ``answer`` with two results in each other's place; the last are dQ, dK, dV."""
    a, b = (("dQ", "dK", "dV").index(name) - 3 for name in (one, other))

    def model(*inputs: Any, **how: Any) -> Any:
        results = list(answer(*inputs, **how))
        results[a], results[b] = results[b], results[a]
        return tuple(results)

    return model


def gradients_finding(
    got: Sequence[Any],
    truths: Sequence[np.ndarray],
    limits: Sequence[float],
    names: Sequence[str],
    outer: tuple[str, ...] = ("batch", "head"),
) -> Finding | None:
    """Return where the first of some gradients is wrong; by its name that of q has rows."""
    for one, truth, limit, name in zip(got, truths, limits, names, strict=True):
        axes = (*outer, "row" if "q" in name else "key", "column")
        if finding := array_finding(one, truth, allowed=limit, name=name, axes=axes):
            return finding
    return None


def allowed(
    q: Any, k: Any, v: Any, do: Any, lse: Any, delta: Any, *, seen: np.ndarray,
    truths: Sequence[np.ndarray], kept: Any = 1.0,
) -> list[float]:  # fmt: skip
    """Return how far dq, dk and dv may be off; see `limit`.

    ``kept``: what each weight is multiplied by, where some are dropped.
    """
    s, p = eager_weights(q, k, lse, seen)
    ds = p * ((do.float() @ v.float().mT) * kept - delta[..., None])
    p, root = p * kept, q.shape[-1] ** -0.5
    moved = (
        ds.abs() @ k.float().abs() * root,
        ds.abs().mT @ q.float().abs() * root,
        p.abs().mT @ do.float().abs(),
    )
    p, ds = p.to(q.dtype), ds.to(q.dtype)
    eager = (ds @ k * root, ds.mT @ q * root, p.mT @ do)
    return [limit(s, *one) for one in zip(truths, eager, moved, strict=True)]


def eager_weights(q: Any, k: Any, lse: Any, seen: np.ndarray) -> tuple[Any, Any]:
    """Return scores and weights, float32 tensors, as tl.dot and exp make them."""
    import torch

    s = q.float() @ k.float().mT * q.shape[-1] ** -0.5
    return s, torch.exp(s - lse[..., None]).where(torch.from_numpy(seen).to(q.device), 0.0)


def limit(s: Any, truth: np.ndarray, eager: Any, added: Any) -> float:
    """Return how far a gradient may be off: three times what eager PyTorch is, plus a little.

    P = exp(S - lse) is as exact as S in float32: a score of 100 is off by some 1e-5, and so is the
    weight that is made of it, and what is ``added`` up, sums of which may cancel. Whole rows of
    eager products round in another order than tiles do and may happen not to show that.
    """
    largest = max(float(s[s.isfinite()].abs().max()), 1.0)
    rounding = min(8 * 2.0**-23 * largest, 1e-3)
    dtype = str(eager.dtype).removeprefix("torch.")
    return 1.5 * allowed_error(truth, as_float64(eager), dtype) + rounding * max(
        float(added.max()), 1.0
    )
