"""Which cells are folded away follows from what they call; a marker may say otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from course_lib.authoring.folding import folded_title, optional_closed
from course_lib.authoring.notebook import EXERCISE, LESSON, SOLUTION, render
from course_lib.authoring.percent import Cell, read_cells

HIDDEN = {"jupyter": {"source_hidden": True}, "cellView": "form"}

SOURCE = """\
# %% title [markdown]
# # 03 · Small

# %% ask
Quiz("Which?", [("a", True, "Because."), ("b", False, "No.")])

# %% opened folded=false
plt.plot([1, 2])

# %% closed folded=true
x = 1

# %% code
def answer():
    return 2

# %% ex-3-1
def draw():
    ### BEGIN SOLUTION
    plt.plot([1])
    ### END SOLUTION
"""


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("from course_lib import Quiz\n\nQuiz('Which?', answer=3)", "A question: Which?"),
        ("p = Predict('3-x', 'How many?')\np", "A prediction: How many?"),
        ("p = Predict('3-x', f'How many of {n}?')\np", "A prediction"),
        (
            f"Quiz('{'It is long. ' * 9}How much is it at N = 64?')",
            "A question: How much is it at N = 64?",
        ),
        (f"Quiz('{'It is long. ' * 9}Answer?')", f"A question: {'It is long. ' * 7}It …"),
        ("print(3)\np.reveal(3, 'Because.')", "The answer"),
        ("p.room('3, 4', answer=3)", "The room's answers"),
        ("fig, ax = plt.subplots()\nax.plot([1])", "A picture"),
        ("draw_visits(ledger)", "A picture"),
        ("show(fig, 'Flash is faster', device)", "A picture"),
        ("Quiz('Which?', answer=3)\np.reveal(3)", "A question: Which?"),
        ("show_change(before, after)", None),
        ("from course_lib import Predict, Quiz\nimport matplotlib.pyplot as plt\napply()", None),
        ("HBMAccountant()", None),
        ("!pip install x\nplt.show()", None),
        ("# Quiz('Which?')", None),
    ],
)
def test_what_a_cell_calls_decides(source, title):
    assert folded_title(source) == title


def cells_of(tmp_path: Path, folder: str, name: str = "exercises.py") -> dict[str, dict]:
    file = tmp_path / "03_small" / name
    file.parent.mkdir()
    text = SOURCE if folder != LESSON else SOURCE.split("# %% ex-3-1")[0]
    file.write_text(text)
    return {c["id"]: c for c in json.loads(render(file, read_cells(file), folder, (), ()))["cells"]}


@pytest.mark.parametrize("folder", [LESSON, EXERCISE, SOLUTION])
def test_the_build_folds_for_every_front_end(tmp_path, folder):
    """JupyterLab shows the first line of what it folds: it is a title and gives nothing away."""
    cells = cells_of(tmp_path, folder)
    assert cells["ask"]["metadata"] == HIDDEN
    assert cells["ask"]["source"][0] == "# @title A question: Which?\n"
    assert cells["ask"]["source"][1].startswith("Quiz(")
    assert cells["closed"]["metadata"] == HIDDEN
    assert cells["closed"]["source"] == ["# @title The code of this cell\n", "x = 1"]
    assert cells["setup"]["metadata"] == HIDDEN
    assert cells["setup"]["source"][0].startswith("# @title Run this first")
    for slug in ("opened", "code"):
        assert cells[slug]["metadata"] == {}, slug
        assert not cells[slug]["source"][0].startswith("# @title")


@pytest.mark.parametrize("folder", [EXERCISE, SOLUTION])
def test_what_a_student_writes_stays_open(tmp_path, folder):
    assert cells_of(tmp_path, folder)["ex-3-1"]["metadata"] == {}


def test_an_optional_section_is_closed_and_its_code_folded_up_to_the_next_section():
    cells = [
        Cell("a", "markdown", "## First\n\nText.", 1),
        Cell("b", "code", "x = 1", 2),
        Cell("c", "markdown", "## Optional: more\n\n### One", 3),
        Cell("d", "code", "x = 2", 4),
        Cell("e", "markdown", "### Two", 5),
        Cell("f", "code", "x = 3", 6, {"folded": False}),
        Cell("g", "markdown", "## Last", 7),
        Cell("h", "code", "x = 4", 8),
    ]
    closed = {cell.slug: cell.metadata for cell in optional_closed(cells) if cell.metadata}
    assert closed == {
        "c": {"jp-MarkdownHeadingCollapsed": True},
        "d": {"folded": True},
        "f": {"folded": False},
    }
