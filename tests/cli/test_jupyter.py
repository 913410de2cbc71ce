"""course lab and course open: what is opened, and where."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from course_lib import lessons, store
from course_lib.cli import jupyter, main


@pytest.fixture
def opened(monkeypatch) -> list[list[str]]:
    """Return the list that gets each command that would have become JupyterLab."""
    commands: list[list[str]] = []

    def become(_python: str, command: list[str], environment: dict[str, str]) -> None:
        assert environment["PATH"].startswith(str(Path(sys.executable).parent))
        commands.append(command)

    monkeypatch.setattr(jupyter.os, "execve", become)
    monkeypatch.setattr(jupyter, "_servers", lambda root: [])
    monkeypatch.setattr(jupyter, "_is_root", lambda: False)
    monkeypatch.chdir(ROOT)
    return commands


def place(command: list[str]) -> str:
    assert f"--ServerApp.root_dir={ROOT}" in command
    (found,) = (word for word in command if word.startswith("--LabApp.default_url=/lab/tree/"))
    return found.removeprefix("--LabApp.default_url=/lab/tree/")


def test_lab_opens_the_first_lesson_and_hands_options_on(opened):
    main(["lab", "--no-browser", "--port", "8899"])
    assert place(opened[0]) == "notebooks/00_start_here.ipynb"
    assert opened[0][1:4] == ["-P", "-c", jupyter._JUPYTERLAB]
    assert opened[0][-3:] == ["--no-browser", "--port", "8899"]


def test_open_goes_from_a_lesson_to_its_exercises_to_the_next_lesson(opened):
    first, second = lessons.in_order()[:2]
    main(["open"])
    store.record_attempt("7-star:autumn", "incorrect")  # a variant says nothing of the path
    main(["open"])
    store.record_attempt(first.exercises[0].id, "incorrect")
    main(["open"])
    for exercise in first.exercises:
        store.record_attempt(exercise.id, "passed")
    main(["open"])
    folders = [place(command)[:12] for command in opened]
    assert folders == ["notebooks/00", "notebooks/00", "exercises/00", "notebooks/01"]
    assert second.number == 1


@pytest.mark.parametrize(
    ("what", "where"),
    [
        ("03", "notebooks/03_online_softmax_by_hand.ipynb"),
        ("4", "notebooks/04_tiles.ipynb"),
        ("3.3", "exercises/03_online_softmax_by_hand.ipynb"),
        ("stream_average", "exercises/03_online_softmax_by_hand.ipynb"),
    ],
)
def test_open_takes_a_lesson_or_an_exercise(opened, what, where):
    main(["open", what, "--no-browser"])
    assert place(opened[0]) == where


@pytest.mark.parametrize(
    ("words", "where", "handed_on"),
    [
        ("--port 8899", "notebooks/00", "--port 8899"),
        ("--no-browser --port 8899", "notebooks/00", "--no-browser --port 8899"),
        ("--no-browser", "notebooks/00", "--no-browser"),
        ("3.3 --port 8899", "exercises/03", "--port 8899"),
        ("--no-browser 3.3", "exercises/03", "--no-browser"),
    ],
)
def test_an_options_value_is_not_what_to_open(opened, words, where, handed_on):
    assert main(["open", *words.split()]) is None
    assert place(opened[0])[:12] == where
    assert opened[0][-len(handed_on.split()) :] == handed_on.split()


def test_what_does_not_exist_is_not_opened(opened, capsys):
    assert main(["open", "8899"]) == 2
    assert "There is no lesson 8899" in capsys.readouterr().err
    assert opened == []


def test_root_reads_one_sentence_before_jupyterlab_starts(opened, monkeypatch, capsys):
    """The real user decides elsewhere; here, root is who `_is_root` says."""
    monkeypatch.setattr(jupyter, "_is_root", lambda: True)
    assert main(["lab", "--no-browser"]) == 2
    said = capsys.readouterr().err
    assert "add --allow-root" in said
    assert said.count("\n") == 1
    assert opened == []
    main(["lab", "--allow-root"])
    main(["open", "3.3", "--ServerApp.allow_root=True"])
    assert [command[-1] for command in opened] == ["--allow-root", "--ServerApp.allow_root=True"]


def test_open_uses_the_jupyterlab_that_runs_on_this_folder(opened, monkeypatch, capsys):
    server = {"url": "http://localhost:8888/", "token": "abc", "root_dir": str(ROOT)}
    other = server | {"root_dir": str(ROOT / "docs")}
    monkeypatch.undo()
    monkeypatch.setattr("jupyter_server.serverapp.list_running_servers", lambda: [other, server])
    shown: list[str] = []
    monkeypatch.setattr(jupyter.webbrowser, "open", shown.append)
    monkeypatch.chdir(ROOT)
    assert main(["open", "3.3"]) == 0
    address = "http://localhost:8888/lab/tree/exercises/03_online_softmax_by_hand.ipynb"
    assert shown == [f"{address}?token=abc#cell-id=ex-3-3"]
    assert shown[0] in capsys.readouterr().out
    assert opened == []


def test_when_everything_is_done_a_sentence(opened, capsys):
    for exercise in lessons.all_exercises():
        store.record_attempt(exercise.id, "passed")
    assert main(["open"]) == 2
    assert capsys.readouterr().err.startswith("Everything is done")


def test_without_jupyterlab_a_sentence(monkeypatch, capsys):
    monkeypatch.setattr(jupyter.importlib.util, "find_spec", lambda name: None)
    assert main(["lab"]) == 2
    assert "JupyterLab is not installed here" in capsys.readouterr().err


def test_only_jupyterlabs_options_are_handed_on(capsys):
    with pytest.raises(SystemExit):
        main(["list", "--no-browser"])
    assert "unrecognized arguments: --no-browser" in capsys.readouterr().err


def test_jupyterlab_starts_without_what_it_does_not_need():
    """Parsers of IRIs, for a format of JSON schemas: two of three seconds of its import."""
    starts = jupyter._JUPYTERLAB.replace("main()", "print('rfc3987_syntax.utils' in sys.modules)")
    said = subprocess.run([sys.executable, "-P", "-c", starts], capture_output=True, text=True)
    assert (said.returncode, said.stdout) == (0, "False\n"), said.stderr
