"""Canvas: a CSV for its gradebook's import."""

from __future__ import annotations

from pathlib import Path

from course_lib.classroom.gradebooks.spreadsheet import cell, number, write_rows
from course_lib.classroom.record import Class, total

TITLE = "FlashAttention course"  # put the assignment's id in brackets behind it before importing


def write(records: Class, folder: Path, title: str = TITLE) -> Path:
    """Write ``canvas.csv``; ``title`` heads the points."""
    return write_rows(rows(records, title), folder / "canvas.csv")


def rows(records: Class, title: str = TITLE) -> list[list[str]]:
    """Return the two header rows that Canvas wants, and one row a student."""
    highest = max((total(lines)[1] for lines in records.values()), default=0)
    return [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", cell(title)],
        ["    Points Possible", "", "", "", "", number(highest)],
        *(
            [cell(student), "", "", cell(student), "", number(total(lines)[0])]
            for student, lines in sorted(records.items())
        ),
    ]
