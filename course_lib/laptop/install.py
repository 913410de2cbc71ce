"""Install Triton's interpreter into this environment, by pip, from Triton's official wheel.

Of its 200 MB the Python files are wanted, 0.3 MB: pip says where the wheel is, and a server that
gives parts of a file (HTTP ranges) is asked for these only. From another, pip brings it whole. (A
pip before 25.3 brings it whole in any case, to tell where it is.)
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

from course_lib.laptop import LOCAL_VERSION, VERSION, interpreter_only
from course_lib.laptop.remote_wheel import NoParts, remote_wheel
from course_lib.laptop.wheel import WheelProblem, interpreter_wheel

_PLATFORMS = ("manylinux_2_27_x86_64", "manylinux_2_28_x86_64")  # one is enough: Python is Python


class NotInstalled(Exception):
    """Triton's interpreter could not be installed; says why."""


def install() -> str:
    """Install what is missing and return what there is now, in a sentence.

    Raises NotInstalled where pip finds no wheel, or what it found does not run.
    """
    with suppress(metadata.PackageNotFoundError):
        if metadata.version("triton") == LOCAL_VERSION:
            return f"Triton {LOCAL_VERSION} is installed; `pip uninstall triton` takes it away."
    if importlib.util.find_spec("triton") is not None and not interpreter_only():
        return "Triton is installed here with a core of its own: nothing to do."
    with tempfile.TemporaryDirectory(prefix="course-") as place:
        folder = Path(place)
        try:
            made = _by_parts(folder) or _whole(folder)
        except WheelProblem as why:
            raise NotInstalled(str(why)) from None
        _pip("install", "--no-deps", "--no-index", str(made))
    _try()
    return (
        f"Triton {LOCAL_VERSION} is installed: its interpreter, without its compiler. "
        "`pip uninstall triton` takes it away."
    )


def _by_parts(folder: Path) -> Path | None:
    """Make the wheel of what is wanted alone; return None where the server gives no parts."""
    address = _address(folder)
    if address.startswith("file:"):
        return None
    try:
        with remote_wheel(address) as official:
            return interpreter_wheel(official, folder)
    except NoParts as why:
        says = f"The whole wheel comes, some 200 MB, for it cannot be read in parts: {why}"
        print(says, flush=True)
        return None


def _address(folder: Path) -> str:
    """Return where the official wheel is, as pip finds it with its own settings."""
    report = folder / "report.json"
    how = ["--dry-run", "--ignore-installed", "--target", str(folder), "--report", str(report)]
    # an index without metadata files: pip reads them in parts, too, and would warn that it does
    how += ["--use-feature=fast-deps", "--quiet"]
    _pip("install", *how, *_official())
    (found,) = json.loads(report.read_text("utf-8"))["install"]
    return str(found["download_info"]["url"])


def _whole(folder: Path) -> Path:
    """Have pip bring the official wheel, and make ours of it."""
    _pip("download", *_official(), "--dest", str(folder))
    (found,) = folder.glob(f"triton-{VERSION}-*.whl")
    with ZipFile(found) as official:
        return interpreter_wheel(official, folder)


def _official() -> list[str]:
    """Return what pip is told, so that it takes the wheel for Linux whatever this system is."""
    major, minor = sys.version_info[:2]
    wanted = ["--no-deps", "--only-binary=:all:", "--implementation", "cp"]
    wanted += ["--python-version", f"{major}.{minor}", "--abi", f"cp{major}{minor}"]
    for platform in _PLATFORMS:
        wanted += ["--platform", platform]
    # as the start reads it: where else to look, for one
    wanted += shlex.split(os.environ.get("PIP_ARGS", ""), posix=os.name != "nt")
    return [*wanted, f"triton=={VERSION}"]


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-P", "-m", "pip", arguments[0], "--quiet", *arguments[1:]]
    if subprocess.call(command):
        raise NotInstalled(f"pip {arguments[0]} did not do it (above: why).")


def _try() -> None:
    """Import it as the course does, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", "import triton.language"],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NotInstalled(f"It does not run here: {done.stderr.strip().splitlines()[-1]}")
