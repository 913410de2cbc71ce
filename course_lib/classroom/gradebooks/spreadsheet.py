"""CSV that every spreadsheet reads as it was meant: quoted, and without formulas."""

from __future__ import annotations

import csv
import re
from pathlib import Path

# at the start, and on any later line: some programs take each for a cell of its own
_FORMULA = re.compile(r"\A(?=\s*[=+\-@＝＋－＠]|[\t\r\n])|^(?=[^\S\n]*[=@＝＠])", re.MULTILINE)


def write_rows(rows: list[list[str]], file: Path) -> Path:
    """Write rows of text, made safe with `cell` and `number`, to a file; return it."""
    with open(file, "w", encoding="utf-8", newline="") as out:
        # quoted, because some programs take a semicolon for the end of a cell
        csv.writer(out, lineterminator="\r\n", quoting=csv.QUOTE_ALL).writerows(rows)
    return file


def cell(text: str) -> str:
    """Return text that no spreadsheet takes for a formula."""
    return _FORMULA.sub("'", text)


def number(value: float) -> str:
    """Return a score as text: ``1``, ``0.5``."""
    return f"{value:g}"
