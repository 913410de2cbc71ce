"""Exercises of lesson 05, Triton in one dimension."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.grading import faults
from course_lib.grading.judges import array_finding
from course_lib.grading.spec import Case, Exercise, Finding, Mistake, Observed
from course_lib.grading.tolerance import as_float64


def _vector_cases(rng: Generator) -> list[Case]:
    import torch

    def pair(n: int) -> tuple[Any, Any]:
        x = torch.from_numpy(rng.standard_normal(n).astype(np.float32))
        return x, torch.from_numpy(rng.standard_normal(n).astype(np.float32))

    return [
        Case("64 numbers in blocks of 16: four full blocks", pair(64), {"block": 16}),
        Case("70 numbers in blocks of 16: the last block is short", pair(70), {"block": 16}),
        Case("5 numbers in a block of 64: one block, mostly empty", pair(5), {"block": 64}),
        Case(
            "200 numbers in blocks of 64, counted",
            pair(200),
            {"block": 64},
            counted=True,
            compiled=True,
        ),
    ]


def _judge_sum(case: Case, observed: Observed, expected: Any) -> Finding | None:
    if fault := faults.find_fault(observed.result, case.args[0]):
        return fault
    if finding := array_finding(observed.result, expected, relative=1e-6):
        return finding
    return _no_launch(observed)


def _no_launch(observed: Observed) -> Finding | None:
    if observed.ledger is not None and not observed.ledger.launches:
        return Finding(
            "is a Triton kernel", "the answer is right, but no Triton kernel was launched."
        )
    return None


EXERCISES = (
    Exercise(
        id="5.2",
        function="vector_add",
        signature="(x, y, *, block=64)",
        title="Add two vectors of any length",
        minutes=8,
        points=2,
        hints=(
            "Program number pid owns the positions pid * block, pid * block + 1, ... "
            "Build them with tl.arange.",
            "The last program owns positions past the end: compare the positions with n.",
            "Give the comparison as mask= to both loads and to the store.",
        ),
        cases=_vector_cases,
        truth=lambda x, y, *, block: as_float64(x) + as_float64(y),
        judge=_judge_sum,
        notice="Without the mask the last program writes past the end of the output. On a GPU "
        "nothing stops it: it would silently change somebody else's numbers.",
        kind="kernel",
        mistakes=(
            Mistake(
                "only the first block",
                "Every program works on the same positions: the offsets must depend on "
                "tl.program_id(0).",
                lambda x, y, *, block: _first_block_only(x, y, block),
            ),
        ),
    ),
)


def _first_block_only(x: Any, y: Any, block: int) -> np.ndarray:
    total = as_float64(x) + as_float64(y)
    total[block:] = 0
    return total
