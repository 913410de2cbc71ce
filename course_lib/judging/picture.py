"""What a finding can show: where a result is wrong, or how many bytes moved. Data, no drawing.

Text, HTML and JSON records are all made from these. An error map holds how far off each entry is
in four steps, never a value: neither the student's nor the right one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from course_lib.judging.tolerance import wrong_places

RIGHT, INFINITE, NAN = 0, 4, 5
STEPS = (10.0, 1000.0)  # multiples of the allowed error, between codes 1, 2 and 3
SIGNS = {RIGHT: ".", 1: "1", 2: "2", 3: "3", INFINITE: "I", NAN: "N"}
MEANING = {
    RIGHT: "right",
    1: "1 to 10 × tolerance",
    2: "10 to 1000 × tolerance",
    3: "over 1000 × tolerance",
    INFINITE: "infinite",
    NAN: "NaN",
}

MOST_BARS = 12

_ROWS_BY = ("block_q", "block_m")
_KEYS_BY = ("block_k",)
_COLUMNS_BY = ("block_n",)


@dataclass(frozen=True)
class Band:
    """One line of an error map: a tile, or a few rows, from ``first`` to ``last``.

    ``wrong`` counts its wrong rows (entries, if the result is one-dimensional); ``cells`` holds
    the worst code of each group of columns, as signs: ``.`` right, ``1 2 3`` how far off, I, N.
    """

    label: str
    first: int
    last: int
    wrong: int
    cells: str

    @property
    def size(self) -> int:
        """The number of rows (entries) in the band."""
        return self.last - self.first + 1

    def joined(self, below: Band) -> list[Band]:
        """Return this band and the next as one if they are alike, else both."""
        alike = (self.label, self.cells) == (below.label, below.cells)
        if not alike or (self.wrong, below.wrong) not in ((0, 0), (self.size, below.size)):
            return [self, below]
        return [replace(self, last=below.last, wrong=self.wrong + below.wrong)]


@dataclass(frozen=True, eq=False)
class ErrorMap:
    """How far off each entry of a result is.

    Attributes:
        name: what was compared, as the report calls it: "`o`".
        codes: int8, the shape of the result; RIGHT, 1 to 3 (see ``STEPS``), INFINITE or NAN.
        axes: names of the dimensions ("batch", "head", "row", "column"), or nothing. "key"
            instead of "row" says that the rows are keys, made in tiles of block_k.
        tile: rows and columns of a tile, as far as the result is made in tiles; else 0.
        tile_name: "tile", "query tile" or "key tile".

    Of several matrices (heads) the first wrong one is shown, and the others are counted. Where
    that is one-dimensional (lse, a vector) it is a strip: its map has one row.
    """

    name: str
    codes: np.ndarray
    axes: tuple[str, ...] = ()
    tile: tuple[int, int] = (0, 0)
    tile_name: str = "tile"

    def tiled_as(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ErrorMap:
        """Return the map with the tiles that a case's keywords ask for (block_q, ...)."""
        sizes = {key: n for key, n in kwargs.items() if isinstance(n, int)}
        keys = self.word == "key"
        down = _size(sizes, _KEYS_BY if keys else _ROWS_BY)
        across = _size(sizes, _COLUMNS_BY)
        if self.is_strip:
            given = getattr(args[0], "shape", None) if args else None
            as_long = given == self.codes.shape
            across = as_long * sizes.get("block", 0) if self.word == "entry" else down
            down = 0
        rows, columns = self.plane.shape
        tile = (down if 0 < down < rows else 0, across if 0 < across < columns else 0)
        whose = "key " if keys else "query " if "block_q" in sizes else ""
        return replace(self, tile=tile, tile_name=whose + "tile")

    @property
    def is_strip(self) -> bool:
        """Whether one head of the result is one-dimensional."""
        return self.codes.ndim == 1 or self.axes[-1:] in (("row",), ("key",))

    @property
    def word(self) -> str:
        """What is counted down the map (along a strip): "row", "key", "head", ... or "entry"."""
        return self._axis(-1 if self.is_strip else -2, "row" if self.codes.ndim > 1 else "entry")

    @property
    def across(self) -> str:
        """What is counted across the map: "column", or what the last dimension is called."""
        return self._axis(-1, "column")

    @property
    def kind(self) -> str:
        """What one of ``slices`` is called: "head", "sequence", ... where the axes are named."""
        return self._axis(-2 if self.is_strip else -3, "matrix")

    def _axis(self, i: int, otherwise: str) -> str:
        named = len(self.axes) == self.codes.ndim >= -i
        return self.axes[i] if named else otherwise

    @cached_property
    def slices(self) -> np.ndarray:
        """All matrices of the result, (number, rows, columns)."""
        if self.is_strip:
            return self.codes.reshape(-1, 1, self.codes.shape[-1])
        return self.codes.reshape(-1, *self.codes.shape[-2:])

    @cached_property
    def wrong_slices(self) -> np.ndarray:
        """The numbers of the matrices with something wrong in them."""
        return np.flatnonzero(self.slices.any(axis=(1, 2)))

    @property
    def plane(self) -> np.ndarray:
        """The codes of the first matrix that is wrong, (rows, columns)."""
        plane: np.ndarray = self.slices[self.wrong_slices[0] if len(self.wrong_slices) else 0]
        return plane

    @property
    def place(self) -> str:
        """What ``plane`` is part of: "`o`, batch 0, head 1"."""
        if len(self.slices) == 1:
            return self.name
        leading = self.codes.shape[: -1 if self.is_strip else -2]
        at = np.unravel_index(self.wrong_slices[0], leading)
        if len(self.axes) == self.codes.ndim:
            named = (f"{axis} {i}" for axis, i in zip(self.axes, at, strict=False))
            return ", ".join([self.name, *named])
        return f"{self.name}, matrix {', '.join(str(i) for i in at)}"

    @property
    def wrong_rows(self) -> np.ndarray:
        """Which rows of ``plane`` (entries of a strip) are wrong, boolean."""
        return np.asarray(self.plane[0] if self.is_strip else np.any(self.plane, axis=1), bool)

    @property
    def height(self) -> int:
        """Rows (entries of a strip) of a tile; 0 without tiles."""
        return self.tile[1 if self.is_strip else 0]

    @property
    def tiles(self) -> tuple[tuple[int, int], ...]:
        """The first and the last row of each tile, from the top (along a strip)."""
        n, size = self.wrong_rows.size, self.height
        return tuple((i, min(n, i + size) - 1) for i in range(0, n, size)) if size else ()

    @cached_property
    def wrong_tiles(self) -> tuple[int, ...]:
        """The numbers of the wrong tiles."""
        wrong = self.wrong_rows
        return tuple(t for t, (i, j) in enumerate(self.tiles) if wrong[i : j + 1].any())

    @cached_property
    def bands(self) -> tuple[Band, ...]:
        """The map in whole tiles, 16 lines at most: what a record holds."""
        n, size = self.wrong_rows.size, self.height
        most = 1 if self.is_strip and not size else 16
        return self._bands(edges(n, size, most, whole=bool(size)))

    @cached_property
    def fine_bands(self) -> tuple[Band, ...]:
        """The map with tiles cut where their rows differ, as finely as ten lines allow."""
        if self.is_strip:
            return self.bands
        n, size = self.wrong_rows.size, self.height or self.wrong_rows.size
        for group in range(-(-n // 256), size):
            starts = {start for top in range(0, n, size) for start in range(top, n, group)}
            bands = self._bands([*sorted(starts), n])
            merged = [bands[0]]
            for band in bands[1:]:
                merged[-1:] = merged[-1].joined(band)
            if len(merged) <= max(10, len(self.bands)):
                return tuple(merged)
        return self.bands

    def _bands(self, borders: list[int]) -> tuple[Band, ...]:
        size, wrong, bands = self.height, self.wrong_rows, []
        across = 0 if self.is_strip else self.tile[1]
        for i, j in pairwise(borders):
            part = self.plane[:, i:j] if self.is_strip else self.plane[i:j]
            cells = pool(part, [0, len(part)], edges(part.shape[1], across, 32))[0]
            label = self._label(i // size, (j - 1) // size) if size else ""
            signs = "".join(SIGNS[int(code)] for code in cells)
            bands.append(Band(label, i, j - 1, int(wrong[i:j].sum()), signs))
        return tuple(bands)

    @staticmethod
    def _label(first: int, last: int) -> str:
        return f"tile {first}" if first == last else f"tiles {first} to {last}"

    def caption(self) -> str:
        """Say in a sentence or two what the map shows."""
        across = "" if self.is_strip else f", in {_part(np.any(self.plane, axis=0), self.across)}"
        says = f"{self.place}: {self._which_rows()}{across}."
        if len(self.slices) > 1:
            wrong, of = len(self.wrong_slices), f"of {len(self.slices)} {plural(self.kind)}"
            says += f" {wrong} {of} are wrong." if wrong > 1 else f" It is the only one {of}."
        return says

    def _which_rows(self) -> str:
        wrong, tiles, name = self.wrong_rows, self.wrong_tiles, self.tile_name
        if not tiles:
            return _part(wrong, self.word) + _verb(int(wrong.sum()))
        if len(tiles) == len(self.tiles):
            return f"{_all(len(tiles))} {name}s are wrong ({_part(wrong, self.word)})"
        few = [(t, *self.tiles[t]) for t in tiles[:3]]
        named = "; ".join(f"tile {t}, {plural(self.word)} {i} to {j}" for t, i, j in few)
        more = f"; {len(tiles) - 3} more" if len(tiles) > 3 else ""
        return f"{len(tiles)} of {len(self.tiles)} {name}s{_verb(len(tiles))} ({named}{more})"

    def record(self) -> dict[str, Any]:
        """Return the map for a JSON record: a line per tile, no numbers of the result."""
        bands = [
            {"tile": b.label, "rows": [b.first, b.last], "wrong": b.wrong, "cells": b.cells}
            for b in self.bands
        ]
        return {"kind": "error map", "of": self.place, "says": self.caption(), "bands": bands}


@dataclass(frozen=True)
class Bar:
    """What one tensor moved, and what it need move."""

    name: str
    yours: int
    expected: int


@dataclass(frozen=True)
class TrafficBars:
    """Counted traffic beside the expected; ``what`` was counted ("loads"), in ``unit``.

    ``limit``: what is expected is the most that is allowed.
    """

    what: str
    bars: tuple[Bar, ...]
    unit: str = "bytes"
    limit: bool = False

    @classmethod
    def of(
        cls, what: str, yours: Mapping[str, int], expected: Mapping[str, int], unit: str = "bytes"
    ) -> TrafficBars:
        """Return the bars of two books, name -> amount.

        One bar for all if ``yours`` lacks a name, for then the student has names of their own and
        nobody knows which stands for which; and if there are too many to draw.
        """
        names = dict.fromkeys([*expected, *yours])
        if not expected.keys() <= yours.keys() or len(names) > MOST_BARS:
            return cls(what, (Bar("all", sum(yours.values()), sum(expected.values())),), unit)
        bars = (Bar(_printable(n), int(yours[n]), int(expected.get(n, 0))) for n in names)
        return cls(what, tuple(bars), unit)

    @property
    def asked(self) -> str:
        """What the second amount of each bar is: "expected", or "allowed"."""
        return "allowed" if self.limit else "expected"

    @property
    def worst(self) -> Bar:
        """The bar that is furthest from what is expected."""
        return max(self.bars, key=lambda bar: abs(bar.yours - bar.expected))

    def caption(self) -> str:
        """Say in a sentence which tensor is furthest off."""
        yours = sum(bar.yours for bar in self.bars)
        expected = sum(bar.expected for bar in self.bars)
        what = self.what[:1].upper() + self.what[1:]
        most = "at most " if self.limit else ""
        total = f"{what}: {yours:,} {self.unit}, and {most}{expected:,} are {self.asked}"
        if len(self.bars) == 1:
            return total + "."
        bar = self.worst
        return f"{total}; furthest off is {bar.name}: {bar.yours:,} instead of {bar.expected:,}."

    def record(self) -> dict[str, Any]:
        """Return the bars for a JSON record."""
        bars = [{"of": b.name, "yours": b.yours, "expected": b.expected} for b in self.bars]
        return {"kind": "traffic", "what": self.what, "unit": self.unit, "bars": bars}


Picture = ErrorMap | TrafficBars


def error_map(
    got: np.ndarray,
    truth: np.ndarray,
    allowed: float | np.ndarray,
    name: str,
    axes: tuple[str, ...] = (),
) -> ErrorMap | None:
    """Return where ``got`` is off and how far; both float64 of one shape. None for a number."""
    if got.size < 2:
        return None
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        times = np.abs(got - truth) / allowed
    codes = 1 + np.searchsorted(STEPS, times).astype(np.int8)
    codes[~wrong_places(got, truth, allowed)] = RIGHT
    codes[np.isinf(got) & (got != truth)] = INFINITE
    codes[np.isnan(got)] = NAN
    return ErrorMap(name, codes, axes)


def edges(n: int, tile: int, most: int, *, whole: bool = False) -> list[int]:
    """Return borders 0 = e0 < e1 < ... = n of at most ``most`` groups; tiles (0: none) stay whole.

    Few tiles are each cut into equal groups (not if ``whole``); many are put together.
    """
    tile = tile or n
    tiles = -(-n // tile)
    if whole or tiles > most:
        step = -(-tiles // most) * tile
        return [*range(0, n, step), n]
    group = next(g for g in range(1, tile + 1) if tiles * -(-tile // g) <= most)
    starts = (s for t in range(0, n, tile) for s in range(t, min(n, t + tile), group))
    return [*starts, n]


def pool(codes: np.ndarray, rows: Iterable[int], columns: Iterable[int]) -> np.ndarray:
    """Return the worst code of each group; ``rows`` and ``columns`` are borders from ``edges``."""
    down = np.maximum.reduceat(codes, list(rows)[:-1], axis=0)
    return np.maximum.reduceat(down, list(columns)[:-1], axis=1)


def _size(sizes: Mapping[str, int], names: tuple[str, ...]) -> int:
    return next((sizes[name] for name in names if name in sizes), 0)


def _printable(name: str) -> str:
    """Return a student's name for a tensor without control characters, cut."""
    return "".join(c if c.isprintable() else "\ufffd" for c in str(name)[:24])


def span(word: str, first: int, last: int) -> str:
    """Return "rows 0 to 15" or "row 3"."""
    return f"{word} {first}" if first == last else f"{plural(word)} {first} to {last}"


def _verb(n: int) -> str:
    return " is wrong" if n == 1 else " are wrong"


def _all(n: int) -> str:
    return "both" if n == 2 else f"all {n}"


def _part(wrong: np.ndarray, word: str) -> str:
    """Return "all 16 columns", "columns 3 to 5 of 16", "column 3 of 16", "7 of 16 columns"."""
    places, n = np.flatnonzero(wrong), wrong.size
    if len(places) == n:
        return f"{_all(n)} {plural(word)}" if n > 1 else f"the only {word}"
    if len(places) == 1:
        return f"{word} {places[0]} of {n}"
    if len(places) and places[-1] - places[0] == len(places) - 1:
        return f"{plural(word)} {places[0]} to {places[-1]} of {n}"
    return f"{len(places)} of {n} {plural(word)}"


def plural(word: str) -> str:
    """Return the plural of a word that the pictures use."""
    irregular = {
        "entry": "entries", "matrix": "matrices", "batch": "batches", "query": "queries",
    }  # fmt: skip
    return irregular.get(word, word + "s")
