"""`course lab` and `course open`: JupyterLab on the course's own folder, with its own kernel."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from course_lib.cli.shared import UsageError, course_root, exercise_called

# `python -m jupyterlab` without the parsers that `course_lib/authoring/percent.py` speaks of: its
# import takes a third of the processor time
_JUPYTERLAB = (
    "import sys; sys.modules['rfc3987_syntax'] = None; "
    "from jupyterlab.labapp import main; sys.exit(main())"
)


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return a command line's words in two: the course's own, and those that are JupyterLab's.

    What follows `lab` is JupyterLab's, and so is what follows `open`, except one word that says
    what to open; it may stand behind the options, if it is no value of theirs (`--port 8899`).
    """
    if words[:1] not in (["lab"], ["open"]) or {"-h", "--help"} & set(words):
        return list(words), []
    command, rest = list(words[:1]), list(words[1:])
    if command == ["open"] and rest and not rest[0].startswith("-"):
        return [*command, rest[0]], rest[1:]
    if command == ["open"] and len(rest) > 1 and _is_place(rest[-1]):
        return [*command, rest[-1]], rest[:-1]
    return command, rest


def _is_place(word: str) -> bool:
    """Return whether a word is the number of a lesson, or an exercise."""
    from course_lib import lessons

    if word.isdecimal():
        return int(word) in [lesson.number for lesson in lessons.all_lessons()]
    try:
        exercise_called(word)
    except UsageError:
        return False
    return True


def lab(options: argparse.Namespace) -> int:
    """Open the course in JupyterLab at its first lesson; further options are JupyterLab's."""
    from course_lib import lessons

    root = course_root("notebooks", "exercises")
    first = lessons.in_order()[0]
    return _serve(root, _notebook(root, "notebooks", first.number), options.rest)


def open_(options: argparse.Namespace) -> int:
    """Open what comes next, or the lesson (03) or exercise (3.3) that you name, in JupyterLab."""
    root = course_root("notebooks", "exercises")
    path, cell = _place(root, options.what)
    for server in () if options.rest else _servers(root):
        fragment = f"#cell-id={cell}" if cell else ""
        address = f"{server['url']}lab/tree/{path}?token={server['token']}{fragment}"
        print(f"JupyterLab runs already: {address}")
        webbrowser.open(address)
        return 0
    return _serve(root, path, options.rest)


def _place(root: Path, what: str | None) -> tuple[str, str]:
    """Return the notebook to open and the cell in it ("" for its beginning).

    What comes next is a lesson until one of its exercises has been tried, then the exercise.
    """
    from course_lib import lessons, store
    from course_lib.progress_view import next_exercise

    if what is not None and what.isdecimal():
        if not _is_place(what):
            asked = lessons.in_words(lessons.all_lessons())
            raise UsageError(f"There is no lesson {what}; there are {asked}.")
        return _notebook(root, "notebooks", int(what)), ""
    if what is not None:
        exercise = exercise_called(what)
        return _notebook(root, "exercises", exercise.lesson), exercise.slug
    attempts = store.load()["attempts"]
    following = next_exercise(attempts)
    if following is None:
        raise UsageError("Everything is done; course open 03 opens lesson 03 again.")
    if any(lessons.find(id).lesson == following.lesson for id in _known(attempts)):
        return _notebook(root, "exercises", following.lesson), following.slug
    return _notebook(root, "notebooks", following.lesson), ""


def _known(attempts: dict[str, Any]) -> Iterator[str]:
    """Yield the exercises that were tried; a variant, or one that is gone, is none of a lesson."""
    from course_lib import lessons

    ids = {exercise.id for exercise in lessons.all_exercises()}
    yield from (id for id in attempts if id in ids)


def _notebook(root: Path, folder: str, number: int) -> str:
    from course_lib.authoring.originals import lesson_notebook

    return lesson_notebook(root, folder, number).relative_to(root).as_posix()


def _servers(root: Path) -> Iterator[dict[str, Any]]:
    """Yield the JupyterLabs of this user that run on the course's folder."""
    if importlib.util.find_spec("jupyter_server") is None:
        return
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    from jupyter_server.serverapp import list_running_servers

    for server in list_running_servers():
        if Path(server["root_dir"]).resolve() == root.resolve():
            yield server


def _serve(root: Path, path: str, arguments: list[str]) -> int:
    """Become JupyterLab, open at a notebook (on Windows: run it, and wait for its end)."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise UsageError("JupyterLab is not installed here: open the notebook where you are.")
    if _is_root() and not any(re.match(r"--(\w+\.)?allow[-_]root\b", word) for word in arguments):
        raise UsageError(
            "You are root, and JupyterLab starts for root only when told to: add --allow-root "
            "(course lab --allow-root), or be another user."
        )
    command = [sys.executable, "-P", "-c", _JUPYTERLAB, f"--ServerApp.root_dir={root}"]
    command += [f"--LabApp.default_url=/lab/tree/{path}", *arguments]
    if os.name == "nt":
        return subprocess.call(command, env=own_kernel())
    os.execve(command[0], command, own_kernel())


def _is_root() -> bool:
    """Return whether this is the user who may do everything (Windows has none)."""
    return os.name != "nt" and os.geteuid() == 0


def own_kernel() -> dict[str, str]:
    """Return an environment in which the kernel named python3 is that of this Python.

    Whatever the user has registered elsewhere under that name stays where it is. `course` is on
    the PATH of JupyterLab's terminals and of cells that begin with an exclamation mark.
    """
    found = {name: value for name, value in os.environ.items() if name != "JUPYTER_PATH"}
    path = os.pathsep.join([str(Path(sys.executable).parent), found.get("PATH", "")])
    return found | {"JUPYTER_PREFER_ENV_PATH": "1", "PATH": path}
