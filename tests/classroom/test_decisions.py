"""What a person decides counts in every gradebook, and outlives grading the same work again."""

from __future__ import annotations

import csv
import json

import pytest

from course_lib import cli
from course_lib.classroom import batch, command, decisions
from course_lib.classroom.gradebooks import FORMATS
from course_lib.classroom.record import Records, needs_a_person, record
from course_lib.specs import find

REASON = "the kernel was read:\x1b it computes"


@pytest.fixture
def graded(tmp_path, monkeypatch):
    """Return a class with one unclear answer, what grades it, and what was graded."""
    place, out, seen = tmp_path / "class", tmp_path / "out", []
    place.mkdir()
    (place / "ada.py").write_text("x = 1")

    def unclear(waiting, *_):
        for handed_in in waiting:
            seen.append(handed_in.content)
            one = record("ada", handed_in.content, find("7.2"), "unclear", "look at it")
            other = record("ada", handed_in.content, find("7.1"), "passed", "", passed=True)
            yield handed_in, [other, one]

    monkeypatch.setattr(batch, "_work", unclear)
    return place, out, seen


def test_a_decision_counts_in_every_gradebook(graded, capsys):
    place, out, _ = graded
    assert cli.main(["grade", str(place), "--out", str(out)]) == 1
    most = find("7.2").points
    said = ["decide", str(out), "ada", "7.2", str(most), "--reason", REASON, "--who", "Grace"]
    assert cli.main(said) == 0
    assert f"{most:g} points, decided by Grace" in capsys.readouterr().out
    total = f"{most + find('7.1').points:g}"
    for form in FORMATS:
        assert cli.main(["grade", str(place), "--out", str(out), "--format", form]) == 0
    canvas, table = (list(csv.reader((out / f).open())) for f in ("canvas.csv", "grades.csv"))
    assert canvas[-1][-1] == total
    assert table[-1][1:] == [f"{find('7.1').points:g}", f"{most:g}", total, total, ""]
    (moodle,) = list(csv.DictReader((out / "moodle.csv").open()))
    assert moodle["grade"] == total
    assert "A person gave" in moodle["feedback"]
    (scope,) = out.glob("gradescope/*/results.json")
    tests = json.loads(scope.read_text())["tests"]
    assert [test["status"] for test in tests] == ["passed", "passed"]
    assert "\x1b" not in tests[1]["output"]
    assert "the kernel was read: it computes" in tests[1]["output"]
    assert 'errors="0"' in (out / "junit.xml").read_text()


def test_a_decision_outlives_grading_again_and_not_another_submission(graded, monkeypatch):
    place, out, seen = graded
    command.run(place, out)
    decisions.decide(out, "ada", "7.2", 1, REASON, "Grace")
    older = (out / "records.jsonl").read_text().replace('"course": "', '"course": "0.0.')
    (out / "records.jsonl").write_text(older)  # another version has graded: grade again
    tally, _ = command.run(place, out)
    assert len(seen) == 2
    assert (tally.graded, tally.for_a_person, tally.outdated) == (1, 0, [])
    passed, line = decisions.latest(Records(out / "records.jsonl"))["ada"]
    assert (passed["outcome"], line["outcome"], line["score"]) == ("passed", "decided", 1)
    assert line["fault_of"] == "student"
    assert line["decision"]["instead_of"] == "unclear"
    assert (line["decision"]["who"], line["decision"]["points"]) == ("Grace", 1)
    assert not needs_a_person([line])
    (place / "ada.py").write_text("x = 2")
    tally, _ = command.run(place, out)
    assert tally.for_a_person == 1
    assert tally.outdated == ["ada 7.2 (1 points)"]
    assert decisions.latest(Records(out / "records.jsonl"))["ada"][1]["outcome"] == "unclear"


def test_the_last_decision_counts(graded):
    place, out, _ = graded
    command.run(place, out)
    for points in (1, 0):
        decisions.decide(out, "ada", "7.2", points, REASON, "Grace")
    assert decisions.latest(Records(out / "records.jsonl"))["ada"][1]["score"] == 0


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (["bob", "7.2", "1", "--reason", "x"], "no records of 'bob'"),
        (["ada", "7.3", "1", "--reason", "x"], "only of: 7.1, 7.2"),
        (["ada", "7.2", "99", "--reason", "x"], "has 0 to"),
        (["ada", "7.2", "nan", "--reason", "x"], "has 0 to"),
        (["ada", "7.2", "1", "--reason", " "], "needs its reason"),
    ],
)
def test_what_cannot_be_decided_is_said_in_a_sentence(graded, capsys, said, why):
    place, out, _ = graded
    command.run(place, out)
    assert cli.main(["decide", str(out), *said]) == 2
    text = capsys.readouterr().err
    assert why in text
    assert text.count("\n") == 1
    assert not (out / decisions.FILE).exists()


def test_a_damaged_file_of_decisions_is_never_passed_over(graded, capsys):
    place, out, _ = graded
    command.run(place, out)
    (out / decisions.FILE).write_text('{"student": "ada", "cont')
    assert cli.main(["grade", str(place), "--out", str(out)]) == 2
    assert "line 1: this is no decision" in capsys.readouterr().err
