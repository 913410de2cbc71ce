"""Exercise 12.1: latent attention in its absorbed form: the cached rows are met as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging import sizes
from course_lib.judging.faults import find_fault
from course_lib.judging.finding import Finding
from course_lib.judging.judges import array_finding, hidden_finding
from course_lib.judging.picture import Bar, TrafficBars
from course_lib.judging.spec import FAR, REMAINDER, Case, Exercise, Mistake, Observed
from course_lib.judging.tolerance import as_float64, score_rounding
from course_lib.specs.lesson_10.caches import of_the_softmax, softmax, tensors

Array = np.ndarray
_SMALL = "makes nothing as large as K of all heads"


def _case(
    rng: Generator,
    name: str,
    shape: tuple[int, ...],
    *,
    size: float = 1.0,
    hard: draw.Triple | None = None,
    double: bool = False,
    strided: bool = False,
    **flags: Any,
) -> Case:
    """Return a case of (B, H, n, d_nope, d_rope, rank, d_v); ``hard`` q and k are the rotary part.

    ``strided``: a token's two rows are one, and so are a head's two matrices, as they are kept.
    """
    import torch

    batch, heads, n, d_nope, d_rope, rank, d_v = shape
    q_nope = rng.standard_normal((batch, heads, d_nope))
    drawn = hard or draw.draw(rng, heads, n, d_rope, heads=(batch,), size=size)
    q_rope, k_rope, _ = draw.in_double(rng, drawn)
    if hard:
        q_rope = 2 * q_rope  # drawn for sqrt(d_rope), divided by sqrt(d_nope + d_rope)
        q_nope[:, ::3] = 0
    latent = rng.standard_normal((batch, n, rank)) * size + 0.25
    w_uk, w_uv = (rng.standard_normal((heads, d, rank)) * rank**-0.5 for d in (d_nope, d_v))
    dtype = torch.float64 if double else torch.float32
    args = [x.to(dtype) for x in tensors((q_nope, q_rope, latent, k_rope, w_uk, w_uv))]
    if strided:
        args[2:4] = torch.cat(args[2:4], -1).split([rank, d_rope], -1)
        args[4:6] = torch.cat(args[4:6], 1).split([d_nope, d_v], 1)
    return Case(name, tuple(args), **flags)


def _cases(rng: Generator) -> list[Case]:
    n = int(rng.integers(6, 12))
    hard = draw.hard(rng, 3, 129, 16, heads=(2,))
    lowest = draw.farthest(rng, 3, 129, 16, heads=(2,))
    hard.append((draw.FARTHEST_NAME, lowest, frozenset({FAR, REMAINDER})))
    return [
        _case(rng, "2 sequences of 5 tokens, 3 heads", (2, 3, 5, 8, 4, 16, 6)),
        # early: slips in tiles are alike in one tile, and a name is confirmed by what comes next
        _case(rng, "a sequence of 150 tokens, 2 heads", (1, 2, 150, 6, 10, 12, 7)),
        _case(rng, f"3 sequences of {n} tokens, 2 heads", (3, 2, n, 6, 10, 12, 7)),
        _case(rng, "one token: all the weight is its own", (2, 4, 1, 6, 2, 9, 5)),
        _case(rng, "cached rows and weights that lie in memory as one", (2, 3, 7, 8, 4, 16, 6),
              strided=True),
        _case(rng, "values as wide as the keys without a position", (2, 3, 7, 8, 4, 16, 8)),
        _case(rng, "a latent of fewer numbers than a head", (2, 3, 7, 12, 4, 5, 8)),
        _case(rng, "large scores (cached rows times 4), float64", (2, 3, 9, 6, 4, 16, 5), size=4,
              double=True),
        *_sized(rng),
        *(
            _case(rng, f"{name}, float64", (2, 3, 129, 48, 16, 24, 5), hard=qkv, double=True,
                  shows=shows)
            for name, qkv, shows in hard
        ),
        _case(rng, "2 sequences of 1024 tokens, 16 heads: counted", (2, 16, 1024, 128, 8, 80, 96),
              counted=True),
    ]  # fmt: skip


def _sized(rng: Generator) -> Iterator[Case]:
    """Yield sizes that are alike, or one alone, in any two places."""
    some = (1, 2, 3, 17)
    for one in sizes.paired(
        rng,
        batch=sizes.FEW,
        heads=sizes.FEW,
        n=(2, 3, 17, 65),
        d_nope=some,
        d_rope=some,
        rank=some,
        d_v=some,
    ):
        name = ", ".join(f"{size} = {number}" for size, number in one.items())
        yield _case(rng, name, tuple(one.values()))


def _answer(
    *,
    scale: Callable[[int, int, int], Any] = lambda nope, rope, rank: (nope + rope) ** -0.5,
    weights: Callable[[Array, Array], Array] = lambda s_nope, s_rope: softmax(s_nope + s_rope),
    absorbed: Callable[[Array, Array], Array] = lambda q, w: np.einsum("bhd,hdr->bhr", q, w),
    met: Callable[[Array, Array], tuple[Array, Array]] = lambda *q: q,
    seen: Callable[[Array], Array] = lambda rows: rows,
    projected: Callable[[Array, Array], Array] = lambda o, w: np.einsum("bhr,hvr->bhv", o, w),
) -> Callable[..., Any]:
    """Return a model: ``scale`` of (d_nope, d_rope, rank), for each part one if they are two.

    ``weights`` are made of the scores of both parts, (B, H, n); ``met`` is what of a query meets
    the latent row and the rotary key; ``seen`` are the cached rows (B, n, ...) that count.
    """

    def model(q_nope: Any, q_rope: Any, latent: Any, k_rope: Any, w_uk: Any, w_uv: Any) -> Array:
        q_nope, q_rope, latent, k_rope, w_uk, w_uv = (
            as_float64(x) for x in (q_nope, q_rope, latent, k_rope, w_uk, w_uv)
        )
        by = np.broadcast_to(scale(q_nope.shape[-1], q_rope.shape[-1], latent.shape[-1]), 2)
        queries = met(absorbed(q_nope, w_uk), q_rope)
        rows = seen(latent), seen(k_rope)
        s = (x * (q @ k.mT) for x, q, k in zip(by, queries, rows, strict=True))
        with np.errstate(all="ignore"):
            return projected(weights(*s) @ rows[0], w_uv)

    return model


def _judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
    q = case.args[0]
    if fault := find_fault(observed.result, q.new_empty(expected.shape)):
        return fault
    return array_finding(
        observed.result,
        expected,
        allowed=_allowed(case.args, expected),
        name="`o`",
        axes=("sequence", "head", "column"),
    ) or _building_finding(case, observed)


def _allowed(args: tuple[Any, ...], truth: Array) -> float:
    """Return what o may be off by, in the inputs' precision."""
    q_nope, q_rope, latent, k_rope, w_uk, w_uv = (as_float64(x) for x in args)
    biggest = max(1.0, float(np.abs(truth).max()))
    if args[0].element_size() == 8:
        return 1e-9 * biggest
    q = np.concatenate([np.einsum("bhd,hdr->bhr", q_nope, w_uk), q_rope], axis=-1)
    k = np.concatenate([latent, k_rope], axis=-1)
    return 1e-5 * biggest + 2 * score_rounding(q, k, np.einsum("bnr,hvr->bhnv", latent, w_uv))


def _building_finding(case: Case, observed: Observed) -> Finding | None:
    """Return a finding if half of what K of all heads takes is written, in whatever pieces."""
    if observed.ledger is None:
        return None
    q_nope, _, latent, _, _, _ = case.args
    keys = q_nope.nbytes * latent.shape[1]  # (B, H, n, d_nope)
    if hidden := hidden_finding(observed.ledger):
        return hidden
    written = [x for x in observed.ledger.crossings if x.direction == "written"]
    made = sum(x.n_bytes for x in written)
    if made <= keys // 2:
        return None
    largest = max(written, key=lambda x: x.n_bytes)
    return Finding(
        _SMALL,
        f"the numbers are right, but {made:,} bytes of new tensors are written, the largest by "
        f"`{largest.op}` ({largest.n_bytes:,} bytes). K of all heads, without the rotary part, has "
        f"{keys:,}.",
        look="multiply q by w_uk: one row a head, not one a head and token; do the same behind the "
        "average with w_uv. And let the heads be rows of one matrix, q_latent @ latent.mT: a "
        "product that broadcasts cached rows over the heads copies them (that is a `clone`).",
        picture=TrafficBars("Written", (Bar("new tensors", made, keys // 2),), limit=True),
    )


def _reshaped(w: Array) -> Array:
    """Return w (H, d, rank) as (H, d, rank) once more, read as if it lay as (H, rank, d)."""
    heads, d, rank = w.shape
    return w.reshape(heads, rank, d).mT


def _crosswise(q_latent: Array, q_rope: Array) -> tuple[Array, Array]:
    """Return what [q_rope, q_latent] meets in a row [latent, k_rope]."""
    q = np.concatenate([q_rope, q_latent], axis=-1)
    rank = q_latent.shape[-1]
    return q[..., :rank], q[..., rank:]


def _first(x: Array) -> Array:
    return np.broadcast_to(x[:1], x.shape)


def _with_one_matrix(*inputs: Any) -> Array:
    """Return what comes of w_uk in place of w_uv wherever it can stand there."""
    *others, w_uk, w_uv = inputs
    answer: Array = _answer()(*others, w_uk, w_uk if w_uk.shape == w_uv.shape else w_uv)
    return answer


_MISTAKES = Mistake.table(
    ("the scale of the absorbed query",
     "absorbed, a query is longer, but its product with a key is the number that it was: the "
     "scale stays 1/sqrt(d_nope + d_rope). In DeepSeek-V2 that is 1/sqrt(192), not 1/sqrt(576).",
     _answer(scale=lambda nope, rope, rank: (rank + rope) ** -0.5),
     _answer(scale=lambda nope, rope, rank: rank**-0.5),
     _answer(scale=lambda nope, rope, rank: (nope + rope + rank) ** -0.5)),
    ("the scale counts one part only",
     "a query has d_nope + d_rope numbers, and the scale is 1/sqrt of all of them.",
     _answer(scale=lambda nope, rope, rank: nope**-0.5),
     _answer(scale=lambda nope, rope, rank: rope**-0.5)),
    ("each part has a scale of its own",
     "the two parts are one product of d_nope + d_rope numbers: add them, then scale the sum.",
     _answer(scale=lambda nope, rope, rank: (nope**-0.5, rope**-0.5))),
    ("only one part is scaled", "the two parts are one product: add them, then scale the sum.",
     _answer(scale=lambda nope, rope, rank: ((nope + rope) ** -0.5, 1)),
     _answer(scale=lambda nope, rope, rank: (1, (nope + rope) ** -0.5))),
    ("the scale is missing", "divide the scores by sqrt(d_nope + d_rope).",
     _answer(scale=lambda nope, rope, rank: 1)),
    ("the scale is upside down", "divide the scores by sqrt(d_nope + d_rope).",
     _answer(scale=lambda nope, rope, rank: (nope + rope) ** 0.5)),
    ("scaled twice", "divide the scores by sqrt(d_nope + d_rope), once.",
     _answer(scale=lambda nope, rope, rank: 1 / (nope + rope))),
    ("the rotary part is missing",
     "w_uk makes the part of a key that knows no position: add q_rope with k_rope to each score.",
     _answer(weights=lambda s_nope, s_rope: softmax(s_nope)),
     _answer(scale=lambda nope, rope, rank: (nope**-0.5, 0))),
    ("only the rotary part is used",
     "a score is the sum of both parts: add q_nope, multiplied by w_uk, with the latent row.",
     _answer(weights=lambda s_nope, s_rope: softmax(s_rope))),
    ("each part has a softmax of its own",
     "the parts of a score are added: then comes one softmax.",
     _answer(weights=lambda s_nope, s_rope: softmax(s_nope) + softmax(s_rope)),
     _answer(weights=lambda s_nope, s_rope: (softmax(s_nope) + softmax(s_rope)) / 2),
     _answer(weights=lambda s_nope, s_rope: softmax(s_nope) * softmax(s_rope))),
    ("the parts of the query meet the wrong parts of the row",
     "q multiplied by w_uk belongs to the latent row, q_rope to k_rope: put both together in one "
     "order.",
     _answer(met=_crosswise)),
    ("a weight is reshaped where it should be transposed",
     "reshape reads the numbers on in the order in which they lie: w_uv[h] is (d_v, rank), and "
     "its transpose is w_uv[h].T.",
     _answer(absorbed=lambda q, w: np.einsum("bhd,hdr->bhr", q, _reshaped(w))),
     _answer(projected=lambda o, w: np.einsum("bhr,hvr->bhv", o, _reshaped(w)))),
    ("w_uk brings the average back",
     "v_j = W^UV c_j: w_uk made the query as long as a latent row, and w_uv takes what was "
     "averaged to d_v numbers, also where both have one shape.",
     _with_one_matrix),
    ("w_uk is transposed where it is square",
     "a query of d_nope numbers becomes one of rank: q @ w_uk[h], as w_uk[h] is (d_nope, rank).",
     _answer(absorbed=lambda q, w: np.einsum("bhd,hrd->bhr", q, w))),
    ("all heads use one head's matrix",
     "the cached row is shared, w_uk and w_uv are not: head h has w_uk[h] and w_uv[h].",
     _answer(absorbed=lambda q, w: np.einsum("bhd,hdr->bhr", q, _first(w))),
     _answer(projected=lambda o, w: np.einsum("bhr,hvr->bhv", o, _first(w)))),
    ("the values are cut out of the latent row",
     "what is averaged is a latent row: w_uv[h] makes the value of head h of it.",
     _answer(projected=lambda o, w: o[..., : w.shape[1]])),
    ("all sequences see one sequence's rows", "sequence b looks at latent[b] and k_rope[b].",
     _answer(seen=_first)),
    ("a cached token is left out",
     "the newest token looks at all n cached rows, its own among them: nothing is hidden.",
     _answer(seen=lambda rows: rows[:, :-1]), _answer(seen=lambda rows: rows[:, 1:])),
    ("the softmax runs over the heads",
     "each head's weights add up to 1 over the tokens: the last axis of (B, H, n).",
     _answer(weights=lambda s_nope, s_rope: softmax((s_nope + s_rope).mT).mT)),
    *((name, says, _answer(weights=lambda *s, made=made: made(s[0] + s[1])))
      for name, says, made in of_the_softmax(np.float64)),
)  # fmt: skip

EXERCISE = Exercise.of(
    "12.1",
    cases=_cases,
    truth=_answer(),
    judge=_judge,
    kind="torch",
    mistakes=_MISTAKES,
)
