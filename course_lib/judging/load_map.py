"""Which tiles of each input a kernel loaded, numbered in the order of its loads. Data, no drawing.

It is made from the ledger's visits and shown under a report on a kernel that failed. Inputs are
known by their numbers (`origins`), whatever a parameter is called; which program makes a load is
free, so a load is held against how often its tile is to be loaded in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from course_lib.accounting.ledger import FIRST_LOADS, Visit
from course_lib.judging.picture import plural, span

MOST_LINES, MOST_CELLS = 8, 12  # of the grid of an input
_MOST_NUMBERS = 3  # in a cell

Cell = tuple[int, int]  # tile row, tile column
Range = tuple[int, int]  # first, last + 1


@dataclass(frozen=True)
class Cut:
    """How an input is cut: the rows and columns of a tile (of a vector: entries, and 1).

    ``times``: how often each tile is to be loaded, all programs together; (tile rows, tile columns)
    where they differ, 0 where nobody needs it.
    """

    tile: tuple[int, int]
    times: Any = 1


@dataclass(frozen=True)
class Load:
    """One load of an input: it touches the tiles from ``first`` to ``last``; ``is_whole`` if just
    these. Its lanes lie in ``rows`` and ``columns``; where they are spread, no more is known. If
    there are more of them than entries, ``is_doubled``.
    """

    number: int
    tensor: str
    program: tuple[int, ...]
    rows: Range
    columns: Range
    first: Cell
    last: Cell
    is_whole: bool
    is_doubled: bool = False

    @property
    def why(self) -> str:
        """Why it is not as asked, if it is no whole tile."""
        return "some of them more than once" if self.is_doubled else "that is no whole tile"

    @property
    def cells(self) -> tuple[slice, slice]:
        """The tiles that it touches, as an index."""
        return slice(self.first[0], self.last[0] + 1), slice(self.first[1], self.last[1] + 1)

    def touches(self, cell: Cell) -> bool:
        """Return whether it touches a tile."""
        return all(a <= n <= b for a, n, b in zip(self.first, cell, self.last, strict=True))


@dataclass(frozen=True)
class Shown:
    """What stands in a cell of the picture: numbers of loads, or a sign. ``is_marked``: here is
    the first load that is not as asked.
    """

    text: str
    is_loaded: bool
    is_marked: bool = False


NEVER, FREE = "–", "·"  # signs of a tile that is not loaded: wrongly, and rightly
MARK = "*"  # before what is marked


@dataclass(frozen=True, eq=False)
class Plane:
    """One input: its shape as a matrix, its tiles, and the loads that touch it, in order."""

    name: str
    shape: tuple[int, int]
    tile: tuple[int, int]
    is_vector: bool
    times: np.ndarray
    itemsize: int
    loads: tuple[Load, ...]

    def said(self, rows: Range, columns: Range) -> str:
        """Return a range of rows and columns in words; columns only if they are not all."""
        word = "entry" if self.is_vector else "row"
        says = span(word, rows[0], rows[1] - 1)
        if self.is_vector or columns == (0, self.shape[1]):
            return says
        return f"{says}, {span('column', columns[0], columns[1] - 1)}"

    def ranges(self, cell: Cell) -> tuple[Range, Range]:
        """Return the rows and columns of a tile."""
        (r, c), (i, j) = self.tile, cell
        return (i * r, min((i + 1) * r, self.shape[0])), (j * c, min((j + 1) * c, self.shape[1]))

    @property
    def heading(self) -> str:
        """What the input is called, and what a cell of the picture is."""
        rows, columns = self.tile
        word = "entry" if self.is_vector else "row"
        says = _many(rows, word)
        if not self.is_vector and columns < self.shape[1]:
            says += f", {_many(columns, 'column')}"
        return f"{self.name}, tiles of {says}"

    @property
    def never(self) -> list[Cell]:
        """The tiles that are to be loaded and are not."""
        return [(int(i), int(j)) for i, j in np.argwhere((self.times > 0) & (self.often == 0))]

    @cached_property
    def often(self) -> np.ndarray:
        """How often each tile was touched."""
        often = np.zeros(self.times.shape, int)
        for load in self.loads:
            often[load.cells] += 1
        return often


@dataclass(frozen=True, eq=False)
class LoadMap:
    """The loads of a case. ``is_cut``: there were more than are kept, so none is missed."""

    planes: tuple[Plane, ...]
    is_cut: bool

    @cached_property
    def loads(self) -> list[Load]:
        """Every load, in order."""
        return sorted((x for plane in self.planes for x in plane.loads), key=lambda x: x.number)

    @cached_property
    def wrong(self) -> dict[int, str]:
        """Number -> why a load is not as asked.

        A program that takes a tile again is wrong where some tile is taken too seldom.
        """
        of = {plane.name: plane for plane in self.planes}
        often = {plane.name: np.zeros(plane.times.shape, int) for plane in self.planes}
        by: dict[tuple[str, tuple[int, ...]], np.ndarray] = {}  # the same, of one program
        found = {}
        for load in self.loads:
            plane = of[load.tensor]
            where = f"{plane.said(load.rows, load.columns)} of `{plane.name}`"
            short = not self.is_cut and (plane.often < plane.times).any()
            in_all, times = often[plane.name][load.cells], plane.times[load.cells]
            its = by.setdefault((plane.name, load.program), np.zeros(plane.times.shape, int))
            again = (short and its[load.cells].any()) or (in_all >= times).any()
            who = f"program {self._told(load.program)}"
            if not load.is_whole:
                found[load.number] = f"{who} touches {where}, and {load.why}"
            elif not times.all():
                found[load.number] = f"{who} takes {where}, which nobody needs"
            elif again:
                found[load.number] = f"{who} takes {where} once more"
            in_all += 1  # a view
            its[load.cells] += 1
        return found

    def _told(self, program: tuple[int, ...]) -> str:
        if not any(any(load.program[1:]) for load in self.loads):
            return str(program[0])
        return str(program[: 3 if any(any(x.program[2:]) for x in self.loads) else 2])

    @property
    def first_wrong(self) -> int:
        """The number of the first load that is not as asked, 0 if there is none."""
        return min(self.wrong, default=0)

    @property
    def is_all_wrong(self) -> bool:
        """Whether no load is as asked: a picture of that would show nothing."""
        return len(self.wrong) == len(self.loads)

    def caption(self) -> str:
        """Say in a few sentences what the loads are."""
        n, wrong = len(self.loads), self.wrong.get(self.first_wrong, "")
        if not n:
            return f"Your kernel loads nothing of {self._names}."
        which = f"The first {n} loads" if self.is_cut else f"The {n} loads"
        says = f"{which} of your kernel that bring numbers, in order."
        if n == 1:
            says = "The only load of your kernel."
        if self.is_all_wrong:
            says += f" None is as asked: {wrong}." if n > 1 else f" It is not as asked: {wrong}."
        elif wrong:
            says += f" Number {self.first_wrong} goes wrong first: {wrong}."
        else:
            says += f" {'Each' if n > 1 else 'It'} takes what is asked for."
        return says + self._told_never()

    @property
    def _names(self) -> str:
        return " and ".join(f"`{plane.name}`" for plane in self.planes)

    def key(self) -> dict[str, str]:
        """Return what each sign in the picture means."""
        free = "not among these" if self.is_cut else "not to be loaded"
        return {MARK: "goes wrong first", NEVER: "never loaded", FREE: free}

    @cached_property
    def _never(self) -> list[str]:
        return [
            f"{plane.said(*plane.ranges(cell))} of `{plane.name}`"
            for plane in self.planes
            for cell in plane.never
        ]

    def _told_never(self) -> str:
        if self.is_cut or not self._never:
            return ""
        more = f", and {len(self._never) - 1} more tiles" if len(self._never) > 2 else ""
        few = self._never[:1] if more else self._never
        return f" Never loaded: {'; '.join(few)}{more}."

    def lines(self, plane: Plane, most_cells: int = MOST_CELLS) -> list[tuple[str, list[Shown]]]:
        """Return the picture of an input, (label, cells) a line; around what is marked if it is
        large.
        """
        marked = next((x.first for x in plane.loads if x.number == self.first_wrong), (0, 0))
        down, across = plane.times.shape
        if down > 1 and across == 1:  # a column of tiles lies down
            rows = _window(down, most_cells, marked[0])
            shown = [self._shown(plane, (i, 0)) for i in rows]
            return [(span("tile", rows[0], rows[-1]), shown)]
        columns = _window(across, most_cells, marked[1])
        if down == 1:
            shown = [self._shown(plane, (0, j)) for j in columns]
            return [(span("tile", columns[0], columns[-1]), shown)]
        return [
            (
                plane.said(plane.ranges((i, 0))[0], (0, plane.shape[1])),
                [self._shown(plane, (i, j)) for j in columns],
            )
            for i in _window(down, MOST_LINES, marked[0])
        ]

    def left_out(self, plane: Plane, most_cells: int = MOST_CELLS) -> int:
        """Return how many tiles of an input are not drawn."""
        return plane.times.size - sum(len(cells) for _, cells in self.lines(plane, most_cells))

    def _shown(self, plane: Plane, cell: Cell) -> Shown:
        numbers = [load.number for load in plane.loads if load.touches(cell)]
        if not numbers:
            needed = plane.times[cell] > 0 and not self.is_cut
            return Shown(NEVER if needed else FREE, is_loaded=False)
        marked = self.first_wrong in numbers
        few = numbers[:_MOST_NUMBERS]
        if marked and self.first_wrong not in few:
            few = [*few[:-1], self.first_wrong]
        more = "…" if len(numbers) > len(few) else ""
        return Shown(",".join(map(str, few)) + more, is_loaded=True, is_marked=marked)


def load_map(
    cuts: Mapping[str, Cut], inputs: tuple[Any, ...], books: Any, origins: Any
) -> LoadMap | None:
    """Return the loads of a case of the inputs that are cut, None if nobody knows them.

    ``cuts`` names the inputs, of floating-point numbers, in the order of the arguments; no name in
    the picture is one that a student made. An input that a launcher gave another shape or type, or
    whose parameter holds something else in another launch, is left out.
    """
    if books is None or origins is None:
        return None
    visits = [visit for visit in books.visits if visit.kind == "load"]
    is_cut, visits = len(visits) >= FIRST_LOADS, visits[:FIRST_LOADS]
    of: dict[str, Plane] = {}  # parameter -> the input that it holds
    for place, (name, cut) in enumerate(cuts.items()):
        plane = _plane(name, inputs[place], cut)
        of |= dict.fromkeys(_parameters(books, origins, place, inputs[place]), plane)
    loads = [
        _load(number, visit, of[visit.tensor])
        for number, visit in enumerate((v for v in visits if v.tensor in of), 1)
    ]
    planes = [
        replace(plane, loads=tuple(load for load in loads if load.tensor == plane.name))
        for plane in dict.fromkeys(of.values())
    ]
    return LoadMap(tuple(planes), is_cut) if planes else None


def _parameters(books: Any, origins: Any, place: int, x: Any) -> list[str]:
    """Return the parameters that hold an input in its own shape and type in all their launches."""
    forms: dict[str, set[tuple[Any, str]]] = {}
    for run in books.launches:
        for name, (shape, _, dtype) in run.tensors.items():
            forms.setdefault(name, set()).add((tuple(shape), dtype))
    own = {(tuple(x.shape), str(x.dtype).removeprefix("torch."))}
    return [name for name in forms if origins.input_of(name) == place and forms[name] == own]


def _plane(name: str, x: Any, cut: Cut) -> Plane:
    shape = (x.shape[0], x.shape[1] if x.dim() == 2 else 1)
    tile = (min(cut.tile[0], shape[0]), min(cut.tile[1], shape[1]))
    down, across = (-(-n // size) for n, size in zip(shape, cut.tile, strict=True))
    times = np.broadcast_to(np.asarray(cut.times), (down, across))
    return Plane(name, shape, tile, x.dim() == 1, times, x.element_size(), ())


def _load(number: int, visit: Visit, plane: Plane) -> Load:
    """Return one load, with the tiles that it touches. Lanes that are no rectangle are spread."""
    rows, columns = visit.rows, visit.columns
    lanes = visit.n_bytes // plane.itemsize
    entries = (rows[1] - rows[0]) * (columns[1] - columns[0])
    is_full = entries == lanes
    if not is_full:
        columns = (0, plane.shape[1])
    (tall, wide), sides = plane.tile, (rows, columns)
    first = rows[0] // tall, columns[0] // wide
    last = (rows[1] - 1) // tall, (columns[1] - 1) // wide
    begins, ends = plane.ranges(first), plane.ranges(last)
    whole = all((begins[a][0], ends[a][1]) == side for a, side in enumerate(sides))
    tiles, is_whole = (first, last), is_full and whole
    is_doubled = lanes > entries
    return Load(number, plane.name, visit.program, rows, columns, *tiles, is_whole, is_doubled)


def _window(n: int, most: int, around: int) -> range:
    """Return ``most`` of ``n`` numbers, or all; ``around`` is among them."""
    start = max(0, min(around - most // 2, n - most))
    return range(start, min(n, start + most))


def _many(n: int, word: str) -> str:
    return f"{n} {word if n == 1 else plural(word)}"
