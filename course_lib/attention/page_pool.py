"""Who owns which page: sequences that grow, fork and end, in a pool of pages (lesson 11).

A page belongs to the sequences whose tables name it, and is counted as often. A fork shares every
page and takes none. A page that more than one sequence names is never written: who appends to it
gets a page alone first, into which what is filled is copied (copy-on-write). Nothing is stored
here, keys and values lie elsewhere: an append says where the token goes and what to copy first.

Source: Kwon et al. 2023 (arXiv:2309.06180, sections 4.3 and 4.4).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from course_lib.attention._shapes import check_block


class Place(NamedTuple):
    """Where a token goes: its page, its slot there, and the page whose filled slots come along."""

    page: int
    slot: int
    copy_from: int | None


class PagePool:
    """``n_pages`` pages of ``page_size`` slots, and the sequences that stand in them."""

    def __init__(self, n_pages: int, page_size: int) -> None:
        check_block("page_size", page_size)
        self.page_size = page_size
        self._free = list(range(n_pages))
        self._held = [0] * n_pages  # by how many sequences
        self._tables: dict[Hashable, list[int]] = {}
        self._lengths: dict[Hashable, int] = {}

    def append(self, seq: Hashable) -> Place:
        """Make room for one more token of ``seq``, which begins here if it is new.

        Raises MemoryError, and changes nothing, if that takes a page and none is free.
        """
        length, table = self._lengths.get(seq, 0), self._tables.get(seq, [])
        slot, copy_from = length % self.page_size, None
        if slot == 0:
            table = [*table, self._take()]
        elif self._held[table[-1]] > 1:
            copy_from = table[-1]
            table = [*table[:-1], self._take()]
            self._let_go(copy_from)
        self._tables[seq], self._lengths[seq] = table, length + 1
        return Place(table[-1], slot, copy_from)

    def fork(self, parent: Hashable, child: Hashable) -> None:
        """Begin ``child`` with all tokens of ``parent``: in the same pages.

        Raises KeyError if there is no such parent, ValueError if the child is there already.
        """
        if child in self._tables:
            raise ValueError(f"there is a sequence {child!r} already")
        self._tables[child] = list(self._tables[parent])
        self._lengths[child] = self._lengths[parent]
        for page in self._tables[child]:
            self._held[page] += 1

    def free(self, seq: Hashable) -> None:
        """End ``seq``; a page that nobody else holds is free again. Raises KeyError."""
        for page in self._tables.pop(seq):
            self._let_go(page)
        del self._lengths[seq]

    def table(self, seq: Hashable) -> list[int]:
        """Return the pages of ``seq``, in the order of its tokens. Raises KeyError."""
        return list(self._tables[seq])

    @property
    def n_free(self) -> int:
        """How many pages nobody holds."""
        return len(self._free)

    def _take(self) -> int:
        if not self._free:
            raise MemoryError("every page of the pool is in use")
        page = self._free.pop()
        self._held[page] = 1
        return page

    def _let_go(self, page: int) -> None:
        self._held[page] -= 1
        if self._held[page] == 0:
            self._free.append(page)
