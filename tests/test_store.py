"""The store: nothing is lost, whatever happens to the file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import course_lib
from course_lib import lessons, store
from course_lib.judging.spec import Exercise


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_STORE", str(tmp_path / "store.json"))
    return tmp_path / "store.json"


def test_a_passed_exercise_stays_passed():
    store.record_attempt("3.3", "passed")
    store.record_attempt("3.3", "incorrect")
    entry = store.load()["attempts"]["3.3"]
    assert entry["passed"]
    assert entry["last"] == "incorrect"
    assert entry["tries"] == 2


def test_predictions_are_kept_in_order():
    store.record_prediction("1-dearest", "softmax")
    store.record_prediction("1-dearest", "q @ k.T")
    assert store.predictions("1-dearest") == ["softmax", "q @ k.T"]
    assert store.predictions("unknown") == []


@pytest.mark.parametrize("text", [
    "{ half a fi", "[]", '{"attempts": []}', '{"attempts": {"3.3": 5}}', '{"hints": {"3.3": "a"}}',
    '{"predictions": {"1-dearest": "softmax"}}', "[" * 5000,
])  # fmt: skip
def test_a_damaged_file_is_put_aside_not_overwritten(file, text):
    file.write_text(text)
    assert store.load()["attempts"] == {}
    (aside,) = file.parent.glob("*.damaged-*.json")
    assert aside.read_text() == text


def test_the_lock_follows_no_link(file):
    other = file.parent / "other"
    other.write_text("kept")
    file.with_suffix(".json.lock").symlink_to(other)
    store.record_attempt("3.3", "passed")
    assert other.read_text() == "kept"


@pytest.mark.parametrize("unusable", ["a folder", "in a file", "in no device"])
def test_where_nothing_can_be_written_all_is_kept_for_now_and_said_once(
    unusable, tmp_path, monkeypatch, capsys
):
    (tmp_path / "file").write_text("")
    names = {"a folder": tmp_path, "in a file": tmp_path / "file" / "progress.json"}
    name = names.get(unusable, Path("/proc/progress.json"))
    monkeypatch.setenv("COURSE_STORE", str(name))
    store.record_attempt("1.2", "passed")
    assert [store.next_hint("1.3", 3) for _ in range(2)] == [0, 1]
    (said,) = capsys.readouterr().err.splitlines()
    assert f"cannot be kept in {name} (" in said
    assert store.load()["attempts"]["1.2"]["passed"]


def test_what_could_not_be_written_is_written_as_soon_as_it_can_be(tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.write_text("in the way")
    monkeypatch.setenv("COURSE_STORE", str(folder / "progress.json"))
    store.record_attempt("1.2", "passed")
    folder.unlink()
    store.record_attempt("1.3", "not passed")
    assert json.loads((folder / "progress.json").read_text())["attempts"].keys() == {"1.2", "1.3"}


def test_merging_an_export_loses_nothing(file):
    store.record_attempt("3.3", "passed")
    exported = json.loads(file.read_text())
    file.unlink()
    store.record_attempt("3.3", "incorrect")
    store.record_prediction("x", 3)
    store.merge(exported)
    assert store.load()["attempts"]["3.3"]["passed"]
    assert store.predictions("x") == [3]


def test_progress_on_an_exercise_that_moved_counts_where_it_stands_now(given, file):
    """8.3 became 9.2, say: what was passed there, tried or hinted at is not lost."""
    store.record_attempt("8.3", "passed")
    store.next_hint("8.3", 3)
    exported = json.loads(file.read_text())
    given(moved_from("8.3"))
    assert "8.3" not in store.load()["attempts"]
    assert store.load()["attempts"]["9.2"]["passed"]
    assert store.next_hint("9.2", 3) == 1
    store.record_attempt("9.2", "incorrect")
    entry = json.loads(file.read_text())["attempts"]["9.2"]
    assert (entry["passed"], entry["tries"], entry["last"]) == (True, 2, "incorrect")
    assert "✓9.2" in repr(course_lib.progress)
    file.unlink()
    store.merge(exported)  # from a Colab session before the move
    assert store.load()["attempts"]["9.2"]["passed"]
    assert lessons.find("8.3").id == lessons.find("ex-8-3").id == "9.2"


def moved_from(old: str) -> Exercise:
    return Exercise(
        id="9.2",
        was=(old,),
        function="moved",
        signature="(x)",
        title="Moved",
        minutes=1,
        points=1,
        hints=("one", "two", "three"),
        notice="",
        cases=lambda rng: [],
        truth=lambda: None,
        judge=lambda case, observed, expected: None,
    )


MANY = """
from course_lib import store

for i in range(20):
    store.record_attempt(f"NAME.{i}", "passed")
"""


def test_two_notebooks_at_once_lose_no_entry():
    notebooks = [
        subprocess.Popen([sys.executable, "-c", MANY.replace("NAME", name)]) for name in "ab"
    ]
    assert [notebook.wait() for notebook in notebooks] == [0, 0]
    assert len(store.load()["attempts"]) == 40


def test_without_a_variable_the_store_lies_beside_the_notebooks(tmp_path, monkeypatch):
    monkeypatch.delenv("COURSE_STORE")
    for folder in ("notebooks", "exercises"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "exercises")
    assert store.path() == tmp_path / store.FILE_NAME


def test_what_waits_in_memory_is_added_to_what_another_notebook_wrote(file, monkeypatch, capsys):
    store.record_attempt("3.1", "incorrect")
    write = store._write
    monkeypatch.setattr(store, "_write", raises_disk_full)
    store.record_attempt("3.1", "passed")
    store.record_prediction("1-dearest", "softmax")
    assert "cannot be kept in" in capsys.readouterr().err
    assert store.load()["attempts"]["3.1"]["tries"] == 2
    monkeypatch.setattr(store, "_write", write)
    other = json.loads(file.read_text())
    other["attempts"]["3.2"] = {"tries": 1, "passed": True, "last": "passed"}
    file.write_text(json.dumps(other))
    store.record_attempt("3.3", "incorrect")
    kept = json.loads(file.read_text())
    assert {e: a["tries"] for e, a in kept["attempts"].items()} == {"3.1": 2, "3.2": 1, "3.3": 1}
    assert kept["attempts"]["3.1"]["passed"]
    assert [p["answer"] for p in kept["predictions"]["1-dearest"]] == ["softmax"]


def raises_disk_full(*_):
    raise OSError(28, "No space left on device")
