"""Exercise 2.2: how many times fewer bytes, and from which N on."""

from __future__ import annotations

from collections.abc import Callable

from numpy.random import Generator

from course_lib.accounting import traffic
from course_lib.judging.judges import within
from course_lib.judging.spec import HARD, Case, Exercise, Mistake

Pair = tuple[float, float]


def _reduction(n: int, d: int) -> Pair:
    return traffic.reduction_factor(n, d), traffic.crossover_n(d)


_REDUCTION_MISTAKES: tuple[tuple[str, str, Callable[[int, int], Pair]], ...] = (
    (
        "N > 2d",
        "the crossover of 2 d is printed in public lessons. It comes from 4 N^2 on one side and "
        "8 N d on the other: elements against bytes. Put the bytes per element on both sides.",
        lambda n, d: (n / d + 1, 2 * d),
    ),
    (
        "N > 2d, and the linear term is forgotten",
        "the crossover compares elements with bytes, and the factor leaves out that naive reads "
        "Q, K, V and writes O as well: 4 N d on top of 4 N^2.",
        lambda n, d: (n / d, 2 * d),
    ),
    (
        "the linear term is forgotten",
        "naive moves Q, K, V, O as well: 4 N d on top of 4 N^2.",
        lambda n, d: (n / d, d),
    ),
    (
        "the crossover is an N",
        "2 is the factor at the crossover. The crossover itself is a sequence length.",
        lambda n, d: (n / d + 1, 2),
    ),
    (
        "six trips instead of four",
        "this is eager code that scales the scores. The exercise asks for the four-trip model.",
        lambda n, d: (1.5 * n / d + 1, 2 * d / 3),
    ),
    (
        "six trips instead of four",
        "the factor is that of eager code with six trips. The exercise asks for four.",
        lambda n, d: (1.5 * n / d + 1, d),
    ),
    (
        "the two values are exchanged",
        "return the factor first, then the crossover.",
        lambda n, d: (d, n / d + 1),
    ),
    (
        "the factor is upside down",
        "naive over least, not least over naive.",
        lambda n, d: (1 / (n / d + 1), d),
    ),
    (
        "whole division",
        "n // d drops what is left over: use n / d.",
        lambda n, d: (n // d + 1, d),
    ),
    (
        "the factor is rounded",
        "return the factor as it is: a rounded one is right at few shapes only.",
        lambda n, d: (round(n / d + 1), d),
    ),
    (
        "the share that is saved",
        "1 - least / naive is the share that is saved. The factor is naive over least.",
        lambda n, d: (n / (n + d), d),
    ),
    (
        "the crossover is n",
        "the crossover does not depend on n: solve 4 N^2 b = 4 N d b for N.",
        lambda n, d: (n / d + 1, n),
    ),
)


def _reduction_cases(rng: Generator) -> list[Case]:
    drawn = []  # n / d ends in .6 or so: n // d and round(n / d) must show, and differ
    for d in rng.choice([16, 32, 64, 80, 96, 112, 256], 3, replace=False):
        n = int(rng.integers(2, 60)) * int(d) + int(rng.integers(9 * d // 16, 3 * d // 4))
        drawn.append(Case(f"N = {n}, d = {d}", (n, int(d))))
    many = 96 * int(rng.integers(10_000, 20_000)) + 64
    drawn.append(Case(f"N = {many}, d = 96", (many, 96)))
    return [Case("N = 8192, d = 128", (8192, 128)), *drawn]


REDUCTION = Exercise.of(
    "2.2",
    cases=_reduction_cases,
    truth=_reduction,
    judge=within(1e-6),
    spared=dict.fromkeys(HARD, "counts bytes"),
    mistakes=tuple(Mistake(*mistake) for mistake in _REDUCTION_MISTAKES),
)
