"""Every exercise is tried on the shared hard cases, or says why it is not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers import first_cases

from course_lib.judging.alike import is_floating
from course_lib.judging.replay import Replay
from course_lib.judging.spec import HARD
from course_lib.specs import EXERCISES

CODE = [exercise for exercise in EXERCISES if exercise.kind != "question"]


@pytest.mark.parametrize("exercise", CODE, ids=lambda exercise: exercise.id)
def test_an_exercise_draws_each_hard_case_or_says_why_not(exercise):
    cases = exercise.cases(np.random.default_rng(1))
    shown = frozenset().union(*(case.shows for case in cases))
    assert shown | exercise.spared.keys() == HARD
    assert not shown & exercise.spared.keys(), "what is shown needs no excuse"
    assert all(len(reason.split()) > 1 for reason in exercise.spared.values())


@pytest.mark.parametrize("exercise", [e for e in CODE if e.kind == "kernel"], ids=lambda e: e.id)
def test_a_kernel_is_launched_again_on_other_inputs_in_all_cases(exercise):
    for case in exercise.cases(np.random.default_rng(1)):
        others = Replay(case, np.random.default_rng(2)).other_case.args
        pairs = [*enumerate(zip(case.args, others, strict=True))]
        changed = {at for at, (x, now) in pairs if is_floating(x) and not x.equal(now)}
        numbers = {at for at, (x, _) in pairs if is_floating(x) and (x.isfinite() & (x != 0)).any()}
        assert not changed & case.together
        assert changed or not numbers, "of zeros and infinities there are no halves"


def matrices(case):
    return [x for x in case.args if getattr(x, "ndim", 0) == 4]


ATTEND = [
    exercise
    for exercise in CODE
    if exercise.kind == "kernel"
    and exercise.id != "11.3"  # "the pools of K and V have the same strides"
    and any(len(matrices(case)) > 1 for case in first_cases(exercise))
]


@pytest.mark.parametrize("exercise", ATTEND, ids=lambda exercise: exercise.id)
def test_in_some_case_no_strides_of_one_tensor_do_for_another(exercise):
    def apart(x, y):
        return all(
            a > 1 and s != t for a, s, t in zip(y.shape[:2], x.stride(), y.stride(), strict=False)
        )

    assert any(
        all(apart(x, y) for x, y in itertools.combinations(matrices(case)[:3], 2))
        for case in exercise.cases(np.random.default_rng(1))
        if len(matrices(case)) > 1
    )
