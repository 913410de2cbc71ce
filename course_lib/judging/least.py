"""What a kernel loads, stores and multiplies, held against the least, in every case.

Numbers are counted, not bytes, since a launcher may convert its inputs; and by tensor, whatever a
parameter is called: one in which several inputs are packed counts for all of them. Where lengths
are no multiple of the tiles, whole tiles may be loaded: with addresses that wrap round, or with
padded inputs, a right kernel does that.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from course_lib.accounting.traffic import derived_counts
from course_lib.judging.finding import Finding
from course_lib.judging.judges import Judge
from course_lib.judging.picture import Bar, TrafficBars
from course_lib.judging.spec import Case, Observed

MOVES = "moves only what it must"
TILES = "uses the tile sizes of the call"
MULTIPLIES = "multiplies only the tiles it must"
WORKS = "every load has work"
COPIES = "copies nothing"
DOTS = "multiplies with tl.dot"
SHARES = "one program per tile"
_ADDED = (
    "`{0}` is read as well as stored. If it is added up in memory: let the program that owns a "
    "tile of `{0}` keep its sum, and store it once."
)
_TOO_WIDE = (
    "so many numbers fit into the tiles of `{0}` that must be loaded, so look at the mask of that "
    "load first: which of the rows that it lets through belong to somebody else, or to nobody?"
)
Called = dict[str, frozenset[str]]  # a launch's parameter -> the inputs that it holds


@dataclass(frozen=True, kw_only=True)
class Least:
    """The least that a kernel must do in one case.

    rule: what is counted, in words. loads: how many numbers are loaded of each of the inputs, in
    the order of the arguments. stores: how many numbers are stored in all, None: that is free.
    tiles: of an input, what the call says ("block_k=32") and how many numbers one load takes.
    flops: of ``tl.dot``, None: that is free. dots: of them, those without which the products are
    made in another way; 0: they may be. idle: loads may be masked whole. properties: what it is
    called if too much of an input is loaded, where that is not `MOVES`. share: what one program
    owns, in words, and the most numbers that it stores then; None: programs share as they like.
    unmasked: of an input, how many numbers the tiles that must be met have in all: who loads more
    than the least, but no more than these, has a mask that lets too much through.
    whole: what the call says ("block_rows=4") and how many numbers a program stores whose tile is
    not short. dotted: what the call says, and the size that each ``tl.dot`` has on some side.
    """

    rule: str
    loads: Mapping[str, int]
    stores: int | None = None
    tiles: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    flops: int | None = None
    dots: int = 0
    idle: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    share: tuple[str, int] | None = None
    unmasked: Mapping[str, int] = field(default_factory=dict)
    whole: tuple[str, int] | None = None
    dotted: tuple[str, int] | None = None


def counted(least: Callable[[Case], Least]) -> Judge:
    """Return a judge that holds what was counted in a case against ``least(case)``."""

    def judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
        books, origins = observed.ledger, observed.origins
        if books is None or origins is None:
            return None
        wanted = least(case)
        runs = _with_names(books, origins, list(wanted.loads))
        own = [x for x in books.read if x in books.written and origins.input_of(x) is None]
        finding = _loads(runs, wanted) or _stores(books, wanted)
        if own and wanted.stores is not None:
            finding = replace(finding or _read_back(own[0], wanted), look=_ADDED.format(own[0]))
        finding = _tiles(runs, wanted) or finding or _share(runs, wanted)
        return finding or _other_tiles(books, runs, wanted) or _work(books, runs, wanted)

    return judge


def copies_nothing(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask that launches are given the inputs' own memory, and that there is one o."""
    if observed.origins is None:
        return None
    q = case.args[0]
    size = q.numel() * q.element_size()
    lse = 4 * q.numel() // q.shape[-1]
    copied = ", ".join(f"`{'qkv'[i]}`" for i in sorted(observed.origins.copied) if i < 3)
    how = "something like `.contiguous()`, `.clone()` or `.repeat_interleave()` does that"
    does = f"copies {copied}: {how}"
    if not copied:
        if (allocated := observed.allocated or 0) <= 1.5 * size + lse:
            return None
        does = (
            f"holds {allocated:,} bytes at once beside its inputs, and `o` and `lse` are "
            f"{size + lse:,}. Is `o` made larger than it is, or is something copied? If so, {how}"
        )
    return _finding(
        COPIES,
        f"the numbers are right, but the launcher {does}. Here nothing is copied.",
        look="give the kernel the tensor itself and its strides, and let each program find its "
        "key/value head.",
    )


def attention_least(case: Case, *, with_lse: bool, tiles: bool = True) -> Least:
    """Return the least of a case of q, k, v (B, H, N, d): Q, o, lse once, K and V per tile."""
    q, k = case.args[:2]
    n_q, n_k, d = q.shape[-2], k.shape[-2], q.shape[-1]
    heads = math.prod(q.shape[:-2])
    block_q, block_k = case.kwargs.get("block_q", n_q), case.kwargs.get("block_k", n_k)
    counts = derived_counts(n_q, n_k, block_q, block_k, bool(case.kwargs.get("causal")))
    keys, rows = counts["visited_k_rows"], n_q
    if not case.counted:
        keys, rows = counts["visited_tiles"] * block_k, counts["t_q"] * block_q
    said = {"q": "block_q", "k": "block_k", "v": "block_k"}
    wide = {
        name: (f"{size}={case.kwargs[size]}", case.kwargs[size] * d)
        for name, size in said.items()
        if tiles and size in case.kwargs
    }
    return Least(
        rule="q once, and k and v once for each tile of queries that sees a key of theirs; "
        f"o{' and lse' if with_lse else ''} stored once",
        loads={"q": heads * rows * d, "k": heads * keys * d, "v": heads * keys * d},
        stores=heads * rows * (d + with_lse),
        tiles=wide,
        flops=4 * heads * counts["visited_tiles"] * block_q * block_k * d,
        dots=4 * heads * counts["visible_pairs"] * d,
        share=("a tile of queries of one head", block_q * (d + with_lse)) if tiles else None,
        dotted=None if tiles or "block_k" not in case.kwargs else (f"block_k={block_k}", block_k),
    )


def _with_names(books: Any, origins: Any, names: list[str]) -> list[tuple[Any, Called]]:
    """Return each launch with what its tensors hold: inputs, whatever a parameter is called.

    One with numbers that come from nowhere may hold any of them, one that holds none is called as
    its parameter, which may be an input's where that input was found in no launch.
    """
    of_place, every = dict(enumerate(names)), frozenset(names)
    runs = [
        (run, {p: _named(held.get(p, frozenset()), of_place, every) for p in run.tensors})
        for run, held in zip(books.launches, origins.launches, strict=True)
    ]
    found = frozenset().union(*(these for _, called in runs for these in called.values()))
    return [
        (run, {p: x or frozenset([f"another {p}" if p in found else p]) for p, x in called.items()})
        for run, called in runs
    ]


def _named(
    places: frozenset[int] | None, of_place: dict[int, str], every: frozenset[str]
) -> frozenset[str]:
    if places is None:
        return every
    return frozenset(of_place[at] for at in places if at in of_place)


def _loads(runs: list[tuple[Any, Called]], wanted: Least) -> Finding | None:
    of: Counter[frozenset[str]] = Counter()
    for run, called in runs:
        for parameter, numbers in run.loaded.items():
            of[called[parameter]] += numbers
    got = Counter({name: numbers for (name, *more), numbers in of.items() if not more})
    picture = TrafficBars.of("loads", got, wanted.loads, "numbers")
    for name, most in wanted.loads.items():
        if got[name] > most:
            return _finding(
                wanted.properties.get(name, MOVES),
                f"the numbers are right, but your kernel loads {got[name]:,} numbers of `{name}` "
                f"where {most:,} are enough: {wanted.rule}.",
                picture=picture,
                look=_TOO_WIDE.format(name) if got[name] <= wanted.unmasked.get(name, 0) else "",
            )
    for these in _together(of, wanted):
        loaded = sum(numbers for held, numbers in of.items() if held <= these)
        most = sum(wanted.loads[name] for name in these)
        if loaded > most:
            names = ", ".join(f"`{name}`" for name in wanted.loads if name in these)
            return _finding(
                MOVES,
                f"the numbers are right, but your kernel loads {loaded:,} numbers of {names} "
                f"together, from tensors that hold several of them, where {most:,} are enough: "
                f"{wanted.rule}.",
            )
    loaded, most = of.total(), sum(wanted.loads.values())
    if loaded > most and any(not any(name in held for held in of) for name in wanted.loads):
        says = f"loads {loaded:,} numbers in all where {most:,} are enough: {wanted.rule}."
        return _finding(MOVES, f"the numbers are right, but your kernel {says}", picture=picture)
    return None


def _together(of: Counter[frozenset[str]], wanted: Least) -> Iterator[frozenset[str]]:
    """Yield the inputs that tensors hold together, and what more of them makes together."""
    packed = [held for held in of if len(held) > 1 and held <= wanted.loads.keys()]
    for size in range(1, len(wanted.loads) + 1) if packed else ():
        for these in map(frozenset, combinations(wanted.loads, size)):
            if any(held <= these for held in packed):
                yield these


def _stores(books: Any, wanted: Least) -> Finding | None:
    stored = sum(sum(run.stored.values()) for run in books.launches)
    if wanted.stores is None or stored <= wanted.stores:
        return None
    return _finding(
        MOVES,
        f"the numbers are right, but your kernel stores {stored:,} numbers where "
        f"{wanted.stores:,} are enough: {wanted.rule}.",
        picture=TrafficBars("stores", (Bar("all outputs", stored, wanted.stores),), "numbers"),
    )


def _read_back(name: str, wanted: Least) -> Finding:
    return _finding(
        MOVES,
        f"the numbers are right, but your kernel reads `{name}`, which it makes itself (an atomic "
        f"addition reads, too): {wanted.rule}.",
    )


def _tiles(runs: list[tuple[Any, Called]], wanted: Least) -> Finding | None:
    taken = [(called[p], lanes) for run, called in runs for p, lanes in run.widest.items()]
    for held, lanes in taken:
        said = [wanted.tiles[name] for name in wanted.tiles if name in held]
        if len(said) < len(held) or lanes in [width for _, width in said]:
            continue
        name = min(held)
        call, width = wanted.tiles[name]
        return _finding(
            TILES,
            f"the numbers are right, but one load takes {lanes:,} number{'s' * (lanes > 1)} of "
            f"`{name}`, and a tile of this call has {width:,} ({call}).",
            look="let the tiles of the kernel have the sizes that the launcher is called with.",
        )
    return None


def _share(runs: list[tuple[Any, Called]], wanted: Least) -> Finding | None:
    # a launch that holds no input puts together what others made: not what the rule is about
    owned, most = wanted.share or ("", math.inf)
    for run, called in runs:
        stored = max(run.stored.values(), default=0)
        if stored <= most or not _holds_inputs(called, wanted):
            continue
        return _finding(
            SHARES,
            f"the numbers are right, but one program alone stores {stored:,} numbers, and {owned} "
            f"has {most:,}: on a GPU programs run side by side, and the more of them have work, "
            "the more of it works.",
            look=f"let each program do {owned}, and none go through what belongs to another.",
        )
    return None


def _other_tiles(books: Any, runs: list[tuple[Any, Called]], wanted: Least) -> Finding | None:
    """Ask that tiles have the call's sizes, where loads may have any."""
    call, most = wanted.whole or ("", 0)
    own = [run for run, called in runs if _holds_inputs(called, wanted)]
    stored = max((n for run in own for n in run.stored.values()), default=most)
    says = ""
    if stored < most:
        says = f"no program stores more than {stored:,} numbers, and a tile has {most:,}"
    if wanted.dotted and (odd := [sizes for sizes in books.dots if wanted.dotted[1] not in sizes]):
        call, says = wanted.dotted[0], "a tl.dot has the sizes {}, {} and {}".format(*odd[0])
    if not says:
        return None
    return _finding(
        TILES,
        f"the numbers are right, but {says} with {call}: the tiles are not those of the call.",
        look="let the tiles of the kernel have the sizes that the launcher is called with.",
    )


def _widest(books: Any) -> str:
    """Return in words which product of two tiles is the largest."""
    m, k, n = max(books.dots, key=math.prod)
    return f"the largest product is ({m}, {k}) by ({k}, {n})"


def _work(books: Any, runs: list[tuple[Any, Called]], wanted: Least) -> Finding | None:
    # a launch that holds no input puts together what others made: not what the rule is about
    idle = sum(run.idle for run, called in runs if _holds_inputs(called, wanted))
    if wanted.flops is not None and books.flops > wanted.flops:
        return _finding(
            MULTIPLIES,
            f"the numbers are right, but tl.dot multiplies {books.flops / wanted.flops:.3g} times "
            f"as much as the tiles need ({books.flops:,} FLOPs, {wanted.flops:,} are enough): some "
            "tile is computed in which nothing counts, a product is made twice or for nothing, or "
            f"tiles have more rows or keys than they should ({_widest(books)}).",
            look=f"{idle} loads bring nothing, since their mask is False everywhere: does a "
            "loop run past the last key, or a program begin past the last row?"
            if idle
            else "find each tl.dot: how many are there of one pair of tiles, and how often does "
            "each run, in all programs? One product of the whole tiles is enough.",
        )
    if books.flops < wanted.dots:
        return _finding(
            DOTS,
            f"the numbers are right, but tl.dot makes {books.flops:,} of the {wanted.dots:,} FLOPs "
            "that they need: what is multiplied in another way, tensor cores do not do.",
            look="write each product of two tiles as a tl.dot.",
        )
    if idle and not wanted.idle:
        return _finding(
            WORKS,
            f"the numbers are right, but {idle} of the loads bring nothing, since their "
            "mask is False everywhere: a block, or a program, too many. What is counted: "
            f"{wanted.rule}.",
            look="print the first offset of the last block: is it below the length?",
        )
    return None


def _finding(property: str, says: str, picture: Any = None, look: str = "") -> Finding:
    """Return a finding about what was counted, where the numbers are right."""
    return Finding(property, says, picture=picture, look=look, numbers_right=True)


def _holds_inputs(called: Called, wanted: Least) -> bool:
    return any(not wanted.loads.keys().isdisjoint(held) for held in called.values())
