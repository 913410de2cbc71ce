#!/usr/bin/env python3
"""Make the course's environment in .venv, once, and run a command of the course in it.

    python3 start.py                 open the course in JupyterLab
    python3 start.py doctor          any command of the course
    python3 start.py --install dev   install only (make does this)

`./course` (Windows: `course`) is short for it: nothing has to be activated. Without a GPU, torch
comes as its CPU build; where Triton has no wheels, its interpreter comes (`course triton`).
TORCH_INDEX= in the environment names another index for torch; PIP_ARGS= is handed to pip as it is,
and then nothing is chosen here. Standard library only; an old Python must be able to read this
file, to be told that it is too old.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
WANTED_BY = ("pyproject.toml", "constraints.txt")  # when one changes, pip runs again
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
SECONDS = 5.0  # for an index to answer
CHANGE = "To change it: delete .venv, set TORCH_INDEX or PIP_ARGS (README.md), start again."


def main(arguments: list[str]) -> int:
    """Install what is missing, then run the command; return its exit status."""
    if sys.version_info < (3, 11):  # noqa: UP036  an old Python reads this, too
        return refuse(
            f"The course needs Python 3.11 or newer, and this is {sys.version.split()[0]} "
            f"({sys.executable}): install one from https://www.python.org/downloads/ or, if you "
            "have one, name it: PYTHON=python3.12 ./course lab"
        )
    if arguments[:1] == ["--install"]:
        return install(arguments[1])
    status = install("lab")
    if status:
        return status
    command = course(*(arguments or ["lab"]))
    if os.name == "nt":  # there, exec would give the terminal back before the command ends
        return subprocess.call(command)
    os.execv(command[0], command)


def install(what: str) -> int:
    """Install the course with an extra ("dev", "cluster"; "lab" is none) unless that is done."""
    stamp = VENV / f".{what}"
    if is_newer(stamp):
        return 0
    if not (VENV / ".made").exists():
        made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], stdout=subprocess.DEVNULL)
        if made.returncode:
            shutil.rmtree(VENV, ignore_errors=True)
            return refuse(
                "Python's venv module is missing; on Debian and Ubuntu: apt install python3-venv"
            )
        (VENV / ".made").touch()
    if not PYTHON.exists():
        return refuse(f"{VENV} has lost its Python: delete that folder and start again.")
    pip_args = shlex.split(os.environ.get("PIP_ARGS", ""), posix=os.name != "nt")
    index, says = torch_index(pip_args)
    print(says, flush=True)
    print("Installing into .venv: some minutes the first time.", flush=True)
    if index and pip("--no-deps", "--index-url", index, pinned("torch")):
        print(f"{index} did not give torch (above: why): now the ordinary index.", flush=True)
    project = "." if what == "lab" else f".[{what}]"
    if pip(*pip_args, "-c", "constraints.txt", "-e", project):
        return refuse("The course is not installed (above: why). Mend that and start again.")
    for done in {stamp, VENV / ".lab"}:
        done.touch()
    if not sys.platform.startswith("linux"):  # there are no wheels of Triton
        subprocess.call(course("triton"))  # says what it did; without it half of the lessons run
    return 0


def course(*arguments: str) -> list[str]:
    """Return the command line of a command of the course."""
    return [str(PYTHON), "-P", "-m", "course_lib.cli", *arguments]


def is_newer(stamp: Path) -> bool:
    """Return whether something was installed after the files that say what to install."""
    if not stamp.exists() or not PYTHON.exists():
        return False
    return all(stamp.stat().st_mtime >= (ROOT / name).stat().st_mtime for name in WANTED_BY)


def torch_index(pip_args: list[str]) -> tuple[str, str]:
    """Return the index from which torch comes first of all ("" for none), and a line that says so.

    Only on Linux is the ordinary torch the CUDA build, of several GB.
    """
    named = os.environ.get("TORCH_INDEX", "")
    if pip_args:
        return "", f"torch comes from where PIP_ARGS says: {' '.join(pip_args)}."
    if not named and not sys.platform.startswith("linux"):
        return "", f"torch comes as the ordinary build, without CUDA. {CHANGE}"
    if not named and gpus():
        return "", f"This machine has a GPU: torch comes with CUDA, several GB. {CHANGE}"
    index = named or CPU_INDEX
    why = "TORCH_INDEX is set" if named else "No GPU here, so the CPU build"
    if answers(index):
        return index, f"{why}: torch comes from {index}. {CHANGE}"
    return "", (
        f"{why}, but {index} does not answer within {SECONDS:g} seconds: torch comes from the "
        f"ordinary index, perhaps with several GB of CUDA. {CHANGE}"
    )


def gpus() -> int:
    """Return how many CUDA devices there are."""
    from course_lib._mode import cuda_devices

    return cuda_devices()


def answers(index: str) -> bool:
    """Return whether an index has torch; asked aside, for a name may be looked up for minutes."""
    found = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(f"{index.rstrip('/')}/torch/", timeout=SECONDS) as page:
                found.append(page.status == 200)
        except Exception:  # no network, no such name, a proxy's page: all mean no
            pass

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(SECONDS)
    return found == [True]


def pinned(name: str) -> str:
    """Return what constraints.txt says of a package, "torch==2.13.0"."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    return next((line for line in lines if line.startswith(f"{name}==")), name)


def pip(*arguments: str) -> int:
    """Run pip's install in the environment; return its exit status."""
    command = [str(PYTHON), "-m", "pip", "install", "--quiet", *arguments]
    return subprocess.call(command, cwd=str(ROOT))


def refuse(sentence: str) -> int:
    """Say why nothing was done."""
    print(sentence, file=sys.stderr)
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
