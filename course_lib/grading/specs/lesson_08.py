"""Exercises of lesson 08, make it fast: tiles by x-ray, a split loop, the backward's first half."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.accounting.measurements import load_measurements
from course_lib.accounting.traffic import derived_counts
from course_lib.grading import cases as draw
from course_lib.grading.attention_judge import attention_judge, attention_truth
from course_lib.grading.faults import find_fault
from course_lib.grading.judges import array_finding, exactly
from course_lib.grading.kernel_judge import flash_traffic, in_turn, stored_whole, was_launched
from course_lib.grading.misconceptions import attention_mistakes
from course_lib.grading.spec import Case, Exercise, Finding, Mistake, Observed
from course_lib.grading.tolerance import allowed_error, as_float64

Row = dict[str, Any]
Choice = tuple[int, int, int, int]
_TILES = ("block_q", "block_k", "num_warps", "num_stages")

# --- 8.1 ----------------------------------------------------------------------------------------


@cache
def _table(gpu: str, head_dim: int) -> tuple[Row, ...]:
    rows = load_measurements("xray_tiles")["rows"]
    return tuple(row for row in rows if (row["gpu"], row["head_dim"]) == (gpu, head_dim))


def _choice(row: Row) -> Choice:
    return tuple(row[name] for name in _TILES)  # type: ignore[return-value]


def _rules(rows: list[Row]) -> list[tuple[str, str, Callable[[Row], Any]]]:
    """Return (property, what is wrong, what must be as large as can be) in the rule's order."""
    return [
        ("fits", "does not fit: a block cannot get that much shared memory", lambda r: r["fits"]),
        ("does not spill", "spills registers into memory", lambda r: not r["stack_bytes"]),
        (
            "uses tensor cores",
            "uses no tensor cores, and others of the list do",
            lambda r: r["tensor_core"] > 0,
        ),
        (
            "two blocks fit on an SM",
            "leaves room for one block on an SM only, and others of the list let two in",
            lambda r: r["blocks_per_sm"] >= 2,
        ),
        (
            "most query rows",
            "has fewer query rows than another row that is as good in rules 1 to 4",
            lambda r: r["block_q"],
        ),
        (
            "the tie",
            "is equal in rules 1 to 5 to another row, which wins by rule 6",
            lambda r: (r["block_k"], r["num_stages"], -r["registers"]),
        ),
    ]


def _best(rows: list[Row], skip: Sequence[int] = (), strict: Sequence[int] = ()) -> list[Row]:
    """Return the rows that the rule leaves; ``skip`` leaves steps of it out.

    ``strict`` steps drop every row that breaks them, even if none is left: ValueError then.
    """
    left = list(rows)
    for step, (_, _, value) in enumerate(_rules(rows)):
        if step in skip:
            continue
        if step in strict:
            left = [row for row in left if value(row)]
        else:
            top = max(value(row) for row in left)
            left = [row for row in left if value(row) == top]
    return left


def _tile_cases(rng: Generator) -> list[Case]:
    """Return four lists of rows in which every known mistake shows, whatever is drawn.

    Drawn are the rows, from those that play the same part, and where they stand; the order of
    those that decide is not, so that no two mistakes give the same answer in the first list that
    shows either of them.
    """
    d = int(rng.choice([64, 128]))
    lists = (
        ("", "H100", 128, _deciding(rng)),
        ("", "A100", 64, _by_area(rng)),
        ("", "T4", d, _shuffled(rng, map(_choice, _table("T4", d)))),
        (": no row with two blocks on an SM", "H100", 128, _one_block(rng)),
    )
    cases = []
    for remark, gpu, head_dim, choices in lists:
        by_choice = {_choice(row): row for row in _table(gpu, head_dim)}
        rows = [dict(by_choice[choice]) for choice in choices]
        cases.append(Case(f"{gpu}, head_dim {head_dim}{remark}", (rows,)))
    return cases


def _deciding(rng: Generator) -> list[Choice]:
    """Return tiles of an H100 (head_dim 128) among which rules 1 to 5 decide.

    The right row is the first that rules 1 to 4 leave: whoever breaks a tie otherwise, or takes
    the most blocks, is still right here, and is found by the next list.
    """
    huge = _shuffled(rng, [(128, 128, 4, 2), (128, 128, 4, 3), (128, 128, 4, 4), (128, 128, 8, 4)])
    idle = _one(rng, (64, 128, 4, 2), (64, 128, 4, 3), (64, 128, 8, 2), (64, 128, 8, 3))
    spills, one_block = (128, 64, 4, 2), _one(rng, (128, 64, 8, 2), (128, 64, 8, 3))
    best = _one(rng, (128, 32, 8, 3), (128, 32, 4, 3))
    equal = _one(rng, (128, 32, 4, 2), (128, 32, 8, 2))
    more_keys = _one(rng, (64, 64, 4, 2), (64, 64, 8, 2))
    small = _one(rng, (64, 32, 8, 2), (64, 32, 8, 3))
    return [
        idle,
        huge[0],
        *_shuffled(rng, [spills, one_block]),
        best,
        *_shuffled(rng, [equal, more_keys, small]),
        huge[1],
    ]


def _by_area(rng: Generator) -> list[Choice]:
    """Return tiles of an A100 (head_dim 64): the most query rows are not the largest area.

    Three rows have as many of both, the right one between the others.
    """
    before, after = _shuffled(rng, [(128, 32, 4, 2), (128, 32, 8, 2)])
    large, blocks, small, spills, one_block = (
        _one(rng, *((*tiles, stages) for stages in (2, 3)))
        for tiles in ((64, 128, 4), (64, 64, 4), (64, 32, 8), (128, 128, 4), (128, 64, 8))
    )
    first, last = _shuffled(rng, [spills, one_block])
    best = (128, 32, 4, 3)
    return [first, small, *_shuffled(rng, [large, blocks]), before, best, after, last]


def _one_block(rng: Generator) -> list[Choice]:
    """Return tiles of an H100 (head_dim 128) of which one block fits on an SM, or none."""
    unfit, best = (128, 128, 8, 4), (64, 128, 8, 3)
    spills = _one(rng, (128, 64, 4, 3), (128, 128, 4, 2), (128, 128, 4, 3))
    fewer_stages = _one(rng, (64, 128, 4, 2), (64, 128, 8, 2))
    more_registers = (64, 128, 4, 3)
    return [
        *_shuffled(rng, [unfit, spills]),
        more_registers,
        *_shuffled(rng, [best, fewer_stages]),
    ]


def _one(rng: Generator, *options: Any) -> Any:
    return options[rng.integers(len(options))]


def _shuffled(rng: Generator, items: Iterable[Choice]) -> list[Choice]:
    items = list(items)
    return [items[i] for i in rng.permutation(len(items))]


def _judge_choice(case: Case, observed: Observed, expected: Choice) -> Finding | None:
    rows, got = case.args[0], observed.result
    if fault := find_fault(got, expected):
        return fault
    by_choice = {_choice(row): row for row in rows}
    try:
        row = by_choice[tuple(int(x) for x in got)]  # type: ignore[index]
    except (KeyError, TypeError, ValueError):
        return Finding("is a row of the list", f"{got!r} is not the tiles of any row of the list.")
    left = list(rows)
    for name, says, value in _rules(rows):
        top = max(value(r) for r in left)
        if value(row) != top:
            return Finding(name, f"your choice {tuple(got)} {says}.", _facts(row))
        left = [r for r in left if value(r) == top]
    return None


def _facts(row: Row) -> str:
    return (
        f"{row['shared_bytes'] / 1024:.0f} KiB shared, {row['registers']} registers, "
        f"{row['stack_bytes']} bytes spilled, {row['blocks_per_sm']} block(s) on an SM"
    )


def _area(row: Row) -> int:
    return row["block_q"] * row["block_k"]


def _largest(rows: list[Row]) -> Choice:
    return _choice(max(rows, key=_area))


def _left(*steps: int, strict: Sequence[int] = ()) -> Callable[[list[Row]], list[Row]]:
    """Return a sieve that leaves out these steps of the rule; see ``_best``."""
    return lambda rows: _best(rows, steps, strict)


_CHOOSE_MISTAKES = tuple(
    Mistake(name, says, model)
    for name, says, models in (
        (
            "bigger is better",
            "the largest tile of all was taken. It re-reads least, but what does not fit does not "
            "start, and what spills goes through memory in every step.",
            (_largest, lambda rows: _largest(rows[::-1])),
        ),
        (
            "bigger is better",
            "the most query rows of all were taken, whatever the compiler says about them.",
            (
                lambda rows: _choice(max(rows, key=lambda r: r["block_q"])),
                lambda rows: _choice(max(rows[::-1], key=lambda r: r["block_q"])),
            ),
        ),
        (
            "what does not fit is taken",
            "rule 1 was left out: a kernel that asks for more shared memory than a block can get "
            "does not start.",
            (lambda rows: _choice(_left(0)(rows)[0]),),
        ),
        (
            "spills are ignored",
            "a row with stack_bytes > 0 spills: its registers go through memory in every step.",
            (lambda rows: _choice(_left(1)(rows)[0]),),
        ),
        (
            "a T4 is left without a choice",
            "on a T4 no row has a tensor-core instruction: rule 3 holds only if any row has one.",
            (lambda rows: _choice_or_none(_left(strict=(2,)), rows),),
        ),
        (
            "one block on an SM is no choice",
            "no row of this list lets two blocks in: rule 4 holds only if any row does.",
            (lambda rows: _choice_or_none(_left(strict=(3,)), rows),),
        ),
        (
            "occupancy is ignored",
            "rule 4 was left out: with one block on an SM nothing computes while it waits.",
            (lambda rows: _choice(_left(3)(rows)[0]),),
        ),
        (
            "smaller is better",
            "the smallest tile always fits, and K and V are loaded most often.",
            (lambda rows: _choice(min(rows, key=_area)),),
        ),
        (
            "smaller is better",
            "the fewest registers were taken. Registers are there to be used: they matter only if "
            "they spill.",
            (lambda rows: _choice(min(rows, key=lambda r: r["registers"])),),
        ),
        (
            "most blocks on an SM",
            "two blocks are enough for rule 4; more of them mean smaller tiles.",
            (lambda rows: _choice(max(_left(3, 4, 5)(rows), key=lambda r: r["blocks_per_sm"])),),
        ),
        (
            "keys before queries",
            "block_k was maximised before block_q, or decided between tiles of one area. K and V "
            "are loaded once per tile of *queries*.",
            (
                lambda rows: _choice(
                    max(_left(4, 5)(rows), key=lambda r: (r["block_k"], r["block_q"]))
                ),
            ),
        ),
        (
            "area before query rows",
            "the largest area was taken. K and V are loaded once per tile of *queries*: rule 5 "
            "asks for block_q alone, however few keys the tile has.",
            (lambda rows: _choice(max(_left(4, 5)(rows), key=_area)),),
        ),
        (
            "the tie is broken otherwise",
            "several rows are equal in rules 1 to 5. Rule 6 decides between them: keys before "
            "stages, stages before registers, and never their order in the list.",
            (
                lambda rows: _choice(_left(5)(rows)[0]),
                lambda rows: _choice(_left(5)(rows)[-1]),
                lambda rows: _choice(
                    max(_left(5)(rows), key=lambda r: (r["block_k"], r["num_stages"]))
                ),
            ),
        ),
        (
            "rules 5 and 6 are left out",
            "this is the first row that obeys rules 1 to 4: of these, which has the most queries?",
            (lambda rows: _choice(_left(4, 5)(rows)[0]),),
        ),
        ("the first row", "this is simply the first row.", (lambda rows: _choice(rows[0]),)),
    )
    for model in models
)


def _choice_or_none(sieve: Callable[[list[Row]], list[Row]], rows: list[Row]) -> Choice | None:
    try:
        return _choice(sieve(rows)[0])
    except (ValueError, IndexError):  # nothing is left
        return None


CHOOSE = Exercise(
    id="8.1",
    function="choose_tiles",
    signature="(rows)",
    title="Choose tiles by x-ray",
    minutes=10,
    points=3,
    hints=(
        "A rule is a sieve. Which rows may not be taken at all, and which of the rest is wanted?",
        "left = [r for r in rows if ...] for rules 1 and 2. Rules 3 and 4 hold only if a row is "
        "left that obeys them: [...] or left.",
        "min(left, key=lambda r: (-r['block_q'], -r['block_k'], -r['num_stages'], "
        "r['registers'])) is rules 5 and 6; return four of its values.",
    ),
    cases=_tile_cases,
    truth=lambda rows: _choice(_best(rows)[0]),
    judge=_judge_choice,
    notice="The largest tile of the list was never the answer. The x-ray throws away what cannot "
    "be fast; which of the rest is fastest, only a clock says.",
    mistakes=_CHOOSE_MISTAKES,
)

# --- 8.2a ---------------------------------------------------------------------------------------


def _counts(n: int, block_q: int, block_k: int) -> tuple[int, int]:
    counts = derived_counts(n, n, block_q, block_k, causal=True)
    return counts["visited_tiles"], counts["partial_tiles"]


def _count_cases(rng: Generator) -> list[Case]:
    block, times = int(rng.choice([16, 32, 64])), int(rng.integers(3, 40))
    wide, tall = int(rng.choice([2, 4])), int(rng.choice([2, 4]))
    sizes = [
        (16, 4, 4),
        (block * times, block, block),
        (block * tall * times, block * tall, block),
        (block * wide * times, block, block * wide),
        (64, 64, 64),
    ]
    return [Case(f"n = {n}, tiles {b_q} x {b_k}", (n, b_q, b_k)) for n, b_q, b_k in sizes]


def _miscount(loaded: Callable[..., float], masked: Callable[..., float]) -> Callable[..., Any]:
    """Return a model: both functions get T_q, T_k, the right counts, n, block_q, block_k."""

    def model(n: int, block_q: int, block_k: int) -> tuple[float, float]:
        at = (n // block_q, n // block_k, *_counts(n, block_q, block_k), n, block_q, block_k)
        return loaded(*at), masked(*at)

    return model


def _right_loaded(t_q: int, t_k: int, right: int, *_: int) -> int:
    return right


def _right_masked(t_q: int, t_k: int, _right: int, masked: int, *_: int) -> int:
    return masked


def _all(t_q: int, t_k: int, *_: int) -> int:
    return t_q * t_k


def _half(t_q: int, t_k: int, *_: int) -> float:
    return t_q * t_k / 2


_COUNT_MISTAKES = tuple(
    Mistake(name, says, _miscount(loaded, masked))
    for name, says, loaded, masked in (
        (
            "causal saves half",
            "half of the tiles would be right if tiles were single scores. Those on the diagonal "
            "are loaded whole: (T + 1) / 2T of all, 62.5 % at 4 x 4.",
            _half,
            _right_masked,
        ),
        (
            "causal saves half",
            "half of the tiles would be right if tiles were single scores. Those on the diagonal "
            "are loaded whole: (T + 1) / 2T of all, 62.5 % at 4 x 4.",
            lambda t_q, t_k, *_: t_q * t_k // 2,
            lambda t_q, *_: t_q,
        ),
        (
            "the diagonal is not loaded",
            "the tiles on the diagonal hold keys that some rows see: they are loaded.",
            lambda t_q, t_k, right, masked, *_: right - masked,
            _right_masked,
        ),
        ("nothing is skipped", "tiles of the future are not loaded.", _all, _right_masked),
        (
            "every loaded tile is masked",
            "a tile that every row sees whole needs no mask: only those at the diagonal do.",
            _right_loaded,
            _right_loaded,
        ),
        (
            "the diagonal needs no mask",
            "a tile on the diagonal holds keys that its first row may not see.",
            _right_loaded,
            lambda *_: 0,
        ),
        (
            "only square tiles",
            "one masked tile per tile of queries is right for square tiles only: a tall tile of "
            "queries meets the diagonal in several tiles of keys.",
            _right_loaded,
            lambda t_q, *_: t_q,
        ),
        (
            "only square tiles",
            "T (T + 1) / 2 is right for square tiles only.",
            lambda t_q, *_: t_q * (t_q + 1) // 2,
            lambda t_q, *_: t_q,
        ),
        (
            "only square tiles",
            "T (T + 1) / 2 is right for square tiles only.",
            lambda t_q, t_k, *_: t_k * (t_k + 1) // 2,
            lambda t_q, t_k, *_: t_k,
        ),
        (
            "shares, not numbers of tiles",
            "these are shares of all tiles: return how many tiles there are.",
            lambda t_q, t_k, right, *_: right / (t_q * t_k),
            lambda t_q, t_k, right, masked, *_: masked / (t_q * t_k),
        ),
        (
            "the two values are exchanged",
            "return the loaded tiles first, then the masked ones.",
            _right_masked,
            _right_loaded,
        ),
        (
            "full tiles, not masked ones",
            "the second number is that of the tiles that need no mask.",
            _right_loaded,
            lambda t_q, t_k, right, masked, *_: right - masked,
        ),
        (
            "scores, not tiles",
            "these are single scores: count tiles.",
            lambda t_q, t_k, right, masked, n, *_: n * (n + 1) // 2,
            lambda t_q, t_k, right, masked, n, *_: n,
        ),
    )
)

COUNT = Exercise(
    id="8.2a",
    function="causal_tiles",
    signature="(n, block_q, block_k)",
    title="Predict: tiles loaded, tiles masked",
    minutes=5,
    points=2,
    hints=(
        "Draw n = 16 in tiles of 4. Take one tile of queries: how far does its last row see, and "
        "how far its first?",
        "The last row of the tile that begins at row `first` sees first + block_q keys: that many "
        "keys, rounded up to tiles, are loaded. The first row sees first + 1 keys.",
        "Tiles within the first (first + 1) // block_k need no mask: masked += end - that.",
    ),
    cases=_count_cases,
    truth=_counts,
    judge=exactly,
    notice="With T x T square tiles (T + 1) / 2T are loaded: 62.5 % at 4 x 4, towards one half as "
    "T grows. Of T (T + 1) / 2 loaded tiles only T are masked: at T = 128 one in 64.",
    mistakes=_COUNT_MISTAKES,
)

# --- 8.2b ---------------------------------------------------------------------------------------


def _case(name: str, arrays: Any, dtype: str = "float32", **how: Any) -> Case:
    """Return a case for a launcher: arrays as tensors, tile sizes and causal as keywords."""
    flags = {key: how.pop(key) for key in ("counted", "compiled", "blind_to") if key in how}
    return Case(name, draw.as_tensors(arrays, dtype), how, **flags)


def _split_cases(rng: Generator) -> list[Case]:
    one = (1, 1)
    return [
        _case(
            "causal, 64 queries and keys, tiles 32 and 16",
            draw.draw(rng, 64, 64, 64, heads=one),
            causal=True, block_q=32, block_k=16,
        ),
        _case(
            "not causal, 32 queries, 96 keys: only whole tiles",
            draw.draw(rng, 32, 96, 16, heads=one),
            block_q=32, block_k=32,
        ),
        _case(
            "not causal, 65 keys in tiles of 32, all scores near -20: the last holds one key",
            draw.shifted(rng, 32, 65, 16, -20, heads=one),
            block_q=32, block_k=32,
        ),
        _case(
            "causal, 35 queries, 68 keys: aligned at the end",
            draw.draw(rng, 35, 68, 16, heads=(1, 2)),
            causal=True, block_q=16, block_k=32,
        ),
        _case(
            "causal, 80 queries, 50 keys: the first 30 rows see nothing",
            draw.draw(rng, 80, 50, 32, heads=one),
            causal=True, block_q=16, block_k=16,
        ),
        _case(
            "causal, climbing scores, tiles as tall as d",
            draw.sloped(rng, 96, 96, 32, 220, heads=one),
            causal=True, block_q=64, block_k=32,
        ),
        _case(
            "float16, causal, 100 queries, 150 keys, d = 64",
            draw.draw(rng, 100, 150, 64, heads=(1, 2)), "float16",
            causal=True, block_q=64, block_k=32, compiled=True,
        ),
        _case(
            "256 queries and keys, d = 16, counted",
            draw.draw(rng, 256, 256, 16, heads=one),
            causal=False, block_q=128, block_k=64, counted=True,
        ),
        _case(
            "causal, 256 queries and keys, d = 16, counted",
            draw.draw(rng, 256, 256, 16, heads=one),
            causal=True, block_q=64, block_k=32, counted=True,
        ),
        _case(
            "causal, 128 queries, 160 keys, d = 16, counted",
            draw.draw(rng, 128, 160, 16, heads=one),
            causal=True, block_q=32, block_k=64, counted=True,
        ),
    ]  # fmt: skip


def _partial_tiles(n_q: int, n_k: int, block_q: int, block_k: int, causal: bool) -> list[int]:
    """Return how many tiles each program (one per tile of queries) has to mask."""
    tiles = []
    for first in range(0, n_q, block_q):
        last = min(first + block_q, n_q)
        end, seen = n_k, n_k
        if causal:
            end, seen = (min(max(row + n_k - n_q, 0), n_k) for row in (last, first + 1))
        tiles.append(-(-end // block_k) - seen // block_k)
    return tiles


def _masks_only_the_boundary(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask that a program's comparisons on tiles of scores grow with its boundary tiles only.

    How a mask is written is free, so what one costs is not known. But in a counted case all
    programs have as many boundary tiles, so they must make as many comparisons, however many full
    tiles they have; and none if there is no boundary tile.
    """
    if not case.counted or observed.ledger is None:
        return None
    tiles = case.kwargs["block_q"], case.kwargs["block_k"]
    (n_q, n_k), (block_q, block_k) = (x.shape[-2] for x in case.args[:2]), tiles
    need = _partial_tiles(n_q, n_k, block_q, block_k, bool(case.kwargs.get("causal")))
    made: Counter[tuple[int, ...]] = Counter()
    for (program, shape), times in observed.ledger.compared.items():
        if shape in (tiles, tiles[::-1]):
            made[program] += times
    alike = len(made) == len(need) and len({*made.values()}) == 1
    if not made or (alike and max(need)):
        return None
    return Finding(
        "masks only boundary tiles",
        "the numbers are right, but tiles are masked that every row sees whole: a program's "
        "comparisons on a tile of scores must come from its boundary tiles alone.",
        f"boundary tiles of each program: {_few(need)}\n"
        f"comparisons that yours make:    {_few([made[p] for p in sorted(made)])}",
    )


def _few(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + (" ..." if len(numbers) > 8 else "")


Weights = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def _weighted(weights: Weights, wrong_boundary: Callable[..., Any] | None = None) -> Any:
    """Return the model of a kernel that counts each (query, key) pair ``weights`` times.

    ``weights`` gets ``visible`` (n_q, n_k), key numbers (n_k,), and for each row how many keys all
    rows of its tile see, the right boundary and the mistaken one, (n_q, 1) all three.
    """

    def model(
        q: Any, k: Any, v: Any, *, causal: bool = False, block_q: int = 64, block_k: int = 64
    ) -> tuple[np.ndarray, np.ndarray]:
        q, k, v = as_float64(q), as_float64(k), as_float64(v)
        n_q, n_k = q.shape[-2], k.shape[-2]
        rows, keys = np.arange(n_q)[:, None], np.arange(n_k)
        shift = n_k - n_q if causal else n_k + n_q  # not causal: every row sees every key
        visible = keys <= rows + shift
        first = rows // block_q * block_q
        seen = np.clip(first + shift + 1, 0, n_k)
        right = seen // block_k * block_k
        wrong = right
        if wrong_boundary:
            most = n_k // block_k * block_k
            wrong = np.clip(wrong_boundary(first, shift, block_q, block_k), 0, most)
        if not causal:
            wrong = right
        w = weights(visible, keys, seen, right, wrong)
        s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        m = np.where(w > 0, s, -np.inf).max(-1, keepdims=True)
        with np.errstate(all="ignore"):
            p = w * np.exp(np.where(w > 0, s - np.where(np.isneginf(m), 0, m), -np.inf))
            l_sum = p.sum(-1, keepdims=True)
            o = p @ v / np.where(l_sum == 0, 1, l_sum)
            return o, (m + np.log(np.where(l_sum == 0, 1, l_sum)))[..., 0]

    return model


_UNMASKED = (
    "tiles that hide keys from some rows get no mask. Either the second loop has none, or the "
    "first runs too far: it ends where the tile's first row stops seeing whole tiles of keys."
)
_SPLIT_MISTAKES = (
    Mistake(
        "the boundary tiles are left out",
        "the second loop does not run, or the mask of it hides everything: the tiles from "
        "boundary to end are missing.",
        _weighted(lambda visible, keys, _, right, __: visible & (keys < right)),
    ),
    Mistake(
        "the full tiles are lost",
        "only the tiles from boundary on count: does the second loop go on with the m, l_sum and "
        "acc of the first?",
        _weighted(lambda visible, keys, _, right, __: visible & (keys >= right)),
    ),
    Mistake(
        "full tiles are counted twice",
        "the second loop begins at 0 again: it begins at boundary.",
        _weighted(lambda visible, keys, _, right, __: visible * 1.0 + (keys < right)),
    ),
    Mistake(
        "the boundary is not rounded down",
        "the first loop runs past a boundary in the middle of a tile, and the second counts that "
        "tile's other keys again: round boundary down to a multiple of BLOCK_K.",
        _weighted(
            lambda visible, keys, seen, _, wrong: (keys < wrong) + 1.0 * (visible & (keys >= seen)),
            lambda first, shift, b_q, b_k: -(-(first + shift + 1) // b_k) * b_k,
        ),
    ),
    *(
        Mistake(
            "boundary tiles are not masked",
            _UNMASKED,
            _weighted(lambda visible, keys, _, __, wrong: visible | (keys < wrong), boundary),
        )
        for boundary in (
            lambda first, shift, b_q, b_k: (first + b_q + shift) // b_k * b_k,
            lambda first, shift, b_q, b_k: (first + b_q + shift - 1) // b_k * b_k,
            lambda first, shift, b_q, b_k: -(-(first + shift) // b_k) * b_k,
            lambda first, shift, b_q, b_k: -(-(first + shift + 1) // b_k) * b_k,
            lambda first, shift, b_q, b_k: -(-(first + b_q + shift) // b_k) * b_k,
            lambda first, shift, b_q, b_k: (first + shift) // b_k * b_k + b_k,
        )
    ),
    Mistake(
        "the boundary is aligned at the start",
        "with n_q != n_k the last query must see the last key: n_k - n_q comes into the boundary.",
        _weighted(
            lambda visible, keys, _, __, wrong: visible | (keys < wrong),
            lambda first, shift, b_q, b_k: (first + 1) // b_k * b_k,
        ),
    ),
)

SPLIT = Exercise(
    id="8.2b",
    function="split_attention",
    signature="(q, k, v, *, causal=False, block_q=64, block_k=64)",
    title="Two loops: mask only the boundary",
    minutes=10,
    points=4,
    hints=(
        "Row tile * BLOCK_Q is the program's first row. How many keys does it see? All rows below "
        "it see at least these.",
        "It sees tile * BLOCK_Q + n_k - n_q + 1 keys, at least 0 and at most n_k. Round down to "
        "whole tiles: that is boundary.",
        "boundary = seen // BLOCK_K * BLOCK_K. The body of the second loop, "
        "range(boundary, end, BLOCK_K), is that of the first with one more line: s = hide(...).",
    ),
    cases=_split_cases,
    truth=attention_truth,
    judge=in_turn(
        stored_whole(attention_judge(with_lse=True, in_dtype=True)),
        was_launched,
        flash_traffic,
        _masks_only_the_boundary,
    ),
    notice="Same numbers, same loads, and most tiles without a comparison. The longer the "
    "sequence, the larger the share of tiles that are free of masks.",
    kind="kernel",
    mistakes=_SPLIT_MISTAKES + attention_mistakes(with_lse=True, dtype=np.float32),
)

# --- 8.3 ----------------------------------------------------------------------------------------


def _backward_case(name: str, arrays: Any, rng: Generator, dtype: str = "float32", **how: Any):
    """Return a case of q, k, o, lse, do: what the forward pass saved, and a drawn gradient."""
    import torch

    flags = {key: how.pop(key) for key in ("counted", "compiled", "blind_to") if key in how}
    q, k, v = draw.as_tensors(arrays, dtype)
    o, lse = attention_truth(q, k, v, causal=bool(how.get("causal")))
    do = torch.from_numpy(rng.standard_normal(o.shape) + 0.3)
    saved = (torch.from_numpy(o).to(q.dtype), torch.from_numpy(lse).float(), do.to(q.dtype))
    return Case(name, (q, k, *saved), how, **flags)


def _backward_cases(rng: Generator) -> list[Case]:
    one = (1, 1)
    return [
        _backward_case(
            "64 queries and keys in tiles of 32 and 16, d = 32",
            draw.draw(rng, 64, 64, 32, heads=one), rng,
            block_q=32, block_k=16,
        ),
        _backward_case(
            "2 x 2 heads, 40 queries, 70 keys: short last tiles",
            draw.draw(rng, 40, 70, 16, heads=(2, 2)), rng,
            block_q=16, block_k=64,
        ),
        _backward_case(
            "large scores (q and k times 4), tiles as tall as d",
            draw.draw(rng, 64, 32, 32, heads=one, size=4), rng,
            block_q=32, block_k=32,
        ),
        _backward_case(
            "causal, 64 queries and keys, tiles 16 and 32",
            draw.draw(rng, 64, 64, 16, heads=one), rng,
            causal=True, block_q=16, block_k=32,
        ),
        _backward_case(
            "causal, 35 queries, 68 keys: aligned at the end",
            draw.draw(rng, 35, 68, 16, heads=(1, 2)), rng,
            causal=True, block_q=16, block_k=32,
        ),
        _backward_case(
            "causal, 80 queries, 50 keys: the first 30 rows see nothing",
            draw.draw(rng, 80, 50, 32, heads=one), rng,
            causal=True, block_q=16, block_k=64,
        ),
        _backward_case(
            "float16, causal, 100 queries, 150 keys, d = 64",
            draw.draw(rng, 100, 150, 64, heads=(1, 2)), rng, "float16",
            causal=True, block_q=64, block_k=32, compiled=True,
        ),
        _backward_case(
            "causal, 512 queries and keys, d = 16, counted",
            draw.draw(rng, 512, 512, 16, heads=one), rng,
            causal=True, block_q=128, block_k=64, counted=True,
        ),
    ]  # fmt: skip


def _backward_parts(q: Any, k: Any, *, causal: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return scaled scores (..., n_q, n_k) and which of them are seen (n_q, n_k)."""
    q, k = as_float64(q), as_float64(k)
    n_q, n_k = q.shape[-2], k.shape[-2]
    seen = np.arange(n_k) <= np.arange(n_q)[:, None] + (n_k - n_q if causal else n_k + n_q)
    return q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), seen


def _backward_truth(
    q: Any, k: Any, o: Any, lse: Any, do: Any, *, causal: bool = False, **_tiles: int
) -> tuple[np.ndarray, np.ndarray]:
    s, seen = _backward_parts(q, k, causal=causal)
    with np.errstate(all="ignore"):
        p = np.where(seen, np.exp(s - as_float64(lse)[..., None]), 0.0)
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
    """Return three times what eager PyTorch is off in the inputs' dtype, plus a little.

    P = exp(S - lse) is as exact as S in float32: a score of 100 is off by some 1e-5, and so is the
    weight that is made of it. Eager softmax subtracts a maximum first and does not show that.
    """
    import torch

    q, k, _, _, do = case.args
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if case.kwargs.get("causal"):
        n_q, n_k = s.shape[-2:]
        hidden = torch.ones(n_q, n_k, dtype=torch.bool, device=q.device).triu(n_k - n_q + 1)
        s = s.masked_fill(hidden, -torch.inf)
    eager = torch.nan_to_num(torch.softmax(s, -1)).transpose(-1, -2) @ do
    dtype = str(q.dtype).removeprefix("torch.")
    largest = max(float(s[s.isfinite()].abs().max()), 1.0)
    of_scores = 8 * 2.0**-23 * largest * float(np.abs(as_float64(do)).sum(-2).max())
    return 1.5 * allowed_error(dv_true, as_float64(eager), dtype) + min(of_scores, 1e-3)


def _backward_traffic(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask of the counted case: tiles that see nothing are skipped, and no n_q x n_k buffer."""
    ledger = observed.ledger
    if not case.counted or ledger is None:
        return None
    q, k, *_ = case.args
    n_q, n_k, d = q.shape[-2], k.shape[-2], q.shape[-1]
    most = max(
        size for run in ledger.launches for size in (np.prod(t[0]) for t in run.tensors.values())
    )
    if most >= n_q * n_k or (observed.allocated or 0) >= n_q * n_k * q.element_size():
        return Finding(
            "needs memory linear in N",
            f"something as large as the scores ({n_q} x {n_k}) is held: each tile of P is computed "
            "again and thrown away, never stored.",
        )
    counts = derived_counts(n_k, n_q, case.kwargs["block_k"], case.kwargs["block_q"])
    all_rows = counts["visited_k_rows"]  # of q, and of do, if nothing is skipped
    visited = derived_counts(n_q, n_k, case.kwargs["block_q"], case.kwargs["block_k"], causal=True)
    wanted = visited["visited_q_rows"] * 2 * d * q.element_size()
    got = sum(ledger.read.values()) - 2 * n_q * d * q.element_size()  # delta's o and do
    if got < 1.1 * wanted + 3 * n_k * d * q.element_size():
        return None
    return Finding(
        "skips tiles that see nothing",
        "the numbers are right, but tiles of queries are loaded that see no key of the "
        "program's tile: where does the loop over the queries begin?",
        f"q and do: {2 * all_rows * d * q.element_size():,} bytes without skipping, "
        f"{wanted:,} with; yours load {got:,} in all",
    )


def _slip(
    weights: Callable[..., np.ndarray] | None = None,
    *,
    delta: Callable[..., np.ndarray] | None = None,
    values: Callable[..., np.ndarray] | None = None,
) -> Callable[..., Any]:
    """Return a model with one thing wrong.

    ``weights(s, lse, seen, where)`` returns P (..., n_q, n_k), where ``where`` holds row and key
    numbers and tile sizes; ``delta(o, do)``; ``values(o, do)`` is what P^T multiplies.
    """

    def model(
        q: Any, k: Any, o: Any, lse: Any, do: Any, *, causal: bool = False,
        block_q: int = 64, block_k: int = 64,
    ) -> Any:  # fmt: skip
        s, seen = _backward_parts(q, k, causal=causal)
        lse, o, do = as_float64(lse)[..., None], as_float64(o), as_float64(do)
        n_q, n_k = seen.shape
        where = {
            "row": np.arange(n_q)[:, None], "key": np.arange(n_k), "d": q.shape[-1],
            "block_q": block_q, "block_k": block_k, "causal": causal,
        }  # fmt: skip
        with np.errstate(all="ignore"):
            p = weights(s, lse, seen, where) if weights else _p(s, lse, seen)
            right = delta(o, do) if delta else (o * do).sum(-1)
            return right, p.swapaxes(-1, -2) @ (values(o, do) if values else do)

    return model


def _summed_down(o: np.ndarray, do: np.ndarray) -> np.ndarray:
    """Return delta summed along axis 0 of tiles (d, d): of no other shape it can be stored."""
    d = o.shape[-1]
    return (o * do).reshape(*o.shape[:-2], -1, d, d).sum(-2).reshape(o.shape[:-1])


def _p(s: np.ndarray, lse: np.ndarray, seen: np.ndarray) -> np.ndarray:
    return np.where(seen, np.exp(s - lse), 0.0)


def _tile_softmax(s: np.ndarray, _lse: Any, seen: np.ndarray, where: dict[str, Any]) -> np.ndarray:
    """Return weights that each tile of keys normalises by its own sum."""
    s, p = np.where(seen, s, -np.inf), np.zeros_like(s)
    for start in range(0, s.shape[-1], where["block_k"]):
        part = s[..., start : start + where["block_k"]]
        e = np.exp(part - part.max(-1, keepdims=True))
        p[..., start : start + where["block_k"]] = np.nan_to_num(e / e.sum(-1, keepdims=True))
    return p


def _from_row(begin: Callable[..., Any]) -> Callable[..., Any]:
    """Return weights of a causal loop that begins at ``begin(first key, shift, b_q, b_k)``."""

    def weights(s: Any, lse: Any, seen: Any, where: dict[str, Any]) -> np.ndarray:
        first_key = where["key"] // where["block_k"] * where["block_k"]
        shift = seen.shape[1] - seen.shape[0]
        start = begin(first_key, shift, where["block_q"], where["block_k"])
        met = where["row"] >= np.maximum(start, 0)
        return _p(s, lse, seen & met if where["causal"] else seen)

    return weights


def _other_mask(visible: Callable[..., Any]) -> Callable[..., Any]:
    """Return weights of a causal mask ``visible(row, key, shift)``, skipping or not."""

    def weights(s: Any, lse: Any, seen: Any, where: dict[str, Any], *, skip: bool) -> np.ndarray:
        row, key, shift = where["row"], where["key"], seen.shape[1] - seen.shape[0]
        mask = visible(row, key, shift) if where["causal"] else seen
        if skip and where["causal"]:
            first = np.maximum(key // where["block_k"] * where["block_k"] - shift, 0)
            mask = mask & (row >= first // where["block_q"] * where["block_q"])
        return _p(s, lse, mask)

    return weights


_MASKS = (
    (
        "the mask is missing",
        "causal=True makes no difference to P: set it to 0 where a query does not see a key.",
        lambda row, key, shift: np.ones_like(row + key, dtype=bool),
    ),
    (
        "the causal mask is reversed",
        "a query sees the keys up to its own place, and rows are queries here.",
        lambda row, key, shift: key >= row + shift,
    ),
    (
        "the causal mask is one key too strict",
        "a query sees its own key: use <=, not <.",
        lambda row, key, shift: key < row + shift,
    ),
    (
        "the causal mask is aligned at the start",
        "with n_q != n_k query i sees key j if j <= i + n_k - n_q.",
        lambda row, key, shift: key <= row,
    ),
)

_BACKWARD_MISTAKES = (
    Mistake(
        "the softmax is computed anew in each tile",
        "a tile does not know the sum of its rows: use the saved lse, P = exp(S - lse).",
        _slip(_tile_softmax),
    ),
    Mistake(
        "lse is not subtracted",
        "exp(S) is not a weight yet: lse must be subtracted first.",
        _slip(lambda s, lse, seen, _: np.where(seen, np.exp(s), 0.0)),
    ),
    Mistake(
        "lse is divided by",
        "lse is a logarithm: subtract it inside exp.",
        _slip(lambda s, lse, seen, _: np.where(seen, np.exp(s) / lse, 0.0)),
    ),
    Mistake(
        "base 2 and base e are mixed",
        "lse is a natural logarithm: use exp, or multiply S and lse by log2(e) for exp2.",
        _slip(lambda s, lse, seen, _: np.where(seen, np.exp2(s - lse), 0.0)),
    ),
    Mistake(
        "the scale is missing",
        "the scores are not divided by sqrt(d).",
        _slip(lambda s, lse, seen, at: _p(s * np.sqrt(at["d"]), lse, seen)),
    ),
    Mistake(
        "scaled twice",
        "s has been multiplied by the scale already.",
        _slip(lambda s, lse, seen, at: _p(s / np.sqrt(at["d"]), lse, seen)),
    ),
    Mistake(
        "scores, not weights",
        "exp is missing.",
        _slip(lambda s, lse, seen, _: np.where(seen, s - lse, 0.0)),
    ),
    Mistake(
        "only the last tile of queries counts",
        "dv_tile is overwritten in each step: add to it.",
        _slip(
            lambda s, lse, seen, at: _p(
                s, lse, seen & (at["row"] >= (len(seen) - 1) // at["block_q"] * at["block_q"])
            )
        ),
    ),
    Mistake(
        "the loop begins too late",
        "the first row that sees any key of this tile is the one that sees its *first* key, "
        "rounded down to a tile of queries.",
        _slip(_from_row(lambda key, shift, b_q, b_k: -(-(key - shift) // b_q) * b_q)),
    ),
    Mistake(
        "the loop begins too late",
        "the last key of the tile is seen by fewer rows than the first one: begin where the first "
        "key is seen.",
        _slip(_from_row(lambda key, shift, b_q, b_k: (key + b_k - shift) // b_q * b_q)),
    ),
    Mistake(
        "the loop begins too late",
        "the last key of the tile is seen by fewer rows than the first one: begin where the first "
        "key is seen.",
        _slip(_from_row(lambda key, shift, b_q, b_k: (key + b_k - 1 - shift) // b_q * b_q)),
    ),
    Mistake(
        "the loop's start is aligned at the start",
        "with n_q != n_k the first row that sees key j is j - (n_k - n_q).",
        _slip(_from_row(lambda key, shift, b_q, b_k: key // b_q * b_q)),
    ),
    Mistake(
        "the loop's start is aligned at the start",
        "the first row that sees key j is j - (n_k - n_q): minus, not plus.",
        _slip(_from_row(lambda key, shift, b_q, b_k: (key + shift) // b_q * b_q)),
    ),
    *(
        Mistake(name, says, _slip(partial(_other_mask(visible), skip=skip)))
        for name, says, visible in _MASKS
        for skip in (True, False)
    ),
    Mistake(
        "rows without a key are not guarded",
        "such a row has lse = -inf, and -inf - (-inf) is NaN: set hidden weights to 0 after exp, "
        "not hidden scores to -inf before it.",
        _slip(lambda s, lse, seen, _: np.exp(np.where(seen, s, -np.inf) - lse)),
    ),
    Mistake(
        "o is taken for do",
        "P^T multiplies the gradient do, not the output o.",
        _slip(values=lambda o, do: o),
    ),
    Mistake(
        "delta is not of do and o",
        "delta is the sum of do * o along a row.",
        _slip(delta=lambda o, do: (o * o).sum(-1)),
    ),
    Mistake(
        "delta is not of do and o",
        "delta is the sum of do * o along a row.",
        _slip(delta=lambda o, do: (do * do).sum(-1)),
    ),
    Mistake(
        "delta is not of do and o",
        "delta is the sum of do * o along a row, not of do alone.",
        _slip(delta=lambda o, do: do.sum(-1)),
    ),
    Mistake(
        "a mean, not a sum",
        "delta is the sum along the row: nothing is divided by head_dim.",
        _slip(delta=lambda o, do: (o * do).mean(-1)),
    ),
    Mistake(
        "delta is summed down the columns",
        "delta is one number per query: sum along the row, axis 1 of (block_q, head_dim).",
        _slip(delta=_summed_down),
    ),
    Mistake(
        "delta has the wrong sign",
        "delta is the plain sum of do * o; the minus comes later, in dP - delta.",
        _slip(delta=lambda o, do: -(o * do).sum(-1)),
    ),
)

BACKWARD = Exercise(
    id="8.3",
    function="delta_and_dv",
    signature="(q, k, o, lse, do, *, causal=False, block_q=64, block_k=64)",
    title="What lse buys: delta and dV",
    minutes=15,
    points=5,
    hints=(
        "Any weight is exp(score - lse of its row): nothing else has to be kept from the forward "
        "pass. Here a row of scores is a *column* of s.",
        "delta_row = tl.sum(o_tile * do_tile, 1). In dv_kernel lse_row belongs to the second axis "
        "of s: lse_row[None, :]. Query i sees key j from row i = j - (n_k - n_q) on.",
        "p = tl.exp(s - lse_row[None, :]); where keys[:, None] > (rows + n_k - n_q)[None, :] it "
        "is 0; dv_tile += tl.dot(p.to(do_tile.dtype), do_tile). first is "
        "tl.maximum(tile * BLOCK_K - (n_k - n_q), 0), rounded down to a multiple of BLOCK_Q.",
    ),
    cases=_backward_cases,
    truth=_backward_truth,
    judge=in_turn(_judge_backward, was_launched, _backward_traffic),
    notice="No P was saved, and V was not even needed. One number per row, lse, bought back the "
    "whole N x N matrix, at the price of computing the scores again.",
    kind="kernel",
    mistakes=_BACKWARD_MISTAKES,
)

EXERCISES = (CHOOSE, COUNT, SPLIT, BACKWARD)
