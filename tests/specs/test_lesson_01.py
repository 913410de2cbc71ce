"""Exercises of lesson 01: solutions pass, null models fail, and each mistake gets its name."""

from __future__ import annotations

import math

import helpers
import numpy as np
import pytest
from helpers import solutions, stubs

import course_lib
from course_lib.attention.truth import attention_float64
from course_lib.checking import report_for
from course_lib.judging.report import Verdict
from course_lib.specs import find

NAMES = ("predict_doubling", "naive_attention", "trip_bytes", "four_trip_attention")


def told(exercise, mistake):
    """Return what the report says about a wrong submission of the corpus."""
    report = helpers.report_on(f"{exercise}/wrong/{mistake}")
    return " ".join(report.text().split())


def report_on(name, function, seed=1):
    function.__name__ = name
    return report_for(function, seed=seed)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.few(1, each="name")
def test_the_solution_passes(name, seed):
    report = report_for(getattr(solutions(1), name), seed=seed + 1)
    assert report.passed, report.text()


@pytest.mark.parametrize("name", NAMES)
def test_the_stub_is_not_attempted(name):
    assert report_for(getattr(stubs(1), name)).verdict is Verdict.NOT_ATTEMPTED


# --- 1.1


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ((3, 3), "linear thinking"),
        ((3, 2), "linear thinking"),
        ((9, 2), "the matmuls dominate"),
        ((9, 5), "the matmuls dominate"),
        ((9, 4), "the softmax is taken for the dearest line"),
        ((3, 9), "the two values are exchanged"),
    ],
)
def test_wrong_predictions_are_recognised(answer, name):
    report = report_on("predict_doubling", lambda: answer)
    assert report.verdict is Verdict.INCORRECT
    assert report.misconception == name
    assert "ine 3" not in report.text()  # which would be the answer
    assert "on paper" in report.text()


@pytest.mark.parametrize("answer", [9, (9,), "9, 3", (9, "3"), (27, 3), (9, 1), (4, 2)])
def test_other_predictions_are_incorrect(answer):
    report = report_on("predict_doubling", lambda: answer)
    assert report.verdict is Verdict.INCORRECT
    assert not report.misconception


# --- 1.2


def test_another_right_order_of_operations_passes():
    def naive_attention(q, k, v):
        s = (q / math.sqrt(q.shape[1])) @ k.T
        e = np.exp(s - s.max(axis=1, keepdims=True))
        assert e.dtype == q.dtype  # math.sqrt keeps float32: the harder case
        return (e @ v) / e.sum(axis=1, keepdims=True)

    assert all(report_on("naive_attention", naive_attention, seed).passed for seed in range(1, 11))


def test_a_transposed_answer_has_the_wrong_shape():
    transposed = report_on(
        "naive_attention", lambda q, k, v: solutions(1).naive_attention(q, k, v).T
    )
    assert transposed.failed_property == "the shape"


# --- 1.3


def books(n, d, b, **changed):
    square, linear = n * n * b, 4 * n * d * b
    total = 4 * square + linear
    right = dict.fromkeys(("write_s", "read_s", "write_p", "read_p"), square)
    right |= {"qkvo": linear, "total": total, "total_gb": total / 1e9, "s_mib": square / 2**20}
    return right | changed


def test_a_rounded_number_is_told_not_to_round():
    assert "do not round it" in told("1.3", "rounded")


@pytest.mark.parametrize(
    "function",
    [
        lambda n, d, b: {},
        lambda n, d, b: 120,
        lambda n, d, b: books(n, d, b, total="120 bytes"),
        lambda n, d, b: books(n, d, b, qkvo=3 * n * d * b),
        lambda n, d, b: dict.fromkeys(books(n, d, b), 0),
        lambda n, d, b: books(3, 2, 2),
    ],
)
def test_other_books_are_incorrect(function):
    assert report_on("trip_bytes", function).verdict is Verdict.INCORRECT


def test_the_books_agree_with_the_traffic_model_of_the_library():
    from course_lib.accounting.traffic import naive_four_trips

    truth = find("1.3").truth
    for n, d, b in [(3, 2, 2), (8192, 128, 2), (1000, 64, 4)]:
        assert truth(n, d, b)["total"] == naive_four_trips.bytes(n=n, d=d, b=b)


# --- 1.4


def test_a_count_of_trips_is_told_with_what_to_do_about_it():
    assert "6 trips" in told("1.4", "six_trips")
    assert "6 trips" in told("1.4", "in_place")


def test_only_what_makes_a_trip_of_all_scores_is_told():
    """q is divided and multiplied, too: that is no trip of an N x N matrix."""
    assert "trips of `div` (2). Which" in told("1.4", "six_trips_for_other_lengths")
    assert "`_log_softmax` (2), `exp` (2)" in told("1.4", "exp_of_log_softmax")
    assert "torch.softmax" in told("1.4", "softmax_by_hand")
    assert "fused" in told("1.4", "fused")


# --- the course's own answer


def by_name(q, k, v):
    return attention_float64(q, k, v)[0]


def by_its_package(q, k, v):
    return course_lib.attention.attention_float64(q, k, v)[0]


def imported_inside(q, k, v):
    from course_lib.attention.truth import attention_float64 as attend

    return attend(q, k, v)[0]


def through_a_helper(q, k, v):
    return by_name(q, k, v)


@pytest.mark.parametrize("answer", [by_name, by_its_package, imported_inside, through_a_helper])
def test_what_graded_code_may_not_import_is_refused_in_a_check(answer, monkeypatch):
    monkeypatch.setattr(answer, "__name__", "naive_attention")
    report = report_for(answer, seed=1)
    assert report.verdict is Verdict.ERROR
    assert "may not import course_lib.attention" in report.text()
