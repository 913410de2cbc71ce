"""Records: what was written whole is read back, and texts are plain."""

from __future__ import annotations

import os
from pathlib import Path

from course_lib.classroom import batch
from course_lib.classroom.record import Records, plain, record
from course_lib.specs import find


def test_a_torn_line_does_not_swallow_the_next_record(tmp_path):
    records = Records(tmp_path / "r.jsonl")
    records.path.write_text('{"student": "a", "cont')
    records.append([record("b", "c", None, "refused", "text")])
    assert set(records.latest()) == {"b"}


def test_a_submission_written_in_part_is_not_taken_for_whole(tmp_path):
    records = Records(tmp_path / "r.jsonl")
    two = [record("a", "c", find(i), "passed", "", passed=True) for i in ("1.1", "1.2")]
    records.append(two)
    whole = records.path.read_text()
    records.path.write_text(whole.splitlines()[0] + "\n")
    assert records.latest() == {}
    records.path.write_text(whole)
    assert len(records.latest()["a"]) == 2


def test_a_record_shows_no_path_of_the_graders_machine():
    course = Path(batch.__file__).parents[2]
    kept = "12 / 3 = 4, o/l, a //b, ./here/it/is, 'https://example.org/a/b', :math:`x`"
    text = (
        f"FileNotFoundError: '{course}/course_lib/x.json' in {os.path.expanduser('~')}/a b/c.py, "
        f'/usr/lib/python3.11/ast.py and File "{os.path.dirname(os.__file__)}/ast.py"; {kept}'
    )
    shown = record("ada", "c", None, "error", text)["message"]
    assert "'course_lib/x.json'" in shown
    assert kept in shown
    for path in (str(course), os.path.expanduser("~"), "/usr/lib", os.path.dirname(os.__file__)):
        assert f"{path}/" not in shown.replace(kept, "")


def test_plain_text_has_no_control_characters():
    assert plain("a\x1b[31mb\u202ec\x9b\ud800\nd") == "a[31mbc?\nd"
