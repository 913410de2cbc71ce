"""Run every lesson and every solution as Colab would, with the versions that Colab ships.

A stand-in `google.colab` is imported before the first cell and a stand-in `pip` notes what the
cell wanted to install; everything else is real. The course is installed from its wheel, and each
notebook lies alone in a folder without the repository. Then a student's work is done there: catch
up, reset, solution, export, hand in. Run by `make test-colab`, in an environment of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat

from course_lib.authoring.running import client

ROOT = Path(__file__).resolve().parent.parent


def stand_ins(folder: Path) -> Path:
    """Make google.colab and pip in ``folder``; return the file in which pip notes its calls."""
    package = folder / "site" / "google" / "colab"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    startup = folder / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00-colab.py").write_text("import google.colab\n")
    calls = folder / "pip-calls.txt"
    pip = folder / "bin" / "pip"
    pip.parent.mkdir()
    pip.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n')
    pip.chmod(pip.stat().st_mode | stat.S_IEXEC)
    os.environ.update(
        IPYTHONDIR=str(folder / "ipython"),
        PYTHONPATH=str(folder / "site"),
        PATH=os.pathsep.join([str(pip.parent), os.environ["PATH"]]),
        COURSE_STORE=str(folder / "store.json"),
    )
    return calls


def run(file: Path, *more: str) -> str:
    """Run one notebook, and ``more`` cells after it; return what its first code cell printed."""
    notebook = nbformat.read(file, as_version=4)
    notebook.cells += [nbformat.v4.new_code_cell(source) for source in more]
    client(notebook, file.parent, 300).execute()
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    return "".join(output.get("text", "") for output in first.outputs).strip()


def as_colab_saves(file: Path) -> None:
    """Rewrite a notebook as Colab's download has it: format 4.0, ids in the cells' metadata."""
    raw = json.loads(file.read_text(encoding="utf-8"))
    for cell in raw["cells"]:
        cell["metadata"] = {"id": cell.pop("id")}
    file.write_text(json.dumps(raw | {"nbformat_minor": 0}), encoding="utf-8")


def course(folder: Path, *arguments: str, status: int = 0) -> str:
    """Run the `course` command in a folder; return what it printed."""
    command = [str(Path(sys.executable).parent / "course"), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == status, (arguments, done.stdout[-500:], done.stderr[-500:])
    return done.stdout + done.stderr


def work(folder: Path) -> None:
    """Do a student's work where there is no repository: with a downloaded notebook, and without."""
    folder.mkdir()
    where = [sys.executable, "-c", "import course_lib; print(course_lib.__file__)"]
    found = subprocess.check_output(where, cwd=folder, text=True)
    assert "site-packages" in found, f"the course is not that of the wheel: {found}"
    assert course(folder, "catch-up", "7.2").startswith("# the solution of 7.1")
    assert course(folder, "reset", "7.1", status=2).count("\n") == 1
    assert course(folder, "open", status=2).count("\n") == 1
    assert "def stream_average" in course(folder, "solution", "3.3", "--give-up")
    for name in ("03_online_softmax_by_hand.ipynb", "07_flash_attention_in_triton.ipynb"):
        shutil.copy(ROOT / "exercises" / name, folder)
        as_colab_saves(folder / name)
    course(folder, "catch-up", "3.4")
    assert "3.3 stream_average: passed" in course(folder, "check", name_of(folder, "03"), "3.3")
    course(folder, "reset", "3.3")
    blank = course(folder, "check", name_of(folder, "03"), "3.3", status=1)
    assert "3.3 stream_average: not attempted" in blank
    solved = ROOT / "solutions" / name_of(folder, "07")
    shutil.copy(solved, folder)
    as_colab_saves(folder / solved.name)
    course(folder, "export", "7.4")
    by_command = (folder / "my_flash_attention.py").read_text()
    run(folder / solved.name, "course_lib.export(my_flash_attention, 'from_the_notebook.py')")
    assert (folder / "from_the_notebook.py").read_text() == by_command
    assert "7.4 my_flash_attention: passed" in course(folder, "check", solved.name, "7.4")


def name_of(folder: Path, lesson: str) -> str:
    """Return the name of a lesson's notebook."""
    (found,) = folder.glob(f"{lesson}_*.ipynb")
    return found.name


def main() -> int:
    """Run them all; return 1 if one fails, or if its first cell does not do its two things."""
    failed = 0
    files = sorted([*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("solutions/*.ipynb")])
    with tempfile.TemporaryDirectory() as folder:
        calls = stand_ins(Path(folder))
        for number, file in enumerate(files):
            calls.unlink(missing_ok=True)
            start, name = time.monotonic(), file.relative_to(ROOT)
            alone = Path(folder) / f"content-{number}"
            alone.mkdir()
            try:
                said = run(Path(shutil.copy(file, alone)))
                asked = calls.read_text() if calls.exists() else ""
                assert "--no-deps" in asked, f"pip was not asked to install the course: {asked!r}"
                assert said.count("\n") == 0, f"the first cell is to end in one line: {said!r}"
                assert said, "the first cell is to end in one visible line"
                print(f"ok      {name} ({time.monotonic() - start:.0f} s): {said}", flush=True)
            except Exception as error:
                failed += 1
                print(f"FAILED  {name}: {str(error)[-2000:]}", flush=True)
        work(Path(folder) / "work")
        print("ok      a student's work without the repository", flush=True)
    print(f"{len(files) - failed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
