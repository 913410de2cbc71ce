"""Run every lesson and every solution as Colab would, with the versions that Colab ships.

A stand-in `google.colab` is imported before the first cell and a stand-in `pip` notes what the
cell wanted to install; everything else is real. Run by `make test-colab`, in an environment of its
own, from the repository's root.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

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
        PYTHONPATH=os.pathsep.join([str(folder / "site"), str(ROOT)]),
        PATH=os.pathsep.join([str(pip.parent), os.environ["PATH"]]),
        COURSE_STORE=str(folder / "store.json"),
    )
    return calls


def run(file: Path) -> str:
    """Run one notebook; return what its first code cell printed."""
    notebook = nbformat.read(file, as_version=4)
    NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(file.parent)}},
    ).execute()
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    return "".join(output.get("text", "") for output in first.outputs).strip()


def main() -> int:
    """Run them all; return 1 if one fails, or if its first cell does not do its two things."""
    failed = 0
    files = sorted([*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("solutions/*.ipynb")])
    with tempfile.TemporaryDirectory() as folder:
        calls = stand_ins(Path(folder))
        for file in files:
            calls.unlink(missing_ok=True)
            start, name = time.monotonic(), file.relative_to(ROOT)
            try:
                said = run(file)
                asked = calls.read_text() if calls.exists() else ""
                assert "--no-deps" in asked, f"pip was not asked to install the course: {asked!r}"
                assert said.count("\n") == 0, f"the first cell is to end in one line: {said!r}"
                assert said, "the first cell is to end in one visible line"
                print(f"ok      {name} ({time.monotonic() - start:.0f} s): {said}", flush=True)
            except Exception as error:
                failed += 1
                print(f"FAILED  {name}: {str(error)[-2000:]}", flush=True)
    print(f"{len(files) - failed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
