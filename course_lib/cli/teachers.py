"""For instructors: grade a class, make a variant, hand out the course without solutions."""

from __future__ import annotations

import argparse
from pathlib import Path

from course_lib.cli.shared import UsageError, course_root, exercise_called


def variant(options: argparse.Namespace) -> int:
    """Write the notebook of a seeded variant of 7★: the same kernel, one thing changed."""
    from course_lib.authoring import variant_notebook
    from course_lib.specs import variants

    base = options.exercise.strip().replace("★", "-star").removeprefix("ex-")
    if base != variants.BASE:
        raise UsageError(f"Only {variants.BASE} has variants, got {options.exercise!r}.")
    folder = Path(options.out)
    try:
        path = variant_notebook.write(options.seed, folder, force=options.force)
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    except FileExistsError as error:
        raise UsageError(f"{error.filename} exists already: move it, or add --force.") from None
    except OSError as error:
        raise UsageError(f"{folder} cannot be written to ({error.strerror}).") from None
    exercise = exercise_called(f"{variants.BASE}:{options.seed}")
    print(f"{path}: {exercise.title}.")
    print(f"Grade it with: course grade SUBMISSIONS --out DIR --variant {exercise.id}")
    return 0


def export_student(options: argparse.Namespace) -> int:
    """Copy the course without solutions, sources, tests and benchmarks to a new folder."""
    from course_lib.authoring import student_copy

    out = Path(options.out)
    try:
        student_copy.write(course_root("exercises", "notebooks"), out)
    except student_copy.NoCourse as problem:
        raise UsageError(str(problem)) from None
    except OSError as error:
        raise UsageError(f"{out} cannot be written to ({error.strerror}).") from None
    print(f"{out}: the course without solutions. Students type there: ./course lab")
    return 0


def grade(options: argparse.Namespace) -> int:
    """Grade a class's submissions in a sandbox; 1 if a person has to look at some."""
    from course_lib.classroom import command
    from course_lib.classroom.cluster import NoCluster
    from course_lib.classroom.job import Unsafe
    from course_lib.handin.submissions import NoSubmissions
    from course_lib.sandbox.workshop import InfrastructureError

    if options.jobs < 1:
        raise UsageError(f"--jobs must be at least 1, got {options.jobs}.")
    try:
        tally, made = command.run(
            Path(options.submissions),
            Path(options.out),
            jobs=options.jobs,
            scheduler=options.scheduler,
            form=options.format,
            seed_file=Path(options.seed_file) if options.seed_file else None,
            allow_unsandboxed=options.allow_unsandboxed,
            only=tuple(exercise_called(name).id for name in options.only or ()),
            title=options.title,
            outer=options.bubblewrap,
        )
    except (NoSubmissions, NoCluster, Unsafe, InfrastructureError, ValueError) as problem:
        raise UsageError(str(problem)) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise UsageError(f"{where}{error.strerror}. What is graded so far is kept.") from None
    print(f"{tally.graded} graded, {tally.kept} graded before; {options.out}/records.jsonl")
    if made:
        print(made)
    if tally.for_a_person:
        where = "`refused`, `infrastructure`, `unclear` and `for_a_person`"
        print(f"{tally.for_a_person} need a person: see {where} there.")
    if tally.outdated:
        print(f"Decided about another hand-in, counts no longer: {', '.join(tally.outdated)}.")
    return 1 if tally.for_a_person else 0


def decide(options: argparse.Namespace) -> int:
    """Decide how many points an answer gets, whatever the grader said or could not say."""
    import getpass

    from course_lib.classroom import decisions

    exercise = exercise_called(options.exercise).id
    who = options.who or getpass.getuser()
    try:
        decisions.decide(
            Path(options.out), options.student, exercise, options.points, options.reason, who
        )
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written ({error.strerror}).") from None
    print(f"{options.student}, {exercise}: {options.points:g} points, decided by {who}.")
    print(f"Every gradebook that `course grade` makes in {options.out} from now on says so.")
    return 0
