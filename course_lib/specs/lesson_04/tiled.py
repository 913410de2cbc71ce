"""Exercises 4.2 and 4.3: tiled attention. The score matrix must never exist.

4.3 is a loop around 4.2: they share cases, walk and mistakes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from course_lib.attention.slips import SLIPS
from course_lib.attention.truth import attention_float64
from course_lib.judging import cases, magnitudes, sizes
from course_lib.judging.attention_judge import attention_judge, attention_truth, output_only
from course_lib.judging.desk import Once, on_a_desk, taken_once
from course_lib.judging.finding import Finding
from course_lib.judging.misconceptions import (
    ALL_NAN,
    BASES,
    BOUNDED,
    CLIPPED,
    LATE,
    LEFT_OUT,
    MOST_BELOW,
    NOT_THE_MAXIMUM,
    ONLY_RISES,
    SAYS,
    SMALL_RISE,
    STALE,
    STARTS_LOW,
    TWO_DESKS,
    UNSCALED_MAXIMUM,
    attention_mistakes,
)
from course_lib.judging.misread import Misreading, Model
from course_lib.judging.spec import Case, Exercise, Mistake, Observed, table

judge_output = attention_judge(with_lse=False, in_dtype=False)


def _loaded_once(case: Case) -> dict[str, Once]:
    """Return how often q, k and v may be taken: K and V once for each Q tile."""
    q, k, _ = case.args
    block_q, block_k = case.kwargs.get("block_q", len(q)), case.kwargs["block_k"]
    t_q, t_k = -(-len(q) // block_q), -(-len(k) // block_k)
    least = -(-t_q // 2) if t_k > 1 else 1  # there and back: a tile lies there for two Q tiles
    per_q_tile = " per Q tile" if "block_q" in case.kwargs else ""
    keys = {
        name: Once(
            f"loads {name} once{per_q_tile}",
            f"row {{}} of {name}",
            t_q,
            tile=(block_k, t_q * t_k),
            least=least if name == "k" else 0,  # of v, weights may be 0
        )
        for name in "kv"
    }
    once = Once("loads q once", "row {} of q", tile=(block_q, t_q), why=partial(_keys_outside, t_k))
    return {"q": once, **keys}


def _keys_outside(t_k: int, times: NDArray[np.int64]) -> str:
    if (times != t_k).any():
        return ""
    return "your loop over K/V tiles is the outer one. Here the loop over Q tiles is outside."


def much_held(case: Case, held: int) -> Finding | None:
    """Return what is wrong with having held so many bytes: half of K, or of a Q tile's scores."""
    q, k = case.args[:2]
    n_q, n_k = q.shape[-2], k.shape[-2]
    scores = 8 * n_q * n_k
    if held <= min(scores, k.nbytes) // 2:
        return None
    return Finding(
        "never holds all scores" if held > scores // 2 else "holds tiles only",
        f"the answer is right, but your function held {held / 1e6:.2f} MB at once; all of k are "
        f"{k.nbytes / 1e6:.2f} MB, all {n_q} x {n_k} scores {scores / 1e6:.2f} MB. Hold one "
        "tile of keys and its scores at a time, and no copies.",
    )


_judge_tiled = taken_once(judge_output, _loaded_once, much_held, part="tile")


def _run_q_tile(function: Callable[..., Any], case: Case) -> Observed:
    return on_a_desk(function, case, ("k", "v"))  # q_tile lies there already


def run_all_tiles(function: Callable[..., Any], case: Case) -> Observed:
    """Run the student's function on q, k and v that are taken from a desk."""
    return on_a_desk(function, case, ("q", "k", "v"))


def in_double(triple: cases.Triple) -> cases.Triple:
    """Return q, k, v as float64, the type of the lesson's NumPy."""
    q, k, v = (x.astype(np.float64) for x in triple)
    return q, k, v


def _q_tile_cases(rng: Generator) -> list[Case]:
    def case(name: str, qkv: cases.Triple, block_k: int, **flags: Any) -> Case:
        return Case(name, in_double(qkv), {"block_k": block_k}, **flags)

    q, k, v = in_double(cases.shifted(rng, 6, 20, 4, 1000))
    q[::2, 0] *= -1  # every other row's scores lie near -1000, the others' near 1000
    jumping, far = (
        case(f"{name}; the last tile holds one key", qkv, 8, shows=shows)
        for name, qkv, shows in cases.hard(rng, 9, 33, 16)
    )
    return [
        case("5 queries, 12 keys in tiles of 4", cases.draw(rng, 5, 12, 6), 4),
        case("7 queries, 10 keys in tiles of 4: the last tile is short",
             cases.draw(rng, 7, 10, 5), 4),
        case("fewer keys than one tile", cases.draw(rng, 5, 3, 8), 16),
        case("each tile's scores are larger than the last", cases.sloped(rng, 6, 37, 8, 40.0), 8),
        case("each tile's scores are smaller than the last", cases.sloped(rng, 6, 37, 8, -40.0), 8),
        # 1000 before -1000: no maximum at all fails on both, one that starts at 0 on the second;
        # between them what is no maximum fails, and what starts at 0 does not
        case("scores near 1000", cases.shifted(rng, 6, 20, 4, 1000), 8),
        jumping,
        case("scores near -1000", cases.shifted(rng, 6, 20, 4, -1000), 8),
        case("rows near -1000 and rows near 1000 in one tile", (q, k, v), 8),
        case("as many queries as a tile has keys, and as d", cases.draw(rng, 8, 29, 8, size=2), 8),
        case("48 queries, 4096 keys in tiles of 32, memory measured",
             cases.draw(rng, 48, 4096, 8), 32, counted=True),
        case("the first key of each tile scores 2000 less than the others", _first_low(rng), 4),
        far,
        case(cases.FARTHEST_NAME, cases.farthest(rng, 5, 11, 4), 4),
        case("a single query, tiles of one key", cases.draw(rng, 1, 6, 4), 1),
        case(cases.MANY_NAME, cases.many_tiles(rng), 1),
        case(cases.CREEP_NAME, cases.creeping(rng, 3, 21, 4, cases.CREEP), 4,
             blind_to=frozenset({"mean(V)"})),
        *(case(name, qkv, 4) for name, qkv in magnitudes.attention(rng, 3, 14, 4)),
        *(case(f"{n_q} queries, {n_k} keys in tiles of {block_k}, d = {d}",
               cases.draw(rng, n_q, n_k, d), block_k)
          for n_q, n_k, d, _, block_k in sizes.tiled(rng)),
    ]  # fmt: skip


def _first_low(rng: Generator) -> cases.Triple:
    """Return inputs for tiles of 4 keys, of which the first is not the largest, nor the last."""
    q, k, v = in_double(cases.draw(rng, 5, 14, 4))
    q[:, 0], k[:, 0] = 2, 0
    k[::4, 0] = -2000
    return q, k, v


def _tiled_cases(rng: Generator) -> list[Case]:
    def case(name: str, qkv: cases.Triple, block_q: int, block_k: int, **flags: Any) -> Case:
        return Case(name, in_double(qkv), {"block_q": block_q, "block_k": block_k}, **flags)

    n_q, n_k = int(rng.integers(20, 40)), int(rng.integers(41, 70))
    drawn = [
        case("12 queries in tiles of 4, 10 keys in tiles of 5", cases.draw(rng, 12, 10, 6), 4, 5),
        case("11 queries in tiles of 4: the last is short", cases.draw(rng, 11, 12, 6), 4, 4),
        case("more keys than queries, both ragged", cases.draw(rng, n_q, n_k, 8), 16, 12),
        case("more queries than keys, both ragged", cases.draw(rng, n_k, n_q, 8), 8, 16),
        case("tiles larger than everything", cases.draw(rng, 5, 7, 4), 64, 32),
        case("large scores, tiles as wide as d", cases.draw(rng, 33, 35, 8, size=4), 8, 8),
        case("scores climb along the row", cases.sloped(rng, n_q, n_k, 8, 40.0), 16, 8),
        case("scores fall along the row", cases.sloped(rng, n_q, n_k, 8, -40.0), 16, 8),
        case("scores near 1000", cases.shifted(rng, 20, 22, 4, 1000), 8, 6),
        case("scores near -1000", cases.shifted(rng, 20, 22, 4, -1000), 8, 6),
        case("a single key", cases.draw(rng, 5, 1, 4), 2, 4, blind_to=frozenset({"mean(V)"})),
        # few tiles of many keys: who has them all in a list, as np.split gives them, holds an
        # object for each
        case("64 queries, 8192 keys, tiles of 16 and 128, memory measured",
             cases.draw(rng, 64, 8192, 8), 16, 128, counted=True),
        *(case(f"{name}; the last tiles hold one query and one key", qkv, 4, 8, shows=shows)
          for name, qkv, shows in cases.hard(rng, 21, 33, 16)),
    ]  # fmt: skip
    ones = case("tiles of one query and one key", cases.draw(rng, 3, 5, 4), 1, 1)
    farthest = case(cases.FARTHEST_NAME, cases.farthest(rng, 7, 11, 4), 4, 4)
    many = case(cases.MANY_NAME, cases.many_tiles(rng), 4, 1)
    creeping = case(cases.CREEP_NAME, cases.creeping(rng, 3, 21, 4, cases.CREEP), 2, 4,
                    blind_to=frozenset({"mean(V)"}))  # fmt: skip
    related = [
        case(f"{n_q} queries in tiles of {block_q}, {n_k} keys in tiles of {block_k}, d = {d}",
             cases.draw(rng, n_q, n_k, d), block_q, block_k)
        for n_q, n_k, d, block_q, block_k in sizes.tiled(rng)
    ]  # fmt: skip
    wide = [case(name, qkv, 2, 4) for name, qkv in magnitudes.attention(rng, 3, 14, 4)]
    whole = case(cases.WHOLE_NAME, cases.jumping(rng, 6, 16, 4, 2000), 4, 8)
    return [*drawn, farthest, ones, many, creeping, *wide, *related, whole]


def _tiles_of_keys(k: Any, v: Any, block_k: int) -> list[tuple[Any, Any]]:
    return [(k[j : j + block_k], v[j : j + block_k]) for j in range(0, len(k), block_k)]


def _of_each_tile(pick: Callable[[list[np.ndarray]], np.ndarray]) -> Callable[..., np.ndarray]:
    """Return a model that makes ``pick`` of the answers that tiles of keys have on their own."""

    def model(q: Any, k: Any, v: Any, block_k: int, **_tiles: int) -> np.ndarray:
        return pick([attention_float64(q, *tile)[0] for tile in _tiles_of_keys(k, v, block_k)])

    return model


def _but_the_last(q: Any, k: Any, v: Any, block_k: int, *, lone: bool, **_tiles: int) -> np.ndarray:
    """Return what is left without the short last tile, or only without one of a ``lone`` key."""
    n = max(1, len(k) - (len(k) % block_k == 1)) if lone else len(k) // block_k * block_k
    return attention_float64(q, k[:n], v[:n])[0]


def _scaled_by(rows: Callable[..., int]) -> Callable[..., np.ndarray]:
    def model(q: Any, k: Any, v: Any, **_tiles: int) -> np.ndarray:
        return attention_float64(q * np.sqrt(q.shape[1] / rows(q, k)), k, v)[0]

    return model


def _one_sum_per_tile(q: Any, k: Any, v: Any, block_k: int, **_tiles: int) -> np.ndarray:
    """Return what sums of p over queries as well as keys give, all else being right."""
    m, l_sum = np.full((len(q), 1), -np.inf), 0.0
    o = np.zeros((len(q), v.shape[1]))
    for k_tile, v_tile in _tiles_of_keys(k, v, block_k):
        s = q @ k_tile.T / np.sqrt(q.shape[1])
        m_new = np.maximum(m, s.max(axis=1, keepdims=True))
        alpha, p = np.exp(m - m_new), np.exp(s - m_new)
        m, l_sum, o = m_new, alpha * l_sum + p.sum(), alpha * o + p @ v_tile
    return o / l_sum


def _along_columns(
    q: Any, k: Any, v: Any, block_k: int, block_q: int = 0, *, of: str
) -> np.ndarray:
    """Return what alpha, or l at the end, makes of o without [:, None] in tiles of d rows."""
    out = []
    for first in range(0, len(q), block_q or len(q)):
        rows = q[first : first + (block_q or len(q))]
        fits = len(rows) == v.shape[1]
        m, l_sum, o = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros((len(rows), 1))
        for k_tile, v_tile in _tiles_of_keys(k, v, block_k):
            s = rows @ k_tile.T / np.sqrt(q.shape[1])
            m_new = np.maximum(m, s.max(axis=1))
            alpha, p = np.exp(m - m_new), np.exp(s - m_new[:, None])
            m, l_sum = m_new, alpha * l_sum + p.sum(axis=1)
            o = o * (alpha if fits and "alpha" in of else alpha[:, None]) + p @ v_tile
        out.append(o / (l_sum if fits and "l_sum" in of else l_sum[:, None]))
    return np.concatenate(out)


def _desk_not_cleared(q: Any, k: Any, v: Any, block_q: int, block_k: int) -> np.ndarray:
    """Return what m, l and O give that are carried from one Q tile to the next (same sizes)."""
    scores = q @ k.T / np.sqrt(q.shape[1])
    m, l_sum, o = np.full(block_q, -np.inf), np.zeros(block_q), np.zeros((block_q, v.shape[1]))
    out = []
    for i in range(0, len(q), block_q):
        s = scores[i : i + block_q]
        m_new = np.maximum(m, s.max(axis=1))
        alpha, p = np.exp(m - m_new), np.exp(s - m_new[:, None])
        m, l_sum = m_new, alpha * l_sum + p.sum(axis=1)
        o = alpha[:, None] * o + p @ v
        out.append(o / l_sum[:, None])
    return np.concatenate(out)


def _paired(q: Any, k: Any, v: Any, block_q: int, block_k: int) -> np.ndarray:
    """Return what Q tiles make of one tile of keys each; who finds none stays 0."""
    out = np.zeros((len(q), v.shape[1]))
    for i, (k_tile, v_tile) in enumerate(_tiles_of_keys(k, v, block_k)):
        if len(rows := q[i * block_q : (i + 1) * block_q]):
            out[i * block_q :][: len(rows)] = attention_float64(rows, k_tile, v_tile)[0]
    return out


def only_rows(attend: Callable[..., np.ndarray]) -> tuple[tuple[str, str, Any], ...]:
    """Return the mistakes that leave rows without an answer, 0 or NaN, of a right function."""

    def model(
        q: Any, *inputs: Any, left: float, stop: Callable[[int, int], int], block_q: int,
        block_k: int, **more: int,
    ) -> np.ndarray:  # fmt: skip
        out = attend(q, *inputs, **more)
        out[..., stop(q.shape[-2], block_q) :, :] = left
        return out

    def rows(stop: Callable[[int, int], int]) -> list[Callable[..., np.ndarray]]:
        return [partial(model, left=left, stop=stop) for left in (0.0, np.nan)]

    return table(
        ("the short last Q tile is dropped",
         "the last queries get no answer: there are ceil(n_q / block_q) tiles.",
         *rows(lambda n_q, block_q: n_q // block_q * block_q),
         *rows(lambda n_q, block_q: max(1, n_q - (n_q % block_q == 1)))),
        ("only the first Q tile is written",
         "is the `return` inside the loop over Q tiles, or does that end after one?",
         *rows(lambda n_q, block_q: block_q)),
    )  # fmt: skip


# All NaN is what an inverted alpha gives on any input. These give it on extreme scores only,
# so whoever comes as far as those made one of these: ask for them first.
_EXTREME = ("a very negative maximum is replaced", "no maximum is subtracted")
# what may be wrong in any loop over tiles of keys, whatever it visits
OF_THE_LOOP = frozenset({
    "O is not rescaled", "l is not rescaled", "nothing is rescaled", "alpha is inverted", ALL_NAN,
    "each tile uses its own maximum", "one maximum for the whole tile",
    "a very negative maximum is replaced", STARTS_LOW, "m is never updated",
    "no maximum is subtracted", CLIPPED, NOT_THE_MAXIMUM, "divided in every tile",
    "the past is thrown away", "each tile is normalised on its own", "not divided by the sum",
    "the new tile is rescaled as well", "rescaled twice", BASES, BOUNDED, LEFT_OUT, SMALL_RISE,
    MOST_BELOW, STALE, TWO_DESKS, ONLY_RISES,
    "the scale is missing", "scaled twice", "the root of head_dim is cut to a whole number",
    "the scale is upside down", "a hidden score is not -inf", "K is read in place of V",
    "K is reshaped, not transposed",
})  # fmt: skip
_NO_MASK_NO_STRIDES = OF_THE_LOOP | {
    "softmax over the wrong axis", "keys past the end count as score 0",
    "the mask comes after the maximum", "the last tile is dropped", "only square tiles",
    "only the first tile of keys counts", "every step reads the first tile of K, or of V",
    "scaled by a length, not by head_dim", "the loop ends at n_q", "one length for Q and K",
    UNSCALED_MAXIMUM, LATE, "alpha is measured against the tile's own maximum",
}  # fmt: skip
_STREAMED = attention_mistakes(without_masks=_NO_MASK_NO_STRIDES)
STREAM_MISTAKES = tuple(sorted(_STREAMED, key=lambda one: one.name not in _EXTREME))

_TILE_MISTAKES = Mistake.table(
    ("each tile's output is written",
     "each K/V tile's own answer replaces the one before, so only the last tile is left (or m is "
     "not carried on, and alpha is 0). No tile has an answer of its own: keep m, l_sum and o "
     "running, and return once, at the end.",
     _of_each_tile(lambda answers: answers[-1])),
    ("tile answers are averaged",
     "each K/V tile gets a softmax of its own and the answers are averaged: a tile with larger "
     "scores must count for more.",
     _of_each_tile(lambda answers: np.mean(answers, axis=0))),
    ("tile answers are added",
     "each K/V tile gets a softmax of its own and the answers are added up: the weights of a row "
     "then sum to the number of tiles.",
     _of_each_tile(lambda answers: np.sum(answers, axis=0))),
    ("only the first tile is counted",
     "is the `return` inside the loop, or does every step read the first tile?",
     _of_each_tile(lambda answers: answers[0])),
    ("the last tile is dropped", SAYS["the last tile is dropped"],
     partial(_but_the_last, lone=False), partial(_but_the_last, lone=True)),
    ("scaled by the number of tokens",
     "the scores are divided by the root of a number of rows. d is the length of a row.",
     _scaled_by(lambda q, k: len(q)), _scaled_by(lambda q, k: len(k))),
    ("alpha is taken along the columns",
     "alpha is one number a query: it belongs to a row of o, alpha[:, None].",
     partial(_along_columns, of="alpha"), partial(_along_columns, of="alpha and l_sum")),
    ("l_sum is taken along the columns",
     "l_sum is one number a query: it belongs to a row of o, l_sum[:, None].",
     partial(_along_columns, of="l_sum")),
    ("a causal mask that nobody asked for",
     "here every query sees every key: masks begin with exercise 4.4.",
     lambda q, k, v, **_: attention_float64(
         q, k, v, allowed=np.tri(len(q), len(k), dtype=bool))[0]),
)  # fmt: skip
_ONE_SUM, _ALL_FOR_ANY = Mistake.table(
    ("one sum for the whole tile",
     "l_sum has shape (n_rows,), one number for each query: sum p over axis 1 only.",
     _one_sum_per_tile),
    ("not rescaled where a row asks for it",
     "the sum and the output are rescaled in too few tiles: is `all` asked where `any` is meant, "
     "or one row for all? Rows whose own maximum rose keep the old scale.",
     Model(Misreading(loop=SLIPS["neither_unless_all_rise"]))),
)  # fmt: skip
_LOOP_MISTAKES = Mistake.table(
    ("a Q tile meets one tile of keys only",
     "each tile of queries meets the tile of keys with its own number, as zip pairs them, and the "
     "others never: a query needs all keys, so loop over the tiles of keys within that over the "
     "tiles of queries.",
     _paired),
    ("m, l and O are carried over to the next Q tile",
     "set m, l_sum and o anew inside the loop over Q tiles: other queries, other sums.",
     _desk_not_cleared),
    *only_rows(lambda q, k, v: attention_float64(q, k, v)[0]),
)  # fmt: skip


ONE_Q_TILE = Exercise.of(
    "4.2",
    cases=_q_tile_cases,
    truth=attention_truth,
    answer=output_only,
    judge=_judge_tiled,
    run=_run_q_tile,
    without_torch=True,
    mistakes=(*_TILE_MISTAKES, _ONE_SUM, *STREAM_MISTAKES, _ALL_FOR_ANY),
)

ALL_Q_TILES = Exercise.of(
    "4.3",
    cases=_tiled_cases,
    truth=attention_truth,
    answer=output_only,
    judge=_judge_tiled,
    run=run_all_tiles,
    without_torch=True,
    mistakes=(*_LOOP_MISTAKES, *_TILE_MISTAKES, *STREAM_MISTAKES),
)
