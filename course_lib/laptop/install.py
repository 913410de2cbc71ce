"""Install Triton's interpreter into this environment, by pip, from Triton's official wheel."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from course_lib.laptop import LOCAL_VERSION, VERSION, interpreter_only
from course_lib.laptop.wheel import WheelProblem, interpreter_wheel

_PLATFORMS = ("manylinux_2_27_x86_64", "manylinux_2_28_x86_64")  # one is enough: Python is Python


class NotInstalled(Exception):
    """Triton's interpreter could not be installed; says why."""


def install() -> str:
    """Install what is missing and return what there is now, in a sentence.

    Raises NotInstalled where pip finds no wheel, or what it found does not run.
    """
    if interpreter_only():
        return f"Triton {LOCAL_VERSION} is installed; `pip uninstall triton` takes it away."
    if importlib.util.find_spec("triton") is not None:
        return "Triton is installed here with a core of its own: nothing to do."
    with tempfile.TemporaryDirectory(prefix="course-") as place:
        folder = Path(place)
        _pip("download", *_official(), "--dest", place)
        (official,) = folder.glob("triton-*.whl")
        try:
            made = interpreter_wheel(official, folder)
        except WheelProblem as why:
            raise NotInstalled(str(why)) from None
        _pip("install", "--no-deps", "--no-index", str(made))
    _try()
    return (
        f"Triton {LOCAL_VERSION} is installed: its interpreter, without its compiler. "
        "`pip uninstall triton` takes it away."
    )


def _official() -> list[str]:
    """Return what pip is told, so that it takes the wheel for Linux whatever this system is."""
    major, minor = sys.version_info[:2]
    wanted = ["--no-deps", "--only-binary=:all:", "--implementation", "cp"]
    wanted += ["--python-version", f"{major}.{minor}", "--abi", f"cp{major}{minor}"]
    for platform in _PLATFORMS:
        wanted += ["--platform", platform]
    return [*wanted, f"triton=={VERSION}"]


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", arguments[0], "--quiet", *arguments[1:]]
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
