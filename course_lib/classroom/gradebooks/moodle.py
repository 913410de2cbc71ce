"""Moodle: a CSV of email, grade and feedback; its import asks which column is which."""

from __future__ import annotations

import html
from pathlib import Path

from course_lib.classroom.gradebooks.spreadsheet import cell, number, write_rows
from course_lib.classroom.record import Class, Lines, total


def write(records: Class, folder: Path) -> Path:
    """Write ``moodle.csv``."""
    return write_rows(rows(records), folder / "moodle.csv")


def rows(records: Class) -> list[list[str]]:
    """Return a header and one row a student; the feedback is what did not pass, and why."""
    return [
        ["email", "grade", "feedback"],
        *(
            [cell(student), number(total(lines)[0]), cell(_feedback(lines))]
            for student, lines in sorted(records.items())
        ),
    ]


def _feedback(lines: Lines) -> str:
    """Return it as HTML, which Moodle takes it for: what a student wrote is no markup."""
    text = "\n".join(
        f"{line['exercise'] or 'submission'}: {line['outcome']}. {line['message']}"
        for line in lines
        if line["outcome"] != "passed"
    )
    return html.escape(text, quote=False)
