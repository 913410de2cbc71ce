"""Exercise 11.2: one sequence's rows, gathered from its pages by the block table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import sizes
from course_lib.judging.faults import find_fault
from course_lib.judging.finding import Finding
from course_lib.judging.judges import array_finding, hidden_finding
from course_lib.judging.spec import HARD, Case, Exercise, Mistake, Observed
from course_lib.judging.tolerance import as_float64

Array = np.ndarray
Where = Callable[[Array, Array, int], tuple[Array, Array]]
"""(tokens, table, page_size) -> the page and the slot of each token"""

_GARBAGE = (-1, 2**31 - 1, -(2**31), 0, -2, 10**6)
_NULLS = frozenset({"zeros", "mean(V)", "V", "the input"})
_MOST_COPIES = 4.0  # of the pages in use; joined, turned and cut are three


def _case(
    rng: Generator,
    name: str,
    length: int,
    page_size: int,
    *,
    heads: int = 2,
    n_pages: int = 9,
    behind: int = 3,
    next_page: int = -1,
    stored: str = "",
    dtype: str = "float32",
    wide: bool = False,
    d: int = 8,
    strange: bool = False,
    **flags: Any,
) -> Case:
    """Return a case. strange: its rows hold infinities, which are copied like other numbers.

    behind: entries of the table that mean nothing, the first of them next_page.

    wide: a table of int64.
    stored: "by slot" as (n_pages, page_size, H_kv, d), "with V" as every second page of an array.
    """
    import torch

    used = -(-length // page_size)
    garbage = np.resize((next_page, *_GARBAGE[1:]), behind)
    entries = np.concatenate([_shuffled(rng, n_pages, used), garbage])
    table = torch.from_numpy(entries.astype(np.int64 if wide else np.int32))
    pages = torch.from_numpy(rng.standard_normal((n_pages, heads, page_size, d)))
    pages = pages.to(getattr(torch, dtype))
    if strange:
        pages[entries[0], :, :, 0], pages[entries[0], :, :, 1] = -np.inf, np.inf
    if stored == "by slot":
        pages = pages.transpose(1, 2).contiguous().transpose(1, 2)
    if stored == "with V":
        pages = torch.stack([pages, pages + 3], 1)[:, 0]
    return Case(name, (pages, table, length), **flags)


def _shuffled(rng: Generator, n_pages: int, used: int) -> Array:
    """Return numbers of pages in use: neither in order nor in reverse order, where three can be."""
    while True:
        table = rng.permutation(n_pages)[:used]
        rises = np.diff(table) > 0
        if used < 2 or (not rises.all() and (used == 2 or rises.any())):
            return table


def _cases(rng: Generator) -> list[Case]:
    n = int(rng.integers(17, 24))
    first = _case(rng, "10 tokens in pages of 4, one head", 10, 4, heads=1)
    pages, *where = first.args
    name = f"{first.name}: the table of the call before, and other rows in the pages"
    return [
        first,
        replace(first, name=name, args=(pages + 1, *where)),
        _case(rng, "10 tokens in pages of 4, 3 heads, a table of int64", 10, 4, heads=3, wide=True),
        _case(rng, f"{n} tokens in pages of 5, 4 heads", n, 5, heads=4),
        _case(rng, "12 tokens fill 3 pages of 4, and the table ends there", 12, 4, behind=0),
        _case(rng, "12 tokens fill 3 pages of 4, and the table goes on", 12, 4, heads=3,
              next_page=10**6),
        _case(rng, "6 tokens in pages of 1", 6, 1, wide=True),
        _case(rng, "12 tokens in a pool of 70000 pages of 1", 12, 1, n_pages=70_000),
        _case(rng, "3 tokens in a page of 16", 3, 16),
        _case(rng, "300 tokens in pages of 2", 300, 2, n_pages=160),
        _case(rng, "no token yet, float16", 0, 4, dtype="float16", blind_to=_NULLS),
        _case(rng, "pages that lie in memory as (n_pages, page_size, H_kv, d)", 11, 4, heads=3,
              stored="by slot"),
        _case(rng, "pages of K that lie between pages of V", 11, 4, stored="with V", wide=True),
        _case(rng, "float16", 14, 4, dtype="float16"),
        _case(rng, "bfloat16", 14, 4, dtype="bfloat16", wide=True),
        _case(rng, "float64, with infinities in rows of the sequence itself", 14, 4,
              dtype="float64", strange=True),
        *_sized(rng),
        *(_case(rng, f"30 tokens in a pool of 300 pages of 8{which}: counted", 30, 8, n_pages=300,
                stored=stored, counted=True)
          for which, stored in (("", ""), (" that lie between pages of V", "with V"))),
        _case(rng, "30 tokens in pages of 8, and a table of 250 entries: counted", 30, 8,
              n_pages=300, behind=246, counted=True),
    ]  # fmt: skip


def _sized(rng: Generator) -> Iterator[Case]:
    """Yield lengths of every relation to a page, and numbers of heads, slots and columns alike."""
    for one in sizes.paired(
        rng, page_size=(1, 2, 3, 16), length=sizes.LENGTHS, heads=sizes.FEW, d=sizes.WIDTHS
    ):
        page_size, heads, d = one["page_size"], one["heads"], one["d"]
        length = one["length"](page_size)
        name = f"{length} tokens in pages of {page_size}, {heads} heads, d = {d}"
        yield _case(rng, name, length, page_size, heads=heads, d=d, n_pages=1 + length)


def _as_the_table_says(tokens: Array, table: Array, page_size: int) -> tuple[Array, Array]:
    return table[tokens // page_size], tokens % page_size


def _answer(
    where: Where = _as_the_table_says, change: Callable[[Array], Array] = lambda rows: rows
) -> Callable[..., Array]:
    """Return a model: where it looks for each token, and what it does to the rows (H, n, d)."""

    def model(pages: Any, table: Any, length: int) -> Array:
        tokens, page_size = np.arange(length), pages.shape[2]
        page, slot = where(tokens, np.asarray(table).astype(np.int64), page_size)
        return change(as_float64(pages)[page, :, slot].swapaxes(0, 1))

    return model


def _in_use(change: Callable[[Array], Array]) -> Callable[..., Array]:
    """Return a model that makes another table of the entries in use."""

    def where(tokens: Array, table: Array, page_size: int) -> tuple[Array, Array]:
        used = -(-len(tokens) // page_size)
        return change(table[:used])[tokens // page_size], tokens % page_size

    return _answer(where)


def _cut_wrongly(order: tuple[int, ...]) -> Callable[..., Array]:
    """Return a model that lays the pages out in another order, and cuts that into rows."""

    def model(pages: Any, table: Any, length: int) -> Array:
        _, heads, page_size, d = pages.shape
        used = -(-length // page_size)
        found = as_float64(pages)[np.asarray(table)[:used]].transpose(order)
        return found.reshape(heads, used * page_size, d)[:, :length]

    return model


def _judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
    pages, _, length = case.args
    like = pages.new_empty(expected.shape)
    if fault := find_fault(observed.result, like):
        return fault
    axes = ("head", "token", "column")
    if finding := array_finding(observed.result, expected, allowed=0.0, axes=axes):
        return finding
    if observed.ledger is None:
        return None
    if hidden := hidden_finding(observed.ledger):
        return hidden
    new = sum(
        x.n_bytes
        for x in observed.ledger.crossings
        if x.direction == "written" and x.tensor != "input"
    )
    in_use = -(-length // pages.shape[2]) * pages[0].nbytes
    if new <= _MOST_COPIES * in_use + pages[0].nbytes:
        return None
    return Finding(
        "copies only its own pages",
        f"the numbers are right, but {new:,} bytes of new tensors are written, and the sequence's "
        f"own pages have {in_use:,}: either more is taken than these, or they are copied again "
        "and again.",
        look="index `pages` by the entries in use first; turn and reshape what came of that.",
        numbers_right=True,
    )


_MISTAKES = Mistake.table(
    ("the pages are taken in physical order",
     "where a page lies says nothing: token t stands in page table[t // page_size], whatever its "
     "number is.",
     _answer(lambda t, table, size: (t // size, t % size)),
     _in_use(np.sort)),
    ("the table is read backwards", "entry 0 of the table is the page of the first tokens.",
     _in_use(lambda table: table[::-1])),
    ("the table is read the other way round",
     "table[i] is the page of the sequence's tokens i * page_size and on; it does not say where "
     "page i belongs.",
     _in_use(lambda table: np.argsort(table))),
    ("one page for all tokens",
     "each page_size tokens have a page of their own: table[t // page_size].",
     _in_use(lambda table: table[:1].repeat(len(table)))),
    ("the table is read one entry off", "tokens 0 to page_size - 1 stand in page table[0].",
     _answer(lambda t, table, size: (table[(t + size) // size], t % size)),
     _in_use(lambda table: np.roll(table, 1))),
    ("pages are counted from 1",
     "the first page of the pool is page 0: table[i] is an index as it is.",
     _in_use(lambda table: table - 1)),
    ("page and slot are exchanged",
     "t // page_size is the entry, t % page_size the slot in its page.",
     _answer(lambda t, table, size: (table[t % size], t // size))),
    ("each page is filled from its end", "slot 0 of a page holds the first of its tokens.",
     _answer(lambda t, table, size: (table[t // size], size - 1 - t % size))),
    ("the tokens come backwards", "row t is token t.", _answer(change=lambda rows: rows[:, ::-1])),
    ("only the first head is read", "every key head has its row in each slot.",
     _answer(change=lambda rows: np.broadcast_to(rows[:1], rows.shape))),
    ("heads and slots are exchanged",
     "a page is (H_kv, page_size, d): bring the heads to the front (permute, transpose) before "
     "pages and slots become one axis. reshape alone cuts across them.",
     *(_cut_wrongly(order) for order in ((0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 1, 3)))),
    ("slots come before pages",
     "all tokens of a page come before those of the next: (H_kv, pages, page_size, d), then one "
     "axis of pages and slots.",
     _cut_wrongly((1, 2, 0, 3))),
    ("rows are missing or zero",
     "a last page that is not full holds tokens as well: length of them in all.",
     _answer(change=lambda rows: rows * 0)),
)  # fmt: skip

EXERCISE = Exercise.of(
    "11.2",
    cases=_cases,
    truth=_answer(),
    judge=_judge,
    kind="torch",
    spared=dict.fromkeys(HARD, "rows are copied, and nothing is computed"),
    mistakes=_MISTAKES,
)
