"""``course new``: the files of a lesson or of an exercise, whole enough to be built and judged.

What is made is a small course of its own: doubling numbers. Its exercise is a ``draft`` until its
corpus of submissions is as large as the others'.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from course_lib.authoring.build import NAME

_ID = re.compile(r"(\d+)(?:\.\d+[a-z]?|-star)")

_TOML = """\
number = {number}
part = "{part}"
title = "{title}"
writes = "a function that doubles"
needs = ["numpy"]
minutes = 5
"""

_FACTS = """\

[[exercise]]
id = "{id}"
function = "{function}"
signature = "(x)"
title = "Double every number"
minutes = 5
points = 1
draft = true
hints = [
  "What can be done with two copies of x?",
  "Arrays of one shape can be added.",
  "x + x",
]
notice = "Nothing was multiplied."
"""

_SPEC = '''\
"""Exercise {id}: double every number."""

from __future__ import annotations

from numpy.random import Generator

from course_lib.judging.judges import within
from course_lib.judging.spec import HARD, Case, Exercise, Mistake


def _cases(rng: Generator) -> list[Case]:
    n = int(rng.integers(5, 12))
    return [
        Case(f"a row of {{n}} numbers", (rng.standard_normal(n),)),
        Case("a table of 3 rows and 4 columns", (rng.standard_normal((3, 4)),)),
    ]


EXERCISE = Exercise.of(
    "{id}",
    cases=_cases,
    truth=lambda x: x + x,
    judge=within(1e-9),
    spared=dict.fromkeys(HARD, "there are no scores, no tiles and no sums"),
    mistakes=(Mistake("squared", "Twice x is x + x, not x times x.", lambda x: x * x),),
)
'''

_LESSON = """\
# %% title [markdown]
# # {number:02} · {title}
#
# **You need:** Python and NumPy. No GPU.
#
# **You will be able to:** double numbers.
#
# **Time:** 5 minutes of reading, 5 for the exercise.

# %% question [markdown]
# ## The question
#
# What is twice a number?

# %% imports
import numpy as np

# %% by-adding
x = np.arange(4)
x + x

# %% now-write-it [markdown]
# ## Now write it
#
# Open `exercises/{name}.ipynb`.
"""

_EXERCISES = """\
# %% title [markdown]
# # {number:02} · {title}: exercises
#
# Run a cell with Shift+Enter.

# %% imports
from course_lib import check, hint, progress

# %% progress
progress()
"""

_CELLS = '''\
# %% about-{slug} [markdown]
# ## {label} · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint({function})`.


# %% ex-{slug}
def {function}(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


# %% check-{slug}
check({function})

'''

_RIGHT = """\
# Multiplies by two.
def {function}(x):
    return 2 * x
"""

_WRONG = """\
# Multiplies x by itself.
# Expected: misconception: squared
def {function}(x):
    return x * x
"""


class Refused(ValueError):
    """Nothing was made; the message is one sentence."""


def lesson(root: Path, number: int, name: str) -> list[Path]:
    """Write a lesson and its first exercise under ``root``; return the paths. Raises Refused."""
    folder = f"{number:02}_{name}"
    if not NAME.match(folder):
        raise Refused(f"{folder!r} is no name: two digits, then lower_case_words.")
    if [*root.glob(f"sources/{number:02}_*"), *root.glob(f"course_lib/specs/lesson_{number:02}")]:
        raise Refused(f"There is a lesson {number:02} already.")
    title = name.replace("_", " ").capitalize()
    specs, sources = _specs(root, number), root / "sources" / folder
    words = {"number": number, "title": title, "name": folder, "part": _last_part(root)}
    made = [
        _write(specs / "lesson.toml", _TOML.format(**words)),
        _write(specs / "__init__.py", f'"""Exercises of {title.lower()}."""\n'),
        _write(sources / "lesson.py", _LESSON.format(**words)),
        _write(sources / "exercises.py", _EXERCISES.format(**words)),
    ]
    return made + [path for path in exercise(root, f"{number}.1") if path not in made]


def exercise(root: Path, id: str, function: str | None = None) -> list[Path]:
    """Write an exercise into its lesson under ``root``; return the paths. Raises Refused."""
    matched = _ID.fullmatch(id)
    if not matched:
        raise Refused(f"{id!r} is no id of an exercise: write 9.2, 9.2b or 9-star.")
    number, slug = int(matched[1]), id.replace(".", "-")
    specs, corpus = _specs(root, number), root / "tests" / "submissions" / id
    facts = specs / "lesson.toml"
    sources = list((root / "sources").glob(f"{number:02}_*/exercises.py"))
    if not facts.exists() or not sources:
        raise Refused(f"There is no lesson {number:02} yet: course new lesson {number:02} NAME")
    function = function or f"exercise_{slug.replace('-', '_')}"
    if not function.isidentifier():
        raise Refused(f"{function!r} is no name of a function.")
    told = facts.read_text(encoding="utf-8")
    if f'id = "{id}"' in told or (specs / f"{function}.py").exists():
        raise Refused(f"Lesson {number:02} has {id} or {function} already.")
    words = {"id": id, "slug": slug, "function": function, "label": id.replace("-star", "★")}
    cells, mark, end = sources[0].read_text(encoding="utf-8").rpartition("# %% progress\n")
    return [
        _write(facts, told + _FACTS.format(**words)),
        _write(specs / f"{function}.py", _SPEC.format(**words)),
        _write(sources[0], cells + (_CELLS.format(**words) + mark if mark else "") + end),
        _write(corpus / "right" / "plain.py", _RIGHT.format(**words)),
        _write(corpus / "wrong" / "squared.py", _WRONG.format(**words)),
    ]


def _specs(root: Path, number: int) -> Path:
    return root / "course_lib" / "specs" / f"lesson_{number:02}"


def _last_part(root: Path) -> str:
    """Return the part that the last lesson belongs to."""
    *_, last = sorted(root.glob("course_lib/specs/lesson_*/lesson.toml"))
    return tomllib.loads(last.read_text(encoding="utf-8"))["part"]


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
