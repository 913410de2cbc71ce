"""Make a wheel of Triton's interpreter out of an official wheel: its Python files and our core.

A wheel, so that pip installs it, lists its files and takes them away again.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from zipfile import ZIP_DEFLATED, ZipFile

from course_lib.laptop import LOCAL_VERSION, VERSION

_CORE = Path(__file__).parent / "core"
_INFO = f"triton-{VERSION}.dist-info"
_OURS = f"triton-{LOCAL_VERSION}.dist-info"
_LEFT_OUT = ("triton/backends/amd/", "triton/backends/nvidia/", "triton/profiler/")  # compilers'
_WHEEL = "Wheel-Version: 1.0\nGenerator: flashattention-course\nRoot-Is-Purelib: true\n"
_ENTRY_POINTS = "[triton.backends]\ninterpreter = triton.backends.interpreter\n"


class WheelProblem(Exception):
    """The official wheel is not what it should be; says how."""


def interpreter_wheel(theirs: ZipFile, folder: Path) -> Path:
    """Write the interpreter's wheel into a folder and return it; of theirs only Python is read.

    Raises WheelProblem for another version of Triton, or a file that is not what RECORD says.
    """
    made = folder / f"triton-{LOCAL_VERSION}-py3-none-any.whl"
    with ZipFile(made, "w", ZIP_DEFLATED) as ours:
        record = []
        for name, content in [*_of_triton(theirs), *_of_ours()]:
            ours.writestr(name, content)
            record.append([name, f"sha256={_digest(content)}", str(len(content))])
        table = io.StringIO()
        csv.writer(table, lineterminator="\n").writerows([*record, [f"{_OURS}/RECORD", "", ""]])
        ours.writestr(f"{_OURS}/RECORD", table.getvalue())
    return made


def _of_triton(theirs: ZipFile) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of what is Triton's: its Python files, its licence, its metadata."""
    if f"{_INFO}/RECORD" not in theirs.namelist():
        raise WheelProblem(f"This is no wheel of Triton {VERSION}, which the course knows.")
    lines = theirs.read(f"{_INFO}/RECORD").decode("utf-8").splitlines()
    recorded = {name: digest.removeprefix("sha256=") for name, digest, _ in csv.reader(lines)}
    for name in filter(_is_wanted, recorded):
        content = theirs.read(name)
        if _digest(content) != recorded[name]:
            raise WheelProblem(f"{name} is not the file that the wheel's RECORD names.")
        if name == f"{_INFO}/METADATA":
            old = rb"(?m)^Version: .*$"
            content = re.sub(old, f"Version: {LOCAL_VERSION}".encode(), content, count=1)
        yield name.replace(_INFO, _OURS, 1), content


def _is_wanted(name: str) -> bool:
    if name.startswith(f"{_INFO}/"):
        return "licenses/" in name or name.endswith(("/METADATA", "/top_level.txt"))
    ours = name.endswith(".py") and name.startswith("triton/") and not name.startswith(_LEFT_OUT)
    return ours and ".." not in PurePosixPath(name).parts


def _of_ours() -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of what stands in for the core, and of what says so."""
    for name in ("libtriton.py", "interpreter_memory.py"):
        yield f"triton/_C/{name}", (_CORE / name).read_bytes()
    for file in sorted((_CORE / "backend").glob("*.py")):
        yield f"triton/backends/interpreter/{file.name}", file.read_bytes()
    yield f"{_OURS}/entry_points.txt", _ENTRY_POINTS.encode()
    yield f"{_OURS}/WHEEL", f"{_WHEEL}Tag: py3-none-any\n".encode()


def _digest(content: bytes) -> str:
    """Return a SHA-256 as RECORD writes it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
