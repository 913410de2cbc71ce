"""Masks: single pairs by their definition, whole tiles against every pair in them."""

from __future__ import annotations

import doctest
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.attention import masks
from course_lib.attention.masks import Tile

fast = settings(max_examples=100, deadline=None)


@st.composite
def masks_for(draw, n_k):
    """Any mask over n_k keys."""
    kind = draw(st.sampled_from(["everything", "causal", "window", "prefix", "document", "both"]))
    if kind == "window":
        return masks.sliding_window(draw(st.integers(1, n_k + 3)))
    if kind == "prefix":
        return masks.prefix(draw(st.integers(0, n_k + 3)))
    if kind == "document":
        cuts = sorted(draw(st.sets(st.integers(1, n_k - 1)))) if n_k > 1 else []
        return masks.document(np.diff([0, *cuts, n_k]).tolist())
    if kind == "both":
        return masks.both(draw(masks_for(n_k)), draw(masks_for(n_k)))
    return getattr(masks, kind)()


@st.composite
def ranges(draw, n):
    start = draw(st.integers(0, n - 1))
    return start, draw(st.integers(start + 1, n))


def verdict(pairs):
    """What a tile with these pairs must be called."""
    return "full" if pairs.all() else "partial" if pairs.any() else "skip"


@fast
@given(st.data(), st.integers(1, 24), st.integers(1, 24))
def test_classify_is_what_the_pairs_say(data, n_q, n_k):
    """Skip iff no pair is allowed, full iff all are, partial otherwise: exact, never cautious."""
    mask = data.draw(masks_for(n_k))
    rows, cols = data.draw(ranges(n_q)), data.draw(ranges(n_k))
    pairs = mask.dense(n_q, n_k)[slice(*rows), slice(*cols)]
    assert mask.classify(*rows, *cols, n_q, n_k) == verdict(pairs)


@pytest.mark.parametrize(("n_q", "n_k"), [(5, 5), (3, 6), (6, 4)])
def test_classify_every_tile_of_a_small_matrix(n_q, n_k):
    """No boundary is left to chance: every mask of this size on every tile."""
    documents = [masks.document([1, n_k - 1]), masks.document([2, 1, n_k - 3])]
    every = [
        masks.everything(),
        masks.causal(),
        *map(masks.sliding_window, range(1, n_k + 2)),
        *map(masks.prefix, range(n_k + 2)),
        *documents,
        *(masks.both(d, masks.causal()) for d in documents),
        masks.both(masks.sliding_window(2), masks.prefix(2)),
    ]
    for mask in every:
        dense = mask.dense(n_q, n_k)
        for a, b in combinations(range(n_q + 1), 2):
            for c, d in combinations(range(n_k + 1), 2):
                assert mask.classify(a, b, c, d, n_q, n_k) == verdict(dense[a:b, c:d]), mask


@pytest.mark.parametrize(("n_q", "n_k"), [(9, 9), (5, 9), (12, 9)])
def test_pairs_follow_the_definitions(n_q, n_k):
    """Query i stands at i + n_k - n_q; the sentences of the docstrings, pair by pair."""
    home = [0, 0, 0, 0, 1, 1, 2, 2, 2]  # document of each key, lengths 4, 2, 3
    rules = [
        (masks.everything(), lambda i, j: True),
        (masks.causal(), lambda i, j: j <= i),
        (masks.sliding_window(3), lambda i, j: j in (i, i - 1, i - 2)),
        (masks.prefix(4), lambda i, j: j < 4 or j <= i),
        (masks.document([4, 2, 3]), lambda i, j: i >= 0 and home[i] == home[j]),
        (
            masks.both(masks.document([4, 2, 3]), masks.causal()),
            lambda i, j: i >= j and home[i] == home[j],
        ),
    ]
    for mask, rule in rules:
        expected = [[rule(i + n_k - n_q, j) for j in range(n_k)] for i in range(n_q)]
        assert np.array_equal(mask.dense(n_q, n_k), expected), mask


def test_allowed_takes_any_rows_and_columns():
    assert masks.causal().allowed([3, 0], [0, 3, 1], 4, 4).tolist() == [[1, 1, 1], [1, 0, 0]]
    assert masks.everything().allowed([1], [0, 2], 4, 4).tolist() == [[True, True]]


def test_the_reversed_rule_would_drop_the_full_tiles():
    """Below the diagonal min(query) > max(key): that tile is full, the one above is skipped."""
    assert masks.causal().classify(8, 12, 0, 4, 16, 16) is Tile.FULL
    assert masks.causal().classify(0, 4, 8, 12, 16, 16) is Tile.SKIP


def test_tile_is_also_a_word():
    assert [str(t) for t in Tile] == ["skip", "full", "partial"]


def test_masks_can_be_compared_and_used_as_keys():
    assert masks.document([2, 3]) == masks.document((2, 3))
    assert len({masks.causal(), masks.causal(), masks.sliding_window(2)}) == 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: masks.sliding_window(0), "window must be"),
        (lambda: masks.prefix(-1), "n_prefix must be"),
        (lambda: masks.prefix(1.5), "n_prefix must be"),
        (lambda: masks.document([3, 0]), "every length must be"),
        (lambda: masks.document([]), "at least one document"),
        (lambda: masks.document([3]).dense(4, 4), "add up to n_k = 4, got 3"),
        (lambda: masks.document([3]).classify(0, 1, 0, 1, 4, 4), "add up to n_k = 4, got 3"),
        (
            lambda: masks.both(masks.causal(), masks.document([3])).dense(4, 4),
            "add up to n_k = 4, got 3",
        ),
        (lambda: masks.causal().classify(2, 2, 0, 1, 4, 4), "non-empty"),
        (lambda: masks.causal().classify(0, 5, 0, 1, 4, 4), "inside"),
    ],
)
def test_bad_arguments_get_a_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_the_example_in_the_docstring():
    assert doctest.testmod(masks).attempted == 1
    assert doctest.testmod(masks).failed == 0
