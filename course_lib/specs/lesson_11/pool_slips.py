"""A walk on a page pool as it should go, and as it goes with something wrong (exercise 11.4).

A slip is a word that changes a line or two of it. Which of the free pages is taken is free to
choose, and once something is wrong it matters: each slip is played in three orders.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from course_lib.judging.spec import table

Table = list[int]
# of a call: what it raised ("" for nothing), what append said, all tables after it
Told = tuple[str, Any, list[tuple[Hashable, Table]]]
FULL = "MemoryError"
ANOTHER = "another.append"  # a token goes to another pool

_COPIES_WHOLE = ("whole", "whole, kept")
ORDERS = ("the last", "the first", "the lowest")


def played(
    n_pages: int, page_size: int, walk: Sequence[tuple[Any, ...]], slip: str = "", order: str = ""
) -> list[Told]:
    """Return what a pool says to each call of a walk, and its tables after it.

    Raises KeyError or ValueError for a walk that makes no sense: of sequences that are not there.
    With a slip, that is an answer like any other, and the last one.
    """
    state = _State(n_pages, page_size, slip, order)
    told: list[Told] = []
    for call, *names in walk:
        says, raised = None, ""
        try:
            try:
                says = getattr(state, call.replace(".", "_"))(*names)
            except MemoryError:
                raised = FULL
            tables = [(name, [*state.tables[name]]) for name in state.live]
        except Exception as error:
            if not slip:
                raise
            return [*told, (type(error).__name__, None, [])]
        told.append((raised, says, tables))
    return told


class _AsTexts(dict[Any, Any]):
    """A dict that takes each name for its text."""

    def __getitem__(self, name: Hashable) -> Any:
        return super().__getitem__(str(name))

    def __setitem__(self, name: Hashable, x: Any) -> None:
        super().__setitem__(str(name), x)

    def __delitem__(self, name: Hashable) -> None:
        super().__delitem__(str(name))

    def get(self, name: Hashable, x: Any = None) -> Any:
        return super().get(str(name), x)

    def setdefault(self, name: Hashable, x: Any = None) -> Any:
        return super().setdefault(str(name), x)

    def pop(self, name: Hashable, *x: Any) -> Any:
        return super().pop(str(name), *x)


class _State:
    """Free pages, by how many sequences each page is held, tables and lengths."""

    def __init__(self, n_pages: int, page_size: int, slip: str, order: str) -> None:
        self.n_pages, self.size, self.slip, self.order = n_pages, page_size, slip, order
        self.live: list[Hashable] = []
        self.reset()

    def reset(self) -> None:
        self.unused = list(range(self.n_pages))
        self.held = [0] * self.n_pages
        names = _AsTexts if self.slip == "texts" else dict
        self.tables: dict[Hashable, Table] = names()
        self.lengths: dict[Hashable, int] = names()
        self.marked: set[Hashable] = set()  # who is taken for somebody that shares
        self.children: set[Hashable] = set()  # who ever began by a fork

    def take(self) -> int:
        if len(self.unused) <= (self.slip == "one page is kept"):
            raise MemoryError
        place = {"the last": -1, "the first": 0}.get(self.order)
        page = min(self.unused) if place is None else self.unused[place]
        self.unused.remove(page)
        self.held[page] = 1
        return page

    def let_go(self, page: int) -> None:
        self.held[page] -= 1
        if self.held[page] == 0:
            self.unused.append(page)

    def append(self, name: Hashable) -> tuple[int, int, int | None]:
        slip, size = self.slip, self.size
        n, table = self.lengths.get(name, 0), self.tables.setdefault(name, [])
        slot = n % size
        begins = {
            "early": not n or n % size == size - 1,
            "late": not n or n % size == 1 % size,
            "late by one slot": not table or n > len(table) * size,
            "each": True,
        }.get(slip, slot == 0)
        if slip == "late by one slot" and not begins:
            slot = n - (len(table) - 1) * size
        if slip == "length first":
            self.lengths[name] = n + 1
        last = table[-1] if table and (not begins or slip in _COPIES_WHOLE) else None
        copies = last is not None and self._is_shared(name, last)
        if slip == "full at any time" and not self.unused:
            raise MemoryError
        if slip == "written when full" and not self.unused:
            copies = False
        if begins or copies:
            if last is not None and copies and slip == "count first":
                self.held[last] -= 1
            if copies and slip == "table first":
                table.pop()
            page = self.take()
        else:
            page = table[-1]
        if copies:
            self._leave(last)
            if slip == "one table until a copy":
                table = self.tables[name] = [*table]
        grows = slip in ("both kept", "table first") or (slip == "whole, kept" and slot == 0)
        if copies and not grows:
            if slip != "old page kept":
                table[-1] = page
        elif begins or copies:
            table.append(page)
        if name not in self.live:
            self.live.append(name)
        one = [other for other in self.tables if self.tables[other] is table]
        for other in one if slip == "one sequence" else [name]:
            self.lengths[other] = n + 1
        self.marked.discard(name)
        if slip == "each" or (slip == "slot 0" and copies):
            slot = 0
        source = {"unsaid": None, "itself": page, "zero": last or None}.get(slip, last)
        return page, slot, source if copies else None

    def _is_shared(self, name: Hashable, page: int) -> bool:
        if self.slip in ("marked", "marked child"):
            return name in self.marked
        if self.slip in ("never", "all the same"):
            return self.slip != "never"
        if self.slip == "older" and name not in self.children:
            return False
        return self.held[page] > 1 + (self.slip == "two are one")

    def _leave(self, page: int | None) -> None:
        """Of a page that was copied one holder is gone."""
        assert page is not None
        if self.slip == "given away":
            self.unused.append(page)
        elif self.slip not in ("still held", "count first"):
            self.let_go(page)

    def fork(self, parent: Hashable, child: Hashable) -> None:
        slip, table = self.slip, self.tables[parent]
        if child in self.live:
            raise ValueError(f"{child!r} is there already")
        shared, own = list(table), Table()
        if slip == "copies" or (slip == "copies the last" and self.lengths[parent] % self.size):
            kept = 0 if slip == "copies" else len(table) - 1
            shared, own = table[:kept], [self.take() for _ in table[kept:]]
        if slip == "whole pages" and self.lengths[parent] % self.size:
            shared = table[:-1]
        for page in shared:
            if slip != "uncounted" and (slip != "last counted" or page == table[-1]):
                self.held[page] = 2 if slip == "two at most" else self.held[page] + 1
        one = slip in ("one table", "one table until a copy", "one sequence")
        self.tables[child] = table if one else shared + own
        self.lengths[child] = {"no length": 0, "whole pages": len(shared) * self.size}.get(
            slip, self.lengths[parent]
        )
        self.marked |= {child} if slip == "marked child" else {parent, child}
        self.children.add(child)
        self.live.append(child)

    def free(self, name: Hashable) -> None:
        slip = self.slip
        table = self.tables[name] if slip == "remembered" else self.tables.pop(name)
        given = {"nothing": [], "the first": table[:-1], "the last": table[-1:]}.get(slip, table)
        for page in given:
            if slip in ("all of it", "all, uncounted"):
                self.held[page] -= slip == "all of it"
                self.unused.append(page)
            elif slip == "its own" and self.held[page] > 1:
                pass
            else:
                self.let_go(page)
        if slip not in ("remembered", "length kept"):
            del self.lengths[name]
        self.marked.discard(name)
        self.live.remove(name)

    def another_append(self, name: Hashable) -> None:
        """Somebody makes another pool, and puts a token there."""
        if self.slip == "one for all":
            self.reset()
            self.append(name)


SLIPS = table(
    ("parent and child are one sequence",
     "the child is given its parent's own list, and what one appends is in the other's table too: "
     "copy the list (of pages, not the pages).",
     "one table", "one table until a copy", "one sequence"),
    ("a fork copies",
     "parent and child have the same tokens, and read them from the same pages: a fork copies the "
     "table and takes no page. What is copied, and when, is decided when one of them appends.",
     "copies", "copies the last"),
    ("a shared page is written",
     "who appends writes into a page that others read: ask how many hold it, and if it is more "
     "than one, take a page, say copy_from, and put the new page into the table.",
     "never"),
    ("a fork is not counted",
     "after a fork each page of the parent is held by one more: without that count nobody knows "
     "that it is shared.",
     "uncounted", "last counted"),
    ("free forgets who else holds a page",
     "free takes one holder away; a page is free when nobody is left, and not before.",
     "all of it", "all, uncounted"),
    ("a copied page is given away",
     "who copies a page leaves it to the others that hold it: take one holder away, no more.",
     "given away"),
    ("free gives nothing back",
     "the pages of a sequence that has ended are lost: those that nobody else holds have to be "
     "free again.",
     "nothing"),
    ("free gives back a part of the pages",
     "free walks over the whole table: the first pages, the full ones and the last.",
     "the first", "the last"),
    ("a page that was shared is never given back",
     "who ends is one holder less, even where others are left: take it off the count, or the last "
     "of them will find the page shared for ever.",
     "its own"),
    ("a copied page still counts its old holder",
     "who copies a page holds it no longer: take one off its count.",
     "still held"),
    ("a full page is copied",
     "a new page begins with slot 0: nothing of the page before it has to come along, shared or "
     "not. It is full, nobody will write it any more.",
     "whole", "whole, kept"),
    ("copied although nobody shares it",
     "of two that share a page only the first to append copies: then the other has it alone. Ask "
     "how many hold the page now, not whether there once was a fork.",
     "marked", "all the same"),
    ("only the child copies",
     "after a fork it does not matter who is older: whoever appends first copies.",
     "marked child", "older"),
    ("a third holder is not counted",
     "a page may be held by any number of sequences: count them, and write it when one is left.",
     "two are one", "two at most"),
    ("page 0 is taken for no page",
     "page 0 is a page like any other, and `if page` says no to it: ask `is None`.",
     "zero"),
    ("a shared page is written when none is free",
     "who must copy needs a page. Where none is free append raises MemoryError; it never writes "
     "what others read.",
     "written when full"),
    ("MemoryError although no page is needed",
     "a full pool may still have empty slots: only who needs a page is refused.",
     "full at any time"),
    ("copy_from is forgotten",
     "the new page holds nothing yet: say from which page its filled slots come.",
     "unsaid"),
    ("copy_from is the new page",
     "copy_from is the page that was shared: keep its number before the table changes.",
     "itself"),
    ("the table keeps the page that was copied",
     "the new page takes the place of the shared one in the table of the sequence that appends.",
     "old page kept", "both kept"),
    ("a copied page begins at slot 0",
     "the filled slots are copied to the same slots: the token goes behind them.",
     "slot 0"),
    ("MemoryError comes after something has changed",
     "look whether a page is free before lengths, tables or counts are touched: a refused append "
     "can be tried again later.",
     "length first", "count first", "table first"),
    ("the page boundary is off by one",
     "slot = length % page_size, of the length before this token; a new page is taken where that "
     "is 0, no earlier and no later.",
     "early", "late", "late by one slot"),
    ("each token takes a page",
     "a page has page_size slots: a new one is taken only when the last is full.",
     "each"),
    ("the child does not know its length",
     "a child begins with all tokens of its parent: it has their number, and their last page too.",
     "no length", "whole pages"),
    ("one page is never used", "a pool of n_pages holds n_pages: it is full when no page is free.",
     "one page is kept"),
    ("a sequence that has ended is remembered",
     "its name may come back, and means a new sequence then: free forgets table and length.",
     "remembered", "length kept"),
    ("names are turned into text",
     "a name is a text, a number or a tuple: 0 and '0' are two sequences. Use the name itself as a "
     "key of the dict, not str(name) or an f-string of it.",
     "texts"),
    ("all pools are one",
     "another pool was made, and this one changed: what a pool knows belongs to the object "
     "(self.free = ... in __init__), not to the class or the module.",
     "one for all"),
)  # fmt: skip
