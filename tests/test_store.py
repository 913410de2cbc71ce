"""The store: nothing is lost, whatever happens to the file."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from course_lib import store


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


def test_a_damaged_file_is_put_aside_not_overwritten(file):
    file.write_text("{ half a fi")
    assert store.load()["attempts"] == {}
    (aside,) = file.parent.glob("*.damaged-*.json")
    assert aside.read_text() == "{ half a fi"


def test_merging_an_export_loses_nothing(file):
    store.record_attempt("3.3", "passed")
    exported = json.loads(file.read_text())
    file.unlink()
    store.record_attempt("3.3", "incorrect")
    store.record_prediction("x", 3)
    store.merge(exported)
    assert store.load()["attempts"]["3.3"]["passed"]
    assert store.predictions("x") == [3]


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
