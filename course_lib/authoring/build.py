"""``course build``: sources/ → notebooks/, exercises/ and solutions/, or a list of what drifts.

README's table of lessons is written as well, from every ``lesson.toml``, and the widgets' colours,
from the table that figures use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from course_lib.authoring import readme
from course_lib.authoring.mirror import require_mirror
from course_lib.authoring.notebook import EXERCISE, LESSON, METADATA, SOLUTION, render
from course_lib.authoring.percent import BuildError, read_cells
from course_lib.lessons import ExerciseFacts
from course_lib.style import tokens

FOLDERS = (LESSON, EXERCISE, SOLUTION)
_MADE = {"lesson.py": (LESSON,), "exercises.py": (EXERCISE, SOLUTION)}
NAME = re.compile(r"^\d\d_[a-z0-9_]+$")


def built(root: Path, specs: Sequence[ExerciseFacts]) -> dict[Path, str]:
    """Return path and text of what the sources under ``root`` make: notebooks, README, tokens.

    Raises BuildError, ``file:line: what is wrong``, for the first source that cannot be built.
    """
    made: dict[Path, str] = {}
    for source, folders in _sources(root):
        cells, name = read_cells(source), source.parent.name
        lesson = [spec for spec in specs if spec.lesson == int(name[:2])]
        require_mirror(source, cells, lesson if EXERCISE in folders else [])
        siblings = [f for f in FOLDERS if _source_of(root / f / name).exists()]
        for folder in folders:
            text = render(source, cells, folder, siblings, lesson)
            made[root / folder / f"{name}.ipynb"] = text
    if (file := root / "README.md").exists():
        made[file] = readme.written(file)
    if (static := root / "course_lib" / "widgets" / "static").is_dir():
        made |= {static / "tokens.css": tokens.css(), static / "tokens.js": tokens.javascript()}
    return made


def drift(root: Path, specs: Sequence[ExerciseFacts]) -> list[str]:
    """Return one sentence for each committed file that is not what its source makes."""
    made = built(root, specs)
    found = []
    for path, text in made.items():
        name = path.relative_to(root).as_posix()
        if not path.exists():
            found.append(f"{name} is missing")
        elif path.read_bytes() != text.encode():
            source = _source_of(path).relative_to(root).as_posix()
            found.append(f"{name} differs from what {source} makes")
    left = (path.relative_to(root).as_posix() for path in _left(root, made))
    return found + [f"{name} has no source: course build removes it" for name in left]


def write(root: Path, specs: Sequence[ExerciseFacts]) -> list[Path]:
    """Write every file that differs from what its source makes, remove notebooks without a source.

    Returns the paths of both. Raises BuildError, and changes nothing, if one of them has been run,
    or if one that is to go was ever saved by Jupyter: it may hold somebody's work.
    """
    made = built(root, specs)
    changed = {p: t for p, t in made.items() if not p.exists() or p.read_bytes() != t.encode()}
    left = _left(root, made)
    for path in [*changed, *left]:
        if path.exists() and (_was_run(path) or (path in left and not _is_as_built(path))):
            says = "this notebook has been run and may hold your work: move it away first"
            raise BuildError(path, 1, says)
    for path, text in changed.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    for path in left:
        path.unlink()
    return [*changed, *left]


def _was_run(path: Path) -> bool:
    cells = _raw(path).get("cells", [])
    return any(cell.get("execution_count") is not None for cell in cells)


def _is_as_built(path: Path) -> bool:
    """Return whether nobody saved this notebook: Jupyter adds to the metadata when it does."""
    return _raw(path).get("metadata") == METADATA


def _raw(path: Path) -> dict[str, Any]:
    """Return the notebook's JSON object, {} if the file holds none."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return {}
    return raw if isinstance(raw, dict) else {}


def _sources(root: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    for name, folders in _MADE.items():
        for source in sorted((root / "sources").glob(f"*/{name}")):
            if not NAME.match(source.parent.name):
                raise BuildError(source, 1, "a lesson's folder is named NN_lower_case_words")
            yield source, folders


def _source_of(path: Path) -> Path:
    """Return the file that makes a notebook (its suffix may be missing), or what else is built."""
    root, folder = path.parent.parent, path.parent.name
    if path.suffix == ".md":
        return path.parent / readme.SOURCE
    if path.suffix in (".css", ".js"):
        return path.parents[2] / "style" / "palette.py"
    return root / "sources" / path.stem / ("lesson.py" if folder == LESSON else "exercises.py")


def _left(root: Path, made: dict[Path, str]) -> list[Path]:
    """Return notebooks of the course's name pattern that no source makes (any more)."""
    here = (path for folder in FOLDERS for path in sorted((root / folder).glob("*.ipynb")))
    return [path for path in here if path not in made and NAME.match(path.stem)]
