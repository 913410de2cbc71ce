"""An nbgrader course in a temporary folder, around one of our exercise notebooks.

Standard library only: it runs in nbgrader's own environment (`make test-nbgrader`) and in the
course's (`benchmarks/nbgrader_ratio.py`). Submissions are executed by the course's Python, because
nbgrader's environment has neither NumPy nor the course.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COURSE_PYTHON = Path(os.environ.get("COURSE_PYTHON", ROOT / ".venv" / "bin" / "python"))

# The blanks are made by `course build`, so nbgrader has no solutions to clear.
CONFIG = """
c = get_config()
c.CourseDirectory.course_id = "flash"
c.Exchange.root = "{exchange}"
c.ClearSolutions.enforce_metadata = False
c.GenerateAssignment.preprocessors = [
    f"nbgrader.preprocessors.{{name}}"
    for name in ("LockCells", "CheckCellMetadata", "ComputeChecksums", "SaveCells", "ClearOutput")
]
"""


class Failed(Exception):
    """A command of nbgrader failed; the message holds its last words."""


class Course:
    """A course folder with one assignment: an exercise notebook under its own name."""

    def __init__(self, folder: Path, notebook: Path, nbgrader_python: Path) -> None:
        """Lay out ``folder`` for ``notebook``. Raises Failed if the course's Python is missing."""
        if not COURSE_PYTHON.exists():
            raise Failed(f"{COURSE_PYTHON} is missing: run `make lab`, or set COURSE_PYTHON.")
        self.folder, self.notebook, self._python = folder / "course", notebook, nbgrader_python
        self.assignment = notebook.stem
        source = self.folder / "source" / self.assignment
        source.mkdir(parents=True)
        (source / notebook.name).write_bytes(notebook.read_bytes())
        exchange = folder / "exchange"
        exchange.mkdir()
        exchange.chmod(0o777)
        config = CONFIG.format(exchange=exchange)
        (self.folder / "nbgrader_config.py").write_text(config, encoding="utf-8")
        self._environment = os.environ | {
            "JUPYTER_PATH": str(_kernel(folder)),
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "COURSE_STORE": str(folder / "progress.json"),
            "PATH": f"{nbgrader_python.parent}{os.pathsep}{os.environ['PATH']}",  # it runs alembic
        }
        for name in ("JUPYTER_PREFER_ENV_PATH", "PYTHONPATH"):
            self._environment.pop(name, None)

    @property
    def gradebook(self) -> str:
        """The address of nbgrader's database."""
        return f"sqlite:///{self.folder / 'gradebook.db'}"

    def run(self, *command: str, cwd: Path | None = None) -> str:
        """Run ``nbgrader *command`` and return what it said. Raises Failed."""
        done = subprocess.run(
            [self._python, "-m", "nbgrader", *command],
            cwd=cwd or self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise Failed(f"nbgrader {' '.join(command)}\n{done.stderr[-3000:]}")
        return done.stderr

    def released(self) -> Path:
        """Return the notebook that students get."""
        return self.folder / "release" / self.assignment / self.notebook.name

    def hand_in(self, student: str, text: str) -> None:
        """Put a student's notebook where nbgrader collects."""
        place = self.folder / "submitted" / student / self.assignment
        place.mkdir(parents=True, exist_ok=True)
        (place / self.notebook.name).write_text(text, encoding="utf-8")


def with_cells(notebook: Path, sources: dict[str, str]) -> str:
    """Return the text of ``notebook`` with other sources in the cells of these ids."""
    data = json.loads(notebook.read_text(encoding="utf-8"))
    unknown = set(sources) - {cell["id"] for cell in data["cells"]}
    assert not unknown, f"{notebook} has no cells {unknown}"
    for cell in data["cells"]:
        if cell["id"] in sources:
            cell["source"] = sources[cell["id"]]
    return json.dumps(data)


def solved_cells(notebook: Path) -> dict[str, str]:
    """Return id -> text of the exercises' cells in the solutions' notebook of the same name."""
    data = json.loads((ROOT / "solutions" / notebook.name).read_text(encoding="utf-8"))
    cells = (c for c in data["cells"] if c["id"].startswith("ex-") and c["cell_type"] == "code")
    return {cell["id"]: "".join(cell["source"]) for cell in cells}


def _kernel(folder: Path) -> Path:
    """Return a folder with a kernel called python3 that is the course's Python."""
    place = folder / "jupyter" / "kernels" / "python3"
    place.mkdir(parents=True)
    spec = {
        "argv": [
            str(COURSE_PYTHON),
            "-m",
            "ipykernel_launcher",
            "-f",
            "{connection_file}",
        ],
        "display_name": "Python 3",
        "language": "python",
        "env": {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
    }
    (place / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    return folder / "jupyter"
