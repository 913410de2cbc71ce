"""Read a student's file, ``.ipynb`` or ``.py``, and change one cell of it, nothing else."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SPACE = re.compile(r"[\s,:]*")
# these run the Python below them in the notebook itself; what others hold stays theirs
_CELL_MAGIC = re.compile(r"\s*%%(?:time|capture|prun|debug)\b[^\n]*")


class FileProblem(ValueError):
    """A file cannot be read as what it should be; the message is one sentence."""


@dataclass(frozen=True)
class CodeCell:
    """A code cell: its id ("" in old notebooks and scripts) and its text."""

    id: str
    source: str


def code_cells(path: Path) -> list[CodeCell]:
    """Return the code cells of a notebook, or the whole of a script as one cell.

    Raises FileProblem if the file is missing, of another kind, or damaged.
    """
    if path.suffix not in {".ipynb", ".py"}:
        raise FileProblem(f"{path}: a notebook (.ipynb) or a script (.py) is expected.")
    return cells_of(path, read_text(path))


def cells_of(path: Path, text: str) -> list[CodeCell]:
    """Return the code cells of the ``text`` of a notebook or script; FileProblem if damaged."""
    if path.suffix.lower() == ".py":
        return [CodeCell("", text)]
    cells = notebook_of(path, text)["cells"]
    return [
        CodeCell(str(cell.get("id", "")), source_of(cell))
        for cell in cells
        if cell.get("cell_type") == "code"
    ]


def read_text(path: Path) -> str:
    """Return the text of ``path``, line ends as they are; FileProblem if there is none.

    Some editors on Windows begin a file with a mark (BOM), which is no part of the text.
    """
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise FileProblem(f"{path}: there is no such file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FileProblem(f"{path}: the file cannot be read ({error}).") from None


def notebook_of(path: Path, text: str) -> dict[str, Any]:
    """Return the parsed notebook; FileProblem if ``text`` is none."""
    try:
        data = json.loads(text)
        well_formed = all(_is_text(cell.get("source", "")) for cell in data["cells"])
    except (ValueError, KeyError, TypeError, AttributeError):
        well_formed = False
    if not well_formed:
        raise FileProblem(f"{path}: this is no Jupyter notebook (format 4).")
    return data


def _is_text(source: Any) -> bool:
    lines = source if isinstance(source, list) else [source]
    return all(isinstance(line, str) for line in lines)


def source_of(cell: dict[str, Any]) -> str:
    """Return the text of a raw cell, which stands as one string or as a list of lines."""
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)


def with_source(text: str, index: int, source: str) -> str:
    """Return the notebook ``text`` with another source in cell ``index``, else byte for byte."""
    cells = dict(_members(text, 0))["cells"]
    cell = dict(_members(text, cells[0]))[index]
    start, end = dict(_members(text, cell[0]))["source"]
    indent = text[text.rfind("\n", 0, start) + 1 : start]
    margin = indent[: len(indent) - len(indent.lstrip())]
    lines = json.dumps(source.splitlines(keepends=True), indent=1, ensure_ascii=False)
    newline = "\r\n" if "\r\n" in text else "\n"
    return text[:start] + lines.replace("\n", newline + margin) + text[end:]


def _members(text: str, start: int) -> Iterator[tuple[Any, tuple[int, int]]]:
    """Yield key (or index) and span of each member of the JSON object or array at ``start``."""
    decode = json.JSONDecoder().raw_decode
    is_object = text[start] == "{"
    at, index = _SPACE.match(text, start + 1).end(), 0  # type: ignore[union-attr]
    while text[at] not in "}]":
        key: Any = index
        if is_object:
            key, at = decode(text, at)
            at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        _, end = decode(text, at)
        yield key, (at, end)
        at, index = _SPACE.match(text, end).end(), index + 1  # type: ignore[union-attr]


def python_of(source: str) -> str:
    """Return a cell's text as Python, IPython's ``%`` and ``!`` lines translated if need be.

    A magic like ``%%time`` above it becomes an empty line. A cell of another language
    (``%%bash``) becomes one call that binds nothing. Raises SyntaxError if it is no Python even so.
    """
    while magic := _CELL_MAGIC.match(source):
        source = "\n" * magic[0].count("\n") + source[magic.end() :]
    try:
        ast.parse(source)
        return source
    except SyntaxError:
        from IPython.core.inputtransformer2 import TransformerManager

        translated = TransformerManager().transform_cell(source)
        ast.parse(translated)
        return translated
