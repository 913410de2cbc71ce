"""Exercise 6.4: what fails on a GPU only, and a sum that does not."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging.kernel_judge import float32_judge, in_turn, no_race, several_programs
from course_lib.judging.least import Least, counted
from course_lib.judging.load_map import Cut
from course_lib.judging.questions import question, wrong_answers
from course_lib.judging.spec import FAR, JUMPS, REMAINDER, Case, Exercise, Mistake
from course_lib.judging.tolerance import as_float64

FINE, REFUSED, RACES = "fine", "does not compile", "races"
ON_A_GPU = {
    "biggest": REFUSED,
    "first_part": REFUSED,
    "small_dot": REFUSED,
    "total": RACES,
    "centred": FINE,
}

_WRONG_VERDICTS = wrong_answers(
    ("green on the CPU works on a GPU",
     "The interpreter accepts any Python and runs the programs in order. The compiler wants fixed "
     "types, and a GPU has no order.",
     dict.fromkeys(ON_A_GPU, FINE)),
    ("programs run in order",
     "They do here. On a GPU two programs can both load the old sum before either stores.",
     ON_A_GPU | {"total": FINE}),
    ("reading together is a race",
     "Many programs may load the same address. A race needs a store to an address that another "
     "program touches.",
     ON_A_GPU | {"centred": RACES}),
    ("a scalar start never compiles",
     "total starts as a scalar and every step adds a scalar to it: its type does not change, so "
     "it compiles.",
     ON_A_GPU | {"centred": REFUSED}),
    ("a scalar may become a block",
     "m starts as a scalar and is a block after one step: the compiler wants one type.",
     ON_A_GPU | {"biggest": FINE}),
    ("a loop may be left by break",
     "The interpreter runs Python's break; the compiler knows none.",
     ON_A_GPU | {"first_part": FINE}),
    ("tl.dot takes any size", "The inner size of tl.dot must be at least 16; here it is 8.",
     ON_A_GPU | {"small_dot": FINE}),
)  # fmt: skip
WHICH_FAIL = question("6.4a", ON_A_GPU, wrong=_WRONG_VERDICTS)


def _sum_cases(rng: Generator) -> list[Case]:
    def case(name: str, n: int, block: int, **flags: Any) -> Case:
        x = rng.standard_normal(n) + 0.5
        x[n // 2] += 20  # neither the first part nor the last is the largest
        return Case(name, (draw.tensor(x),), {"block": block}, **flags)

    return [
        case("128 numbers in blocks of 16: eight programs", 128, 16),
        case("150 numbers in blocks of 64: three programs", 150, 64),
        case("7 numbers in a block of 64: one program", 7, 64),
        case("1000 numbers in blocks of 64", 1000, 64, compiled=True),
        # more programs than the places that somebody may think are always enough
        case("8400 numbers in blocks of 2: 4200 programs", 8400, 2),
        case("129 numbers in blocks of 64: the last block holds one",
             129, 64, shows=frozenset({REMAINDER})),
    ]  # fmt: skip


def _once(case: Case) -> Least:
    n, block = case.args[0].numel(), case.kwargs["block"]
    rule, said = "each number of x is loaded once", f"block={block}"
    # one program's sums of its lanes hold the numbers of x: nobody could tell them from a copy
    again = block if n <= block else 0
    return Least(rule=rule, loads={"x": n + again}, tiles={"x": (said, block)}, idle=False)


def _parts(x: Any, block: int) -> np.ndarray:
    """Return the sum of each block."""
    x = as_float64(x)
    return np.add.reduceat(x, np.arange(0, x.size, block))


def _first_parts(many: int, x: Any, *, block: int) -> np.ndarray:
    """Return the sum of the first parts, so many of them."""
    return _parts(x, block)[:many].sum(keepdims=True)


_MISTAKES = Mistake.table(
    ("only the last part counts", "Each program overwrites what the others stored.",
     lambda x, *, block: _parts(x, block)[-1:]),
    ("only the first part counts", "Each program's part has a place of its own: add them all up.",
     lambda x, *, block: _parts(x, block)[:1]),
    ("only so many parts are added up",
     "From some block on, nothing of x is in the sum. The number of blocks grows with x: is the "
     "number of programs bounded, or the number of parts that are added up?",
     *(partial(_first_parts, 1 << power) for power in range(4, 13))),
    ("the short last part is left out", "n / block programs, rounded up, reach the last numbers.",
     lambda x, *, block: as_float64(x)[: x.numel() // block * block].sum(keepdims=True)),
    ("every step reads the first block",
     "The addresses do not move on: each block begins at its number times BLOCK.",
     lambda x, *, block: len(_parts(x, block)) * _parts(x, block)[:1]),
    ("the largest part, not the sum", "tl.atomic_max keeps the largest: tl.atomic_add adds.",
     lambda x, *, block: _parts(x, block).max(keepdims=True)),
    ("each part is added once for each lane",
     "A block of pointers adds once for each of its entries: add one number at one pointer.",
     lambda x, *, block: block * as_float64(x).sum(keepdims=True)),
    ("everything is added up twice",
     "Is the kernel launched twice, or does each block have two programs?",
     lambda x, *, block: 2 * as_float64(x).sum(keepdims=True)),
    ("the short last part is left out",
     "n / block programs, rounded down, are none where x is shorter than a block.",
     lambda x, *, block: as_float64(x).sum(keepdims=True) * (x.numel() >= block)),
    ("empty places count as 1", "What the mask leaves out is loaded as other: 0.0 adds nothing.",
     lambda x, *, block: as_float64(x).sum(keepdims=True) + -x.numel() % block),
)  # fmt: skip


MENDED_TOTAL = Exercise.of(
    "6.4b",
    cases=_sum_cases,
    truth=lambda x, *, block: as_float64(x).sum(keepdims=True),
    judge=in_turn(
        no_race,
        float32_judge("the sum", 1e-5, ("row", "column")),
        several_programs,
        counted(_once),
    ),
    spared=dict.fromkeys((JUMPS, FAR), "there are no scores"),
    kind="kernel",
    cuts=lambda case: {"x": Cut((case.kwargs["block"], 1))},
    races=True,
    mistakes=_MISTAKES,
)
