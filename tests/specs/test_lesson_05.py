"""Lesson 05's checks: every mistake the lesson names is recognised by name."""

from __future__ import annotations

import numpy as np
import pytest

import course_lib  # noqa: F401  (before triton: it chooses the mode)

pytest.importorskip("triton")

from helpers import changed, renamed, report_on, solutions, words_of

from course_lib.judging.report import Verdict
from course_lib.judging.spec import Observed
from course_lib.judging.tolerance import same
from course_lib.specs import of_lesson

SPECS = {exercise.function: exercise for exercise in of_lesson(5)}
KERNELS = [name for name, spec in SPECS.items() if spec.kind == "kernel"]


@pytest.mark.parametrize("name", KERNELS)
def test_none_a_wrong_shape_the_input_and_plain_torch_fail(name):
    def no_kernel(x, *args, **kwargs):
        if name == "vector_add":
            return x + args[0]
        if name == "allowed_scores":
            kept = x.masked_fill(x > kwargs["limit"], float("-inf"))
            return kept, kept.amax(1)
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
        answer = spec.truth(*case.args, **case.kwargs)
        truth = answer[0] if isinstance(answer, tuple) else answer
        mean = truth[np.isfinite(truth)].mean()
        for null in (np.zeros_like(truth), np.full_like(truth, mean)):
            tensor = case.args[0].new_tensor(null)
            if isinstance(answer, tuple):  # the rest is right
                tensor = (tensor, *map(case.args[0].new_tensor, answer[1:]))
            alike = name == "long_logsumexp" or case.args[0].shape[-1] == 1
            if alike and same(null, truth) and null.any():
                continue  # rows of the same kind: their log-sum-exps lie near their mean
            assert spec.judge(case, Observed(tensor), answer), case.name


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
    ("file", "words"),
    [
        ("5.2/wrong/every_program_on_the_first_block", ["Do all programs work on the first"]),
        ("5.2/wrong/program_taken_for_a_thread", ["a program is not a thread"]),
        ("5.2/wrong/programs_rounded_down", ["rounded up"]),
        ("5.2/wrong/mask_one_too_few", ["The last offset is n - 1"]),
        ("5.2/wrong/store_without_mask", ["Store to `out`", "past its end", "(4, 0, 0)"]),
        ("5.2/wrong/load_without_mask", ["Load from `x`"]),
        ("5.2/wrong/mask_one_too_many", ["1 address"]),
        ("5.5/wrong/load_without_mask", ["Load from `x`", "past its end"]),
        ("5.5/wrong/no_other", ["it may be a score that is allowed"]),
        ("5.5/wrong/one_program", ["a tile of rows has"]),
        ("5.3/wrong/row_as_long_as_its_stride", ["wider table", "between its rows"]),
    ],
)
def test_the_report_says_where_and_why(file, words):
    """Beyond the property and the mistake's name, which test_submissions.py asks for."""
    text = words_of(report_on(file))
    for word in words:
        assert word in text


def test_entries_that_were_never_written_are_counted():
    found = changed(5, "vector_add", ("total, mask=mask", "total, mask=mask & (offsets < 0)"))
    assert found.failed_property == "writes every entry"
    assert "64 of 64 entries" in words_of(found)


def test_an_endless_loop_ends_with_a_sentence(monkeypatch):
    from dataclasses import replace

    from course_lib import checking as check

    short = replace(SPECS["long_logsumexp"], seconds=1.0)
    monkeypatch.setattr(check, "find", lambda _name: short)
    found = changed(
        5,
        "long_logsumexp",
        ("for start in range(0, n_cols, BLOCK):", "start = 0\n    while start < n_cols:"),
    )
    assert found.failed_property == "comes to an end"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("row_softmax", (', other=float("-inf")', "")),
        ("long_logsumexp", ('mask=inside, other=float("-inf")', "mask=inside")),
    ],
)
def test_places_without_a_score_are_to_be_minus_infinity(name, change):
    words = words_of(changed(5, name, change))
    assert 'Next: write other=float("-inf") into each such load.' in words


def test_a_launcher_that_starts_too_few_programs_is_told_so():
    found = words_of(changed(5, "vector_add", ("triton.cdiv(n, block)", "triton.cdiv(n, 64)")))
    assert "Only 1 program of 16 numbers was started: the launcher's number of programs" in found
    assert "first block?" not in found
