"""A table as HTML with bars in its cells, as plain text everywhere else."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from course_lib.style.palette import hex_of

_SHEET = """<style>
.fac-table { border-collapse: collapse; font: 14px/1.5 system-ui, sans-serif; margin: 4px 0 12px;
  font-variant-numeric: tabular-nums; width: auto; color: inherit; }
.fac-table caption { font-size: 16px; font-weight: 600; text-align: left; padding: 0 0 4px;
  color: inherit; caption-side: top; max-width: 42em; }
.fac-table th, .fac-table td { padding: 2px 12px 2px 6px; text-align: right; border: 0;
  border-bottom: 1px solid color-mix(in srgb, currentColor 18%, transparent); background: none;
  color: inherit; vertical-align: top; max-width: 34em;
  overflow-wrap: break-word; }
.fac-table.fac-table.fac-table .fac-words { text-align: left; }
.fac-table.fac-table.fac-table tr { background: none; }
.fac-table thead th { font-weight: 600; }
.fac-table tbody th { font-weight: 400; }
.fac-table tr.fac-sum > * { border-top: 2px solid currentColor; font-weight: 600; }
.fac-table td:has(i) { min-width: 7em; }
.fac-table td i { display: block; height: 4px; border-radius: 0 2px 2px 0; min-width: 1px; }
.fac-table + small { display: block; font: 13px/1.4 system-ui, sans-serif; opacity: .8;
  margin: -6px 0 12px; max-width: 50em; }
</style>"""


@dataclass(frozen=True, repr=False)
class Table:
    """Rows under named columns; numbers to the right, bars under the numbers of some columns.

    Attributes:
        columns: the names over the columns.
        rows: a value for each column: a number, None for an empty cell, or words.
        formats: column -> format of its numbers, such as ``",.1f"``; others are printed with "g".
        bars: column -> meaning or hue of the bar; its length is the share of the largest number in
            all bars of columns that print alike: equal numbers are equally long.
        marks: first cell of a row -> meaning or hue of its bars, in place of the column's.
        finding: a sentence above the table. note: small words below.
        total: whether the last row is a sum (it gets a line above it, and no bar).
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    formats: Mapping[str, str] = field(default_factory=dict)
    bars: Mapping[str, str] = field(default_factory=dict)
    marks: Mapping[Any, str] = field(default_factory=dict)
    finding: str = ""
    note: str = ""
    total: bool = False

    def cell(self, column: str, value: Any) -> str:
        """Return a value as text."""
        if value is None:
            return ""
        return value if isinstance(value, str) else format(value, self.formats.get(column, "g"))

    def is_words(self, place: int) -> bool:
        """Whether a column holds words, and so begins at the left."""
        return any(isinstance(row[place], str) for row in self.rows)

    def to_text(self) -> str:
        """Return the table as aligned plain text."""
        cells = [list(self.columns)]
        cells += [list(map(self.cell, self.columns, row)) for row in self.rows]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        words = [self.is_words(i) for i in range(len(self.columns))]
        lines = [
            "  ".join(
                text.ljust(width) if left else text.rjust(width)
                for text, width, left in zip(row, widths, words, strict=True)
            ).rstrip()
            for row in cells
        ]
        rule = "-" * len(max(lines, key=len))
        lines.insert(1, rule)
        if self.total:
            lines.insert(-1, rule)
        return "\n".join([*filter(None, [self.finding]), *lines, *filter(None, [self.note])])

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        escape = html.escape
        classes = [
            ' class="fac-words"' if self.is_words(i) else "" for i in range(len(self.columns))
        ]
        caption = f"<caption>{escape(self.finding)}</caption>" if self.finding else ""
        head = "".join(
            f'<th scope="col"{kind}>{escape(name)}</th>'
            for name, kind in zip(self.columns, classes, strict=True)
        )
        body = "".join(self._row(i, row, classes) for i, row in enumerate(self.rows))
        note = f"<small>{escape(self.note)}</small>" if self.note else ""
        return (
            f'{_SHEET}<table class="fac-table">{caption}<thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table>{note}"
        )

    def _row(self, number: int, row: Sequence[Any], classes: Sequence[str]) -> str:
        is_sum = self.total and number == len(self.rows) - 1
        opening = '<tr class="fac-sum">' if is_sum else "<tr>"
        cells: list[str] = []
        for column, value, kind in zip(self.columns, row, classes, strict=True):
            tag = 'th scope="row"' if not cells and isinstance(value, str) else "td"
            text = html.escape(self.cell(column, value)).replace("\n", "<br>")
            bar = "" if is_sum or value is None else self._bar(row[0], column, value)
            cells.append(f"<{tag}{kind}>{text}{bar}</{tag[:2]}>")
        return f"{opening}{''.join(cells)}</tr>"

    def _bar(self, name: Any, column: str, value: Any) -> str:
        if column not in self.bars or isinstance(value, str):
            return ""
        rows = self.rows[:-1] if self.total else self.rows
        alike = [
            place
            for place, other in enumerate(self.columns)
            if other in self.bars and self.formats.get(other) == self.formats.get(column)
        ]
        largest = max(n for row in rows for i in alike if isinstance(n := row[i], (int, float)))
        if not value:
            return ""
        colour = hex_of(self.marks.get(name, self.bars[column]))
        return f'<i style="width:{value / largest:.2%};background:{colour}"></i>'
