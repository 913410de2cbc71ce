"""One submission: which of its files counts, one deadline for all, and every solution passes."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from corpus import corpus, sample
from helpers import ROOT

from course_lib.classroom import grade_one
from course_lib.classroom.grade_one import grade
from course_lib.classroom.record import needs_a_person, reason_for_a_person
from course_lib.handin.submissions import (
    Submission,
)
from course_lib.judging.hosts.sandboxed import ALL_CASES, TOO_LONG, Sandboxed, _Over
from course_lib.judging.replay import Replay, Unclear
from course_lib.lessons import all_lessons
from course_lib.sandbox.channel import Closed, TooLate
from course_lib.sandbox.workshop import Workshop
from course_lib.specs import EXERCISES, find

ECHO = "def echo(x):\n    return x.copy()\n"


SLOW_ECHO = """import time


def echo(x):
    end = time.process_time() + 0.4
    while time.process_time() < end:
        pass
    return x.copy()
"""


WRONG = "def echo(x):\n    return x + x\n"


BLANK = 'def echo(x):\n    raise NotImplementedError("not attempted")\n'


def graded_alone(workshop: Workshop, *files: tuple[str, str]) -> dict:
    submission = Submission("ada", tuple((name, text.encode()) for name, text in files))
    (line,) = grade(workshop, submission, [find("0.1")], b"a secret")
    return line


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts address space")
def test_an_answer_that_would_take_the_memory_of_a_class_is_refused(workshop, monkeypatch):
    monkeypatch.setattr(grade_one, "examine", lambda *_: bytearray(2 * grade_one.MEMORY))
    line = graded_alone(workshop, ("0.py", ECHO))
    assert line["outcome"] == "refused"
    assert "takes more than 4 GiB of memory" in line["message"]
    monkeypatch.undo()
    assert graded_alone(workshop, ("0.py", ECHO))["outcome"] == "passed"


def test_what_the_compiler_trips_over_is_one_record_and_no_end(workshop, monkeypatch):
    def report(*_args: object) -> None:
        raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")

    monkeypatch.setattr(grade_one.Compiler, "report", report)
    line = graded_alone(workshop, ("0.py", ECHO))
    assert (line["outcome"], line["message"][:18]) == ("infrastructure", "UnicodeEncodeError")


@pytest.mark.parametrize(
    ("files", "outcome", "counted"),
    [
        ((("0.py", ECHO), ("0_copy.py", BLANK)), "passed", "0.py"),
        ((("0.py", BLANK), ("0_copy.py", ECHO)), "passed", "0_copy.py"),
        ((("0.py", WRONG), ("1.py", ECHO)), "passed", "1.py"),
        ((("0.py", "def echo(x):\n    return (\n"), ("1.py", BLANK)), "error", "0.py"),
        ((("0.py", BLANK), ("1.py", BLANK)), "not attempted", "1.py"),
    ],
)
def test_the_last_file_that_is_not_the_blank_counts_and_is_named(workshop, files, outcome, counted):
    line = graded_alone(workshop, *files)
    assert (line["outcome"], line["file"]) == (outcome, counted)
    assert any(counted in note and "0.1" in note for note in line["notes"])


@pytest.mark.parametrize("right", corpus("right", "0.1"), ids=lambda sample: sample.name)
def test_a_function_without_a_name_of_its_own_is_graded_as_it_is_checked(workshop, right):
    assert graded_alone(workshop, ("0.py", right.text))["outcome"] == "passed"


def test_a_submission_has_one_deadline_for_all_its_files(workshop, monkeypatch):
    monkeypatch.setattr(grade_one, "SPLIT_SECONDS", 3.0)
    slow, read = "x = 1\n" * 200_000 + WRONG, []
    start = workshop.task
    monkeypatch.setattr(workshop, "task", lambda *a, **b: read.append(a) or start(*a, **b))
    line = graded_alone(workshop, ("0.py", ECHO), *((f"{i}.py", slow) for i in range(1, 9)))
    assert 2 <= len(read) < 8
    assert (line["outcome"], line["file"]) == ("passed", "0.py")
    assert any("3 seconds" in note for note in line["notes"])


@pytest.mark.parametrize(
    "part", ["kernels.ladder", "attention.naive", "specs", "accounting.traffic"]
)
def test_whoever_imports_the_courses_answers_reads_one_plain_sentence(workshop, part):
    line = graded_alone(
        workshop, ("e.py", f"import course_lib.{part} as y\n\ndef echo(x):\n    return y\n")
    )
    package = part.partition(".")[0]
    assert f"may not import course_lib.{package}" in line["message"]
    assert "Errno" not in line["message"]
    assert "/" not in line["message"]
    assert line["property"] == "PermissionError"


@pytest.mark.parametrize(
    ("status", "how"), [(None, "process instead"), (-9, "(signal 9)"), (3, "(exit status 3)")]
)
def test_how_a_process_ended_is_said_where_it_is_known(status, how):
    host = Sandboxed(None, find("0.1"), None)
    usage = {"cpu_seconds": 0, "status": status}
    host._student = SimpleNamespace(end=lambda: usage, wait=lambda seconds: None)
    assert how in host._died().text


@pytest.mark.parametrize(("ends", "how"), [("os._exit(3)", "status 3"), ("os.abort()", "signal 6")])
def test_how_a_process_ended_is_said_every_time(workshop, ends, how):
    for _ in range(5):
        line = graded_alone(workshop, ("e.py", f"import os\n\ndef echo(x):\n    {ends}\n"))
        assert how in line["message"]


def test_a_program_that_is_too_long_is_refused_and_never_cut(workshop):
    """Cut at a mebibyte, the last definition would be missing, and that is the one that counts."""
    long = f'text = "{"x" * (1 << 20)}"\n'
    helped = ECHO.replace("return", "text; return")
    line = graded_alone(workshop, ("e.py", f"{long}\n\n{helped}"))
    assert (line["outcome"], line["property"]) == ("error", "loads")
    assert "longer than 1 MiB" in line["message"]


def test_a_machine_that_is_busy_with_others_fails_nobody(workshop, monkeypatch):
    """The student's process gets no turn for longer than its whole time limit."""
    start = workshop.student

    def stopped(**limits):
        child = start(**limits)
        os.kill(child.pid, signal.SIGSTOP)
        threading.Timer(1.5, os.kill, [child.pid, signal.SIGCONT]).start()
        return child

    monkeypatch.setattr(workshop, "student", stopped)
    submission = Submission("ada", (("e.py", ECHO.encode()),))
    before = time.monotonic()
    (line,) = grade(workshop, submission, [replace(find("0.1"), seconds=1.0)], b"a secret")
    assert time.monotonic() - before > 1.5
    assert line["outcome"] == "passed", line


def test_all_cases_together_have_a_limit_of_their_own(workshop):
    """Each case is in time; an exercise costs no more for having many of them."""
    echo = replace(find("0.1"), seconds=0.6, cases=lambda rng: list(find("0.1").cases(rng)) * 4)
    (line,) = grade(
        workshop, Submission("ada", (("e.py", SLOW_ECHO.encode()),)), [echo], b"a secret"
    )
    assert (line["outcome"], line["property"]) == ("incorrect", "comes to an end")
    assert "more than 3 seconds of computing together" in line["message"]
    assert 2 < line["cpu_seconds"] < 5


def test_a_submission_has_one_limit_for_all_its_exercises(workshop, monkeypatch):
    monkeypatch.setattr(grade_one, "SECONDS", 0.5)
    text = SLOW_ECHO + "\n\ndef naive_attention(q, k, v):\n    return q\n"
    handed_in = Submission("ada", (("e.py", text.encode()),))
    two = replace(find("0.1"), cases=lambda rng: list(find("0.1").cases(rng))[:2])
    lines = grade(workshop, handed_in, [two, find("1.2"), find("1.3")], b"a secret")
    found = {line["exercise"]: line for line in lines}
    assert found["0.1"]["outcome"] == "passed"
    assert (found["1.2"]["outcome"], found["1.2"]["fault_of"]) == ("error", "student")
    assert "took the 0.5 seconds" in found["1.2"]["message"]
    assert found["1.3"]["outcome"] == "missing"


def test_a_judge_that_never_ends_is_stopped_and_the_next_exercise_is_graded(workshop):
    def judge(case, observed, expected):
        while True:
            pass

    echo = find("0.1")
    handed_in = Submission("ada", (("e.py", ECHO.encode()),))
    endless = replace(echo, seconds=0.2, judge=judge)
    (line,) = grade(workshop, handed_in, [endless], b"a secret")
    assert (line["outcome"], line["property"]) == ("incorrect", "comes to an end")
    (line,) = grade(workshop, handed_in, [echo], b"a secret")
    assert line["outcome"] == "passed"


def test_a_judge_that_raises_at_a_replay_is_the_students_error(workshop):
    """Such a judge never met what a forged launch gives on other inputs."""
    exercise, judged = find("5.2"), []

    def judge(case, observed, expected):
        judged.append(case)
        if len(judged) == 2:
            raise IndexError("never expected")
        return exercise.judge(case, observed, expected)

    submission = Submission("ada", (("e.py", sample("5.2/right/plain").text.encode()),))
    (line,) = grade(workshop, submission, [replace(exercise, judge=judge)], b"a secret")
    assert (line["outcome"], line["property"]) == ("incorrect", "is computed by the kernel")


def test_a_lone_surrogate_in_a_notebook_costs_nothing(workshop):
    source = "# \ud800\n" + ECHO
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": source}
    cell |= {"outputs": [], "execution_count": None}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    assert graded_alone(workshop, ("e.ipynb", json.dumps(notebook)))["outcome"] == "passed"


def test_a_name_of_an_error_is_plain_wherever_it_is_kept(workshop):
    raising = 'def echo(x):\n    raise type("a\\x1b[31mb\\u202ec", (Exception,), {})("x")\n'
    line = graded_alone(workshop, ("e.py", raising))
    assert {found["property"] for found in line["properties"]} == {"a[31mbc"}
    assert line["property"] == "a[31mbc"


@pytest.mark.parametrize("refuted", [False, True])
def test_what_cannot_be_tried_again_is_for_a_person_unless_it_is_wrong(
    workshop, monkeypatch, refuted
):
    cases = []

    def again(replay, run, result):
        cases.append(replay)
        if refuted and len(cases) == 3:
            return result  # that of the first inputs
        raise Unclear("a reason")

    monkeypatch.setattr(Replay, "again", again)
    text = sample("5.2/right/plain").text
    submission = Submission("ada", (("e.py", text.encode()),))
    (line,) = grade(workshop, submission, [find("5.2")], b"a secret")
    assert line["score"] == 0
    assert len(cases) == len(line["properties"])
    if refuted:
        assert (line["outcome"], line["property"]) == ("incorrect", "is computed by the kernel")
        assert not needs_a_person([line])
    else:
        assert (line["outcome"], line["fault_of"]) == ("unclear", "infrastructure")
        assert "a person has to look: a reason." in reason_for_a_person(line)
        assert needs_a_person([line])


@pytest.mark.parametrize("lacks", ["time", "memory"])
def test_launches_that_cannot_be_afforded_once_more_accuse_nobody(workshop, monkeypatch, lacks):
    def again(replay, run, result):
        host = run.func.__self__
        if lacks == "time":
            host._clock._late = 0.0  # as if it were over
        else:
            answer = {"error": {"kinds": ["MemoryError"], "text": "too large"}}
            host._interpreter.ask = lambda *asked: answer
        try:
            return run(replay._launches[0][0])
        finally:
            vars(host._interpreter).pop("ask", None)

    monkeypatch.setattr(Replay, "again", again)
    submission = Submission("ada", (("e.py", sample("5.2/right/plain").text.encode()),))
    (line,) = grade(workshop, submission, [find("5.2")], b"a secret")
    assert (line["outcome"], line["fault_of"]) == ("unclear", "infrastructure")
    says = {"time": "that takes too long", "memory": "too little memory"}[lacks]
    assert says in reason_for_a_person(line)


def test_what_takes_too_long_where_numpy_is_alone_accuses_nobody(workshop, monkeypatch):
    exercise = next(e for e in EXERCISES if e.without_torch)

    def late(host, case):
        raise TooLate

    monkeypatch.setattr(Sandboxed, "_asked_where_numpy_is_alone", late)
    text = corpus("right", exercise.id)[0].text
    (line,) = grade(workshop, Submission("ada", (("e.py", text.encode()),)), [exercise], b"secret")
    assert (line["outcome"], line["fault_of"]) == ("unclear", "infrastructure")
    assert "NumPy alone" in reason_for_a_person(line)


def test_a_judge_that_lacks_memory_accuses_nobody_of_a_wrong_answer(workshop):
    def judge(case, observed, expected):
        raise MemoryError

    handed_in = Submission("ada", (("e.py", ECHO.encode()),))
    (line,) = grade(workshop, handed_in, [replace(find("0.1"), judge=judge)], b"a secret")
    assert line["outcome"] == "refused"


def test_an_interpreter_that_its_limit_of_time_ends_took_too_long():
    host = Sandboxed(None, find("5.2"), None)
    usage = {"cpu_seconds": ALL_CASES * find("5.2").seconds, "status": -9}

    def ask(*asked):
        raise Closed

    host._has_launched = True
    host._interpreter = SimpleNamespace(ask=ask, end=lambda: usage, wait=lambda seconds: None)
    with pytest.raises(_Over) as over:
        host._ask_interpreter({"do": "launch"})
    assert over.value.failure is TOO_LONG


@pytest.mark.parametrize(("times", "outcome"), [(1, "passed"), (2, "refused")])
def test_a_file_is_read_once_more_if_the_process_that_reads_it_is_killed(
    workshop, monkeypatch, times, outcome
):
    start, left = workshop.task, [None] * times

    def task(*asked, **limits):
        child = start(*asked, **limits)
        if left:
            left.pop()
            os.kill(child.pid, signal.SIGKILL)
        return child

    monkeypatch.setattr(workshop, "task", task)
    assert graded_alone(workshop, ("0.py", ECHO))["outcome"] == outcome


def test_a_replayed_result_that_a_judge_never_expected_is_the_students(workshop):
    exercise = find("5.2")

    def judge(case, observed, expected):
        if observed.provenance is None:  # of the launches that were done again
            raise KeyError("never expected")
        return exercise.judge(case, observed, expected)

    submission = Submission("ada", (("e.py", sample("5.2/right/plain").text.encode()),))
    (line,) = grade(workshop, submission, [replace(exercise, judge=judge)], b"a secret")
    assert (line["outcome"], line["property"]) == ("incorrect", "is computed by the kernel")


@pytest.mark.parametrize("error", [AttributeError, KeyError, OverflowError])
def test_forged_data_that_cannot_be_done_again_are_for_a_person(workshop, monkeypatch, error):
    def launch_again(*args):
        raise error

    monkeypatch.setattr(Replay, "_launch_again", launch_again)
    submission = Submission("ada", (("e.py", sample("5.2/right/plain").text.encode()),))
    (line,) = grade(workshop, submission, [find("5.2")], b"a secret")
    assert line["outcome"] == "unclear"
    assert error.__name__ in reason_for_a_person(line)


@pytest.mark.parametrize("kernels", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("lesson", [lesson.number for lesson in all_lessons()])
@pytest.mark.few(4)
def test_every_solution_passes_in_the_sandbox(workshop, lesson, kernels):
    """Kernels of the corpus are graded in `tests/sandbox/test_corpus_in_the_sandbox.py` always."""
    from course_lib.specs import EXERCISES

    asked = [e for e in EXERCISES if e.lesson == lesson and (kernels or e.kind != "kernel")]
    (file,) = (ROOT / "solutions").glob(f"{lesson:02}_*.ipynb")
    submission = Submission("solution", ((file.name, file.read_bytes()),))
    lines = grade(workshop, submission, asked, b"a secret")
    assert {line["exercise"] for line in lines} == {exercise.id for exercise in asked}
    assert [line for line in lines if line["outcome"] != "passed"] == []


def test_who_hands_in_another_lesson_is_told_what_was_asked_for(workshop):
    submission = Submission("ada", (("0.py", ECHO.encode()),))
    (line,) = grade(workshop, submission, [find("3.1"), find("3.2")], b"a secret")
    assert (line["outcome"], line["message"]) == ("refused", "No exercise of 3.1, 3.2 is in it.")
