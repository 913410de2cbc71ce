"""``course build``: sources/ → notebooks/, exercises/ and solutions/, or a list of what drifts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from course_lib.authoring.mirror import require_mirror
from course_lib.authoring.notebook import EXERCISE, LESSON, SOLUTION, render
from course_lib.authoring.percent import BuildError, read_cells
from course_lib.judging.spec import Exercise

FOLDERS = (LESSON, EXERCISE, SOLUTION)
NAME = re.compile(r"^\d\d_[a-z0-9_]+$")


def built(root: Path, specs: Sequence[Exercise]) -> dict[Path, str]:
    """Return path and text of every notebook that the sources under ``root`` make.

    Raises BuildError, ``file:line: what is wrong``, for the first source that cannot be built.
    """
    made: dict[Path, str] = {}
    for source, folders in _sources(root):
        cells = read_cells(source)
        lesson = [spec for spec in specs if spec.lesson == int(source.stem[:2])]
        exercises = EXERCISE in folders
        require_mirror(source, cells, lesson if exercises else [])
        siblings = [f for f in FOLDERS if _source_of(root, f, source.stem).exists()]
        for folder in folders:
            text = render(source, cells, folder, siblings, lesson)
            made[root / folder / f"{source.stem}.ipynb"] = text
    return made


def drift(root: Path, specs: Sequence[Exercise]) -> list[str]:
    """Return one sentence for each committed notebook that is not what its source makes."""
    made = built(root, specs)
    found = []
    for path, text in made.items():
        name = path.relative_to(root).as_posix()
        if not path.exists():
            found.append(f"{name} is missing")
        elif path.read_bytes() != text.encode():
            source = _source_of(root, path.parent.name, path.stem).relative_to(root).as_posix()
            found.append(f"{name} differs from what {source} makes")
    left = (path.relative_to(root).as_posix() for path in _left(root, made))
    return found + [f"{name} has no source: delete it, or give it one" for name in left]


def write(root: Path, specs: Sequence[Exercise]) -> list[Path]:
    """Write every notebook that differs from what its source makes; return their paths.

    Raises BuildError, and writes nothing, if one of them has been run: it may hold somebody's work.
    """
    changed = {
        path: text
        for path, text in built(root, specs).items()
        if not path.exists() or path.read_bytes() != text.encode()
    }
    for path in changed:
        if path.exists() and _was_run(path):
            says = "this notebook has been run and may hold your work: move it away first"
            raise BuildError(path, 1, says)
    for path, text in changed.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return list(changed)


def _was_run(path: Path) -> bool:
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (ValueError, KeyError, TypeError):
        return False
    return any(cell.get("execution_count") is not None for cell in cells)


def _sources(root: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    for kind, folders in (("lessons", (LESSON,)), ("exercises", (EXERCISE, SOLUTION))):
        for source in sorted((root / "sources" / kind).glob("*.py")):
            if not NAME.match(source.stem):
                raise BuildError(source, 1, "a source is named NN_lower_case_words.py")
            yield source, folders


def _source_of(root: Path, folder: str, stem: str) -> Path:
    kind = "lessons" if folder == LESSON else "exercises"
    return root / "sources" / kind / f"{stem}.py"


def _left(root: Path, made: dict[Path, str]) -> list[Path]:
    """Return notebooks of the course's name pattern that no source makes (any more)."""
    here = (path for folder in FOLDERS for path in sorted((root / folder).glob("*.ipynb")))
    return [path for path in here if path not in made and NAME.match(path.stem)]
