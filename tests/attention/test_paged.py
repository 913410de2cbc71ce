"""Decode over pages is decode over rows, wherever the pages lie."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.attention.decode import decode
from course_lib.attention.paged import gather_pages, paged_decode


def binder(rows, lengths, page_size, rng, *, spare=2):
    """Return pages and a table that hold rows (B, H_kv, n, d), in places drawn by ``rng``.

    What no token stands in is NaN; table entries past a sequence's last page name no page.
    """
    batch, kv_heads, n, d = rows.shape
    max_pages = -(-n // page_size) + 1
    places = rng.permutation(batch * max_pages + spare)
    pages = np.full((len(places), kv_heads, page_size, d), np.nan)
    table = np.full((batch, max_pages), 10**6)
    for b, length in enumerate(lengths):
        for token in range(length):
            i, slot = divmod(token, page_size)
            table[b, i] = places[b * max_pages + i]
            pages[table[b, i], :, slot] = rows[b, :, token]
    return pages, table


@settings(max_examples=60, deadline=None)
@given(
    page_size=st.integers(1, 6), n_q=st.integers(1, 3), group=st.integers(1, 3),
    lengths=st.lists(st.integers(0, 13), min_size=1, max_size=3), seed=st.integers(0, 99),
)  # fmt: skip
def test_pages_are_rows_wherever_they_lie(page_size, n_q, group, lengths, seed):
    rng = np.random.default_rng(seed)
    kv_heads, d, d_v = 2, 3, 4
    q = rng.standard_normal((len(lengths), kv_heads * group, n_q, d))
    k, v = (rng.standard_normal((len(lengths), kv_heads, 13, x)) for x in (d, d_v))
    places = rng.integers(99)
    k_pages, table = binder(k, lengths, page_size, np.random.default_rng(places))
    v_pages, _ = binder(v, lengths, page_size, np.random.default_rng(places))

    for b, length in enumerate(lengths):
        np.testing.assert_array_equal(gather_pages(k_pages, table[b], length), k[b, :, :length])
    found = paged_decode(q, k_pages, v_pages, table, lengths)
    for ours, theirs in zip(found, decode(q, k, v, lengths), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_the_rows_are_a_copy_of_the_pages_dtype():
    pages = np.arange(12, dtype=np.float16).reshape(3, 1, 2, 2)
    rows = gather_pages(pages, [2, 0], 3)
    assert rows.tolist() == [[[8, 9], [10, 11], [0, 1]]]
    assert rows.dtype == np.float16
    rows[:] = -1
    assert pages.min() == 0


@pytest.mark.parametrize(
    ("table", "length", "says"),
    [([0], 3, "2 of the pages"), ([0, 3], 3, "0 to 2"), ([-1, 0], 3, "0 to 2")],
)
def test_a_table_that_does_not_hold_the_tokens_is_refused(table, length, says):
    with pytest.raises(ValueError, match=says):
        gather_pages(np.zeros((3, 1, 2, 2)), table, length)


@pytest.mark.parametrize(
    ("table", "lengths", "says"),
    [([0, 1], [2], "table"), ([[0], [1]], [2], "table"), ([[0, 1]], [5], "lengths")],
)
def test_tables_and_lengths_that_do_not_fit_are_refused(table, lengths, says):
    pages = np.zeros((3, 1, 2, 2))
    with pytest.raises(ValueError, match=says):
        paged_decode(np.zeros((1, 1, 1, 2)), pages, pages, table, lengths)
