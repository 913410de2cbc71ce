"""Exercises of lesson 04, tiles."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.accounting.memory import FlatMemory
from course_lib.accounting.traffic import derived_counts
from course_lib.attention.naive import naive
from course_lib.attention.truth import attention_float64
from course_lib.grading import cases
from course_lib.grading.attention_judge import attention_judge, attention_truth, output_only
from course_lib.grading.judges import array_finding, exactly
from course_lib.grading.misconceptions import Slip, attention_mistakes, stream
from course_lib.grading.peak import misfit, with_peak
from course_lib.grading.picture import Bar, TrafficBars
from course_lib.grading.spec import Case, Exercise, Finding, Mistake, Observed
from course_lib.grading.tolerance import allowed_error, as_float64

# --- 4.1 ------------------------------------------------------------------------------------


def _bounds(n: int, tile: int) -> list[tuple[int, int]]:
    return [(start, min(start + tile, n)) for start in range(0, n, tile)]


def _bounds_cases(rng: Generator) -> list[Case]:
    tile = int(rng.integers(3, 40))
    whole, rest = int(rng.integers(2, 7)), int(rng.integers(1, tile - 1))
    sizes = [(257, 128), (tile * whole, tile), (tile * whole + rest, tile), (tile - 1, tile)]
    return [Case(f"n = {n}, tile = {tile}", (n, tile)) for n, tile in sizes]


_BOUNDS_MISTAKES = (
    Mistake(
        "the short last tile is dropped",
        "257 rows make ceil(257 / 128) = 3 tiles, not 2: the last row needs one too.",
        lambda n, tile: _bounds(n // tile * tile, tile),
    ),
    Mistake(
        "the last tile runs past the end",
        "stop must not pass n: the last tile may be shorter than the others.",
        lambda n, tile: [(start, start + tile) for start in range(0, n, tile)],
    ),
    Mistake(
        "stop is the last row of the tile",
        "stop is the first row that does not belong to the tile, as in a Python slice.",
        lambda n, tile: [(start, stop - 1) for start, stop in _bounds(n, tile)],
    ),
    Mistake(
        "one tile too many",
        "n // tile + 1 is one too many where tile divides n: use ceil.",
        lambda n, tile: [(i * tile, min((i + 1) * tile, n)) for i in range(n // tile + 1)],
    ),
    Mistake(
        "the last row is left out",
        "the last stop is n, not n - 1: stop is the first row that does not belong to the tile.",
        lambda n, tile: [(start, min(stop, n - 1)) for start, stop in _bounds(n, tile)],
    ),
    Mistake(
        "the length in place of stop",
        "a pair is (start, stop), not (start, number of rows).",
        lambda n, tile: [(start, stop - start) for start, stop in _bounds(n, tile)],
    ),
    Mistake(
        "rows are counted from 1",
        "the first row is row 0.",
        lambda n, tile: [(start + 1, stop) for start, stop in _bounds(n, tile)],
    ),
)

# --- 4.2, 4.3: the score matrix must never exist ------------------------------------------------


_judge_output = attention_judge(with_lse=False, in_dtype=False)


def _judge_tiled(case: Case, observed: Observed, expected: Any) -> Finding | None:
    if isinstance(observed.ledger, str):
        return Finding("signature", observed.ledger)
    if finding := _judge_output(case, observed, expected):
        return finding
    q, k = case.args[:2]
    scores = 8 * q.shape[0] * k.shape[0]
    if case.counted and observed.ledger > scores // 2:
        return Finding(
            "never holds all scores",
            f"the answer is right, but your function held {observed.ledger / 1e6:.1f} MB at once; "
            f"all {q.shape[0]} x {k.shape[0]} scores are {scores / 1e6:.1f} MB. "
            "Compute one tile of scores at a time.",
        )
    return None


def _double(triple: cases.Triple) -> cases.Triple:
    q, k, v = (x.astype(np.float64) for x in triple)
    return q, k, v


def _q_tile_cases(rng: Generator) -> list[Case]:
    q, k, v = _double(cases.shifted(rng, 6, 20, 4, 1000))
    q[::2, 0] *= -1  # every other row's scores lie near -1000, the others' near 1000
    shapes = [
        ("4 queries, 12 keys in tiles of 4", cases.draw(rng, 4, 12, 6), 4),
        ("7 queries, 10 keys in tiles of 4: the last tile is short", cases.draw(rng, 7, 10, 5), 4),
        ("fewer keys than one tile", cases.draw(rng, 5, 3, 8), 16),
        ("each tile's scores are larger than the last", cases.sloped(rng, 6, 37, 8, 40.0), 8),
        ("each tile's scores are smaller than the last", cases.sloped(rng, 6, 37, 8, -40.0), 8),
        # 1000 before -1000: no maximum at all fails on both, one that starts at 0 on the second
        ("scores near 1000", cases.shifted(rng, 6, 20, 4, 1000), 8),
        ("scores near -1000", cases.shifted(rng, 6, 20, 4, -1000), 8),
        ("rows near -1000 and rows near 1000 in one tile", (q, k, v), 8),
        ("as many queries as a tile has keys, and as d", cases.draw(rng, 8, 29, 8, size=2), 8),
    ]
    drawn = [Case(name, _double(qkv), {"block_k": block}) for name, qkv, block in shapes]
    long = Case(
        "64 queries, 4096 keys in tiles of 64, memory measured",
        _double(cases.draw(rng, 64, 4096, 8)),
        {"block_k": 64},
        counted=True,
    )
    return [*drawn, long]


def _tiled_cases(rng: Generator) -> list[Case]:
    n_q, n_k = int(rng.integers(20, 40)), int(rng.integers(41, 70))
    shapes: list[tuple[str, cases.Triple, int, int]] = [
        ("12 queries in tiles of 4, 10 keys in tiles of 5", cases.draw(rng, 12, 10, 6), 4, 5),
        ("11 queries in tiles of 4: the last is short", cases.draw(rng, 11, 12, 6), 4, 4),
        ("more keys than queries, both ragged", cases.draw(rng, n_q, n_k, 8), 16, 12),
        ("more queries than keys, both ragged", cases.draw(rng, n_k, n_q, 8), 8, 16),
        ("tiles larger than everything", cases.draw(rng, 5, 7, 4), 64, 32),
        ("large scores, tiles as wide as d", cases.draw(rng, 33, 35, 8, size=4), 8, 8),
        ("scores climb along the row", cases.sloped(rng, n_q, n_k, 8, 40.0), 16, 8),
        ("scores fall along the row", cases.sloped(rng, n_q, n_k, 8, -40.0), 16, 8),
        ("scores near 1000", cases.shifted(rng, 20, 22, 4, 1000), 8, 6),
        ("scores near -1000", cases.shifted(rng, 20, 22, 4, -1000), 8, 6),
    ]
    drawn = [
        Case(name, _double(qkv), {"block_q": block_q, "block_k": block_k})
        for name, qkv, block_q, block_k in shapes
    ]
    one_key = Case(
        "a single key",
        _double(cases.draw(rng, 5, 1, 4)),
        {"block_q": 2, "block_k": 4},
        blind_to=frozenset({"mean(V)"}),
    )
    long = Case(
        "1024 queries and keys, tiles of 64 and 32, memory measured",
        _double(cases.draw(rng, 1024, 1024, 8)),
        {"block_q": 64, "block_k": 32},
        counted=True,
    )
    return [*drawn, one_key, long]


def _tiles_of_keys(k: Any, v: Any, block_k: int) -> list[tuple[Any, Any]]:
    return [(k[j : j + block_k], v[j : j + block_k]) for j in range(0, len(k), block_k)]


def _last_tile_wins(q: Any, k: Any, v: Any, block_k: int, **_tiles: int) -> np.ndarray:
    return attention_float64(q, *_tiles_of_keys(k, v, block_k)[-1])[0]


def _first_tile_only(q: Any, k: Any, v: Any, block_k: int, **_tiles: int) -> np.ndarray:
    return attention_float64(q, k[:block_k], v[:block_k])[0]


def _whole_tiles_only(q: Any, k: Any, v: Any, block_k: int, **_tiles: int) -> np.ndarray:
    n = len(k) // block_k * block_k
    return attention_float64(q, k[:n], v[:n])[0]


def _tiles_added(q: Any, k: Any, v: Any, block_k: int, **_tiles: int) -> np.ndarray:
    return sum(attention_float64(q, *tile)[0] for tile in _tiles_of_keys(k, v, block_k))


def _scaled_by(rows: Callable[..., int]) -> Callable[..., np.ndarray]:
    def model(q: Any, k: Any, v: Any, **_tiles: int) -> np.ndarray:
        return attention_float64(q * np.sqrt(q.shape[1] / rows(q, k)), k, v)[0]

    return model


def _causal(q: Any, k: Any, v: Any, **_tiles: int) -> np.ndarray:
    return attention_float64(q, k, v, allowed=np.tri(len(q), len(k), dtype=bool))[0]


def _tiles_averaged(q: Any, k: Any, v: Any, block_k: int, **_tiles: int) -> np.ndarray:
    answers = [attention_float64(q, *tile)[0] for tile in _tiles_of_keys(k, v, block_k)]
    return np.mean(answers, axis=0)


def _one_sum_per_tile(q: Any, k: Any, v: Any, block_k: int, **_tiles: int) -> np.ndarray:
    """Return what sums of p over queries as well as keys give, all else being right."""
    m, l_sum, o = np.full((len(q), 1), -np.inf), 0.0, 0.0
    for k_tile, v_tile in _tiles_of_keys(k, v, block_k):
        s = q @ k_tile.T / np.sqrt(q.shape[1])
        m_new = np.maximum(m, s.max(axis=1, keepdims=True))
        alpha, p = np.exp(m - m_new), np.exp(s - m_new)
        m, l_sum, o = m_new, alpha * l_sum + p.sum(), alpha * o + p @ v_tile
    return o / l_sum


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


def _first_q_tile_only(q: Any, k: Any, v: Any, block_q: int, **_tiles: int) -> np.ndarray:
    out = attention_float64(q, k, v)[0]
    out[block_q:] = 0
    return out


def _last_q_tile_missing(q: Any, k: Any, v: Any, block_q: int, **_tiles: int) -> np.ndarray:
    out = attention_float64(q, k, v)[0]
    out[len(q) // block_q * block_q :] = 0
    return out


# All NaN is what an inverted alpha gives on any input. These two give it on extreme scores only,
# so whoever comes as far as those made one of these: ask for them first.
_EXTREME = ("the maximum starts at 0", "no maximum is subtracted")
_NO_MASK_NO_STRIDES = {
    "O is not rescaled",
    "l is not rescaled",
    "nothing is rescaled",
    "alpha is inverted",
    "alpha is inverted, or a mask multiplies",
    "each tile uses its own maximum",
    "one maximum for the whole tile",
    "the maximum starts at 0",
    "no maximum is subtracted",
    "divided in every tile",
    "the past is thrown away",
    "each tile is normalised on its own",
    "the scale is missing",
    "scaled twice",
    "the scale is upside down",
    "softmax over the wrong axis",
    "not divided by l",
    "keys past the end count as score 0",
    "the mask comes after the maximum",
    "the last tile is dropped",
    "only square tiles",
    "the new tile is rescaled as well",
    "K is read in place of V",
}
_STREAM_MISTAKES = tuple(
    sorted(
        # a model's last argument, skipping, makes a difference under a causal mask only
        (m for m in attention_mistakes() if m.name in _NO_MASK_NO_STRIDES and m.model.args[-1]),
        key=lambda m: m.name not in _EXTREME,
    )
)

_TILE_MISTAKES = (
    Mistake(
        "each tile's output is written",
        "each K/V tile's own answer replaces the one before, so only the last tile is left. No "
        "tile has an answer of its own: keep m, l_sum and o running, and return once, at the end.",
        _last_tile_wins,
    ),
    Mistake(
        "tile answers are averaged",
        "each K/V tile gets a softmax of its own and the answers are averaged: "
        "a tile with larger scores must count for more.",
        _tiles_averaged,
    ),
    Mistake(
        "tile answers are added",
        "each K/V tile gets a softmax of its own and the answers are added up: the weights of a "
        "row then sum to the number of tiles.",
        _tiles_added,
    ),
    Mistake(
        "only the first tile is counted",
        "is the `return` inside the loop, or does every step read the first tile?",
        _first_tile_only,
    ),
    Mistake(
        "the last tile is dropped",
        "the short last tile is left out: use ceil.",
        _whole_tiles_only,
    ),
    *(
        Mistake(
            "scaled by the number of tokens",
            "the scores are divided by the root of a number of rows. d is the length of a row.",
            _scaled_by(rows),
        )
        for rows in (lambda q, k: len(q), lambda q, k: len(k))
    ),
    Mistake(
        "a causal mask that nobody asked for",
        "here every query sees every key: masks begin with exercise 4.4.",
        _causal,
    ),
)
_ONE_SUM = Mistake(
    "one sum for the whole tile",
    "l_sum has shape (n_rows,), one number for each query: sum p over axis 1 only.",
    _one_sum_per_tile,
)
_LOOP_MISTAKES = (
    Mistake(
        "m, l and O are carried over to the next Q tile",
        "set m, l_sum and o anew inside the loop over Q tiles: other queries, other sums.",
        _desk_not_cleared,
    ),
    Mistake(
        "the short last Q tile is dropped",
        "the last queries get no answer: there are ceil(n_q / block_q) tiles.",
        _last_q_tile_missing,
    ),
    Mistake(
        "only the first Q tile is written",
        "is the `return` inside the loop over Q tiles?",
        _first_q_tile_only,
    ),
)

# --- 4.4 ------------------------------------------------------------------------------------


def _classify(row_start: int, row_stop: int, col_start: int, col_stop: int, offset: int = 0) -> str:
    allowed = np.arange(col_start, col_stop) <= np.arange(row_start, row_stop)[:, None] + offset
    return "full" if allowed.all() else "partial" if allowed.any() else "skip"


def _tile_cases(rng: Generator) -> list[Case]:
    b = int(rng.integers(3, 9))  # square tiles of b; c is a different width
    c, shift = b + int(rng.integers(1, 5)), int(rng.integers(2, 40))
    tiles: list[tuple[str, tuple[int, ...]]] = [
        ("all keys in the past", (3 * b, 4 * b, b, 2 * b)),
        ("a tile on the diagonal", (2 * b, 3 * b, 2 * b, 3 * b)),
        ("all keys in the future", (0, b, 2 * b, 3 * b)),
        ("the tile just right of the diagonal", (b, 2 * b, 2 * b, 3 * b)),
        ("the tile just left of the diagonal", (2 * b, 3 * b, b, 2 * b)),
        ("only the last query sees the first key", (0, b, b - 1, b + c)),
        ("only one pair is hidden", (b, 2 * b, 0, b + 2)),
        ("the last key is the first query's own", (b, 2 * b, 0, b + 1)),
        ("one pair, allowed", (b, b + 1, b, b + 1)),
        ("one pair, hidden", (b, b + 1, b + 1, b + 2)),
        ("old keys before the queries", (0, b, shift, shift + c, shift + c)),
        ("diagonal with an offset", (0, b, shift, shift + b, shift)),
        ("future with an offset", (0, b, shift + b, shift + b + c, shift)),
        ("more queries than keys: a negative offset", (b, 2 * b, 0, c, -2 * b)),
    ]
    for _ in range(6):
        r, k = (int(x) for x in rng.integers(0, 40, 2))
        h, w = (int(x) for x in rng.integers(1, 12, 2))
        tiles.append(("a tile somewhere", (r, r + h, k, k + w, int(rng.integers(-9, 10)))))
    return [Case("", (tiles,))]


def _tile_words(r0: int, r1: int, c0: int, c1: int, offset: int = 0) -> str:
    return f"rows [{r0}, {r1}), columns [{c0}, {c1}), offset {offset}"


def _run_tiles(function: Callable[..., Any], case: Case) -> Observed:
    (tiles,) = case.args
    if complaint := misfit(function, *tiles[-1][1]):
        return Observed(None, complaint)
    return Observed([function(*where) for _, where in tiles])


def _judge_tiles(case: Case, observed: Observed, expected: Any) -> Finding | None:
    if isinstance(observed.ledger, str):
        return Finding("signature", observed.ledger)
    for (name, where), got, word in zip(case.args[0], observed.result, expected, strict=True):
        if finding := exactly(case, Observed(got), word):
            says = finding.says.removeprefix("the answer ")
            return Finding(finding.property, f"{name}: {_tile_words(*where)}: the answer {says}")
    return None


def _words(rule: Callable[..., str]) -> Callable[..., list[str]]:
    return lambda tiles: [rule(*where) for _, where in tiles]


def _by_corners(
    skip: Callable[[int, int, int, int], bool] = lambda q0, q1, k0, k1: q1 < k0,
    full: Callable[[int, int, int, int], bool] = lambda q0, q1, k0, k1: q0 >= k1,
) -> Callable[..., str]:
    """Return a rule about the first and last query (at their positions) and key of a tile."""

    def rule(r0: int, r1: int, c0: int, c1: int, offset: int = 0) -> str:
        corners = (r0 + offset, r1 - 1 + offset, c0, c1 - 1)
        return "skip" if skip(*corners) else "full" if full(*corners) else "partial"

    return rule


def _moved(by: Callable[[int], int]) -> Callable[..., str]:
    """Return the right rule, given another offset."""
    return lambda r0, r1, c0, c1, offset=0: _classify(r0, r1, c0, c1, by(offset))


_REVERSED = (
    "the rule is reversed",
    "min(query) > max(key) finds the tiles where everything is allowed; skip where even the "
    "last query comes before the first key: max(query) < min(key).",
)
_STOPS = (
    "stop is counted as part of the tile",
    "the last query is row_stop - 1 and the last key is col_stop - 1.",
)
_OWN_KEY = (
    "a query does not see its own key",
    "j <= i + offset allows j = i + offset: a tile with that one pair is not skipped.",
)
_DIAGONAL = (
    "diagonal tiles are called full",
    "the diagonal cuts through this tile: some of its pairs lie in the future, so it needs the "
    "mask.",
)
_RULES: tuple[tuple[tuple[str, str], Callable[..., str]], ...] = (
    (
        ("the offset is ignored", "query i stands at position i + offset."),
        _moved(lambda offset: 0),
    ),
    (
        (
            "the offset has the wrong sign",
            "query i stands at position i + offset. The keys stay where they are.",
        ),
        _moved(lambda offset: -offset),
    ),
    (
        _REVERSED,
        _by_corners(lambda q0, q1, k0, k1: q0 > k1, lambda q0, q1, k0, k1: q1 < k0),
    ),
    (
        _REVERSED,
        _by_corners(lambda q0, q1, k0, k1: q0 > k1, lambda q0, q1, k0, k1: q1 <= k0),
    ),
    (
        _REVERSED,
        _by_corners(lambda q0, q1, k0, k1: q0 >= k1, lambda q0, q1, k0, k1: q1 < k0),
    ),
    (_REVERSED, lambda r0, r1, c0, c1, offset=0: _classify(c0, c1, r0, r1, offset)),
    (_DIAGONAL, _by_corners(full=lambda *corners: True)),
    (_DIAGONAL, _by_corners(full=lambda q0, q1, k0, k1: q1 >= k1)),
    (
        _STOPS,
        _by_corners(lambda q0, q1, k0, k1: q1 + 1 < k0, lambda q0, q1, k0, k1: q0 > k1),
    ),
    (_STOPS, _by_corners(lambda q0, q1, k0, k1: q1 + 1 < k0)),
    (_STOPS, _by_corners(full=lambda q0, q1, k0, k1: q0 > k1)),
    (_OWN_KEY, _moved(lambda offset: offset - 1)),
    (_OWN_KEY, _by_corners(lambda q0, q1, k0, k1: q1 <= k0)),
    (
        ("a query sees one key of the future", "the last key that query i sees is i + offset."),
        _moved(lambda offset: offset + 1),
    ),
    (
        (
            "only the starts are compared",
            "that is right for square tiles on the diagonal only: two corners decide, the last "
            "query with the first key and the first query with the last key.",
        ),
        _by_corners(lambda q0, q1, k0, k1: q0 < k0, lambda q0, q1, k0, k1: q0 > k0),
    ),
    (
        (
            "nothing is ever full",
            "this is safe but wasteful: here every pair is allowed, so no mask is needed.",
        ),
        _by_corners(full=lambda *corners: False),
    ),
    (
        ("nothing is ever skipped", "no pair of this tile is allowed: do not even load it."),
        _by_corners(skip=lambda *corners: False),
    ),
)
_CLASSIFY_MISTAKES = tuple(Mistake(*named, _words(rule)) for named, rule in _RULES)

# --- 4.5 ------------------------------------------------------------------------------------


def _count_loads(n: int, tile: int, d: int = 32) -> tuple[float, float, int, int]:
    """Launch programs that only load; return Q times, K times, K bytes, bytes that lie there."""
    memory = FlatMemory()
    q, k, v, _ = (memory.place(name, np.ones((n, d))) for name in "qkvo")
    cols = np.arange(d)
    for start_q in range(0, n, tile):
        rows = start_q + np.arange(tile)[:, None]
        memory.load(q + rows * d + cols, rows < n)
        for start_k in range(0, n, tile):
            keys = start_k + np.arange(tile)[:, None]
            for base in (k, v):
                memory.load(base + keys * d + cols, keys < n)
    once = n * d * memory.itemsize
    return memory.read["q"] / once, memory.read["k"] / once, memory.read["k"], 4 * once


def _loads_truth() -> dict[str, float]:
    q_times, k_times, k_bytes, size = _count_loads(256, 64)
    _, _, k_bytes_512, size_512 = _count_loads(512, 64)
    return {
        "q_times": q_times,
        "k_times": k_times,
        "k_times_tile_16": _count_loads(256, 16)[1],
        "k_growth": k_bytes_512 / k_bytes,
        "size_growth": size_512 / size,
    }


def _wrong_loads(name: str, says: str, **entries: float) -> Mistake:
    """Return a mistake about some entries; NaN leaves the others open."""
    keys = ("q_times", "k_times", "k_times_tile_16", "k_growth", "size_growth")
    return Mistake(name, says, lambda: {key: entries.get(key, np.nan) for key in keys})


_LOAD_MISTAKES = (
    _wrong_loads(
        "K and V are read once in all",
        "every query needs every key: each Q tile's program walks over all of K and V again.",
        k_times=1,
    ),
    _wrong_loads(
        "Q is loaded again for every K tile",
        "a program keeps its Q tile for the whole walk over the keys.",
        q_times=4,
    ),
    _wrong_loads(
        "smaller tiles cut the re-reads",
        "smaller Q tiles mean more programs, and each of them loads all of K and V.",
        k_times_tile_16=1,
    ),
    _wrong_loads(
        "tiles make no difference to the re-reads",
        "the number of programs is N / tile, and each of them loads all of K and V.",
        k_times_tile_16=4,
    ),
    _wrong_loads(
        "O(N) memory is O(N) traffic",
        "the space doubles, but the loads do not: twice the keys, loaded by twice the programs.",
        k_growth=2,
    ),
    _wrong_loads(
        "the space grows as the traffic does",
        "nothing of size N x N is kept: Q, K, V and O have one row per token.",
        size_growth=4,
    ),
)

# --- 4.6 ------------------------------------------------------------------------------------


class OutOfBounds(IndexError):
    """A program touched an address that belongs to no tensor."""


def _launch(function: Callable[..., Any], case: Case) -> Observed:
    """Lay q, k, v, o out in a flat memory and run every program, the last one first."""
    q, k, v = case.args  # (H, n, d)
    (heads, n_q, d), n_k = q.shape, k.shape[1]
    layout = case.kwargs["layout"]
    block_q, block_k = case.kwargs["block_q"], case.kwargs["block_k"]
    memory = FlatMemory()
    addresses, strides = [], []
    for name, array in zip("qkvo", (q, k, v, np.full_like(q, np.nan)), strict=True):
        addresses.append(memory.place(name, _laid(name, array, layout)))
        a, b, _ = memory.strides(name)
        strides += [b, a] if layout == "rows first" else [a, b]
    scale = 1 / np.sqrt(d)
    shared = (*addresses, *strides, n_q, n_k, scale, d, block_q, block_k)
    if complaint := misfit(function, (0, 0), memory, *shared):
        return Observed(None, complaint)
    pids = [(tile, head) for tile in range(-(-n_q // block_q)) for head in range(heads)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for pid in reversed(pids):
            try:
                function(pid, memory, *shared)
            except IndexError as error:
                if "belong to no tensor" not in str(error):
                    raise
                raise OutOfBounds(f"program {pid}: {error}") from None
    o = memory.array("o")
    return Observed(o.transpose(1, 0, 2) if layout == "rows first" else o[..., :d], memory)


def _laid(name: str, x: np.ndarray, layout: str) -> np.ndarray:
    """Return (H, n, d) as it lies in memory: "heads first", "rows first" (heads side by side in
    each row) or "rows apart" (numbers of nobody after each row, more of them in k than in q)."""
    if layout == "rows apart":
        return np.pad(x, ((0, 0), (0, 0), (0, 1 + 2 * "qokv".index(name))), constant_values=0.5)
    return x.transpose(1, 0, 2) if layout == "rows first" else x


def _program_cases(rng: Generator) -> list[Case]:
    def drawn(n_q: int, n_k: int, d: int, heads: int, **how: Any) -> cases.Triple:
        return cases.draw(rng, n_q, n_k, d, heads=(heads,), **how)

    def far(n_k: int, by: int) -> cases.Triple:
        q, k, v = cases.shifted(rng, 20, n_k, 16, by, heads=(2,))
        return tuple(np.round(8 * x) / 8 for x in (q, k, v))  # float32 holds these scores exactly

    two = drawn(19, 26, 8, 2)
    climbing = cases.sloped(rng, 17, 50, 8, 30.0, heads=(1,))
    falling = cases.sloped(rng, 17, 50, 8, -30.0, heads=(1,))
    one_after_the_other, side_by_side, apart = "heads first", "rows first", "rows apart"
    tried: list[tuple[str, cases.Triple, int, int, str]] = [
        ("one head, whole tiles", drawn(16, 32, 12, 1), 8, 16, one_after_the_other),
        ("one head, ragged", drawn(37, 29, 12, 1), 16, 8, one_after_the_other),
        ("three heads, one after the other", drawn(21, 40, 8, 3), 8, 16, one_after_the_other),
        ("three heads, side by side in each row", drawn(40, 27, 8, 3), 16, 8, side_by_side),
        ("two heads, rows apart: each tensor has strides of its own", two, 8, 16, apart),
        # no maximum at all fails on the first, one that starts at 0 on the second; on the third
        # one that saw the score 0 of a place past the end
        ("scores near 1000", far(32, 1024), 16, 8, side_by_side),
        ("scores near -1000, whole tiles of keys", far(32, -1024), 16, 8, side_by_side),
        ("scores near -1000", far(37, -1024), 16, 8, side_by_side),
        ("tiles as wide as d", drawn(19, 23, 8, 2, size=4), 8, 8, one_after_the_other),
        ("scores climb along the row", climbing, 4, 16, one_after_the_other),
        ("scores fall along the row", falling, 4, 16, side_by_side),
    ]
    return [
        Case(
            f"{name}; n_q = {qkv[0].shape[1]}, n_k = {qkv[1].shape[1]}, "
            f"tiles {block_q} and {block_k}",
            qkv,
            {"block_q": block_q, "block_k": block_k, "layout": layout},
        )
        for name, qkv, block_q, block_k, layout in tried
    ]


def _judge_program(case: Case, observed: Observed, expected: Any) -> Finding | None:
    memory = observed.ledger
    if isinstance(memory, str):
        return Finding("signature", memory)
    q, k, v = case.args
    once = {name: x.size * memory.itemsize for name, x in zip("qkvo", (q, k, v, q), strict=True)}
    if memory.written["o"] < once["o"]:
        rows = memory.written["o"] / once["o"] * q.shape[0] * q.shape[1]
        return Finding(
            "writes every row of o",
            f"o has {q.shape[0] * q.shape[1]} rows over all heads; {rows:g} were stored.",
        )
    o_true = expected[0]
    allowed = allowed_error(o_true, as_float64(naive(q, k, v)), "float32")
    block_q = case.kwargs["block_q"]
    axes = ("head", "row", "column")
    if finding := array_finding(
        observed.result, o_true, allowed=allowed, name="`o`", axes=axes, block_q=block_q
    ):
        return finding
    t_q = derived_counts(q.shape[1], k.shape[1], block_q, case.kwargs["block_k"])["t_q"]
    return _judge_traffic(memory, once, t_q)


def _judge_traffic(memory: FlatMemory, once: dict[str, int], t_q: int) -> Finding | None:
    """Judge the books: Q once, K and V T_q times, O stored once and never read."""
    for name, times in (("q", 1), ("k", t_q), ("v", t_q)):
        if memory.read[name] != times * once[name]:
            return Finding(
                f"loads {name} {'once' if name == 'q' else 'once per Q tile'}",
                f"the answer is right, but every row of {name} was loaded "
                f"{memory.read[name] / once[name]:.3g} times on average; with {t_q} Q tiles "
                f"{times} is enough. Which loop does the load stand in?",
                picture=_loads(memory, once, t_q),
            )
    if memory.read["o"] or memory.written["o"] != once["o"]:
        return Finding(
            "stores o once",
            "the answer is right, but o was stored "
            f"{memory.written['o'] / once['o']:.3g} times and loaded "
            f"{memory.read['o'] / once['o']:.3g} times: keep the tile's output in acc "
            "and store it once, after the loop.",
            picture=TrafficBars(
                "stores and loads of o",
                (Bar("o", memory.read["o"] + memory.written["o"], once["o"]),),
            ),
        )
    if stray := [name for name in "qkv" if memory.written[name]]:
        return Finding("leaves its inputs alone", f"your program wrote into {stray[0]}.")
    return None


def _loads(memory: FlatMemory, once: dict[str, int], t_q: int) -> TrafficBars:
    loaded = {name: memory.read[name] for name in "qkv"}
    return TrafficBars.of(
        "loads", loaded, {"q": once["q"], "k": t_q * once["k"], "v": t_q * once["v"]}
    )


def _strided(strides: Callable[..., tuple[int, ...]]) -> Callable[..., np.ndarray]:
    """Return a model that reads q, k, v and stores o at other row strides than theirs.

    ``strides`` gets head_dim and the true strides of q, k, v and o; it returns the four in use.
    """

    def model(q: Any, k: Any, v: Any, layout: str, block_q: int, **_tiles: int) -> np.ndarray:
        heads, n_q, d = q.shape
        laid = [_laid(name, x, layout) for name, x in zip("qkvo", (q, k, v, q), strict=True)]
        steps = [(x[0].size, x.shape[2]) for x in laid]  # from head to head, from row to row
        if layout == "rows first":
            steps = [(row, head) for head, row in steps]
        used = strides(d, *(row for _, row in steps))

        def at(which: int, n: int, row: int) -> np.ndarray:
            head = steps[which][0] * np.arange(heads)[:, None, None]
            return head + row * np.arange(n)[:, None] + np.arange(d)

        q, k, v = (laid[i].ravel()[at(i, x.shape[1], used[i])] for i, x in enumerate((q, k, v)))
        o, stored = np.full(laid[3].size, np.nan), at(3, n_q, used[3])
        answer = attention_float64(q, k, v)[0]
        for start in reversed(range(0, n_q, block_q)):  # as programs run: the first one wins
            for head in reversed(range(heads)):
                rows = slice(start, start + block_q)
                o[stored[head, rows]] = answer[head, rows]
        return o[at(3, n_q, steps[3][1])]

    return model


def _n_q_for_n_k(q: Any, k: Any, v: Any, **_rest: Any) -> np.ndarray:
    """Return what masking the loads of K and V with n_q gives: rows of zeros from there on."""
    real = np.arange(k.shape[1])[:, None] < q.shape[1]
    return attention_float64(q, np.where(real, k, 0), np.where(real, v, 0))[0]


_STRIDES = (
    *(
        Mistake(
            "head_dim in place of the row stride",
            "from one row to the next it is q_row elements (k_row, v_row, o_row), not head_dim: "
            "rows may hold more than one head.",
            _strided(used),
        )
        for used in (
            lambda d, q, k, v, o: (d, d, d, d),
            lambda d, q, k, v, o: (d, d, d, o),
        )
    ),
    *(
        Mistake(
            "the row stride of another tensor",
            "each of q, k, v and o has a stride of its own: q_row, k_row, v_row, o_row.",
            _strided(used),
        )
        for used in (
            lambda d, q, k, v, o: (q, q, q, q),
            lambda d, q, k, v, o: (q, q, q, o),
            lambda d, q, k, v, o: (q, k, k, o),
            lambda d, q, k, v, o: (q, q, v, o),
            lambda d, q, k, v, o: (q, k, v, q),
        )
    ),
)


def _heads_of_the_first(q: Any, k: Any, v: Any, **_rest: Any) -> np.ndarray:
    """Return what K and V of the first head give in all heads."""
    return attention_float64(q, k[:1], v[:1])[0]


_N_Q_FOR_N_K = Mistake(
    "n_q in place of n_k",
    "k and v have n_k rows: the mask of their loads compares with n_k.",
    _n_q_for_n_k,
)
_FIRST_HEAD = Mistake(
    "all heads read the first head",
    "every head uses K and V of the first one: k + head * k_head, v + head * v_head.",
    _heads_of_the_first,
)

# --- 4 star -----------------------------------------------------------------------------------


def _window_allowed(n_q: int, n_k: int, window: int) -> np.ndarray:
    back = np.arange(n_q)[:, None] + n_k - n_q - np.arange(n_k)
    return (back >= 0) & (back < window)


def _window_truth(q: Any, k: Any, v: Any, window: int, **_tiles: int) -> Any:
    k, v = np.nan_to_num(k), np.nan_to_num(v)  # NaN stands only where nobody looks
    return attention_float64(q, k, v, allowed=_window_allowed(q.shape[1], k.shape[1], window))


def _window_cases(rng: Generator) -> list[Case]:
    def inputs(heads: int, kv_heads: int, n_q: int, n_k: int, d: int, **how: Any) -> Any:
        q, k, v = _double(cases.draw(rng, n_q, n_k, d, heads=(heads,), **how))
        return q, k[:kv_heads], v[:kv_heads]

    q, k, v = inputs(4, 2, 14, 75, 8)
    unseen = (75 - 14 - 9 + 1) // 8 * 8  # whole tiles before the first key that anybody sees
    k[:, :unseen], v[:, :unseen] = np.nan, np.nan
    drawn = [
        ("one head, window 5", inputs(1, 1, 24, 24, 8), 5, 8, 4),
        ("4 query heads share 2 key heads", inputs(4, 2, 19, 19, 8, size=3), 7, 8, 4),
        ("a window of 1: each query sees itself", inputs(2, 2, 13, 13, 4), 1, 4, 4),
        ("a window longer than the row: causal", inputs(2, 2, 21, 21, 8), 99, 8, 8),
        ("scores near 1000", _double(cases.shifted(rng, 9, 9, 4, 1000, heads=(1,))), 3, 4, 4),
        ("scores near -1000", _double(cases.shifted(rng, 9, 9, 4, -1000, heads=(1,))), 3, 4, 4),
        ("6 query heads share 1 key head, ragged", inputs(6, 1, 11, 30, 8), 6, 4, 16),
        ("9 new queries after 41 old keys", inputs(4, 2, 9, 50, 8), 12, 4, 8),
        ("keys that nobody may see hold NaN", (q, k, v), 9, 4, 8),
    ]
    return [
        Case(
            name,
            qkv,
            {"window": window, "block_q": block_q, "block_k": block_k},
            blind_to=frozenset({"V"} if window == 1 else ()),
        )
        for name, qkv, window, block_q, block_k in drawn
    ]


def _window_model(
    change: int = 0,
    *,
    future: Callable[[int], int] = lambda window: 0,
    from_start: bool = False,
    share: Callable[[int, int, int], int] = lambda head, heads, kv_heads: head * kv_heads // heads,
) -> Callable[..., np.ndarray]:
    """Return windowed attention with a mistake in the window or in the sharing of heads.

    ``future``: window -> how many keys after its own a query sees; ``share``: (head, number of
    query heads, of key heads) -> key head.
    """

    def model(q: Any, k: Any, v: Any, window: int, **_tiles: int) -> np.ndarray:
        n_q, n_k = q.shape[1], k.shape[1]
        back = np.arange(n_q)[:, None] + (0 if from_start else n_k - n_q) - np.arange(n_k)
        allowed = (back >= -future(window)) & (back < window + change)
        kv_head = [share(head, len(q), len(k)) for head in range(len(q))]
        return attention_float64(q, k[kv_head], v[kv_head], allowed=allowed)[0]

    return model


_NO_SLIP = Slip()


def _window_walk(
    *,
    slip: Slip = _NO_SLIP,
    guarded: bool = True,
    scale: float = 0.5,
    begin: int = 0,
    end: Callable[[int, int], int] = lambda last, block_k: last + 1,
) -> Callable[..., np.ndarray]:
    """Return the walk over tiles with a slip; ``begin``: the row of the Q tile where it begins."""

    def model(q: Any, k: Any, v: Any, window: int, block_q: int, block_k: int) -> np.ndarray:
        (heads, n_q, d), n_k = q.shape, k.shape[1]
        k, v = (np.repeat(x, heads // len(k), axis=0) for x in (k, v))
        hidden, out = ~_window_allowed(n_q, n_k, window), np.zeros((heads, n_q, d))
        for head, start in np.ndindex(heads, -(-n_q // block_q)):
            rows = np.arange(n_q)[start * block_q :][:block_q]
            at = rows + n_k - n_q
            first = max(0, at[begin] - window + 1) // block_k * block_k
            keys = np.arange(n_k)[first : min(n_k, -(-end(at[-1], block_k) // block_k) * block_k)]
            s = q[head, rows] @ k[head, keys].T / d**scale
            s[hidden[np.ix_(rows, keys)]] = -np.inf
            ends = np.full(len(rows), len(keys))
            out[head, rows] = stream(
                slip, s, v[head, keys], ends, block_k, block_k, guarded=guarded
            )[0]
        return out

    return model


_WINDOW_MISTAKES = (
    Mistake(
        "unseen tiles are computed and masked",
        "0 * NaN is NaN: begin the loop at the first tile that a row may see.",
        _window_model(),
    ),
    Mistake(
        "the window is one key too long",
        "the query's own key counts: a window of 1 is the query itself.",
        _window_model(1),
    ),
    Mistake(
        "the window is one key too short",
        "the query's own key counts as one of the window.",
        _window_model(-1),
    ),
    Mistake(
        "the window looks into the future",
        "causal comes first: no key after the query's own position.",
        _window_model(future=lambda window: window - 1),
    ),
    Mistake(
        "the window is missing",
        "this is plain causal attention.",
        _window_model(1 << 20),
    ),
    Mistake(
        "positions are aligned at the start",
        "query i stands at position i + n_k - n_q: the last query sees the last key.",
        _window_model(from_start=True),
    ),
    Mistake(
        "heads take turns instead of sharing with their neighbours",
        "query head h uses key head h // (H / H_kv), not h % H_kv.",
        _window_model(share=lambda head, heads, kv_heads: head % kv_heads),
    ),
    Mistake(
        "all heads read the first head",
        "query head h uses key head h // (H / H_kv).",
        _window_model(share=lambda *_: 0),
    ),
    Mistake(
        "the group is taken for the number of key heads",
        "a group has H / H_kv query heads: divide by that, not by H_kv.",
        _window_model(share=lambda head, heads, kv_heads: head // kv_heads % kv_heads),
    ),
    Mistake(
        "the causal mask is missing",
        "the window hides keys that are too old; no key after the query's own may be seen either.",
        _window_model(future=lambda window: 1 << 20),
    ),
    Mistake(
        "the loop begins too late",
        "the first row of the Q tile has the oldest keys: it decides where the loop begins.",
        _window_walk(begin=-1),
    ),
    Mistake(
        "the loop ends too early",
        "the last row of the Q tile sees its own key: the loop ends after the tile that holds it.",
        _window_walk(end=lambda last, block_k: last // block_k * block_k),
    ),
    Mistake(
        "the scale is missing", "the scores are not divided by sqrt(d).", _window_walk(scale=0)
    ),
    Mistake("scaled twice", "the scores are divided by d, not by sqrt(d).", _window_walk(scale=1)),
    *(
        Mistake(name, says, _window_walk(slip=slip, guarded=slip.use_max and slip.start != 0))
        for name, says, slip in (
            (
                "O is not rescaled",
                "the running sum is rescaled by alpha, the running output is not.",
                Slip(rescale_o=np.ones_like),
            ),
            (
                "l is not rescaled",
                "the running output is rescaled by alpha, the running sum is not.",
                Slip(rescale_l=np.ones_like),
            ),
            (
                "nothing is rescaled",
                "neither the sum nor the output is rescaled when a new maximum arrives.",
                Slip(rescale_o=np.ones_like, rescale_l=np.ones_like),
            ),
            (
                "each tile uses its own maximum",
                "each tile's exponentials use that tile's own maximum, not the running one.",
                Slip(own_max=True),
            ),
            (
                "no maximum is subtracted",
                "no maximum is subtracted before exp: large scores overflow.",
                Slip(use_max=False),
            ),
            (
                "the maximum starts at 0",
                "where all scores are very negative, every exponential vanishes: start at -inf.",
                Slip(start=0.0),
            ),
            ("not divided by l", "the sum is not divided by l_sum.", Slip(divide="never")),
        )
    ),
    Mistake(
        "a tile without keys gives NaN",
        "a row may meet a tile in which it sees no key before it has seen any: m_new is -inf "
        "then, and -inf - (-inf) is NaN. Subtract 0 there.",
        _window_walk(guarded=False),
    ),
)

# ----------------------------------------------------------------------------------------------

EXERCISES = (
    Exercise(
        id="4.1",
        function="tile_bounds",
        signature="(n, tile)",
        title="Where the tiles begin and end",
        minutes=5,
        points=1,
        hints=(
            "Tiles start at 0, tile, 2 * tile, ... and the last start lies before n.",
            "range(0, n, tile) gives the starts, the short last tile included.",
            "The stop is start + tile, but never more than n: min(start + tile, n).",
        ),
        cases=_bounds_cases,
        truth=_bounds,
        judge=exactly,
        notice="257 rows need 3 tiles of 128, and the third holds a single row. On a GPU that "
        "tile costs as much time as a full one.",
        mistakes=_BOUNDS_MISTAKES,
    ),
    Exercise(
        id="4.2",
        function="attend_q_tile",
        signature="(q_tile, k, v, block_k)",
        title="One Q tile against all keys",
        minutes=12,
        points=4,
        hints=(
            "It is the walk of lesson 03, for several rows at once. Reductions run over the keys "
            "of the tile, axis 1; m, l_sum and alpha keep one number per row.",
            "In the loop: s, m_new, alpha, p, then l_sum and o rescaled by alpha and added to. "
            "After the loop one division.",
            "p = np.exp(s - m_new[:, None]) has shape (n_rows, block_k), and "
            "o = alpha[:, None] * o + p @ v[start:start + block_k].",
        ),
        cases=_q_tile_cases,
        truth=attention_truth,
        answer=output_only,
        judge=_judge_tiled,
        notice="Your scores never were larger than one tile, however many keys came by. And the "
        "output left the loop once: no tile has an answer of its own.",
        run=with_peak,
        mistakes=(*_TILE_MISTAKES, _ONE_SUM, *_STREAM_MISTAKES),
    ),
    Exercise(
        id="4.3",
        function="tiled_attention",
        signature="(q, k, v, block_q, block_k)",
        title="All Q tiles: tiled attention",
        minutes=8,
        points=3,
        hints=(
            "Make the output first, then fill it Q tile by Q tile.",
            "The outer loop goes over tile_bounds(len(q), block_q). Whatever belongs to one Q "
            "tile (m, l_sum, o) starts inside it.",
            "o[start:stop] = the answer of 4.2 for q[start:stop], all of k and v, and block_k.",
        ),
        cases=_tiled_cases,
        truth=attention_truth,
        answer=output_only,
        judge=_judge_tiled,
        notice="The answer does not depend on the tile sizes: they are a question of cost, "
        "not of meaning. The score matrix never existed; your peak of memory shows it.",
        run=with_peak,
        mistakes=(*_LOOP_MISTAKES, *_TILE_MISTAKES, *_STREAM_MISTAKES),
    ),
    Exercise(
        id="4.4",
        function="classify_tile",
        signature="(row_start, row_stop, col_start, col_stop, offset=0)",
        title="Skip, partial or full",
        minutes=8,
        points=3,
        hints=(
            "Two corners decide. The pair with the best chance of being allowed is the last "
            "query with the first key.",
            "If even that pair is hidden, skip. The pair with the worst chance is the first query "
            "with the last key: if even that one is allowed, full.",
            "The last query stands at row_stop - 1 + offset. Skip if that is less than col_start.",
        ),
        cases=_tile_cases,
        truth=_words(_classify),
        judge=_judge_tiles,
        run=_run_tiles,
        notice="Two comparisons of corners replace a look at every pair. Only tiles on the "
        "diagonal need the mask.",
        mistakes=_CLASSIFY_MISTAKES,
    ),
    Exercise(
        id="4.5",
        function="predict_loads",
        signature="()",
        title="Predict the loads",
        minutes=8,
        points=2,
        hints=(
            "How many programs are there? Which of them needs which rows of K?",
            "N / tile programs, and each of them loads all of K. A program's own Q tile is "
            "loaded once, before its loop.",
            "If N doubles, there are twice as many rows of K and twice as many programs that "
            "load them.",
        ),
        cases=lambda _rng: [Case("")],
        truth=_loads_truth,
        judge=exactly,
        notice="The space grows with N, the loads with N squared: O(N) memory is not O(N) "
        "traffic. Taller Q tiles are what cuts the re-reads.",
        kind="question",
        mistakes=_LOAD_MISTAKES,
    ),
    Exercise(
        id="4.6",
        function="flash_program",
        signature="(pid, memory, q, k, v, o, q_head, q_row, k_head, k_row, v_head, v_row, "
        "o_head, o_row, n_q, n_k, scale, head_dim, block_q, block_k)",
        title="The kernel's shape, in NumPy on flat memory",
        minutes=12,
        points=5,
        hints=(
            "load_tile needs a (rows, columns) table of addresses: rows as a column, [:, None], "
            "times the stride, plus cols as a row, [None, :], plus the base.",
            "The loop is that of 4.2, but k_tile and v_tile come from load_tile, and where "
            "keys >= n_k the score becomes -inf before the maximum.",
            "at = base + rows[:, None] * stride_row + cols[None, :], with mask "
            "rows[:, None] < n_rows; one store_tile after the loop.",
        ),
        cases=_program_cases,
        truth=attention_truth,
        answer=output_only,
        judge=_judge_program,
        notice="Q and O crossed once, K and V once per Q tile, to the byte, and the programs ran "
        "last one first. Lesson 07 writes these lines in Triton.",
        run=_launch,
        mistakes=(*_STRIDES, _FIRST_HEAD, _N_Q_FOR_N_K, *_STREAM_MISTAKES),
    ),
    Exercise(
        id="4-star",
        function="windowed_gqa_attention",
        signature="(q, k, v, window, block_q, block_k)",
        title="A window and shared heads",
        minutes=15,
        points=4,
        hints=(
            "Write the loop of 4.3 for one head, then choose the key head: h // (H // H_kv).",
            "The rows of a Q tile stand at positions rows + n_k - n_q. The first row's oldest key "
            "decides where the loop over keys begins, the last row's own key where it ends.",
            "The first tile starts at max(0, at[0] - window + 1) // block_k * block_k; where "
            "m_new is -inf subtract 0 instead.",
        ),
        cases=_window_cases,
        truth=_window_truth,
        answer=output_only,
        judge=_judge_output,
        notice="With a window the number of visited tiles grows with N, no longer with N squared. "
        "Shared heads shrink K and V; what that saves in loads depends on who shares.",
        mistakes=_WINDOW_MISTAKES,
    ),
)
