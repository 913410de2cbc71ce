"""Exercise 10★: several guesses are checked at once: the mask of a tree of drafts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.attention.decode import ancestors
from course_lib.judging import cases as draw
from course_lib.judging import sizes
from course_lib.judging.faults import find_fault
from course_lib.judging.finding import Finding
from course_lib.judging.judges import array_finding
from course_lib.judging.spec import FAR, REMAINDER, Case, Exercise, Mistake, Observed
from course_lib.judging.tolerance import as_float64
from course_lib.specs.lesson_10.caches import (
    allowed,
    copy_finding,
    hidden_otherwise,
    of_the_scale,
    read_finding,
    scores,
    softmax,
    tensors,
)

Array = np.ndarray
CHAIN = [-1, 0, 1, 2]


def _case(
    rng: Generator,
    name: str,
    parents: list[int],
    cached: int,
    d: int = 8,
    *,
    drawn: Callable[..., draw.Triple] = draw.draw,
    by: tuple[float, ...] = (),
    heads: tuple[int, int] = (2, 2),
    double: bool = False,
    **flags: Any,
) -> Case:
    import torch

    n_q = len(parents)
    qkv = drawn(rng, n_q, cached + n_q, d, *by, heads=heads)
    qkv = draw.in_double(rng, qkv) if double else qkv
    return Case(name, (*tensors(qkv), torch.tensor(parents)), **flags)


def _drawn_tree(rng: Generator, n: int) -> list[int]:
    """Return a tree in which tokens continue the cache, their neighbour, or anybody."""
    parents = [-1]
    for i in range(1, n):
        kind = rng.integers(4)
        parents.append(-1 if kind == 0 else i - 1 if kind == 1 else int(rng.integers(0, i)))
    return parents


def _deep_tree(rng: Generator, n: int) -> list[int]:
    """Return a tree of which two thirds are one line, and the others hang on anybody."""
    line = {0, *rng.choice(np.arange(1, n), 2 * n // 3 - 1, replace=False).tolist()}
    parents, last = [-1], 0
    for i in range(1, n):
        parents.append(last if i in line else int(rng.integers(0, i)))
        last = i if i in line else last
    return parents


def _cases(rng: Generator) -> list[Case]:
    def case(name: str, parents: list[int], cached: int, **how: Any) -> Case:
        name = f"{name}: parents {parents}, {cached} cached keys"
        return _case(rng, name, parents, cached, **how)

    hard = (draw.jumping, (2000.0,)), (draw.far_below, (draw.FAR_BELOW,))
    tree = [-1, 0, 0, 2, 1, 4, 2]
    return [
        case("two guesses for the next token, one continued", [-1, -1, 0], 6),
        case("a tree three deep", [-1, 0, 0, 1, 2, 2], 9),
        case("a drawn tree", _drawn_tree(rng, 7), int(rng.integers(5, 15))),
        case("a chain, which is causal", CHAIN, 5),
        case("a star: guesses that do not see each other", [-1] * 5, 7),
        case("branches in turns", [-1, -1, 0, 1, 2, 3], 8),
        case("an empty cache", [-1, 0, 0, 1], 0),
        case("a long line with branches", _deep_tree(rng, 10), 4),
        _case(rng, "more drafts than an integer has bits: 70", _deep_tree(rng, 70), 4),
        case("large scores (q and k times 4)", _drawn_tree(rng, 6), 11,
             drawn=partial(draw.draw, size=4)),
        *(
            _case(rng, f"{name}, float64", tree, 10, 16, drawn=how, by=by, double=True,
                  shows=shows - {REMAINDER})
            for (name, _, shows), (how, by) in zip(draw.hard(rng, 7, 17, 16), hard, strict=True)
        ),
        # who adds -1e4 to a score does not hide it where others lie further below
        _case(rng, draw.FARTHEST_NAME, tree, 10, 16, drawn=draw.farthest, shows=frozenset({FAR})),
        *(
            case(f"{n} drafts, {cached} cached keys, {one['heads']} heads, d = {one['d']}",
                 _drawn_tree(rng, n), cached, d=one["d"], heads=(one["batch"], one["heads"]),
                 blind_to=frozenset({"mean(V)", "V"} if n + cached == 1 else ()))
            for one in sizes.paired(
                rng, n=(1, 2, 3, 8, 17), cached=sizes.BESIDE, d=sizes.WIDTHS, batch=sizes.FEW,
                heads=sizes.FEW,
            )
            for n, cached in [(one["n"], one["cached"](one["n"]))]
        ),
        _case(rng, "a drawn tree of 15 drafts, 400 cached keys: counted", _deep_tree(rng, 15), 400,
              256, heads=(1, 2), counted=True),  # a wide d: scores are no copies of the cache
    ]  # fmt: skip


Family = Callable[[list[int]], Array]  # parents -> bool (n_q, n_q): who sees which draft


def _behind_the_cache(drafts: Array, cached: int, *, old: bool = True) -> Array:
    """Return the whole mask: who sees which draft, behind ``cached`` keys that all see."""
    return np.pad(drafts, ((0, 0), (cached, 0)), constant_values=old)


def _answer(
    family: Family = ancestors,
    *,
    seen: Callable[[Array, int], Array] = _behind_the_cache,
    fill: float = -np.inf,
    added: bool = False,
    power: float = 0.5,
    masked: Callable[[Array, Array, Any], Array] = lambda s, mask, fill: softmax(
        np.where(mask, s, fill)
    ),
) -> Callable[..., Any]:
    """Return a model by which drafts are seen; ``seen(family, cached)`` makes the whole mask."""

    def model(q: Any, k: Any, v: Any, parents: Any) -> Array:
        parents = [int(x) for x in parents]
        mask = seen(family(parents), k.shape[-2] - len(parents))
        s = scores(q, k, power)
        answer: Array = masked(s, mask, s + fill if added else fill) @ as_float64(v)
        return answer

    return model


def _judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
    q, k, v, _ = case.args
    if fault := find_fault(observed.result, q.new_empty(expected.shape)):
        return fault
    finding = array_finding(
        observed.result,
        expected,
        allowed=allowed(expected, q, k, v),
        name="`o`",
        axes=("sequence", "head", "draft", "column"),
    )
    if finding or observed.ledger is None:
        return finding
    cached = k.nbytes + v.nbytes
    return copy_finding(observed.ledger, k.nbytes, cached) or read_finding(
        observed.ledger, cached, 1, 2
    )


def _chain(parents: list[int]) -> Array:
    return np.tri(len(parents), dtype=bool)


def _eye(parents: list[int]) -> Array:
    return np.eye(len(parents), dtype=bool)


def _parent_only(parents: list[int]) -> Array:
    seen = _eye(parents)
    for child, parent in enumerate(parents):
        if parent >= 0:
            seen[child, parent] = True
    return seen


def _so_far_up(generations: int, parents: list[int]) -> Array:
    """Return who sees itself and so many generations of ancestors."""
    seen = np.linalg.matrix_power(_parent_only(parents).astype(int), generations) > 0
    return np.asarray(seen)


def _last_for_none(parents: list[int]) -> Array:
    """Return what becomes of -1 as an index: the last draft, and its line."""
    seen = _eye(parents)
    for child, parent in enumerate(parents):
        seen[child] |= seen[parent]
        seen[child, parent] = True
    return seen


def _last_too(parents: list[int]) -> Array:
    seen = ancestors(parents)
    seen[:, -1] = True
    return seen


def _before_the_drafts(lines: Callable[[Array], Any], drafts: Array, cached: int) -> Array:
    """Return what cached - 1 is as an index in ``lines``: the last cached key, or draft of all."""
    mask = _behind_the_cache(drafts, cached)
    mask[lines(drafts), cached - 1] = True
    return mask


def _first_for_none(parents: list[int]) -> Array:
    return ancestors([parent if parent >= 0 else min(0, i - 1) for i, parent in enumerate(parents)])


def _while_positive(itself: bool, parents: list[int]) -> Array:
    """Return who walks up ``while parent > 0``: draft 0 is not reached, not even by ``itself``."""
    seen = ancestors(parents)
    seen[1 - itself :, 0] = False
    return seen


def _first_guesses_only(drafts: Array, cached: int) -> Array:
    """Return a mask in which the cache is seen by those that continue it."""
    old = np.repeat(drafts.sum(1, keepdims=True) == 1, cached, axis=1)
    return np.concatenate([old, drafts], axis=1)


def _one_less(drafts: Array, cached: int) -> Array:
    mask = _behind_the_cache(drafts, cached)
    mask[:, max(0, cached - 1) : cached] = False
    return mask


def _after_softmax_normed(s: Array, mask: Array, _fill: float) -> Array:
    weights = softmax(s) * mask
    with np.errstate(all="ignore"):
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _by_depth(parents: list[int]) -> Array:
    """Return who sees itself and whoever stands nearer to the cache."""
    depth = ancestors(parents).sum(1)
    return (depth[None, :] < depth[:, None]) | _eye(parents)


def _siblings(parents: list[int]) -> Array:
    same = np.equal.outer(parents, parents) & _chain(parents)
    return ancestors(parents) | same


def _family(parents: list[int]) -> Array:
    """Return who sees all drafts of the same first guess that came before."""
    lines = ancestors(parents)
    root = lines.argmax(1)
    return (root[:, None] == root[None, :]) & _chain(parents)


_MISTAKES = Mistake.table(
    ("a chain, not a tree",
     "drafts that stand before one another in memory need not continue one another: a draft sees "
     "its ancestors, not its neighbours.",
     _answer(_chain)),
    ("no draft is hidden",
     "without a mask a draft sees what comes after it, and other guesses as well.",
     _answer(lambda parents: np.ones((len(parents), len(parents)), dtype=bool))),
    ("the line ends too early", "an ancestor's ancestors are ancestors, all the way to the cache.",
     _answer(_parent_only),
     *(_answer(partial(_so_far_up, generations)) for generations in range(2, 9)),
     *(_answer(partial(_while_positive, itself)) for itself in (False, True))),
    ("a draft sees itself only",
     "a draft sees the drafts that it continues as well: its ancestors.",
     _answer(_eye)),
    ("a draft does not see itself", "each token sees itself: the diagonal is True.",
     _answer(lambda parents: ancestors(parents) & ~_eye(parents))),
    ("no draft is seen", "a draft sees the cache, its ancestors and itself.",
     _answer(lambda parents: _eye(parents) & False)),
    ("children instead of ancestors",
     "row i of the mask is what draft i sees: where it comes from, not what comes of it.",
     _answer(lambda parents: ancestors(parents).T),
     _answer(lambda parents: _parent_only(parents).T)),
    ("children as well as ancestors",
     "row i of the mask is what draft i sees: where it comes from, not what comes of it.",
     _answer(lambda parents: ancestors(parents) | ancestors(parents).T)),
    ("-1 is taken for a draft",
     "-1 says that a draft continues the cache. As an index it is the last of all drafts.",
     _answer(_last_for_none),
     _answer(_last_too),
     _answer(_first_for_none),
     _answer(seen=partial(_before_the_drafts, lambda drafts: drafts.sum(1) == 1)),
     _answer(seen=partial(_before_the_drafts, lambda drafts: np.s_[:]))),  # each line is walked up
    ("relatives that are no ancestors are seen",
     "two guesses for one place exclude each other: only the line from a draft back to the cache "
     "is seen.",
     _answer(_siblings), _answer(_by_depth), _answer(_family)),
    ("the mask is aligned at the start",
     "the drafts are the LAST n_q keys: the tree stands at the end of the mask.",
     _answer(seen=lambda drafts, cached: np.pad(drafts, ((0, 0), (0, cached)))),
     _answer(seen=lambda drafts, cached: _behind_the_cache(drafts[:, ::-1], cached)[:, ::-1]),
     # PyTorch's is_causal: query i sees the first i + 1 keys
     _answer(seen=lambda drafts, cached: np.tri(len(drafts), cached + len(drafts), dtype=bool))),
    ("the mask is upside down", "True says that a key is seen: what is not seen gets -inf.",
     _answer(seen=lambda drafts, cached: ~_behind_the_cache(drafts, cached))),
    ("the cache is not seen", "every draft sees all that is older than the drafts.",
     _answer(seen=partial(_behind_the_cache, old=False))),
    ("only the first guesses see the cache",
     "every draft sees all that is older than the drafts, those that continue another as well.",
     _answer(seen=_first_guesses_only)),
    ("the newest cached key is not seen",
     "the cache has n_k - n_q rows, 0 to n_k - n_q - 1: every draft sees the last of them too.",
     _answer(seen=_one_less)),
    ("the mask comes after the softmax",
     "what is hidden took part in the maximum and in the sum: it gets the score -inf, before the "
     "softmax.",
     _answer(masked=lambda s, mask, _: softmax(s) * mask),
     _answer(masked=_after_softmax_normed)),
    ("True and False are added to the scores",
     "as numbers they are 1 and 0, and hide nothing: a mask that is added holds 0 where a key is "
     "seen and -inf where it is hidden.",
     _answer(masked=lambda s, mask, _: softmax(s + mask))),
    *hidden_otherwise(_answer),
    *of_the_scale(lambda power: _answer(power=power)),
)  # fmt: skip

EXERCISE = Exercise.of(
    "10-star",
    cases=_cases,
    truth=_answer(),
    judge=_judge,
    kind="torch",
    spared={REMAINDER: "nothing is cut into tiles here"},
    mistakes=_MISTAKES,
)
