"""`check`: every verdict has its words, every formal fault its own sentence."""

from __future__ import annotations

import contextlib
import operator
import re
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from helpers import words_of

from course_lib import checking, store
from course_lib.checking import check, hint, report_for
from course_lib.judging.judges import exactly, within
from course_lib.judging.report import CheckFailed, Verdict
from course_lib.judging.spec import Case, Exercise, Mistake, Observed
from course_lib.specs import UnknownExercise, find

TOY = Exercise(
    id="0.9",
    function="double",
    signature="(x)",
    title="Double every number",
    minutes=1,
    points=1,
    hints=("look at x", "add x to x", "return x + x"),
    cases=lambda rng: [Case("three numbers", (rng.standard_normal(3) + 2,)), Case("one", (2.0,))],
    truth=lambda x: 2 * x,
    judge=within(1e-9),
    notice="Doubling is adding.",
    mistakes=(Mistake("squared", "2x is not x squared.", lambda x: x**2),),
    seconds=0.3,
)


@pytest.fixture(autouse=True)
def _toy(monkeypatch, tmp_path, given):
    given(TOY)
    monkeypatch.setenv("COURSE_STORE", str(tmp_path / "store.json"))


def verdict_of(double):
    double.__name__ = "double"
    return report_for(double)


def test_a_right_answer_passes_and_says_what_to_notice(capsys):
    def double(x):
        return x + x

    check(double)
    printed = capsys.readouterr().out
    assert "passed" in printed
    assert "Doubling is adding." in printed
    assert store.load()["attempts"]["0.9"]["passed"]


def test_a_slow_check_says_that_it_works_and_a_quick_one_does_not(capsys, monkeypatch):
    monkeypatch.setattr(checking, "_QUIET", 0.2)

    def double(x):
        time.sleep(wait)
        return x + x

    wait = 0.0
    assert report_for(double).passed
    assert capsys.readouterr().out == ""
    wait = 0.4
    assert report_for(double).passed, "waiting is not computing: it is in time"
    assert capsys.readouterr().out == "Checking 0.9 ...\n"


def test_what_an_answer_prints_is_passed_on_but_no_flood(capsys):
    def double(x):
        print("seen", x)
        print("." * many)
        return x + x

    many = 3
    assert report_for(double).passed
    few = capsys.readouterr().out
    assert "seen" in few
    assert "left out" not in few
    many = 1_000_000
    assert report_for(double).passed
    flood = capsys.readouterr().out
    assert len(flood) < checking._MOST_PRINTED + 100
    assert flood.count("left out") == 1


def test_arithmetic_has_one_thread_in_a_check_and_the_students_number_after_it():
    import torch
    from threadpoolctl import threadpool_info, threadpool_limits

    def threads():
        return {pool["num_threads"] for pool in threadpool_info()} | {torch.get_num_threads()}

    seen = set()

    def double(x):
        seen.update(threads())
        return x + x

    with threadpool_limits(limits=2):
        assert threads() == {2}
        assert verdict_of(double).passed
        assert seen == {1}
        assert threads() == {2}


def test_the_stub_is_not_attempted_and_counts_as_no_try():
    def double(x):
        raise NotImplementedError("not attempted")

    with pytest.raises(CheckFailed, match="not attempted") as failed:
        check(double)
    assert failed.value.report.verdict is Verdict.NOT_ATTEMPTED
    assert store.load()["attempts"]["0.9"]["tries"] == 0


def test_a_stub_that_was_left_below_an_answer_is_named_by_its_text():
    """The terminal counts the lines of all cells of a notebook: no number is true everywhere."""

    def double(x):
        2 * x
        raise NotImplementedError("not attempted")

    says = words_of(verdict_of(double))
    assert 'delete the line `raise NotImplementedError("not attempted")`.' in says
    assert not re.search(r"\d", says.partition("delete")[2])


@pytest.mark.parametrize(
    ("got", "wanted", "says"),
    [
        ([(0, 2), (2, 4)], [(0, 2), (2, 3)], "value 2 of 2 in pair 2 of 2: yours is 4"),
        ({"k": (1, 2, 4)}, {"k": (1, 2, 3)}, "value 3 of 3 in the entry 'k': yours is 4"),
        ((1, 2), (1, 3), "value 2 of 2: yours is 2"),
    ],
)
def test_a_wrong_number_among_pairs_is_told_with_its_place(got, wanted, says):
    assert exactly(Case(""), Observed(got), wanted).says.startswith(says)


def test_a_known_mistake_is_named():
    report = verdict_of(lambda x: x**2)
    assert report.verdict is Verdict.INCORRECT
    assert report.misconception == "squared"
    assert "2x is not x squared." in report.text()


def test_a_mistake_is_not_named_where_it_gives_the_right_answer():
    """At 2.0 squaring and doubling agree: a third answer must not be called squared."""
    report = verdict_of(lambda x: 2 * x if np.ndim(x) else 5.0)
    assert report.verdict is Verdict.INCORRECT
    assert report.misconception == ""


def test_an_exception_shows_the_students_lines_only():
    def double(x):
        missing = x + undefined_name  # noqa: F821
        return missing

    report = report_for(double)
    assert report.verdict is Verdict.ERROR
    assert "undefined_name" in report.text()
    assert "missing = x + undefined_name" in report.text()
    assert "check.py" not in report.text()
    assert "runners" not in report.text()


def _modify(x):
    x *= 2
    return x.copy()


@pytest.mark.parametrize(
    ("double", "words"),
    [
        (lambda x: None, "is None"),
        (lambda x: (y for y in [x]), "generator"),
        (lambda x: np.zeros((3, 3)), "shape"),
        (lambda x: "six", "should be an array"),
        (lambda x: np.array(["a", "b", "c"]), "dtype"),
        (lambda x: x[:3], "that is not it|wrong in"),
        (lambda x: np.full_like(x, np.nan), "NaN"),
        (lambda x: 2 * x / 0, "infinite"),
        (_modify, "changed its input"),
        (lambda x: np.lib.stride_tricks.as_strided(x), "wrong"),
        (lambda x: np.sum, "function"),
    ],
)
def test_each_formal_fault_has_its_own_sentence(double, words):
    with np.errstate(all="ignore"):
        report = verdict_of(double)
    assert report.verdict is Verdict.INCORRECT
    assert re.search(words, report.text()), report.text()


def test_a_view_of_the_input_is_refused(given):
    echo = replace(TOY, truth=lambda x: x, judge=within(1e-9))
    given(echo)
    assert "shares its memory with input" in verdict_of(lambda x: x).text()


def test_an_endless_loop_ends_with_a_sentence_even_if_it_swallows_exceptions():
    def double(x):
        while True:
            with contextlib.suppress(Exception):
                time.sleep(0.01)

    report = report_for(double)
    assert report.verdict is Verdict.INCORRECT
    assert "did not finish" in report.text()


def test_a_wrong_signature_is_explained():
    report = verdict_of(lambda: 1)
    assert report.verdict is Verdict.ERROR
    assert "double(x)" in report.text()


def test_a_fault_of_the_course_is_not_blamed_on_the_student(given):
    broken = replace(TOY, run=operator.truediv)
    given(broken)
    with pytest.raises(TypeError, match="unsupported operand"):
        verdict_of(lambda x: 2 * x)


def test_without_triton_a_kernel_cannot_run_and_is_told_what_brings_it(given, monkeypatch):
    given(replace(TOY, kind="kernel"))
    monkeypatch.setattr(checking._mode, "mode", lambda: "none")
    report = verdict_of(lambda x: 2 * x)
    assert report.verdict is Verdict.CANNOT_RUN
    assert "`course triton`" in report.text()


@pytest.mark.parametrize("verdict", [Verdict.PASSED, Verdict.INCORRECT])
def test_without_a_compiler_a_right_kernel_passes_and_is_compiled_later(
    given, monkeypatch, verdict
):
    given(replace(TOY, kind="kernel"))
    monkeypatch.setattr(checking._mode, "mode", lambda: "interpreter")
    monkeypatch.setattr(checking, "interpreter_only", lambda: True)
    monkeypatch.setattr(checking, "_compiled", None)
    here = checking.Report(find("0.9"), verdict)
    monkeypatch.setattr(checking, "_here", lambda *_: here)
    report = verdict_of(lambda x: 2 * x)
    assert report.verdict is verdict
    later = "compiled when graded, or on Linux" in report.text()
    assert later is (verdict is Verdict.PASSED)


def test_a_function_of_the_course_is_refused():
    from course_lib.attention.naive import naive

    with pytest.raises(TypeError, match="belongs to course_lib"):
        check(naive)


def test_an_unknown_function_gets_the_nearest_name():
    def doubel(x):
        return x

    with pytest.raises(UnknownExercise, match="did you mean double"):
        check(doubel)


@pytest.mark.parametrize("name", ["0.9", "ex-0-9", "0-9", "double"])
def test_an_exercise_answers_to_its_id_slug_and_function(name):
    assert find(name) is TOY


def test_hints_come_one_at_a_time_and_stay_at_the_third(capsys):
    for _ in range(4):
        hint("0.9")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[1] for line in lines] == [*TOY.hints, TOY.hints[-1]]


def test_the_report_escapes_what_a_student_wrote():
    def double(x):
        raise ValueError("<script>alert(1)</script>")

    html = report_for(double)._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_a_notebook_shows_the_report_instead_of_a_traceback():
    failed = CheckFailed(verdict_of(lambda x: x**2))
    (shown,) = failed._render_traceback_()
    assert "incorrect" in shown
    assert "Traceback" not in shown


class Doubler:
    def __call__(self, x):
        return 2 * x


def nameless(function):
    def wrapper(x):
        return function(x)

    return wrapper


@pytest.mark.parametrize(
    "made",
    [lambda x: x + x, partial(operator.mul, 2), Doubler(), nameless(lambda x: 2 * x)],
    ids=["lambda", "partial", "object", "wrapper"],
)
def test_a_function_without_the_name_is_found_by_what_it_was_assigned_to(made, capsys):
    double = made
    check(double)
    hint(double)
    assert "Hint 1 of 3 for 0.9" in capsys.readouterr().out


def test_one_function_under_two_names_of_exercises_is_no_answer_to_either(given):
    given(TOY, replace(TOY, id="0.8", function="twice"))
    double = twice = lambda x: x + x
    with pytest.raises(UnknownExercise, match="<lambda>"):
        check(double)
    assert twice(1) == 2


def test_a_function_of_the_course_is_refused_as_a_partial_too():
    from course_lib.attention.naive import naive

    double = partial(naive, scale=1.0)
    with pytest.raises(TypeError, match="belongs to course_lib"):
        check(double)
