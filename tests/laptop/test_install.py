"""`course triton`: what it installs can be taken away, and it touches no Triton that is there."""

from __future__ import annotations

import os
import subprocess
import sys

from laptop.conftest import course_triton
from laptop.index import WHOLE

OFFLINE = os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": os.devnull}


def test_without_ranges_the_whole_wheel_comes_and_all_of_it_is_taken_away_again(
    official, serve, without_triton
):
    def files():
        found = [file for file in without_triton.parents[1].rglob("*") if file.is_file()]
        return {file: file.read_bytes() for file in found if "__pycache__" not in file.parts}

    before, index = files(), serve(official, WHOLE)
    settings = index.settings | {"PIP_ARGS": f"--index-url {index.address}/simple"}
    done = course_triton(without_triton, settings | {"PIP_INDEX_URL": "http://127.0.0.1:1"})
    assert done.returncode == 0, done.stderr
    said, installed = done.stdout.splitlines()
    assert said.startswith("The whole wheel comes, some 200 MB, for it cannot be read in parts: ")
    assert "is installed: its interpreter, without its compiler" in installed
    assert index.sent[-1] == official.stat().st_size
    assert files().keys() > before.keys()
    again = course_triton(without_triton, OFFLINE)
    assert (again.returncode, "is installed" in again.stdout) == (0, True)
    command = [without_triton, "-m", "pip", "--quiet", "uninstall", "--yes", "triton"]
    subprocess.run(command, check=True)
    assert files() == before
    assert not list(without_triton.parents[1].rglob("triton*"))


def test_a_triton_with_its_own_core_is_left_alone():
    done = course_triton(sys.executable, OFFLINE)
    assert (done.returncode, done.stdout) == (
        0,
        "Triton is installed here with a core of its own: nothing to do.\n",
    )


def test_triton_windows_stays(without_triton, tmp_path):
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").touch()
    info = tmp_path / "triton_windows-3.7.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: triton-windows\nVersion: 3.7.0\n")
    done = course_triton(without_triton, OFFLINE | {"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, "nothing to do" in done.stdout) == (0, True), done.stderr


def test_without_a_wheel_it_says_so(without_triton):
    done = course_triton(without_triton, OFFLINE)
    assert done.returncode == 1
    assert "Triton's interpreter is not installed. pip install did not do it" in done.stderr
