"""What a kernel loads, stores and multiplies, held against the least, in every case.

Numbers are counted, not bytes, since a launcher may convert its inputs; and by tensor, whatever a
parameter is called. Where lengths are no multiple of the tiles, whole tiles may be loaded: with
addresses that wrap round, or with padded inputs, a right kernel does that.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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
SHARES = "one program per tile"
_ADDED = (
    "`{0}` is read as well as stored. If it is added up in memory: let the program that owns a "
    "tile of `{0}` keep its sum, and store it once."
)
_WIDTHS = {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int16": 2, "int8": 1, "bool": 1}


@dataclass(frozen=True, kw_only=True)
class Least:
    """The least that a kernel must do in one case.

    rule: what is counted, in words. loads: how many numbers are loaded of each of the inputs, in
    the order of the arguments. stores: how many numbers are stored in all, None: that is free.
    tiles: of an input, what the call says ("block_k=32") and how many numbers one load takes.
    flops: of ``tl.dot``, None: that is free. idle: loads may be masked whole. properties: what it
    is called if too much of an input is loaded, where that is not `MOVES`. share: what one program
    owns, in words, and the most numbers that it stores then; None: programs share as they like.
    """

    rule: str
    loads: Mapping[str, int]
    stores: int | None = None
    tiles: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    flops: int | None = None
    idle: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    share: tuple[str, int] | None = None


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
        return _tiles(runs, wanted) or finding or _share(runs, wanted) or _work(books, runs, wanted)

    return judge


def copies_nothing(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask that launches are given the inputs' own memory, and that there is one o."""
    if observed.origins is None:
        return None
    q = case.args[0]
    size = q.numel() * q.element_size()
    lse = 4 * q.numel() // q.shape[-1]
    copied = ", ".join(f"`{'qkv'[i]}`" for i in sorted(observed.origins.copied) if i < 3)
    if not copied and (observed.allocated or 0) > 1.5 * size + lse:
        copied = "something as large as `o`"
    if not copied:
        return None
    return _finding(
        COPIES,
        f"the numbers are right, but the launcher copies {copied}: something like `.contiguous()`, "
        "`.clone()` or `.repeat_interleave()` does that. Here nothing is copied.",
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
        share=("a tile of queries of one head", block_q * (d + with_lse)) if tiles else None,
    )


def _with_names(books: Any, origins: Any, names: list[str]) -> list[tuple[Any, dict[str, str]]]:
    """Return each launch with what its tensors are called: an input's name, whatever a parameter is
    called; else the parameter's, which may be an input's where that input was found in no launch.
    """
    of_place = dict(enumerate(names))
    runs = [
        (run, {p: of_place.get(held.get(p)) for p in run.tensors})
        for run, held in zip(books.launches, origins.launches, strict=True)
    ]
    found = {name for _, called in runs for name in called.values()}
    return [
        (run, {p: x or (f"another {p}" if p in found else p) for p, x in called.items()})
        for run, called in runs
    ]


def _loads(runs: list[tuple[Any, dict[str, str]]], wanted: Least) -> Finding | None:
    got: Counter[str] = Counter()
    for run, called in runs:
        for parameter, n_bytes in run.read.items():
            got[called[parameter]] += n_bytes // _width(run, parameter)
    picture = TrafficBars.of("loads", got, wanted.loads, "numbers")
    for name, most in wanted.loads.items():
        if got[name] > most:
            return _finding(
                wanted.properties.get(name, MOVES),
                f"the numbers are right, but your kernel loads {got[name]:,} numbers of `{name}` "
                f"where {most:,} are enough: {wanted.rule}.",
                picture=picture,
            )
    loaded, most = got.total(), sum(wanted.loads.values())
    if loaded > most and any(not got[name] for name in wanted.loads):
        says = f"loads {loaded:,} numbers in all where {most:,} are enough: {wanted.rule}."
        return _finding(MOVES, f"the numbers are right, but your kernel {says}", picture=picture)
    return None


def _stores(books: Any, wanted: Least) -> Finding | None:
    widths = {name: _width(run, name) for run in books.launches for name in run.tensors}
    stored = sum(n_bytes // widths.get(name, 4) for name, n_bytes in books.written.items())
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


def _tiles(runs: list[tuple[Any, dict[str, str]]], wanted: Least) -> Finding | None:
    taken = [(called[p], lanes) for run, called in runs for p, lanes in run.widest.items()]
    for name, lanes in taken:
        said, width = wanted.tiles.get(name, ("", lanes))
        if lanes != width:
            return _finding(
                TILES,
                f"the numbers are right, but one load takes {lanes:,} numbers of `{name}`, and a "
                f"tile of this call has {width:,} ({said}).",
                look="let the tiles of the kernel have the sizes that the launcher is called with.",
            )
    return None


def _share(runs: list[tuple[Any, dict[str, str]]], wanted: Least) -> Finding | None:
    # a launch that holds no input puts together what others made: not what the rule is about
    owned, most = wanted.share or ("", math.inf)
    for run, called in runs:
        stored = max(run.stored.values(), default=0)
        if stored <= most or wanted.loads.keys().isdisjoint(called.values()):
            continue
        return _finding(
            SHARES,
            f"the numbers are right, but one program alone stores {stored:,} numbers, and {owned} "
            f"has {most:,}: on a GPU programs run side by side, and the more of them have work, "
            "the more of it works.",
            look=f"let each program do {owned}, and none go through what belongs to another.",
        )
    return None


def _work(books: Any, runs: list[tuple[Any, dict[str, str]]], wanted: Least) -> Finding | None:
    # a launch that holds no input puts together what others made: not what the rule is about
    idle = sum(
        run.idle for run, called in runs if not wanted.loads.keys().isdisjoint(called.values())
    )
    if wanted.flops is not None and books.flops > wanted.flops:
        return _finding(
            MULTIPLIES,
            f"the numbers are right, but tl.dot multiplies {books.flops / wanted.flops:.3g} times "
            f"as much as the tiles need ({books.flops:,} FLOPs, {wanted.flops:,} are enough): some "
            "tile is computed in which nothing counts, or one is computed twice.",
            look=f"{idle} loads bring nothing, since their mask is False everywhere: does a "
            "loop run past the last key, or a program begin past the last row?"
            if idle
            else "print the first and the last turn of each loop, and the number of programs.",
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


def _width(run: Any, parameter: str) -> int:
    """Return the bytes of a number of a launch's tensor."""
    return _WIDTHS.get(run.tensors[parameter][2], 4)
