"""Lesson 02's checks: solutions pass, and every mistake the lesson names is recognised by name."""

from __future__ import annotations

import pytest
from helpers import solutions, stubs

from course_lib.checking import report_for
from course_lib.judging.asked_again import THE_SAME
from course_lib.judging.report import Verdict
from course_lib.specs import of_lesson

NAMES = [exercise.function for exercise in of_lesson(2)]
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


# --- 2.1 ----------------------------------------------------------------------------------------

LEAST = "least_bytes(n_q, n_k, d, heads, kv_heads, itemsize)"


@pytest.mark.parametrize("answer", ["0", "None", "(1, 2)", "67108864", "'67 MB'", "n_q"])
def test_empty_answers_to_least_bytes_fail(answer):
    found = report_for(written(LEAST, f"return {answer}"), seed=1)
    assert found.verdict is Verdict.INCORRECT


# --- 2.2 ----------------------------------------------------------------------------------------

REDUCTION = "reduction_and_crossover(n, d)"


@pytest.mark.parametrize("answer", ["65, 128", "65", "None", "0, 0", "n, d", "65, 128, 1"])
def test_empty_answers_to_the_factor_fail(answer):
    """The published pair (65, 128) is right at one shape only."""
    found = report_for(written(REDUCTION, f"return {answer}"), seed=1)
    assert found.verdict is Verdict.INCORRECT


# --- 2.3 ----------------------------------------------------------------------------------------

REGIME = "regime(flops, n_bytes, launches, gpu)"


@pytest.mark.parametrize(
    "answer", ["'overhead'", "'traffic'", "'arithmetic'", "None", "1", "'memory'", "{}", "['']"]
)
def test_constant_answers_to_regime_fail(answer):
    found = report_for(written(REGIME, f"return {answer}"), seed=1)
    assert found.verdict is Verdict.INCORRECT


def test_a_regime_with_other_parameters_gets_a_sentence():
    found = report_for(written("regime(flops, n_bytes)", "return 'traffic'"), seed=1)
    assert "regime(flops, n_bytes, launches, gpu)" in found.text()


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


def test_numbers_rounded_to_three_digits_pass():
    three = cards(scores_gb=(17.2, NO), flash_gb=(0.268, YES), flop_per_byte=(4.1e3, NO))
    assert report_for(three).passed


@pytest.mark.parametrize(
    "changes", [{"flash_gb": (0.27, YES)}, {"scores_gb": (17.25, NO)}, {"factor": (65.2, NO)}]
)
def test_a_number_whose_third_digit_is_another_is_told_how_many_are_asked(changes):
    found = report_for(cards(**changes))
    assert found.failed_property == "the number"
    assert "at least three digits" in found.text()


def test_cards_that_change_with_the_second_call_are_incorrect():
    asked = []

    def audit_cards():
        asked.append(1)
        return CARDS | {"factor": (65 * len(asked), NO)}

    assert report_for(audit_cards).failed_property == THE_SAME


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
        ("one head instead of 32", {"scores_gb": (0.53687, NO)}),
        ("one head instead of 32", {"scores_gb": (0.53687, NO), "flash_gb": (0.0083886, NO)}),
        ("the FLOPs of 32 heads over the bytes of one", {"flop_per_byte": (131072, NO)}),
        ("the factor leaves out Q, K, V, O", {"factor": (64, NO)}),
        ("one head meets 32", {"factor": (2080, NO)}),
        ("one head meets 32", {"factor": (2.03125, NO)}),
        ("the intensity is d", {"flop_per_byte": (128, YES)}),
        ("the intensity is per element", {"flop_per_byte": (8192, NO)}),
    ],
)
def test_each_wrong_audit_is_recognised(mistake, changes):
    changes = {"flash_gb": (0.26844, YES)} | changes
    found = report_for(cards(**changes))
    assert found.verdict is Verdict.INCORRECT
    assert found.misconception == mistake, found.text()


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
