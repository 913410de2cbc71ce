"""``course variant``: the notebook of a seeded variant of 7★, with a blank to fill in."""

from __future__ import annotations

from pathlib import Path

from course_lib.authoring import first_cell
from course_lib.authoring.folding import folded
from course_lib.authoring.mirror import check_slug
from course_lib.authoring.notebook import EXERCISE, assembled
from course_lib.authoring.percent import Cell
from course_lib.judging.spec import Exercise
from course_lib.specs import variants

_OPENING = """\
# {label} {title}

A variant of exercise 7★: your kernel from there, with one thing changed (about {minutes} min). Your
own 7★ is the best place to start."""

_TASK = """\
## What is asked for

{task}

Unchanged from 7★: strides are used as they are and nothing is copied; query head `h` uses key/value
head `h // (H // H_kv)`; lengths need not be multiples of a tile; `o` has the dtype of `q`, and
`lse` is float32, in natural logarithms."""

_EXAMPLE = """\
## A small example

```text
{example}
```"""

_IMPORTS = """\
import torch
import triton
import triton.language as tl

from course_lib import check, hint"""

_STUB = '''\
# your code here: the kernel


def {function}{signature}:
    """q (B, H, n_q, d), k and v (B, H_kv, n_k, d){sinks}, any strides -> (o, lse)."""
    # your code here
    raise NotImplementedError("not attempted")'''

_AFTER = "Stuck? `hint({name!r})` helps three times."


def notebook(seed: str) -> tuple[str, str]:
    """Return file name and JSON text of the notebook. Raises ValueError for a bad seed."""
    variant, exercise = variants.variant(seed), variants.exercise(f"{variants.BASE}:{seed}")
    cells = [
        _text("title", _OPENING.format(**_words(exercise))),
        folded(first_cell.setup_cell()),
        _code("imports", _IMPORTS),
        _text("task", _TASK.format(task=variant.task)),
        _text("example", _EXAMPLE.format(example=variant.example)),
        _code(
            exercise.slug,
            _STUB.format(
                function=exercise.function,
                signature=exercise.signature,
                sinks=f", sinks (H, {variant.n_sinks})" if variant.n_sinks else "",
            ),
        ),
        _code(check_slug(exercise), f'check({exercise.function}, variant="{exercise.id}")'),
        _text("after", _AFTER.format(name=exercise.id)),
    ]
    return f"07_star_variant_{seed}.ipynb", assembled(cells, EXERCISE, [exercise])


def write(seed: str, folder: Path, *, force: bool = False) -> Path:
    """Write the notebook into ``folder`` and return its path.

    Raises ValueError for a bad seed, FileExistsError unless ``force``, and OSError.
    """
    name, text = notebook(seed)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    with open(path, "w" if force else "x", encoding="utf-8") as file:
        file.write(text)
    return path


def _words(exercise: Exercise) -> dict[str, str]:
    return {
        "label": exercise.label,
        "title": exercise.title,
        "minutes": str(exercise.minutes),
    }


def _text(slug: str, source: str) -> Cell:
    return Cell(slug, "markdown", source, 1)


def _code(slug: str, source: str) -> Cell:
    return Cell(slug, "code", source, 1)
