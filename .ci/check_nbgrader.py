"""Hold the exercises' nbgrader metadata against the real nbgrader (run by `make test-nbgrader`).

Each exercise notebook must be valid for nbgrader, its checks sealed with the checksum that
nbgrader computes, and `nbgrader generate_assignment` must release it with the same points.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.nbgraderformat import read
from nbgrader.utils import compute_checksum, is_grade

# The blanks are made by `course build`, so nbgrader has no solutions to clear.
CONFIG = """
c = get_config()
c.ClearSolutions.enforce_metadata = False
c.GenerateAssignment.preprocessors = [
    f"nbgrader.preprocessors.{name}"
    for name in ("LockCells", "CheckCellMetadata", "ComputeChecksums", "SaveCells", "ClearOutput")
]
"""


def main() -> None:
    """Check every exercise notebook; exit with a sentence at the first that fails."""
    notebooks = sorted(Path("exercises").glob("[0-9][0-9]_*.ipynb"))
    if not notebooks:
        sys.exit("exercises/ holds no notebook: nothing was checked")
    for path in notebooks:
        points = sealed_points(path)
        released = released_points(path)
        if points != released:
            sys.exit(f"{path}: {points} points in the notebook, {released} in nbgrader's gradebook")
        print(f"{path}: valid, {points:g} points")


def sealed_points(path: Path) -> float:
    """Return the sum of points; nbgrader's reader validates the metadata."""
    with path.open(encoding="utf-8") as file:
        cells = [cell for cell in read(file, as_version=4).cells if is_grade(cell)]
    for cell in cells:
        if cell.metadata.nbgrader["checksum"] != compute_checksum(cell):
            sys.exit(f"{path}: the checksum of {cell.id} is not nbgrader's")
    return sum(cell.metadata.nbgrader["points"] for cell in cells)


def released_points(path: Path) -> float:
    """Return the points that nbgrader's gradebook knows after releasing the notebook."""
    with tempfile.TemporaryDirectory() as name:
        course, lesson = Path(name), path.stem
        source = course / "source" / lesson
        source.mkdir(parents=True)
        (source / path.name).write_bytes(path.read_bytes())
        (course / "nbgrader_config.py").write_text(CONFIG, encoding="utf-8")
        command = [sys.executable, "-m", "nbgrader", "generate_assignment", lesson]
        done = subprocess.run(command, cwd=course, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{path}: nbgrader refuses it\n{done.stderr[-3000:]}")
        require_same_text(path, course / "release" / lesson / path.name)
        with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
            return gradebook.find_assignment(lesson).max_score


def require_same_text(ours: Path, released: Path) -> None:
    """Exit unless nbgrader released the text that students see here, cell by cell."""
    texts = [
        [(cell["id"], "".join(cell["source"])) for cell in json.loads(path.read_text())["cells"]]
        for path in (ours, released)
    ]
    if texts[0] != texts[1]:
        sys.exit(f"{ours}: nbgrader changed a cell's text on release")


if __name__ == "__main__":
    main()
