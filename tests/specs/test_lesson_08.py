"""Lesson 08: masks on whole tiles are found by counting.

Wrong submissions of all kinds, and right ones of other styles, are in ``tests/submissions/8.*``.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from corpus import corpus
from drawn import swept
from helpers import (
    function_of,
    report_on,
    says,
    solutions,
    words_of,
)

from course_lib.accounting.kernel_ledger import KernelLedger
from course_lib.accounting.traffic import derived_counts
from course_lib.checking import report_for
from course_lib.judging.report import Verdict
from course_lib.kernels.ladder import Tiles, edge_masks, skip_tiles
from course_lib.specs import find
from course_lib.specs.lesson_08 import split, tiles

# 8.1 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_drawn_the_rule_has_one_answer_and_it_is_not_the_largest_tile(seed):
    for case in find("8.1").cases(np.random.default_rng(seed)):
        (rows,) = case.args
        (best,) = tiles._best(rows)
        assert best["fits"]
        assert best["stack_bytes"] == 0
        assert tiles._choice(best) == solutions(8).choose_tiles(rows)
        assert tiles._choice(best) != tiles._choice(max(rows, key=tiles._area))


DRAWS = swept(range(1, 7), [1])
SLOW_DRAWS = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(7, 41)]


# true of a submission as well: some draws do not tell the two apart
TRUE_AS_WELL = {"most_tensor_cores": "the most tensor-core instructions"}


@pytest.mark.parametrize("seed", [*DRAWS, *SLOW_DRAWS])
def test_whatever_is_drawn_each_known_mistake_fails_under_its_own_name(seed):
    """The models of the spec and the submissions of the corpus; and the right ones pass."""
    for mistake in find("8.1").mistakes:
        assert named(mistake.model, seed) == mistake.name
    for sample, function in samples_of_8_1("wrong"):
        report = report_for(function, seed=seed)
        what, name = sample.expected
        if says(report, "misconception") == TRUE_AS_WELL.get(sample.name, "no other"):
            continue
        assert (says(report, what), report.passed) == (name, False), (sample.id, report.text())
    for function in (solutions(8).choose_tiles, *(f for _, f in samples_of_8_1("right"))):
        report = report_for(function, seed=seed)
        assert report.passed, report.text()


def named(model, seed):
    """Return the name that the check gives to somebody who makes this mistake."""

    def choose_tiles(rows):
        return model(rows)

    return report_for(choose_tiles, seed=seed).misconception


@cache
def samples_of_8_1(kind):
    return [(sample, function_of(sample)) for sample in corpus(kind, "8.1")]


@pytest.mark.parametrize("area", [("num_stages",), ("block_q", "num_stages"), ()])
@pytest.mark.few(1)
def test_the_largest_area_is_recognised_however_ties_are_broken(area):
    def model(rows):
        left = tiles._best(rows, skip=(4, 5))
        tie = lambda r: [r["block_q"] * r["block_k"], *(r[name] for name in area)]  # noqa: E731
        return tiles._choice(max(left, key=tie))

    assert {named(model, seed) for seed in range(1, 30)} == {"area before query rows"}


def test_draws_differ():
    """A list of answers learnt by heart does not pass."""
    rng = np.random.default_rng(1)
    first = {str(find("8.1").cases(rng)[0].args) for _ in range(20)}
    assert len(first) > 15


def test_each_gpu_of_the_record_has_tiles_that_spill_and_tiles_that_do_not():
    for gpu in ("T4", "A100", "H100"):
        for head_dim in (64, 128):
            spilled = {row["stack_bytes"] > 0 for row in tiles._table(gpu, head_dim)}
            assert spilled == {True, False}


@pytest.mark.parametrize("answer", [None, (), "64", (64.5, 64, 4, 2), {"block_q": 64}])
def test_an_answer_of_another_form_gets_a_sentence(answer):
    def choose_tiles(rows):
        return answer

    assert report_for(choose_tiles, seed=1).verdict is Verdict.INCORRECT


# 8.2 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("off", "says"),
    [
        ((2, 0), "loaded: yours is 12 tiles; that is too many."),
        ((0, -1), "masked: yours is 3 tiles; that is too few."),
    ],
)
def test_a_wrong_count_says_which_it_is_and_on_which_side(off, says):
    right = find("8.2a").truth

    def causal_tiles(n, block_q, block_k):
        return tuple(a + b for a, b in zip(right(n, block_q, block_k), off, strict=True))

    report = report_for(causal_tiles, seed=1)
    assert (says in report.text(), report.misconception) == (True, "one number is added")


def test_four_by_four_tiles_load_five_eighths_and_many_tiles_one_half():
    """62.5 % at 4 x 4, towards one half; the masked share goes to nothing."""
    causal_tiles = solutions(8).causal_tiles
    assert causal_tiles(16, 4, 4) == (10, 4)
    loaded, masked = causal_tiles(4096 * 4, 4, 4)
    assert loaded / 4096**2 == pytest.approx(0.5, abs=2e-4)
    assert masked / loaded < 1e-3


@pytest.mark.parametrize(
    ("rung", "masked"), [(skip_tiles, "visited_tiles"), (edge_masks, "partial_tiles")]
)
def test_the_ledger_counts_comparisons_on_tiles_of_scores(rung, masked):
    """Rung 3 masks every tile, rung 4 those at the boundary; a mask compares and selects."""
    q, k, v = (torch.randn(1, 1, 256, 16) for _ in range(3))
    with KernelLedger() as ledger:
        rung(q, k, v, causal=True, tiles=Tiles(64, 32))
    on_tiles = sum(n for (_, shape), n in ledger.compared.items() if shape == (64, 32))
    assert on_tiles == 2 * derived_counts(256, 256, 64, 32, causal=True)[masked]
    assert KernelLedger.from_plain(ledger.to_plain()).compared == ledger.compared


def test_counted_cases_have_as_many_boundary_tiles_in_every_program_that_has_any():
    """What the judge of masks rests on; and it sees both kinds: with a boundary and without."""
    cases = [c for c in find("8.2b").cases(np.random.default_rng(1)) if c.counted]
    kinds = set()
    for case in cases:
        n_q, n_k = (x.shape[-2] for x in case.args[:2])
        tiles = case.kwargs["block_q"], case.kwargs["block_k"]
        partial = split._partial_tiles(n_q, n_k, *tiles, case.kwargs["causal"])
        counts = derived_counts(n_q, n_k, *tiles, causal=case.kwargs["causal"])
        assert sum(partial) == counts["partial_tiles"]
        assert len(set(partial) - {0}) <= 1
        assert case.args[0].shape[-1] not in tiles  # a mask's shape is not that of a load
        kinds.add(max(partial) > 0)
    assert kinds == {True, False}


def test_a_negative_boundary_is_looked_for_in_the_program_that_has_it():
    """Not in the last one; and it is no mask that lets row -16 through."""
    text = words_of(report_on("8.2b/wrong/not_clamped"))
    assert "in program (0, 0, 0): which of them are negative" in text
    assert "last" not in text.partition("Next: ")[2]


# Null models ------------------------------------------------------------------------------------

NULLS = {
    "zeros": lambda q, k, v: torch.zeros_like(q),
    "mean of V": lambda q, k, v: v.mean(-2, keepdim=True).expand_as(q).contiguous(),
    "the input": lambda q, k, v: q.clone(),
    "V": lambda q, k, v: v.clone() if v.shape == q.shape else torch.zeros_like(q),
}


@pytest.mark.parametrize("null", NULLS)
@pytest.mark.usefixtures("unnamed")
def test_null_models_fail(null):
    def split_attention(q, k, v, *, causal=False, block_q=64, block_k=64):
        return NULLS[null](q, k, v), torch.zeros(q.shape[:-1])

    assert report_for(split_attention, seed=1).verdict is Verdict.INCORRECT
