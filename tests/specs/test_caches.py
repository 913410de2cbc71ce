"""Lesson 10, what is done with a cache: solutions, stubs, nulls; truths against the reference.

Wrong submissions of all kinds, and right ones of other styles, are in ``tests/submissions/10.*``.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from helpers import solutions, stubs

from course_lib.accounting.decode_traffic import decode_intensity
from course_lib.accounting.eager_ledger import EagerLedger
from course_lib.attention.decode import decode, merge_parts, split_decode
from course_lib.checking import report_for
from course_lib.judging.report import Verdict
from course_lib.judging.tolerance import as_float64
from course_lib.specs import find

ALL = ["attention_intensity", "append_token", "split_decode", "tree_decode"]


@pytest.mark.parametrize("name", ALL)
def test_the_solution_passes(name):
    report = report_for(getattr(solutions(10), name), seed=1)
    assert report.passed, report.text()


@pytest.mark.parametrize("name", ALL)
def test_the_stub_is_not_attempted(name):
    report = report_for(getattr(stubs(10), name), seed=1)
    assert report.verdict is Verdict.NOT_ATTEMPTED, report.text()


# Truths -----------------------------------------------------------------------------------------


def cases_of(id):
    exercise = find(id)
    return [(case, exercise.truth(*case.args, **case.kwargs)) for case in drawn(exercise)]


def drawn(exercise):
    return exercise.cases(np.random.default_rng(2))


@pytest.mark.parametrize("id", ["10.1"])
def test_intensity_is_that_of_the_model(id):
    for case, truth in cases_of(id):
        (n_q, n_k), how = case.args, dict(case.kwargs)
        shape = {"n": n_k, "n_q": n_q, "d": how.pop("head_dim"), "b": how.pop("b")}
        shared = how.pop("shared_prefix", 0)
        if n_q <= n_k - shared:
            wanted = decode_intensity(**shape, shared=shared, **how)
            assert truth == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("id", ["10.2"])
def test_the_newest_token_s_answer_and_the_caches_are_the_reference_s(id):
    for case, (o, k, v) in cases_of(id):
        q, k_new, v_new, k_before, v_before, lengths = (as_float64(x) for x in case.args)
        lengths = lengths.astype(int)
        for after, before, new in ((k, k_before, k_new), (v, v_before, v_new)):
            for b, n in enumerate(lengths):
                np.testing.assert_array_equal(after[b, :, n], new[b, :, 0])
                others = np.arange(after.shape[2]) != n
                np.testing.assert_array_equal(after[b][:, others], before[b][:, others])
        np.testing.assert_allclose(o, decode(q, k, v, lengths + 1)[0], atol=1e-9)


@pytest.mark.parametrize("id", ["10.3"])
def test_the_parts_and_their_merge_are_the_reference_s(id):
    for case, (o_parts, lse_parts, o, lse) in cases_of(id):
        q, k, v = (as_float64(x) for x in case.args[:3])
        parts = split_decode(q, k, v, splits=case.args[3])
        for ours, theirs in zip(
            (o_parts, lse_parts, o, lse), (*parts, *merge_parts(*parts)), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, atol=1e-9)


@pytest.mark.parametrize("id", ["10-star"])
def test_a_tree_is_the_reference_s_and_a_draft_gets_what_its_line_alone_gets(id):
    for case, o in cases_of(id):
        q, k, v = (as_float64(x) for x in case.args[:3])
        parents = case.args[3].tolist()
        np.testing.assert_allclose(o, decode(q, k, v, parents=parents)[0], atol=1e-9)
        cached, last = k.shape[2] - len(parents), len(parents) - 1
        line = [last]
        while parents[line[0]] >= 0:
            line.insert(0, parents[line[0]])
        keys = [*range(cached), *(cached + i for i in line)]
        alone, _ = decode(q[:, :, last:], k[:, :, keys], v[:, :, keys])
        np.testing.assert_allclose(o[:, :, last:], alone, atol=1e-9)


# Counts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["split_decode", "tree_decode"])
def test_the_solution_reads_k_and_v_once_and_makes_nothing_as_large(name):
    counted = next(case for case in drawn(find(name)) if case.counted)
    q, k, v, rest = counted.args
    with EagerLedger(q=q, k=k, v=v) as ledger:
        getattr(solutions(10), name)(q, k, v, rest)
    assert (ledger.read["k"], ledger.read["v"]) == (k.nbytes, v.nbytes)
    made = sum(n for tensor, n in ledger.written.items() if tensor not in "qkv")
    assert made < k.nbytes / 2


@pytest.mark.parametrize("id", ["10.2"])
def test_the_solution_writes_two_rows_a_sequence(id):
    counted = next(case for case in drawn(find(id)) if case.counted)
    q, k_new, v_new, k, v, lengths = counted.args
    with EagerLedger(k=k, v=v) as ledger:
        solutions(10).append_token(q, k_new, v_new, k, v, lengths)
    assert (ledger.written["k"], ledger.written["v"]) == (k_new.nbytes, v_new.nbytes)


# Nulls ------------------------------------------------------------------------------------------


def append_nothing(q, k_new, v_new, k_cache, v_cache, lengths):
    return v_new.clone()


def append_only(q, k_new, v_new, k_cache, v_cache, lengths):
    k_cache[torch.arange(len(q)), :, lengths] = k_new[:, :, 0]
    v_cache[torch.arange(len(q)), :, lengths] = v_new[:, :, 0]
    return torch.zeros_like(q)


def never_split(q, k, v, splits):
    """Return the right o and lse, and parts of which the first has seen everything."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1).double() for x in (k, v))
    s = q.double() @ k.mT / math.sqrt(q.shape[-1])
    s = s + torch.full((n_q, n_k), -math.inf).triu(n_k - n_q + 1)
    o, lse = (x.to(q.dtype) for x in (torch.softmax(s, -1) @ v, torch.logsumexp(s, -1)))
    o_parts = torch.stack([o, *[torch.zeros_like(o)] * (splits - 1)])
    lse_parts = torch.stack([lse, *[torch.full_like(lse, -math.inf)] * (splits - 1)])
    return o_parts, lse_parts, o, lse


def zeros(q, k, v, splits):
    return (
        q.new_zeros(splits, *q.shape), q.new_zeros(splits, *q.shape[:-1]),
        q.new_zeros(q.shape), q.new_zeros(q.shape[:-1]),
    )  # fmt: skip


def only_the_cache(q, k, v, parents):
    return v[:, :, :1].expand_as(q).clone()


@pytest.mark.parametrize(
    ("name", "null"),
    [
        ("append_token", append_nothing),
        ("append_token", append_only),
        ("split_decode", never_split),
        ("split_decode", zeros),
        ("tree_decode", only_the_cache),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_null_models_fail(name, null):
    namesake = type(null)(null.__code__, null.__globals__, name)
    assert report_for(namesake, seed=1).verdict is Verdict.INCORRECT


@pytest.mark.parametrize("id", ["10.2"])
def test_a_signature_of_ones_own_is_said_to_be_that(id):
    def append_token(q, k, v):
        return q

    report = report_for(append_token, seed=1)
    assert report.verdict is Verdict.INCORRECT
    assert "missing" in report.text() or "positional" in report.text()
