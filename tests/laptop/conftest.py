"""An environment beside this one that has Triton's Python files on the stand-in for its core."""

from __future__ import annotations

import csv
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest
from conftest import ROOT

from course_lib.laptop import VERSION
from course_lib.laptop.wheel import interpreter_wheel

SITE = Path(sysconfig.get_paths()["purelib"])
INFO = f"triton-{VERSION}.dist-info"


@pytest.fixture(scope="session")
def official(tmp_path_factory) -> Path:
    """Return a wheel like Triton's official one, of the Triton that is installed here."""
    record = SITE / INFO / "RECORD"
    if not record.exists():
        pytest.skip(f"needs Triton {VERSION}, for which the stand-in is written")
    names = [row[0] for row in csv.reader(record.read_text("utf-8").splitlines())]
    made = tmp_path_factory.mktemp("official") / f"triton-{VERSION}-cp311-cp311-linux_x86_64.whl"
    with ZipFile(made, "w") as wheel:
        for name in names:
            if name.endswith(".py") or name.startswith(INFO):
                wheel.write(SITE / name, name)
        wheel.writestr("triton/_C/libtriton.so", b"the compiled core")
    return made


@pytest.fixture(scope="session")
def laptop(official, tmp_path_factory) -> Path:
    """Return the Python of an environment in which the interpreter's wheel is installed.

    Everything else in it is what is installed here.
    """
    here = tmp_path_factory.mktemp("laptop")
    wheel = interpreter_wheel(official, here)
    venv.create(here / "venv", with_pip=False, symlinks=True)
    python = here / "venv" / "bin" / "python"
    lib = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = here / "venv" / "lib" / lib / "site-packages"
    pip(python, "install", "--no-deps", "--no-index", str(wheel))
    (site / "here.pth").write_text(f"{SITE}\n{ROOT}\n")  # behind its own: its triton is found first
    return python


def pip(python: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(python), "--quiet", *arguments]
    subprocess.run(command, check=True)
