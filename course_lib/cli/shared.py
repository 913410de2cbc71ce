"""What the subcommands share: how they refuse, find an exercise, and write a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class UsageError(Exception):
    """The request cannot be met; the message is one sentence for the person who typed it."""


def exercise_called(name: str) -> Any:
    """Return the exercise with this id or function name; UsageError with the nearest names."""
    from course_lib.specs import UnknownExercise, find

    try:
        return find(name)
    except UnknownExercise as problem:
        raise UsageError(str(problem)) from None


def course_root(*needed: str) -> Path:
    """Return the folder of the course: around here, or the one this package stands in."""
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[2]):
        if all((folder / name).is_dir() for name in needed):
            return folder
    folders = " and ".join(f"{name}/" for name in needed)
    raise UsageError(f"There are no folders {folders} here: run this in the course.")


def write(out: Path, text: str) -> None:
    """Write a file; UsageError in one sentence where that is not possible."""
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{out} cannot be written ({error.strerror}).") from None
