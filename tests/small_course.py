"""A course of one small lesson, for the tests of the `course` command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from course_lib.judging.finding import Finding
from course_lib.judging.spec import Case, Exercise

SOURCE = """\
# %% title [markdown]
# # 03 · Small

# %% imports
import numpy as np

from course_lib import check

# %% constants
OFFSET = np.float64(0)
EXPENSIVE = 1 / 0

# %% ex-3-1
def twice(x):
    \"\"\"Return 2x — «2ℓ».\"\"\"
    ### BEGIN SOLUTION
    return x + x + OFFSET
    ### END SOLUTION

# %% check-3-1
check(twice)

# %% use
x = twice(np.arange(3))
print("this cell never runs in course check")

# %% ex-3-2
def four_times(x):
    ### BEGIN SOLUTION
    return twice(twice(x))
    ### END SOLUTION

# %% check-3-2
check(four_times)
"""


def judge(case, observed, expected):
    right = np.array_equal(observed.result, expected)
    return None if right else Finding("equals the truth", "the numbers differ.")


def spec(id: str, function: str, factor: int) -> Exercise:
    return Exercise(
        id=id,
        function=function,
        signature="(x)",
        title=f"Multiply by {factor}",
        minutes=5,
        points=factor,
        hints=("first", "second", "third"),
        cases=lambda rng: [Case("four numbers", (rng.standard_normal(4),))],
        truth=lambda x: factor * x,
        judge=judge,
        notice="Addition is enough.",
    )


SPECS = (spec("3.1", "twice", 2), spec("3.2", "four_times", 4))


def solve(course: Path, slug: str, source: str, name: str = "exercises/03_small.ipynb") -> None:
    """Type ``source`` into a cell and save, as a student does."""
    path = course / name
    raw = json.loads(path.read_text(encoding="utf-8"))
    (cell,) = (cell for cell in raw["cells"] if cell["id"] == slug)
    cell["source"] = source
    path.write_text(json.dumps(raw, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
