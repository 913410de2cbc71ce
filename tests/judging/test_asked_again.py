"""A right answer that is another one when the same call is made again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from course_lib.judging import engine
from course_lib.judging.asked_again import THE_SAME
from course_lib.judging.hosts.here import Here
from course_lib.judging.judges import exactly
from course_lib.judging.questions import question
from course_lib.judging.spec import Case, Exercise
from course_lib.sandbox.inputs import NEW
from course_lib.specs.lesson_01.three_lines import IN_NUMPY

PAIRS = replace(
    Exercise.of("4.1", cases=lambda rng: [], truth=lambda n: n, judge=exactly),
    signature="(n)",
    cases=lambda rng: [Case(f"n = {n}", (n,)) for n in (2, 3, 4)],
    truth=lambda n: [(i, i + 1) for i in range(n)],
)


def _keeps_one_list():
    kept: list[tuple[int, int]] = []

    def pairs(n):
        kept[:] = ((i, i + 1) for i in range(n))
        return kept

    return pairs


def _right_at_first(calls: int):
    asked: list[int] = []

    def pairs(n):
        asked.append(n)
        return [(i, i + 1) for i in range(n)] if len(asked) <= calls else []

    return pairs


def _raises_the_second_time():
    left = [1]

    def pairs(n):
        left.pop()
        return [(i, i + 1) for i in range(n)]

    return pairs


def _report(exercise: Exercise, function: object):
    cases = exercise.cases(np.random.default_rng(1))
    return engine.first_failure(exercise, Here(exercise, function), cases)


@pytest.mark.parametrize(
    ("made", "broken", "told"),
    [
        (_keeps_one_list, NEW, "the same list or dict as your answer to the call before"),
        (lambda: _right_at_first(1), THE_SAME, "again at once: "),
        (lambda: _right_at_first(4), THE_SAME, "again after other inputs: "),
        (_raises_the_second_time, THE_SAME, "ends in IndexError: "),
    ],
)
def test_what_is_kept_between_calls_shows_when_a_call_is_made_again(made, broken, told):
    found = _report(PAIRS, made())
    assert found.failed_property == broken
    assert told in " ".join(found.lines)


def _slow_the_second_time():
    asked: list[int] = []

    def pairs(n):
        asked.append(n)
        while len(asked) == 2:
            pass
        return [(i, i + 1) for i in range(n)]

    return pairs


def test_what_takes_too_long_when_asked_again_is_not_told_that_it_keeps_something():
    found = _report(replace(PAIRS, seconds=0.1), _slow_the_second_time())
    assert found.failed_property == "comes to an end"
    assert "within 0.1 seconds of computing" in " ".join(found.lines)


def test_a_right_function_is_asked_again_in_vain():
    assert _report(PAIRS, lambda n: [(i, i + 1) for i in range(n)]).passed


def test_a_question_is_asked_twice():
    answers = iter([(9, 3), (9, 4)])
    assert _report(question("1.1", (9, 3)), lambda: (9, 3)).passed
    assert _report(question("1.1", (9, 3)), lambda: next(answers)).failed_property == THE_SAME


def _an_integer_root(q, k, v):
    import numpy as np

    e = np.exp(q @ k.T / int(q.shape[1] ** 0.5))
    return e / e.sum(axis=1, keepdims=True) @ v


def test_what_is_wrong_on_other_numbers_alone_is_not_told_that_it_keeps_something():
    one = next(
        cases
        for seed in range(9)
        if (cases := IN_NUMPY.cases(np.random.default_rng(seed)))[0].args[0].shape[1] == 16
    )
    found = engine.first_failure(IN_NUMPY, Here(IN_NUMPY, _an_integer_root), one[:1])
    assert found.failed_property == "the values"
    assert "head_dim 16" not in " ".join(found.lines)
