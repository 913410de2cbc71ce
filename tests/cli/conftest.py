"""What the tests of the `course` command share."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_course import SOURCE, SPECS

from course_lib.authoring.build import write


@pytest.fixture
def course(tmp_path, monkeypatch, given) -> Path:
    """Return a small course of one lesson, built; it is the current folder."""
    folder = tmp_path / "sources" / "03_small"
    folder.mkdir(parents=True)
    (folder / "exercises.py").write_text(SOURCE, encoding="utf-8")
    write(tmp_path, SPECS)
    monkeypatch.chdir(tmp_path)
    given(*SPECS)
    return tmp_path
