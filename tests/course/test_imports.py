"""`import course_lib` stands in every notebook's first cell, so it must cost next to nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"torch", "triton", "numpy", "matplotlib", "IPython"}


def modules_after(statement: str) -> set[str]:
    """Return the names in sys.modules of a fresh interpreter that ran ``statement``."""
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import course_lib",
        "import course_lib.store, course_lib.cli, course_lib.doctor",
        "import course_lib.authoring.first_cell; course_lib.authoring.first_cell.setup_source()",
    ],
)
def test_imports_load_nothing_heavy(statement):
    assert modules_after(statement) & HEAVY == set()


def test_the_probe_above_can_see_a_heavy_module():
    assert "numpy" in modules_after("import numpy")


def test_dir_shows_the_names_that_are_loaded_on_first_use():
    names = modules_after("import course_lib; assert {'check', 'hint'} <= set(dir(course_lib))")
    assert names & HEAVY == set()
