"""Lesson 03's checks: solutions pass, and every mistake the lesson names is recognised by name."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from helpers import renamed, report_on, solutions, stubs, words_of
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.checking import report_for
from course_lib.judging.report import Verdict
from course_lib.specs import find, of_lesson
from course_lib.specs.lesson_03.exposing import BROKEN as JUDGED
from course_lib.specs.lesson_03.piles import walk

NAMES = [exercise.function for exercise in of_lesson(3)]


def told(exercise, mistake):
    """Return what the report says about a wrong submission of the corpus."""
    return " ".join(report_on(f"{exercise}/wrong/{mistake}").text().split())


def report(function, name, seed=7):
    function.__name__ = name
    return report_for(function, seed=seed)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.few(1, each="name")
def test_the_solution_passes(name, seed):
    found = report_for(getattr(solutions(3), name), seed=seed)
    assert found.passed, found.text()


@pytest.mark.parametrize("name", NAMES)
def test_the_stub_is_not_attempted(name):
    assert report_for(getattr(stubs(3), name), seed=1).verdict is Verdict.NOT_ATTEMPTED


# --- 3.1 ----------------------------------------------------------------------------------------

SHEET = solutions(3).by_hand()


def rows(**orders):
    """Return the right sheet with these entries changed, by order."""
    changes = {"first": {}, "reversed": {}} | orders
    return {order: SHEET[order] | change for order, change in changes.items()}


BY_HAND_WRONG = {
    "O is not rescaled": rows(first={"o2": 95.265, "answer": 87.69}),
    "l_sum is not rescaled": rows(first={"l2": 2.3862, "answer": 26.10}),
    "nothing is rescaled": rows(first={"l2": 2.3862, "o2": 95.265, "answer": 39.92}),
    "alpha is inverted": rows(
        first={"alpha": 20.086, "l2": 28.493, "o2": 757.82, "answer": 26.60},
    ),
    "each pile uses its own maximum": rows(reversed={"l2": 2.3862, "o2": 95.265, "answer": 39.92}),
    "m forgets the earlier piles": rows(
        reversed={"m2": 3, "alpha": 20.086, "l2": 21.821, "o2": 1250.9}
    ),
    "not divided": rows(first={"answer": 62.278}, reversed={"answer": 62.278}),
}


@pytest.mark.parametrize("mistake", BY_HAND_WRONG)
def test_each_wrong_sheet_is_recognised_by_name(mistake):
    found = report(lambda: BY_HAND_WRONG[mistake], "by_hand")
    assert found.misconception == mistake, found.text()


def test_careful_four_digit_arithmetic_is_accepted():
    coarse = {
        order: {name: float(f"{x:.4g}") for name, x in numbers.items()}
        for order, numbers in SHEET.items()
    }
    assert report(lambda: coarse, "by_hand").passed


def test_three_digits_are_told_to_keep_five():
    found = report(lambda: rows(first={"alpha": 0.0500}), "by_hand")
    assert "'alpha' of the 'first' order is 0.05: close. Keep five digits" in found.text()


def test_an_inverted_alpha_alone_is_recognised():
    found = report(lambda: rows(first={"alpha": 20.086}), "by_hand")
    assert found.misconception == "alpha is inverted"


@pytest.mark.parametrize("changed", [{"o1": 25.379}, {"o2": 57.324}])
def test_an_o_that_is_already_divided_is_told_so(changed):
    found = report(lambda: rows(first=changed), "by_hand")
    assert found.failed_property == "divided too early"


def test_an_answer_outside_the_values_is_called_impossible():
    found = report(lambda: rows(first={"answer": 87.69}), "by_hand")
    assert "cannot lie outside 20 to 60" in " ".join(found.text().split())


def test_a_maximum_that_falls_is_told_so():
    found = report(lambda: rows(reversed={"m2": 3}), "by_hand")
    assert "m never falls" in " ".join(found.text().split())


@pytest.mark.parametrize(
    "answer",
    [
        None,
        57.32,
        {},
        {"first": 57.32, "reversed": 57.32},
        rows(first={"l1": "1,368"}),
        SHEET["first"],
    ],
)
def test_a_sheet_of_another_form_is_incorrect_and_says_what_the_form_is(answer):
    found = report(lambda: answer, "by_hand")
    assert found.verdict is Verdict.INCORRECT
    assert found.failed_property in ("the form", "returns a value")


# --- 3.2 ----------------------------------------------------------------------------------------


def test_a_forgotten_update_of_m_is_not_blamed_on_the_sum_alone():
    """It leaves the last pile in l_sum, as overwriting does: the report names both."""
    assert "m = m_new" in told("3.2", "m_never_updated")
    assert "m = m_new" in told("3.2", "last_pile_only")


@pytest.mark.parametrize(
    "answer",
    [
        lambda piles: None,
        lambda piles: (0.0, 0.0),
        lambda piles: max(s.max() for s in piles),
        lambda piles: (piles[0], piles[0]),
        lambda piles: (max(s.max() for s in piles), float(sum(len(s) for s in piles))),
    ],
)
def test_empty_answers_to_stream_denominator_fail(answer):
    assert report(answer, "stream_denominator").verdict is Verdict.INCORRECT


# --- 3.3 ----------------------------------------------------------------------------------------


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
    spec = next(e for e in of_lesson(3) if e.function == "stream_average")
    close = partial(np.allclose, rtol=1e-3, atol=0)  # values may be near 1e-9
    for case in spec.cases(np.random.default_rng(3)):
        piles, values = case.args
        truth = spec.truth(piles, values)
        assert not close(0 * truth, truth), case.name
        mean = np.concatenate(values).mean(axis=0)
        assert "mean(V)" in case.blind_to or not close(mean, truth), case.name


def test_early_division_shows_only_the_wrong_number_not_an_exception():
    assert "Divide once" in told("3.3", "divided_in_the_loop")


@pytest.mark.parametrize("name", ["stream_denominator", "stream_average"])
def test_other_parameters_get_a_sentence(name):
    found = report(lambda: 0, name)
    assert found.failed_property == "signature"


# --- 3.4 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        lambda a, b: None,
        lambda a, b: a,
        lambda a, b: a[2],
        lambda a, b: (0.0, 0.0, np.zeros_like(a[2])),
        lambda a, b: (max(a[0], b[0]), a[1], a[2]),
    ],
)
def test_empty_answers_to_merge_fail(answer):
    assert report(answer, "merge").verdict is Verdict.INCORRECT


# --- 3.5 ----------------------------------------------------------------------------------------

LOW, HIGH = np.array([1.0, 3.0]), np.array([2.0, 5.0])
V_LOW, V_HIGH = np.array([[10.0], [20.0]]), np.array([[30.0], [40.0]])


@pytest.mark.parametrize(
    ("inputs", "exposed"),
    [
        (([LOW, HIGH, HIGH], [V_LOW, V_HIGH, V_HIGH]), {"forgets_to_rescale_o"}),
        (([HIGH, LOW, LOW], [V_HIGH, V_LOW, V_LOW]), {"uses_own_maximum"}),
        (([LOW - 900] * 3, [V_LOW, V_HIGH, V_LOW]), {"starts_at_zero"}),
        (
            ([LOW - 900, HIGH - 900, HIGH - 900], [V_LOW, V_HIGH, V_HIGH]),
            {"starts_at_zero", "forgets_to_rescale_o"},
        ),
        (([LOW, HIGH, LOW], [V_LOW, V_HIGH, V_LOW]), {"forgets_to_rescale_o", "uses_own_maximum"}),
    ],
)
def test_the_report_says_which_broken_version_is_exposed(inputs, exposed):
    text = report(lambda: inputs, "exposing_inputs").text()
    for name in BROKEN:
        assert f"{name}: {'exposed' if name in exposed else 'NOT exposed'}" in text


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        (([HIGH, LOW, LOW], [V_HIGH, V_LOW, V_LOW]), "no pile has a larger maximum than the first"),
        (([LOW, HIGH, HIGH], [V_LOW, V_HIGH, V_HIGH]), "no pile's maximum is below the one before"),
        (([LOW, HIGH, LOW], [V_LOW] * 3), "nothing is lost by a maximum that starts at 0"),
        (([LOW, HIGH, LOW], [V_LOW * 0 + 7] * 3), "all values are alike"),
    ],
)
def test_the_report_says_what_hides_a_broken_version(inputs, why):
    assert why in " ".join(report(lambda: inputs, "exposing_inputs").text().split())


BROKEN = ("forgets_to_rescale_o", "uses_own_maximum", "starts_at_zero")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, -800.0]))
def test_the_notebooks_broken_versions_are_the_ones_that_are_judged(seed, shift):
    rng = np.random.default_rng(seed)
    piles = [rng.normal(shift, 4, n) for n in rng.integers(1, 8, 4)]
    values = [rng.normal(size=(len(s), 3)) for s in piles]
    for name in BROKEN:
        with np.errstate(all="ignore"):
            here = getattr(solutions(3), name)(piles, values)
            there = walk(piles, values, JUDGED[name])[1]
        np.testing.assert_allclose(here, there, rtol=1e-9)


def test_values_that_cancel_do_not_count_rounding_as_exposed():
    one = np.array([[1.0], [-1.0]])
    inputs = ([LOW, LOW, LOW], [one, -one, 0 * one])
    assert report(lambda: inputs, "exposing_inputs").text().count("NOT exposed") == 3


@pytest.mark.parametrize(
    "inputs",
    [
        None,
        ([LOW], [V_LOW]),
        ([LOW, HIGH], [V_LOW, V_HIGH]),
        ([LOW, HIGH], [V_LOW]),
        ([LOW, np.array([np.nan, 1])], [V_LOW, V_HIGH]),
        ([LOW, np.array([-np.inf, 1])], [V_LOW, V_HIGH]),
        ([LOW, np.zeros(9)], [V_LOW, np.zeros((9, 1))]),
        ([LOW, HIGH], [V_LOW, V_HIGH.ravel()]),
        ([LOW, HIGH], [V_LOW, np.zeros((2, 2))]),
        ([LOW, -1e7 * HIGH], [V_LOW, V_HIGH]),
        ("ab", "cd"),
        (1.0, 2.0),
        ([LOW, HIGH], [V_LOW, V_HIGH], 3),
    ],
)
def test_inputs_that_are_not_legal_are_incorrect_with_a_sentence(inputs):
    found = report(lambda: inputs, "exposing_inputs")
    assert found.verdict is Verdict.INCORRECT
    assert "exposed" not in found.text()


def test_a_sheet_of_texts_is_refused():
    """As everywhere else: Python reads "3" as a number, and nobody wrote one."""
    sheet = find("3.1").truth()
    texts = {order: {name: f"{x:.6g}" for name, x in of.items()} for order, of in sheet.items()}
    report = renamed(lambda: texts, "by_hand")
    assert "should be a number; it is '3'" in words_of(report)
    assert renamed(lambda: sheet, "by_hand").passed
