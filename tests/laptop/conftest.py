"""An environment beside this one that has Triton's Python files on the stand-in for its core."""

from __future__ import annotations

import csv
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from zipfile import ZipFile

import pytest
from conftest import ROOT
from laptop.elsewhere import SYSTEMS

from course_lib.laptop import VERSION

SITE = Path(sysconfig.get_paths()["purelib"])
INFO = f"triton-{VERSION}.dist-info"
COMPILED = bytes(10_000_000)  # stands for what is large in Triton's wheel


@pytest.fixture(scope="session")
def official(tmp_path_factory) -> Path:
    """Return a wheel like Triton's official one, of the Triton that is installed here."""
    record = SITE / INFO / "RECORD"
    if not record.exists():
        pytest.skip(f"needs Triton {VERSION}, for which the stand-in is written")
    names = [row[0] for row in csv.reader(record.read_text("utf-8").splitlines())]
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    name = f"triton-{VERSION}-{tag}-{tag}-manylinux_2_27_x86_64.whl"
    made = tmp_path_factory.mktemp("official") / name
    with ZipFile(made, "w") as wheel:
        wheel.writestr("triton/_C/libtriton.so", COMPILED)
        for name in names:
            if name.endswith(".py") or name.startswith(INFO):
                wheel.write(SITE / name, name)
    return made


@pytest.fixture(scope="session")
def forged(official, tmp_path_factory) -> Path:
    """Return the official wheel with a line more in one of its files."""
    made = tmp_path_factory.mktemp("forged") / official.name
    with ZipFile(official) as true, ZipFile(made, "w") as false:
        for name in true.namelist():
            extra = b"import os\n" if name == "triton/language/core.py" else b""
            false.writestr(name, true.read(name) + extra)
    return made


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable]:
    """Return a function that serves a wheel by parts, whole or broken, until the tests end."""
    from laptop.index import Index

    running = []

    def start(wheel: Path, gives: str) -> Index:
        running.append(Index(wheel, gives))
        return running[-1]

    yield start
    for index in running:
        index.shutdown()


@pytest.fixture
def without_triton(tmp_path) -> Path:
    """Return the Python of an environment with everything that is installed here but Triton."""
    return environment(tmp_path)


def environment(here: Path) -> Path:
    others = here / "site-packages"
    others.mkdir()
    for package in SITE.iterdir():
        if not package.name.startswith("triton"):
            (others / package.name).symlink_to(package)
    venv.create(here / "venv", with_pip=False, symlinks=True)
    (site,) = (here / "venv" / "lib").glob("python*/site-packages")
    (site / "others.pth").write_text(f"{others}\n{ROOT}\n")
    return here / "venv" / "bin" / "python"


@pytest.fixture(scope="session")
def laptop(official, serve, tmp_path_factory) -> Path:
    """Return the Python of an environment in which `course triton` has done its work."""
    from laptop.index import PARTS

    python, index = environment(tmp_path_factory.mktemp("laptop")), serve(official, PARTS)
    done = course_triton(python, index.settings)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Triton 3.7.1+interpreter is installed")
    assert len(done.stdout.splitlines()) == 1
    assert len(index.sent) > 50
    assert sum(index.sent) < official.stat().st_size - len(COMPILED)
    return python


@pytest.fixture(scope="session", params=SYSTEMS)
def elsewhere(request, laptop, tmp_path_factory) -> tuple[str, Path]:
    """Return a system's name, and the laptop's Python as if it were there (`elsewhere.py`)."""
    here = tmp_path_factory.mktemp(request.param) / "venv"
    venv.create(here, with_pip=False, symlinks=True)
    theirs, ours = (
        next((place / "lib").glob("python*/site-packages")) for place in (laptop.parents[1], here)
    )
    (ours / "elsewhere.py").symlink_to(ROOT / "tests" / "laptop" / "elsewhere.py")
    (ours / "elsewhere.pth").write_text(
        f"import site; site.addsitedir({str(theirs)!r})\n"
        f"import elsewhere; elsewhere.pretend({request.param!r})\n"
    )
    return request.param, here / "bin" / "python"


def course_triton(
    python: Path | str, settings: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run the command where pip knows what these settings say."""
    command = [python, "-P", "-m", "course_lib.cli", "triton"]
    return subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
