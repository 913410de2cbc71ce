"""Exercises 5.1 and 5.2: the offsets of a program, and two vectors added."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging.finding import Finding
from course_lib.judging.kernel_judge import float32_judge, in_turn, several_programs
from course_lib.judging.least import Least, counted
from course_lib.judging.load_map import Cut
from course_lib.judging.misconceptions import TIMES_INFINITY
from course_lib.judging.picture import error_map
from course_lib.judging.questions import question, wrong_answers
from course_lib.judging.spec import FAR, JUMPS, REMAINDER, Case, Exercise, Mistake, Observed
from course_lib.judging.tolerance import as_float64
from course_lib.sandbox.inputs import is_tensor

_WRONG_OFFSETS = wrong_answers(
    ("a program is taken for a thread",
     "Program 2 owns a block of 16 offsets, not the single offset 2.", (2, 2, 1)),
    ("programs are dealt out like cards",
     "Program 2 does not take every third offset: its 16 offsets are neighbours.", (2, 47, 14)),
    ("the program number is added, not multiplied",
     "The block starts at program_id * 16, not at program_id.", (2, 17, 16)),
    ("programs are counted from 1",
     "The first program has number 0, so program 2 is the third one.",
     (16, 31, 16), (17, 32, 16)),
    ("the mask is taken for a shorter block",
     "tl.arange always gives 16 offsets. The mask switches some of them off; the last offset is "
     "still the last of the block.",
     (32, 43, 12), (32, 44, 12), (32, 43, 11)),
    ("those that the mask leaves out are counted",
     "The mask is true where an offset is inside the vector: count these, not the rest of the "
     "block.",
     (32, 47, 4)),
    ("the end is counted in", "tl.arange(0, 16) ends with 15: the last offset is 32 + 15.",
     (32, 48, 12)),
    ("the mask is forgotten",
     "The vector has 44 numbers: not all of the 16 offsets are below 44.", (32, 47, 16)),
    ("the offset 44 is counted in",
     "44 numbers have the offsets 0 to 43: the mask is offsets < 44.", (32, 47, 13)),
)  # fmt: skip
OFFSETS = question("5.1", (32, 47, 12), wrong=_WRONG_OFFSETS)


_EXTREME = (  # x and y: near the end of float32, infinite both, one far beyond the other
    (2e38, 1e38), (-1.5e38, -1.8e38), (np.inf, np.inf), (-np.inf, -np.inf), (np.inf, -1e38),
    (1e-30, 1e10), (1e30, 1e-30), (3e38, -3e38), (0.0, -3e38), (-2e38, 0.0),
    (np.inf, -np.inf), (-np.inf, np.inf), (np.nan, 1.0), (2.0, np.nan),  # a sum that is NaN
)  # fmt: skip


def _vector_cases(rng: Generator) -> list[Case]:
    def case(name: str, n: int, block: int, size: Any = 1.0, **flags: Any) -> Case:
        x, y = size * rng.standard_normal(n), rng.standard_normal(n)
        return Case(name, (draw.tensor(x), draw.tensor(y)), {"block": block}, **flags)

    def pairs(name: str, of: Any, n: int, block: int) -> Case:
        x, y = rng.permutation(np.resize(of, (n, 2))).T
        return Case(name, (draw.tensor(x), draw.tensor(y)), {"block": block})

    long = int(rng.integers(33_000, 34_000))  # past the last int16, and many programs
    return [
        case("64 numbers in blocks of 16: four full blocks", 64, 16),
        case("70 numbers in blocks of 16: the last block is short", 70, 16),
        case("4 numbers in a block of 64: one block, mostly empty", 4, 64),
        case("200 numbers in blocks of 64, counted", 200, 64, counted=True, compiled=True),
        case("65 numbers in blocks of 16: the last block holds one",
             65, 16, shows=frozenset({REMAINDER})),
        case("96 numbers in blocks of 32: three full blocks", 96, 32),
        case(f"{long} numbers in blocks of 32: many programs", long, 32),
        case("60 numbers in blocks of 32, some of them huge or infinite",
             60, 32, size=np.resize([1e30, np.inf, 1.0], 60)),
        pairs("64 numbers in blocks of 32, up to the end of float32, infinite or NaN",
              _EXTREME, 64, 32),
        case("a single number", 1, 16),
        case("32,769 numbers in blocks of 32,768: the last block holds one", 2**15 + 1, 2**15),
    ]  # fmt: skip


def _once(case: Case) -> Least:
    n, block = case.args[0].numel(), case.kwargs["block"]
    return Least(
        rule="each number of x and of y is loaded once, each sum is stored once",
        loads={"x": n, "y": n},
        stores=n,
        tiles=dict.fromkeys("xy", (f"block={block}", block)),
        properties=dict.fromkeys("xy", "loads each number once"),
    )


def _cuts(case: Case) -> dict[str, Cut]:
    return dict.fromkeys("xy", Cut((case.kwargs["block"], 1)))


def _every_program_works(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask that no program finds its whole block masked."""
    ledger = observed.ledger
    if ledger is None:
        return None
    started = sum(int(np.prod(launch.grid)) for launch in ledger.launches)
    working = len({visit.program for visit in ledger.visits})
    if started <= working * len(ledger.launches):
        return None
    a_number_each = "a program owns a block, not one number. " * (started >= case.args[0].numel())
    return Finding(
        "every program has work",
        f"the sums are right, but {started} programs were started and only {working} of them "
        f"touch memory: {a_number_each}n / block programs, rounded up, are enough.",
    )


def _all_written(case: Case, observed: Observed, expected: np.ndarray) -> Finding | None:
    """Ask that every entry was written (unwritten memory is NaN), and say why if not."""
    got = as_float64(observed.result) if is_tensor(observed.result) else None
    if got is None or got.shape != expected.shape:
        return None
    n, block = expected.size, case.kwargs["block"]
    missing = np.flatnonzero(np.isnan(got) & ~np.isnan(expected))
    x, y = (np.abs(as_float64(one)) for one in case.args)
    if (np.maximum(x, y)[missing] > 1e29).all():  # none, or computed from such, and stored
        return None
    reasons = {
        n // block * block: "The number of programs must be n / block, rounded up.",
        n - 1: "The last offset is n - 1: it passes the mask offsets < n.",
        block: "Do all programs work on the first block? Offsets depend on tl.program_id(0).",
        block - 1 + -(-n // block): "Blocks start at program_id * BLOCK, not at program_id: a "
        "program is not a thread.",
    }
    books = observed.ledger
    started = max((math.prod(run.grid) for run in books.launches), default=0) if books else 0
    if 0 < started * block <= missing[0] and started != n // block:
        one = "program" if started == 1 else "programs"
        reasons[int(missing[0])] = (
            f"Only {started} {one} of {block} numbers {'was' if started == 1 else 'were'} started: "
            "the launcher's number of programs must be n / block, rounded up."
        )
    to_the_end = missing.size == n - missing[0]
    return Finding(
        "writes every entry",
        f"{missing.size} of {n} entries were never written, the first at offset {missing[0]}. "
        + (reasons.get(int(missing[0]), "") if to_the_end else ""),
        picture=error_map(got, expected, np.inf, "the result"),
    )


def _with_first_block(a: Any, b: Any, block: int) -> np.ndarray:
    """Return a + b, where every program reads the first block of b."""
    a, b = as_float64(a), as_float64(b)
    return np.asarray(a + np.resize(b[:block], b.size))


def _times_0(x: Any, y: Any, *, block: int, of: str) -> np.ndarray:
    """Return x + y, to which what ``of`` names was added times 0."""
    with np.errstate(invalid="ignore"):  # 0 * inf
        gone = sum(
            0 * as_float64(one) for name, one in zip("xy", (x, y), strict=True) if name in of
        )
    return np.asarray(_sum(x, y, block=block) + gone)


def _sum(x: Any, y: Any, *, block: int) -> np.ndarray:
    """Return x + y rounded to float32, as one addition is, whoever makes it."""
    with np.errstate(over="ignore", invalid="ignore"):  # inf - inf
        return (as_float64(x) + as_float64(y)).astype(np.float32).astype(np.float64)


_MISTAKES = Mistake.table(
    ("x is added to itself", "Both loads read x: the second must read y.",
     lambda x, y, *, block: 2 * as_float64(x)),
    ("one vector is read without the program's offset",
     "Every program reads the first block of it: both loads need the same offsets.",
     lambda x, y, *, block: _with_first_block(x, y, block),
     lambda x, y, *, block: _with_first_block(y, x, block)),
    (TIMES_INFINITY,
     "What is multiplied by 0 is gone only where it is finite: an infinite number in x or y makes "
     "NaN of it. Leave it out of the sum, or choose with tl.where.",
     *(partial(_times_0, of=of) for of in ("x", "y", "xy"))),
)  # fmt: skip


VECTOR_ADD = Exercise.of(
    "5.2",
    cases=_vector_cases,
    truth=_sum,
    judge=in_turn(
        _all_written,
        float32_judge("the sum", 0.0),
        _every_program_works,
        several_programs,
        counted(_once),
    ),
    spared=dict.fromkeys((JUMPS, FAR), "there are no scores"),
    kind="kernel",
    cuts=_cuts,
    mistakes=_MISTAKES,
)
