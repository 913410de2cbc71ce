"""Quiz and Predict: every answer explained, predictions kept, text without a kernel."""

from __future__ import annotations

import html
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traitlets import TraitError

from course_lib import store
from course_lib.widgets import Predict, Quiz

OPTIONS = [("q @ k.T", False, "A matmul."), ("softmax", True, "Yes & so."), ("v", False, "No.")]


def test_the_package_imports_nothing_heavy():
    code = (
        "import sys, course_lib.widgets as _; print({'matplotlib', 'anywidget'} & {*sys.modules})"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


def test_text_shows_the_question_but_not_the_answer_and_html_folds_it():
    quiz = Quiz("Which `line` is dearest?", OPTIONS)
    assert "softmax" in repr(quiz)
    assert "Yes" not in repr(quiz)
    before, folded = quiz.fallback_html().split("<details>")
    assert "Yes &amp; so." in folded
    assert "Yes" not in before
    assert "<code>line</code>" in before


@given(st.text(min_size=1).filter(str.strip), st.text(min_size=1).filter(str.strip))
@settings(max_examples=30, deadline=None)
def test_html_is_escaped_whatever_the_text(question, why):
    page = Quiz(question, answer=1, explanation=why).fallback_html()
    for text in (question, why):
        for dangerous in ("<script", "<img", "<b>"):
            assert dangerous not in page, (text, dangerous)
    attack = Quiz(f"<script>{question}", [(f"<img {why}", True, "<b>x")])
    page = attack.fallback_html()
    assert "<script" not in page
    assert "<img" not in page
    assert html.escape("<b>x") in page


def test_mimebundle_offers_widget_text_and_html():
    data, _ = Quiz("Which?", OPTIONS)._repr_mimebundle_()
    assert data["text/plain"].startswith("Question: Which?")
    assert "<details>" in data["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in data


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Quiz(""), "question must be"),
        (lambda: Quiz("a?"), "either options or answer"),
        (lambda: Quiz("a?", OPTIONS, answer=1), "either options or answer"),
        (lambda: Quiz("a?", [("x", False, "why")]), "at least one right"),
        (lambda: Quiz("a?", [("x", True)]), "an option is"),
        (lambda: Quiz("a?", [("x", True, "")]), "an explanation that is not empty"),
        (lambda: Quiz("a?", answer=float("nan")), "finite number"),
        (lambda: Quiz("a?", answer=1, tolerance=-1), "tolerance must be"),
        (lambda: Predict("", "a?"), "key must be"),
        (lambda: Predict("k", "a?", options=["x", "x"]), "different texts"),
        (lambda: Predict("k", "a?", options=["x", "y"]).room("z, w"), "answers must hold letters"),
    ],
)
def test_bad_values_get_one_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_predictions_are_stored_in_order_and_shown_again_after_a_restart():
    p = Predict("2-times", "How many times?", unit="x")
    p.answer = 3
    p.answer = 6.5
    assert store.predictions("2-times") == [3, 6.5]
    again = Predict("2-times", "How many times?", unit="x")
    assert again.answer == 6.5
    assert store.predictions("2-times") == [3, 6.5]


def test_a_prediction_that_is_no_answer_is_refused_and_not_stored():
    p = Predict("1-dearest", "Which?", options=["a", "b"])
    with pytest.raises(TraitError, match="one of a, b"):
        p.answer = "c"
    n = Predict("1-n", "How many?")
    with pytest.raises(TraitError, match="finite number"):
        n.answer = float("inf")
    assert store.predictions("1-dearest") == store.predictions("1-n") == []


def test_reveal_compares_and_is_kind_when_nothing_was_predicted(capsys):
    p = Predict("1-x", "How many?", unit="x")
    p.reveal(8, "Because.")
    assert "that is fine" in capsys.readouterr().out
    p.answer = 2
    text = repr(p.comparison(8, "Because."))
    assert "below by a factor of 4" in text
    assert "8 x" in text
    assert text.endswith("Because.")


def test_numbers_of_numpy_and_torch_are_numbers():
    import numpy as np

    torch = pytest.importorskip("torch")

    p = Predict("1-np", "How many?")
    p.answer = np.int64(3)
    assert store.predictions("1-np") == [3]
    for truth in (np.float32(3), torch.tensor(3.0), np.array(3)):
        assert "3: as it is" in repr(p.comparison(truth))


def test_a_store_that_cannot_be_written_does_not_stop_the_lesson(monkeypatch):
    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr(store, "record_prediction", full)
    p = Predict("1-y", "How many?")
    with pytest.warns(UserWarning, match="disk full"):
        p.answer = 4
    assert p.comparison(4).predictions == [4]


def test_room_counts_every_answer_and_says_what_it_left_out():
    numbers = Predict("1-z", "How many?")
    assert numbers.parse_room("3, 4,4\n2 …, x") == ([3, 4, 4, 2], ["x"])
    figure = numbers.room("3, 4, 4, 2, x", answer=4)
    axes = figure.axes[0]
    assert [bar.get_height() for bar in axes.patches] == [1, 1, 2]
    assert axes.get_title() == "4 answers, 1 not understood"
    letters = Predict("1-w", "Which?", options=["q @ k.T", "softmax"])
    assert letters.parse_room("a, b b\nq @ k.T; ?") == (
        ["q @ k.T", "softmax", "softmax", "q @ k.T"],
        ["?"],
    )
    bars = letters.room("a b b").axes[0].patches
    assert [bar.get_width() for bar in bars] == [1, 2]


@pytest.mark.browser
def test_choices_explain_each_answer_and_allow_more_tries(mount, check_page):
    page = mount(Quiz("Which `line` is dearest?", OPTIONS), width=320)
    check_page(page)
    page.get_by_role("button", name="Check").click()
    assert "Choose an answer first" in page.inner_text(".fac")
    page.get_by_label("q @ k.T").check()
    page.get_by_role("button", name="Check").click()
    assert "A matmul." in page.inner_text(".fac")
    page.get_by_label("q @ k.T").focus()
    page.keyboard.press("ArrowDown")  # the next radio button
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert "✓ Right. Yes & so." in page.inner_text(".fac")
    assert "A matmul." not in page.inner_text(".fac")
    state = "[facModel.get('tries'), facModel.get('solved'), facModel.get('chosen')]"
    assert page.evaluate(state) == [2, True, [1]]


@pytest.mark.browser
def test_several_right_answers_are_all_wanted(mount):
    page = mount(Quiz("Which?", [("a", True, "A."), ("b", True, "B."), ("c", False, "C.")]))
    page.get_by_label("a").check()
    page.get_by_role("button", name="Check").click()
    assert "1 more is true" in page.inner_text(".fac")
    page.get_by_label("b").check()
    page.get_by_role("button", name="Check").click()
    assert page.evaluate("facModel.get('solved')") is True


@pytest.mark.browser
@pytest.mark.parametrize("typed", ["36.88", "36,7", "3.688e1", " 36.9 "])
def test_a_number_is_right_within_its_tolerance(mount, typed):
    page = mount(Quiz("What is O?", answer=36.88, tolerance=0.01, explanation="By hand."))
    page.get_by_label("Your answer:").fill("52.22")
    page.keyboard.press("Enter")
    assert "It is smaller" in page.inner_text(".fac")
    page.get_by_label("Your answer:").fill("many")
    page.keyboard.press("Enter")
    assert "Type a number" in page.inner_text(".fac")
    page.get_by_label("Your answer:").fill(typed)
    page.get_by_role("button", name="Check").click()
    assert "By hand." in page.inner_text(".fac")
    assert page.evaluate("facModel.get('tries')") == 2


@pytest.mark.browser
def test_a_prediction_reaches_the_model(mount, check_page):
    page = mount(Predict("k", "How many?", unit="x"))
    check_page(page)
    page.get_by_label("Your guess:").fill("2^13")
    page.keyboard.press("Enter")
    assert page.evaluate("facModel.get('answer')") == 8192
    assert "Your prediction: 8192 x" in page.inner_text(".fac")
    page = mount(Predict("c", "Which?", options=["a", "`b`"]))
    page.get_by_label("b").check()
    page.get_by_role("button", name="Keep").click()
    assert page.evaluate("facModel.get('answer')") == "`b`"
