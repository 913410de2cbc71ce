"""The corpus of submissions, whole files and edits alike; `submissions/README.md` explains them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import dropwhile, takewhile
from pathlib import Path

SUBMISSIONS = Path(__file__).parent / "submissions"
_ENTRY = re.compile(r"^@@ (\w+) @@\n", re.MULTILINE)
_EXPECTED = "# Expected: "


@dataclass(frozen=True)
class Sample:
    """A right or wrong submission: its exercise's id, its name, and the text of its file."""

    exercise: str
    kind: str  # "right" or "wrong"
    name: str
    text: str  # a header of comments, then the code

    @property
    def id(self) -> str:
        return f"{self.exercise}/{self.kind}/{self.name}"

    @property
    def expected(self) -> tuple[str, str]:
        """Return what a wrong one's report must name, as ("misconception", "O is not rescaled")."""
        line = self.text.splitlines()[1]
        if not line.startswith(_EXPECTED):
            raise ValueError(f"{self.id}: line 2 must begin with {_EXPECTED!r}")
        what, name = line.removeprefix(_EXPECTED).split(": ", 1)
        return what, name

    @property
    def compiled(self) -> bool:
        """Return whether the corpus asks to compile it for a GPU: a child, and seconds."""
        return "# Compiled" in self.text or f"{_EXPECTED}verdict: " in self.text


def corpus(kind: str, exercise: str = "*") -> list[Sample]:
    """Return the samples of a kind, of one exercise or of all, sorted.

    Raises ValueError where an edit does not fit the right answer that it edits.
    """
    folders = sorted(SUBMISSIONS.glob(f"{exercise}/"))
    return [sample for folder in folders for sample in _samples(folder, kind)]


def sample(id: str) -> Sample:
    """Return one sample, such as "7.4/wrong/k_read_twice"."""
    exercise, kind, name = id.split("/")
    (found,) = (one for one in corpus(kind, exercise) if one.name == name)
    return found


@cache
def _samples(folder: Path, kind: str) -> list[Sample]:
    texts = [(file.stem, file.read_text("utf-8")) for file in (folder / kind).glob("*.py")]
    edits = folder / f"{kind}.diff"
    if edits.exists():
        plain = (folder / "right" / "plain.py").read_text("utf-8")
        texts += edited(plain, edits.read_text("utf-8"))
    names = [name for name, _ in texts]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{folder.name}/{kind}: two are called {' and two '.join(twice)}")
    return [Sample(folder.name, kind, name, text) for name, text in sorted(texts)]


def edited(plain: str, edits: str) -> Iterator[tuple[str, str]]:
    """Yield (name, text) for each entry of ``edits``, the text of a `.diff` file.

    Raises ValueError where an entry's lines do not stand in ``plain`` exactly once.
    """
    before, *entries = _ENTRY.split(edits)
    if before.strip():
        raise ValueError(f"an edit begins with @@ name @@, not with {before!r}")
    code = list(dropwhile(_is_comment, plain.splitlines()))
    for name, entry in zip(entries[::2], entries[1::2], strict=True):
        lines = entry.strip("\n").split("\n")
        header = list(takewhile(_is_comment, lines))
        changed = code
        for place in "\n".join(lines[len(header) :]).split("\n\n"):
            changed = _replaced(name, changed, place.split("\n"))
        yield name, "\n".join([*header, *changed, ""])


def _is_comment(line: str) -> bool:
    return line.startswith("#")


def _replaced(name: str, code: list[str], place: list[str]) -> list[str]:
    """Return ``code`` in which the lines marked " " or "-" became those marked " " or "+"."""
    if wrong := [line for line in place if line[:1] not in {" ", "-", "+"}]:
        raise ValueError(f"{name}: a line of an edit begins with a space, - or +: {wrong}")
    old = [line[1:] for line in place if line[0] != "+"]
    new = [line[1:] for line in place if line[0] != "-"]
    found = [i for i in range(len(code)) if code[i : i + len(old)] == old]
    if len(found) != 1 or not old:
        text = "\n".join(old)
        raise ValueError(f"{name}: these lines stand {len(found)} times, not once:\n{text}")
    if old == new:
        raise ValueError(f"{name}: an edit changes nothing:\n" + "\n".join(old))
    return [*code[: found[0]], *new, *code[found[0] + len(old) :]]
