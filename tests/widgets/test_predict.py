"""Predict: what was said is kept, and shown beside what happened."""

from __future__ import annotations

import re

import numpy as np
import pytest
from traitlets import TraitError

from course_lib import store
from course_lib.style.palette import hex_of
from course_lib.widgets import Predict
from course_lib.widgets.asking import said


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
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
    assert "4 times too low" in text
    assert "8 ×" in text
    assert text.endswith("Because.")


def test_the_first_guess_the_last_and_the_answer_are_bars_of_one_even_scale_below_their_line():
    """On the line, whose steps are factors, they stand as they were guessed at; then to scale."""
    p = Predict("1-axis", "How many?", unit="x")
    shown = lambda: p.comparison(10)._repr_html_()  # noqa: E731
    p.answer = 1
    assert words_of(shown()) == ["1 ×, you", "1 ×, the same", "10 ×, the answer"]
    assert "<b>10 times too low.</b>" in shown()
    line, bars = shown().split("The same on an even scale:")
    assert "you: 1 ×; the answer: 10 ×" in line
    assert ("10,000" in line, "10,000" in bars) == (True, False), "each has its own scale"
    assert ("<svg" in line, "<svg" in bars) == (True, False)
    p.answer = 1e6
    assert {"1,000,000 ×, you at last", "1 ×, you first"} < set(words_of(shown()))
    for no_axis in (-3, 0, [64, 65]):
        assert "<table>" in p.comparison(no_axis)._repr_html_()
    choice = Predict("1-choice", "Which?", options=["a<b", "c"])
    choice.answer = "a<b"
    assert "a&lt;b" in choice.comparison("a<b")._repr_html_()
    assert "<table>" in choice.comparison("none of them")._repr_html_()


def flags_of(page: str) -> dict[str, tuple[float, float]]:
    """Return where each flag of the line stands, in percent, and how far down."""
    flag = r"<span style=.position:absolute;(left|right):([\d.]+)%;top:(\d+)px.*?><b.*?>(.*?)</b>"
    return {
        text: (float(x) if side == "left" else 100 - float(x), float(top))
        for side, x, top, text in re.findall(flag, page)
    }


def test_the_line_of_the_guess_stays_with_both_flags_and_the_way_between_them():
    """The guess was made on a line of factors, and with the answer the line was gone."""
    p = Predict("1-line", "How many times the least?", unit="x", least=1)
    p.answer = 8
    page = p.comparison(33, "Because.")._repr_html_()
    flags = flags_of(page)
    at = [100 * np.log10(value) / 4 for value in (8, 33)]  # from 1 to 10,000, as it was asked
    assert [x for x, _ in flags.values()] == pytest.approx(at, abs=0.01)
    assert list(flags) == ["you: 8 ×", "the answer: 33 ×"]
    way = re.search(r"left:([\d.]+)%;width:([\d.]+)%;height:8px", page)
    assert [float(x) for x in way.groups()] == pytest.approx([at[0], at[1] - at[0]], abs=0.02)
    assert page.index("4.1 times too low.") < page.index("The same on an even scale")
    p.answer = 2e6  # beyond the end the line grows, as it does in the question
    flags = flags_of(p.comparison(33)._repr_html_())
    assert flags["you at last: 2,000,000 ×"][0] == pytest.approx(100 * np.log10(2e6) / 7, abs=0.01)
    assert len({top for _, top in flags.values()}) == 3, "none lies on another"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.parametrize(
    ("guesses", "truth"),
    [
        ([8], 33), ([33], 8), ([33], 33), ([9e3], 1), ([1], 9e3), ([80], 120), ([40], 200),
        ([900], 1e3), ([20, 9e3], 150), ([120, 130], 140), ([3, 50], 33),
    ],
)  # fmt: skip
@pytest.mark.few(4)
def test_no_flag_of_the_line_lies_on_another_s_pole_or_is_cut(blank, width, guesses, truth):
    p = Predict("1-flags", "How many?", unit="tokens a second")
    for guess in guesses:
        p.answer = guess
    page = blank(width=width)
    page.set_content(f"<!doctype html>{p.comparison(truth)._repr_html_()}")
    box = "ns => ns.map(n => (b => [b.left, b.top, b.right, b.bottom])(n.getBoundingClientRect()))"
    line = page.locator("[role=img]")
    flags = line.locator("span:has(b)").evaluate_all(box)
    poles = line.locator('i[style*="width:3px"]').evaluate_all(box)
    assert len(flags) == len(poles) == len(guesses) + 1
    for left, top, right, _ in flags:
        assert left >= 0
        assert right <= width
        for x0, y0, x1, _ in poles:
            inside = left + 3 < (x0 + x1) / 2 < right - 3
            assert not (inside and y0 < top), "the pole of a flag above it"


def test_the_answer_stands_on_the_card_of_its_option_beside_the_choices():
    p = Predict("1-cards", "Which?", options=["one", "two", "three"])
    cards = lambda truth: p.comparison(truth)._repr_html_().split("<div")[2:]  # noqa: E731
    p.answer = "two"
    assert ["the answer" in card for card in cards("three")] == [False, False, True]
    assert ["your prediction" in card for card in cards("three")] == [False, True, False]
    assert ["the answer" in card for card in cards(["one", "two"])] == [True, True, False]
    p.answer = "three"
    assert ["first prediction" in card for card in cards("three")] == [False, True, False]
    assert ["last prediction" in card for card in cards("three")] == [False, False, True]


def test_what_each_option_comes_to_is_a_bar_of_one_scale_on_its_card():
    p = Predict("1-bars", "Which?", options=["one", "two", "three"], unit="GB")
    p.answer = "two"
    cards = p.comparison("three", sizes={"one": 1, "three": 4.0})._repr_html_().split("<div")[2:]
    assert [re.findall(r"width:([\d.]+)%", card) for card in cards] == [["17.5"], [], ["70.0"]]
    assert [" GB" in card for card in cards] == [True, False, True]
    noted = p.comparison("three", "Because.", sizes={"one": 1}, note="Bars: N = 8.")
    assert repr(noted).endswith("Because.\nBars: N = 8.")
    *_, below = noted._repr_html_().split("</div>")[:-1]
    assert "Bars: N\xa0=\xa08." in below, "under the cards, in none"
    assert "<span" not in below


@pytest.mark.browser
@pytest.mark.parametrize("guess", [0, 1])
def test_long_options_stand_beside_their_letter_on_a_phone(blank, guess):
    """Their words fell below the letter, the mark below them: no card looked like another."""
    options = ["a long one that takes two lines on a phone, or three", "short", "another " * 12]
    predict = Predict("long", "Which?", options=options)
    predict.answer = options[guess]
    page = blank(width=480)
    page.set_content(f"<!doctype html>{predict.comparison('short', 'Why.')._repr_html_()}")
    box = (
        "ns => ns.map(n => n.getBoundingClientRect()).map(b => [b.left, b.right, b.top, b.bottom])"
    )
    letters = page.locator("div > b:first-child").evaluate_all(box)[-3:]
    texts = page.locator("div > b:first-child + span").evaluate_all(box)
    assert len(texts) == len(letters) == 3
    for letter, text in zip(letters, texts, strict=True):
        assert letter[1] < text[0], "beside it"
        assert text[2] < letter[3]
        assert letter[2] < text[3]
    assert len({round(left) for left, *_ in texts}) == 1


def test_guess_and_truth_are_bars_of_an_even_scale():
    """On a line whose steps are factors, four times looks like a little."""
    p = Predict("1-even", "How many?", unit="x")
    p.answer = 8
    page = p.comparison(33, "Because.")._repr_html_()
    bars = page.split("Because.")[0]
    widths = re.findall(r"width:calc\(([\d.]+)% - ([\d.]+)em\);min-width", bars)
    shares = [float(percent) for percent, _ in widths]
    assert shares == pytest.approx([100 / 33, 800 / 33, 100], abs=0.06), "the width there is"
    room = [float(em) / share for (_, em), share in zip(widths, shares, strict=True)]
    assert room == pytest.approx([room[2]] * 3, rel=0.03), "less the words, and one scale"
    assert re.findall(r"</i><span>([^<]+)", bars) == [
        "1 ×, the same",
        "8 ×, you",
        "33 ×, the answer",
    ]
    assert all(int(tall) > 20 for tall in re.findall(r"none;height:(\d+)px", bars))
    assert page.count("4.1") == 1, "how far off is said once"
    grams = Predict("1-grams", "How many?", unit="g")
    grams.answer = 8
    assert "the same" not in grams.comparison(33)._repr_html_(), "1 g is nothing to compare with"


def words_of(page: str) -> list[str]:
    """Return what stands behind each bar."""
    behind = re.findall(r"[%)];min.*?></i>(.*?)</span></span>", page)
    return [re.sub("<.*?>", "", words) for words in behind]


def test_a_bar_is_cut_into_the_parts_that_are_known_and_one_times_is_named():
    """33 × stood beside *1 ×, the same*, and that one part of it is 32 was prose alone."""
    p = Predict("1-parts", "How many?", unit="x")
    p.answer = 8
    page = p.comparison(33, "Because.", sizes={"S": 32, "O": 1}, one="the least")._repr_html_()
    assert words_of(page) == ["1 ×, the least", "8 ×, you", "33 ×, the answer"], "one pitch"
    assert "33 ×: S\xa032, O\xa01</small>" in re.sub("<(?!/small).*?>", "", page)
    assert [float(cut) for cut in re.findall(r"transparent ([\d.]+)%", page)] == [97.0]
    lines = Predict("1-cut", "Which?", ["a", "b"], unit="GB")
    lines.answer = "a"
    sizes = {"a": {"S": 1.0, "Q": 0.5, "K": 0.5}, "b": 4}
    page = lines.comparison("b", "Because.", sizes=sizes)._repr_html_()
    widths = re.findall(r"width:([\d.]+)%;min-width", page)
    assert [float(width) for width in widths] == [35, 70], "as long as its parts together"
    assert [float(cut) for cut in re.findall(r"transparent ([\d.]+)%", page)] == [50, 75]
    assert words_of(page) == ["2.0 GB: S\xa01.0, Q\xa00.5, K\xa00.5", "4 GB"]


def test_what_is_written_of_a_bar_s_parts_adds_to_what_is_written_of_it():
    """2.15 GB stood before S 1.07 and P 1.07; and 1.07 beside 0.0336."""
    square, strips = (8 * 8192 * long * 2 / 1e9 for long in (8192, 256))
    p = Predict("1-adds", "Which?", ["a", "b"], unit="GB")
    p.answer = "a"
    sizes = {"a": {"S": square, "Q and K": strips}, "b": {"S": square, "P": square}}
    said_ = words_of(p.comparison("b", sizes=sizes)._repr_html_())
    assert said_ == ["1.108 GB: S\xa01.074, Q and K\xa00.034", "2.148 GB: S\xa01.074, P\xa01.074"]
    for words in said_:
        whole, *parts = re.findall(r"\d\.\d+", words)
        assert float(whole) == pytest.approx(sum(map(float, parts)), abs=1e-9)
    odd = {"a": {"S": 1e9, "Q": 1e-7}, "b": {"S": 1 / 3, "P": 1e5 / 7}}
    assert "1e+09" in words_of(p.comparison("b", sizes=odd)._repr_html_())[0], "no few digits do"


def test_the_parts_of_a_bar_wear_their_tensors_colours_where_they_are_tensors():
    """They were black and grey, where the tensors have colours everywhere else."""
    lines = Predict("1-hues", "Which?", ["a", "b"], unit="GB")
    lines.answer = "b"
    page = lines.comparison("b", sizes={"a": {"S": 3, "Q and K": 1}, "b": {"S": 4}})._repr_html_()
    shown = re.findall(r"#\w{6} 0 [\d.]+%", page)
    bar = [f"{hex_of('s')} 0 75.00%", f"{hex_of('q')} 0 87.50%", f"{hex_of('k')} 0 100.00%"]
    assert shown[:3] == bar, "each of two has half of what they have together"
    assert re.findall(r"<b style=.flex:0 0 ([\d.]+)%[^>]*>([^<]*)</b>", page)[0] == ("75.0", "S")
    assert re.search("4 GB: <span[^>]*>S", page), "S stands in its part: S and P have one colour"
    plain = lines.comparison("b", sizes={"a": {"first": 3, "second": 1}, "b": 4})._repr_html_()
    assert not re.findall(r"#\w{6} 0 [\d.]+%", plain), "other parts have none"


@pytest.mark.browser
def test_a_guess_is_planted_on_a_line_of_numbers(mount, check_page):
    """By arrows to the next number, by typing, which lets the line grow; none is there at first."""
    page = mount(Predict("line", "How many?", unit="x"), width=480)
    line, flag = (
        page.get_by_label("The guess on a line"),
        page.locator(".fac-flag:not(.fac-parked)"),
    )
    assert not flag.is_visible(), "on no number before there is a guess"
    lying, scale = page.locator(".fac-parked").bounding_box(), line.bounding_box()
    first = page.locator(".fac-ticks span").first.bounding_box()
    assert lying["x"] < first["x"] + first["width"] / 2 - 8, "off the line: on 1 it was a guess"
    pole = "n => getComputedStyle(n, '::before').content"
    assert page.locator(".fac-parked").evaluate(pole) != "none", "a flag has a pole, and a foot"
    foot = page.locator(".fac-parked").evaluate(
        "n => (({ left, width }) => n.getBoundingClientRect().left + parseFloat(left)"
        " + parseFloat(width))(getComputedStyle(n, '::after'))"
    )
    assert foot < first["x"] + first["width"] / 2, "which stands off the line"
    page.mouse.move(lying["x"] + 9, lying["y"] + 9)
    page.mouse.down()
    page.mouse.move(scale["x"] + scale["width"] / 2, scale["y"] + 9)
    page.mouse.up()
    assert flag.inner_text() == "30 ×", "dragged to the middle of 0.1 to 10,000"
    assert not page.locator(".fac-parked").is_visible()
    page.get_by_label("Your guess:").fill("64")
    assert flag.inner_text() == "64 ×"
    line.press("ArrowRight")
    assert page.get_by_label("Your guess:").input_value() == "70"
    assert page.evaluate("facModel.get('answer')") is None, "nothing is kept yet"
    page.get_by_label("Your guess:").fill("2e6")
    assert line.get_attribute("max") == "7"
    line.press("Enter")
    assert page.evaluate("facModel.get('answer')") == 2e6
    check_page(page)


def test_an_answer_is_rounded_to_what_is_meaningful():
    assert said(4.60429, "×") == "4.6 ×"
    assert said(8192.0, "") == "8,192"
    assert said(12345.6, "") == "12,346"


def test_numbers_of_numpy_and_torch_are_numbers():
    torch = pytest.importorskip("torch")

    p = Predict("1-np", "How many?")
    p.answer = np.int64(3)
    assert store.predictions("1-np") == [3]
    for truth in (np.float32(3), torch.tensor(3.0), np.array(3)):
        assert "3, as it is" in repr(p.comparison(truth))


def test_a_store_that_cannot_be_written_does_not_stop_the_lesson(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("COURSE_STORE", str(tmp_path))  # a folder
    p = Predict("1-y", "How many?")
    p.answer = 4
    assert "set COURSE_STORE" in capsys.readouterr().err
    assert p.comparison(4).predictions == [4]


def test_room_counts_every_answer_and_says_what_it_left_out():
    numbers = Predict("1-z", "How many?")
    assert numbers.parse_room("3, 4,4\n2 …, x") == ([3, 4, 4, 2], ["x"])
    figure = numbers.room("3, 4, 4, 2, x", answer=4)
    axes = figure.axes[0]
    assert [bar.get_height() for bar in axes.patches] == [1, 1, 2]
    assert axes.get_title("left") == "4 answers, 1 not understood"
    letters = Predict("1-w", "Which?", options=["q @ k.T", "softmax"])
    assert letters.parse_room("a, b b\nq @ k.T; ?") == (
        ["q @ k.T", "softmax", "softmax", "q @ k.T"],
        ["?"],
    )
    bars = letters.room("a b b").axes[0].patches
    assert [bar.get_width() for bar in bars] == [1, 2]


def test_a_room_may_write_units_and_signs():
    numbers = Predict("1-u", "How many?", unit="MiB")
    votes = numbers.parse_room("4x, ~4; ≈ 5 times\n6 MiB 7× 8mib, 1e3x, many")
    assert votes == ([4, 4, 5, 6, 7, 8, 1000], ["many"])


@pytest.mark.parametrize("outliers", [[1e9, 1e12, 1e-3], [1e9, 0, -4e6]])
def test_in_a_large_room_no_outlier_hides_the_truth(outliers):
    """300 answers around 4: most of them in bars of their own, and the truth between them."""
    rng = np.random.default_rng(0)
    votes = [*(4 * np.exp(0.5 * rng.standard_normal(297))), *outliers]
    axes = Predict("1-r", "How many?").room(" ".join(map(str, votes)), answer=4).axes[0]
    bars = [bar for bar in axes.patches if bar.get_height() > 5]
    assert len(bars) >= 4
    assert sum(bar.get_height() for bar in axes.patches) == 300
    (truth,) = axes.lines
    near = [b for b in bars if b.get_x() <= truth.get_xdata()[0] <= b.get_x() + b.get_width()]
    assert len(near) == 1


def test_a_guess_after_run_all_is_shown_beside_the_answer(monkeypatch):
    """Until then the truth waits, folded; a widget shown anew under the same key counts as well."""
    updates = []

    class Handle:
        def update(self, shown):
            updates.append(shown)

    monkeypatch.setattr("IPython.display.display", lambda *shown, display_id: Handle())
    p = Predict("1-late", "How many?", unit="x")
    assert p.comparison(8, "Because.")._repr_html_().startswith("<details><summary>")
    p.reveal(8, "Because.")
    p.answer = 2
    assert "2 ×, 4 times too low" in repr(updates[-1])
    assert "<details>" not in updates[-1]._repr_html_()
    Predict("1-late", "How many?", unit="x").answer = 4
    assert "Your last prediction: 4 ×" in repr(updates[-1])


@pytest.mark.browser
def test_the_letter_of_a_card_chooses_it_and_the_kept_one_is_marked(mount):
    page = mount(Predict("l", "Which?", options=["one", "two", "three"]), width=480)
    page.get_by_label("one").focus()
    for key in ("c", "Enter", "b", "z"):
        page.keyboard.press(key)
    assert page.evaluate("facModel.get('answer')") == "three"
    assert page.get_by_label("two").is_checked()
    assert page.inner_text(".fac-kept") == "three"
    card = page.locator(".fac-card").nth(0).bounding_box()
    page.mouse.click(card["x"] + card["width"] - 4, card["y"] + 4)  # anywhere on it
    assert page.get_by_label("one").is_checked()
    page.get_by_role("button", name="Keep").click()
    assert page.inner_text(".fac-kept") == "one"


@pytest.mark.browser
def test_enter_on_a_choice_keeps_it(mount):
    page = mount(Predict("e", "Which?", options=["a", "b"]))
    page.get_by_label("b").check()
    page.get_by_label("b").press("Enter")
    assert page.evaluate("facModel.get('answer')") == "b"


@pytest.mark.browser
def test_a_prediction_reaches_the_model(mount, check_page):
    page = mount(Predict("k", "How many?", unit="x"))
    check_page(page)
    assert page.get_by_role("button", name="Keep").is_disabled()
    assert page.inner_text(".fac-acts [role=status]") == "Drag the flag or type a number first."
    page.get_by_label("Your guess:").fill("2^13")
    page.keyboard.press("Enter")
    assert page.evaluate("facModel.get('answer')") == 8192
    assert "Your prediction: 8192 ×" in page.inner_text(".fac")
    page = mount(Predict("c", "Which?", options=["a", "`b`"]))
    assert page.inner_text(".fac-acts [role=status]") == "Choose an answer first."
    page.get_by_label("b").check()
    page.get_by_role("button", name="Keep").click()
    assert page.evaluate("facModel.get('answer')") == "`b`"


def test_what_cannot_be_has_no_place_on_the_line():
    """A ratio to the least began a decade below it, and asked for a guess that could not be."""
    p = Predict("1-least", "How many times the least?", unit="x", least=1)
    with pytest.raises(TraitError, match=r"number from 1, got 0\.5"):
        p.answer = 0.5
    p.answer = 10
    shown = p.comparison(100)._repr_html_()
    assert "10 times too low" in shown
    share = Predict("1-share", "What share?", unit="%", most=100)
    with pytest.raises(TraitError, match="number, at most 100, got 120"):
        share.answer = 120
    with pytest.raises(ValueError, match="0 < least < most"):
        Predict("1-bad", "How many?", least=5, most=2)


@pytest.mark.browser
def test_a_guess_that_cannot_be_is_refused_with_a_reason(mount):
    page = mount(Predict("1-least", "How many times the least?", unit="x", least=1), width=480)
    ticks = page.locator(".fac-ticks span").all_inner_texts()
    assert ticks == ["1", "10", "100", "1,000", "10,000"]
    box = page.get_by_label("Your guess:")
    box.fill("0.5")
    box.press("Enter")
    assert "It cannot be less than 1." in page.inner_text(".fac")
    assert page.evaluate("facModel.get('answer')") is None
    box.fill("33")
    box.press("Enter")
    assert page.evaluate("facModel.get('answer')") == 33


@pytest.mark.browser
def test_a_finger_finds_a_button_and_is_told_of_no_keyboard(touched):
    page = touched(Predict("t", "Which?", options=["one", "two"]))
    keep = page.get_by_role("button", name=re.compile("^Keep"))
    assert keep.is_disabled()
    assert "Tap one, then keep it." in page.inner_text(".fac")
    page.locator(".fac-card").nth(1).tap()
    assert page.evaluate("facModel.get('answer')") is None, "chosen, not kept"
    keep.tap()
    assert page.evaluate("facModel.get('answer')") == "two"
    page = touched(Predict("n", "How many?", unit="x"))
    assert page.get_by_role("button", name="Keep").is_disabled()
    assert "Enter" not in page.inner_text(".fac")
