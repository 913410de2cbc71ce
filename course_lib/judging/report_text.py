"""A finding's picture in text: a line of signs per tile, bars of blocks. Colour is only extra."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.judging.load_map import (
    MARK,
    MOST_CELLS,
    LoadMap,
    Plane,
    Shown,
)
from course_lib.judging.picture import MEANING, SIGNS, Band, Picture, TrafficBars, span

Piece = tuple[str, str]  # text, and a rich style or nothing

# Okabe and Ito's vermilion, blue and purple; what a sign means is in the sign.
_WRONG, _NAN, _INFINITE = "color(166)", "bold color(32)", "bold color(175)"
_STYLES = {".": "dim", "1": _WRONG, "2": _WRONG, "3": _WRONG, "N": _NAN, "I": _INFINITE}
GLYPHS = {".": "·", "1": "░", "2": "▒", "3": "█", "N": "N", "I": "I"}
_BAR = 32  # characters of the longest bar


def picture_lines(picture: Picture | LoadMap, *, fine: bool = True) -> list[list[Piece]]:
    """Return the lines of a picture as pieces of text with their styles; none is wider than 88.

    ``fine`` cuts the tiles of an error map where their rows differ.
    """
    if isinstance(picture, TrafficBars):
        return _bars(picture)
    if isinstance(picture, LoadMap):
        return _loads(picture)
    return _map(picture.fine_bands if fine else picture.bands, picture.word)


def _loads(loads: LoadMap) -> list[list[Piece]]:
    """Return the lines of a picture of loads: an input after the other, a tile beside the other."""
    lines: list[list[Piece]] = []
    signs: set[str] = set()
    for plane in loads.planes:
        most = _cells_that_fit(loads, plane)
        rows = loads.lines(plane, most)
        cells = [_signed(cell) for _, row in rows for cell in row]
        wide = max(len(sign) for sign in cells)
        name = max(len(label) for label, _ in rows)
        left = loads.left_out(plane, most)
        more = f" ({left} more are not drawn)" if left else ""
        lines.append([(f"   {plane.heading}{more}", "")])
        for label, row in rows:
            pieces = [(f"   {label:<{name}} ", "dim")]
            for cell in row:
                style = f"bold {_WRONG}" if cell.is_marked else "" if cell.is_loaded else "dim"
                pieces.append((f" {_signed(cell):>{wide}}", style))
            lines.append(pieces)
        signs.update(sign[:1] for sign in cells)
    key = [f"{sign} {means}" for sign, means in loads.key().items() if sign in signs]
    return [*lines, [("   " + "   ".join(key), "")]] if key else lines


def _signed(cell: Shown) -> str:
    return MARK + cell.text if cell.is_marked else cell.text


def _cells_that_fit(loads: LoadMap, plane: Plane) -> int:
    """Return how many cells a line has room for."""
    rows = loads.lines(plane)
    wide = max(len(_signed(cell)) for _, row in rows for cell in row)
    name = max(len(label) for label, _ in rows)
    return max(1, min(MOST_CELLS, (84 - name) // (wide + 1)))


def legend(bands: Sequence[Band]) -> list[tuple[str, str]]:
    """Return (sign, meaning) of what occurs in the map, what is right first."""
    seen = {sign for band in bands for sign in band.cells}
    return [(SIGNS[code], meaning) for code, meaning in MEANING.items() if SIGNS[code] in seen]


def counted(band: Band) -> str:
    """Return how much of a band is wrong, in words."""
    if not band.wrong:
        return "right"
    return f"{band.wrong} of {band.size} wrong" if band.size > 1 else "wrong"


def _map(bands: Sequence[Band], word: str) -> list[list[Piece]]:
    labels = [band.label for band in bands]
    ranges = [span(word, band.first, band.last) for band in bands]
    wide, wider = max(map(len, labels)), max(map(len, ranges))
    widest = max(len(band.cells) for band in bands)
    lines: list[list[Piece]] = []
    above = ""
    for band, label, rows in zip(bands, labels, ranges, strict=True):
        name = f"{label if label != above else '':<{wide}}  " if wide else ""
        cells = [(GLYPHS[sign], _STYLES[sign]) for sign in band.cells]
        rest = " " * (widest - len(band.cells))
        lines.append(
            [(f"   {name}{rows:<{wider}}  ", ""), *cells, (f"{rest}  {counted(band)}", "")]
        )
        above = label
    return lines + _key(bands)


def _key(bands: Sequence[Band]) -> list[list[Piece]]:
    """Return the legend, wrapped."""
    lines: list[list[Piece]] = [[]]
    for sign, meaning in legend(bands):
        if sum(len(words) for words, _ in lines[-1]) + 5 + len(meaning) > 88:
            lines.append([])
        lines[-1] += [(f"   {GLYPHS[sign]} ", _STYLES[sign]), (meaning, "")]
    return lines


def _bars(picture: TrafficBars) -> list[list[Piece]]:
    most = max(1, *(n for bar in picture.bars for n in (bar.yours, bar.expected)))
    name = max(len(bar.name) for bar in picture.bars)
    digits = len(f"{most:,}")
    lines: list[list[Piece]] = []
    for bar in picture.bars:
        style = "color(32)" if bar.yours == bar.expected else _WRONG
        for label, who, n, block, colour in (
            (bar.name, "yours", bar.yours, "█", style),
            ("", picture.asked, bar.expected, "░", ""),
        ):
            length = -(-_BAR * n // most)
            head = f"   {label:<{name}}  {who:<8}  {n:>{digits},}  "
            lines.append([(head, ""), (block * length, colour)])
    return lines
