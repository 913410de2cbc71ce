"""Exercise 11.3: decode over pages, whose addresses the kernel looks up in a block table.

What is computed is 10.4 with lengths, so the pages are gathered and lesson 10's judge is asked.
Only where a key is looked for is new.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from numpy.random import Generator

from course_lib.attention.slips import LN_2, LOW_NUMBERS
from course_lib.judging import cases as draw
from course_lib.judging import sizes
from course_lib.judging.decode_judge import (
    OF_PACKING,
    OF_THE_LOOP,
    ROWS,
    Parts,
    half_launches,
    least,
    numbers,
    one_launch,
    stored_once,
)
from course_lib.judging.finding import Finding
from course_lib.judging.judges import Judge
from course_lib.judging.kernel_judge import formal_fault, in_turn, no_race, was_launched
from course_lib.judging.least import COPIES, Least, counted
from course_lib.judging.misconceptions import SAYS
from course_lib.judging.sized_launches import decode_launches
from course_lib.judging.spec import Case, Exercise, Mistake, Observed
from course_lib.specs.lesson_11.pages import PAGED, Paged, Place, in_pages

# Cases -------------------------------------------------------------------------------------------


def _cases(rng: Generator) -> list[Case]:
    case, pages = partial(draw.launch, rng), partial(in_pages, rng)
    return [
        pages(case("lengths 40 and 21, pages of 16 tokens in tiles of 32, 6 heads share 2",
                   3, 40, 16, heads=(2, 2), tiles=(ROWS, 32)), 16, 40, 21, slots=None),
        pages(case("lengths 70, 33 and 5, pages of 3 tokens in tiles of 16, an int64 table",
                   2, 70, 16, heads=(3, 2), tiles=(ROWS, 16)), 3, 70, 33, 5, slots=None,
              wide="int64"),
        # 31: one key less than two tiles, so that a tile is whole but for its last key
        pages(case("lengths 17 and 31, pages of one token in tiles of 16",
                   1, 31, 32, heads=(2, 3), tiles=(ROWS, 16)), 1, 17, 31),
        pages(case("lengths 130 and 65, pages of 40 tokens in tiles of 16, 8 heads share one",
                   8, 130, 16, heads=(2, 1), tiles=(ROWS, 16)), 40, 130, 65),
        pages(case("one sequence has no key yet: lengths 0 and 40, pages of 16",
                   3, 40, 16, heads=(2, 2), tiles=(ROWS, 16)), 16, 0, 40),
        pages(case("3 sequences begin with the same 2 pages of 16, lengths 40, 64 and 33",
                   2, 64, 16, heads=(3, 2), tiles=(ROWS, 64)), 16, 40, 64, 33, shared=2),
        pages(case("strides: heads behind slots, gaps between pages, part of a wider table",
                   2, 50, 32, heads=(2, 4), tiles=(ROWS, 32)), 16, 50, 37, strided=True),
        pages(case("lengths 33 and 70, pages of 10, all scores near -20, heads behind slots",
                   4, 70, 16, near=-20, heads=(2, 2), tiles=(ROWS, 32)), 10, 33, 70, strided=True),
        pages(case("the scores climb along the row, tiles as tall as d",
                   3, 96, 32, rise=120, heads=(2, 1), tiles=(ROWS, 32)), 16, 90, 40),
        pages(case("float16, lengths 100 and 37, pages of 16 in tiles of 32, d = 64",
                   4, 100, 64, heads=(2, 1), dtype="float16", tiles=(ROWS, 32), compiled=True),
              16, 100, 37),
        pages(case("lengths 20 and 9 in a pool of 33000 pages of one token", 1, 20, 16,
                   heads=(2, 1), tiles=(ROWS, 16)), 1, 20, 9, least=33_000),
        pages(draw.many_heads_launch(case, 1, tiles=(ROWS, 16)), 16, 16, 9, 16),
        *_sized(rng),
        *(pages(one, 64, one.args[1].shape[2]) for one in half_launches(rng)),
        *(pages(one, 16, 65, 33)
          for one in draw.hard_launches(rng, 3, 65, 16, heads=(2, 1), tiles=(ROWS, 32))),
        pages(case("lengths 200, 60 and 120, pages of 16 in tiles of 128, counted",
                   8, 200, 16, heads=(3, 1), tiles=(ROWS, 128), counted=True), 16, 200, 60, 120),
    ]  # fmt: skip


def _sized(rng: Generator) -> Iterator[Case]:
    """Yield two sequences each, of any length beside a page."""
    for one, has in decode_launches(rng, ROWS, page_size=(1, 3, 16, 17, 32), filled=sizes.LENGTHS):
        n, page_size = one.args[1].shape[2], has["page_size"]
        filled = min(has["filled"](page_size), n)
        name = f"{one.name}, lengths {filled} and {n}, pages of {page_size}"
        yield in_pages(rng, replace(one, name=name), page_size, filled, n)


# Judging -----------------------------------------------------------------------------------------


def _rows(case: Case) -> Case:
    """Return ``case`` as lesson 10 has it: q (B, H, d), caches in one piece."""
    return replace(case, args=PAGED.gathered(*case.args))


def _of_rows(judge: Judge) -> Judge:
    """Return lesson 10's ``judge``, asked about the rows that the pages hold."""

    def ask(case: Case, observed: Observed, expected: Any) -> Finding | None:
        import torch

        got = observed.result
        got = got if isinstance(got, tuple | list) else ()
        if [getattr(x, "shape", None) for x in got] != [x.shape for x in expected]:
            return formal_fault(observed.result, expected, torch.float32)
        flat = replace(observed, result=tuple(x.squeeze(2) for x in got))
        return judge(_rows(case), flat, tuple(x.squeeze(2) for x in expected))

    return ask


def _least(case: Case) -> Least:
    """Each query and each cached number once, wherever its page lies."""
    wanted = least(case)

    def renamed(part: Any) -> dict[str, Any]:
        return {{"k": "k_pages", "v": "v_pages"}.get(name, name): x for name, x in part.items()}

    return replace(
        wanted,
        rule="each row that a sequence has in the pages is loaded once, for all who share it",
        loads=renamed(wanted.loads),
        tiles=renamed(wanted.tiles),
        properties=renamed(wanted.properties),
        unmasked=renamed(wanted.unmasked),
    )


def _uncopied(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask that launches are given the pages themselves, and nothing that is made of them."""
    books, origins = observed.ledger, observed.origins
    if books is None or origins is None:
        return None
    copied = {n for at, n in ((1, "k_pages"), (2, "v_pages")) if at in origins.copied}
    copied |= {  # larger than o, and neither an input nor written by a kernel
        name
        for launch in books.launches
        for name, (shape, _, dtype) in launch.tensors.items()
        if dtype.startswith("float") and math.prod(shape) > expected[0].size
        if name in books.read and name not in books.written and origins.input_of(name) is None
    }
    if not copied and case.counted and (observed.allocated or 0) > 8 * expected[0].size:
        copied = {"something much larger than `o`"}
    if not copied:
        return None
    return Finding(
        COPIES,
        f"the numbers are right, but the launcher copies {', '.join(sorted(copied))} before it "
        "launches: that reads and writes the whole cache for each token.",
        look="give the kernel the pages, their strides and the table; it finds the rows itself.",
        numbers_right=True,
    )


def _looks_up_itself(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask that the kernel is given the table, and no whole number for each key."""
    lengths, made = case.args[4], observed.origins.most_made if observed.origins else 0
    if made <= len(lengths) + 1:  # where each sequence begins, say
        return None
    return Finding(
        "looks each key up itself",
        f"the numbers are right, but your launcher works out {made:,} whole numbers that are not "
        "the table's: that walks through the whole cache for each token, before the launch.",
        look="give the kernel the table; each program looks its own keys up.",
        numbers_right=True,
    )


def _looked_up(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask for one entry of the table a key at most, tiles rounded up."""
    books = observed.ledger
    if books is None:
        return None
    lengths, block_k = case.args[4].tolist(), case.kwargs["block_k"]
    most = case.args[1].shape[1] * sum(-(-n // block_k) * block_k for n in lengths)
    read = sum(
        launch.loaded.get(name, 0)
        for launch in books.launches
        for name, (shape, _, dtype) in launch.tensors.items()
        if dtype.startswith("int") and math.prod(shape) > len(lengths)
    )
    if read <= most:
        return None
    return Finding(
        "looks each key up once",
        f"the numbers are right, but {read:,} entries of the table are loaded where {most:,} are "
        "enough: one a key, for K and V and all heads of the group together.",
        numbers_right=True,
    )


JUDGE: Judge = in_turn(
    _of_rows(stored_once(numbers)),
    _uncopied,
    was_launched,
    no_race,
    _of_rows(counted(_least)),
    _of_rows(one_launch),
    _looks_up_itself,
    _looked_up,
)

# Mistakes ----------------------------------------------------------------------------------------


def _first(place: Place) -> Any:
    """Return the number of the first token of each token's tile."""
    return place.tokens // place.block_k * place.block_k


def _packed_slots(pages: Any) -> Any:
    """Return what somebody reads who goes head_dim numbers from slot to slot."""
    page_stride, head_stride, _, _ = pages.stride()
    return pages.as_strided(pages.shape, (page_stride, head_stride, pages.shape[-1], 1))


def _times_infinity(*args: Any, block_k: int = 64) -> Any:
    """Return NaN for each sequence behind whose last key its last page is not finite."""
    o, lse = PAGED(*args, block_k=block_k)
    _, _, v_pages, table, lengths = args
    size = v_pages.shape[2]
    for batch, n in enumerate(lengths.tolist()):
        if n % size and not v_pages[table[batch, n // size], :, n % size :].isfinite().all():
            o[batch] = math.nan
    return o, lse


def _page_0_times_infinity(*args: Any, block_k: int = 64) -> Any:
    """Return NaN where what stands in page 0, in the slots of a tile's rest, is not finite."""
    o, lse = PAGED(*args, block_k=block_k)
    v_pages, lengths = args[2], args[4].tolist()
    for batch, n in enumerate(lengths):
        rest = [token % v_pages.shape[2] for token in range(n, -(-n // block_k) * block_k)]
        if not v_pages[0][:, rest].isfinite().all():
            o[batch] = math.nan
    return o, lse


def _without_page_0(*args: Any, block_k: int = 64) -> Any:
    """Return the answer of somebody who skips the keys in page 0."""
    q, *pools, table, lengths = args
    table, lengths = table.clone(), lengths.clone()
    size = pools[0].shape[2]
    for batch, n in enumerate(lengths.tolist()):
        mine = table[batch, : -(-n // size)].tolist()
        for at in (i for i, page in enumerate(mine) if page == 0):
            lengths[batch] -= min(size, n - at * size)
            table[batch, at : len(mine) - 1] = table[batch, at + 1 : len(mine)].clone()
    return PAGED(q, *pools, table, lengths, block_k=block_k)


_LOW = "lse of a row without keys is a large negative number"
_MISTAKES = Mistake.table(
    ("keys that are not there are loaded, and weigh 0",
     "a weight of 0 does not take a number away that is infinite or NaN: 0 times it is NaN. What "
     "stands behind the last token, or where a masked entry of the table points, is not to be "
     "loaded: mask the tiles of K and V there.",
     _times_infinity, _page_0_times_infinity),
    ("the logical page is taken for the physical one",
     "token t is on the sequence's page number t // PAGE_SIZE: which page of the pool that is, "
     "stands in the table.",
     Paged(lambda p: p.at(p.tokens // p.page_size)),
     Paged(lambda p: p.at(0, p.tokens, 0))),
    ("page 0 counts as no page",
     "the pool's pages have the numbers 0 and up: what is there, lengths[batch] says, and never "
     "the number of a page.",
     _without_page_0),
    ("the table's row is another sequence's",
     "sequence number batch has row number batch of the table, which begins at batch * "
     "table_stride.",
     Paged(lambda p: p.at(p.entry(p.tokens // p.page_size, 0))),
     Paged(lambda p: p.at(p.entry(p.tokens // p.page_size, p.head))),
     Paged(lambda p: p.at(p.entry(p.tokens // p.page_size, p.batch * p.kv_heads + p.head)))),
    ("the table's row stride is forgotten",
     "a row of the table has table_stride numbers: row number batch begins at batch * "
     "table_stride, not at batch.",
     Paged(lambda p: p.at(p.entry(p.batch + p.tokens // p.page_size, 0)))),
    ("the slot is forgotten",
     "a page has PAGE_SIZE slots: token t stands in slot t % PAGE_SIZE of its page.",
     Paged(lambda p: p.at(slot=0))),
    ("the slot is not counted from the page's first",
     "token t stands in slot t % PAGE_SIZE of its page, wherever its tile begins.",
     Paged(lambda p: p.at(slot=p.tokens)),
     Paged(lambda p: p.at(slot=p.tokens - _first(p))),
     Paged(lambda p: p.at(slot=(p.tokens - _first(p)) % p.page_size))),
    ("one page for a whole tile",
     "a tile of BLOCK_K keys may lie on several pages, or begin in the middle of one: look the "
     "page up for each key.",
     Paged(lambda p: p.at(p.entry(_first(p) // p.page_size))),
     Paged(lambda p: p.at(p.entry(_first(p) // p.page_size), p.tokens - _first(p))),
     Paged(lambda p: p.at(p.entry(p.tokens // p.block_k))),
     Paged(lambda p: p.at(p.entry(p.tokens // p.block_k), p.tokens - _first(p)))),
    ("a page is taken for a power of two",
     "a mask of bits is t % PAGE_SIZE for powers of two alone, and a page may have 3 or 10 slots.",
     Paged(lambda p: p.at(slot=p.tokens & (p.page_size - 1)))),
    ("page and slot are exchanged",
     "token t is on page t // PAGE_SIZE of its sequence, in slot t % PAGE_SIZE.",
     Paged(lambda p: p.at(p.entry(p.tokens % p.page_size), p.tokens // p.page_size))),
    ("every key head reads the first one's rows",
     "a page holds the slots of all key heads: those of yours begin at head * head_stride.",
     Paged(lambda p: p.at(head=0))),
    ("the key head is counted over all sequences",
     "a page holds H_kv key heads: head is the number among those, kv_head % KV_HEADS.",
     Paged(lambda p: p.at(head=p.batch * p.kv_heads + p.head))),
    ("head and slot are exchanged",
     "in a page a head's slots follow each other: head * head_stride + slot * slot_stride.",
     Paged(lambda p: (p.entry(p.tokens // p.page_size) * p.page_size + p.tokens % p.page_size)
     * p.kv_heads + p.head)),
    ("the rest of the last page counts",
     "a sequence has lengths[batch] keys. The slots behind the last one are nobody's: neither "
     "load them nor let them count.",
     Paged(count=lambda lengths, size: [-(-n // size) * size for n in lengths])),
    ("the sequence is one key too long",
     "lengths[batch] is how many keys there are: the last one is number lengths[batch] - 1.",
     Paged(count=lambda lengths, _: [n + 1 for n in lengths])),
    ("the sequence is one key too short",
     "the newest key counts as well: keys < length, not length - 1.",
     Paged(count=lambda lengths, _: [max(0, n - 1) for n in lengths])),
    ("the values are read from K's pages",
     "K and V lie in two pools, at the same places: v_tile comes from v_pages.",
     Paged(pools=lambda k_pages, v_pages: (k_pages, k_pages))),
    ("the keys are read from V's pages",
     "K and V lie in two pools, at the same places: k_tile comes from k_pages.",
     Paged(pools=lambda k_pages, v_pages: (v_pages, v_pages))),
    ("the slot's stride is guessed",
     "from slot to slot it is slot_stride numbers, and not HEAD_DIM: in some pools the heads of a "
     "token stand side by side.",
     Paged(pools=lambda *pools: [_packed_slots(pages) for pages in pools])),
    ("a sequence without a key is not guarded",
     "without a key l_sum is 0 and m is -inf: o is 0 and lse is -inf, not 0 and not NaN.",
     *(Paged(parts=Parts(empty=empty))
       for empty in ((math.nan, -math.inf), (math.nan, math.nan), (0.0, math.nan), (0.0, 0.0)))),
    (_LOW, SAYS[_LOW],
     *(Paged(parts=Parts(empty=(o, unit * -low)))
       for _, low in LOW_NUMBERS for unit in (1.0, LN_2) for o in (0.0, math.nan))),
)  # fmt: skip

EXERCISE = Exercise.of(
    "11.3",
    cases=_cases,
    truth=PAGED,
    judge=JUDGE,
    kind="kernel",
    races=True,
    mistakes=(
        *_MISTAKES,
        *(replace(one, model=Paged(parts=one.model)) for one in (*OF_PACKING, *OF_THE_LOOP)),
    ),
)
