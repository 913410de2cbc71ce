"""Quiz: every answer explained, text without a kernel."""

from __future__ import annotations

import html
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    ],
)
def test_bad_values_get_one_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.browser
def test_choices_explain_each_answer_and_allow_more_tries(mount, check_page):
    page = mount(Quiz("Which `line` is dearest?", OPTIONS), width=320)
    check_page(page)
    assert page.get_by_role("button", name="Check").count() == 0, "nothing is chosen yet"
    page.get_by_label("q @ k.T").check()  # a press of the pointer is the answer
    assert "A matmul." in page.inner_text(".fac")
    page.get_by_label("q @ k.T").focus()
    page.keyboard.press("ArrowDown")  # the next radio button
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert "Right. Yes & so." in page.inner_text(".fac")
    assert page.locator(".fac-also").all_inner_texts() == [
        "You tried this. A matmul.",
        "Why not: No.",
    ]
    state = "[facModel.get('tries'), facModel.get('solved'), facModel.get('chosen')]"
    assert page.evaluate(state) == [2, True, [1]]


@pytest.mark.browser
def test_enter_on_a_choice_checks_it(mount):
    page = mount(Quiz("Which `line` is dearest?", OPTIONS))
    page.get_by_label("softmax").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("facModel.get('tries')") == 0, "keys move over the cards"
    page.get_by_label("softmax").press("Enter")
    assert "Right. Yes & so." in page.inner_text(".fac")


@pytest.mark.browser
def test_no_green_frame_around_an_answer_that_is_not_right(mount):
    """Neither when a right number is typed over, nor when the answer was given up."""
    page = mount(Quiz("How many?", answer=7, explanation="Seven."))
    box = page.get_by_label("Your answer:")
    box.fill("7")
    box.press("Enter")
    assert page.locator(".fac-right").count() == 1
    box.fill("8")
    assert page.locator(".fac-right").count() == 0
    box.press("Enter")
    page.get_by_role("button", name="Show the answer").click()
    assert "The answer is 7. Seven." in page.inner_text(".fac")
    assert page.locator(".fac-right").count() == 0


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
def test_an_answer_is_chosen_by_the_letter_that_stands_on_it(mount):
    quiz = Quiz("Which?", [("N x N", True, "Yes."), ("the query x that", False, "No.")])
    page = mount(quiz)
    assert "N × N" in page.inner_text(".fac")
    assert "the query x that" in page.inner_text(".fac")
    page.keyboard.press("Tab")
    page.keyboard.press("b")
    assert page.locator("input").nth(1).is_checked()
    page.keyboard.press("a")
    page.keyboard.press("Enter")
    assert page.evaluate("facModel.get('chosen')") == [0]
    assert "Right" in page.inner_text(".fac")


@pytest.mark.browser
def test_a_finger_is_told_of_no_keyboard(touched):
    page = touched(Quiz("Which?", [("a", True, "A."), ("b", False, "B.")]))
    assert "Tap one, and it is checked." in page.inner_text(".fac")
    page.locator(".fac-card").first.tap()
    assert page.evaluate("facModel.get('solved')") is True
    page = touched(Quiz("Which?", [("a", True, "A."), ("b", True, "B."), ("c", False, "C.")]))
    check = page.get_by_role("button", name="Check")
    assert check.is_visible()
    assert "Enter" not in page.inner_text(".fac")
    for card in page.locator(".fac-card").all()[:2]:
        card.tap()
    check.tap()
    assert page.evaluate("facModel.get('solved')") is True


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.few(1)
def test_what_to_do_is_said_before_what_it_is_done_to(mount, width):
    """It stood below the button, where nobody read it; and N = 128 was cut in two."""
    question = "Eager attention starts four kernels. Which change would help most at N = 128?"
    asked = [
        Quiz(question, [("a", True, "A."), ("b", False, "B.")]),
        Predict("cards", question, options=["a", "b"]),
        Predict("number", question, unit="x"),
    ]
    for widget in asked:
        page = mount(widget, width=width, again=True)
        how = page.locator(".fac-how").bounding_box()
        first = page.locator(".fac-card, .fac-parked").first.bounding_box()
        assert 0 <= first["y"] - how["y"] - how["height"] < 20
        assert page.locator("legend .fac-unbroken").bounding_box()["height"] < 30


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_a_mark_moves_no_answer(mount, width):
    """The ✗ pushed its answer 12 px right of the others and of its own explanation."""
    lefts = "ns => ns.map(n => n.getBoundingClientRect().x)"
    for tries in (1, 2):
        quiz = Quiz("Which?", OPTIONS)
        quiz.chosen, quiz.tries = [tries - 1], tries
        page = mount(quiz, width=width, again=tries > 1)
        left = page.locator(".fac-card > span, .fac-why, .fac-also").evaluate_all(lefts)
        assert len(left) == (4 if tries == 1 else 6)
        assert max(left) - min(left) <= 1
    assert page.locator(".fac-how").inner_text() == "Right, after 2 tries."


@pytest.mark.browser
def test_what_the_options_come_to_are_bars_of_one_scale_once_it_is_solved(mount):
    """20 µs against 0.8 and 0.07 were told in prose. One wrong answer does not tell the others."""
    sized = [(*option, size) for option, size in zip(OPTIONS, (0.783, 20, 0.0679), strict=True)]
    quiz = Quiz("Which?", sized, unit="µs")
    assert "20 µs" in quiz.fallback_html()
    page = mount(quiz)
    bars = page.locator(".fac-size")
    assert bars.count() == 0
    page.get_by_label("q @ k.T").check()
    assert bars.all_inner_texts() == ["0.783 µs"]
    page.get_by_label("softmax").check()
    assert bars.all_inner_texts() == ["0.783 µs", "20 µs", "0.0679 µs"]
    small, large, _ = [bar.bounding_box()["width"] for bar in page.locator(".fac-size i").all()]
    assert small / large == pytest.approx(0.783 / 20, rel=0.05)
    with pytest.raises(ValueError, match="comes to"):
        Quiz("Which?", [("a", True, "A.", -1)])


def of_a_strip(**settings) -> Quiz:
    """Return a question about four launches, in which bytes and FLOPs are: 20 µs."""
    took = ({"bytes": 0.391}, 15, {"FLOPs": 0.034})
    sized = [(*option, size) for option, size in zip(OPTIONS, took, strict=True)]
    launches = {f"launch {i}": 5.0 for i in range(1, 5)}
    inside = {"bytes": 0.782, "FLOPs": 0.068}
    return Quiz(
        "Which?", sized, unit="µs saved", **{"whole": launches, "inside": inside, **settings}
    )


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_each_choice_that_was_tried_strikes_its_part_from_one_strip(mount, width):
    """Three equal frames, each with a bar, did not tell why; and saved was the ink of cost."""
    quiz = of_a_strip()
    assert "0.4 of 20 µs saved" in quiz.fallback_html()
    page = mount(quiz, width=width, reduced=True)
    strip, rows = page.locator(".fac-strip"), page.locator(".fac-strip-row")
    assert not strip.is_visible(), "it would tell the answer"
    page.get_by_label("q @ k.T").check()
    assert rows.all_inner_texts() == ["a 0.4 of 20 µs saved"]
    page.get_by_label("softmax").check()
    told = [" ".join(text.split()) for text in rows.all_inner_texts()]
    assert told == [
        "a 0.4 of 20 µs saved", "b 15 of 20 µs saved", "c 0.03 of 20 µs saved",
    ]  # fmt: skip
    assert page.locator(".fac-strip-all").count() == 1, "one for all of them"
    assert page.locator(".fac-strip-names span").all_inner_texts() == [
        f"launch {i}" for i in range(1, 5)
    ]
    box = "ns => ns.map(n => (b => [b.left, b.right])(n.getBoundingClientRect()))"
    ((left, right),) = page.locator(".fac-strip-all").evaluate_all(box)
    card = page.locator(".fac-option").first.bounding_box()["width"]
    assert right - left > card - 90, "as wide as the cards allow"
    of = lambda found: [  # noqa: E731
        [20 * (x - left) / (right - left) for x in pair]
        for pair in page.locator(found).evaluate_all(box)
    ]
    launches = of(".fac-strip-all > s")
    assert [x for pair in launches for x in pair] == pytest.approx(
        [5, 10, 10, 15, 15, 20], abs=0.1
    ), "the last three"
    assert of(".fac-strip-lanes i")[0] == pytest.approx([0, 0.782], abs=0.1)
    assert of(".fac-strip-lanes s")[0] == pytest.approx([0.391, 0.782], abs=0.1), "of the bytes"
    brackets = of(".fac-strip-row > i")
    assert brackets[1] == pytest.approx([5, 20], abs=0.1)
    assert brackets[0] == pytest.approx([0.391, 0.782], abs=0.15)
    fill = "n => getComputedStyle(n).backgroundColor"
    cost = page.locator(".fac-strip-lanes i").first.evaluate(fill)
    saved = page.locator(".fac-strip s").evaluate_all(f"ns => ns.map({fill})")
    assert cost not in saved, "what is saved is hollow"
    assert page.locator(".fac-strip-row").last.evaluate("n => n.scrollWidth <= n.clientWidth + 1")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"whole": 14, "inside": {}}, "whole must be at least"),
        ({"inside": {"bytes": 0.3}}, "inside must hold"),
    ],
)
def test_a_strip_holds_all_that_is_struck_from_it(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        of_a_strip(**settings)


@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True])
def test_wrong_and_right_differ_in_more_than_colour_and_their_mark_in_no_letter(mount, dark):
    """The letter and its mark spilled out of their column; wrong was grey and looked disabled."""
    quiz = Quiz("Which?", OPTIONS)
    quiz.chosen, quiz.tries = [1], 1
    page = mount(quiz, dark=dark, reduced=True)
    look = """(card) => ['::before', '::after'].flatMap((part) => {
        const style = getComputedStyle(card, part);
        return [style.content, style.width, style.marginLeft];
    }).concat(getComputedStyle(card.closest('.fac-option')).outlineStyle,
        getComputedStyle(card.closest('.fac-option')).backgroundColor,
        getComputedStyle(card.children[1]).fontWeight)"""
    cards = page.locator(".fac-card")
    plain, right = cards.nth(0).evaluate(look), cards.nth(1).evaluate(look)
    page.evaluate("facModel.set('chosen', [0]), facModel.set('tries', 2)")
    wrong = cards.nth(0).evaluate(look)
    assert plain[:3] == wrong[:3] == right[:3], "the letters stand in their column"
    assert [plain[3], wrong[3], right[3]] == ["none", "none", '"✓"'], "a round ✗ closes windows"
    assert "Not this one." in page.inner_text(".fac")
    page.evaluate("facModel.set('chosen', [2]), facModel.set('tries', 3)")
    assert cards.nth(0).evaluate(look)[3] == '"not this"'
    assert page.inner_text(".fac-how").startswith("Press another"), "no longer the first words"
    assert {wrong[6], right[6]} == {"dashed", "solid"}
    assert len({plain[7], wrong[7], right[7]}) == 3, "each has its ground"
    assert wrong[8] != right[8]
