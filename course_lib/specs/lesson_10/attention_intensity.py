"""Exercise 10.1: FLOP per byte of attention alone, in prefill and in decode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from numpy.random import Generator

from course_lib.judging import sizes
from course_lib.judging.judges import within
from course_lib.judging.spec import HARD, Case, Exercise, Mistake

Number = Callable[["Shape"], float]


@dataclass(frozen=True)
class Shape:
    """One call: what a formula is made of."""

    n_q: int
    n_k: int
    batch: int
    heads: int
    kv_heads: int
    head_dim: int
    b: int
    shared_prefix: int

    @property
    def own(self) -> int:
        """Cached rows that each sequence has for itself."""
        return self.n_k - self.shared_prefix

    @property
    def rows(self) -> int:
        """Cached rows of one key head that differ: the shared ones once."""
        return self.shared_prefix + self.batch * self.own

    @property
    def query_rows(self) -> int:
        """Query rows of all heads and sequences."""
        return self.batch * self.heads * self.n_q


def _flops(x: Shape) -> float:
    return 4 * x.query_rows * x.n_k * x.head_dim


def _q_and_o(x: Shape) -> float:
    return 2 * x.query_rows * x.head_dim * x.b


def _k_and_v(x: Shape) -> float:
    return 2 * x.kv_heads * x.rows * x.head_dim * x.b


def _ratio(
    flops: Number = _flops,
    k_and_v: Number = _k_and_v,
    q_and_o: Number = _q_and_o,
    change: Callable[[float, Shape], float] = lambda right, _: right,
) -> Callable[..., float]:
    """Return the intensity with these FLOPs and bytes."""

    def model(
        n_q: int, n_k: int, *, batch: int, heads: int, kv_heads: int, head_dim: int, b: int,
        shared_prefix: int = 0,
    ) -> float:  # fmt: skip
        x = Shape(n_q, n_k, batch, heads, kv_heads, head_dim, b, shared_prefix)
        return change(flops(x) / (k_and_v(x) + q_and_o(x)), x)

    return model


def _cached(heads: Number, rows: Number, *, each: int = 2) -> Number:
    """Return the bytes of K and V, of so many heads and rows."""
    return lambda x: each * heads(x) * rows(x) * x.head_dim * x.b


def _cases(rng: Generator) -> list[Case]:
    def case(name: str, n_q: int, n_k: int, **how: int) -> Case:
        shape = {"batch": 1, "heads": 32, "kv_heads": 32, "head_dim": 128, "b": 2} | how
        return Case(name, (n_q, n_k), shape)

    n, group = int(rng.integers(3000, 9000)), int(rng.integers(3, 9))
    kv_heads, batch = int(rng.integers(2, 9)), int(rng.integers(5, 70))
    drafts, d = int(rng.integers(2, 8)), int(rng.choice([64, 96, 256]))
    few = {"heads": group * kv_heads, "kv_heads": kv_heads, "head_dim": d}
    size = f"{group * kv_heads} heads on {kv_heads}, d = {d}"
    return [
        case("prefill: 4096 queries, 4096 keys, 32 heads, d = 128", 4096, 4096),
        case("decode: 1 query, 8192 keys, 32 heads, d = 128", 1, 8192),
        case("3 queries, 5 keys, 2 sequences, 6 heads on 2, d = 8",
             3, 5, batch=2, heads=6, kv_heads=2, head_dim=8),
        case("decode, 32 heads on 8", 1, 8192, kv_heads=8),
        case(f"decode of a batch of {batch}, each with its own cache of {n} keys, {size}",
             1, n, batch=batch, **few),
        case(f"{drafts} drafts of one sequence, {n} keys, {size}, one byte a number",
             drafts, n, b=1, **few),
        case(f"decode of a batch of {batch}, {n} keys of which {n - 500} are shared, {size}",
             1, n, batch=batch, shared_prefix=n - 500, **few),
        case(f"{drafts} drafts of each of {batch} sequences, 1000 keys shared, {size}, four bytes",
             drafts, n, batch=batch, shared_prefix=1000, b=4, **few),
        case("one sequence alone, a prefix that nobody shares it with", 2, 40, shared_prefix=30,
             heads=6, kv_heads=2, head_dim=8),
        case("3 queries, 5 keys, 2 sequences, 2 keys shared, 4 heads on 2, d = 8",
             3, 5, batch=2, shared_prefix=2, heads=4, kv_heads=2, head_dim=8),
        *_sized(rng),
    ]  # fmt: skip


def _sized(rng: Generator) -> Iterator[Case]:
    """Yield every relation of queries to keys, of the shared prefix to all keys, of the heads."""
    for one in sizes.paired(
        rng,
        keys=sizes.COUNTS,
        queries=sizes.BESIDE[:-1],
        shared=sizes.WITHIN,
        batch=sizes.FEW,
        group=sizes.FEW,
    ):
        n = one["keys"]
        n_q, shared, kv_heads = one["queries"](n), one["shared"](n), int(rng.integers(1, 4))
        heads, d, b = kv_heads * one["group"], int(rng.choice([1, 8, 96])), int(rng.choice([1, 2]))
        yield Case(
            f"{n_q} queries, {n} keys of which {shared} are shared, {one['batch']} sequences, "
            f"{heads} heads on {kv_heads}, d = {d}, b = {b}",
            (n_q, n),
            {"batch": one["batch"], "heads": heads, "kv_heads": kv_heads, "head_dim": d, "b": b,
             "shared_prefix": shared},
        )  # fmt: skip


_MISTAKES = Mistake.table(
    ("a batch with caches of its own raises the intensity",
     "each sequence has K and V of its own: twice the sequences are twice the FLOPs and twice the "
     "bytes. Only what is shared is read once for all.",
     _ratio(k_and_v=_cached(lambda x: x.kv_heads, lambda x: x.n_k)),
     _ratio(k_and_v=_cached(lambda x: x.kv_heads, lambda x: x.own)),
     _ratio(k_and_v=_cached(lambda x: x.kv_heads, lambda x: x.shared_prefix + x.own),
            q_and_o=lambda x: _q_and_o(x) / x.batch)),
    ("each query head reads K and V for itself",
     "the query heads of a group share one key head, so K and V have kv_heads heads, not heads.",
     _ratio(k_and_v=_cached(lambda x: x.heads, lambda x: x.rows)),
     _ratio(k_and_v=_cached(lambda x: x.heads, lambda x: x.batch * x.n_k))),
    ("GQA cuts the products",
     "every query head makes scores and a sum of values of its own: the FLOPs count heads, the "
     "bytes of K and V kv_heads.",
     _ratio(flops=lambda x: 4 * x.batch * x.kv_heads * x.n_q * x.n_k * x.head_dim),
     _ratio(flops=lambda x: 4 * x.batch * x.kv_heads * x.n_q * x.n_k * x.head_dim,
            k_and_v=_cached(lambda x: x.heads, lambda x: x.rows))),
    ("all heads share one cached row",
     "only the heads of a group share a row: K and V have kv_heads heads. (One for all would be "
     "MQA.)",
     _ratio(k_and_v=_cached(lambda x: 1, lambda x: x.rows))),
    ("each sequence reads the shared prefix for itself",
     "the rows that all sequences share are kept once and, at the least, read once: only n_k - "
     "shared_prefix rows are each sequence's own.",
     _ratio(k_and_v=_cached(lambda x: x.kv_heads, lambda x: x.batch * x.n_k))),
    ("the shared prefix is never read", "a row that is shared is read once, not never.",
     _ratio(k_and_v=_cached(lambda x: x.kv_heads, lambda x: x.batch * x.own))),
    ("n_k without the shared prefix, or with it twice",
     "each sequence sees n_k keys, the shared ones among them: every query computes with all n_k.",
     _ratio(flops=lambda x: 4 * x.query_rows * x.own * x.head_dim),
     _ratio(flops=lambda x: 4 * x.query_rows * (x.n_k + x.shared_prefix) * x.head_dim,
            k_and_v=_cached(lambda x: x.kv_heads, lambda x: x.shared_prefix + x.batch * x.n_k)),
     _ratio(k_and_v=_cached(lambda x: x.kv_heads, lambda x: x.shared_prefix + x.batch * x.n_k))),
    ("the products with the shared prefix are counted once",
     "a shared row is read once for all, but each sequence's queries multiply with it: the FLOPs "
     "are those of all n_k keys, in each sequence.",
     _ratio(flops=lambda x: 4 * x.head_dim * x.heads * x.n_q * x.rows)),
    ("Q and O are forgotten",
     "q is read and o is written as well: batch * heads * n_q rows each. In prefill they are half "
     "of all bytes.",
     _ratio(q_and_o=lambda x: 0),
     _ratio(change=lambda right, x: 2 * x.heads // x.kv_heads * x.n_q / x.b)),
    ("O is forgotten", "o is written: as many rows as q has.",
     _ratio(q_and_o=lambda x: _q_and_o(x) / 2)),
    ("heads and kv_heads are exchanged",
     "q and o have rows for every query head, K and V for kv_heads alone.",
     _ratio(q_and_o=lambda x: 2 * x.batch * x.kv_heads * x.n_q * x.head_dim * x.b,
            k_and_v=_cached(lambda x: x.heads, lambda x: x.rows))),
    ("causal halves the products",
     "nothing is masked here: all n_q * n_k scores of a head are computed, and both products.",
     _ratio(change=lambda right, x: right / 2 if x.n_q == x.n_k > 1 else right),
     _ratio(change=lambda right, x: right / 2 if x.n_q == x.n_k else right),
     _ratio(change=lambda right, x: right / 2 if x.n_q > 1 else right)),
    ("Q and O have kv_heads heads", "q and o have rows for every query head: heads, not kv_heads.",
     _ratio(q_and_o=lambda x: 2 * x.batch * x.kv_heads * x.n_q * x.head_dim * x.b)),
    ("Q and O have one row a head",
     "each of the n_q queries has a row of q and one of o.",
     _ratio(q_and_o=lambda x: _q_and_o(x) / x.n_q)),
    ("Q and O are those of one sequence",
     "q and o have rows for every sequence: nobody shares those.",
     _ratio(q_and_o=lambda x: _q_and_o(x) / x.batch)),
    ("only one of K and V is read", "K and V are two tensors of one size: both are read.",
     _ratio(k_and_v=lambda x: _k_and_v(x) / 2)),
    ("only one of two products is counted",
     "a query and a key make 2 d FLOPs for the score and 2 d for the values: 4 d.",
     _ratio(flops=lambda x: _flops(x) / 2)),
    ("one FLOP a query, key and number",
     "each product of two numbers is added to something: two FLOPs, so 4 d a query and key.",
     _ratio(flops=lambda x: _flops(x) / 4)),
    ("elements instead of bytes", "a number has b bytes: multiply by it.",
     _ratio(change=lambda right, x: right * x.b)),
    ("two bytes, whatever b is", "a number has b bytes, and that is not always 2.",
     _ratio(change=lambda right, x: right * x.b / 2)),
    ("causal halves the products",
     "here each query meets each of its n_k keys: there is no discount for causal.",
     _ratio(flops=lambda x: _flops(x) * (1 - x.n_q / 2 / x.n_k)),
     _ratio(flops=lambda x: _flops(x) * (1 - (x.n_q - 1) / 2 / x.n_k))),
    ("each query reads K and V for itself",
     "the n_q queries of a sequence share its K and V: at the least, a row is read once for all "
     "of them.",
     _ratio(k_and_v=lambda x: _k_and_v(x) * x.n_q)),
    ("a shared prefix makes all keys shared",
     "only the first shared_prefix rows are everybody's: each sequence has n_k - shared_prefix "
     "rows of its own.",
     _ratio(k_and_v=_cached(lambda x: x.kv_heads,
                            lambda x: x.n_k if x.shared_prefix else x.batch * x.n_k))),
    ("the lse is counted",
     "lse has 4 bytes a row, or b. Only q, k, v and o are asked for: leave it out.",
     _ratio(q_and_o=lambda x: _q_and_o(x) + 4 * x.query_rows),
     _ratio(q_and_o=lambda x: _q_and_o(x) + x.b * x.query_rows)),
    ("the scores go to memory", "scores and weights are not written down: of them no byte counts.",
     _ratio(q_and_o=lambda x: _q_and_o(x) + 4 * x.query_rows * x.n_k * x.b)),
    ("the ratio is upside down", "FLOP per byte: FLOPs over bytes.",
     _ratio(change=lambda right, x: 1 / right)),
    ("whole division", "// drops what is left over: use /.",
     _ratio(change=lambda right, x: right // 1)),
)  # fmt: skip


EXERCISE = Exercise.of(
    "10.1",
    cases=_cases,
    truth=_ratio(),
    judge=within(1e-6),
    spared=dict.fromkeys(HARD, "counts bytes and operations"),
    mistakes=_MISTAKES,
)
