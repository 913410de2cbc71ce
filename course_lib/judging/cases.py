"""The inputs on which attention is tried: ordinary ones, and those that expose mistakes.

They are ``(q, k, v)``, float32 NumPy arrays of shapes ``(..., n, d)``, or a `Case` with tensors
for a kernel's launcher. The list is the course's standard: ragged tiles, N_q != N_k, large and
very negative scores, maxima that rise or fall along the row, values far from zero, strided memory,
empty rows, a single key. The last part holds the hard ones, which every exercise with scores draws.
Longer than 400 lines because it is one list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging.spec import FAR, JUMPS, REMAINDER, Case

Triple = tuple[np.ndarray, np.ndarray, np.ndarray]


def draw(
    rng: Generator, n_q: int, n_k: int, d: int, *, heads: tuple[int, ...] = (), size: float = 1.0
) -> Triple:
    """Return standard normal q, k, v; q and k are multiplied by ``size``."""
    q = size * rng.standard_normal((*heads, n_q, d))
    k = size * rng.standard_normal((*heads, n_k, d))
    v = rng.standard_normal((*heads, n_k, d)) + 0.5  # a mean of its own: mean(V) is not zero
    return q.astype(np.float32), k.astype(np.float32), v.astype(np.float32)


def in_double(rng: Generator, arrays: Triple) -> Triple:
    """Return q, k, v as float64 that float32 cannot hold: who rounds one on the way is seen."""
    q, k, v = (x * (1 + 2.0**-25 * rng.uniform(-1, 1, x.shape)) for x in arrays)
    return q, k, v


def by_columns(arrays: Triple) -> Triple:
    """Return the same arrays as they lie in memory column by column: in NumPy's words, order F."""
    q, k, v = map(np.asfortranarray, arrays)
    return q, k, v


def shifted(rng: Generator, n_q: int, n_k: int, d: int, by: float, **kwargs: Any) -> Triple:
    """Return inputs whose scores q·k/sqrt(d) all lie near ``by`` (-150: a max from 0 is NaN)."""
    q, k, v = draw(rng, n_q, n_k, d, **kwargs)
    root = np.float32(np.sqrt(abs(by) * np.sqrt(d)))
    q[..., 0], k[..., 0] = root, np.sign(by) * root
    return q, k, v


def sloped(rng: Generator, n_q: int, n_k: int, d: int, rise: float, **kwargs: Any) -> Triple:
    """Return inputs whose scores climb (``rise`` > 0) or fall along the row by about ``rise``."""
    q, k, v = draw(rng, n_q, n_k, d, **kwargs)
    q[..., 0] = np.sqrt(d)
    k[..., 0] = np.linspace(0, rise, n_k, dtype=np.float32)
    return q, k, v


CREEP = 1.5e-5  # from key to key: too small a rise to be worth a rescaling?
CREEP_NAME = "scores that creep upwards, by less than a thousandth from tile to tile"


def creeping(rng: Generator, n_q: int, n_k: int, d: int, step: float, **kwargs: Any) -> Triple:
    """Return inputs whose scores climb by ``step`` from key to key, or by twice as much.

    So do the values: who weighs early keys too much is off to one side, as no rounding is.
    """
    q, k, v = draw(rng, n_q, n_k, d, **kwargs)
    v += np.linspace(0, 4, n_k, dtype=v.dtype)[:, None]
    q[...] = 0
    q[..., ::2, 0], q[..., 1::2, 0] = np.sqrt(d), 2 * np.sqrt(d)
    k[..., 0] = step * np.arange(n_k)
    return q, k, v


def far_rows(rng: Generator, n_q: int, n_k: int, d: int, by: float, **kwargs: Any) -> Triple:
    """Return inputs whose rows' scores lie near ``by`` and near ``-by``, in turns."""
    q, k, v = shifted(rng, n_q, n_k, d, by, **kwargs)
    q[..., ::2, 0] *= -1
    return q, k, v


def far_values(rng: Generator, n_q: int, n_k: int, d: int, by: float, **kwargs: Any) -> Triple:
    """Return uniform scores with V near ``by``: at 100 a half-precision sum overflows or drifts."""
    q, k, v = draw(rng, n_q, n_k, d, **kwargs)
    return np.zeros_like(q), k, v + by


def alike_queries(rng: Generator, n_q: int, n_k: int, d: int, by: float, **kwargs: Any) -> Triple:
    """Return one query over and over, and keys of 0: every tile of queries adds the same to dK, dV.

    So a sum that is rounded to half precision in each step drifts. ``by``, if not 1: the size of
    all numbers in q; of 3072, 64 queries make sums of dK that float16 holds once they are scaled.
    """
    q, k, v = draw(rng, n_q, n_k, d, **kwargs)
    q[...] = q[..., :1, :] if by == 1 else by * np.sign(q[..., :1, :])
    return q, np.zeros_like(k), v


def alike_keys(rng: Generator, n_q: int, n_k: int, d: int, by: float, **kwargs: Any) -> Triple:
    """Return queries of 0, and one key and value, turned round in the second half of the row.

    So every tile of keys adds the same to dQ, as every tile of queries does in `alike_queries`.
    """
    q, k, v = draw(rng, n_q, n_k, d, **kwargs)
    turn = np.where(np.arange(n_k) < n_k // 2, 1, -1)[:, None].astype(np.float32)
    k[...] = turn * (k[..., :1, :] if by == 1 else by * np.sign(k[..., :1, :]))
    v[...] = turn * v[..., :1, :]
    return np.zeros_like(q), k, v


def peaked(rng: Generator, n_q: int, n_k: int, d: int, by: float, **kwargs: Any) -> Triple:
    """Return one key whose score lies ``by`` above all others, and V near 1, but for its own.

    Weights that are made smaller than they need be are lost in float16, and with them the 1.
    """
    q, k, v = draw(rng, n_q, n_k, d, **kwargs)
    q[...], k[...] = np.sqrt(d) / 4, 0
    k[..., n_k // 2, :] = 4 * by / d
    v[...] = 0.25 * v + 1
    v[..., n_k // 2, :] = -1
    return q, k, v


# Hard cases --------------------------------------------------------------------------------------

FAR_BELOW = -20_000.0  # masks that fill with -10000 or -1e4 put the hidden keys above these scores
FARTHEST = -(2.0**30)  # the same for -1e5, -1e6, -1e9
APART = 2.0**16  # one score and the next, there
# No further below: a GPU may fuse a product and a subtraction, so that the largest score is off its
# own maximum by half a unit in the last place. That is 64 here, and exp(64) is a number still.


def jumps(n: int, by: float) -> np.ndarray:
    """Return scores (n,), float64, that climb from ``-by`` to ``by`` in four stairs, with holes.

    Every second score of a stair lies ``2 * by`` below it, the first among them and the last not.
    So what is not the maximum of the scores so far, whatever else it is, is far from it, within
    two neighbours as well as along the row. The negative of these scores falls.
    """
    stair = np.arange(n) * 4 // n
    low = np.arange(n) % 2 == 0
    low[-1] = n == 1
    return np.asarray(by * (2 * stair / 3 - 1 - 2 * low))


def jumping(rng: Generator, n_q: int, n_k: int, d: int, by: float, **kwargs: Any) -> Triple:
    """Return inputs whose rows are, in turns, all zeros, `jumps` upwards, and downwards."""
    q, k, v = draw(rng, n_q, n_k, d, **kwargs)
    q[..., 0], k[..., 0] = np.sqrt(d), jumps(n_k, by)
    q[..., 2::3, 0] *= -1
    q[..., ::3, :] = 0
    return in_eighths(q, k, v)


WHOLE_NAME = "scores that jump, in whole tiles: for who begins with the last one, too"


def masked(rng: Generator, n_q: int, n_k: int) -> np.ndarray:
    """Return a free mask (n_q, n_k), True where a key is seen: windows and holes, no staircase.

    Row 0 sees a window in the middle, row 1 the last key alone, row 2 all but the middle; the
    others are drawn, and see the last key. Key 0 is seen by nobody.
    """
    seen = rng.random((n_q, n_k)) < 0.6
    key = np.arange(n_k)
    middle = (key > 0) & (key >= n_k // 3) & (key < max(2 * n_k // 3, 2))
    fixed = (middle, key == n_k - 1, ~middle)
    seen[:, -1] = True
    for row, what in zip(seen, fixed, strict=False):
        row[:] = what
    seen[:, 0] = False
    return seen


def loud_where_hidden(rng: Generator, seen: np.ndarray, d: int, by: float) -> Triple:
    """Return q, k, v (n, d) whose hidden pairs score up to ``by``, of both signs; d is 4 or more.

    Seen pairs have ordinary scores. A key that nobody sees has a value near ``by`` besides.
    """
    n_q, n_k = seen.shape
    q, k, v = (x.astype(np.float64) for x in draw(rng, n_q, n_k, d))
    # a row of q picks one block of hidden pairs, by one of its numbers: the first two columns
    for column, row in enumerate((0, min(2, n_q - 1))):
        alone = np.zeros(n_q, dtype=bool)
        alone[row] = True
        hidden = ~seen[row]
        q[:, column] = np.where(alone, np.sqrt(d), 0.0)
        k[:, column] = np.where(hidden, by * rng.choice([-1, 1], n_k), 0.0)
    nobody = ~seen.any(axis=0)
    k[nobody] *= by
    v[nobody] *= by
    return q, k, v


def farthest(rng: Generator, n_q: int, n_k: int, d: int, **kwargs: Any) -> Triple:
    """Return inputs, float64, with scores that climb by `APART` to `FARTHEST`; d is a power of 4.

    The last key that a row sees has all the weight, so the log of the sum is as exact as the sum.
    """
    q, k, v = (x.astype(np.float64) for x in draw(rng, n_q, n_k, d, **kwargs))
    q[...], k[...] = 0, 0
    q[..., 0], k[..., 0] = np.sqrt(d), FARTHEST - APART * np.arange(n_k)[::-1]
    return q, k, v


FARTHEST_NAME = "scores of -2**30 and far below"


MANY, FALL = 800, -760.0  # tiles of one key, in which scores fall by a little less than 1 each
MANY_NAME = f"scores that fall or rise by {-FALL:g} over {MANY} keys, in tiles of one key"


def many_tiles(rng: Generator, **kwargs: Any) -> Triple:
    """Return 4 rows that fall and rise, for tiles of one key.

    What is off by one in each tile adds up, until l_sum overflows or vanishes in any float.
    """
    q, k, v = sloped(rng, 4, MANY, 4, FALL, **kwargs)
    q[..., ::2, 0] *= -1
    return q, k, v


def far_below(rng: Generator, n_q: int, n_k: int, d: int, by: float, **kwargs: Any) -> Triple:
    """Return inputs whose scores lie near ``by`` and are as exact in float32 as those near 0."""
    return in_eighths(*shifted(rng, n_q, n_k, d, by, **kwargs))


def in_eighths(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> Triple:
    """Return q and k rounded to eighths: where d is a power of 4, float32 holds q·k/sqrt(d)."""
    return np.round(8 * q) / 8, np.round(8 * k) / 8, v


def hard_names(by: float) -> tuple[str, str]:
    """Return what the reports call the hard inputs: those that jump, and those far below 0."""
    jump = f"scores that climb, fall and jump by {2 * by:g} within a tile, and rows of zeros"
    return jump, f"scores near {FAR_BELOW:.0f}"


def hard(
    rng: Generator, n_q: int, n_k: int, d: int, *, by: float = 2000.0, heads: tuple[int, ...] = ()
) -> list[tuple[str, Triple, frozenset[str]]]:
    """Return the hard inputs of an attention exercise: (name, (q, k, v), what they show).

    n_q and n_k are one more than whole tiles; ``by`` is 150 where exp is taken in float32.
    """
    jump, far = hard_names(by)
    return [
        (jump, jumping(rng, n_q, n_k, d, by, heads=heads), frozenset({JUMPS, REMAINDER})),
        (far, far_below(rng, n_q, n_k, d, FAR_BELOW, heads=heads), frozenset({FAR, REMAINDER})),
    ]


def hard_rows(
    rng: Generator, n: int, *, by: float = 2000.0
) -> list[tuple[str, np.ndarray, frozenset[str]]]:
    """Return the same as rows of scores, (3, n), one more than whole blocks long.

    In the rows of the last, all of them far below any number or far above, exactly one score has
    all the weight.
    """
    jump, far = hard_names(by)
    noise = np.round(8 * rng.standard_normal((3, n))) / 8
    turns = np.array([[0], [1], [-1]])
    return [
        (jump, turns**2 * noise + turns * jumps(n, by), frozenset({JUMPS, REMAINDER})),
        (far, noise + FAR_BELOW, frozenset({FAR, REMAINDER})),
        (_FAR_APART_NAME, _far_apart(rng, n), frozenset({FAR, REMAINDER})),
    ]


_FAR_APART_NAME = f"{FARTHEST_NAME}, or of 2**30 and far above"


def _far_apart(rng: Generator, n: int, turns: tuple[int, ...] = (1, -1, 1)) -> np.ndarray:
    steps = APART * rng.permuted(np.tile(np.arange(n), (3, 1)), axis=1)
    return np.array(turns)[:, None] * (FARTHEST - steps)


def one_far_below(rng: Generator) -> np.ndarray:
    """Return 3 rows of 40 scores in which only the largest number *without* its sign is far off."""
    x = np.asarray(rng.standard_normal((3, 40)))
    x[np.arange(3), rng.integers(1, 40, 3)] -= 250
    return x


def sized_rows(rng: Generator, *, by: float = 150.0) -> list[tuple[str, np.ndarray]]:
    """Return scores in other shapes than most cases have: long rows, many of them, short ones.

    In each row one score lies ``by`` above the others, from the first place to the last, so that
    a maximum of some places only is far off. The long ones all but fill blocks, of 1024 too. The
    one before the last fills one: what is wrong with it is not wrong with places past the end.
    Above the last lies what stands for -inf in other people's programs, -1e38 too.
    """
    n, many = 1024 * int(rng.integers(5, 7)) - int(rng.integers(1, 9)), int(rng.integers(36, 48))
    shapes = {
        f"3 rows of {n} scores, one of them far above": (3, n),
        f"{many} rows of 10 scores": (many, 10),
        "3 rows of a single score": (3, 1),
    }
    whole = f"3 rows of 64 scores: {_FAR_APART_NAME}", _far_apart(rng, 64)
    # the largest is a power of two: exact in base 2 as well, however a GPU fuses what is done to it
    lowest = (
        "3 rows of 33 scores of -2**127 and far below, near the end of float32",
        2.0**97 * _far_apart(rng, 33, (1, 1, 1)),
    )
    # and none is short: what is wrong with it is not wrong with places past the end
    whole_and_low = (
        "3 rows of 64 scores of -2**127 and far below",
        2.0**97 * _far_apart(rng, 64, (1, 1, 1)),
    )
    peaks = [(name, _peaked(rng, *shape, by)) for name, shape in shapes.items()]
    return [*peaks, whole, lowest, whole_and_low]


def _peaked(rng: Generator, rows: int, n: int, by: float) -> np.ndarray:
    x = rng.standard_normal((rows, n))
    x[np.arange(rows), np.linspace(0, n - 1, rows).astype(int)] += by
    return x


# Half inputs, float32 notes ----------------------------------------------------------------------

FINE_STEP = 2.375 * 2.0**-11  # of the scores from tile to tile: exp(-it) lies between two halves


def fine(
    rng: Generator, n_q: int, n_k: int, d: int, by: float, *, tile: int = 1, heads: Any = ()
) -> Triple:
    """Return inputs that float16 holds, of scores near 48 or -48 that it does not hold; d is 16.

    In each row they climb by `FINE_STEP` a tile, above a pattern in quarters (which float16 holds,
    so that no noise makes up for the rounding). Rounded to half precision the steps become stairs
    of 1/32; alpha, rounded, is off by the same in every tile; and V, which climbs by 2 around
    ``by``, shows it. Where it is large, so is dP, all but the little that counts. (48 log2(e) is
    near a half: a kernel for exp2 may scale q before it is multiplied, and round it.)
    """
    place = np.arange(n_k) // tile
    climb = place / max(1, place[-1])
    q, k = np.zeros((*heads, n_q, d)), np.zeros((*heads, n_k, d))
    q[..., 0], k[..., 0] = rng.choice([-192, 192], (*heads, n_q)), 1
    q[..., 1], k[..., 1] = 4 * 2.375, place * FINE_STEP / 2.375
    q[..., 2] = rng.choice([-1, 1], (*heads, n_q))
    k[..., 2] = np.resize(rng.integers(-4, 5, tile), n_k)
    v = by + 2 * climb[:, None] - 1 + 0.25 * rng.standard_normal((*heads, n_k, d))
    return q.astype(np.float32), k.astype(np.float32), v.astype(np.float32)


FINE_NAME = "float16, scores near 48 and -48 that climb by a thousandth from tile to tile"
# below the largest score: its weight beside one of them is a float16 still, and 32 of them are half
# a unit of 1, which is added as a whole one or not at all
FAINT = 11
FAINT_NAME = f"float16, one key {FAINT} above 1023 others, which count together"


# Tensors for launchers ---------------------------------------------------------------------------


def grouped(arrays: Triple, kv_heads: int) -> Triple:
    """Return q, and k and v with their first ``kv_heads`` heads only."""
    q, k, v = arrays
    return q, k[:, :kv_heads].copy(), v[:, :kv_heads].copy()


def tensor(x: Any, dtype: str = "float32") -> Any:
    """Return a contiguous tensor of these numbers."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32)).to(getattr(torch, dtype))


def as_tensors(arrays: Triple, dtype: str = "float32", *, strided: str = "") -> tuple[Any, ...]:
    """Return torch tensors of ``dtype``; ``strided`` gives each a layout of its own.

    "all": of (B, H, N, d), q lies in memory as (B, N, H, d), k as (B, H, d, N), v as (B, d, N, H).
    "q" or "v": that one is every second column of a wider table (and no result lies as q does).
    "columns": each lies as (B, H, d, N), and so does a result that is made like q.
    "room": each has room of its own behind rows, heads and batches, so that no two strides agree.
    """
    import torch

    tensors = [torch.from_numpy(a).to(getattr(torch, dtype)) for a in arrays]
    if not strided:
        return tuple(tensors)
    if strided == "room":
        return tuple(_roomy(x, 1 + i) for i, x in enumerate(tensors))
    if strided == "columns":
        return tuple(_stored(x, _ORDERS[1]) for x in tensors)
    return tuple(
        x.repeat_interleave(2, -1)[..., ::2] if name == strided else _stored(x, order)
        for name, x, order in zip("qkv", tensors, _ORDERS, strict=True)
    )


_ORDERS = ((0, 2, 1, 3), (0, 1, 3, 2), (0, 3, 2, 1))  # each is its own inverse


def _stored(x: Any, order: tuple[int, ...]) -> Any:
    return x.permute(order).contiguous().permute(order)


def _roomy(x: Any, room: int) -> Any:
    """Return x (B, H, N, d) as part of a table with ``room`` more heads, rows and columns."""
    import torch

    heads, rows, cols = x.shape[1:]
    return torch.nn.functional.pad(x, 3 * (0, room), value=1.0)[:, :heads, :rows, :cols]


def _sized(rng: Generator, n_q: int, n_k: int, d: int, by: float, **kwargs: Any) -> Triple:
    return draw(rng, n_q, n_k, d, size=by, **kwargs)


def _farthest(rng: Generator, n_q: int, n_k: int, d: int, _: float, **kwargs: Any) -> Triple:
    """Return `farthest`, whose rows lie far above 0 and far below, in turns."""
    q, k, v = farthest(rng, n_q, n_k, d, **kwargs)
    q[..., ::2, 0] *= -1
    return q, k, v


_DRAWN: dict[str, Callable[..., Triple]] = {
    "near": shifted,
    "rows_near": far_rows,
    "rise": sloped,
    "creep": creeping,
    "values_near": far_values,
    "alike": alike_queries,
    "alike_keys": alike_keys,
    "peak": peaked,
    "size": _sized,
    "jump": jumping,
    "far": far_below,
    "farthest": _farthest,
    "fine": fine,
}
_SHOWN = {"jump": frozenset({JUMPS}), **dict.fromkeys(("far", "farthest"), frozenset({FAR}))}


def launch(
    rng: Generator,
    name: str,
    n_q: int,
    n_k: int,
    d: int,
    *,
    tiles: tuple[int, int] | None = None,
    causal: bool | None = None,
    heads: tuple[int, int] = (1, 1),
    kv_heads: int | None = None,
    dtype: str = "float32",
    strided: str = "",
    **how: Any,
) -> Case:
    """Return a case for a launcher: q, k, v as tensors, ``causal`` and tile sizes as keywords.

    q has ``heads`` (batch, heads), k and v the first ``kv_heads`` of them. ``how`` names one of
    the ways to draw above (scores ``near=-150``, ``rows_near``, ``rise``, ``creep``,
    ``values_near``, ``alike``, ``alike_keys``, ``peak``, ``size=4``, ``jump=150``, ``far``,
    ``farthest``, ``fine``; of a ``tile`` of its own if there is no recurrence to be off), and
    flags of the `Case`.
    """
    word = next((word for word in _DRAWN if word in how), "size")
    more = {"tile": how.pop("tile", tiles[1])} if tiles and word == "fine" else {}
    arrays = _DRAWN[word](rng, n_q, n_k, d, how.pop(word, 1.0), heads=heads, **more)
    arrays = arrays if kv_heads is None else grouped(arrays, kv_heads)
    keywords: dict[str, Any] = {} if causal is None else {"causal": causal}
    if tiles:
        keywords |= {"block_q": tiles[0], "block_k": tiles[1]}
    shows = _SHOWN.get(word, frozenset())
    if tiles and (n_q % tiles[0], n_k % tiles[1]) == (1, 1):
        shows |= {REMAINDER}
    return Case(name, as_tensors(arrays, dtype, strided=strided), keywords, shows=shows, **how)


ROOMY_NAME = "2 x 2 heads, each tensor with other room behind its rows and heads"


def roomy_launch(rng: Generator, *shape: int, **how: Any) -> Case:
    """Return the case in which one tensor's strides do not do for another; see `launch`.

    The last key is 0, as places past the end are: who knows these by their numbers hides it, too.
    """
    case = launch(rng, ROOMY_NAME, *shape, heads=(2, 2), strided="room", **how)
    case.args[1][..., -1, :] = 0
    return case


# Many programs, each with as little to do as there is -------------------------------------------

MANY_HEADS, MANY_TILES = (3, 11), 33  # batches and heads; tiles of the least size, 16


def many_heads_launch(case: Callable[..., Case], n_q: int = 16, **how: Any) -> Case:
    """Return a launch of more heads than 32, and than 8 a batch, drawn by ``case``."""
    batch, heads = MANY_HEADS
    return case(f"{batch} x {heads} heads, 16 keys", n_q, 16, 16, heads=MANY_HEADS, **how)


def many_tiles_launch(case: Callable[..., Case], *, walks: str = "keys", **how: Any) -> Case:
    """Return a launch of one head in more tiles than 32; ``walks``: what a program goes over."""
    rows = 16 * MANY_TILES
    n_q, n_k = (rows, 16) if walks == "keys" else (16, rows)
    return case(f"{n_q} queries, {n_k} keys, tiles of 16", n_q, n_k, 16, tiles=(16, 16), **how)


def one_key_launch(case: Callable[..., Case], **how: Any) -> Case:
    """Return a causal launch of one key: it has nothing to hide, but for the first queries."""
    name = "causal, 5 queries, 1 key: the first 4 rows see nothing"
    return case(name, 5, 1, 16, causal=True, **{"tiles": (16, 16)} | how)


def hard_launches(rng: Generator, *shape: int, prefix: str = "", **how: Any) -> list[Case]:
    """Return the hard cases of a kernel that computes attention; see `launch`."""
    jump, far = (prefix + name for name in hard_names(150))
    return [
        launch(rng, jump, *shape, jump=150, **how),
        launch(rng, far, *shape, far=FAR_BELOW, **how),
        launch(rng, prefix + _FAR_APART_NAME, *shape, farthest=True, **how),
        launch(rng, prefix + CREEP_NAME, *shape, creep=CREEP, **how),
    ]


def new_queries(rng: Generator) -> list[Case]:
    """Return causal cases of queries after many keys: a few, and one as in decoding.

    The one sees every key, in more tiles than other cases have.
    """
    some = int(rng.integers(2, 8)), int(rng.integers(20, 40))
    return [
        launch(
            rng, f"causal, {n_q} new {'queries' if n_q > 1 else 'query'} after {old} keys",
            n_q, old + n_q, 16, heads=(1, 2), tiles=(16, 16), causal=True,
        )
        for n_q, old in (some, (1, int(rng.integers(80, 110))))
    ]  # fmt: skip


def fine_launch(
    rng: Generator, n_k: int, *, tiles: tuple[int, int] | None = None, values: float = 0.0,
    prefix: str = "", **how: Any,
) -> Case:  # fmt: skip
    """Return the case in which a kernel that keeps scores, alpha or dP in float16 is off."""
    name, shape = prefix + FINE_NAME, (16, n_k, 16)
    return launch(rng, name, *shape, fine=values, dtype="float16", tiles=tiles, **how)


def half_launches(rng: Generator, *, prefix: str = "", **how: Any) -> list[Case]:
    """Return the cases of half inputs, in many tiles, that ask for notes in float32.

    In the second, what a tile adds to l_sum is lost if l_sum is float16, and so are weights that
    are made smaller than they need be, by 1 / n_k say. Each has 32 tiles: what is rounded in every
    tile, or lost with it, is then three times what is allowed, and it takes that many.
    """
    fine = fine_launch(rng, 512, prefix=prefix, tiles=(16, 16), **how)
    how |= {"tiles": (16, 32), "dtype": "float16"}
    return [fine, launch(rng, prefix + FAINT_NAME, 16, 1024, 16, peak=FAINT, **how)]


def one_tile_higher(rng: Generator, n_q: int = 16) -> Case:
    """Return the case in which a weight is no float16, unless the maximum follows at once."""
    name = "float16, one key of the second tile 11.5 above all others"
    return launch(rng, name, n_q, 32, 16, peak=11.5, dtype="float16", tiles=(16, 16))
