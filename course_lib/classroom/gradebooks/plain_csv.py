"""One table for people: a row per student, a column per exercise."""

from __future__ import annotations

from pathlib import Path

from course_lib.classroom.gradebooks.spreadsheet import cell, number, write_rows
from course_lib.classroom.record import Class, reason_for_a_person, total
from course_lib.handin.submissions import natural


def write(records: Class, folder: Path) -> Path:
    """Write ``grades.csv``."""
    return write_rows(rows(records), folder / "grades.csv")


def rows(records: Class) -> list[list[str]]:
    """Return a header and a row per student: each exercise's score, the total, what to look at."""
    ids = {line["exercise"] for lines in records.values() for line in lines if line["exercise"]}
    columns = sorted(ids, key=natural)
    table = [["student", *columns, "score", "max_score", "for a person"]]
    for student, lines in sorted(records.items()):
        scores = {line["exercise"]: line["score"] for line in lines}
        watch = dict.fromkeys(filter(None, map(reason_for_a_person, lines)))
        cells = [number(scores[i]) if i in scores else "" for i in columns]
        table.append([cell(student), *cells, *map(number, total(lines)), cell(" ".join(watch))])
    return table
