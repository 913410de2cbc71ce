"""The corpus is read as written: an edit that does not fit its right answer is an error."""

from __future__ import annotations

import pytest
from corpus import corpus, edited, sample

PLAIN = "# The plain way.\nimport math\n\n\ndef f(x):\n    y = x\n    y = y + 1\n    return y\n"
HEADER = "@@ name @@\n# Why.\n# Expected: property: the answer\n"


def code_of(edit: str) -> str:
    ((name, text),) = edited(PLAIN, HEADER + edit)
    assert name == "name"
    head, code = text.split("import math\n", 1)
    assert head == "# Why.\n# Expected: property: the answer\n"
    return code


def test_lines_are_replaced_removed_and_added_in_several_places():
    code = code_of("-    y = x\n+    y = 2 * x\n\n-    y = y + 1\n\n+    print(y)\n     return y\n")
    assert code == "\n\ndef f(x):\n    y = 2 * x\n    print(y)\n    return y\n"


def test_each_entry_edits_the_right_answer_and_not_the_entry_before_it():
    two = f"{HEADER}-    y = y + 1\n\n{HEADER.replace('name', 'other')}-    return y\n"
    (_, first), (_, second) = edited(PLAIN, two)
    assert "return y" in first
    assert "y + 1" in second


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ("-    y = z\n+    y = 0\n", "stand 0 times"),
        ("-   y = x\n", "stand 0 times"),  # whole lines, with their indentation
        ("-\n", "stand 2 times"),
        ("+    y = 0\n", "not once"),  # where?
        ("     y = x\n", "changes nothing"),
        ("-    y = x\n+    y = x\n", "changes nothing"),
        ("y = x\n", "begins with a space, - or [+]"),
        ("-    y = x\n\n\n-    return y\n", "begins with a space, - or [+]"),
        ("", "begins with a space, - or [+]"),
    ],
)
def test_an_edit_that_does_not_fit_is_an_error(edit, says):
    with pytest.raises(ValueError, match=says):
        code_of(edit)


def test_text_that_belongs_to_no_entry_is_an_error():
    with pytest.raises(ValueError, match="begins with @@"):
        list(edited(PLAIN, "# a note\n" + HEADER + "-    y = x\n"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return an exercise's folder with its right answer, one whole wrong file and one edit."""
    monkeypatch.setattr("corpus.SUBMISSIONS", tmp_path)
    folder = tmp_path / "9.9"
    for file in ("right/plain.py", "wrong/whole.py"):
        (folder / file).parent.mkdir(parents=True)
        (folder / file).write_text(PLAIN)
    (folder / "wrong.diff").write_text(HEADER + "-    y = x\n")
    return folder


def test_whole_files_and_edits_are_read_alike(folder):
    assert [one.id for one in corpus("wrong")] == ["9.9/wrong/name", "9.9/wrong/whole"]
    assert sample("9.9/wrong/name").expected == ("property", "the answer")
    assert sample("9.9/right/plain").text == PLAIN


def test_a_name_is_given_once(folder):
    (folder / "wrong" / "name.py").write_text(PLAIN)
    with pytest.raises(ValueError, match="two are called name"):
        corpus("wrong")


def test_every_wrong_sample_says_what_is_expected():
    for one in corpus("wrong"):
        assert one.expected[0] in {"misconception", "property", "verdict"}, one.id
