"""The loop of whoever changes the course: one lesson's tests, what a save runs, the same checks."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from conftest import ROOT
from lesson_of import lessons_of

from course_lib.specs import find


def item(path: str, **params):
    return SimpleNamespace(path=Path(path), callspec=SimpleNamespace(params=params))


@pytest.mark.parametrize(
    ("test", "lessons"),
    [
        (item("tests/specs/test_lesson_03.py"), {3}),
        (item("tests/course/test_notebooks.py", name="07_flash_attention_in_triton"), {7}),
        (item("tests/course/test_teaching.py", place=("05-heading", "05")), {5}),
        (item("tests/specs/test_submissions.py", file=Path("submissions/6.4b/wrong/x.py")), {6}),
        (item("tests/judging/test_interpreted.py", file="7-star/wrong/x.py"), {7}),
        (item("tests/specs/test_nulls.py", exercise=find("7.4")), {7}),
        (item("tests/specs/test_nulls.py", name=find("3.4").function), {3}),
        (item("tests/classroom/test_grade_one.py", lesson=2), {2}),
        (item("tests/kernels/test_ladder.py", version="3.4.0", rung=3), set()),
    ],
)
def test_a_test_concerns_the_lesson_that_it_names(test, lessons):
    assert lessons_of(test) >= lessons
    assert bool(lessons_of(test)) == bool(lessons)


def on_save():
    spec = importlib.util.spec_from_file_location("on_save", ROOT / ".ci" / "on_save.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("file", "lessons"),
    [
        ("sources/03_online_softmax_by_hand/lesson.py", {"03"}),
        ("sources/exercises/03_online_softmax_by_hand.py", {"03"}),
        ("course_lib/specs/lesson_07/exercises.py", {"07"}),
        ("tests/specs/test_lesson_05.py", {"05"}),
        ("tests/submissions/6.4b/wrong/x.py", {"06"}),
        ("tests/submissions/7-star/right/x.py", {"07"}),
        ("course_lib/store.py", set()),
    ],
)
def test_a_saved_file_names_its_lesson(file, lessons):
    assert on_save().lessons([file]) == lessons


def test_pre_commit_asks_what_make_lint_asks():
    """Local hooks, so nothing is fetched; the type checker takes too long for a commit."""
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    (repo,) = config["repos"]
    assert repo["repo"] == "local"
    asked = {hook["entry"].replace(".venv/bin/", "") for hook in repo["hooks"]}
    makefile = (ROOT / "Makefile").read_text()
    assert "\nlint: quick-lint types\n" in makefile
    lint = makefile.partition("quick-lint: $(DEV)\n")[2].partition("\n\n")[0]
    assert asked == {line.strip().removeprefix("$(BIN)/") for line in lint.splitlines()}


def test_ci_tries_every_python_that_is_promised():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]
    pythons = jobs["test"]["strategy"]["matrix"]["python"]
    assert pythons == ["3.11", "3.12", "3.13", "3.14"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={pythons[0]}"
