"""What the grading tests share."""

from __future__ import annotations

import pytest


@pytest.fixture
def uncompiled(monkeypatch) -> None:
    """Leave out the compile check, where a test is about something else."""
    from course_lib.child import compile_check

    compiles = compile_check.CompileReport(True, "sm_80")
    monkeypatch.setattr(compile_check, "compile_for", lambda *args, **kwargs: compiles)


@pytest.fixture
def unnamed(monkeypatch) -> None:
    """Look for no mistake's name and for no smaller input, where a test asks for the verdict."""
    from course_lib.judging import engine

    monkeypatch.setattr(engine, "recognise", lambda *_: None)
    monkeypatch.setattr(engine, "_smallest", lambda *_: [])
