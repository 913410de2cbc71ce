"""8.1: choose the tiles for a GPU by the x-ray."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from numpy.random import Generator

from course_lib.accounting.measurements import load_measurements
from course_lib.judging.faults import find_fault
from course_lib.judging.finding import Finding
from course_lib.judging.spec import HARD, Case, Exercise, Mistake, Observed

Row = dict[str, Any]
Choice = tuple[int, int, int, int]
_TILES = ("block_q", "block_k", "num_warps", "num_stages")


@cache
def _table(gpu: str, head_dim: int) -> tuple[Row, ...]:
    rows = load_measurements("xray_tiles")["rows"]
    return tuple(row for row in rows if (row["gpu"], row["head_dim"]) == (gpu, head_dim))


def _choice(row: Row) -> Choice:
    return tuple(row[name] for name in _TILES)


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


def _best(
    rows: list[Row], skip: Sequence[int] = (), strict: Sequence[int] = (), back: int | None = 0
) -> list[Row]:
    """Return the rows that the rule leaves; ``skip`` leaves steps of it out.

    ``strict`` steps drop every row that breaks them. If none is left, the first ``back`` of all
    come back (None: all of them); none does: ValueError.
    """
    left = list(rows)
    for step, (_, _, value) in enumerate(_rules(rows)):
        if step in skip:
            continue
        if step in strict:
            left = [row for row in left if value(row)] or rows[:back]
        else:
            top = max(value(row) for row in left)
            left = [row for row in left if value(row) == top]
    return left


_PLAIN = ": the rows with two blocks on an SM use no tensor cores"
_BROKEN = ": of these, only what does not fit or spills uses tensor cores"
_ROOMY = ": three blocks of the tallest tiles fit on an SM, and what spills, spills one register"


def _tile_cases(rng: Generator) -> list[Case]:
    """Return lists of rows in which every known mistake shows, whatever is drawn.

    Drawn are the rows, from those that play the same part, and where they stand; the order of
    those that decide is not, so that no two mistakes give the same answer in the first list that
    shows either of them. Of the measured rows of a GPU all use tensor cores, or none: in one list
    those that rule 4 prefers are made to use none, and in one those that rules 1 and 2 drop are
    made to use some, so that *any row that is left* is not *any row*. Two blocks are the most of
    all rows that decide: in the last list the tallest have three, so that *at least two* is not
    *two*; and a row that spills there spills 4 bytes, so that *a little* is not *nothing*.
    """
    d = int(rng.choice([64, 128]))
    lists = (
        ("", "H100", 128, _deciding(rng)),
        ("", "A100", 64, _by_area(rng)),
        ("", "T4", d, _shuffled(rng, map(_choice, _table("T4", d)))),
        (": no row with two blocks on an SM", "H100", 128, _one_block(rng)),
        (_PLAIN, "A100", 64, _by_area(rng)),
        (_BROKEN, "T4", d, _shuffled(rng, map(_choice, _table("T4", d)))),
        (_ROOMY, "A100", 64, _by_area(rng)),
    )
    cases = []
    for remark, gpu, head_dim, choices in lists:
        by_choice = {_choice(row): row for row in _table(gpu, head_dim)}
        rows = [dict(by_choice[choice]) for choice in choices]
        for row in rows if remark == _PLAIN else []:
            row["tensor_core"] *= row["blocks_per_sm"] < 2
        for row in rows if remark == _BROKEN else []:
            row["tensor_core"] = 64 * (not row["fits"] or row["stack_bytes"] > 0)
        tallest = max(
            row["block_q"] for row in rows if row["blocks_per_sm"] >= 2 or remark != _ROOMY
        )
        for row in rows if remark == _ROOMY else []:
            row["blocks_per_sm"] += row["blocks_per_sm"] >= 2 and row["block_q"] == tallest
            row["stack_bytes"] = min(row["stack_bytes"], 4)
        cases.append(Case(f"{gpu}, head_dim {head_dim}{remark}", (rows,)))
    cases.append(_made_up(rng))
    turned = [Case(f"{one.name}, the other way round", (one.args[0][::-1],)) for one in cases]
    return [*cases, *turned]


def _made_up(rng: Generator) -> Case:
    """Return a list in which each clause of the rule decides against one row.

    That row is as good as the right one in every clause before, worse in this one, and better in
    all that follow: whoever leaves a clause out, or asks another first, takes it. Of what is
    enough and no more is asked, all others have more, and of what no clause asks, less. No two
    have the same tiles, warps and stages: by these a row is known."""
    worse = {
        "fits": False, "stack_bytes": 8, "tensor_core": 0, "blocks_per_sm": 1,
        "block_q": 32, "block_k": 32, "num_stages": 2, "registers": 160,
    }  # fmt: skip
    better = {"block_q": 128, "block_k": 256, "num_stages": 8, "registers": 96}
    right = _table("H100", 128)[0] | {
        "fits": True, "stack_bytes": 0, "tensor_core": 64, "blocks_per_sm": 2,
        "block_q": 64, "block_k": 64, "num_stages": 3, "registers": 128, "num_warps": 4,
        "shared_bytes": 60_000, "fma": 100,
    }  # fmt: skip
    more = {"tensor_core": 128, "blocks_per_sm": 3, "shared_bytes": 50_000, "fma": 50}
    rows = [right]
    clauses = list(worse)
    for place, clause in enumerate(clauses):
        later = {name: better[name] for name in clauses[place + 1 :] if name in better}
        own = {"num_warps": (1, 2, 8, 16)[place % 4]}
        rows.append(right | own | more | {clause: worse[clause]} | later)
    return Case("made up: each clause of the rule decides against one row", (_shuffled(rng, rows),))


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


def _shuffled(rng: Generator, items: Iterable[Any]) -> list[Any]:
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


def _size(row: Row) -> tuple[int, ...]:
    """Return what rules 5 and 6 ask for, in their order."""
    return row["block_q"], row["block_k"], row["num_stages"], -row["registers"]


_SHARED = (64, 160, 163, 164, 192, 227, 228)  # KiB; smaller limits choose as none would
_ALL = range(6)  # rules that are left out


def _chosen(
    key: Callable[[Row], Any] = lambda row: 0,
    *,
    skip: Sequence[int] = (),
    strict: Sequence[int] = (),
    back: int | None = 0,
    last: bool = False,
    most_bytes: int = 0,
) -> Callable[[list[Row]], Choice | None]:
    """Return who takes, of the rows that `_best` leaves, the first of the largest ``key``.

    ``most_bytes``: what fits is what takes no more shared memory, whatever the row says.
    """

    def model(rows: list[Row]) -> Choice | None:
        if most_bytes:
            rows = [row | {"fits": row["shared_bytes"] <= most_bytes} for row in rows]
        try:
            left = _best(rows, skip, strict, back)
        except ValueError:  # nothing is left
            return None
        return _choice(max(left[::-1] if last else left, key=key)) if left else None

    return model


_MISTAKES = Mistake.table(
    ("bigger is better",
     "the largest tile of all was taken. It re-reads least, but what does not fit does not start, "
     "and what spills goes through memory in every step.",
     _chosen(_area, skip=_ALL), _chosen(_area, skip=_ALL, last=True)),
    ("bigger is better",
     "the most query rows of all were taken, whatever the compiler says about them.",
     _chosen(lambda r: r["block_q"], skip=_ALL),
     _chosen(lambda r: r["block_q"], skip=_ALL, last=True)),
    ("what does not fit is taken",
     "rule 1 was left out: a kernel that asks for more shared memory than a block can get does not "
     "start.",
     _chosen(skip=(0,))),
    ("what fits is worked out, not read",
     "rule 1 asks for `fits`. How much shared memory a block can get differs from GPU to GPU, so "
     "that one number of bytes leaves out what fits, or lets in what does not.",
     *(_chosen(most_bytes=1024 * kib - less) for kib in _SHARED for less in (0, 1))),
    ("spills are ignored",
     "a row with stack_bytes > 0 spills: its registers go through memory in every step.",
     _chosen(skip=(1,))),
    ("a T4 is left without a choice",
     "on a T4 no row has a tensor-core instruction: rule 3 holds only if any row has one.",
     _chosen(strict=(2,))),
    ("one block on an SM is no choice",
     "no row of this list lets two blocks in: rule 4 holds only if any row does.",
     _chosen(strict=(3,))),
    ("what was dropped comes back",
     "where no row that is left obeys rule 3, or rule 4, that rule changes nothing: those that are "
     "left stay, and those that were dropped before stay away. Here rows of the whole list return.",
     *(_chosen(strict=(step,), back=back) for step in (2, 3) for back in (1, None))),
    ("occupancy is ignored",
     "rule 4 was left out: with one block on an SM nothing computes while it waits.",
     _chosen(skip=(3,))),
    ("smaller is better",
     "the fewest registers were taken. Registers are there to be used: they matter only if they "
     "spill.",
     _chosen(lambda r: -r["registers"], skip=_ALL),
     _chosen(lambda r: (-r["registers"], *_size(r)), skip=(4, 5)),
     _chosen(lambda r: (-r["registers"], r["num_stages"], *_size(r)[:2][::-1]), skip=(4, 5))),
    ("smaller is better", "the smallest tile always fits, and K and V are loaded most often.",
     _chosen(lambda r: -_area(r), skip=_ALL)),
    ("most blocks on an SM", "two blocks are enough for rule 4; more of them mean smaller tiles.",
     _chosen(lambda r: r["blocks_per_sm"], skip=(3, 4, 5))),
    ("the most tensor-core instructions",
     "any row with a tensor-core instruction obeys rule 3: it does not ask which has the most.",
     _chosen(lambda r: (r["tensor_core"], r["blocks_per_sm"] >= 2, *_size(r)), skip=(2, 3, 4, 5)),
     _chosen(lambda r: (r["tensor_core"], *_size(r)), skip=(2, 3, 4, 5))),
    ("rule 5 before rule 4",
     "the most query rows were asked for first, and two blocks on an SM only among those: rule 4 "
     "comes before rule 5.",
     _chosen(lambda r: (r["block_q"], r["blocks_per_sm"] >= 2, *_size(r)), skip=(3, 4, 5))),
    ("keys before queries",
     "block_k was maximised before block_q, or decided between tiles of one area. K and V are "
     "loaded once per tile of *queries*.",
     _chosen(lambda r: (r["block_k"], r["block_q"]), skip=(4, 5))),
    ("area before query rows",
     "the largest area was taken. K and V are loaded once per tile of *queries*: rule 5 asks for "
     "block_q alone, however few keys the tile has.",
     _chosen(_area, skip=(4, 5)),
     _chosen(lambda r: (_area(r), r["num_stages"], -r["registers"]), skip=(4, 5))),
    ("the tie is broken otherwise",
     "several rows are equal in rules 1 to 5. Rule 6 decides between them: keys before stages, "
     "stages before registers, and never their order in the list.",
     _chosen(skip=(5,)), _chosen(skip=(5,), last=True),
     _chosen(lambda r: (r["block_k"], r["num_stages"]), skip=(5,)),
     _chosen(lambda r: (r["block_k"] * r["num_stages"], -r["registers"]), skip=(5,)),
     _chosen(lambda r: (r["block_k"], -r["registers"]), skip=(5,))),
    ("rules 5 and 6 are left out",
     "this is the first row that obeys rules 1 to 4: of these, which has the most queries?",
     _chosen(skip=(4, 5))),
    ("the first row", "this is simply the first row.", _chosen(skip=_ALL)),
)  # fmt: skip


CHOOSE = Exercise.of(
    "8.1",
    cases=_tile_cases,
    truth=lambda rows: _choice(_best(rows)[0]),
    judge=_judge_choice,
    spared=dict.fromkeys(HARD, "chooses a row of a table"),
    mistakes=_MISTAKES,
)
