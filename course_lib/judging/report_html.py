"""A finding's picture as inline SVG: no script, no ids, legible on a light page and a dark one.

Colours are Okabe and Ito's vermilion, blue and purple, each with a contrast of 3 on white and on
#111. How far off an entry is shows as a thicker line, NaN and infinity as stripes, so that nothing
hangs on colour. Ink is the page's own (currentColor).
"""

from __future__ import annotations

import html
from bisect import bisect_left
from itertools import groupby

import numpy as np

from course_lib.judging.load_map import NEVER, LoadMap, Shown
from course_lib.judging.picture import (
    INFINITE,
    MEANING,
    NAN,
    ErrorMap,
    Picture,
    TrafficBars,
    edges,
    pool,
    span,
)
from course_lib.style.palette import hex_of

MOST_CELLS = 64  # a side
_VERMILION, _BLUE, _PURPLE = map(hex_of, ("vermilion", "blue", "purple"))
_LOOK = {  # code: colour, thickness of the line in cells, dashes
    1: (_VERMILION, 0.3, ""),
    2: (_VERMILION, 0.6, ""),
    3: (_VERMILION, 1.0, ""),
    INFINITE: (_PURPLE, 1.0, "2 3"),
    NAN: (_BLUE, 1.0, "4 2"),
}
_LETTER = 6.6  # width of a character, at 12 pixels


def picture_html(picture: Picture | LoadMap) -> str:
    """Return a figure with its caption; every text is escaped."""
    if isinstance(picture, LoadMap):
        return _loads(picture)
    if isinstance(picture, ErrorMap):
        svg = _map(picture)
        key = f"<div style='margin:.2em 0;line-height:1.6'>{_legend(picture)}</div>"
    else:
        svg, key = _bars(picture), ""
    return (
        "<figure style='margin:.6em 0;max-width:100%'>"
        f"{svg}<figcaption style='font-size:.9em'>{key}"
        f"{html.escape(picture.caption())}</figcaption></figure>"
    )


def _loads(loads: LoadMap) -> str:
    """Return the loads as a figure: a grid an input, a number in each tile for each load of it."""
    body, y, right = "", 0.0, 0.0
    for plane in loads.planes:
        rows = loads.lines(plane)
        left_out = loads.left_out(plane)
        heading = plane.heading + (f" ({left_out} more are not drawn)" if left_out else "")
        body += _text(0, y + 14, heading, bold=True)
        y += 22
        wide = 14 + _LETTER * max(len(cell.text) for _, row in rows for cell in row)
        left = 8 + _LETTER * max(len(label) for label, _ in rows)
        for label, row in rows:
            body += _text(left - 8, y + 15, label, "end")
            body += "".join(_load(left + i * wide, y, wide, cell) for i, cell in enumerate(row))
            y += 22
        right = max(right, left + wide * len(rows[0][1]), _LETTER * 1.1 * len(heading))
        y += 10
    svg = _svg(right + 4, y, "The loads of your kernel. " + loads.caption(), body)
    return (
        "<figure style='margin:.6em 0;max-width:100%'>"
        f"<figcaption style='font-size:.9em;margin-bottom:.4em'>{html.escape(loads.caption())}"
        f"<div>{_key_of_loads(loads)}</div></figcaption>{svg}</figure>"
    )


def _load(x: float, y: float, wide: float, cell: Shown) -> str:
    """Return one tile: filled if it was loaded, with a thick border if it is marked."""
    box = f"<rect x='{x + 1:g}' y='{y:g}' width='{wide - 2:g}' height='20'"
    look = f"fill='{_BLUE}' fill-opacity='.25' stroke='currentColor' stroke-opacity='.5'"
    if cell.is_marked:
        look = f"fill='{_VERMILION}' fill-opacity='.25' stroke='{_VERMILION}' stroke-width='3'"
    elif not cell.is_loaded:
        dashes = " stroke-dasharray='3 3'" if cell.text == NEVER else " stroke-opacity='.25'"
        look = f"fill='none' stroke='currentColor'{dashes}"
    return f"{box} {look}/>" + _text(x + wide / 2, y + 15, cell.text, "middle", bold=cell.is_marked)


def _key_of_loads(loads: LoadMap) -> str:
    cells = [cell for plane in loads.planes for _, row in loads.lines(plane) for cell in row]
    key = ["A number in a tile is a load of it."] if any(cell.is_loaded for cell in cells) else []
    signs = {cell.text for cell in cells}
    key += [f"{sign} {means}." for sign, means in loads.key().items() if sign in signs]
    return html.escape(" ".join(key))


def _svg(width: float, height: float, summary: str, body: str) -> str:
    return (
        f"<svg role='img' aria-label='{html.escape(summary)}' viewBox='0 0 {width:g} {height:g}' "
        f"width='{width:g}' style='display:block;max-width:100%;height:auto;font-family:sans-serif;"
        f"font-size:12px' fill='currentColor'>{body}</svg>"
    )


def _text(x: float, y: float, words: str, anchor: str = "start", *, bold: bool = False) -> str:
    weight = " font-weight='bold'" if bold else ""
    return f"<text x='{x:g}' y='{y:g}' text-anchor='{anchor}'{weight}>{html.escape(words)}</text>"


def _map(picture: ErrorMap) -> str:
    plane, (tile_rows, tile_columns) = picture.plane, picture.tile
    rows = edges(plane.shape[0], tile_rows, MOST_CELLS)
    columns = edges(plane.shape[1], tile_columns, MOST_CELLS)
    cells = pool(plane, rows, columns)
    wide = _between(4, 256 // cells.shape[1], 16)
    high = 24 if picture.is_strip else _between(4, 256 // cells.shape[0], 14)
    labels = _row_labels(picture, rows, high)
    left = 8 + _LETTER * max((len(words) for _, words, _ in labels), default=0)
    right, low = cells.shape[1] * wide, cells.shape[0] * high
    body = f"<rect width='{right}' height='{low}' opacity='.1'/>"
    body += "".join(_strokes(cells, code, wide, high) for code in _LOOK)
    body += _grid(rows, tile_rows, high, right, across=False)
    body += _grid(columns, tile_columns, wide, low, across=True)
    body += f"<rect width='{right}' height='{low}' fill='none' stroke='currentColor'/>"
    under = _column_labels(picture, columns, wide)
    body += "".join(_text(x, low + 15, words, where, bold=bold) for x, words, where, bold in under)
    texts = "".join(_text(left - 7, y + 8, words, "end", bold=bold) for y, words, bold in labels)
    body = f"{texts}<g transform='translate({left:g} 4)'>{body}</g>"
    spill = _LETTER * max((len(w) for _, w, where, _ in under if where == "start"), default=0)
    summary = "Where the result is wrong. " + picture.caption()
    return _svg(left + max(right, spill) + 12, low + 24, summary, body)


def _between(low: int, n: int, high: int) -> int:
    return max(low, min(n, high))


def _strokes(cells: np.ndarray, code: int, wide: int, high: int) -> str:
    """Return one path through all cells of a code: a line along each run of them."""
    path = ""
    for y, row in enumerate(cells.tolist()):
        x = 0
        for value, run in groupby(row):
            n = len(list(run))
            if value == code:
                path += f"M{x * wide} {y * high + high / 2:g}h{n * wide}"
            x += n
    colour, thickness, dashes = _LOOK[code]
    dashed = f" stroke-dasharray='{dashes}'" if dashes else ""
    width = max(1, thickness * high)
    return path and f"<path d='{path}' stroke='{colour}' stroke-width='{width:g}'{dashed}/>"


def _grid(borders: list[int], tile: int, size: int, end: int, *, across: bool) -> str:
    """Return the lines between tiles; ``across``: the vertical ones."""
    if not tile:
        return ""
    at = [i * size for i, border in enumerate(borders[1:-1], 1) if border % tile == 0]
    path = "".join(f"M{x} 0v{end}" if across else f"M0 {x}h{end}" for x in at)
    return path and f"<path d='{path}' stroke='currentColor' stroke-width='1.5' opacity='.75'/>"


def _row_labels(picture: ErrorMap, rows: list[int], high: int) -> list[tuple[float, str, bool]]:
    """Return (y, words, bold) beside the map: each tile if there is room, wrong ones bold."""
    if picture.is_strip:
        return []
    if not picture.tile[0]:
        ends = sorted({0, len(rows) - 2})
        return [(i * high + high / 2, f"row {rows[i]}", False) for i in ends]
    labels: list[tuple[float, str, bool]] = []
    free = 0.0
    for band in picture.bands:
        middle = (bisect_left(rows, band.first) + bisect_left(rows, band.last + 1)) * high / 2
        if middle - 6 >= free or not labels:
            words = f"{band.label}, {span(picture.word, band.first, band.last)}"
            labels.append((middle, words, band.wrong > 0))
            free = middle + 8
    return labels


def _column_labels(
    picture: ErrorMap, columns: list[int], wide: int
) -> list[tuple[float, str, str, bool]]:
    """Return (x, words, anchor, bold) under the map."""
    if not picture.is_strip or not picture.tile[1]:
        return [(0, span(picture.across, 0, columns[-1] - 1), "start", False)]
    labels: list[tuple[float, str, str, bool]] = []
    free = 0.0
    for band in picture.bands:
        middle = (bisect_left(columns, band.first) + bisect_left(columns, band.last + 1)) * wide / 2
        words = f"{band.first} to {band.last}"
        half = len(words) * _LETTER / 2
        if middle - half >= free or not labels:
            labels.append((max(half, middle), words, "middle", band.wrong > 0))
            free = max(half, middle) + half + _LETTER
    return labels


def _legend(picture: ErrorMap) -> str:
    parts = []
    seen = set(np.unique(picture.plane).tolist())
    for code in (code for code in MEANING if code in seen):
        colour, thickness, dashes = _LOOK.get(code, ("none", 0, ""))
        dashed = f" stroke-dasharray='{dashes}'" if dashes else ""
        swatch = (
            "<svg aria-hidden='true' width='24' height='12' viewBox='0 0 24 12' "
            "style='vertical-align:middle' fill='currentColor'>"
            "<rect width='24' height='12' opacity='.1'/>"
            f"<path d='M0 6h24' stroke='{colour}' stroke-width='{12 * thickness:g}'{dashed}/></svg>"
        )
        parts.append(
            f"<span style='margin-right:1em;white-space:nowrap'>{swatch} "
            f"{html.escape(MEANING[code])}</span>"
        )
    return " ".join(parts)


def _bars(picture: TrafficBars) -> str:
    most = max(1, *(n for bar in picture.bars for n in (bar.yours, bar.expected)))
    left = 10 + _LETTER * 1.1 * max(len(bar.name) for bar in picture.bars)
    body, y = "", 4
    for bar in picture.bars:
        colour = _BLUE if bar.yours == bar.expected else _VERMILION
        body += _text(left - 8, y + 20, bar.name, "end", bold=bar.yours != bar.expected)
        for n, who, look in (
            (bar.yours, "yours", f"fill='{colour}'"),
            (bar.expected, picture.asked, "fill='none' stroke='currentColor'"),
        ):
            width = 200 * n / most
            body += f"<rect x='{left:g}' y='{y}' width='{width:.1f}' height='12' {look}/>"
            body += _text(left + width + 6, y + 11, f"{n:,} {who}")
            y += 15
        y += 9
    numbers = _LETTER * (len(f"{most:,} {picture.asked}") + 2)
    return _svg(left + 200 + numbers, y, "Counted traffic. " + picture.caption(), body)
