"""The page pool under any walk of operations; tokens are written as its answers say."""

from __future__ import annotations

import copy

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from course_lib.attention.page_pool import PagePool


class Walk(RuleBasedStateMachine):
    """Beside the pool stand the tokens of each sequence, in a list, and a memory of its pages."""

    def __init__(self):
        super().__init__()
        self.pool, self.tokens, self.begun = None, {}, 0

    @precondition(lambda self: self.pool is None)
    @rule(n_pages=st.integers(0, 7), page_size=st.integers(1, 4))
    def begin(self, n_pages, page_size):
        self.pool, self.n_pages, self.page_size = PagePool(n_pages, page_size), n_pages, page_size
        self.memory = [[None] * page_size for _ in range(n_pages)]

    @precondition(lambda self: self.pool)
    @rule(data=st.data(), n=st.integers(1, 6))
    def append(self, data, n):
        self.begun += 1
        seq = data.draw(st.sampled_from([*self.tokens, self.begun]))
        for _ in range(n):
            self._append_one(seq)

    def _append_one(self, seq):
        before = copy.deepcopy(vars(self.pool))
        length = len(self.tokens.get(seq, ()))
        last = self.pool.table(seq)[-1] if length % self.page_size else None
        holders = [s for s in self.tokens if last in self.pool.table(s)]
        try:
            page, slot, copy_from = self.pool.append(seq)
        except MemoryError:
            assert vars(self.pool) == before
            assert self.pool.n_free == 0
            assert last is None or len(holders) > 1  # room of its own would have done
            return
        assert slot == length % self.page_size
        assert not any(page in self.pool.table(s) for s in self.tokens if s != seq)
        assert copy_from == (last if len(holders) > 1 else None)
        if copy_from is not None:
            self.memory[page][:slot] = self.memory[copy_from][:slot]
        self.memory[page][slot] = token = object()
        self.tokens[seq] = [*self.tokens.get(seq, ()), token]

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def fork(self, data):
        self.begun += 1
        parent, free = data.draw(st.sampled_from([*self.tokens])), self.pool.n_free
        self.pool.fork(parent, self.begun)
        self.tokens[self.begun] = self.tokens[parent]
        assert self.pool.n_free == free

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def free(self, data):
        seq = data.draw(st.sampled_from([*self.tokens]))
        self.pool.free(seq)
        del self.tokens[seq]
        with pytest.raises(KeyError):
            self.pool.table(seq)

    @invariant()
    def every_sequence_reads_back_its_tokens(self):
        for seq, tokens in self.tokens.items():
            rows = [token for page in self.pool.table(seq) for token in self.memory[page]]
            assert rows[: len(tokens)] == tokens
            assert len(self.pool.table(seq)) == -(-len(tokens) // self.page_size)

    @invariant()
    def no_page_is_lost(self):
        if self.pool:
            held = {page for seq in self.tokens for page in self.pool.table(seq)}
            assert self.pool.n_free == self.n_pages - len(held)


TestWalk = Walk.TestCase
TestWalk.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_17_tokens_held_by_four_who_each_append_one():
    """Five pages of 16 and three copies, not eight pages."""
    pool = PagePool(8, 16)
    for _ in range(17):
        pool.append("a")
    for child in "bcd":
        pool.fork("a", child)
    assert pool.n_free == 6
    copies = [pool.append(seq).copy_from for seq in "abcd"]
    assert copies == [copies[0]] * 3 + [None]
    assert pool.n_free == 3


def test_who_is_not_there_cannot_fork_nor_end_and_nobody_begins_twice():
    pool = PagePool(2, 2)
    pool.append("a")
    for call in (lambda: pool.fork("b", "c"), lambda: pool.free("b"), lambda: pool.table("b")):
        with pytest.raises(KeyError):
            call()
    with pytest.raises(ValueError, match="already"):
        pool.fork("a", "a")
    with pytest.raises(ValueError, match="page_size"):
        PagePool(2, 0)
