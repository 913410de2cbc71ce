"""Pages of a cache against counts by hand, and against counting slot by slot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.accounting import cache_pages
from course_lib.accounting.decode_traffic import cache_bytes

BY_HAND = [5, 17, 32, 700]  # 754 tokens
LENGTHS = st.lists(st.integers(0, 60), max_size=6)
PAGE = st.integers(1, 20)


@pytest.mark.parametrize(
    ("page_size", "pages", "empty", "share"),
    [(1, 754, 0, 0), (16, 49, 30, 3.8), (256, 6, 782, 50.9), (1024, 4, 3342, 81.6)],
)
def test_the_lesson_by_hand(page_size, pages, empty, share):
    assert cache_pages.reserved_slots(BY_HAND, page_size) == pages * page_size
    assert cache_pages.empty_slots(BY_HAND, page_size) == empty
    assert 100 * empty / (pages * page_size) == pytest.approx(share, abs=0.05)


@given(lengths=LENGTHS, page_size=PAGE)
def test_a_page_is_begun_when_the_last_one_is_full(lengths, page_size):
    """Token by token, as a server does it."""
    slots = 0
    for length in lengths:
        free = 0
        for _ in range(length):
            if not free:
                slots, free = slots + page_size, page_size
            free -= 1
    assert cache_pages.reserved_slots(lengths, page_size) == slots
    assert cache_pages.empty_slots(lengths, page_size) == slots - sum(lengths)


@given(lengths=LENGTHS, page_size=PAGE)
def test_a_sequence_wastes_less_than_a_page_however_long_it_is(lengths, page_size):
    empty = cache_pages.empty_slots(lengths, page_size)
    assert 0 <= empty <= len(lengths) * (page_size - 1)
    longer = [length + page_size for length in lengths if length]
    assert empty == cache_pages.empty_slots(longer, page_size)


def test_a_slot_holds_k_and_v_of_all_layers():
    assert cache_pages.slot_bytes(layers=32, kv_heads=8, d=128) == 131_072  # 128 KiB a token


@pytest.mark.parametrize(
    ("matched", "prompt", "tokens"), [(0, 9, 0), (7, 9, 4), (8, 9, 8), (8, 8, 4), (4, 4, 0)]
)
def test_whole_pages_and_never_the_last_token(matched, prompt, tokens):
    assert cache_pages.reusable_tokens(matched, prompt, 4) == tokens


@given(sequences=st.integers(1, 5), shared=st.integers(0, 40), own=st.integers(0, 9), page=PAGE)
def test_what_a_prefix_saves_is_what_two_caches_differ_by(sequences, shared, own, page):
    """Of whole pages: a cache of rows that are kept once, against one where each has its own."""
    whole = shared // page * page
    saved = cache_pages.shared_bytes_saved(sequences, shared, page, slot=2 * 3 * 2)
    sizes = {"d": 3, "kv_heads": 1, "batch": sequences}
    rows = whole + own + 1
    assert saved == cache_bytes(rows, **sizes) - cache_bytes(rows, shared=whole, **sizes)


@pytest.mark.parametrize(
    "call",
    [
        lambda: cache_pages.pages_of(5, 0),
        lambda: cache_pages.pages_of(-1, 4),
        lambda: cache_pages.reusable_tokens(5, 4, 4),
        lambda: cache_pages.reusable_tokens(0, 0, 4),
        lambda: cache_pages.shared_bytes_saved(2, -1, 4, 8),
    ],
)
def test_what_cannot_be_is_refused(call):
    with pytest.raises(ValueError, match="must be"):
        call()
