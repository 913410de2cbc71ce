"""A child task of the sandbox: parse one submitted file and cut out the exercises in it.

Notebooks are parsed here and not in the grader: a parser is the first thing a hostile file meets.
Nothing of the student's is executed.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

from course_lib.handin.cells import BrokenCell, present, program
from course_lib.handin.course_file import CodeCell, FileProblem, notebook_of, source_of
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
            answer["programs"][spec.slug] = program(cells, spec)
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
    if PurePosixPath(name).suffix.lower() == ".py":
        return [CodeCell("", text)]
    if not text.strip():
        raise FileProblem(f"{name}: the file is empty.")
    cells = notebook_of(Path(name), text)["cells"]
    return [
        CodeCell(str(cell.get("id", "")), _encodable(source_of(cell)))
        for cell in cells
        if cell.get("cell_type") == "code"
    ]


def _encodable(text: str) -> str:
    """Return text without lone surrogates: in a comment, one would cost the whole exercise."""
    return text.encode("utf-8", "replace").decode()
