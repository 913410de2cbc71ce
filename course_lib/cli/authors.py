"""For authors: build what is committed, begin a lesson or an exercise."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from course_lib.cli.shared import UsageError, course_root

NEW = "Begin a lesson or an exercise: every file that it needs, whole enough to pass the tests."
_NO_DRIFT = "Every notebook is what its source makes."


def build(options: argparse.Namespace) -> int:
    """Make notebooks/, exercises/ and solutions/ from sources/, and README's table."""
    import importlib.util

    from course_lib import lessons
    from course_lib.authoring.build import drift, write

    root = Path.cwd()
    if not (root / "sources").is_dir():
        raise UsageError(
            "There is no folder sources/ here: run course build at the top of the course."
        )
    if importlib.util.find_spec("jupytext") is None:
        raise UsageError("course build needs jupytext: pip install -e '.[dev]'")
    if options.check:
        drifting = drift(root, lessons.all_exercises())
        help_ = ["To mend this, edit sources/, never the notebooks, and run: course build"]
        print(*(drifting + help_ if drifting else [_NO_DRIFT]), sep="\n")
        return 1 if drifting else 0
    changed = write(root, lessons.all_exercises())
    lines = [p.relative_to(root).as_posix() + (" removed" * (not p.exists())) for p in changed]
    print(*(lines or [_NO_DRIFT]), sep="\n")
    return 0


def new_lesson(options: argparse.Namespace) -> int:
    """Begin a lesson, with its first exercise."""
    from course_lib.authoring import scaffold

    return _made(scaffold.lesson, options.number, options.name)


def new_exercise(options: argparse.Namespace) -> int:
    """Begin an exercise of a lesson that exists."""
    from course_lib.authoring import scaffold

    return _made(scaffold.exercise, options.exercise, options.function)


def _made(make: Callable[..., list[Path]], *arguments: Any) -> int:
    from course_lib.authoring.scaffold import Refused

    root = course_root("sources", "tests/submissions")
    try:
        paths = make(root, *arguments)
    except Refused as problem:
        raise UsageError(str(problem)) from None
    print(*(path.relative_to(root).as_posix() for path in paths), sep="\n")
    print("Write your own into them, and run: course build")
    return 0
