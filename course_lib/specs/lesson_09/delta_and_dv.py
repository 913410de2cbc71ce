"""9.2: the backward's first half, delta and dV."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.accounting.traffic import derived_counts
from course_lib.judging import cases as draw
from course_lib.judging.attention_judge import attention_truth
from course_lib.judging.faults import find_fault
from course_lib.judging.finding import Finding
from course_lib.judging.judges import array_finding
from course_lib.judging.kernel_judge import in_turn, linear_memory, stored_whole, was_launched
from course_lib.judging.least import Least, counted
from course_lib.judging.sized_launches import tiled_launches
from course_lib.judging.spec import FAR, Case, Exercise, Mistake, Observed
from course_lib.judging.tolerance import as_float64, in_float32
from course_lib.judging.where import Where, seen_by
from course_lib.specs.lesson_09.gradients import eager_weights, limit
from course_lib.specs.lesson_09.weights import (
    KEYS_OUTSIDE,
    OF_MASKS,
    OF_TILES,
    Weights,
    right,
    scaled_scores,
)


def _backward_case(rng: Generator, *shape: Any, **how: Any) -> Case:
    """Return a case of q, k, o, lse, do: what the forward pass saved, and a drawn gradient.

    It is ``loud`` times as large as usual.
    """
    import torch

    loud = how.pop("loud", 1.0)
    case = draw.launch(rng, *shape, **how)
    q, k, v = case.args
    o, lse = attention_truth(q, k, v, **case.kwargs)
    do = loud * drawn_gradient(rng, o.shape, **how)
    saved = (torch.from_numpy(o).to(q.dtype), torch.from_numpy(lse).float(), do.to(q.dtype))
    return replace(case, args=(q, k, *saved))


def drawn_gradient(rng: Generator, shape: tuple[int, ...], *, alike: float = 0, **_how: Any) -> Any:
    """Return a do, float64; ``alike``, if not 0: one for all queries (`draw.alike_queries`)."""
    import torch

    do = torch.from_numpy(rng.standard_normal(shape) + 0.3)
    return do[..., :1, :].expand(shape) if alike else do


def saved_cases(rng: Generator, case: Callable[..., Case], *, walks: str = "queries") -> list[Case]:
    """Return what every kernel of the backward pass is tried on, drawn by ``case``.

    ``walks``: over what its programs do, "queries" or "keys".
    """
    return [
        case("64 queries and keys in tiles of 32 and 16, d = 32", 64, 64, 32, tiles=(32, 16)),
        case("2 x 2 heads, 40 queries, 70 keys: short last tiles, strided memory",
             40, 70, 16, heads=(2, 2), tiles=(16, 64), strided="all"),
        case("large scores (q and k times 4), tiles as tall as d",
             64, 32, 32, size=4, tiles=(32, 32)),
        case("causal, 64 queries and keys, tiles 16 and 32",
             64, 64, 16, tiles=(16, 32), causal=True),
        case("causal, 35 queries, 68 keys: aligned at the end",
             35, 68, 16, heads=(1, 2), tiles=(16, 32), causal=True),
        case("causal, 80 queries, 50 keys: the first 30 rows see nothing",
             80, 50, 32, tiles=(16, 64), causal=True),
        case("float16, causal, 100 queries, 150 keys, d = 64",
             100, 150, 64, heads=(1, 2), dtype="float16", tiles=(64, 32), causal=True,
             compiled=True),
        case("causal, 512 queries and keys, d = 16, counted",
             512, 512, 16, tiles=(128, 64), causal=True, counted=True),
        *tiled_launches(rng, case, causal=(True, False)),
        case("one key", 20, 1, 16, heads=(1, 2), tiles=(16, 16)),
        *_alike(case, walks),
        draw.many_heads_launch(case, tiles=(16, 16)),
        draw.many_tiles_launch(case, walks=walks),
        draw.one_key_launch(case),
    ]  # fmt: skip


def loud_case(case: Callable[..., Case]) -> Case:
    """Return a case of gradients in the thousands, and of more columns than others have."""
    name = "gradients in the thousands, 20 queries, 40 keys, d = 128"
    return case(name, 20, 40, 128, tiles=(16, 32), loud=3000.0)


def _alike(case: Callable[..., Case], walks: str) -> list[Case]:
    """Return cases of float16 in which every step of the walk adds the same to a sum."""
    # of 64 columns: a scale of 1/8 leaves room between too large and, scaled, not
    half = {"dtype": "float16", "tiles": (16, 16)}
    if walks == "keys":
        return [
            case("float16, 1024 keys that are all alike but for their signs, in tiles of 16",
                 16, 1024, 16, alike_keys=True, **half),
            case("float16, sums of dQ that are too large before they are scaled",
                 16, 64, 64, alike_keys=1e4, **half),
        ]  # fmt: skip
    return [
        case("float16, 1024 queries that are all alike, in tiles of 16",
             1024, 16, 16, alike=True, **half),
        case("float16, sums of dK that are too large before they are scaled",
             64, 16, 64, alike=3072.0, **half),
    ]  # fmt: skip


def _backward_cases(rng: Generator) -> list[Case]:
    case = partial(_backward_case, rng)
    # where scores are far apart, exp(S - lse) of another lse than that of S is infinite
    apart = {"together": frozenset({0, 1, 3})}  # q, k and lse
    return [
        *saved_cases(rng, case),
        case(draw.FINE_NAME, 16, 64, 16, fine=0.0, tile=1,
             dtype="float16", tiles=(16, 16), **apart),
        case(draw.hard_names(150)[0], 33, 65, 16, jump=150, tiles=(32, 16), **apart),
        case("scores near -150", 20, 40, 16, near=-150, tiles=(16, 32), **apart),
        case(draw.ROOMY_NAME, 17, 33, 16, heads=(2, 2), tiles=(16, 32), strided="room"),
        loud_case(case),
    ]  # fmt: skip


def _backward_truth(
    q: Any, k: Any, o: Any, lse: Any, do: Any, *, causal: bool = False, **_tiles: int
) -> tuple[np.ndarray, np.ndarray]:
    seen = seen_by(q.shape[-2], k.shape[-2], causal=causal)
    with np.errstate(all="ignore"):
        p = np.where(seen, np.exp(scaled_scores(q, k) - as_float64(lse)[..., None]), 0.0)
    do = as_float64(do)
    return (do * as_float64(o)).sum(-1), p.swapaxes(-1, -2) @ do


def _judge_backward(case: Case, observed: Observed, expected: Any) -> Finding | None:
    import torch

    q, k, o, _, do = case.args
    delta_true, dv_true = expected
    like = (
        torch.empty(delta_true.shape, dtype=torch.float32, device=q.device),
        torch.empty(dv_true.shape, dtype=k.dtype, device=q.device),
    )
    if fault := find_fault(observed.result, like):
        return fault
    delta, dv = observed.result
    axes = ("batch", "head", "row", "column")
    biggest = float(np.abs(as_float64(o) * as_float64(do)).sum(-1).max())
    return array_finding(
        delta, delta_true, allowed=1e-5 * max(biggest, 1.0), name="`delta`", axes=axes[:-1]
    ) or array_finding(
        dv, dv_true, allowed=_allowed_dv(case, dv_true), name="`dv`",
        axes=("batch", "head", "key", "column"),
    )  # fmt: skip


def _allowed_dv(case: Case, dv_true: np.ndarray) -> float:
    """Return what dv may be off by, as in 9.4."""
    q, k, _, lse, do = case.args
    s, p = eager_weights(
        q, k, lse, seen_by(q.shape[-2], k.shape[-2], causal=bool(case.kwargs.get("causal")))
    )
    return limit(s, dv_true, p.to(do.dtype).mT @ do, p.mT @ do.float().abs())


def sizes(case: Case) -> tuple[int, int, dict[str, int], int, int]:
    """Return heads, d, the counts of tiles, and the tile sizes of a case."""
    q, k, *_ = case.args
    (*batch, n_q, d), n_k = q.shape, k.shape[-2]
    b_q, b_k = (case.kwargs[f"block_{x}"] for x in "qk")
    counts = derived_counts(n_q, n_k, b_q, b_k, bool(case.kwargs.get("causal")))
    counts |= {"n_q": n_q, "n_k": n_k}
    if not case.counted:  # whole tiles may be loaded
        whole = counts["visited_tiles"]
        counts |= {"visited_q_rows": whole * b_q, "visited_k_rows": whole * b_k}
        counts |= {"n_q": counts["t_q"] * b_q, "n_k": counts["t_k"] * b_k}
    return math.prod(batch), d, counts, b_q, b_k


def _least(case: Case) -> Least:
    """Return the least of a case: K, O once, Q and lse per tile of keys that they see, dO twice."""
    heads, d, counts, b_q, b_k = sizes(case)
    visited, rows, keys = (heads * counts[name] for name in ("visited_q_rows", "n_q", "n_k"))
    return Least(
        rule="o, and do for delta, once; k once, and q, lse and do once for each tile of keys that "
        "they see; delta and dv stored once",
        loads={
            "q": visited * d,
            "k": keys * d,
            "o": rows * d,
            "lse": visited,
            "do": (visited + rows) * d,
        },
        stores=keys * d + rows,
        tiles={"k": (f"block_k={b_k}", b_k * d), "q": (f"block_q={b_q}", b_q * d)},
        flops=4 * heads * counts["visited_tiles"] * b_q * b_k * d,
        properties=dict.fromkeys(("q", "do", "lse"), "skips tiles that see nothing"),
        share=("a tile of keys", max(b_k * d, b_q)),  # or of rows, for delta
    )


def stands(case: Case, observed: Observed, expected: Any, *, keys_first: bool) -> Finding | None:
    """Ask that tiles of scores have the shape in which they are multiplied, where that shows."""
    b_q, b_k = (case.kwargs[f"block_{x}"] for x in "qk")
    if observed.ledger is None or b_q == b_k:
        return None
    first, last = ("block_k", "block_q") if keys_first else ("block_q", "block_k")
    shape = (b_q, b_k) if keys_first else (b_k, b_q)
    if not observed.ledger.dots[shape[0], case.args[0].shape[-1], shape[1]]:
        return None
    return Finding(
        "computes the scores transposed" if keys_first else "computes the scores as they stand",
        f"the numbers are right, but scores are made as ({last}, {first}) = {shape}, so that "
        "they must be transposed before they are multiplied.",
        look=f"make scores as ({first}, {last}), and nothing computed is transposed.",
    )


def _slip(
    weights: Weights = right,
    *,
    delta: Callable[..., Any] | None = None,
    values: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Return a model with one thing wrong: P, ``delta(o, do)``, or what P^T multiplies."""

    def model(
        q: Any, k: Any, o: Any, lse: Any, do: Any, *, causal: bool = False,
        block_q: int = 64, block_k: int = 64,
    ) -> Any:  # fmt: skip
        lse, o, do = as_float64(lse)[..., None], as_float64(o), as_float64(do)
        where = Where.of(q, k, causal=causal, block_q=block_q, block_k=block_k)
        with np.errstate(all="ignore"):
            p = weights(scaled_scores(q, k), lse, where)
            delta_row = delta(o, do) if delta else (o * do).sum(-1)
            dv = p.swapaxes(-1, -2) @ (values(o, do) if values else do)
            return delta_row, in_float32(dv)

    return model


def _summed_down(o: np.ndarray, do: np.ndarray) -> np.ndarray:
    """Return delta summed along axis 0 of tiles (d, d): of no other shape it can be stored."""
    d = o.shape[-1]
    return (o * do).reshape(*o.shape[:-2], -1, d, d).sum(-2).reshape(o.shape[:-1])


_MISTAKES = Mistake.table(
    *((name, says, _slip(weights))
      for name, says, weights in (*OF_TILES, *KEYS_OUTSIDE, *OF_MASKS)),
    ("o is taken for do", "P^T multiplies the gradient do, not the output o.",
     _slip(values=lambda o, do: o)),
    ("delta is not of do and o", "delta is the sum of do * o along a row.",
     _slip(delta=lambda o, do: (o * o).sum(-1)),
     _slip(delta=lambda o, do: (do * do).sum(-1))),
    ("delta is not of do and o", "delta is the sum of do * o along a row, not of do alone.",
     _slip(delta=lambda o, do: do.sum(-1))),
    ("a mean, not a sum", "delta is the sum along the row: nothing is divided by head_dim.",
     _slip(delta=lambda o, do: (o * do).mean(-1))),
    ("delta is summed down the columns",
     "delta is one number per query: sum along the row, axis 1 of (block_q, head_dim).",
     _slip(delta=_summed_down)),
    ("delta has the wrong sign",
     "delta is the plain sum of do * o; the minus comes later, in dP - delta.",
     _slip(delta=lambda o, do: -(o * do).sum(-1))),
)  # fmt: skip

DELTA_AND_DV = Exercise.of(
    "9.2",
    cases=_backward_cases,
    truth=_backward_truth,
    judge=in_turn(
        stored_whole(_judge_backward, "`delta`", "`dv`"),
        was_launched,
        linear_memory,
        counted(_least),
        partial(stands, keys_first=True),
    ),
    kind="kernel",
    spared={FAR: "lse is float32: near -20000 it is off by 1e-3, and so is every right weight"},
    mistakes=_MISTAKES,
)
