"""A child task of the sandbox: parse one submitted file and cut out the exercises in it.

Notebooks are parsed here and not in the grader: a parser is the first thing a hostile file meets.
Nothing of the student's is executed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from course_lib.child.codec import MAX_TEXT
from course_lib.handin.cells import BrokenCell, present, program
from course_lib.handin.course_file import CodeCell, FileProblem, cells_of
from course_lib.sandbox.channel import Channel
from course_lib.sandbox.profile import Limits, confine_computing


def serve(channel: Channel, settings: dict[str, Any]) -> None:
    """Confine this process, then answer requests (`programs`) until the channel closes."""
    confine_computing(Limits(**settings))
    while True:
        channel.send(programs(**channel.receive()))


def programs(name: str, data: bytes, wanted: list[tuple[str, str]]) -> dict[str, Any]:
    """Return ``{"programs": {slug: text}, "broken": {slug: sentence}}`` or ``{"problem": ...}``.

    ``wanted`` lists (cell id, function) of the exercises; each program is all that one needs.
    """
    specs: Any = [SimpleNamespace(slug=slug, function=function) for slug, function in wanted]
    try:
        cells = _cells(name, data)
        found = present(cells, specs)
    except FileProblem as problem:
        return {"problem": str(problem)}
    except (RecursionError, MemoryError, ValueError) as error:
        return {"problem": f"{name}: the file cannot be read ({type(error).__name__})."}
    answer: dict[str, Any] = {"programs": {}, "broken": {}}
    for spec in found:
        try:
            text = program(cells, spec)
            if len(text) > MAX_TEXT:  # what is sent would be cut, and mean something else
                raise BrokenCell(f"What it needs is longer than {MAX_TEXT >> 20} MiB of text.")
            answer["programs"][spec.slug] = text
        except BrokenCell as problem:
            answer["broken"][spec.slug] = str(problem)
        except (RecursionError, MemoryError, ValueError) as error:
            answer["broken"][spec.slug] = f"Its cells cannot be parsed ({type(error).__name__})."
    return answer


def _cells(name: str, data: bytes) -> list[CodeCell]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileProblem(f"{name}: this is no text (UTF-8).") from None
    path = Path(name)
    if path.suffix.lower() != ".py" and not text.strip():
        raise FileProblem(f"{name}: the file is empty.")
    return [replace(cell, source=_encodable(cell.source)) for cell in cells_of(path, text)]


def _encodable(text: str) -> str:
    """Return text without lone surrogates: in a comment, one would cost the whole exercise."""
    return text.encode("utf-8", "replace").decode()
