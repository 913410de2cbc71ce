"""What docstrings, comments and documents name is there: files, folders, modules, functions.

Checked are paths (`widgets/static/quiz.js`), folders in backticks (`benchmarks/`), dotted names
that begin with ``course_lib``, and single names in backticks. A name with a part in capitals
(`NN_name.py`, `STUDENT/results.json`) stands for many and is passed over.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from conftest import ROOT

FOLDERS = ("course_lib", "tests", "benchmarks", "sources", "docs", ".ci")
BUILT = ("notebooks", "exercises", "solutions")
SUBMITTED = {"submissions", "hostile"}  # written like students' and attackers', not by the house
# what somebody or something makes, elsewhere or later
MADE_LATER = {
    "course_progress.json", "my_flash_attention.py", "Attention.py", "results.json",
    "start_workers.py", "nbgraderformat/v3.json", "grades/", "./",
}  # fmt: skip

FILE = re.compile(r"(?<![\w*<{/.-])((?:[\w.-]+/)*[\w-]+\.(?:py|m?js|md|toml|json|ipynb|txt|svg))\b")
FOLDER = re.compile(r"`((?:[\w.-]+/)+)`")
DOTTED = re.compile(r"\bcourse_lib((?:\.\w+)+)")
NAME = re.compile(r"(?<!`)`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(\))?`(?!`)")
BETWEEN_STATEMENTS = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
STANDS_FOR_MANY = re.compile(r"(?<![a-z])[A-Z]{2,}(?![a-z])")


@cache
def paths() -> list[str]:
    """Return every file of the repository, as a path from its root."""
    found = [f for f in ROOT.iterdir() if f.is_file()]
    found += [f for folder in (*FOLDERS, *BUILT) for f in (ROOT / folder).rglob("*")]
    return [f.relative_to(ROOT).as_posix() for f in found if "__pycache__" not in f.parts]


def texts(*suffixes: str) -> list[str]:
    return [
        path
        for path in paths()
        if path.endswith(suffixes)
        and not path.startswith(BUILT)
        and not SUBMITTED & set(Path(path).parts)
    ]


def prose(path: str) -> Iterator[str]:
    """Yield a document, or the docstrings and comments of a program."""
    if path.endswith(".md"):
        yield (ROOT / path).read_text(encoding="utf-8")
    elif path.endswith((".js", ".mjs")):
        text = (ROOT / path).read_text(encoding="utf-8")
        yield from re.findall(r"/\*.*?\*/|//[^\n]*", text, re.DOTALL)
    else:
        before = tokenize.NEWLINE
        for kind, part in tokens(ROOT / path):
            if kind == tokenize.COMMENT:
                yield part
                continue
            if kind == tokenize.STRING and before in BETWEEN_STATEMENTS:
                yield str(ast.literal_eval(part))
            before = kind


@cache
def tokens(file: Path) -> list[tuple[int, str]]:
    """Return the tokens of a program: to walk its tree takes three times as long."""
    read = tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline)
    return [(token.type, token.string) for token in read if token.type != tokenize.NL]


@cache
def names_of_paths() -> frozenset[str]:
    """Return each file and folder as a text may name it: whole, or without folders in front."""
    found = set()
    for path in paths():
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            last = "" if end == len(parts) else "/"
            found.update("/".join(parts[start:end]) + last for start in range(end))
    return frozenset(found)


def is_in_the_course(dotted: str) -> bool:
    """Whether ``.room.module.name`` exists; of a name in a module, its first part must."""
    place, parts = ROOT / "course_lib", dotted.split(".")[1:]
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    if parts and (place / f"{parts[0]}.py").exists():
        place /= f"{parts.pop(0)}.py"
    file = place / "__init__.py" if place.is_dir() else place
    return not parts or parts[0] in words(file)


@cache
def words(file: Path) -> frozenset[str]:
    """Return the names that a program's code has, strings of one line included."""
    found = {file.stem if file.stem != "__init__" else file.parent.name}
    for kind, text in tokens(file):
        if kind == tokenize.NAME:
            found.add(text)
        elif kind in STRINGS and "\n" not in text and r"\n" not in text:
            found.update(re.findall(r"\w+", text))
    return frozenset(found)


@cache
def all_words() -> frozenset[str]:
    code = [ROOT / path for path in texts(".py")]
    scripts = " ".join((ROOT / path).read_text() for path in texts(".js"))
    return frozenset(dir(builtins)).union(re.findall(r"\w+", scripts), *map(words, code))


def missing(path: str) -> Iterator[str]:
    """Yield what the prose of a file names and nobody finds."""
    for text in prose(path):
        yield from (n for n in FILE.findall(text) + FOLDER.findall(text) if not is_known(n))
        yield from (f"course_lib{n}" for n in DOTTED.findall(text) if not is_in_the_course(n))
        if path.endswith(".py"):
            names = (n for n in NAME.findall(text) if not is_known(n))
            yield from (n for n in names if not set(n.split(".")) <= all_words())


def is_known(name: str) -> bool:
    """Whether this is a file or folder of the repository, or stands for what is not in it."""
    known = name in names_of_paths() or name in MADE_LATER
    return known or bool(STANDS_FOR_MANY.search(name))


@pytest.mark.parametrize("folder", [*FOLDERS, "."])
def test_what_prose_names_is_there(folder):
    files = [
        path
        for path in texts(".py", ".js", ".mjs", ".md")
        if path.startswith(f"{folder}/") or (folder == "." and "/" not in path)
    ]
    assert files, folder
    assert {path: sorted(gone) for path in files if (gone := set(missing(path)))} == {}


def test_the_test_above_can_fail(monkeypatch):
    wrong = {"grading/", "grading/spec.py", "course_lib.kernels.attention", "x".join(["no"] * 9)}
    named = " ".join(name if "." in name else f"`{name}`" for name in wrong)
    monkeypatch.setitem(globals(), "prose", lambda path: [named])
    assert set(missing("x.py")) == wrong
