"""Exercise 2.2: how many times fewer bytes, and from which N on."""

from __future__ import annotations

from numpy.random import Generator

from course_lib.judging import sizes
from course_lib.judging.judges import within
from course_lib.judging.spec import HARD, Case, Exercise, Mistake

Pair = tuple[float, float]


def _reduction(n: int, d: int) -> Pair:
    """Return factor and crossover of four trips with scores of 4 bytes, all else of 2 bytes."""
    scores, others = 4 * n * n * 4, 4 * n * d * 2
    return (scores + others) / others, d / 2


_REDUCTION_MISTAKES = Mistake.table(
    ("N > 2d",
     "the crossover of 2 d is printed in public lessons. Either the bytes per element are left "
     "out on one side, or the ratio of the two widths is upside down: solve 16 N^2 = 8 N d for N.",
     lambda n, d: (2 * n / d + 1, 2 * d)),
    ("N > 2d, and the linear term is forgotten",
     "the crossover compares elements with bytes, and the factor leaves out that naive reads Q, "
     "K, V and writes O as well: 8 N d on top of 16 N^2.",
     lambda n, d: (2 * n / d, 2 * d)),
    ("the linear term is missing",
     "the factor is one divided by the other, 2 N / d + 1: naive moves Q, K, V, O as well, 8 N d "
     "on top of 16 N^2. They are forgotten, or what the least moves is subtracted again.",
     lambda n, d: (2 * n / d, d / 2)),
    ("the crossover is looked for up to n",
     "d / 2 depends on d alone: it may lie above n, or below 1.",
     lambda n, d: (2 * n / d + 1, min(n, d / 2)),
     lambda n, d: (2 * n / d + 1, max(1, min(n, d / 2)))),
    ("the crossover is an N",
     "2 is the factor at the crossover. The crossover itself is a sequence length.",
     lambda n, d: (2 * n / d + 1, 2)),
    ("one width for all",
     "S and P have 4 bytes a number here, and Q, K, V and O have 2. The lesson's program has 2 "
     "for all: with one width, whichever, factor and crossover come out the same.",
     lambda n, d: (n / d + 1, d)),
    ("the scores have two bytes",
     "this is the lesson's program, at least in part. Here S and P are in fp32: 4 bytes a number "
     "in the quadratic term, 2 in the linear one, in the factor and in the crossover.",
     lambda n, d: (n / d + 1, d / 2), lambda n, d: (2 * n / d + 1, d)),
    ("the bytes are exchanged",
     "S and P have 4 bytes a number, Q, K, V and O have 2: not the other way round.",
     lambda n, d: (n / (2 * d) + 1, 2 * d)),
    ("six trips instead of four",
     "this is eager code that scales the scores. The exercise asks for the four-trip model.",
     lambda n, d: (3 * n / d + 1, d / 3)),
    ("six trips instead of four",
     "the factor is that of eager code with six trips. The exercise asks for four.",
     lambda n, d: (3 * n / d + 1, d / 2)),
    ("the two values are exchanged", "return the factor first, then the crossover.",
     lambda n, d: (d / 2, 2 * n / d + 1)),
    ("the factor is upside down", "naive over least, not least over naive.",
     lambda n, d: (1 / (2 * n / d + 1), d / 2)),
    ("whole division", "n // d drops what is left over: use n / d.",
     lambda n, d: (2 * n // d + 1, d / 2), lambda n, d: (2 * (n // d) + 1, d / 2)),
    ("the factor is rounded",
     "return the factor as it is: a rounded one is right at few shapes only.",
     lambda n, d: (round(2 * n / d + 1), d / 2)),
    ("the crossover is rounded",
     "where d is odd, the crossover lies between two whole numbers: return it as it is.",
     lambda n, d: (2 * n / d + 1, d // 2), lambda n, d: (2 * n / d + 1, -(-d // 2))),
    ("the share that is saved",
     "1 - least / naive is the share that is saved. The factor is naive over least.",
     lambda n, d: (2 * n / (2 * n + d), d / 2)),
    ("the crossover is n", "the crossover does not depend on n: solve 16 N^2 = 8 N d for N.",
     lambda n, d: (2 * n / d + 1, n)),
)  # fmt: skip


def _reduction_cases(rng: Generator) -> list[Case]:
    drawn = []  # n / d ends in .9 or so: floors of n / d and 2 n / d and a rounding differ
    for d in rng.choice([16, 32, 64, 80, 96, 112, 256], 3, replace=False):
        n = int(rng.integers(2, 60)) * int(d) + int(rng.integers(13 * d // 16, 15 * d // 16))
        drawn.append(Case(f"N = {n}, d = {d}", (n, int(d))))
    many = 96 * int(rng.integers(10_000, 20_000)) + 80
    drawn.append(Case(f"N = {many}, d = 96", (many, 96)))
    levels = sizes.paired(rng, n=sizes.COUNTS, d=sizes.BESIDE)
    related = [(one["n"], one["d"](one["n"])) for one in levels]
    related += sizes.one_changed((129, 65), (130, 66))
    drawn += [Case(f"N = {n}, d = {d}", (n, d)) for n, d in dict.fromkeys(related)]
    return [Case("N = 8192, d = 128", (8192, 128)), *drawn]


REDUCTION = Exercise.of(
    "2.2",
    cases=_reduction_cases,
    truth=_reduction,
    judge=within(1e-6),
    spared=dict.fromkeys(HARD, "counts bytes"),
    mistakes=_REDUCTION_MISTAKES,
)
