"""What a page pool's answers lead to: tokens are written as it says, and read back (exercise 11.4).

Which pages it chose is never asked, only who else holds them, and how many are in use.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence
from typing import Any

from course_lib.specs.lesson_11.pool_slips import FULL, Told

Fault = tuple[str, str]  # the property that is broken, and a sentence

FORM = "the form"
SAYS_SO = "raises MemoryError when it is full"
RAISES = "raises nothing but MemoryError"
ALL_PAGES = "uses every page"
REFUSED = "a refused append changes nothing"
SLOT = "counts the slots"
TABLE = "a table names the pages of its tokens"
SHARED = "a shared page is not written"
IN_USE = "a page in use is not given out"
COPY = "what is filled is copied first"
NO_COPY = "copies only what is shared"
FORK = "a fork takes no page"
MOST = "takes no more pages than needed"
READ = "reads back every token"


class Reader:
    """Writes the tokens of a walk into a memory of its own, call by call."""

    def __init__(self, n_pages: int, page_size: int) -> None:
        self.n_pages, self.page_size, self.written = n_pages, page_size, 0
        self.tokens: dict[Hashable, list[int]] = {}  # of each sequence, in their order
        self.tables: dict[Hashable, list[int]] = {}
        self.memory: dict[tuple[int, int], int] = {}  # (page, slot): the token there

    def fault(self, call: Sequence[Any], mine: Told, right: Told) -> Fault | None:
        """Return what is wrong with the answer to a call, ``mine``, and the tables after it: all
        of them, or those that are others than before.

        ``right`` is what a right pool said. Asked of one call after the other, up to a fault.
        """
        (raised, says, tables), (rightly, place, right_tables) = mine, right
        held = {page for table in self.tables.values() for page in table}
        if rightly == FULL and raised != FULL:
            needs = f"it needs a page, and {self._all_in_use()}: it should raise MemoryError, yours"
            if raised:
                return RAISES, f"{needs} raises {raised}"
            return SAYS_SO, f"{needs} returns {says!r}"
        if raised not in ("", FULL):
            return RAISES, f"it raises {raised}"
        if raised and not rightly:
            return (FORK if call[0] == "fork" else ALL_PAGES), (
                f"it raises MemoryError; in use: {_count(len(held), 'page')} of {self.n_pages}"
            )
        before = self.tables
        self.tables = {s: t for s, t in before.items() if call != ("free", s)}
        for name, table in tables:
            pages = _pages(table, self.n_pages)
            if pages is None:
                return FORM, (
                    f"table({name!r}) should be a list of pages, whole numbers from 0 to "
                    f"{self.n_pages - 1}; yours is {table!r}"
                )
            self.tables[name] = pages
        if raised:
            same = self.tables == before
            return None if same else (REFUSED, "it raises MemoryError, and a table has changed")
        if call[0] == "append":
            fault = self._append(call[1], says, place, before)
        else:
            self._follow(call)
            fault = self._wrong_table()
        needed = len({page for _, table in right_tables for page in table})
        return fault or self._too_many(call[0], needed) or self._misread()

    def _all_in_use(self) -> str:
        return "the only one is in use" if self.n_pages == 1 else f"all {self.n_pages} are in use"

    def _follow(self, call: Sequence[Any]) -> None:
        """Do what a fork or an end does to the tokens."""
        if call[0] == "fork":
            self.tokens[call[2]] = list(self.tokens[call[1]])
        elif call[0] == "free":
            del self.tokens[call[1]]

    def _append(
        self, name: Hashable, says: Any, right: Any, before: dict[Hashable, list[int]]
    ) -> Fault | None:
        place = _place(says, self.n_pages)
        if place is None:
            return FORM, (
                "append should return (page, slot, copy_from): the number of a page, from 0 to "
                f"{self.n_pages - 1}, that of a slot, and the number of a page or None; yours "
                f"returned {says!r}"
            )
        page, slot, copy_from = place
        tokens = self.tokens.setdefault(name, [])
        if slot != right[1]:
            return SLOT, (
                f"{name!r} has {_count(len(tokens), 'token')}, so the next one goes to slot "
                f"{right[1]} of a page of {self.page_size}, not to slot {slot}"
            )
        tokens.append(self.written)
        if fault := self._wrong_table():
            return fault
        if page != self.tables[name][-1]:
            return TABLE, (
                f"the token goes to page {page}, and the last page of table({name!r}) is "
                f"{self.tables[name][-1]}"
            )
        others = [s for s, table in before.items() if page in table and s != name]
        others += [s for s, table in self.tables.items() if page in table and s != name]
        if others:
            had = page in before.get(name, ())
            does = "writes" if had else "takes"
            return (SHARED if had else IN_USE), f"it {does} page {page}, which {others[0]!r} holds"
        if right[2] is not None and copy_from is None:
            return COPY, (
                f"page {page} is new to {name!r}: what its last page holds, "
                f"{_count(slot, 'filled slot')}, has to come along, and copy_from is None"
            )
        if right[2] is None and copy_from is not None:
            why = "no slot of it is filled" if slot == 0 else "nobody else holds the last page"
            return NO_COPY, f"copy_from is {copy_from}, and there is nothing to copy: {why}"
        if copy_from is not None:
            for i in range(slot):
                self.memory[page, i] = self.memory.get((copy_from, i), -1)
        self.memory[page, slot] = self.written
        self.written += 1
        return None

    def _wrong_table(self) -> Fault | None:
        for name, tokens in self.tokens.items():
            table, needed = self.tables[name], -(-len(tokens) // self.page_size)
            if len(table) != needed:
                return TABLE, (
                    f"{name!r} has {_count(len(tokens), 'token')}, on {_count(needed, 'page')} "
                    f"of {self.page_size}; table({name!r}) is {table}"
                )
        return None

    def _too_many(self, method: str, needed: int) -> Fault | None:
        in_use = len({page for table in self.tables.values() for page in table})
        if in_use <= needed:
            return None
        return (FORK if method == "fork" else MOST), (
            f"in use after it: {_count(in_use, 'page')}; needed: {needed}"
        )

    def _misread(self) -> Fault | None:
        for name, tokens in self.tokens.items():
            for i, token in enumerate(tokens):
                page, slot = self.tables[name][i // self.page_size], i % self.page_size
                if self.memory.get((page, slot)) != token:
                    return READ, (
                        f"token {i} of {name!r} is looked for on page {page}, slot {slot}, and "
                        "something else stands there"
                    )
        return None


def _count(n: int, thing: str) -> str:
    return f"{n} {thing}{'' if n == 1 else 's'}"


def _place(says: Any, n_pages: int) -> tuple[int, int, int | None] | None:
    """Return (page, slot, copy_from) if that is what append returned."""
    if not isinstance(says, tuple | list) or len(says) != 3:
        return None
    copy_from = None if says[2] is None else _whole(says[2])
    page, slot = _whole(says[0]), _whole(says[1])
    known = all(x is not None and 0 <= x < n_pages for x in (page, copy_from or 0))
    if page is None or slot is None or not known or (copy_from is None) != (says[2] is None):
        return None
    return page, slot, copy_from


def _pages(table: Any, n_pages: int) -> list[int] | None:
    """Return a table's pages, if they are numbers of pages."""
    if not isinstance(table, list):
        return None
    pages = [page for page in map(_whole, table) if page is not None and 0 <= page < n_pages]
    return pages if len(pages) == len(table) else None


def _whole(x: Any) -> int | None:
    """Return a whole number as Python's, be it NumPy's or PyTorch's; None for anything else."""
    try:
        return operator.index(x)
    except (TypeError, ValueError, RuntimeError):
        return None
