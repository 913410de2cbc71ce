"""Lesson 05's checks: solutions pass, and every mistake the lesson names is recognised by name."""

from __future__ import annotations

import numpy as np
import pytest

import course_lib  # noqa: F401  (before triton: it chooses the mode)

pytest.importorskip("triton")

from grading.helpers import code, module_from, solutions, stubs

from course_lib.grading.check import report_for
from course_lib.grading.report import Verdict
from course_lib.grading.spec import Observed
from course_lib.grading.specs.lesson_05 import EXERCISES
from course_lib.grading.tolerance import same

SPECS = {exercise.function: exercise for exercise in EXERCISES}
KERNELS = [name for name, spec in SPECS.items() if spec.kind == "kernel"]


def renamed(function, name):
    function.__name__ = name
    return report_for(function, seed=7)


def words_of(report):
    """Return the report's text on one line."""
    return " ".join(report.text().split())


def changed(name, *changes, seed=3):
    """Return the report on the solution in which each (old, new) text was replaced."""
    source = code(5)
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    return report_for(getattr(module_from(source), name), seed=seed)


@pytest.fixture
def uncompiled(monkeypatch):
    """Leave out the compile check, where a test is about something else."""
    from course_lib.accounting import compile_check

    compiles = compile_check.CompileReport(True, "sm_80")
    monkeypatch.setattr(compile_check, "compile_for", lambda *args, **kwargs: compiles)


@pytest.mark.parametrize("name", SPECS)
def test_the_solution_passes(name):
    found = report_for(getattr(solutions(5), name), seed=1)
    assert found.passed, found.text()


@pytest.mark.parametrize("name", SPECS)
def test_the_stub_is_not_attempted(name):
    assert report_for(getattr(stubs(5), name), seed=1).verdict is Verdict.NOT_ATTEMPTED


@pytest.mark.parametrize("name", KERNELS)
def test_none_a_wrong_shape_the_input_and_plain_torch_fail(name):
    def no_kernel(x, *args, **kwargs):
        if name == "vector_add":
            return x + args[0]
        return x.softmax(1) if name == "row_softmax" else x.logsumexp(1)

    for answer in (
        lambda *args, **kwargs: None,
        lambda x, *args, **kwargs: x[:1],
        lambda x, *args, **kwargs: x,
        no_kernel,
    ):
        assert renamed(answer, name).verdict is Verdict.INCORRECT
    assert "no Triton kernel" in renamed(no_kernel, name).text()


@pytest.mark.parametrize("name", KERNELS)
def test_zeros_the_mean_and_the_input_fail_every_single_case(name):
    spec = SPECS[name]
    for case in spec.cases(np.random.default_rng(5)):
        truth = spec.truth(*case.args, **case.kwargs)
        for null in (np.zeros_like(truth), np.full_like(truth, truth.mean())):
            tensor = case.args[0].new_tensor(null)
            if name == "long_logsumexp" and same(null, truth) and null.any():
                continue  # rows of the same kind: their log-sum-exps lie near their mean
            assert spec.judge(case, Observed(tensor), truth), case.name


# --- 5.1 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        ((2, 2, 1), "a program is taken for a thread"),
        ((2, 47, 14), "programs are dealt out like cards"),
        ((16, 31, 16), "programs are counted from 1"),
        ((32, 43, 12), "the mask is taken for a shorter block"),
        ((32, 47, 16), "the mask is forgotten"),
        ((32, 48, 12), "the end is counted in"),
        ((1, 2, 3), ""),
        ((32, 47), ""),
        (None, ""),
        ("32, 47, 12", ""),
    ],
)
def test_wrong_offsets_are_recognised(answer, mistake):
    found = renamed(lambda: answer, "offsets_of_program_2")
    assert found.verdict is Verdict.INCORRECT
    assert found.misconception == mistake


def test_the_offsets_are_those_that_a_kernel_really_visits():
    """The answer of 5.1 against the ledger: program 2 of 3 touches elements 32 to 43 of 44."""
    import torch

    from course_lib.accounting.kernel_ledger import KernelLedger

    x = torch.arange(44.0)
    with KernelLedger() as ledger:
        solutions(5).vector_add(x, x, block=16)
    rows = [visit.rows for visit in ledger.visits if visit.program == (2, 0, 0)]
    first, last, passed = SPECS["offsets_of_program_2"].truth()
    assert set(rows) == {(first, first + passed)}
    assert last == first + 16 - 1


# --- 5.2 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "old", "new"),
    [
        ("Do all programs work on the first block?", "tl.program_id(0) * BLOCK + tl", "tl"),
        ("a program is not a thread", "tl.program_id(0) * BLOCK + tl", "tl.program_id(0) + tl"),
        ("rounded up", "triton.cdiv(n, block)", "max(1, n // block)"),
        ("The last offset is n - 1", "mask = offsets < n ", "mask = offsets < n - 1 "),
        ("64 of 64 entries", "total, mask=mask", "total, mask=mask & (offsets < 0)"),
    ],
)
def test_entries_that_were_never_written_are_explained(words, old, new):
    found = changed("vector_add", (old, new))
    assert found.failed_property == "writes every entry"
    assert words in words_of(found)


def test_adding_x_to_itself_is_recognised():
    found = changed("vector_add", ("tl.load(y + offsets", "tl.load(x + offsets"))
    assert found.misconception == "x is added to itself"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("total, mask=mask", "total", ["Store to `out`", "past its end", "program (4, 0, 0)"]),
        ("tl.load(x + offsets, mask=mask)", "tl.load(x + offsets)", ["Load from `x`"]),
        ("mask = offsets < n ", "mask = offsets <= n ", ["1 address"]),
        ("triton.cdiv(n, block)", "2 * triton.cdiv(n, block) // 2", []),
    ],
)
def test_an_access_outside_is_caught_and_named(uncompiled, old, new, words):
    found = changed("vector_add", (old, new))
    assert found.verdict is (Verdict.INCORRECT if words else Verdict.PASSED)
    for word in words:
        assert word in words_of(found)


def test_work_done_twice_is_seen_in_the_ledger():
    """Every program adds its block twice: the answer is right, the bytes are not."""
    line = "tl.store(out + offsets, total, mask=mask)"
    found = changed("vector_add", (line, f"{line}\n    {line}"))
    assert found.failed_property == "loads each number once"


# --- 5.3 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mistake", "changes"),
    [
        ("masked means score zero", [("mask=mask, other=float(\"-inf\"))", "mask=mask)")]),
        ("masked means score zero", [("mask=mask, other=float(\"-inf\")", "mask=mask, other=0.0")]),
        (
            "masked means score zero",
            [("mask=mask, other=float(\"-inf\")", "mask=mask, other=0.0"),
             ("tl.sum(p, 0), mask", "tl.sum(tl.where(mask, p, 0.0), 0), mask")],
        ),
        ("no maximum is subtracted", [("tl.exp(s - tl.max(s, 0))", "tl.exp(s)")]),
        ("not divided by the sum", [("p / tl.sum(p, 0)", "p")]),
        ("every program works on the first row", [("row * x_row + cols, ma", "cols, ma")]),
    ],
)  # fmt: skip
def test_softmax_mistakes_are_recognised(mistake, changes):
    found = changed("row_softmax", *changes)
    assert found.misconception == mistake, found.text()


def test_rows_are_found_by_their_stride_not_by_their_length():
    found = changed(
        "row_softmax", ("row * x_row + cols, mask=mask", "row * n_cols + cols, mask=mask")
    )
    assert "wider table" in words_of(found)
    assert "between its rows" in words_of(found)


# --- 5.4 ----------------------------------------------------------------------------------------

RESCALE = "l_sum * alpha + tl.sum"
OTHER = 'mask=inside, other=float("-inf")'


@pytest.mark.parametrize(
    ("mistake", "changes"),
    [
        ("l_sum is not rescaled", [(RESCALE, "l_sum + tl.sum")]),
        ("alpha is inverted", [("tl.exp(m - m_new)", "tl.exp(m_new - m)")]),
        ("alpha is inverted", [
            ("tl.exp(m - m_new)", "tl.where(m == float('-inf'), 1.0, tl.exp(m_new - m))")]),
        ("each block uses its own maximum", [("tl.exp(s - m_new)", "tl.exp(s - tl.max(s, 0))")]),
        ("m forgets the earlier blocks", [("tl.maximum(m, tl.max(s, 0))", "tl.max(s, 0)")]),
        ("no maximum is subtracted", [("tl.maximum(m, tl.max(s, 0))", "tl.max(s, 0) * 0.0"),
                                      ('m = float("-inf")', "m = 0.0")]),
        ("the maximum starts at 0", [('m = float("-inf")', "m = 0.0")]),
        ("masked means score zero", [(OTHER, "mask=inside, other=0.0")]),
        ("the short last block is left out", [("n_cols, BLOCK)", "n_cols - BLOCK + 1, BLOCK)")]),
        ("the logarithm is missing", [("m + tl.log(l_sum)", "m + l_sum")]),
        ("the maximum is missing", [("m + tl.log(l_sum)", "tl.log(l_sum)")]),
        ("the logarithm has base 2", [("tl.log(l_sum)", "tl.log2(l_sum)")]),
    ],
)  # fmt: skip
def test_streaming_mistakes_are_recognised(mistake, changes):
    found = changed("long_logsumexp", *changes)
    assert found.verdict is Verdict.INCORRECT
    assert found.misconception == mistake, found.text()


def test_m_as_one_value_per_lane_is_right_too(uncompiled):
    """Another right way: a whole block of maxima and sums, merged after the loop."""
    found = changed(
        "long_logsumexp",
        ('m = float("-inf")', "m = tl.full((BLOCK,), -1e30, tl.float32)"),
        ("l_sum = 0.0", "l_sum = tl.zeros((BLOCK,), tl.float32)"),
        ("tl.maximum(m, tl.max(s, 0))", "tl.maximum(m, s)"),
        ("tl.sum(tl.exp(s - m_new), 0)", "tl.exp(s - m_new)"),
        ("m + tl.log(l_sum)", "tl.max(m, 0) + tl.log(tl.sum(l_sum * tl.exp(m - tl.max(m, 0)), 0))"),
    )
    assert found.passed, found.text()


def test_a_whole_number_as_start_is_right_here_and_not_on_a_gpu():
    found = changed("long_logsumexp", ("l_sum = 0.0", "l_sum = 0"))
    assert found.verdict is Verdict.NOT_ON_A_GPU
    assert "l_sum" in found.text()


def test_an_endless_loop_ends_with_a_sentence(monkeypatch):
    from dataclasses import replace

    from course_lib.grading import check

    short = replace(SPECS["long_logsumexp"], seconds=1.0)
    monkeypatch.setattr(check, "find", lambda _name: short)
    found = changed(
        "long_logsumexp",
        ("for start in range(0, n_cols, BLOCK):", "start = 0\n    while start < n_cols:"),
    )
    assert found.failed_property == "comes to an end"
