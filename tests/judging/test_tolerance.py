"""The standard of correctness: strict enough for mistakes, wide enough for rounding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.attention.truth import attention_float64
from course_lib.judging import cases
from course_lib.judging.attention_judge import attention_judge
from course_lib.judging.spec import Case, Observed
from course_lib.judging.tolerance import allowed_error, in_digits, same, wrong_places


def test_nan_is_wrong_whatever_is_allowed():
    assert wrong_places(np.array([np.nan]), np.array([1.0]), 1e9).all()
    assert wrong_places(np.array([np.nan]), np.array([np.nan]), 1e9).all()


def test_infinity_must_agree_exactly():
    truth = np.array([-np.inf, -np.inf, -np.inf, 0.0])
    got = np.array([-np.inf, np.inf, -1e30, -np.inf])
    assert wrong_places(got, truth, 1.0).tolist() == [False, True, True, True]


def test_the_allowance_is_twice_the_eager_error_and_a_little():
    truth, eager = np.array([1.0, 2.0]), np.array([1.0, 2.25])
    assert allowed_error(truth, eager, "float32") == 0.5 + 1e-5
    assert allowed_error(truth, eager, "float16") == 0.5 + 2 * 2.0**-11 * 2


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8), st.floats(1e-9, 1e3))
@settings(deadline=None, max_examples=50)
def test_an_answer_off_by_more_than_allowed_is_wrong_everywhere(values, allowed):
    truth = np.array(values)
    off = truth + 4 * max(allowed, np.abs(truth).max() * 1e-12)
    assert not wrong_places(truth, truth, allowed).any()
    assert wrong_places(off, truth, allowed).all()


def test_same_looks_into_nested_answers():
    assert same({"o": [36.88, (1, "full")]}, {"o": [36.8801, (1, "full")]})
    assert not same({"o": [36.88, (1, "full")]}, {"o": [36.88, (1, "skip")]})
    assert same(np.array([np.nan, 1]), np.array([np.nan, 1]))
    assert not same([1, 2], [1, 2, 3])


def judged(triple: cases.Triple, scores: np.ndarray) -> bool:
    """Return whether o made of these scores is right for q, k and v as float32 tensors.

    Eager attention is exact here: another order of sums may be luckier than the answer's.
    """
    torch = pytest.importorskip("torch")
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    o = (weights / weights.sum(-1, keepdims=True)) @ triple[2].astype(np.float64)
    truth = attention_float64(*triple)
    judge = attention_judge(with_lse=False, in_dtype=True, eager=lambda case: truth[0])
    case = Case("", tuple(map(torch.from_numpy, triple)))
    return judge(case, Observed(torch.from_numpy(o.astype(np.float32))), truth) is None


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("d", [16, 64, 128])
@pytest.mark.parametrize("rise", [-300, -120, 40, 120, 300])
def test_scores_summed_one_product_at_a_time_are_right(rise, d, seed):
    """As a GPU may add them: the large product first, and every sum is rounded at its size."""
    q, k, v = cases.sloped(np.random.default_rng(seed), 16, 96, d, rise)
    scores = np.zeros((16, 96), np.float32)
    for i in range(d):
        scores += np.outer(q[:, i], k[:, i])
    assert judged((q, k, v), scores.astype(np.float64) / np.sqrt(d))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rise", [0, 120])
def test_scores_of_ten_bits_are_wrong(rise, seed):
    """What a tensor core makes of float32 unless it is asked for input_precision="ieee"."""
    rng = np.random.default_rng(seed)
    q, k, v = cases.sloped(rng, 16, 96, 64, rise)
    cut_q, cut_k = ((x.view(np.int32) & ~0x1FFF).view(np.float32) for x in (q, k))
    assert not judged((q, k, v), cut_q.astype(np.float64) @ cut_k.T / 8)


@pytest.mark.parametrize(
    ("number", "told", "right"),
    [
        (0.268435, 0.268, True),
        (0.268435, 0.27, False),
        (4096, 4100, True),
        (4096, 4113, False),
        (17.18, 17.1, False),
        (-65.0, -65.05, True),
    ],
)
def test_a_number_in_three_digits_is_off_by_half_of_the_last_at_most(number, told, right):
    assert (abs(told - number) <= in_digits(number, 3) * abs(number)) is right
