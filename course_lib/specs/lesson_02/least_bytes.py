"""Exercise 2.1: the fewest bytes that attention can move."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from numpy.random import Generator

from course_lib.accounting import traffic
from course_lib.judging import sizes
from course_lib.judging.judges import exactly
from course_lib.judging.spec import HARD, Case, Exercise, Mistake, table


def _least(n_q: int, n_k: int, d: int, heads: int, kv_heads: int, itemsize: int) -> int:
    return traffic.flash_compulsory.bytes(
        n_q=n_q, n_k=n_k, d=d, heads=heads, kv_heads=kv_heads, b=itemsize
    )


def _miscounted(
    n_q: int,
    n_k: int,
    d: int,
    heads: int,
    kv_heads: int,
    itemsize: int,
    *,
    trips: int = 0,
    queries: int = 2,
    kv: int = 2,
    gqa: bool = True,
    as_groups: bool = False,
    lengths: bool = True,
    in_bytes: bool = True,
    b: int | None = None,
    few: bool = False,
    only_trips: bool = False,
    all_heads: bool = True,
    lse: bool = False,
    o_bytes: int = 0,
    unit: float = 1,
    sector: int = 0,
) -> float:
    """Return the count of somebody with the named mistake; without a flag it is right."""
    group = heads if gqa is False else kv_heads
    group = heads // kv_heads if as_groups else group
    if not all_heads:
        heads, group = 1, 1
    if few:
        heads = kv_heads
    b = b or (itemsize if in_bytes else 1)
    if sector:
        tensors = (heads * n_q, heads * n_q, group * n_k, group * n_k)
        return sum(-(-rows * d * b // sector) * sector for rows in tensors)
    rows = 0 if only_trips else heads * n_q * queries + group * (n_k if lengths else n_q) * kv
    total = rows * d * b + trips * heads * n_q * n_k * b + (4 * heads * n_q if lse else 0)
    total += heads * n_q * d * (o_bytes - b) if o_bytes else 0
    return total / unit


_LEAST_MISTAKES = table(
    *(("an algorithm is counted, not the bound",
       f"{told} in it. Naive attention makes more than none; no kernel has to. Count the inputs "
       "and the output only.",
       {"trips": trips, "gqa": True}, {"trips": trips, "gqa": False})
      for trips, told in ((1, "one trip of the scores is"),
                          *((n, f"{n} trips of the scores are") for n in (2, 4, 6)))),
    ("K and V are counted once per query head",
     "with fewer key/value heads than query heads there are only kv_heads copies of K and V, and "
     "the bound moves each of them once.",
     {"gqa": False}),
    ("the size of a group is taken for kv_heads",
     "heads // kv_heads is how many query heads share one head of K and V. Of those there are "
     "kv_heads.",
     {"as_groups": True}),
    ("only the scores are counted",
     "the scores are an intermediate result. What must move are the inputs and the output.",
     {"trips": 1, "only_trips": True}),
    ("Q and O have kv_heads heads",
     "only K and V have kv_heads heads: Q and O have one for each query head.",
     {"few": True}),
    ("O is forgotten", "the output must reach memory: heads * n_q * d elements.", {"queries": 1}),
    ("two of the four tensors",
     "Q and O are two tensors of heads * n_q * d elements, K and V two of kv_heads * n_k * d: all "
     "four must move.",
     {"queries": 1, "kv": 1}),
    ("K or V is forgotten", "both K and V must be read.", {"kv": 1}),
    ("K and V have n_k rows", "n_q is used for the rows of K and V as well.", {"lengths": False}),
    ("one tensor's size for all four",
     "Q and O have heads * n_q * d elements each, K and V kv_heads * n_k * d: with other lengths "
     "or heads these are two sizes.",
     {"lengths": False, "gqa": False}, {"queries": 0, "kv": 4}),
    ("elements, not bytes", "this is the number of elements: times itemsize.", {"in_bytes": False}),
    ("always two bytes per element", "itemsize is 4 for fp32: multiply by it, not by 2.", {"b": 2}),
    ("one head only", "this is one query head and one key/value head.", {"all_heads": False}),
    ("the lse is counted",
     "the 4 bytes per row of the log-sum-exp are in it. Training wants them; the output does not. "
     "Here they are left out.",
     {"lse": True}),
    ("O is counted in fp32", "O is stored in itemsize bytes a number, as the inputs are.",
     {"o_bytes": 4}),
    ("rounded up to what a GPU moves at once",
     "memory is read in pieces of 32 bytes or more, but asked for are the bytes of the numbers: a "
     "least amount is not rounded up.",
     {"sector": 32}, {"sector": 64}, {"sector": 128}),
    ("not in bytes", "this is in MB: return bytes.", {"unit": 1e6}),
    ("not in bytes", "this is in MiB: return bytes.", {"unit": 2**20}),
    ("not in bytes", "this is in GB: return bytes.", {"unit": 1e9}),
    ("not in bytes", "this is in GiB: return bytes.", {"unit": 2**30}),
    ("not in bytes", "this is in bits: a byte has eight.", {"unit": 1 / 8}),
)  # fmt: skip


def _least_cases(rng: Generator) -> list[Case]:
    # more queries than keys and a small d: slips in n_q, n_k, the lse then differ in three digits
    n_q, n_k = int(rng.integers(2500, 5000)), int(rng.integers(300, 2000))
    d = int(rng.choice([16, 32]))
    kv_heads, group = int(rng.choice([3, 5])), int(rng.integers(2, 9))
    return [
        Case(f"{n_q} queries, {n_k} keys, fp32", (n_q, n_k, d, kv_heads, kv_heads, 4)),
        Case(
            f"{kv_heads * group} query heads share {kv_heads} key/value heads (GQA)",
            (n_q, n_k, d, kv_heads * group, kv_heads, 2),
        ),
        Case(f"one query, {n_k} keys", (1, n_k, d, kv_heads * group, kv_heads, 2)),
        Case("N = 8192, d = 128, 8 heads, bf16", (8192, 8192, 128, 8, 8, 2)),
        # neither int32 nor float32 has this number
        Case("a million tokens, 64 heads, fp32", (10**6 + 3, 10**6 - 17, 96, 64, 8, 4)),
        Case("the example of the task", (2, 3, 4, 1, 1, 2)),
        *[_odd_case(rng) for _ in range(2)],
        *(Case(_named(*one), one) for one in dict.fromkeys(_related(rng))),
    ]


def _related(rng: Generator) -> Iterator[tuple[int, ...]]:
    """Yield sizes by relation, then some of which one at a time is another."""
    for one in sizes.paired(
        rng,
        n_q=sizes.COUNTS,
        n_k=sizes.BESIDE,
        d=sizes.WIDTHS,
        kv_heads=sizes.HEADS,
        group=sizes.HEADS,
        itemsize=sizes.ITEMSIZES,
    ):
        n_q, kv_heads = one["n_q"], one["kv_heads"]
        heads = kv_heads * one["group"]
        yield n_q, one["n_k"](n_q), one["d"], heads, kv_heads, one["itemsize"]
    n_q, n_k, d = (int(x) for x in rng.integers(5, 50, 3))
    yield from sizes.one_changed((n_q, n_k, d, 12, 6, 2), (n_q + 1, n_k + 1, d + 1, 24, 3, 4))


def _named(n_q: int, n_k: int, d: int, heads: int, kv_heads: int, itemsize: int) -> str:
    shared = f"{heads} heads that share {kv_heads}"
    return f"{n_q} queries, {n_k} keys, d = {d}, {shared}, itemsize = {itemsize}"


def _odd_case(rng: Generator) -> Case:
    """Return small odd numbers, of one byte each: nothing is padded, nothing has a least size."""
    n_q, n_k, d, kv_heads = (2 * int(n) + 1 for n in rng.integers(0, 6, 4))
    these = n_q, n_k, d, 3 * kv_heads, kv_heads, 1
    return Case(_named(*these), these)


LEAST_BYTES = Exercise.of(
    "2.1",
    cases=_least_cases,
    truth=_least,
    judge=exactly,
    spared=dict.fromkeys(HARD, "counts bytes"),
    mistakes=tuple(
        Mistake(name, says, functools.partial(_miscounted, **flags))
        for name, says, flags in _LEAST_MISTAKES
    ),
)
