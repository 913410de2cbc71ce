"""`course triton`: what it installs can be taken away, and it touches no Triton that is there."""

from __future__ import annotations

import subprocess
import sys

from laptop.conftest import course_triton


def test_what_is_installed_is_taken_away_again(official, without_triton, tmp_path):
    def files():
        names = (without_triton.parents[1]).rglob("*")
        return {name for name in names if "__pycache__" not in name.parts}

    before = files()
    done = course_triton(without_triton, official.parent)
    assert done.returncode == 0, done.stderr
    assert files() > before
    again = course_triton(without_triton, tmp_path)  # pip would find nothing
    assert (again.returncode, "is installed" in again.stdout) == (0, True)
    command = [without_triton, "-m", "pip", "--quiet", "uninstall", "--yes", "triton"]
    subprocess.run(command, check=True)
    assert files() == before


def test_a_triton_with_its_own_core_is_left_alone(tmp_path):
    done = course_triton(sys.executable, tmp_path)
    assert (done.returncode, done.stdout) == (
        0,
        "Triton is installed here with a core of its own: nothing to do.\n",
    )


def test_without_a_wheel_it_says_so(without_triton, tmp_path):
    done = course_triton(without_triton, tmp_path)
    assert done.returncode == 1
    assert "Triton's interpreter is not installed. pip download did not do it" in done.stderr
