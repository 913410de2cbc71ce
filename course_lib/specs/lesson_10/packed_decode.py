"""Exercise 10.4: one query of each head, the heads of a group as the rows of one tile."""

from __future__ import annotations

from functools import partial

from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging.decode_judge import (
    JUDGE,
    OF_PACKING,
    OF_THE_LOOP,
    ROWS,
    TRUTH,
    decode_case,
    half_launches,
)
from course_lib.judging.sized_launches import decode_launches
from course_lib.judging.spec import Case, Exercise


def _cases(rng: Generator) -> list[Case]:
    case = partial(draw.launch, rng)
    drawn = [
        case("2 batches, 6 heads share 2 key heads, 70 keys in tiles of 32, d = 16",
             3, 70, 16, heads=(2, 2), tiles=(ROWS, 32)),
        case("every head has its own key head (group 1), strided memory",
             1, 40, 32, heads=(2, 2), tiles=(ROWS, 16), strided="all"),
        case("8 heads share one key head, 129 keys in tiles of 64",
             8, 129, 16, tiles=(ROWS, 64)),
        case("one key", 4, 1, 16, heads=(1, 2), tiles=(ROWS, 16)),
        case("4 heads share one key head, 33 keys, all scores near -20",
             4, 33, 16, near=-20, tiles=(ROWS, 32)),
        case("the scores climb along the row, tiles as tall as d",
             3, 96, 32, rise=120, heads=(1, 2), tiles=(ROWS, 32)),
        case("4 heads share one key head, all scores near -400",
             4, 64, 16, near=-400, tiles=(ROWS, 32)),
        # no tile is short: a maximum that begins too high is no mask that comes late
        case("scores near -20000, and whole tiles", 3, 64, 16, farthest=True, tiles=(ROWS, 32)),
        case("float16, 8 heads share 2 key heads, 100 keys, d = 64",
             4, 100, 64, heads=(1, 2), dtype="float16", tiles=(ROWS, 32), compiled=True),
        *half_launches(rng),
        *(one for one, _ in decode_launches(rng, ROWS)),
        *draw.hard_launches(rng, 3, 65, 16, tiles=(ROWS, 32)),
        case("8 heads share each of 2 key heads, 150 keys, counted",
             8, 150, 16, heads=(1, 2), tiles=(ROWS, 64), counted=True),
        draw.roomy_launch(rng, 3, 40, 16, tiles=(ROWS, 32)),
        draw.many_heads_launch(case, 1, tiles=(ROWS, 16)),
    ]  # fmt: skip
    return [decode_case(one) for one in drawn]


EXERCISE = Exercise.of(
    "10.4",
    cases=_cases,
    truth=TRUTH,
    judge=JUDGE,
    kind="kernel",
    races=True,
    mistakes=(*OF_PACKING, *OF_THE_LOOP),
)
