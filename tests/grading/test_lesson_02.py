"""Lesson 02's checks: solutions pass, and every mistake the lesson names is recognised by name."""

from __future__ import annotations

import pytest
from grading.helpers import solutions, stubs

from course_lib.grading.check import report_for
from course_lib.grading.report import Verdict
from course_lib.grading.specs.lesson_02 import EXERCISES

NAMES = [exercise.function for exercise in EXERCISES]
SEEDS = [1, 2, 3, 4]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", NAMES)
def test_the_solution_passes(name, seed):
    found = report_for(getattr(solutions(2), name), seed=seed)
    assert found.passed, found.text()


@pytest.mark.parametrize("name", NAMES)
def test_the_stub_is_not_attempted(name):
    assert report_for(getattr(stubs(2), name), seed=1).verdict is Verdict.NOT_ATTEMPTED


def written(signature: str, body: str):
    """Return a student's function: its head and its lines."""
    namespace: dict = {}
    lines = "\n    ".join(body.splitlines())
    exec(f"def {signature}:\n    {lines}\n", namespace)
    return namespace[signature.partition("(")[0]]


def assert_recognised(function, mistake, seeds=SEEDS):
    for seed in seeds:
        found = report_for(function, seed=seed)
        assert found.verdict is Verdict.INCORRECT
        assert found.misconception == mistake, found.text()


# --- 2.1 ----------------------------------------------------------------------------------------

LEAST = "least_bytes(n_q, n_k, d, heads, kv_heads, itemsize)"


@pytest.mark.parametrize(
    ("mistake", "expression"),
    [
        (
            "an algorithm is counted, not the bound",
            "(2*heads*n_q*d + 2*kv_heads*n_k*d + 4*heads*n_q*n_k) * itemsize",
        ),
        (
            "an algorithm is counted, not the bound",
            "heads * (2*n_q*d + 2*n_k*d + 6*n_q*n_k) * itemsize",
        ),
        ("K and V are counted once per query head", "2 * heads * (n_q + n_k) * d * itemsize"),
        ("O is forgotten", "(heads * n_q + 2 * kv_heads * n_k) * d * itemsize"),
        ("K or V is forgotten", "(2 * heads * n_q + kv_heads * n_k) * d * itemsize"),
        ("K and V have n_k rows", "2 * (heads + kv_heads) * n_q * d * itemsize"),
        ("elements, not bytes", "2 * (heads * n_q + kv_heads * n_k) * d"),
        ("one head only", "2 * (n_q + n_k) * d * itemsize"),
        ("the lse is counted", "2*(heads*n_q + kv_heads*n_k)*d*itemsize + 4*heads*n_q"),
        ("not in bytes", "2 * (heads * n_q + kv_heads * n_k) * d * itemsize / 2**20"),
    ],
)
def test_each_miscount_of_the_bound_is_recognised(mistake, expression):
    assert_recognised(written(LEAST, f"return {expression}"), mistake)


@pytest.mark.parametrize("answer", ["0", "None", "(1, 2)", "67108864", "'67 MB'", "n_q"])
def test_empty_answers_to_least_bytes_fail(answer):
    found = report_for(written(LEAST, f"return {answer}"), seed=1)
    assert found.verdict is Verdict.INCORRECT


# --- 2.2 ----------------------------------------------------------------------------------------

REDUCTION = "reduction_and_crossover(n, d)"


@pytest.mark.parametrize(
    ("mistake", "expression"),
    [
        ("N > 2d", "n / d + 1, 2 * d"),
        ("N > 2d, and the linear term is forgotten", "n / d, 2 * d"),
        ("the linear term is forgotten", "n / d, d"),
        ("the crossover is an N", "n / d + 1, 2"),
        ("six trips instead of four", "(6*n*n + 4*n*d) / (4*n*d), 2 * d / 3"),
        ("six trips instead of four", "1.5 * n / d + 1, d"),
        ("the two values are exchanged", "d, n / d + 1"),
        ("the factor is upside down", "d / (n + d), d"),
        ("whole division", "n // d + 1, d"),
    ],
)
def test_each_mistake_of_the_factor_is_recognised(mistake, expression):
    assert_recognised(written(REDUCTION, f"return {expression}"), mistake)


@pytest.mark.parametrize("answer", ["65, 128", "65", "None", "0, 0", "n, d", "65, 128, 1"])
def test_empty_answers_to_the_factor_fail(answer):
    """The published pair (65, 128) is right at one shape only."""
    found = report_for(written(REDUCTION, f"return {answer}"), seed=1)
    assert found.verdict is Verdict.INCORRECT


# --- 2.3 ----------------------------------------------------------------------------------------

REGIME = "regime(flops, n_bytes, launches, gpu)"
RIGHT = {
    "overhead": "launches * 5e-6",
    "traffic": "n_bytes / (gpu.hbm_gb_per_s * 1e9)",
    "arithmetic": "flops / (gpu.tflops_half * 1e12)",
    "answer": "max(t, key=t.get)",
}


def regime_with(**changes):
    parts = RIGHT | changes
    times = ", ".join(f"'{name}': {parts[name]}" for name in list(RIGHT)[:3])
    return written(REGIME, f"t = {{{times}}}\nreturn {parts['answer']}")


def test_the_unchanged_regime_of_these_tests_is_right():
    assert report_for(regime_with(), seed=5).passed


@pytest.mark.parametrize(
    ("mistake", "changes"),
    [
        ("overhead is missing", {"overhead": "0"}),
        ("one launch is counted, whatever there are", {"overhead": "5e-6"}),
        (
            "the gpu makes no difference",
            {"traffic": "n_bytes / 3350e9", "arithmetic": "flops / 989e12"},
        ),
        ("the smallest time is taken", {"answer": "min(t, key=t.get)"}),
        (
            "traffic and arithmetic are exchanged",
            {"traffic": RIGHT["arithmetic"], "arithmetic": RIGHT["traffic"]},
        ),
        (
            "the units do not match",
            {"traffic": "n_bytes / gpu.hbm_gb_per_s", "arithmetic": "flops / gpu.tflops_half"},
        ),
        ("the launch time is in microseconds", {"overhead": "launches * 5"}),
    ],
)
def test_each_mistake_of_the_regime_is_recognised(mistake, changes):
    assert_recognised(regime_with(**changes), mistake)


def test_a_ridge_comparison_without_overhead_is_recognised():
    """The usual roofline answer knows two regimes only."""
    body = (
        "ridge = gpu.tflops_half * 1e3 / gpu.hbm_gb_per_s\n"
        "return 'traffic' if flops / n_bytes < ridge else 'arithmetic'"
    )
    assert_recognised(written(REGIME, body), "overhead is missing")


@pytest.mark.parametrize(
    "answer", ["'overhead'", "'traffic'", "'arithmetic'", "None", "1", "'memory'", "{}", "['']"]
)
def test_constant_answers_to_regime_fail(answer):
    found = report_for(written(REGIME, f"return {answer}"), seed=1)
    assert found.verdict is Verdict.INCORRECT


def test_a_regime_with_other_parameters_gets_a_sentence():
    found = report_for(written("regime(flops, n_bytes)", "return 'traffic'"), seed=1)
    assert "regime(flops, n_bytes, launches, gpu)" in found.text()


def test_an_exception_inside_regime_is_the_students():
    found = report_for(written(REGIME, "return gpu['hbm']"), seed=1)
    assert found.verdict is Verdict.ERROR


# --- 2.4 ----------------------------------------------------------------------------------------

NO, YES = "does not hold", "holds"
CARDS = {
    "scores_gb": (17.18, NO),
    "flash_gb": (0.2684, YES),
    "factor": (65, NO),
    "flop_per_byte": (4096, NO),
}


def cards(**changes):
    return written("audit_cards()", f"return {CARDS | changes!r}")


def test_rounded_numbers_pass():
    assert report_for(cards()).passed


def test_numbers_rounded_as_the_cards_print_them_pass():
    assert report_for(cards(scores_gb=(17.2, NO), flash_gb=(0.27, YES))).passed


@pytest.mark.parametrize(
    ("mistake", "changes"),
    [
        (
            "the cards are copied",
            {
                "scores_gb": (17.6, YES),
                "flash_gb": (0.27, YES),
                "factor": (75, YES),
                "flop_per_byte": (128, YES),
            },
        ),
        ("every verdict is the same", {"flash_gb": (0.26844, NO)}),
        ("the verdict is generous", {name: (x, YES) for name, (x, _) in CARDS.items()}),
        ("scores_gb holds all of naive", {"scores_gb": (17.448, NO)}),
        ("the unit is GiB", {"scores_gb": (16, NO), "flash_gb": (0.25, NO)}),
        ("the factor leaves out Q, K, V, O", {"factor": (64, NO)}),
        ("the intensity is d", {"flop_per_byte": (128, YES)}),
        ("the intensity is per element", {"flop_per_byte": (8192, NO)}),
    ],
)
def test_each_wrong_audit_is_recognised(mistake, changes):
    changes = {"flash_gb": (0.26844, YES)} | changes
    assert_recognised(cards(**changes), mistake, seeds=[1])


@pytest.mark.parametrize(
    "answer",
    [
        "None",
        "{}",
        "65",
        f"{list(CARDS.values())!r}",
        repr(CARDS | {"factor": 65}),
        repr(CARDS | {"factor": ("65x", NO)}),
        repr(CARDS | {"factor": (65, "wrong")}),
        repr(CARDS | {"factor": (65, False)}),
        repr(dict.fromkeys(CARDS, (0, NO))),
    ],
)
def test_empty_answers_to_the_audit_fail(answer):
    found = report_for(written("audit_cards()", f"return {answer}"), seed=1)
    assert found.verdict is Verdict.INCORRECT
