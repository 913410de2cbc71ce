"""Where no mistake is known, the smallest input is told on which the answer fails."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers import renamed, report_on, words_of

from course_lib.judging import shrink
from course_lib.judging.cases import as_tensors, draw
from course_lib.judging.shrink import smallest, told
from course_lib.judging.spec import Case
from course_lib.specs import find


@pytest.fixture(autouse=True)
def with_time(monkeypatch):
    """Let a busy machine take its time."""
    monkeypatch.setattr(shrink, "SECONDS", 60.0)


RNG = np.random.default_rng(3)


def tiled(n_q=12, n_k=20, d=6):
    return Case("c", draw(RNG, n_q, n_k, d), {"block_q": 4, "block_k": 5})


def test_states_are_told_as_what_they_are_to_the_function():
    small = report_on("3.4/wrong/one_factor").text().split("on which it fails:")[1]
    assert re.search(r"a = \(\d.*\)\s+b = \(\d.*\)\s+yours: \(", small)


def test_a_wrong_answer_is_told_in_a_few_numbers():
    def tiled_attention(q, k, v, block_q, block_k):
        p = np.exp(q @ k.T / np.sqrt(q.shape[1]))
        o = p @ v / p.sum(axis=1, keepdims=True)
        o[:, 1] += 0.1 * q[:, 0] ** 2
        return o

    report = renamed(tiled_attention, "tiled_attention")
    assert report.misconception == ""
    small = report.text().split("The smallest input found on which it fails:")[1]
    assert len(small.splitlines()) < 12
    assert "k = [[" in small
    assert "work this small input out by hand" in words_of(report)


@pytest.mark.parametrize(("at_least", "length"), [(1, 1), (3, 3), (9, 16)])
def test_the_lengths_are_as_small_as_the_failure_lets_them_be(at_least, length):
    found = smallest(find("4.3"), tiled(), lambda case: len(case.args[1]) >= at_least)
    q, k, v = found.args
    assert len(k) == len(v) == length
    assert len(q) <= len(k)  # fewer queries than keys, as before
    assert q.shape[1] == k.shape[1] == 1
    assert found.kwargs == {"block_q": 1, "block_k": 1}


def test_a_case_that_fails_only_as_it_is_stays_so():
    case = tiled()
    found = smallest(find("4.3"), case, lambda tried: False)
    assert [x.shape for x in found.args] == [x.shape for x in case.args]


def test_an_exercise_that_promises_whole_tiles_keeps_them():
    tensors = as_tensors(draw(RNG, 64, 96, 32, heads=(1, 2)))
    case = Case("c", tensors, {"block_q": 32, "block_k": 16})
    promised, ragged = (smallest(find(id), case, lambda tried: True) for id in ("7.2", "7.3"))
    assert [x.shape for x in promised.args] == [(1, 1, 16, 16)] * 3
    assert [x.shape for x in ragged.args] == [(1, 1, 1, 16)] * 3
    assert promised.kwargs == ragged.kwargs == {"block_q": 16, "block_k": 16}
    assert all(x.is_contiguous() for x in promised.args)


def test_numbers_become_whole_and_long_ones_are_not_told():
    found = smallest(
        find("7.3"), Case("c", as_tensors(draw(RNG, 1, 2, 16, heads=(1, 1)))), lambda tried: True
    )
    lines = told(find("7.3"), found, found.args[0], found.args[0])
    assert "and 14 more columns of 0" in lines[0]
    assert all(x.eq(x.round()).all() for x in found.args)
    assert told(find("7.3"), Case("c", draw(RNG, 9, 9, 16)), 1.0, 1.0) == []


def piles_told(report):
    """Return the scores as they are read off a report on 3.2."""
    told = report.text().split("on which it fails:")[1].split("   yours:")[0]
    told = told.strip().removeprefix("piles = (").removesuffix(")")
    return [np.array(pile, float) for pile in eval(f"[{told}]", {"inf": np.inf})]


@pytest.mark.parametrize("fails", ["a fraction that is rounded", "numbers that are alike"])
def test_the_numbers_that_are_told_are_those_on_which_it_fails(fails):
    """Of scores near -20000 four digits were told: on these the answer was right."""

    def stream_denominator(piles):
        m, l_sum = -np.inf, 0.0
        for s in piles:
            if fails == "numbers that are alike":
                s = np.unique(np.round(s, 3))
            m_new = max(m, s.max() if fails != "a fraction that is rounded" else np.ceil(s.max()))
            l_sum = np.exp(m - m_new) * l_sum + np.exp(s - m_new).sum()
            m = m_new
        return m, l_sum

    piles = piles_told(renamed(stream_denominator, "stream_denominator"))
    right = [max(s.max() for s in piles)]
    right.append(sum(np.exp(s - right[0]).sum() for s in piles))
    assert not np.allclose(stream_denominator(piles), right, rtol=1e-9)


def test_calls_with_names_of_their_own_are_no_input_to_work_out():
    case = Case("", ([("all keys in the past", (6, 8, 0, 2))],))
    assert told(find("4.4"), case, ["skip"], ["full"]) == []


def test_an_input_without_an_answer_is_not_told():
    def stream_average(piles, values):
        m, l_sum, o = -np.inf, 0.0, 0.0
        for s, v in zip(piles, values, strict=False):
            if (m_new := max(m, s.max())) == -np.inf:
                continue
            p = np.exp(s - m_new)
            l_sum, o, m = np.exp(m - m_new) * l_sum + p.sum(), np.exp(m - m_new) * o + p @ v, m_new
        return o / l_sum if m > -1e9 else np.full(values[0].shape[1:], 7.0)

    words = words_of(renamed(stream_average, "stream_average"))
    assert "yours: [7]" in words
    assert "right: [nan]" not in words


def test_an_input_that_comes_later_has_its_own_name():
    q = np.ones((1, 1, 1, 1))
    lines = told(find("9.6"), Case("", (q, 2 * q, 3 * q, 4 * q), {"causal": True}), q, q)
    assert [line.split(" = ")[0].strip() for line in lines[:5]] == ["q", "k", "v", "do", "causal"]


def test_the_numbers_of_a_formula_are_made_small():
    def least_bytes(n_q, n_k, d, heads, kv_heads, itemsize):
        return (2 * heads * n_q * d + 3 * kv_heads * n_k * d) * itemsize

    says = renamed(least_bytes, "least_bytes").text()
    for name in ("n_q", "n_k", "d", "heads", "kv_heads"):
        assert f"   {name} = 1\n" in says
    assert "   itemsize = 4\n" in says  # there are 2 and 4, no others


@pytest.mark.parametrize(
    ("fails", "n", "tile"),
    [
        (lambda n, tile: n % tile, 3, 2),
        (lambda n, tile: n > 256, 257, 8),  # 1 would make 257 pairs
        (lambda n, tile: n % tile == 1 and tile > 8, 17, 16),
    ],
)
def test_the_numbers_are_as_small_as_the_failure_lets_them_be(fails, n, tile):
    case = Case("c", (257, 128))
    assert smallest(find("4.1"), case, lambda tried: fails(*tried.args)).args == (n, tile)


def test_numbers_that_divide_or_exceed_each_other_still_do():
    shape = {"batch": 3, "heads": 15, "kv_heads": 5, "head_dim": 64, "b": 2, "shared_prefix": 700}
    case = Case("c", (2, 900), shape)

    def fails(tried):
        return tried.kwargs["shared_prefix"] and tried.kwargs["heads"] > tried.kwargs["kv_heads"]

    found = smallest(find("10.1"), case, fails)
    assert found.kwargs["b"] == 2
    assert found.kwargs["heads"] % found.kwargs["kv_heads"] == 0
    assert found.kwargs["shared_prefix"] <= found.args[1] <= 4


def test_where_nothing_smaller_is_tried_the_input_is_not_called_the_smallest():
    def tile_bounds(n, tile):
        right = [(start, min(start + tile, n)) for start in range(0, n, tile)]
        return [(0, 2)] if n == tile == 1 else right

    assert "An input on which it fails:" in renamed(tile_bounds, "tile_bounds").text()
