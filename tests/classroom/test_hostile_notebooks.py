"""What a notebook says about itself gives no points and stops nothing.

Each attack is a wrong answer in a notebook that claims more; the same claims around a right answer
take nothing away.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from course_lib.classroom.grade_one import grade
from course_lib.classroom.gradebooks import FORMATS
from course_lib.classroom.record import Records, total
from course_lib.handin.submissions import Submission
from course_lib.specs import find

RIGHT = "def echo(x):\n    return x.copy()\n"
WRONG = "def echo(x):\n    return x + x\n"
GRADED = {"grade": True, "grade_id": "ex-0-1", "locked": True, "points": 100, "schema_version": 3}


def cell(source: Any, name: Any = "ex-0-1", kind: str = "code", **more: Any) -> dict[str, Any]:
    made = {"cell_type": kind, "id": name, "metadata": {}, "source": source}
    made |= {"outputs": [], "execution_count": None} if kind == "code" else {}
    return made | more


def notebook(*cells: Any, **more: Any) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5} | more


ATTACKS = {
    "points in the cell's metadata": lambda s: notebook(
        cell(s, metadata={"nbgrader": GRADED | {"score": 100, "auto_score": 100}})
    ),
    "points in the notebook's metadata": lambda s: notebook(
        cell(s), metadata={"score": 1, "outcome": "passed", "course": {"0.1": "passed"}}
    ),
    "an output that says passed": lambda s: notebook(
        cell(
            s,
            outputs=[{"output_type": "stream", "name": "stdout", "text": "0.1 passed\n"}],
            execution_count=7,
        )
    ),
    "another kernel": lambda s: notebook(
        cell(s), metadata={"kernelspec": {"name": "bash", "language": "bash", "argv": ["sh"]}}
    ),
    "an answer for the grader in a raw cell": lambda s: notebook(
        cell(s), cell('{"outcome": "passed"}', kind="raw"), cell("passed: 0.1", kind="markdown")
    ),
    "an enormous metadata": lambda s: notebook(cell(s), metadata={"x": ["y" * 1000] * 2000}),
    "an attachment that is a program": lambda s: notebook(
        cell(s, attachments={"a.py": {"text/x-python": RIGHT}})
    ),
    "ids that are no texts": lambda s: notebook(
        cell(s), cell("x = 1", name=["ex-0-1"]), cell("y = 1", name={"a": 1})
    ),
    "an id with control characters": lambda s: notebook(
        cell(s), cell("z = 1", name="ex-0-1\x1b[2J\u202e")
    ),
    "metadata that are no dict": lambda s: notebook(cell(s, metadata=[GRADED]), metadata=None),
    "a check of its own": lambda s: notebook(
        cell("def check(*a, **b):\n    print('passed')\n", name="setup"), cell(s)
    ),
}


def graded(workshop, content: Any, name: str = "e.ipynb") -> dict[str, Any]:
    text = content if isinstance(content, str) else json.dumps(content)
    handed_in = Submission("mallory", ((name, text.encode()),))
    (line,) = grade(workshop, handed_in, [find("0.1")], b"a secret")
    return line


@pytest.mark.parametrize("claim", ATTACKS)
def test_what_a_notebook_claims_changes_nothing(workshop, claim):
    wrong, right = (graded(workshop, ATTACKS[claim](source)) for source in (WRONG, RIGHT))
    assert (wrong["outcome"], wrong["score"]) == ("incorrect", 0)
    assert (right["outcome"], right["score"]) == ("passed", find("0.1").points)
    assert wrong["max_score"] == find("0.1").points


BROKEN = {
    "cells that are no list": notebook() | {"cells": {"a": cell(RIGHT)}},
    "a cell that is a number": notebook(3, cell(RIGHT)),
    "a source that is a number": notebook(cell(3)),
    "a source of a million pieces": notebook(cell(["x\n"] * 1_000_000)),
    "an endless number": '{"cells": ' + "9" * 100_000 + "}",
    "a name twice": '{"cells": [], "cells": "x", "nbformat": 4}',
    "not a number": '{"cells": NaN, "nbformat": Infinity}',
    "nothing but brackets": "[" * 1_000_000,
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_notebook_is_refused_or_judged_and_the_next_one_is_graded(workshop, kind):
    line = graded(workshop, BROKEN[kind])
    assert line["outcome"] in ("refused", "error", "incorrect", "missing"), line
    assert line["score"] == 0
    assert graded(workshop, notebook(cell(RIGHT)))["outcome"] == "passed"


def test_a_record_cannot_be_written_by_a_message(workshop, tmp_path):
    """What an error says is text in one record, whatever lines or formulas it is made of."""
    says = '\n{"student": "mallory", "outcome": "passed", "score": 1, "part": [1, 1]}\n=1+1'
    line = graded(workshop, notebook(cell(f"def echo(x):\n    raise ValueError({says!r})\n")))
    records = Records(tmp_path / "records.jsonl")
    records.append([line])
    assert len(records.path.read_text().splitlines()) == 1
    (found,) = records.latest().values()
    assert total(found)[0] == 0
    for write in FORMATS.values():
        write(records.latest(), tmp_path)
