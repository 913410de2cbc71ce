"""The ``course`` command: one subcommand, one small function.

Exit status: 0 done, 1 not (yet) right, 2 a request that makes no sense, explained in a sentence.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from course_lib import __version__
from course_lib.cli import authors, given, jupyter, students, teachers, watch
from course_lib.cli.shared import UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit status."""
    from course_lib.authoring.percent import BuildError
    from course_lib.handin.course_file import FileProblem

    words, rest = jupyter.split(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(words)
    options.rest = rest
    try:
        return options.run(options)
    except (UsageError, FileProblem, BuildError) as problem:
        print(problem, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # course list | head
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="course", description="The FlashAttention course.")
    parser.add_argument("--version", action="version", version=f"course {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add(commands, "doctor", students.doctor)
    _add(commands, "triton", students.triton)
    _add(commands, "list", students.list_exercises)
    _add(commands, "lab", jupyter.lab)
    opened = _add(commands, "open", jupyter.open_)
    opened.add_argument("what", metavar="NN or ID", nargs="?", help="default: what comes next")
    made = _add(commands, "build", authors.build)
    made.add_argument("--check", action="store_true", help="change nothing; say what drifts")
    begun = commands.add_parser("new", help=authors.NEW, description=authors.NEW)
    new = begun.add_subparsers(metavar="WHAT", required=True)
    lesson = _add(new, "lesson", authors.new_lesson)
    lesson.add_argument("number", metavar="NN", type=int, help="the lesson's number")
    lesson.add_argument("name", help="lower_case_words, of which the title is made")
    exercise = _add(new, "exercise", authors.new_exercise)
    exercise.add_argument("exercise", metavar="ID", help="such as 9.2 or 9-star")
    exercise.add_argument("function", nargs="?", help="default: exercise_9_2")
    checked = _add(commands, "check", students.check)
    checked.add_argument("file", metavar="FILE", help="a notebook or a Python script")
    checked.add_argument("exercises", metavar="EXERCISE", nargs="*", help="only these, e.g. 3.3")
    watched = _add(commands, "watch", watch.watch)
    watched.add_argument("file", metavar="FILE", help="a notebook or a Python script")
    watched.add_argument("exercise", metavar="EXERCISE", nargs="?", help="only this one, e.g. 3.3")
    _add(commands, "hint", students.hint).add_argument("exercise", metavar="ID")
    _add(commands, "progress", students.progress)
    _add(commands, "catch-up", given.catch_up).add_argument("exercise", metavar="ID")
    solved = _add(commands, "solution", given.solution)
    solved.add_argument("exercise", metavar="ID")
    solved.add_argument("--give-up", action="store_true", help="show it though it has not passed")
    _add(commands, "reset", given.reset).add_argument(
        "what", metavar="ID or NN", help="an exercise, or a lesson's exercises all at once"
    )
    sent = _add(commands, "export", students.export)
    sent.add_argument("exercise", metavar="ID", help="7.4, 7-star or 9.6")
    sent.add_argument("--from", dest="source", metavar="FILE", help="default: your exercises")
    sent.add_argument("-o", "--output", metavar="OUT", help="default: my_flash_attention.py")
    sent.add_argument("--force", action="store_true", help="overwrite OUT")
    varied = _add(commands, "variant", teachers.variant)
    varied.add_argument("exercise", metavar="7-star", help="the one exercise that has variants")
    varied.add_argument("--seed", metavar="S", required=True, help="chooses kind and parameters")
    varied.add_argument("--out", metavar="DIR", default=".", help="default: the current folder")
    varied.add_argument("--force", action="store_true", help="overwrite the notebook")
    copied = _add(commands, "export-student", teachers.export_student)
    copied.add_argument("out", metavar="OUT", help="a new or an empty folder")
    shown = _add(commands, "html", students.html)
    shown.add_argument("notebook", metavar="NOTEBOOK")
    shown.add_argument("-o", "--output", metavar="OUT", help="default: the notebook's name, .html")
    shown.add_argument("--force", action="store_true", help="overwrite OUT")
    graded = _add(commands, "grade", teachers.grade)
    graded.add_argument("submissions", metavar="SUBMISSIONS", help="a folder or a zip")
    graded.add_argument("--out", metavar="DIR", required=True, help="for records and gradebooks")
    graded.add_argument("--jobs", metavar="N", type=int, default=1, help="worker processes")
    graded.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask cluster to do the work")
    graded.add_argument(
        "--format",
        choices=("gradescope", "canvas", "moodle", "junit", "csv"),
        help="a gradebook beside the records",
    )
    which = graded.add_mutually_exclusive_group()
    which.add_argument("--only", metavar="ID", nargs="+", help="grade these exercises, no others")
    which.add_argument(
        "--variant",
        metavar="7-star:SEED",
        dest="only",
        nargs=1,
        help="grade this seeded variant and nothing else",
    )
    graded.add_argument("--title", metavar="TEXT", help="of the points' column in Canvas")
    graded.add_argument("--seed-file", metavar="F", help="the secret that inputs are drawn from")
    graded.add_argument(
        "--bubblewrap",
        action="store_true",
        help="put bubblewrap around the sandbox: other files cannot even be asked about",
    )
    graded.add_argument(
        "--allow-unsandboxed",
        action="store_true",
        help="grade even where the sandbox does not hold",
    )
    decided = _add(commands, "decide", teachers.decide)
    decided.add_argument("out", metavar="DIR", help="the --out of `course grade`")
    decided.add_argument("student", metavar="STUDENT", help="as the records name them")
    decided.add_argument("exercise", metavar="ID", help="such as 7.2")
    decided.add_argument("points", metavar="POINTS", type=float)
    decided.add_argument("--reason", metavar="TEXT", required=True, help="the student reads it")
    decided.add_argument("--who", metavar="NAME", help="default: your login")
    return parser


def _add(commands: Any, name: str, run: Callable[..., int]) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
    parser.set_defaults(run=run)
    return parser
