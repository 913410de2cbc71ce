"""`course catch-up`, `course solution`, `course reset`: what the course gave, put in or shown."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from course_lib.cli.shared import UsageError, course_root, exercise_called


def catch_up(options: argparse.Namespace) -> int:
    """Put the solution of the step before an exercise in place; your own text is kept."""
    from course_lib import lessons, store
    from course_lib.authoring.catch_up import catch_up, previous_step
    from course_lib.authoring.originals import solution

    step = previous_step(exercise_called(options.exercise), lessons.all_exercises())
    notebook = notebook_of(step)
    if notebook is None:
        print(f"# the solution of {step.label}, for the cell of {step.function}")
        print(solution(step))
        store.note_catch_up(step.id, "")
        return 0
    done = catch_up(notebook, step)
    if done is None:
        print(f"The solution of {step.label} is in place already: nothing was changed.")
        return 0
    backup, kept = done
    store.note_catch_up(step.id, kept)
    print(
        f"{notebook.name} now holds the solution of {step.label}; your own text is in "
        f"{backup.name} beside it. If the notebook is open, reload it from disk."
    )
    return 0


def solution(options: argparse.Namespace) -> int:
    """Show the solution of an exercise that you have passed, or with --give-up of any."""
    from course_lib import store
    from course_lib.authoring.originals import solution

    exercise = exercise_called(options.exercise)
    passed = store.load()["attempts"].get(exercise.id, {}).get("passed")
    if not passed and not options.give_up:
        raise UsageError(
            f"{exercise.label} has not passed yet: course hint {exercise.id} helps, and course "
            f"solution {exercise.id} --give-up shows its solution (your progress says so then)."
        )
    text = solution(exercise)
    if not passed:
        store.record_give_up(exercise.id)
    print(text)
    return 0


def reset(options: argparse.Namespace) -> int:
    """Put an exercise, or a lesson's (03), back as it was given; a dated copy of yours is kept."""
    from course_lib import lessons
    from course_lib.authoring.catch_up import reset_cell, reset_notebook

    if options.what.isdecimal():
        number = int(options.what)
        if number not in {exercise.lesson for exercise in lessons.all_exercises()}:
            raise UsageError(f"There is no lesson {options.what} with exercises.")
        notebook, kept = reset_notebook(_folder(), number)
    else:
        exercise = exercise_called(options.what)
        found = notebook_of(exercise)
        if found is None:
            raise UsageError(
                f"There is no notebook with exercise {exercise.label} here: on Colab, open it "
                f"anew from its link; elsewhere, course reset {exercise.lesson:02} makes one."
            )
        notebook, kept = found, reset_cell(found, exercise)
    if kept is None:
        print(f"{notebook.name} is as it was given.")
        return 0
    print(
        f"{notebook.name} is as it was given; what you had is in {kept.name} beside it. "
        "If the notebook is open, reload it from disk."
    )
    return 0


def notebook_of(exercise: Any) -> Path | None:
    """Return the student's notebook with this exercise: in the course, or else in this folder.

    None where there is neither, as on Colab. Raises FileProblem if the course's has gone.
    """
    from course_lib.authoring.originals import lesson_notebook

    folder = _folder()
    if folder.name == "exercises":
        return lesson_notebook(folder.parent, "exercises", exercise.lesson)
    found = (file for file in sorted(folder.glob("*.ipynb")) if _holds(file, exercise))
    return next(found, None)


def _folder() -> Path:
    """Return the course's folder of exercises, or the current one where there is no course."""
    try:
        return course_root("exercises") / "exercises"
    except UsageError:
        return Path.cwd()


def _holds(file: Path, exercise: Any) -> bool:
    from course_lib.authoring.originals import cell_of
    from course_lib.handin.course_file import FileProblem, read_text

    try:
        cell_of(file, read_text(file), exercise)
    except FileProblem:
        return False
    return True
