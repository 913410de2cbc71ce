"""Exercise 4★: a window and shared heads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from course_lib.attention.masks import sliding_window
from course_lib.attention.slips import stream
from course_lib.attention.truth import attention_float64
from course_lib.judging import cases, magnitudes, sizes
from course_lib.judging.attention_judge import output_only
from course_lib.judging.desk import Once, taken_once
from course_lib.judging.misconceptions import known_as
from course_lib.judging.misread import Misreading
from course_lib.judging.spec import Case, Exercise, Mistake
from course_lib.specs.lesson_04.tiled import (
    OF_THE_LOOP,
    in_double,
    judge_output,
    only_rows,
    run_all_tiles,
)


def window_truth(q: Any, k: Any, v: Any, window: int, **_tiles: int) -> Any:
    """Return causal attention to the last ``window`` keys: o (H, n_q, d) and lse, float64."""
    k, v = np.nan_to_num(k), np.nan_to_num(v)  # NaN stands only where nobody looks
    return attention_float64(q, k, v, allowed=sliding_window(window).dense(q.shape[1], k.shape[1]))


def _window_cases(rng: Generator) -> list[Case]:
    def inputs(heads: int, kv_heads: int, n_q: int, n_k: int, d: int, **how: Any) -> Any:
        q, k, v = in_double(cases.draw(rng, n_q, n_k, d, heads=(heads,), **how))
        return q, k[:kv_heads], v[:kv_heads]

    q, k, v = inputs(4, 2, 14, 75, 8)
    unseen = (75 - 14 - 9 + 1) // 8 * 8  # whole tiles before the first key that anybody sees
    k[:, :unseen], v[:, :unseen] = np.nan, np.nan
    hard = [
        (name, (q, k[:1], v[:1]), shows)
        for name, triple, shows in cases.hard(rng, 25, 33, 16, heads=(2,))
        for q, k, v in [in_double(triple)]
    ]
    many = in_double(cases.many_tiles(rng, heads=(1,)))

    def case(name: str, qkv: Any, window: int, block_q: int, block_k: int, **flags: Any) -> Case:
        sizes = {"window": window, "block_q": block_q, "block_k": block_k}
        return Case(name, qkv, sizes, **flags)

    related = [
        case(f"{n_q} queries after {old} keys, {heads} heads share {kv_heads}, window {window}, "
             f"tiles of {block_q} and {block_k}, d = {d}",
             inputs(heads, kv_heads, n_q, old + n_q, d), window, block_q, block_k)
        for n_q, old, d, heads, kv_heads, window, block_q, block_k in _related(rng)
    ]  # fmt: skip
    apart = in_double(cases.shifted(rng, 9, 9, 4, 900, heads=(2,)))
    apart[0][0, :, 0] *= -1
    return [
        case("one head, window 5", inputs(1, 1, 24, 24, 8), 5, 8, 4),
        case("4 query heads share 2 key heads", inputs(4, 2, 19, 19, 8, size=3), 7, 8, 4),
        case("a window of 1: each query sees itself",
             inputs(2, 2, 13, 13, 4), 1, 4, 4, blind_to=frozenset({"V"})),
        case("a window longer than the row: causal", inputs(2, 2, 21, 21, 8), 99, 8, 8),
        case("scores near 1000", in_double(cases.shifted(rng, 9, 9, 4, 1000, heads=(1,))), 3, 4, 4),
        case("scores near -1000",
             in_double(cases.shifted(rng, 9, 9, 4, -1000, heads=(1,))), 3, 4, 4),
        case("a head near -900 and a head near 900", apart, 3, 4, 4),
        case("a head near 900 and a head near -900", tuple(x[::-1] for x in apart), 3, 4, 4),
        case("6 query heads share 1 key head, ragged", inputs(6, 1, 11, 30, 8), 6, 4, 16),
        case("9 new queries after 41 old keys", inputs(4, 2, 9, 50, 8), 12, 4, 8),
        case("10 new queries after 31 old keys, in tiles of 3 and 8",
             inputs(2, 1, 10, 41, 8), 9, 3, 8),
        case("tiles of 1 and 1", inputs(2, 2, 5, 7, 4), 3, 1, 1),
        case("tiles of keys that nobody may see hold NaN", (q, k, v), 9, 4, 8),
        case(cases.FARTHEST_NAME, cases.farthest(rng, 11, 17, 4, heads=(1,)), 5, 4, 4),
        case(cases.MANY_NAME, many, 999, 4, 1),
        *(case(name, qkv, 13, 4, 8, shows=shows) for name, qkv, shows in hard),
        *(case(name, qkv, 20, 2, 4)
          for name, qkv in magnitudes.attention(rng, 3, 14, 4, heads=(1,))),
        *related,
        case(cases.CREEP_NAME,
             in_double(cases.creeping(rng, 3, 21, 4, cases.CREEP, heads=(1,))), 99, 4, 4),
    ]  # fmt: skip


def _related(rng: Generator) -> Iterator[tuple[int, ...]]:
    """Yield sizes that stand in a relation: queries, keys before them, head_dim, heads, key heads,
    window, tiles."""
    choices = sizes.related(
        rng,
        16,
        rows=sizes.LENGTHS,
        keys=(lambda tile: 0, *sizes.LENGTHS),
        d=(1, 3, 16, 32, 65),
        heads=((2, 1), (3, 1), (6, 2), (4, 1), (8, 2), (3, 3), (8, 4), (4, 4)),
        window=(
            lambda keys, tile: keys,
            lambda keys, tile: tile,
            lambda keys, tile: 2,
            lambda keys, tile: max(keys - 1, 1),
            lambda keys, tile: tile + 1,
            lambda keys, tile: max(keys // 2, 1),
        ),
        block_q=(1, 2, 6, 8, 16, 24),
        block_k=(1, 3, 8, 16, 24),
    )
    for one in choices:
        block_q, block_k = one["block_q"], one["block_k"]
        n_q, old = one["rows"](block_q), one["keys"](block_k)
        window = one["window"](old + n_q, block_k)
        yield n_q, old, one["d"], *one["heads"], window, block_q, block_k


def _loaded_once(case: Case) -> dict[str, Once]:
    """Return how often q, k and v may be taken: a tile of K and V once for each tile of rows of a
    query head in which somebody may look at it."""
    q, k, _ = case.args
    (heads, n_q, _), (kv_heads, n_k, _) = q.shape, k.shape
    window, block_q, block_k = (case.kwargs[name] for name in ("window", "block_q", "block_k"))
    times, visits, starts = np.zeros((kv_heads, n_k), dtype=np.int64), 0, range(0, n_q, block_q)
    causal, windowed = times.copy(), times.copy()  # visited by who skips on one side only
    for start in starts:
        first, last = start + n_k - n_q, min(start + block_q, n_q) - 1 + n_k - n_q
        tiles = range(max(0, first - window + 1) // block_k, last // block_k + 1)
        times[:, tiles.start * block_k : tiles.stop * block_k] += heads // kv_heads
        causal[:, : tiles.stop * block_k] += heads // kv_heads
        windowed[:, tiles.start * block_k :] += heads // kv_heads
        visits += heads * len(tiles)

    def why(taken: NDArray[np.int64]) -> str:
        begins = np.flatnonzero(np.diff(taken.reshape(kv_heads, n_k), axis=1).any(0)) + 1
        if (begins % block_k).any():
            return (
                f"its tiles begin at multiples of block_k = {block_k}, and some of yours begin "
                "elsewhere, so that it lies in two of them. The first is number first // block_k, "
                "first being the first key that the first row sees."
            )
        skipped = (
            "a tile of which no row of a Q tile sees a key, because it lies {}, is to be skipped: "
        )
        if (taken <= causal.ravel()).all():
            begin = "begin at the tile of the first key that the first row sees."
            return skipped.format("before the window") + begin
        if (taken <= windowed.ravel()).all():
            end = "end with the tile of the last key that the last row sees."
            return skipped.format("in the future") + end
        return ""

    seen = {
        name: Once(
            "loads what is seen, once",
            f"row {{}} of {name} (all heads in a row)",
            times.ravel(),
            tile=(kv_heads * block_k, visits),
            matrices=kv_heads,
            least=0,
            taken="{}[head, start:stop]",
            why=why,
        )
        for name in "kv"
    }
    part = "row {} of q (all heads in a row)"
    tile = heads * block_q, heads * len(starts)
    taken = "{}[head, start:stop]"
    return {"q": Once("loads q once", part, tile=tile, matrices=heads, taken=taken), **seen}


def _window_model(
    change: int = 0,
    *,
    future: Callable[[int], int] = lambda window: 0,
    from_start: bool = False,
    from_key_0: bool = False,
    share: Callable[[int, int, int], int] = lambda head, heads, kv_heads: head * kv_heads // heads,
) -> Callable[..., np.ndarray]:
    """Return windowed attention with a mistake in the window or in the sharing of heads.

    ``future``: window -> how many keys after its own a query sees; ``from_key_0``: it is the first
    keys that all see; ``share``: (head, number of query heads, of key heads) -> key head.
    """

    def model(q: Any, k: Any, v: Any, window: int, **_tiles: int) -> np.ndarray:
        n_q, n_k = q.shape[1], k.shape[1]
        back = np.arange(n_q)[:, None] + (0 if from_start else n_k - n_q) - np.arange(n_k)
        near = np.arange(n_k) < window if from_key_0 else back < window + change
        allowed = (back >= -future(window)) & near
        kv_head = [share(head, len(q), len(k)) for head in range(len(q))]
        return attention_float64(q, k[kv_head], v[kv_head], allowed=allowed)[0]

    return model


def _window_walk(
    slip: Misreading = Misreading(),  # noqa: B008 - it is frozen
    *,
    guarded: bool = True,
    l_guarded: bool | None = None,
    longer: int = 0,
    from_key_0: bool = False,
    begin: int = 0,
    end: Callable[[int, int], int] = lambda last, block_k: last + 1,
) -> Callable[..., np.ndarray]:
    """Return the walk over tiles with a slip, with or without care for rows that see no key.

    ``longer``: how many keys too many the mask lets through, in the right tiles. ``begin``: the row
    of the Q tile where the walk begins.
    """

    loop = replace(slip.loop, l_guarded=l_guarded)

    def model(q: Any, k: Any, v: Any, window: int, block_q: int, block_k: int) -> np.ndarray:
        (heads, n_q, d), n_k = q.shape, k.shape[1]
        q, k, v = slip.inputs_read(q, k, v, block_k)
        k, v = (np.repeat(x, heads // len(k), axis=0) for x in (k, v))
        hidden, out = ~sliding_window(window + longer).dense(n_q, n_k), np.zeros((heads, n_q, d))
        if from_key_0:
            hidden = np.arange(n_k) > np.minimum(window - 1, np.arange(n_k - n_q, n_k)[:, None])
        for head, start in np.ndindex(heads, -(-n_q // block_q)):
            rows = np.arange(n_q)[start * block_q :][:block_q]
            at = rows + n_k - n_q
            first = max(0, at[begin] - window + 1) // block_k * block_k
            keys = np.arange(n_k)[first : min(n_k, -(-end(at[-1], block_k) // block_k) * block_k)]
            s = q[head, rows] @ k[head, keys].T * slip.factor / d ** (slip.power / 2)
            slip.loop.hide(s, hidden[np.ix_(rows, keys)])
            out[head, rows] = stream(loop, s, v[head, keys], block_k, guarded=guarded)[0]
        return out

    return model


def _notes_kept(q: Any, k: Any, v: Any, window: int, of_all: bool, **_tiles: int) -> np.ndarray:
    """Return what becomes of notes that begin anew with a key head, or (``of_all``) never."""
    shared = len(q) // len(k)
    group = len(q) if of_all else shared
    o, lse = window_truth(q, np.repeat(k, shared, axis=0), np.repeat(v, shared, axis=0), window)
    out = np.empty_like(o)
    for head in range(len(q)):
        kept = slice(head - head % group, head + 1)
        p = np.exp(lse[kept] - lse[kept].max(axis=0))
        out[head] = (p[..., None] * o[kept]).sum(axis=0) / p.sum(axis=0)[:, None]
    return out


# rows without a key: who takes care of them
_GUARDS: tuple[dict[str, Any], ...] = (
    {"guarded": True, "l_guarded": True},
    {"guarded": True, "l_guarded": False},
    {"guarded": False, "l_guarded": False},
)
_WINDOW_MISTAKES = Mistake.table(
    ("unseen tiles are computed and masked",
     "0 * NaN is NaN: begin the loop at the first tile that a row may see.",
     _window_model()),
    ("the window is one key too long",
     "the query's own key counts: a window of 1 is the query itself.",
     _window_model(1), _window_walk(longer=1)),
    ("the window is one key too short", "the query's own key counts as one of the window.",
     _window_model(-1)),
    ("the window begins at key 0",
     "each query has a window of its own, which ends with its own key: compare how far back a key "
     "lies with window, not its number.",
     _window_model(from_key_0=True),
     *(_window_walk(from_key_0=True, **guards) for guards in _GUARDS)),
    ("the window looks into the future",
     "causal comes first: no key after the query's own position.",
     _window_model(future=lambda window: window - 1)),
    ("the window is missing", "this is plain causal attention.", _window_model(1 << 20)),
    ("positions are aligned at the start",
     "query i stands at position i + n_k - n_q: the last query sees the last key.",
     _window_model(from_start=True)),
    ("heads take turns instead of sharing with their neighbours",
     "query head h uses key head h // (H / H_kv), not h % H_kv.",
     _window_model(share=lambda head, heads, kv_heads: head % kv_heads)),
    ("all heads read the first head",
     "every query head is given K and V of the first one, by its index or of what was kept from "
     "there. Query head h uses key head h // (H / H_kv).",
     _window_model(share=lambda *_: 0)),
    ("the group is taken for the number of key heads",
     "a group has H / H_kv query heads: divide by that, not by H_kv.",
     _window_model(share=lambda head, heads, kv_heads: head // kv_heads % kv_heads)),
    ("notes outlive their head",
     "m, l_sum and o go on where another query head left them: each query head has notes of its "
     "own, and begins at -inf, 0 and 0, whether or not it shares K and V.",
     partial(_notes_kept, of_all=False), partial(_notes_kept, of_all=True)),
    ("the causal mask is missing",
     "the window hides keys that are too old; no key after the query's own may be seen either.",
     _window_model(future=lambda window: 1 << 20)),
    ("the loop begins too late",
     "the first row of the Q tile has the oldest keys: it decides where the loop begins.",
     _window_walk(begin=-1)),
    ("the loop ends too early",
     "the last row of the Q tile sees its own key: the loop ends after the tile that holds it.",
     _window_walk(end=lambda last, block_k: last // block_k * block_k)),
    ("only the first tile is counted",
     "the loop ends after the first tile of keys, whatever a row sees.",
     *(_window_walk(end=lambda last, block_k: block_k, **guards) for guards in _GUARDS)),
    *only_rows(_window_model()),
    ("a tile without keys gives NaN",
     "a row may meet a tile in which it sees no key before it has seen any: m_new is -inf then, "
     "and -inf - (-inf) is NaN. Subtract 0 there.",
     _window_walk(guarded=False)),
    *(
        (known.name, known.says, _window_walk(slip, **guards))
        for known in known_as(OF_THE_LOOP | {"scaled by a length, not by head_dim"})
        for slip in known.slips
        for guards in _GUARDS
        if guards["guarded"] in slip.loop.guards
    ),
)  # fmt: skip


EXERCISE = Exercise.of(
    "4-star",
    cases=_window_cases,
    truth=window_truth,
    answer=output_only,
    judge=taken_once(judge_output, _loaded_once, lambda _case, _held: None, part="tile"),
    run=run_all_tiles,
    without_torch=True,
    mistakes=_WINDOW_MISTAKES,
)
