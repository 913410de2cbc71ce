"""Lesson 10's kernels: the truth is the course's decode.

Right and wrong submissions are in ``tests/submissions/10.4`` to ``10.7``.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import report_on, solutions, words_of

from course_lib.checking import report_for
from course_lib.judging import decode_judge
from course_lib.judging.report import Verdict
from course_lib.judging.spec import Case
from course_lib.judging.tolerance import as_float64
from course_lib.kernels.decode import flash_decode
from course_lib.specs import find
from course_lib.specs.lesson_10 import merge_splits

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ALL = ["packed_decode", "decode_splits", "merge_splits", "ragged_decode"]


# The truths -------------------------------------------------------------------------------------


def drawn(*, group=3, n=70, d=16, batch=3, kv_heads=2):
    shapes = (group * kv_heads, d), (kv_heads, n, d), (kv_heads, n, d)
    return [torch.randn(batch, *shape).to(DEVICE) for shape in shapes]


def test_merged_parts_are_what_the_courses_own_kernel_computes():
    torch.manual_seed(3)
    q, k, v = drawn()
    lengths = torch.tensor([70, 0, 33], dtype=torch.int32, device=DEVICE)
    parts = decode_judge.TRUTH(q, k, v, lengths, splits=4, block_k=16)
    found = find("10.6").truth(*parts)
    expected = flash_decode(q[:, :, None], k, v, lengths)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, as_float64(other.squeeze(2)), atol=1e-5)
    whole = decode_judge.TRUTH(q, k, v)
    for one, other in zip(whole, flash_decode(q[:, :, None], k, v), strict=True):
        np.testing.assert_allclose(one, as_float64(other.squeeze(2)), atol=1e-5)


@pytest.mark.parametrize(("n", "splits"), [(7, 5), (100, 3), (64, 64), (1, 4), (65, 2)])
def test_each_key_is_in_one_run(n, splits):
    runs = [decode_judge.Run(split, splits, n, n, 16).keys for split in range(splits)]
    assert np.concatenate(runs).tolist() == list(range(n))
    assert max(map(len, runs)) == -(-n // splits)


def test_the_solutions_together_decode_a_ragged_batch():
    q, k, v = drawn(group=8, n=100)
    lengths = torch.tensor([100, 0, 41], dtype=torch.int32, device=DEVICE)
    theirs = solutions(10)
    o, lse = theirs.merge_splits(*theirs.ragged_decode(q, k, v, lengths, 3, block_k=32))
    expected = flash_decode(q[:, :, None], k, v, lengths)
    torch.testing.assert_close(o, expected[0].squeeze(2))
    torch.testing.assert_close(lse, expected[1].squeeze(2))


# What is asked ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_a_mistake_shows_in_a_case(name):
    """A model that is right everywhere, or runs nowhere, could never be anybody's mistake."""
    exercise = next(e for e in map(find, ("10.4", "10.5", "10.6", "10.7")) if e.function == name)
    cases = exercise.cases(np.random.default_rng(1))
    shared = {*decode_judge.OF_THE_LOOP, *merge_splits.OF_THE_LOOP}
    for mistake in exercise.mistakes:
        if mistake not in shared:
            assert any(_shows(mistake, exercise, case) for case in cases), mistake.name


def test_each_shared_mistake_of_the_merge_shows_in_a_case():
    """By name: not every way to make it shows both in one tile and in one after the other."""
    exercise = find("10.6")
    cases = exercise.cases(np.random.default_rng(1))
    shown = {
        mistake.name
        for mistake in merge_splits.OF_THE_LOOP
        if any(_shows(mistake, exercise, case) for case in cases)
    }
    assert shown == {mistake.name for mistake in merge_splits.OF_THE_LOOP}


def _shows(mistake, exercise, case: Case) -> bool:
    wrong = mistake.model(*case.args, **case.kwargs)
    right = exercise.truth(*case.args, **case.kwargs)
    return any(
        not np.allclose(as_float64(a), b, atol=1e-2) for a, b in zip(wrong, right, strict=True)
    )


NULLS = {
    "zeros": lambda q, v: torch.zeros_like(q),
    "the input": lambda q, v: q.clone(),
    "mean of V": lambda q, v: v.mean(2).repeat_interleave(q.shape[1] // v.shape[1], 1),
}


@pytest.mark.parametrize("null", NULLS)
@pytest.mark.usefixtures("unnamed")
def test_null_models_fail(null):
    def packed_decode(q, k, v, *, block_k=64):
        return NULLS[null](q, v), torch.zeros(q.shape[:2])

    def decode_splits(q, k, v, splits, *, block_k=64):
        o = NULLS[null](q, v).float()
        return o.expand(splits, *o.shape).clone(), torch.zeros(splits, *q.shape[:2])

    def ragged_decode(q, k, v, lengths, splits, *, block_k=64):
        return decode_splits(q, k, v, splits)

    def merge_splits(o_parts, lse_parts):
        return o_parts[0].clone(), lse_parts[0].clone()

    for launcher in (packed_decode, decode_splits, ragged_decode, merge_splits):
        assert report_for(launcher, seed=1).verdict is Verdict.INCORRECT


def test_the_courses_own_kernel_is_refused():
    def packed_decode(q, k, v, *, block_k=64):
        o, lse = flash_decode(q[:, :, None], k, v)
        return o[:, :, 0].contiguous(), lse[:, :, 0].contiguous()

    report = report_for(packed_decode, seed=1)
    assert report.failed_property == "is your own kernel", report.text()


def test_an_idle_row_that_is_stored_is_named_with_its_tensor():
    assert "`o`" in report_on("10.4/wrong/idle_rows_stored").text()


def test_merge_weighs_no_garbage():
    """An empty part's o may hold anything: the truth says so, and a case draws it."""
    cases = merge_splits.EXERCISE.cases(np.random.default_rng(1))
    filled = [case for case in cases if (case.args[0][case.args[1].isneginf()] != 0).any()]
    assert filled


@pytest.mark.parametrize(
    "name", ["10.5/wrong/neighbours_loaded", "10.7/wrong/padding_loaded_and_cleaned"]
)
def test_who_loads_too_much_of_the_tiles_he_must_load_is_sent_to_the_mask(name):
    assert "look at the mask of that load first" in words_of(report_on(name))
