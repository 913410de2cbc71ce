"""Records in the formats of others: Gradescope, Canvas, Moodle, JUnit, CSV.

All text was made plain when the record was made. Here cells that a spreadsheet would take for a
formula get an apostrophe; XML and JSON are written by libraries that escape.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from course_lib.classroom.record import reason_for_a_person

Records = Sequence[Mapping[str, Any]]
Class = Mapping[str, Records]  # student -> records

_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")
FORMATS = ("gradescope", "canvas", "moodle", "junit", "csv")


def write(form: str, records: Class, out: Path, title: str = "FlashAttention course") -> Path:
    """Write the records in one of `FORMATS` under ``out``; return the file or folder."""
    if form == "gradescope":
        return _gradescope(records, out / "gradescope")
    name, text = {
        "canvas": lambda: ("canvas.csv", canvas(records, title)),
        "moodle": lambda: ("moodle.csv", moodle(records)),
        "junit": lambda: ("junit.xml", junit(records)),
        "csv": lambda: ("grades.csv", table(records)),
    }[form]()
    (out / name).write_text(text, encoding="utf-8")
    return out / name


def total(lines: Records) -> tuple[float, float]:
    """Return (score, highest possible score) over the exercises of a submission."""
    return sum(line["score"] for line in lines), sum(line["max_score"] for line in lines)


def results_json(lines: Records) -> dict[str, Any]:
    """Return Gradescope's ``results.json`` for one submission."""
    score, _ = total(lines)
    tests = [
        {
            "name": f"{line['exercise']} {line['function']}" if line["exercise"] else "submission",
            "name_format": "text",
            "number": str(line["exercise"] or 0),
            "score": line["score"],
            "max_score": line["max_score"],
            "status": "passed" if line["outcome"] == "passed" else "failed",
            "output": f"{line['outcome']}\n{line['message']}",
            "output_format": "text",
            "visibility": "visible",
        }
        for line in lines
    ]
    return {
        "score": score,
        "execution_time": round(sum(line.get("seconds", 0.0) for line in lines)),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
    }


def canvas(records: Class, title: str) -> str:
    """Return a CSV for Canvas's gradebook; put the assignment's id into the title's brackets."""
    highest = max((total(lines)[1] for lines in records.values()), default=0)
    rows = [["Student", "ID", "SIS User ID", "SIS Login ID", "Section", title]]
    rows.append(["    Points Possible", "", "", "", "", _number(highest)])
    rows += [
        [_cell(student), "", "", _cell(student), "", _number(total(lines)[0])]
        for student, lines in sorted(records.items())
    ]
    return _csv(rows)


def moodle(records: Class) -> str:
    """Return a CSV of email, grade and feedback (the columns are mapped at the import)."""
    rows = [["email", "grade", "feedback"]]
    for student, lines in sorted(records.items()):
        feedback = "\n".join(
            f"{line['exercise'] or 'submission'}: {line['outcome']}. {line['message']}"
            for line in lines
            if line["outcome"] != "passed"
        )
        rows.append([_cell(student), _number(total(lines)[0]), _cell(feedback)])
    return _csv(rows)


def table(records: Class) -> str:
    """Return one row per student: a column per exercise (its score), the total, what to look at."""
    ids = list(
        dict.fromkeys(
            line["exercise"] for lines in records.values() for line in lines if line["exercise"]
        )
    )
    ids.sort(key=_order)
    rows = [["student", *ids, "score", "max_score", "for a person"]]
    for student, lines in sorted(records.items()):
        scores = {line["exercise"]: line["score"] for line in lines}
        watch = dict.fromkeys(filter(None, map(reason_for_a_person, lines)))
        cells = [_number(scores[i]) if i in scores else "" for i in ids]
        rows.append([_cell(student), *cells, *map(_number, total(lines)), _cell(" ".join(watch))])
    return _csv(rows)


def junit(records: Class) -> str:
    """Return JUnit XML: a suite per student; *failure* is theirs, *error* is the machine's."""
    suites = ElementTree.Element("testsuites")
    for student, lines in sorted(records.items()):
        failures = sum(line["fault_of"] == "student" for line in lines)
        errors = sum(line["fault_of"] == "infrastructure" for line in lines)
        suite = ElementTree.SubElement(
            suites,
            "testsuite",
            name=_xml(student),
            tests=str(len(lines)),
            failures=str(failures),
            errors=str(errors),
        )
        for line in lines:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=_xml(student),
                name=_xml(f"{line['exercise']} {line['function']}" if line["exercise"] else "all"),
                time=str(line.get("seconds", 0.0)),
            )
            if line["fault_of"]:
                kind = "failure" if line["fault_of"] == "student" else "error"
                what = ElementTree.SubElement(case, kind, message=_xml(line["outcome"]))
                what.text = _xml(line["message"])
    ElementTree.indent(suites)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suites, "unicode") + "\n"
    )


def _gradescope(records: Class, folder: Path) -> Path:
    for student, lines in records.items():
        place = folder / file_name(student)
        place.mkdir(parents=True, exist_ok=True)
        text = json.dumps(results_json(lines), indent=1)
        (place / "results.json").write_text(text, encoding="utf-8")
    return folder


def file_name(student: str) -> str:
    """Return a file name for a student: letters and digits, and a hash that keeps it unique."""
    letters = re.sub(r"[^A-Za-z0-9]+", "_", student).strip("_")[:40]
    return f"{letters or 'student'}-{hashlib.sha256(student.encode()).hexdigest()[:8]}"


def _csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    # quoted, because some programs take a semicolon for the end of a cell
    csv.writer(text, lineterminator="\r\n", quoting=csv.QUOTE_ALL).writerows(rows)
    return text.getvalue()


def _cell(text: str) -> str:
    """Return text that no spreadsheet takes for a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def _number(value: float) -> str:
    return f"{value:g}"


def _xml(text: str) -> str:
    """Drop what XML cannot hold even escaped."""
    return re.sub("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", text)


def _order(exercise_id: str) -> list[tuple[int, int | str]]:
    return [(0, int(p)) if p.isdecimal() else (1, p) for p in re.split(r"(\d+)", exercise_id) if p]
