"""What of the course a confined process may read, and what it may already have imported.

The one list of the course's own files (Python, its packages and the system's libraries, which hold
no answers, are added in `profile`): Landlock opens these places, the zygote refuses to start with
anything else loaded, and the probe tries to read every file that is not on it. A place that has
gone is an error, so that a renamed folder cannot leave a wall standing around nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

COURSE = Path(__file__).resolve().parents[1]
"""The folder of ``course_lib``."""

# of `accounting` what watches and counts; its formulas are what exercises ask for
_INSTRUMENTS = (
    *("autotune", "desk", "eager_ledger", "flops", "format", "guard_band", "hardware"),
    *("interleaving", "interpreter_hooks", "interpreter_recipes", "interpreter_repairs"),
    *("interpreter_shortcuts", "kernel_ledger", "launch_arguments", "ledger", "memory"),
    *("outside", "pointer_tables", "races", "within_reach"),
)
_OF_ACCOUNTING = ("__init__.py", "measurements", *(f"{name}.py" for name in _INSTRUMENTS))
# what students import; no truths, no specs, no kernels
_READABLE = (
    *("__init__.py", "_mode.py", "child", "laptop", "sandbox", "style"),
    *(f"accounting/{name}" for name in _OF_ACCOUNTING),
)
# what the zygote holds in memory besides: how a file is cut into cells, what a case is
_JUDGING = ("__init__.py", "as_meant.py", "finding.py", "spec.py")
_LOADED = ("handin", "lessons.py", *(f"judging/{name}" for name in _JUDGING))


def readable() -> list[Path]:
    """Return the places of the course that a child may read. Raises RuntimeError if one is gone."""
    return _existing(_READABLE)


MAY_NOT_IMPORT = "graded code may not import course_lib.{}: write it yourself."


# of what is closed, what lessons import: who calls it would not write the answer
_ANSWERS = ("attention", "kernels")


def refused(modules: Iterable[str]) -> str | None:
    """Return a sentence if one of these modules is the course's own answer to an exercise."""
    for name in modules:
        package, room, part, *_ = [*name.split("."), "", ""]
        if package != COURSE.name:
            continue
        if room in _ANSWERS:
            return MAY_NOT_IMPORT.format(room)
        if room == "accounting" and part not in ("", "measurements", *_INSTRUMENTS):
            return MAY_NOT_IMPORT.format(f"{room}.{part}")
    return None


def closed_files() -> list[Path]:
    """Return every source file of the course that a child may not read; never none."""
    places = readable()
    closed = [f for f in sorted(COURSE.rglob("*.py")) if not _is_in(f, places)]
    if not closed:
        raise RuntimeError("no file of the course is closed: is this the whole course?")
    return closed


def loaded_answers() -> list[str]:
    """Return the modules of the course that this process has imported and should not have."""
    places = readable() + _existing(_LOADED)
    course = {n: m for n, m in sys.modules.items() if n.partition(".")[0] == "course_lib"}
    files = {name: getattr(module, "__file__", None) for name, module in course.items()}
    return [n for n, file in files.items() if file and not _is_in(Path(file).resolve(), places)]


def _existing(parts: tuple[str, ...]) -> list[Path]:
    places = [COURSE / part for part in parts]
    if gone := [str(place) for place in places if not place.exists()]:
        raise RuntimeError(f"the sandbox's list names what is not there: {', '.join(gone)}")
    return places


def _is_in(file: Path, places: list[Path]) -> bool:
    return any(file.is_relative_to(place) for place in places)
