"""Records for Gradescope, Canvas, Moodle, JUnit and as a table."""

from __future__ import annotations

import csv
import io
import json
import re
from xml.etree import ElementTree

import pytest

from course_lib import cli
from course_lib.classroom.gradebooks import FORMATS, canvas, gradescope, junit, moodle, plain_csv
from course_lib.classroom.record import record
from course_lib.specs import find

FORMULA = '=HYPERLINK("http://127.0.0.1")'


CLASS = {
    FORMULA: [record(FORMULA, "c", find("1.1"), "error", "@SUM(1)\n<script>\x1b[31m")],
    "bob, b": [
        record("bob, b", "c", find("1.1"), "passed", "", passed=True, seconds=1.5),
        record("bob, b", "c", find("1.2"), "infrastructure", "disk"),
    ],
}


@pytest.mark.parametrize("start", [*"=+-@＝＋－＠\t\r\n", " =", "\u3000="])
def test_spreadsheets_get_no_formulas(tmp_path, start):
    """Neither as a whole cell nor as what an unquoted semicolon would cut off."""
    for name in (FORMULA, f"{start}1+1", f"x;{start}HYPERLINK(1)"):
        says = f"{start}SUM(1)\n<script>\x1b[31m"
        rows = {name: [record(name, "c", find("1.1"), "error", says)]}
        for form in (plain_csv, moodle, canvas):
            text = form.write(rows, tmp_path).read_bytes().decode()
            for row in csv.reader(io.StringIO(text)):
                assert not any(cell.strip()[:1] in tuple("=+-@＝＋－＠") for cell in row), row
            for cell in re.split(r'(?<=")[,\r]', text.strip()):
                assert re.fullmatch(r'\n?"(?:[^"]|"")*"', cell), cell


def test_a_later_line_is_no_formula_either():
    """A message has several lines, and some programs take each for a cell; a list stays a list."""
    says = "wrong\n=HYPERLINK(1)\n  @SUM(1)\n- tile 3: -1.5"
    rows = moodle.rows({"ada": [record("ada", "c", find("1.1"), "error", says)]})
    assert rows[1][-1].splitlines()[1:] == ["'=HYPERLINK(1)", "'  @SUM(1)", "- tile 3: -1.5"]


def test_what_a_student_wrote_is_no_markup_in_moodle():
    says = "<img src=x onerror=alert(1)> & 'x' < 3"
    rows = moodle.rows({"ada": [record("ada", "c", find("1.1"), "error", says)]})
    assert rows[1][-1].endswith("&lt;img src=x onerror=alert(1)&gt; &amp; 'x' &lt; 3")


def test_canvas_has_its_two_header_rows():
    rows = canvas.rows(CLASS, "Attention (42)")
    header = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Attention (42)"]
    assert rows[0] == header
    assert rows[1] == ["    Points Possible", "", "", "", "", "3"]
    assert (rows[3][0], rows[3][-1]) == ("bob, b", "1")


def test_gradescope_knows_scores_and_status():
    data = json.loads(json.dumps(gradescope.results(CLASS["bob, b"])))
    assert data["score"] == 1
    assert [t["status"] for t in data["tests"]] == ["passed", "failed"]
    assert {t["output_format"] for t in data["tests"]} == {"text"}


def test_junit_tells_failures_from_errors_and_escapes():
    text = junit.xml(CLASS)
    assert "<script>" not in text
    assert "\x1b" not in text
    suites = ElementTree.fromstring(text.partition("\n")[2])
    assert [(s.get("failures"), s.get("errors")) for s in suites] == [("1", "0"), ("0", "1")]


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_written(tmp_path, form):
    made = FORMATS[form](CLASS, tmp_path)
    files = [made] if made.is_file() else [f for f in made.rglob("*") if f.is_file()]
    assert files
    assert all(f.is_relative_to(tmp_path) and f.stat().st_size for f in files)


def test_the_command_offers_every_format(capsys):
    with pytest.raises(SystemExit):
        cli.main(["grade", "--help"])
    assert "{" + ",".join(FORMATS) + "}" in capsys.readouterr().out
