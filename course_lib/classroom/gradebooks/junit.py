"""JUnit XML, which continuous integration and many tools show."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from course_lib.classroom.record import Class, Lines


def write(records: Class, folder: Path) -> Path:
    """Write ``junit.xml``."""
    (folder / "junit.xml").write_text(xml(records), encoding="utf-8")
    return folder / "junit.xml"


def xml(records: Class) -> str:
    """Return a suite per student; *failure* is theirs, *error* is the machine's."""
    suites = ElementTree.Element("testsuites")
    for student, lines in sorted(records.items()):
        suite = _suite(suites, student, lines)
        for line in lines:
            _case(suite, student, line)
    ElementTree.indent(suites)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suites, "unicode") + "\n"
    )


def _suite(suites: ElementTree.Element, student: str, lines: Lines) -> ElementTree.Element:
    return ElementTree.SubElement(
        suites,
        "testsuite",
        name=_legal(student),
        tests=str(len(lines)),
        failures=str(sum(line["fault_of"] == "student" for line in lines)),
        errors=str(sum(line["fault_of"] == "infrastructure" for line in lines)),
    )


def _case(suite: ElementTree.Element, student: str, line: Mapping[str, Any]) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=_legal(student),
        name=_legal(f"{line['exercise']} {line['function']}" if line["exercise"] else "all"),
        time=str(line.get("seconds", 0.0)),
    )
    if line["fault_of"]:
        kind = "failure" if line["fault_of"] == "student" else "error"
        what = ElementTree.SubElement(case, kind, message=_legal(line["outcome"]))
        what.text = _legal(line["message"])


def _legal(text: str) -> str:
    """Drop what XML cannot hold even escaped."""
    return re.sub("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", text)
