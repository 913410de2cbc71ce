"""Read a lesson's source: a Jupytext percent script in which every cell is named by its slug."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_MARKER = re.compile(r"^\s*#\s*%%")
_SLUG = re.compile(r"^[a-zA-Z0-9-_]{1,64}$")
_FORM = "# %% slug  or  # %% slug [markdown]"
# what Jupytext notes about the script's layout: nothing that a notebook needs
_LAYOUT = {"title", "lines_to_next_cell", "cell_marker", "lines_to_end_of_cell_marker"}


class BuildError(ValueError):
    """A source cannot become a notebook; the message starts with ``file:line``."""

    def __init__(self, file: Path, line: int, says: str) -> None:
        super().__init__(f"{file}:{line}: {says}")


@dataclass(frozen=True)
class Cell:
    """One cell of a source: its slug, its text, and the line on which its marker stands."""

    slug: str
    kind: str  # "code" or "markdown"
    source: str
    line: int
    metadata: dict[str, Any] = field(default_factory=dict)


def read_cells(file: Path) -> list[Cell]:
    """Return the cells of a percent script.

    Raises BuildError for a cell without a slug, a slug that no notebook takes as a cell id, and
    a slug that occurs twice.
    """
    # jsonschema builds 39 parsers with it, a second of work, for a format that no notebook has
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    import jupytext

    text = file.read_text(encoding="utf-8")
    parsed = jupytext.reads(text, fmt="py:percent").cells
    lines = _marker_lines(text)
    if len(parsed) != len(lines):
        raise BuildError(file, 1, f"text stands before the first cell: start with  {_FORM}")
    cells = [_cell(file, line, raw) for line, raw in zip(lines, parsed, strict=True)]
    _reject_repeats(file, cells)
    return cells


def _marker_lines(text: str) -> list[int]:
    return [number for number, line in enumerate(text.splitlines(), 1) if _MARKER.match(line)]


def _cell(file: Path, line: int, raw: Any) -> Cell:
    slug = raw.metadata.get("title", "")
    if not slug:
        raise BuildError(file, line, f"this cell has no slug: write  {_FORM}")
    if not _SLUG.match(slug):
        raise BuildError(
            file, line, f"{slug!r} is no slug: up to 64 letters, digits, hyphens and underscores"
        )
    metadata = {key: value for key, value in raw.metadata.items() if key not in _LAYOUT}
    return Cell(slug, raw.cell_type, raw.source, line, metadata)


def _reject_repeats(file: Path, cells: Sequence[Cell]) -> None:
    seen: dict[str, int] = {}
    for cell in cells:
        if cell.slug in seen:
            says = f"the slug {cell.slug!r} stands on line {seen[cell.slug]} already"
            raise BuildError(file, cell.line, says)
        seen[cell.slug] = cell.line
