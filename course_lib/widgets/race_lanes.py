"""What the lanes of the Race are made of: every load and store, in order, on a traffic clock.

A lane is a list of kernels, a kernel a list of programs, a program a list of moves (a tile crosses
between memory and chip). `schedule` lets programs run side by side and says when each move begins
and ends: bytes over bandwidth, **a traffic clock, never measured time**.

What crosses to the chip's cores is an upper bound on what crosses HBM, since L2 serves part of it.
``least`` of an event is its share of a lower bound, with caches that start empty: every input row
crosses once, every output row once, and of a matrix that is written and read again (S, P) each trip
crosses with what does not fit into L2.

What JavaScript computes too is held against Python in tests/widgets/test_javascript.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from course_lib.accounting.eager_ledger import EagerLedger
    from course_lib.accounting.ledger import Visit

MOST_EVENTS = 4000
"""Above this many a program moves all its tiles of a tensor in one event."""

Span = tuple[int, int]
Kind = Literal["load", "store"]


class Move(NamedTuple):
    """One tile between memory and chip; rows and cols are (first, last + 1)."""

    tensor: str
    rows: Span
    cols: Span
    kind: Kind
    n_bytes: int


Program = list[Move]
Kernel = list[Program]


class Event(NamedTuple):
    """A `Move` on the clock, seconds; ``least`` bytes of it must cross HBM."""

    tensor: str
    rows: Span
    cols: Span
    kind: Kind
    program: int
    n_bytes: int
    t0: float
    t1: float
    least: float


class Shape(NamedTuple):
    """Sizes of one head of attention: rows of Q and of K, head dimension, tiles, bytes a number."""

    n_q: int
    n_k: int
    d: int
    block_q: int
    block_k: int
    causal: bool
    b: int


def tiles(n: int, block: int) -> list[Span]:
    """Return the row ranges of n rows cut into tiles of ``block``, the last one clipped."""
    return [(first, min(first + block, n)) for first in range(0, n, block)]


def flash_kernels(shape: Shape) -> list[Kernel]:
    """Return FlashAttention's moves: one program a Q tile, tiles without a visible key skipped."""
    n_q, n_k, d, block_q, block_k, causal, b = shape
    row, many = d * b, len(tiles(n_q, block_q)) * len(tiles(n_k, block_k)) * 2 > MOST_EVENTS

    def program(rows: Span) -> Program:
        def move(tensor: str, rows: Span, kind: Kind = "load") -> Move:
            return Move(tensor, rows, (0, d), kind, (rows[1] - rows[0]) * row)

        end = rows[1] + n_k - n_q if causal else n_k  # causal: aligned at the end
        keys = [(0, min(-(-end // block_k) * block_k, n_k))]
        if not many:
            keys = tiles(keys[0][1], block_k)
        walk = [move(name, tile) for tile in keys for name in "kv"]
        return [move("q", rows), *walk, move("o", rows, "store")]

    return [[program(rows) for rows in tiles(n_q, block_q)]]


NAIVE = ((("q", "k"), ("s",)), (("s",), ("p",)), (("p", "v"), ("o",)))
"""Naive attention's kernels, what each reads and writes: S = Q K^T, P = softmax(S), O = P V."""


def naive_kernels(
    shape: Shape, operations: Sequence[Sequence[Sequence[str]]] = NAIVE
) -> list[Kernel]:
    """Return the moves of one kernel after the other, cut into tiles.

    As `EagerLedger` counts: a kernel reads each input once and writes its outputs once. A program
    is a row of tiles; K and V come with the first.
    """
    n_q, n_k, d, block_q, block_k, _, b = shape
    keys, rows_of_tiles = tiles(n_k, block_k), tiles(n_q, block_q)
    if len(keys) * len(rows_of_tiles) * 4 > MOST_EVENTS:
        keys = [(0, n_k)]

    def moves(tensor: str, rows: Span, kind: Kind) -> list[Move]:
        if tensor in ("k", "v"):
            cut = [(tile, (0, d)) for tile in keys] if rows[0] == 0 else []
        elif tensor in ("q", "o"):
            cut = [(rows, (0, d))]
        else:
            cut = [(rows, tile) for tile in keys]
        return [Move(tensor, r, c, kind, (r[1] - r[0]) * (c[1] - c[0]) * b) for r, c in cut]

    def program(reads: Sequence[str], writes: Sequence[str], rows: Span) -> Program:
        loads = [move for name in reads for move in moves(name, rows, "load")]
        return loads + [move for name in writes for move in moves(name, rows, "store")]

    return [[program(reads, writes, r) for r in rows_of_tiles] for reads, writes in operations]


def operations_of(ledger: EagerLedger, shape: Shape) -> list[list[list[str]]]:
    """Return what each operator of an eager run read and wrote, in the names of `naive_kernels`.

    The matrices of scores are s, s2, ... and, the last of them, p.

    Raises:
        ValueError: if something crossed that is neither Q, K, V, O nor a matrix of scores, or if
            the two cannot be told apart (n_k equals d).
    """
    small = {shape.n_q * shape.d * shape.b, shape.n_k * shape.d * shape.b}
    large = {shape.n_q * shape.n_k * shape.b} - small
    scores = [crossing.tensor for crossing in ledger.crossings if crossing.n_bytes in large]
    scores = list(dict.fromkeys(scores))
    named = ["s", *(f"s{i}" for i in range(2, len(scores))), "p"]
    names = dict(zip(scores, named, strict=False)) | {"q": "q", "k": "k", "v": "v"}
    operations: list[list[list[str]]] = []
    before = ("", "read")  # operator and direction
    for op, tensor, direction, n_bytes, _ in ledger.crossings:
        name = names.get(tensor, "o" if direction == "written" else None)
        if name is None or n_bytes not in small | large or not large:
            raise ValueError(
                f"ledger must hold one head's q, k, v, O and scores alone, with n_k other than d; "
                f"{op} moved {tensor!r}, {n_bytes} bytes."
            )
        if before[0] != op or (before[1], direction) == ("written", "read"):
            operations.append([[], []])
        operations[-1][direction == "written"].append(name)
        before = (op, direction)
    return operations


def schedule(
    kernels: Sequence[Kernel], at_once: int, gb_per_s: float, l2_bytes: int
) -> list[Event]:
    """Return every move on the clock: ``at_once`` programs share the bandwidth, in program order.

    The moves of programs that run side by side begin and end together. A kernel begins when the
    one before it has ended.
    """
    if sum(len(program) for kernel in kernels for program in kernel) > MOST_EVENTS:
        kernels = [[coarse(program) for program in kernel] for kernel in kernels]
    least = _Least(kernels, l2_bytes)
    events: list[Event] = []
    done = 0
    for kernel in kernels:
        waiting = [(number, list(program)) for number, program in enumerate(kernel) if program]
        active: list[tuple[int, Program]] = []
        while waiting or active:
            free = at_once - len(active)
            active, waiting = active + waiting[:free], waiting[free:]
            now = [(number, program.pop(0)) for number, program in active]
            active = [entry for entry in active if entry[1]]
            t0 = done / (gb_per_s * 1e9)
            done += sum(move.n_bytes for _, move in now)
            t1 = done / (gb_per_s * 1e9)
            events += [Event(*m[:4], p, m.n_bytes, t0, t1, least.of(m)) for p, m in now]
    return events


def coarse(program: Program) -> Program:
    """Return one move for all that a program loads (or stores) of a tensor."""
    merged: dict[tuple[str, str], Move] = {}
    for move in program:
        before = merged.get((move.tensor, move.kind), move._replace(n_bytes=0))
        merged[move.tensor, move.kind] = Move(
            move.tensor, _hull(before.rows, move.rows), _hull(before.cols, move.cols), move.kind,
            before.n_bytes + move.n_bytes,
        )  # fmt: skip
    return list(merged.values())


def _hull(a: Span, b: Span) -> Span:
    return min(a[0], b[0]), max(a[1], b[1])


class _Least:
    """How much of a move must cross HBM, whatever L2 does; knows what has moved before."""

    def __init__(self, kernels: Sequence[Kernel], l2_bytes: int) -> None:
        moves = [move for kernel in kernels for program in kernel for move in program]
        sizes = Counter[str]()
        for move in moves:
            if move.kind == "store":
                sizes[move.tensor] += move.n_bytes
        loaded = {move.tensor for move in moves if move.kind == "load"}
        self.spilt = {
            name: max(0, size - l2_bytes) / size for name, size in sizes.items() if name in loaded
        }
        self.rows = 1 + max((move.rows[1] for move in moves), default=0)
        self.seen: dict[str, bytearray] = {}

    def of(self, move: Move) -> float:
        if move.tensor in self.spilt:
            return move.n_bytes * self.spilt[move.tensor]
        seen, (first, end) = self.seen.setdefault(move.tensor, bytearray(self.rows)), move.rows
        new = seen.count(0, first, end)
        seen[first:end] = b"\1" * (end - first)
        return move.n_bytes * new / (end - first)


# A ledger's visits, replayed -----------------------------------------------------------------


def kernels_of(visits: Sequence[Visit], columns: dict[str, int]) -> list[Kernel]:
    """Return a ledger's visits as kernels of programs, in the order in which they ran.

    A program begins where the program id changes, and, in a memory that knows none, with the first
    load after a store. A kernel begins where the ids begin again. ``columns`` of each tensor.
    """
    kernels: list[Kernel] = [[]]
    known = len({visit.program for visit in visits}) > 1
    seen: set[tuple[int, int, int]] = set()
    last: Any = None
    for visit in visits:
        if last is None or (
            visit.program != last.program if known else (last.kind, visit.kind) == ("store", "load")
        ):
            if known and visit.program in seen:
                kernels, seen = [*kernels, []], set()
            seen.add(visit.program)
            kernels[-1].append([])
        name = role(visit.tensor)
        cols = (0, columns[visit.tensor])
        move = Move(name, (visit.rows[0], visit.rows[1]), cols, visit.kind, visit.n_bytes)
        kernels[-1][-1].append(move)
        last = visit
    return kernels


_ROLES = {"query": "q", "key": "k", "value": "v", "out": "o", "output": "o", "l": "lse", "m": "lse"}


def role(parameter: str) -> str:
    """Return what a kernel's parameter is: ``q_ptr`` is q, ``Out`` is o; else its own name."""
    name = parameter.lower().removesuffix("_ptr").removesuffix("_desc").removesuffix("_pointer")
    return _ROLES.get(name, name)


def first_difference(mine: Sequence[Event], right: Sequence[Event]) -> int | None:
    """Return the index of the first event of mine that is not the right lane's, None if none.

    The log-sum-exp is left out: a kernel may store it or not.
    """
    own, theirs = ([e[:6] for e in lane if e.tensor != "lse"] for lane in (mine, right))
    places = [index for index, event in enumerate(mine) if event.tensor != "lse"]
    for place, pair in zip(places, zip(own, theirs, strict=False), strict=False):
        if pair[0] != pair[1]:
            return place
    if len(own) == len(theirs):
        return None
    return (*places, len(mine))[min(len(own), len(theirs))]
