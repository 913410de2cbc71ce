"""Exercises of lesson 01: solutions pass, null models fail, and each mistake gets its name."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from grading.helpers import solutions, stubs

from course_lib.grading.check import report_for
from course_lib.grading.report import Verdict
from course_lib.grading.specs import find

NAMES = ("predict_doubling", "naive_attention", "trip_bytes", "scale_queries_first")


def report_on(name, function, seed=1):
    function.__name__ = name
    return report_for(function, seed=seed)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(8))
def test_the_solution_passes(name, seed):
    report = report_for(getattr(solutions(1), name), seed=seed + 1)
    assert report.passed, report.text()


@pytest.mark.parametrize("name", NAMES)
def test_the_stub_is_not_attempted(name):
    assert report_for(getattr(stubs(1), name)).verdict is Verdict.NOT_ATTEMPTED


@pytest.mark.parametrize("name", NAMES)
def test_a_forgotten_return_is_named(name):
    report = report_on(name, lambda *args: None)
    assert report.failed_property == "returns a value"


# --- 1.1


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ((2, 2), "linear thinking"),
        ((2, 1), "linear thinking"),
        ((4, 1), "the matmuls dominate"),
        ((4, 3), "the matmuls dominate"),
        ((2, 4), "the two values are exchanged"),
    ],
)
def test_wrong_predictions_are_recognised(answer, name):
    report = report_on("predict_doubling", lambda: answer)
    assert report.verdict is Verdict.INCORRECT
    assert report.misconception == name


@pytest.mark.parametrize("answer", [4, (4,), "4, 2", (8, 2)])
def test_other_predictions_are_incorrect(answer):
    report = report_on("predict_doubling", lambda: answer)
    assert report.verdict is Verdict.INCORRECT
    assert not report.misconception


# --- 1.2


def softmax_with(subtract, axis=1, divide=True):
    """Naive attention that a student writes, with one thing changed."""

    def naive_attention(q, k, v):
        s = q @ k.T / np.sqrt(q.shape[1])
        e = np.exp(s - subtract(s))
        return (e / e.sum(axis=axis, keepdims=True) if divide else e) @ v

    return naive_attention


def row_max(s):
    return s.max(axis=1, keepdims=True)


def scaled_by(power):
    def naive_attention(q, k, v):
        s = q @ k.T / q.shape[1] ** power
        e = np.exp(s - row_max(s))
        return e / e.sum(axis=1, keepdims=True) @ v

    return naive_attention


def one_sum(q, k, v):
    s = q @ k.T / np.sqrt(q.shape[1])
    e = np.exp(s - row_max(s))
    return e / e.sum() @ v


def without_keepdims(q, k, v):
    s = q @ k.T / np.sqrt(q.shape[1])
    e = np.exp(s - s.max(axis=1))
    return e / e.sum(axis=1) @ v


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (scaled_by(0), "the scale is missing"),
        (scaled_by(1), "scaled twice"),
        (
            softmax_with(lambda s: s.max(axis=0, keepdims=True), axis=0),
            "softmax over the wrong axis",
        ),
        (softmax_with(row_max, divide=False), "not divided by l"),
        (softmax_with(lambda s: 0), "no maximum is subtracted"),
        (softmax_with(lambda s: s.max()), "one maximum for the whole chart"),
        (softmax_with(lambda s: s.max(axis=0, keepdims=True)), "the maximum of each column"),
        (without_keepdims, "keepdims is missing"),
        (one_sum, "one sum for the whole chart"),
    ],
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_mistakes_in_numpy_attention_are_recognised(function, name, seed):
    report = report_on("naive_attention", function, seed)
    assert report.verdict is Verdict.INCORRECT
    assert report.misconception == name, report.text()


def nulls(xp):
    return {
        "zeros": lambda q, k, v: 0 * q,
        "mean(V)": lambda q, k, v: 0 * q + v.mean(-2, **{"keepdims": True}),
        "V": lambda q, k, v: v + 0,
        "the input": lambda q, k, v: q + 0,
    }


@pytest.mark.parametrize("null", nulls(np))
@pytest.mark.parametrize("name", ["naive_attention", "scale_queries_first"])
def test_null_models_fail(name, null):
    assert report_on(name, nulls(np)[null]).verdict is Verdict.INCORRECT


def test_each_case_of_numpy_attention_exposes_the_null_models_it_does_not_excuse():
    """No case is idle: every one of them fails every null model, the marked one excepted."""
    exercise = find("1.2")
    for case in exercise.cases(np.random.default_rng(3)):
        expected = exercise.truth(*case.args)
        for name, null in nulls(np).items():
            answer = null(*case.args)
            right = answer.shape == expected[0].shape and np.allclose(
                answer, expected[0], atol=1e-4
            )
            assert not right or name in case.blind_to, (case.name, name)


def test_another_right_order_of_operations_passes():
    def naive_attention(q, k, v):
        s = (q / math.sqrt(q.shape[1])) @ k.T
        e = np.exp(s - row_max(s))
        assert e.dtype == np.float32  # math.sqrt keeps it: the harder case
        return (e @ v) / e.sum(axis=1, keepdims=True)

    assert all(report_on("naive_attention", naive_attention, seed).passed for seed in range(1, 31))


def test_the_wrong_shape_and_a_changed_input_get_their_own_sentence():
    transposed = report_on(
        "naive_attention", lambda q, k, v: solutions(1).naive_attention(q, k, v).T
    )
    assert transposed.failed_property == "the shape"

    def naive_attention(q, k, v):
        q /= np.sqrt(q.shape[1])
        s = q @ k.T
        e = np.exp(s - row_max(s))
        return e / e.sum(axis=1, keepdims=True) @ v

    changed = report_on("naive_attention", naive_attention)
    assert changed.failed_property == "leaves its inputs alone"


# --- 1.3


def books(n, d, b, **changed):
    square, linear = n * n * b, 4 * n * d * b
    total = 4 * square + linear
    right = dict.fromkeys(("write_s", "read_s", "write_p", "read_p"), square)
    right |= {"qkvo": linear, "total": total, "total_gb": total / 1e9, "s_mib": square / 2**20}
    return right | changed


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (
            lambda n, d, b: books(
                n, d, b, total=2 * n * n * b + 4 * n * d * b,
                total_gb=(2 * n * n * b + 4 * n * d * b) / 1e9,
            ),
            "the reads are forgotten in the total",
        ),
        (lambda n, d, b: books(n, d, b, read_s=0, read_p=0), "a reading counts nothing"),
        (lambda n, d, b: books(n, d, b, s_mib=n * n * b / 1e6), "MB instead of MiB"),
        (
            lambda n, d, b: books(n, d, b, total_gb=(4 * n * n + 4 * n * d) * b / 2**30),
            "GiB instead of GB",
        ),
        (lambda n, d, b: books(n, d, 1), "elements instead of bytes"),
        (
            lambda n, d, b: books(n, d, b, total=4 * n * n * b, total_gb=4 * n * n * b / 1e9),
            "Q, K, V and O are not in the total",
        ),
    ],
)  # fmt: skip
def test_mistakes_in_the_books_are_recognised(function, name):
    assert report_on("trip_bytes", function).misconception == name


def test_a_rounded_number_is_told_not_to_round():
    def trip_bytes(n, d, b):
        right = books(n, d, b)
        return right | {"total_gb": round(right["total_gb"], 2)}

    assert "do not round it" in report_on("trip_bytes", trip_bytes).text()


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


def six_trips(q, k, v):
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1) @ v


def in_place(q, k, v):
    scores = q @ k.mT
    scores /= math.sqrt(q.shape[-1])
    return torch.softmax(scores, dim=-1) @ v


def scales_k(q, k, v):
    return torch.softmax(q @ (k.mT / math.sqrt(q.shape[-1])), dim=-1) @ v


@pytest.mark.parametrize(("function", "trips"), [(six_trips, 6), (in_place, 6)])
def test_a_right_answer_with_six_trips_is_told_so(function, trips):
    report = report_on("scale_queries_first", function)
    assert report.failed_property == "makes four trips"
    assert f"{trips} trips" in report.text()


def test_a_softmax_in_pieces_is_told_to_be_one_operation():
    def by_hand(q, k, v):
        s = (q / math.sqrt(q.shape[-1])) @ k.mT
        e = torch.exp(s - s.max(dim=-1, keepdim=True).values)
        return e / e.sum(dim=-1, keepdim=True) @ v

    assert "torch.softmax" in report_on("scale_queries_first", by_hand).text()


def test_a_fused_operator_is_not_the_students_own_work():
    report = report_on(
        "scale_queries_first",
        lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v),
    )
    assert report.failed_property == "makes four trips"
    assert "fused" in report.text()


def test_scaling_k_instead_is_as_good():
    assert all(report_on("scale_queries_first", scales_k, seed).passed for seed in range(1, 4))


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda q, k, v: torch.softmax(q @ k.mT, -1) @ v, "the scale is missing"),
        (lambda q, k, v: six_trips(q / math.sqrt(q.shape[-1]), k, v), "scaled twice"),
        (
            lambda q, k, v: torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -2) @ v,
            "softmax over the wrong axis",
        ),
    ],
)
def test_mistakes_in_torch_attention_are_recognised(function, name):
    assert report_on("scale_queries_first", function).misconception == name


def test_dividing_q_in_place_is_noticed():
    def scale_queries_first(q, k, v):
        q /= math.sqrt(q.shape[-1])
        return torch.softmax(q @ k.mT, dim=-1) @ v

    report = report_on("scale_queries_first", scale_queries_first)
    assert report.failed_property == "leaves its inputs alone"


def test_a_float32_answer_to_half_precision_is_told_so():
    def scale_queries_first(q, k, v):
        return solutions(1).scale_queries_first(q.float(), k.float(), v.float())

    report = report_on("scale_queries_first", scale_queries_first)
    assert report.failed_property == "the dtype"
