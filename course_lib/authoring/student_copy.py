"""``course export-student``: the course without its solutions and what is made of them.

What is copied is listed here, not what is left out: a new folder stays at home until somebody
decides that students need it.
"""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from pathlib import Path

from course_lib.authoring.notebook import EXERCISE, to_json
from course_lib.authoring.originals import GIVEN_BLANKS
from course_lib.authoring.repository import RELEASE, REPOSITORY

# files and folders that students get; `course_lib` is thinned out below
GIVEN = (
    "README.md",
    "GLOSSARY.md",
    "LICENSE",
    "Makefile",
    "start.py",
    "course",
    "course.cmd",
    "pyproject.toml",
    "constraints.txt",
    "environment.yml",
    ".gitignore",
    "docs/race.gif",
    "docs/traffic.svg",
    "notebooks",
    "exercises",
    "course_lib",
)
# modules that answer an exercise (9.3, 11.4); no lesson and no check needs them
ANSWERS = ("course_lib/attention/backward.py", "course_lib/attention/page_pool.py")
_LEFT_OUT = re.compile(
    r"__pycache__|\.ipynb_checkpoints|.*\.pyc|course_progress\.json.*|my_.*\.(?:py|ipynb)|flash_from_scratch\.py"
)
_SOLUTIONS_LINK = re.compile(r" · \[the solutions\]\(\.\./solutions/[^)]*\) \(\[Colab\]\([^)]*\)\)")
_SOLUTIONS_ROW = re.compile(r"^\| `solutions/` \|")
# what students are told about solutions: an item of a list, or a sentence
_TOLD = r"`(?:!?course\s+(?:catch-up|solution)\b[^`]*|solutions/)`"
_TOLD_ITEM = re.compile(rf"^- {_TOLD}.*\n(?:  .*\n)*", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.?!])(?=\s+[A-Z`])")
_FILE_LINK = re.compile(r"(?<=\]\()([\w/.]+)(?=\))")
_KERNEL = re.compile(r"course_lib\.kernels(?:\.| import )(\w+)")
# in a module, where a docstring may name its neighbours
_KERNEL_IMPORT = re.compile(r"^\s*(?:from|import) " + _KERNEL.pattern, re.MULTILINE)
_NOTE = """\
> This is the students' copy of the course. `solutions/`, `sources/`, the pages for instructors, the
> tests, the benchmarks and the `Dockerfile` are not part of it.

"""


class NoCourse(ValueError):
    """The copy cannot be made; the message is one clear sentence."""


def write(root: Path, out: Path) -> list[str]:
    """Copy the course at ``root`` to the new or empty folder ``out``; return what was copied.

    Raises NoCourse if ``root`` is no whole course or ``out`` is not empty, and OSError.
    """
    if missing := [name for name in GIVEN if not (root / name).exists()]:
        raise NoCourse(f"{root}: this is not the whole course, {missing[0]} is missing.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise NoCourse(f"{out}: choose a new or an empty folder, nothing is overwritten.")
    if out.resolve().is_relative_to((root / "course_lib").resolve()):
        raise NoCourse(f"{out}: choose a folder outside course_lib.")
    out.mkdir(parents=True, exist_ok=True)
    kernels = shown_kernels(root)

    def left_out(folder: str, names: list[str]) -> set[str]:
        """Return the names in ``folder`` that students do not get."""
        dropped = {name for name in names if _LEFT_OUT.fullmatch(name)}
        if Path(folder) == root / "course_lib" / "kernels":
            dropped |= {name for name in names if name.removesuffix(".py") not in kernels}
        here = Path(folder)
        return dropped | {n for n in names if (here / n).relative_to(root).as_posix() in ANSWERS}

    for name in GIVEN:
        source, target = root / name, out / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=left_out)
        else:
            shutil.copy(source, target)  # with its mode: ./course is a program
    for notebook in sorted(out.glob("*/*.ipynb")):
        notebook.write_text(_without_solutions(notebook), encoding="utf-8")
    shutil.copytree(out / EXERCISE, out / GIVEN_BLANKS / EXERCISE)  # for `course reset`
    readme = out / "README.md"
    text = _FILE_LINK.sub(partial(_where, out), _untold(readme.read_text(encoding="utf-8")))
    readme.write_text(_NOTE + text, encoding="utf-8")
    return list(GIVEN)


def _where(out: Path, link: re.Match[str]) -> str:
    """Return a link's file, or its page in the repository if ``out`` has no such file."""
    return link[0] if (out / link[0]).exists() else f"{REPOSITORY}/blob/{RELEASE}/{link[0]}"


def shown_kernels(root: Path) -> set[str]:
    """Return the modules of ``course_lib.kernels`` that a notebook names, and what they import.

    A lesson that shows a kernel cannot do without it. The others (backward, decode, the ladder of
    rungs) are for benchmarks, or for lessons to come.
    """
    texts = [file.read_text(encoding="utf-8") for file in root.glob("notebooks/*.ipynb")]
    texts += [file.read_text(encoding="utf-8") for file in root.glob("exercises/*.ipynb")]
    shown, waiting = {"__init__"}, {name for text in texts for name in _KERNEL.findall(text)}
    while waiting:
        name = waiting.pop()
        file = root / "course_lib" / "kernels" / f"{name}.py"
        if name not in shown and file.exists():
            shown.add(name)
            waiting |= set(_KERNEL_IMPORT.findall(file.read_text(encoding="utf-8")))
    return shown


def _untold(markdown: str) -> str:
    """Return a text without the items and sentences that offer a solution."""
    paragraphs = _TOLD_ITEM.sub("", markdown).split("\n\n")
    for i, paragraph in enumerate(paragraphs):
        if not paragraph.startswith(("|", "- ")):
            sentences = _SENTENCE_END.split(paragraph)
            paragraphs[i] = "".join(one for one in sentences if not re.search(_TOLD, one))
    return "\n\n".join(paragraphs)


def _without_solutions(notebook: Path) -> str:
    """Return a notebook's text without what leads to the solutions or offers them."""
    data = json.loads(notebook.read_text(encoding="utf-8"))
    for cell in data["cells"]:
        if cell["cell_type"] == "markdown":
            kept = (line for line in cell["source"] if not _SOLUTIONS_ROW.match(line))
            text = _untold(_SOLUTIONS_LINK.sub("", "".join(kept)))
            cell["source"] = text.splitlines(keepends=True)
    return to_json(data)
