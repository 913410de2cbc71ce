"""Find submissions in a folder or a zip. File names are never trusted, and nothing is unpacked.

A submission is a top-level entry: a file of one student, or a folder (or zip) of theirs. Archives
are read in memory, piece by piece, under caps; links, pipes, absolute and climbing names, and
whatever is too large or too many are refused, which becomes that student's record.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import unicodedata
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

SUFFIXES = (".ipynb", ".py")
MAX_FILE, MAX_TOTAL, MAX_FILES = 20 << 20, 64 << 20, 200  # of one submission
_IGNORED = {"__MACOSX", "__pycache__", "node_modules"}


class NoSubmissions(Exception):
    """There is nothing to grade at that place; the message is one sentence."""


class Refused(Exception):
    """This submission is not read any further; the message is one sentence."""


@dataclass(frozen=True)
class Submission:
    """One student's files: (name, contents) each. ``problem`` says why there are none."""

    student: str
    files: tuple[tuple[str, bytes], ...] = ()
    problem: str = ""

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


def submissions(place: Path) -> Iterator[Submission]:
    """Yield the submissions of a folder or zip, sorted by name. Raises NoSubmissions."""
    if not place.exists():
        raise NoSubmissions(f"{place}: there is no such folder or zip.")
    found = _in_folder(place) if place.is_dir() else _in_zip(place)
    seen: dict[str, int] = {}
    for submission in found:
        name = submission.student
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:  # two names that differ only in what is not shown
            name = f"{name} [{seen[name]}]"
        yield Submission(name, submission.files, submission.problem)
    if not seen:
        raise NoSubmissions(f"{place}: there is no submission in it (.ipynb, .py or .zip).")


def shown(name: str) -> str:
    """Return a name that is safe to show: composed, without control and direction characters."""
    text = unicodedata.normalize("NFC", name.encode("utf-8", "replace").decode())
    text = "".join(c for c in text if unicodedata.category(c)[0] != "C").strip()
    return text[:120] or "unnamed"


def natural(name: str) -> list[tuple[int, int | str]]:
    """Return a key that sorts ``hw (2)`` before ``hw (10)``."""
    return [(0, int(p)) if p.isdecimal() else (1, p) for p in re.split(r"(\d{1,9})", name) if p]


def _in_folder(root: Path) -> Iterator[Submission]:
    top = _entries(root)
    if len(top) == 1 and top[0].is_dir(follow_symlinks=False):
        inner = _entries(Path(top[0].path))
        if not any(e.name.endswith(SUFFIXES) for e in inner):
            top = inner  # submissions/submissions/alice/...
    for entry in top:
        is_dir = entry.is_dir(follow_symlinks=False)
        if not is_dir and not entry.name.lower().endswith((*SUFFIXES, ".zip")):
            if entry.is_symlink():
                yield Submission(shown(entry.name), problem="It is a link: links are not followed.")
            continue
        student = shown(entry.name if is_dir else PurePosixPath(entry.name).stem)
        yield _read(student, lambda e=entry, d=is_dir: _walk(Path(e.path), d))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        return sorted((e for e in found if not _ignored(e.name)), key=lambda e: natural(e.name))


def _ignored(name: str) -> bool:
    return name.startswith(".") or name in _IGNORED


def _read(student: str, files: object) -> Submission:
    try:
        kept = _capped(files())  # type: ignore[operator]
    except Refused as problem:
        return Submission(student, problem=str(problem))
    except OSError as error:
        return Submission(student, problem=f"It cannot be read ({error.strerror}).")
    if not kept:
        return Submission(student, problem="There is no notebook (.ipynb) or script (.py) in it.")
    return Submission(student, tuple(kept))


def _capped(files: Iterator[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    kept, total = [], 0
    for name, data in files:
        total += len(data)
        if total > MAX_TOTAL:
            raise Refused(f"It is larger than {MAX_TOTAL >> 20} MiB.")
        kept.append((shown(name), data))
        if len(kept) > MAX_FILES:
            raise Refused(f"It has more than {MAX_FILES} files.")
    return sorted(kept, key=lambda pair: natural(pair[0]))


def _walk(path: Path, is_dir: bool) -> Iterator[tuple[str, bytes]]:
    """Yield the files of one submission; a link or a pipe anywhere refuses all of it."""
    if not is_dir:
        data = _contents(path)
        yield from _members(data) if path.suffix.lower() == ".zip" else [(path.name, data)]
        return
    waiting, looked_at = [path], 0
    while waiting:
        folder = waiting.pop()
        for entry in _entries(folder):
            looked_at += 1
            if looked_at > 20 * MAX_FILES:
                raise Refused("It has too many files and folders.")
            if entry.is_symlink():
                raise Refused(f"{shown(entry.name)} is a link: links are not followed.")
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            elif entry.name.lower().endswith((*SUFFIXES, ".zip")):
                data, name = _contents(Path(entry.path)), entry.name
                yield from _members(data) if name.lower().endswith(".zip") else [(name, data)]


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


def _in_zip(place: Path) -> Iterator[Submission]:
    try:
        archive = zipfile.ZipFile(place)
    except (zipfile.BadZipFile, OSError, ValueError):
        raise NoSubmissions(f"{place}: this is neither a folder nor a zip.") from None
    with archive:
        groups = _groups([i for i in archive.infolist() if not _inner_ignored(i.filename)])
        for key in sorted(groups, key=natural):
            stem = PurePosixPath(key).stem if key.lower().endswith((*SUFFIXES, ".zip")) else key
            yield _read(shown(stem), lambda k=key: _of_archive(archive, groups[k]))


def _groups(infos: list[zipfile.ZipInfo]) -> dict[str, list[zipfile.ZipInfo]]:
    """Sort the members of a class's zip by their first folder (or second, if all share it)."""
    names = [PurePosixPath(info.filename).parts or ("unnamed",) for info in infos]
    first = {parts[0] for parts in names}
    depth = 0
    if len(first) == 1 and not any(
        len(parts) == 2 and parts[1].lower().endswith(SUFFIXES) for parts in names
    ):
        depth = 1
    groups: dict[str, list[zipfile.ZipInfo]] = {}
    for parts, info in zip(names, infos, strict=True):
        if len(parts) <= depth:
            continue
        is_file = len(parts) == depth + 1 and not info.is_dir()
        if is_file and not parts[depth].lower().endswith((*SUFFIXES, ".zip")):
            continue
        groups.setdefault(parts[depth], []).append(info)
    return groups


def _inner_ignored(name: str) -> bool:
    return any(_ignored(part) and part not in ("..", ".") for part in PurePosixPath(name).parts)


def _members(data: bytes) -> Iterator[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = [i for i in archive.infolist() if not _inner_ignored(i.filename)]
            yield from _of_archive(archive, infos, nested=True)
    except (zipfile.BadZipFile, ValueError):
        raise Refused("Its zip is damaged.") from None


def _of_archive(
    archive: zipfile.ZipFile, infos: list[zipfile.ZipInfo], nested: bool = False
) -> Iterator[tuple[str, bytes]]:
    if len(infos) > 20 * MAX_FILES:
        raise Refused("It has too many files and folders.")
    for info in infos:
        path = PurePosixPath(info.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
            raise Refused(f"{shown(info.filename)} leaves its folder.")
        if stat.S_ISLNK(info.external_attr >> 16):
            raise Refused(f"{shown(path.name)} is a link: links are not followed.")
        if info.is_dir():
            continue
        suffix = path.suffix.lower()
        if suffix in SUFFIXES or (suffix == ".zip" and not nested):
            data = _inflate(archive, info)
            yield from _members(data) if suffix == ".zip" else [(path.name, data)]


def _inflate(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Unpack one member in memory, whatever size it claims, and stop at the cap."""
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
