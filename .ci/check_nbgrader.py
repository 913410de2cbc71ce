"""Hold the exercises against the real nbgrader (run by `make test-nbgrader`).

Each exercise notebook must be valid for nbgrader, its checks sealed with the checksum that
nbgrader computes, and `nbgrader generate_assignment` must release it with the same points. Lesson
01 then goes all the way round: release, fetch, submit, collect, autograde, feedback. The last
submission shows why scores from there are formative: `check` runs beside the student's code.
"""

from __future__ import annotations

import html
import json
import shutil
import sys
import tempfile
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.nbgraderformat import read
from nbgrader.utils import compute_checksum, get_username, is_grade
from nbgrader_course import ROOT, Course, Failed, solved_cells, with_cells

ROUND_TRIP = ROOT / "exercises" / "01_naive_attention.ipynb"


def main() -> None:
    """Check every exercise notebook; exit with a sentence at the first that fails."""
    notebooks = sorted((ROOT / "exercises").glob("[0-9][0-9]_*.ipynb"))
    if not notebooks:
        sys.exit("exercises/ holds no notebook: nothing was checked")
    for path in notebooks:
        points = sealed_points(path)
        released = released_points(path)
        if points != released:
            sys.exit(f"{path}: {points} points in the notebook, {released} in nbgrader's gradebook")
        print(f"{path.name}: valid, {points:g} points")
    round_trip(ROUND_TRIP)


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
        course = Course(Path(name), path, Path(sys.executable))
        course.run("generate_assignment", course.assignment)
        require_same_text(path, course.released())
        with Gradebook(course.gradebook) as gradebook:
            return gradebook.find_assignment(course.assignment).max_score


def require_same_text(ours: Path, released: Path) -> None:
    """Exit unless nbgrader released the text that students see here, cell by cell."""
    texts = [
        [(cell["id"], "".join(cell["source"])) for cell in json.loads(path.read_text())["cells"]]
        for path in (ours, released)
    ]
    if texts[0] != texts[1]:
        sys.exit(f"{ours}: nbgrader changed a cell's text on release")


def round_trip(path: Path) -> None:
    """Release a lesson, hand in five notebooks, autograde them, and read scores and feedback."""
    with tempfile.TemporaryDirectory() as name:
        course = Course(Path(name), path, Path(sys.executable))
        lesson, student = course.assignment, get_username()
        course.run("generate_assignment", lesson)
        course.run("release_assignment", lesson)
        desk = Path(name) / "desk"  # the student's own folder
        desk.mkdir()
        shutil.copy(course.folder / "nbgrader_config.py", desk)
        course.run("fetch_assignment", lesson, cwd=desk)
        (fetched,) = (desk / lesson).glob("*.ipynb")
        solved = solved_cells(path)
        handed_in = submissions(fetched, solved)
        fetched.write_text(handed_in.pop("solution"), encoding="utf-8")
        course.run("submit", lesson, cwd=desk)
        course.run("collect", lesson)
        for other, text in handed_in.items():
            course.hand_in(other, text)
        course.run("autograde", lesson, "--create")
        course.run("generate_feedback", lesson)
        course.run("release_feedback", lesson, f"--student={student}")
        require_scores(course, student, sealed_points(path))
        require_feedback(course, student)
        print(f"{path.name}: released, handed in, autograded; feedback says what is wrong")


def submissions(released: Path, solved: dict[str, str]) -> dict[str, str]:
    """Return name -> notebook text of what is handed in."""
    unscaled = solved["ex-1-2"].replace(" / np.sqrt(q.shape[1])", "")
    assert unscaled != solved["ex-1-2"]
    own_check = "def predict_doubling():\n    pass\n\n\ncheck = lambda function: None"
    blank = with_cells(released, {})
    return {
        "solution": with_cells(released, solved),
        "wrong": with_cells(released, solved | {"ex-1-2": unscaled}),
        "blank": blank,
        "tampering": with_cells(released, {"check-1-2": "1 + 1", "check-1-3": ""}),
        "cheating": with_cells(released, {"ex-1-1": own_check}),
    }


def require_scores(course: Course, student: str, points: float) -> None:
    """Exit unless nbgrader's gradebook has the scores that were to be expected."""
    with Gradebook(course.gradebook) as gradebook:
        scores = {
            name: gradebook.find_submission(course.assignment, name).score
            for name in (student, "wrong", "blank", "tampering", "cheating")
        }
        missed = _points_of(gradebook, course, "check-1-2")
    expected = {
        student: points,
        "wrong": points - missed,
        "blank": 0.0,
        "tampering": 0.0,  # nbgrader puts the sealed checks back
        "cheating": points,  # the caveat of TEACHING.md, seen to be true
    }
    if scores != expected:
        sys.exit(f"{course.assignment}: nbgrader's scores are {scores}, expected {expected}")


def _points_of(gradebook: Gradebook, course: Course, check: str) -> float:
    return gradebook.find_grade_cell(check, course.assignment, course.assignment).max_score


def require_feedback(course: Course, student: str) -> None:
    """Exit unless feedback pages exist, and the wrong one names the mistake."""
    pages = {}
    for name in (student, "wrong", "blank"):
        file = course.folder / "feedback" / name / course.assignment / f"{course.assignment}.html"
        pages[name] = html.unescape(file.read_text(encoding="utf-8")) if file.exists() else ""
    for name, words in (
        (student, "passed"),
        ("wrong", "The scores are not divided by sqrt(d)"),
        ("blank", "not attempted"),
    ):
        if words not in pages[name]:
            sys.exit(f"{course.assignment}: the feedback for {name} does not say {words!r}")


if __name__ == "__main__":
    try:
        main()
    except Failed as problem:
        sys.exit(str(problem))
