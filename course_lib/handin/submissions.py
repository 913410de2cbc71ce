"""Find submissions in a folder or a zip. File names are never trusted, and nothing is unpacked.

A submission is a top-level entry: a file of one student, or a folder (or zip) of theirs. Archives
are read in memory, piece by piece, under caps; links, pipes, absolute and climbing names, and
whatever is too large or too many are refused, which becomes that student's record.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import os
import re
import stat
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

SUFFIXES = (".ipynb", ".py")
MAX_FILE, MAX_TOTAL, MAX_FILES = 20 << 20, 64 << 20, 200  # of one submission
_IGNORED = {"__MACOSX", "__pycache__", "node_modules"}
# bzip2 and LZMA are unpacked by the whole input, not up to a cap: 1 MB can be tens of gigabytes
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# letters that nobody sees: of Default_Ignorable_Code_Point (Unicode 16.0, derived properties) those
# that are not of category C, which goes anyway; and the blank of Braille
_UNSEEN = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164"
    r"\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_TOO_MANY = "It has too many files and folders."


class NoSubmissions(Exception):
    """There is nothing to grade at that place; the message is one sentence."""


class Refused(Exception):
    """This submission is not read any further; the message is one sentence."""


@dataclass(frozen=True)
class Submission:
    """One student's files: (name, contents) each. ``problem`` says why there are none.

    ``note`` says what a person should look at besides.
    """

    student: str
    files: tuple[tuple[str, bytes], ...] = ()
    problem: str = ""
    note: str = ""

    @property
    def content(self) -> str:
        """A hash of everything that was handed in; the key under which it is graded once."""
        digest = hashlib.sha256(self.problem.encode())
        for name, data in self.files:
            digest.update(
                f"\0{len(name)}\0{len(data)}\0".encode() + name.encode("utf-8", "replace")
            )
            digest.update(data)
        return digest.hexdigest()


class _Budget:
    """What may still be looked at for one submission, read or ignored: entries, unpacked bytes."""

    def __init__(self) -> None:
        self._entries, self._bytes = 20 * MAX_FILES, 2 * MAX_TOTAL

    def spend(self, *, entries: int = 0, size: int = 0) -> None:
        self._entries -= entries
        self._bytes -= size
        if self._entries < 0:
            raise Refused(_TOO_MANY)
        if self._bytes < 0:
            raise Refused(f"It is larger than {MAX_TOTAL >> 20} MiB.")


_Files = Iterator[tuple[str, bytes]]


class _Entry(NamedTuple):
    name: str  # safe to show
    files: Callable[[_Budget], _Files]  # reads it
    note: str = ""  # for a person


def submissions(place: Path, out: Path | None = None) -> Iterator[Submission]:
    """Yield the submissions of a folder or zip, sorted by name; ``out`` in it is none of them.

    Raises NoSubmissions.
    """
    if not place.exists():
        raise NoSubmissions(f"{place}: there is no such folder or zip.")
    with ExitStack() as stack:
        found = list(_in_folder(place, out) if place.is_dir() else _in_zip(place, stack))
        if not found:
            raise NoSubmissions(f"{place}: there is no submission in it (.ipynb, .py or .zip).")
        names = _told_apart([entry.name for entry in found])
        for (shared, files, note), name in zip(found, names, strict=True):
            several = f"Several submissions are named {shared!r}: whose is this one?"
            yield _read(name, files, several if name != shared else note)


def _told_apart(names: Sequence[str]) -> list[str]:
    """Number all names that occur more than once, so that nobody gets another's by coming first.

    (Nor by capitals: gradebooks take ``Ada`` for ``ada`` when rows are imported.)
    """
    often = Counter(map(_same, names))
    taken = {_same(name) for name in names if often[_same(name)] == 1}
    numbers = {_same(name): itertools.count(1) for name in names}

    def free(name: str) -> str:
        if often[_same(name)] == 1:
            return name
        tried = (f"{name} [{i}]" for i in numbers[_same(name)])
        found = next(one for one in tried if _same(one) not in taken)
        taken.add(_same(found))
        return found

    return [free(name) for name in names]


def _same(name: str) -> str:
    """Return what names have in common that differ in capitals or in the width of letters."""
    return unicodedata.normalize("NFKC", name).casefold()


def shown(name: str) -> str:
    """Return a name that is safe to show: composed, without control and direction characters,
    nor others that are not seen."""
    seen = _UNSEEN.sub("", name.encode("utf-8", "replace").decode())
    text = "".join(c for c in seen if unicodedata.category(c)[0] != "C")
    text = unicodedata.normalize("NFC", text).strip()  # after it: what was hidden kept parts apart
    suffix = PurePosixPath(text).suffix[:8]  # a long name keeps it: it says how to read the file
    cut = text if len(text) <= 120 else text[: 120 - len(suffix)] + suffix
    return f"unnamed{cut}" if cut[:1] in ("", ".") else cut  # ".py" alone has no suffix


def natural(name: str) -> list[tuple[int, int | str]]:
    """Return a key that sorts ``hw (2)`` before ``hw (10)``."""
    return [(0, int(p)) if p.isdecimal() else (1, p) for p in re.split(r"(\d{1,9})", name) if p]


def _in_folder(root: Path, out: Path | None) -> Iterator[_Entry]:
    made = out.stat() if out and out.exists() else None  # by a run before
    top = _entries(root, made)
    if len(top) == 1 and top[0].is_dir(follow_symlinks=False) and _wraps(top[0].name, root):
        top = _entries(Path(top[0].path), made)
    for entry in top:
        is_dir, note = entry.is_dir(follow_symlinks=False), ""
        if is_dir and len(top) == 1:
            note = _perhaps_the_class(entry.name for entry in _entries(Path(entry.path)))
        if not is_dir and not entry.name.lower().endswith((*SUFFIXES, ".zip")):
            if entry.is_symlink():
                yield _Entry(shown(entry.name), _link)
            continue
        student = shown(entry.name if is_dir else PurePosixPath(entry.name).stem)
        yield _Entry(student, partial(_walk, Path(entry.path), is_dir), note)


def _wraps(folder: str, place: Path) -> bool:
    """Whether the only folder in a place is the class again: submissions/submissions/alice/...

    It has the place's name. Any other may be a student's, whose files have names of their choice.
    """
    place = place.resolve()
    return folder.casefold() == (place.name if place.is_dir() else place.stem).casefold()


def _perhaps_the_class(inside: Iterable[str]) -> str:
    """Return a note on a lone folder, from the names in it, unless a notebook is among them."""
    if any(name.lower().endswith(SUFFIXES) for name in inside):
        return ""
    return (
        "All that was handed in lies in this folder: if it is the class, grade the folder itself."
    )


def _link(budget: _Budget) -> _Files:
    raise Refused("It is a link: links are not followed.")


def _entries(folder: Path, but: os.stat_result | None = None) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        kept = [e for e in found if not _ignored(e.name)]
    if but:
        kept = [e for e in kept if not os.path.samestat(e.stat(follow_symlinks=False), but)]
    return sorted(kept, key=lambda e: natural(e.name))


def _ignored(name: str) -> bool:
    return name.startswith(".") or name in _IGNORED


def _read(student: str, files: Callable[[_Budget], _Files], note: str) -> Submission:
    try:
        kept = _capped(files(_Budget()))
    except Refused as why:
        return Submission(student, problem=str(why), note=note)
    except OSError as error:
        return Submission(student, problem=f"It cannot be read ({error.strerror}).", note=note)
    except Exception as error:  # whatever a parser of hostile bytes may raise
        problem = f"It cannot be read ({type(error).__name__})."
        return Submission(student, problem=problem, note=note)
    if kept:
        return Submission(student, tuple(kept), note=note)
    problem = "There is no notebook (.ipynb) or script (.py) in it."
    return Submission(student, problem=problem, note=note)


def _capped(files: _Files) -> list[tuple[str, bytes]]:
    kept, total = [], 0
    for name, data in files:
        total += len(data)
        if total > MAX_TOTAL:
            raise Refused(f"It is larger than {MAX_TOTAL >> 20} MiB.")
        kept.append((shown(name), data))
        if len(kept) > MAX_FILES:
            raise Refused(f"It has more than {MAX_FILES} files.")
    return sorted(kept, key=lambda pair: natural(pair[0]))


def _walk(path: Path, is_dir: bool, budget: _Budget) -> _Files:
    """Yield the files of one submission; a link or a pipe anywhere refuses all of it."""
    if not is_dir:
        yield from _plain_or_zip(path.name, _contents(path), budget)
        return
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        for entry in _entries(folder):
            budget.spend(entries=1)
            if entry.is_symlink():
                raise Refused(f"{shown(entry.name)} is a link: links are not followed.")
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            elif entry.name.lower().endswith((*SUFFIXES, ".zip")):
                yield from _plain_or_zip(entry.name, _contents(Path(entry.path)), budget)


def _plain_or_zip(name: str, data: bytes, budget: _Budget) -> _Files:
    budget.spend(size=len(data))
    return _members(data, budget) if name.lower().endswith(".zip") else iter([(name, data)])


def _contents(path: Path) -> bytes:
    """Read a plain file without following links or waiting for pipes."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise Refused(f"{shown(path.name)} is no plain file.")
        data = file.read(MAX_TOTAL + 1)
    limit = MAX_TOTAL if path.suffix.lower() == ".zip" else MAX_FILE
    if len(data) > limit:
        raise Refused(f"{shown(path.name)} is larger than {limit >> 20} MiB.")
    return data


# Zips -------------------------------------------------------------------------------------------


def _in_zip(place: Path, stack: ExitStack) -> Iterator[_Entry]:
    try:
        archive = stack.enter_context(zipfile.ZipFile(place))
    except Exception:  # BadZipFile, NotImplementedError, struct.error, ...
        raise NoSubmissions(f"{place}: this is neither a folder nor a zip.") from None
    groups = _groups(_considered(archive), place)
    for key in sorted(groups, key=natural):
        is_file = key.lower().endswith((*SUFFIXES, ".zip"))
        note = ""
        if len(groups) == 1 and not is_file:
            paths = map(_path, groups[key])
            note = _perhaps_the_class(path.name for path in paths if path.parent.name == key)
        stem = PurePosixPath(key).stem if is_file else key
        yield _Entry(shown(stem), partial(_group, archive, groups[key]), note)


def _group(archive: zipfile.ZipFile, infos: list[zipfile.ZipInfo], budget: _Budget) -> _Files:
    budget.spend(entries=len(infos))
    return _of_archive(archive, infos, budget)


def _considered(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return the members that have a name (``./`` has none) which is not to be ignored."""
    parts = [(info, _path(info).parts) for info in archive.infolist()]
    return [info for info, names in parts if names and not any(map(_hidden, names))]


def _path(info: zipfile.ZipInfo) -> PurePosixPath:
    return PurePosixPath(info.filename.replace("\\", "/"))


def _hidden(part: str) -> bool:
    return _ignored(part) and part != ".."


def _groups(infos: list[zipfile.ZipInfo], place: Path) -> dict[str, list[zipfile.ZipInfo]]:
    """Sort the members of a class's zip by their first folder (or second, below the class's)."""
    names = [_path(info).parts for info in infos]
    first = {parts[0] for parts in names}
    depth = int(len(first) == 1 and _wraps(first.pop(), place))
    groups: dict[str, list[zipfile.ZipInfo]] = {}
    for parts, info in zip(names, infos, strict=True):
        if len(parts) <= depth:
            continue
        is_file = len(parts) == depth + 1 and not info.is_dir()
        if is_file and not parts[depth].lower().endswith((*SUFFIXES, ".zip")):
            continue
        groups.setdefault(parts[depth], []).append(info)
    return groups


def _members(data: bytes, budget: _Budget) -> _Files:
    # every entry of the directory begins so, and nobody checks the number that the end states
    budget.spend(entries=data.count(b"PK\x01\x02"))
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield from _of_archive(archive, _considered(archive), budget, nested=True)
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        raise Refused("Its zip is damaged.") from None


def _of_archive(
    archive: zipfile.ZipFile, infos: list[zipfile.ZipInfo], budget: _Budget, nested: bool = False
) -> _Files:
    for info in infos:
        path = _path(info)
        if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
            raise Refused(f"{shown(info.filename)} leaves its folder.")
        if stat.S_ISLNK(info.external_attr >> 16):
            raise Refused(f"{shown(path.name)} is a link: links are not followed.")
        if info.is_dir():
            continue
        suffix = path.suffix.lower()
        if suffix in SUFFIXES or (suffix == ".zip" and not nested):
            yield from _plain_or_zip(path.name, _inflate(archive, info), budget)


def _inflate(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Unpack one member in memory, whatever size it claims, and stop at the cap."""
    if info.compress_type not in _METHODS:
        raise Refused("Its zip is packed in an unusual way: hand in an ordinary zip.")
    try:
        with archive.open(info) as member:
            data = member.read(MAX_FILE + 1)
    except RuntimeError:
        raise Refused("Its zip is encrypted.") from None
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, ValueError):
        raise Refused("Its zip is damaged.") from None
    except Exception as error:  # zlib.error, lzma.LZMAError
        raise Refused(f"Its zip is damaged ({type(error).__name__}).") from None
    if len(data) > MAX_FILE:
        raise Refused(f"{shown(info.filename)} is larger than {MAX_FILE >> 20} MiB unpacked.")
    return data
