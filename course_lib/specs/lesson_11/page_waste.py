"""Exercise 11.1: bytes that a cache in pages reserves, and those of them that stay empty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.random import Generator

from course_lib.accounting import cache_pages
from course_lib.judging.judges import within
from course_lib.judging.spec import HARD, Case, Exercise, Mistake

Pages = Callable[[int, int], int]  # (length, page_size) -> pages
Slots = Callable[[Sequence[int], int], float]  # (lengths, page_size) -> slots
Answer = Callable[..., tuple[Any, ...]]


def _cases(rng: Generator) -> list[Case]:
    def case(name: str, lengths: Sequence[int], page_size: int, **how: int) -> Case:
        cache = {"layers": 5, "kv_heads": 3, "head_dim": 8, "b": 2} | how
        return Case(f"{name}, pages of {page_size}", (list(lengths), page_size), cache)

    large = {"layers": 32, "kv_heads": 8, "head_dim": 128}
    some = [int(x) for x in rng.integers(20, 900, 6)]
    page = int(rng.integers(17, 60))
    whole = [page * int(x) for x in rng.choice(range(1, 9), 3, replace=False)]
    return [
        case("lengths 3, 9 and 14", [3, 9, 14], 4),
        case("one sequence of 8", [8], 4),
        case("lengths that are whole pages", whole, page, b=1),
        case("lengths 6 and 11", [6, 11], 1, b=4),
        case("two sequences shorter than a page", [2, 70], 512, **large),
        case("6 sequences", some, 16, **large),
        case("the same 6 sequences", some, page, layers=7, kv_heads=4, head_dim=96, b=1),
        case("12 sequences, whole pages and others", [*whole, *some, *whole], page, b=4),
        case("a sequence without a token beside others", [5, 0, page + 1], page),
        case("no sequence at all", [], 16),
        case("sequences of many thousand tokens", [1000 * x + 1 for x in whole], page,
             layers=126, kv_heads=128, head_dim=576, b=4),
    ]  # fmt: skip


def _slot(layers: int, kv_heads: int, head_dim: int, b: int) -> float:
    return 2 * layers * kv_heads * head_dim * b


def _answer(
    reserved: Slots = cache_pages.reserved_slots,
    empty: Slots | None = None,
    slot: Callable[..., float] = _slot,
    change: Callable[[float, float], tuple[Any, ...]] = lambda reserved, wasted: (reserved, wasted),
) -> Answer:
    """Return a model; what is not reserved for a token that is there is ``empty``, unless given."""

    def model(lengths: Sequence[int], page_size: int, **cache: int) -> tuple[Any, ...]:
        slots, n_bytes = reserved(lengths, page_size), slot(**cache)
        wasted = slots - sum(lengths) if empty is None else empty(lengths, page_size)
        return change(slots * n_bytes, wasted * n_bytes)

    return model


def _pages(pages: Pages) -> Answer:
    return _answer(lambda lengths, p: p * sum(pages(n, p) for n in lengths))


def _each(empty: Callable[[int, int], float]) -> Answer:
    """Return a model in which this is what each sequence leaves empty."""
    return _answer(empty=lambda lengths, page_size: sum(empty(n, page_size) for n in lengths))


def _without(name: str, to: int = 1) -> Answer:
    return _answer(slot=lambda **cache: _slot(**{**cache, name: to}))


_MISTAKES = Mistake.table(
    ("a full last page begins another one",
     "a length that is a multiple of page_size fills its pages to the last slot: the next page is "
     "taken when the next token comes.",
     _pages(lambda n, p: n // p + 1),
     _each(lambda n, p: p - n % p),
     _pages(lambda n, p: n // p + (n > 0))),
    ("the last page is forgotten",
     "n // page_size rounds down: the tokens that are left over need a page as well.",
     _pages(lambda n, p: n // p)),
    ("pages are rounded, not rounded up",
     "round() goes down where less than half a page is filled: any token needs its page.",
     _pages(lambda n, p: round(n / p))),
    ("K and V take slots of their own",
     "a slot holds a row of K and a row of V of its token: n tokens take n slots, not 2 n.",
     _answer(lambda lengths, p: sum(-(-2 * n // p) * p / 2 for n in lengths)),
     _pages(lambda n, p: -(-2 * n // p))),
    ("a part of a page is reserved",
     "a page is reserved whole, however few tokens it holds: length / page_size is rounded up.",
     _answer(lambda lengths, p: sum(n / p * p for n in lengths)),
     _answer(lambda lengths, p: sum(lengths))),
    ("pages are counted, not their slots",
     "a page has page_size slots, and each takes the bytes of a token: multiply by page_size.",
     _answer(lambda lengths, p: sum(-(-n // p) for n in lengths))),
    ("a sequence without a token holds a page",
     "a page is taken when a token needs it: length 0 needs none.",
     _pages(lambda n, p: max(1, -(-n // p)))),
    ("sequences share their last pages",
     "a page belongs to one sequence: round up for each of them, then add.",
     _answer(lambda lengths, p: -(-sum(lengths) // p) * p),
     _answer(lambda lengths, p: (sum(lengths) // p + 1) * p)),
    ("all sequences are reserved for the longest",
     "that is the static cache: pages give each sequence as many as it needs itself.",
     _answer(lambda lengths, p: len(lengths) * -(-max(lengths) // p) * p)),
    ("waste grows with the sequence",
     "only the last page of a sequence has empty slots; all pages before it are full. So a "
     "sequence wastes less than a page, however long it is.",
     _each(lambda n, p: -(-n // p) * (-n % p)),
     _each(lambda n, p: -(-n // p) * (p - n % p)),
     _each(lambda n, p: -(-n // p) * (p - 1)),
     _each(lambda n, p: -(-n // p) * p / 2),
     _each(lambda n, p: -(-n // p) * (p // 2)),
     _each(lambda n, p: -(-n // p))),
    ("half a page is an average",
     "half a page a sequence is what random lengths tend to. Here the lengths are known: count.",
     _each(lambda n, p: p / 2),
     _each(lambda n, p: p // 2),
     _each(lambda n, p: (p - 1) / 2)),
    ("the most that can be wasted",
     "page_size - 1 empty slots a sequence is the worst case. The lengths are known: count.",
     _each(lambda n, p: p - 1)),
    ("the filled slots of the last page are taken for the empty ones",
     "n % page_size slots of the last page are filled: what is left of the page is empty.",
     _each(lambda n, p: n % p)),
    ("only one sequence is counted",
     "every sequence has a last page with empty slots: add them up.",
     _answer(empty=lambda lengths, p: -lengths[-1] % p)),
    ("only one of K and V is counted", "a token has a row of K and a row of V.",
     _answer(slot=lambda **cache: _slot(**cache) / 2)),
    ("the layers are forgotten", "every layer has a cache of its own: multiply by layers.",
     _without("layers")),
    ("the heads are forgotten", "a token has a row in each key head: multiply by kv_heads.",
     _without("kv_heads")),
    ("a row is taken for a number", "a row of K has head_dim numbers.", _without("head_dim")),
    ("elements instead of bytes", "a number has b bytes: multiply by it.", _without("b")),
    ("two bytes, whatever b is", "a number has b bytes, and that is not always 2.",
     _without("b", 2)),
    ("slots instead of bytes",
     "a slot holds K and V of one token: 2 * layers * kv_heads * head_dim * b bytes.",
     _answer(slot=lambda **_: 1)),
    ("reserved and filled are exchanged",
     "reserved is what all pages take, the empty slots among them.",
     _answer(change=lambda reserved, wasted: (reserved - wasted, wasted))),
    ("what is filled is called wasted", "wasted is what is reserved and holds no token.",
     _answer(change=lambda reserved, wasted: (reserved, reserved - wasted))),
    ("the two answers are exchanged", "first what is reserved, then what of it is wasted.",
     _answer(change=lambda reserved, wasted: (wasted, reserved))),
    ("waste as a share", "wasted is asked in bytes, not as a share of what is reserved.",
     _answer(change=lambda reserved, wasted: (reserved, wasted / reserved))),
)  # fmt: skip

EXERCISE = Exercise.of(
    "11.1",
    cases=_cases,
    truth=_answer(),
    judge=within(0.0),  # whole bytes
    spared=dict.fromkeys(HARD, "counts pages and bytes"),
    mistakes=_MISTAKES,
)
