"""``course export-student``: no solution is in the copy, and a student can work there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from course_lib import cli
from course_lib.authoring.repository import RELEASE, REPOSITORY
from course_lib.authoring.student_copy import ANSWERS, GIVEN, NoCourse, shown_kernels, write
from course_lib.handin.course_file import notebook_of, source_of


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("students") / "course"
    assert cli.main(["export-student", str(out)]) == 0
    return out


def sources(notebook: Path) -> list[str]:
    return [source_of(c) for c in notebook_of(notebook, notebook.read_text("utf-8"))["cells"]]


def test_only_what_is_listed_is_copied(copy):
    assert {path.name for path in copy.iterdir()} == {
        *(name.split("/")[0] for name in GIVEN),
        ".given",
    }
    names = {path.relative_to(copy).as_posix() for path in copy.rglob("*")}
    assert not [n for n in names if re.search(r"(^|/)(solutions|sources|tests|benchmarks)(/|$)", n)]
    assert not [n for n in names if n.endswith(".pyc") or "course_progress" in n]


def test_no_line_of_a_solution_is_in_the_copys_notebooks(copy):
    """Every line that stands only in a solution region of sources/ is absent from the copy."""
    given = "\n".join(s for path in copy.glob("exercises/*.ipynb") for s in sources(path))
    assert "BEGIN SOLUTION" not in given
    region = re.compile(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", re.DOTALL)
    for path in sorted((ROOT / "solutions").glob("*.ipynb")):
        blank = "\n".join(sources(ROOT / "exercises" / path.name))
        solved = "\n".join(sources(path))
        lines = {line.strip() for text in region.findall(solved) for line in text.splitlines()}
        secret = {line for line in lines if len(line) > 25 and line not in blank}
        assert not [
            line for line in secret if line in "\n".join(sources(copy / "exercises" / path.name))
        ]


def test_the_only_complete_kernel_is_the_one_that_lesson_07_shows(copy):
    kernels = {path.stem for path in (copy / "course_lib" / "kernels").glob("*.py")}
    assert kernels == {"__init__", *shown_kernels(ROOT)} & kernels
    assert "flash_forward" in kernels
    assert not {"attention_backward", "attention_forward", "attention_op", "decode"} & kernels
    assert all((ROOT / name).exists() and not (copy / name).exists() for name in ANSWERS)


def test_notebooks_do_not_point_to_solutions(copy):
    for path in copy.glob("*/*.ipynb"):
        assert not re.search(r"\]\(\.\./solutions", path.read_text("utf-8")), path
        assert "| `solutions/`" not in path.read_text("utf-8")


def run(copy: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run Python in the copy, with the copy's course_lib and no other."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "COURSE_STORE": str(copy / "s.json")}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)


def test_the_readme_links_to_files_that_are_there_or_to_the_repository(copy):
    text = (copy / "README.md").read_text(encoding="utf-8")
    files = [link for link in re.findall(r"\]\((.*?)\)", text) if not link.startswith("http")]
    assert files
    assert all((copy / link).exists() for link in files)
    assert f"{REPOSITORY}/blob/{RELEASE}/TEACHING.md" in text


def test_commands_and_checks_work_in_the_copy(copy):
    where = run(copy, "-c", "import course_lib; print(course_lib.__file__)").stdout
    assert Path(where.strip()).is_relative_to(copy)
    listed = run(copy, "-m", "course_lib.cli", "list")
    assert listed.returncode == 0
    assert "flash_from_scratch" in listed.stdout
    (copy / "mine.py").write_text("def echo(x):\n    return x.copy()\n", encoding="utf-8")
    checked = run(copy, "-m", "course_lib.cli", "check", "mine.py")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    blank = next(copy.glob("exercises/00_*.ipynb"))
    unsolved = run(copy, "-m", "course_lib.cli", "check", str(blank))
    assert unsolved.returncode == 1
    assert "not attempted" in unsolved.stdout
    kernel = run(copy, "-c", "import course_lib, course_lib.kernels.flash_forward")
    assert kernel.returncode == 0, kernel.stderr


def test_an_exercise_goes_back_to_what_the_copy_gave(copy):
    notebook = copy / "exercises" / "03_online_softmax_by_hand.ipynb"
    given = notebook.read_bytes()
    notebook.write_bytes(given.replace(b"# your code here", b"# mine"))
    assert run(copy, "-m", "course_lib.cli", "reset", "3.3").returncode == 0
    assert notebook.read_bytes() != given  # the other exercises are as the student left them
    assert run(copy, "-m", "course_lib.cli", "reset", "03").returncode == 0
    assert notebook.read_bytes() == given


def test_a_solution_is_not_in_the_copy_and_that_is_said(copy):
    done = run(copy, "-m", "course_lib.cli", "solution", "3.3", "--give-up")
    assert done.returncode == 2
    assert done.stderr.startswith("This copy of the course has no folder solutions/")
    assert done.stderr.count("\n") == 1


def test_the_launcher_is_a_program(copy):
    assert os.access(copy / "course", os.X_OK)


def test_what_needs_the_solutions_says_so(copy):
    done = run(
        copy,
        "-c",
        "import sys; from course_lib import cli; sys.exit(cli.main(['catch-up', '7.2']))",
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_a_folder_with_something_in_it_is_refused(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("work")
    for out in (tmp_path, tmp_path / "mine.txt", ROOT / "course_lib" / "copy"):
        assert cli.main(["export-student", str(out)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"mine.txt"}
    with pytest.raises(NoCourse, match="not the whole course"):
        write(tmp_path, tmp_path / "new")
