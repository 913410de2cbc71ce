"""Lesson 03's checks: solutions pass, and every mistake the lesson names is recognised by name."""

from __future__ import annotations

import numpy as np
import pytest

from course_lib.grading.check import report_for
from course_lib.grading.report import Verdict
from course_lib.grading.specs.lesson_03 import EXERCISES
from grading.helpers import solutions, stubs

NAMES = [exercise.function for exercise in EXERCISES]


def report(function, name, seed=7):
    function.__name__ = name
    return report_for(function, seed=seed)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_the_solution_passes(name, seed):
    found = report_for(getattr(solutions(3), name), seed=seed)
    assert found.passed, found.text()


@pytest.mark.parametrize("name", NAMES)
def test_the_stub_is_not_attempted(name):
    assert report_for(getattr(stubs(3), name), seed=1).verdict is Verdict.NOT_ATTEMPTED


# --- 3.3 ----------------------------------------------------------------------------------------

# each entry is a student's text: the right walk with a line or two changed
RIGHT = {
    "start": "m, l_sum, o = -np.inf, 0.0, np.zeros(values[0].shape[1])",
    "m_new": "m_new = max(m, s.max())",
    "base": "base = 0.0 if m_new == -np.inf else m_new",
    "alpha": "alpha = np.exp(m - base)",
    "p": "p = np.exp(s - base)",
    "l_sum": "l_sum = alpha * l_sum + p.sum()",
    "o": "o = alpha * o + p @ v",
    "m": "m = m_new",
    "answer": "return o / l_sum",
}
WRONG = {
    "O is not rescaled": {"o": "o = o + p @ v"},
    "l_sum is not rescaled": {"l_sum": "l_sum = l_sum + p.sum()"},
    "nothing is rescaled": {"o": "o = o + p @ v", "l_sum": "l_sum = l_sum + p.sum()"},
    "each pile uses its own maximum": {"p": "p = np.exp(s - s.max())"},
    "the maximum starts at 0": {"start": "m, l_sum, o = 0.0, 0.0, np.zeros(values[0].shape[1])"},
    "no maximum is subtracted": {"alpha": "alpha = 1.0", "p": "p = np.exp(s)"},
    "m forgets the earlier piles": {"m_new": "m_new = s.max()"},
    "m is never updated": {"m": "pass"},
    "divided after every pile": {"m": "m = m_new; o = o / l_sum", "answer": "return o"},
    "divided after every pile and again at the end": {"m": "m = m_new; o = o / l_sum"},
    "not divided": {"answer": "return o"},
    "a pile without keys gives NaN": {"base": "base = m_new"},
    "alpha is inverted": {"alpha": "alpha = np.exp(base - m)"},
}


def streaming(changes):
    """Return a student's stream_average with these lines instead of the right ones."""
    line = RIGHT | changes
    loop = "".join(f"        {line[k]}\n" for k in list(RIGHT)[1:-1])
    source = (
        f"def stream_average(piles, values):\n    {line['start']}\n"
        f"    for s, v in zip(piles, values):\n{loop}    {line['answer']}\n"
    )
    namespace = {"np": np}
    exec(source, namespace)
    return namespace["stream_average"]


def test_the_unchanged_walk_of_these_tests_is_right():
    assert report_for(streaming({}), seed=5).passed


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("mistake", WRONG)
def test_each_streaming_mistake_is_recognised_by_name(mistake, seed):
    found = report_for(streaming(WRONG[mistake]), seed=seed)
    assert found.verdict is Verdict.INCORRECT
    assert found.misconception == mistake, found.text()


def test_alpha_inverted_after_a_first_pile_treated_apart_is_recognised_too():
    changes = {"alpha": "alpha = np.exp(base - m) if l_sum else 0.0"}
    assert report_for(streaming(changes), seed=1).misconception == "alpha is inverted"


def test_the_mean_of_the_piles_averages_is_recognised():
    def stream_average(piles, values):
        softmaxes = [np.exp(s - s.max()) / np.exp(s - s.max()).sum() for s in piles]
        return np.mean([p @ v for p, v in zip(softmaxes, values)], axis=0)

    assert "mean of the piles" in report_for(stream_average, seed=1).misconception


@pytest.mark.parametrize(
    "answer",
    [
        lambda piles, values: np.zeros(values[0].shape[1]),
        lambda piles, values: np.concatenate(values).mean(axis=0),
        lambda piles, values: values[-1][-1].copy(),
        lambda piles, values: values[0],
        lambda piles, values: piles[0],
        lambda piles, values: None,
        lambda piles, values: (v for v in values),
        lambda piles, values: 36.882,
    ],
    ids=["zeros", "mean", "last", "values", "scores", "none", "generator", "number"],
)
def test_empty_answers_to_stream_average_fail(answer):
    assert report(answer, "stream_average").verdict is Verdict.INCORRECT


def test_every_case_of_stream_average_rejects_zeros_and_the_mean():
    spec = next(e for e in EXERCISES if e.function == "stream_average")
    for case in spec.cases(np.random.default_rng(3)):
        piles, values = case.args
        truth = spec.truth(piles, values)
        for null in (np.zeros_like(truth), np.concatenate(values).mean(axis=0)):
            assert not np.allclose(null, truth, rtol=1e-3), case.name


def test_early_division_shows_only_the_wrong_number_not_an_exception():
    found = report_for(streaming(WRONG["divided after every pile"]), seed=1)
    assert "Divide once" in found.text()
