"""The one file beside the notebooks: predictions, attempts, hints, progress.

A JSON file, ``course_progress.json``, in the folder that holds ``notebooks/`` (or, on Colab and
elsewhere, in the current folder). ``COURSE_STORE`` names another file. Nothing leaves the machine.
Where it cannot be written, what it would hold is kept in memory, and one sentence says so.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from course_lib import lessons

FILE_NAME = "course_progress.json"
_EMPTY: dict[str, Any] = {"version": 1, "attempts": {}, "hints": {}, "predictions": {}, "kept": []}
_unwritten: dict[Path, dict[str, Any]] = {}  # what was done since a file could last be written


def path() -> Path:
    """Return where the store lies; the file need not exist yet."""
    if named := os.environ.get("COURSE_STORE"):
        return Path(named)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "notebooks").is_dir() and (folder / "exercises").is_dir():
            return folder / FILE_NAME
    return here / FILE_NAME


def load() -> dict[str, Any]:
    """Return everything that is stored; a damaged file is put aside, never overwritten."""
    file = path()
    return _add(_read(file), _unwritten.get(file, {}))


def record_attempt(exercise_id: str, verdict: str) -> None:
    """Note one check of an exercise: its verdict now, and whether it has ever passed."""
    tries, passed = int(verdict != "not attempted"), verdict == "passed"
    entry = {"tries": tries, "passed": passed, "last": verdict, "when": _now()}
    merge({"attempts": {exercise_id: entry}})


def record_give_up(exercise_id: str) -> None:
    """Note when the solution of an exercise was shown that had not passed; the first time stays."""
    merge({"attempts": {exercise_id: {"gave_up": _now()}}})


def next_hint(exercise_id: str, available: int) -> int:
    """Return the number (from 0) of the hint to show now, and remember that it was shown."""
    shown = min(load()["hints"].get(exercise_id, 0), available - 1)
    merge({"hints": {exercise_id: shown + 1}})
    return shown


def record_prediction(key: str, answer: Any) -> None:
    """Keep what the student predicted; the first prediction stays, later ones are appended."""
    merge({"predictions": {key: [{"answer": answer, "when": _now()}]}})


def predictions(key: str) -> list[Any]:
    """Return the student's predictions for ``key``, oldest first."""
    return [entry["answer"] for entry in load()["predictions"].get(key, [])]


def note_catch_up(exercise_id: str, saved_source: str) -> None:
    """Remember that a step was filled in by ``course catch-up``, and the text it replaced."""
    merge({"kept": [{"exercise": exercise_id, "source": saved_source, "when": _now()}]})


def merge(other: dict[str, Any]) -> None:
    """Add what was done, here or in another store (an export from Colab); nothing passed is lost.

    What cannot be written now is added to what the file then holds when it next can be.
    """
    file = path()
    with _locked(file):
        waiting = _unwritten.get(file, {})
        try:
            _write(file, _add(_add(_read(file), waiting), other))
            _unwritten.pop(file, None)
        except OSError as problem:  # a verdict is worth more than the note about it
            if not waiting:
                print(
                    f"Your progress cannot be kept in {file} ({problem.strerror}): set "
                    "COURSE_STORE in the environment to a file that can be written.",
                    file=sys.stderr,
                )
            _unwritten[file] = _add(_add(copy.deepcopy(_EMPTY), waiting), other)


def _read(file: Path) -> dict[str, Any]:
    """Return what ``file`` holds, under today's ids; what is no store is put aside."""
    try:
        return _add(copy.deepcopy(_EMPTY), json.loads(file.read_text(encoding="utf-8")))
    except OSError:
        pass
    except (ValueError, TypeError, AttributeError, RecursionError):
        file.replace(file.with_suffix(f".damaged-{_now().replace(':', '')}.json"))
    return copy.deepcopy(_EMPTY)


def _add(data: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return ``data`` with all of ``other`` added; the later verdict is the last one."""
    moved = lessons.moved()
    for key, entry in other.get("attempts", {}).items():
        mine = data["attempts"].setdefault(moved.get(key, key), {"tries": 0, "passed": False})
        later = entry.get("when", "") >= mine.get("when", "")
        summed = {
            "tries": mine["tries"] + entry.get("tries", 0),
            "passed": bool(mine["passed"] or entry.get("passed")),
        }
        gave_up = {k: store[k] for store in (entry, mine) for k in ("gave_up",) if k in store}
        mine |= (entry if later else {}) | gave_up | summed
    for key, count in other.get("hints", {}).items():
        key = moved.get(key, key)
        data["hints"][key] = max(count, data["hints"].get(key, 0))
    for key, answers in other.get("predictions", {}).items():
        data["predictions"].setdefault(key, []).extend(dict(answer) for answer in answers)
    data["kept"].extend(other.get("kept", []))
    return data


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold an advisory lock, so that two open notebooks do not lose each other's entries."""
    try:
        import fcntl
    except ImportError:  # Windows: last writer wins, the file stays whole
        yield
        return
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # `merge` says that nothing can be written there
            file.parent.mkdir(parents=True, exist_ok=True)
            name, flags = file.with_suffix(".json.lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            lock = stack.enter_context(os.fdopen(os.open(name, flags, 0o600), "r+"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write(file: Path, data: dict[str, Any]) -> None:
    """Write a temporary file and rename it, so that a crash leaves the old file whole."""
    if file.exists():
        file.open("r+").close()  # what may not be read or changed is not replaced either
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=file.name, suffix=".json.tmp")
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        json.dump(data, out, indent=1, ensure_ascii=False)
    os.replace(temporary, file)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
