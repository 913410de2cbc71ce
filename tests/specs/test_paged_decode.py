"""11.3: the solution passes, the truth is the course's kernel over pages, every mistake shows.

Right and wrong submissions are in ``tests/submissions/11.3``.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import report_on, solutions, stubs

from course_lib.checking import report_for
from course_lib.judging.decode_judge import OF_THE_LOOP
from course_lib.judging.report import Verdict
from course_lib.judging.tolerance import as_float64
from course_lib.kernels.paged import paged_decode as courses_own
from course_lib.specs.lesson_11.paged_decode import EXERCISE, PAGED

CASES = EXERCISE.cases(np.random.default_rng(1))
# not every way to make those of the loop shows; the corpus has each once
OWN_MISTAKES = [one for one in EXERCISE.mistakes if one.name not in {o.name for o in OF_THE_LOOP}]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(scope="module")
def truths():
    return [PAGED(*case.args, **case.kwargs) for case in CASES]


def test_the_solution_passes():
    report = report_for(solutions(11).paged_decode, seed=1)
    assert report.passed, report.text()


def test_the_stub_is_not_attempted():
    report = report_for(stubs(11).paged_decode, seed=1)
    assert report.verdict is Verdict.NOT_ATTEMPTED, report.text()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.few(9)
def test_the_truth_is_what_the_courses_own_kernel_computes(case):
    expected = PAGED(*case.args, **case.kwargs)
    if np.abs(expected[1][np.isfinite(expected[1])]).max() > 1e4:
        return  # there a float32 score has no digits left of what counts
    found = courses_own(*(x.to(DEVICE) for x in case.args))
    close = {"atol": 2e-3 if case.args[0].dtype == torch.float16 else 1e-4, "rtol": 2e-3}
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(as_float64(one), other, **close)


def test_what_the_cases_vary():
    pools = [case.args[1] for case in CASES]
    assert {pool.shape[2] for pool in pools} >= {1, 3, 10, 16, 64}
    assert {pool.shape[1] for pool in pools} >= {1, 2, 3, 4}
    assert {case.args[3].dtype for case in CASES} == {torch.int32, torch.int64}
    assert {case.kwargs["block_k"] for case in CASES} == {16, 32, 64, 128}
    assert any(not pool.is_contiguous() for pool in pools)
    assert any(not case.args[3].is_contiguous() for case in CASES)
    assert any((case.args[4] == 0).any() for case in CASES)
    shared = [case.args[3][:, 0].unique().numel() < len(case.args[3]) for case in CASES]
    assert any(shared)


def test_what_is_nobodys_is_garbage():
    """Behind a sequence's pages the table names none that exists; behind its keys is no zero."""
    for case in CASES:
        _, _, v_pages, table, lengths = case.args
        size = v_pages.shape[2]
        for row, length in zip(table, lengths.tolist(), strict=True):
            used = -(-length // size)
            assert (row[:used] < len(v_pages)).all()
            assert len(row) > used
            assert (row[used:] >= len(v_pages)).all()
            if length % size:
                assert (v_pages[row[used - 1], :, length % size :] != 0).all()


@pytest.mark.parametrize("mistake", OWN_MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_shows_in_a_case(mistake, truths):
    """A model that is right everywhere, or runs nowhere, could never be anybody's mistake."""
    assert any(
        not np.allclose(as_float64(wrong), right, atol=1e-2)
        for case, truth in zip(CASES, truths, strict=True)
        for wrong, right in zip(mistake.model(*case.args, **case.kwargs), truth, strict=True)
    )


NULLS = {"zeros": torch.zeros_like, "the input": torch.clone}


@pytest.mark.parametrize("null", NULLS)
@pytest.mark.usefixtures("unnamed")
def test_null_models_fail(null):
    def paged_decode(q, k_pages, v_pages, table, lengths, *, block_k=64):
        return NULLS[null](q), torch.zeros(q.shape[:3])

    assert report_for(paged_decode, seed=1).verdict is Verdict.INCORRECT


def test_a_result_without_the_axis_of_the_query_is_told_its_shape():
    def paged_decode(q, k_pages, v_pages, table, lengths, *, block_k=64):
        return q[:, :, 0].clone(), torch.zeros(q.shape[:2])

    report = report_for(paged_decode, seed=1)
    assert report.failed_property == "the shape", report.text()


def test_the_courses_own_kernel_is_refused():
    def paged_decode(q, k_pages, v_pages, table, lengths, *, block_k=64):
        return courses_own(q, k_pages, v_pages, table, lengths)

    report = report_for(paged_decode, seed=1)
    assert report.failed_property == "is your own kernel", report.text()


def test_what_is_read_through_the_tables_garbage_is_named_with_its_tensor():
    assert "`k_pages`" in report_on("11.3/wrong/read_through").text()
    assert "`table`" in report_on("11.3/wrong/row_stride_of_a_whole_table").text()
