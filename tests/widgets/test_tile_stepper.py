"""TileStepper: what it shows is what `course_lib.attention` computes, and each mistake shows."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traitlets import TraitError

from course_lib.attention import OnlineState, attention_float64, tiled
from course_lib.widgets import TileStepper
from course_lib.widgets.stepper_walk import VARIANTS, trace
from course_lib.widgets.tile_stepper import LINES_PER_TILE

PILES, VALUES = [[1, 3], [2, 5]], [[10, 20], [30, 40]]


def by_hand(reverse: bool = False) -> TileStepper:
    stepper = TileStepper.by_hand(PILES, values=VALUES)
    stepper.reverse = reverse
    return stepper


def at(stepper: TileStepper, step: int) -> TileStepper:
    stepper.step = step
    return stepper


@given(
    n_q=st.integers(1, 5), n_k=st.integers(1, 20), tile=st.integers(1, 7), causal=st.booleans(),
    seed=st.integers(0, 99), reverse=st.booleans(),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_streaming_equals_float64_attention(n_q, n_k, tile, causal, seed, reverse):
    """Any shape, ragged tiles, rows without keys, either order: the streamed row is the truth."""
    rng = np.random.default_rng(seed)
    q, k, v = (rng.normal(size=(n, 3)) * 4 for n in (n_q, n_k, n_k))
    stepper = TileStepper(q, k, v, tile=tile, causal=causal)
    stepper.reverse = reverse and n_k > tile
    truth, _ = attention_float64(q, k, v, causal=causal)
    for row in range(n_q):
        stepper.row = row
        np.testing.assert_allclose(stepper.streamed(), truth[row], rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(stepper.answer, truth[row])


@given(seed=st.integers(0, 99), masked=st.sets(st.integers(0, 11), max_size=12))
@settings(max_examples=25, deadline=None)
def test_each_state_is_a_merge_of_tiles(seed, masked):
    """After every tile (m, l, O) equal the merge of the lesson's `OnlineState`s, masks included."""
    rng = np.random.default_rng(seed)
    scores, values = rng.normal(size=12) * 50, rng.normal(size=(12, 2))
    scores[list(masked)] = -np.inf
    tiles = [(0, 5), (5, 8), (8, 12)]
    steps = trace(scores, values, tiles)
    state = OnlineState.identity((), 2)
    for i, (a, b) in enumerate(tiles):
        state = state.merge(OnlineState.from_tile(scores[a:b], values[a:b]))
        assert steps["m"][i] == state.m
        np.testing.assert_allclose(steps["l"][i], state.l_sum, rtol=1e-12)
        np.testing.assert_allclose(steps["o"][i], state.o, rtol=1e-12, atol=1e-12)


def test_the_lesson_by_hand():
    """FACTS of lesson 03: m, l, alpha and O of both piles, and every mistake in both orders."""
    steps = by_hand()._steps("right")
    assert steps["m"] == [3, 5]
    assert steps["alpha"][1] == pytest.approx(math.exp(-2))
    assert steps["l"] == pytest.approx([1.13534, 1.20344], abs=5e-6)
    given = {name: by_hand().streamed(name)[0] for name in VARIANTS}
    assert given == pytest.approx(
        {"right": 36.88, "no_rescale_o": 52.22, "no_rescale_l": 20.31, "inverse": 21.11,
         "neither": 28.76, "own_max": 36.88, "start_zero": 36.88}, abs=0.005,
    )  # fmt: skip
    other = {name: by_hand(reverse=True).streamed(name)[0] for name in VARIANTS}
    assert other.pop("own_max") == pytest.approx(28.76, abs=0.005)
    assert set(np.round(list(other.values()), 2)) == {36.88}


def test_starting_the_maximum_at_zero_is_not_a_number_far_below():
    stepper = TileStepper.by_hand([[-800, -801]], values=[[1, 2]])
    assert np.isnan(stepper.streamed("start_zero")).all()
    assert stepper.streamed()[0] == pytest.approx(1.2689, abs=1e-4)


def test_table_and_figure_show_the_same_numbers_as_the_module_gets():
    stepper = by_hand()
    stepper.mistake = "no_rescale_o"
    text = stepper.to_table()
    assert all(number in text for number in ("1.20344", "36.881", "52.223", "m = 5"))
    assert stepper.data["scores"] == {"0": [1, 3, 2, 5]}
    assert stepper.data["values"] == [[10], [20], [30], [40]]
    lines = {line.get_label(): line.get_ydata() for line in stepper.to_figure().axes[1].lines}
    assert lines["O is not rescaled"][-1] == pytest.approx(52.2229, abs=1e-4)
    assert lines["as it should be"][-1] == pytest.approx(lines["all at once"][0])
    heights = [bar.get_height() for bar in stepper.to_figure().axes[0].patches]
    assert heights == [1, 3, 2, 5]


def test_a_fused_kernels_visits_are_replayed_in_order():
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    from course_lib.accounting.kernel_ledger import KernelLedger
    from course_lib.kernels.flash_forward import flash_attention_with_lse

    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 40, 16, generator=generator) for _ in range(3))
    with KernelLedger() as ledger:
        o, _ = flash_attention_with_lse(q, k, v, causal=True, block_q=16, block_k=16)
    programs = sorted({v.program for v in ledger.visits})
    first = TileStepper.from_kernel(ledger, q, k, v, causal=True, program=programs[0])
    assert first.data["tiles"] == [[0, 16]]  # causal: the first program stops at the diagonal
    for name, value in {"reverse": True, "order": [1, 0], "changed": {"0:0": 1.0}}.items():
        with pytest.raises(TraitError):  # what a kernel did stays
            setattr(first, name, value)
    assert first.data["title"] == f"Program {programs[0]} of your kernel"
    stepper = TileStepper.from_kernel(
        ledger, q, k, v, causal=True, program=(2, 0, 0), whose="the course's kernel"
    )
    assert stepper.data["title"] == "Program (2, 0, 0) of the course's kernel"
    assert stepper.data["tiles"] == [[0, 16], [16, 32], [32, 40]]
    assert stepper.data["rows"] == list(range(32, 40))
    for row in stepper.data["rows"]:
        stepper.row = row
        np.testing.assert_allclose(stepper.streamed(), o[0, 0, row].numpy(), atol=1e-5)
    with pytest.raises(ValueError, match="program must have loaded q and k"):
        TileStepper.from_kernel(ledger, q, k, v, program=(7,))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: TileStepper(np.ones((2, 2))), "given together"),
        (lambda: TileStepper(tile=0), "tile must be"),
        (lambda: TileStepper(np.ones(3), np.ones((2, 3)), np.ones((2, 3))), "q must be a matrix"),
        (lambda: TileStepper(np.ones((2, 3)), np.ones((2, 4)), np.ones((2, 4))), "head_dim"),
        (lambda: TileStepper(*(np.full((2, 2), np.nan),) * 3), "q must be finite"),
        (lambda: TileStepper(*(np.ones((300, 2)),) * 3), "at most 256 rows"),
        (lambda: TileStepper(rows=[99]), "rows must be"),
        (lambda: TileStepper.by_hand([], values=[]), "at least one pile"),
        (lambda: TileStepper.by_hand([[1, 2]], values=[[1]]), "one value for every score"),
        (lambda: TileStepper.by_hand([[1, 2]], values=[[1, [2, 3]]]), "vectors of one length"),
        (lambda: TileStepper.by_hand([[math.nan]], values=[[1]]), "finite or -inf"),
        (lambda: TileStepper.by_hand(PILES, VALUES, others=[[[1], [2, 3, 4]]]), "others must"),
    ],
)
def test_bad_input_gets_one_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_bad_traits_keep_the_last_good_state():
    stepper = by_hand()
    bad = {"step": 16, "row": 5, "mistake": "typo", "by": "hour", "order": [0, 0], "column": 1}
    for name, value in [*bad.items(), ("changed", {"0:9": 1.0}), ("changed", {"0:1": math.inf})]:
        before = getattr(stepper, name)
        with pytest.raises(TraitError):
            setattr(stepper, name, value)
        assert getattr(stepper, name) == before
    single = TileStepper.by_hand([[1, 2]], values=[[1, 2]])
    with pytest.raises(TraitError, match="reverse must be False"):
        single.reverse = True
    assert stepper.last_step == 2 * LINES_PER_TILE + 1


@pytest.mark.browser
def test_mouse_walks_line_by_line_to_the_answer(mount, check_page):
    page = mount(by_hand(), width=320)
    check_page(page)
    text = lambda: page.inner_text(".fac")  # noqa: E731
    drawn = lambda: page.text_content(".fac-stage")  # noqa: E731
    assert "no key seen yet" in text()
    assert "tile B" in drawn()
    next_button = page.get_by_role("button", name="Next")
    for _ in range(13):
        next_button.click()
    assert page.locator(".fac-step-title").inner_text() == "ℓ gets the weights of tile B: 1.05 more"
    assert "Tile 2 of 2:" in text()
    assert "0.153651 + 1.04979 = 1.20344" in text()
    assert page.locator(".fac-step-plate.fac-folded").count() == 1
    assert "tile A ✓" in drawn()
    assert page.inner_text("[aria-current=step]") == "ℓ = ℓ + sum(p)"
    next_button.click()
    next_button.click()
    assert "Streamed, O / ℓ: [36.881]" in text()
    assert "All at once: [36.881]" in text()
    assert next_button.is_disabled()
    check_page(page)


@pytest.mark.browser
def test_keyboard_reaches_everything(mount):
    page = mount(by_hand())
    names = []
    for _ in range(6 + len(VARIANTS)):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.labels?.[0]?.textContent.slice(0, 8) "
                                   "|| document.activeElement.ariaLabel "
                                   "|| document.activeElement.textContent"))  # fmt: skip
    expected = ["score of key 1", "Next", "Play", "Reset", "Step"]
    expected += [*list(VARIANTS.values())[1:], "Order", "more"]
    assert [name for want, name in zip(expected, names, strict=True) if want not in name] == []
    page.get_by_label("Step", exact=True).press("End")
    assert page.evaluate("facModel.get('step')") == 15
    page.get_by_label("Step", exact=True).press("ArrowLeft")
    assert page.evaluate("facModel.get('step')") == 14
    page.get_by_role("button", name="Reset").press("Enter")
    assert page.evaluate("facModel.get('step')") == 0


@pytest.mark.browser
@pytest.mark.parametrize("name", list(VARIANTS)[1:])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.few(4)
def test_the_mistake_stands_beside_the_right_answer(mount, name, reverse):
    stepper = by_hand()
    page = mount(stepper)
    page.get_by_label("Order").select_option("true" if reverse else "false")
    page.get_by_role("button", name=VARIANTS[name]).click()
    page.get_by_label("Step", exact=True).press("End")
    stepper.reverse = reverse
    wrong, right = stepper.streamed(name)[0], stepper.answer[0]
    text = page.inner_text(".fac-final")
    assert f"{VARIANTS[name]}: [{wrong:.5g}]" in text
    assert ("The same answer: this order hides" in text) == (abs(wrong - right) < 1e-3)
    assert ("Above every value" in text) == (wrong > 40)


@pytest.mark.browser
def test_every_row_and_tile_shows_pythons_numbers(mount):
    stepper = TileStepper()
    page = mount(stepper)
    page.get_by_text("more: ").click()
    page.get_by_label("Step by").select_option("tile")
    q_rows = stepper.data["rows"]
    for row in (q_rows[0], q_rows[-1]):
        page.get_by_label("Query row").select_option(str(row))
        page.get_by_role("button", name="Reset").click()
        stepper.row = row
        steps = stepper._steps("right")
        for i in range(4):
            page.get_by_role("button", name="Next").click()
            shown = page.locator("table").nth(0).locator("td").all_inner_texts()
            now = [cell.split("→")[-1].strip().replace("−", "-") for cell in shown]
            want = [steps["m"][i], steps["alpha"][i], steps["l"][i]]
            assert [float(x) for x in now[:3]] == pytest.approx(want, rel=1e-5)
            vector = [float(x) for x in now[3].strip("[]").split(",")]
            assert vector == pytest.approx(list(steps["o"][i]), rel=1e-4)


@pytest.mark.browser
def test_play_runs_and_pauses_and_python_can_drive(mount):
    page = mount(by_hand(), reduced=True)
    assert page.evaluate("facModel.get('step')") == 0  # nothing plays by itself
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("facModel.get('step') >= 1")
    page.get_by_role("button", name="Pause").click()
    page.evaluate("facModel.set('step', 15)")
    assert "Streamed" in page.inner_text(".fac")


def test_numpy_tiled_agrees_with_the_default_example():
    """The default q, k, v give what lesson 04's tiled attention gives for the same tiles."""
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((n, 8)) * 1.1 for n in (8, 32, 32))
    o, _ = tiled(q, k, v, block_q=8, block_k=8)
    stepper = TileStepper()
    for row in range(8):
        stepper.row = row
        np.testing.assert_allclose(stepper.streamed(), o[row], rtol=1e-12)


@pytest.mark.filterwarnings("error::RuntimeWarning", "error::UserWarning")
def test_masked_keys_have_no_bar_in_the_figure():
    """Nor does a row whose first tile is masked as a whole upset the drawing."""
    stepper = TileStepper.by_hand([[-math.inf, -math.inf], [1, -math.inf]], [[1, 2], [3, 4]])
    figure = stepper.to_figure()
    assert "<svg" in figure._repr_html_()
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    assert np.isfinite(heights).tolist() == [False, False, True, False]


# The picture is the handle ------------------------------------------------------------------------

HEIGHT = "() => document.querySelector('.fac').getBoundingClientRect().height"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.parametrize("mistake", ["none", "neither"])
@pytest.mark.few(1)
def test_its_height_never_changes_while_stepping(mount, width, mistake):
    for stepper in (by_hand(), TileStepper()):
        stepper.mistake = mistake
        page = mount(stepper, width=width, reduced=True, again=True)
        heights = set()
        for step in range(stepper.last_step + 1):
            page.evaluate("step => facModel.set('step', step)", step)
            heights.add(page.evaluate(HEIGHT))
        assert len(heights) == 1


def tall(page, title: str) -> float:
    """Return the height in pixels of the part of the picture with a title."""
    part = page.locator(f".fac-stage rect:has(> title:text('{title}'))")
    return float(part.get_attribute("height"))


@pytest.mark.browser
def test_the_old_stack_shrinks_by_alpha_and_the_new_part_is_what_lies_on_the_desk(mount):
    """Line 6 of the second tile: ℓ's first segment is exp(-2) of what it was; its ghost stays."""
    page = mount(by_hand(), width=1280, reduced=True)
    segments = page.locator("[data-fac-part=stepper-notes] .fac-edge.fac-step-bar")
    page.evaluate("facModel.set('step', 11)")
    before = float(segments.first.get_attribute("height"))
    page.evaluate("facModel.set('step', 12)")
    after = float(segments.first.get_attribute("height"))
    assert after == pytest.approx(before * math.exp(-2), rel=1e-6), "the new part lies on the rest"
    low, high = tall(page, "p of key 2:"), tall(page, "p of key 3:")
    assert low / high == pytest.approx(math.exp(-3), rel=1e-3), "weights, from 0 to 1"
    assert "sum 1.05" in page.text_content(".fac-stage"), "exp(-3) + 1"
    page.evaluate("facModel.set('step', 13)")
    old, new = (float(segments.nth(i).get_attribute("height")) for i in range(2))
    assert old == pytest.approx(before * math.exp(-2), rel=1e-6)
    share = (math.exp(-3) + 1) / ((math.exp(-2) + 1) * math.exp(-2))  # beside the old sum's rest
    assert new / old == pytest.approx(share, rel=1e-6)
    ghost = page.locator("[data-fac-part=stepper-notes] .fac-step-ghost").first
    assert float(ghost.get_attribute("height")) == pytest.approx(before, rel=1e-6)


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_bars_of_p_stack_into_l(mount, width):
    """p is as tall as it will be in ℓ, beside a stack of it: what lands can be followed by size.

    It was three times as tall ("3 × as in ℓ"); ℓ showed what it would get while p still ran.
    """
    stepper = TileStepper()
    page = mount(at(stepper, 12), width=width, reduced=True)
    box = "ns => ns.map((n) => (({ y, height }) => [y, height])(n.getBBox()))"
    bars = page.locator("[data-fac-part=stepper-tiles] + g rect.fac-step-bar").evaluate_all(box)
    old = page.locator("[data-fac-part=stepper-notes] .fac-step-bar").first.evaluate_all(box)
    first, stop = stepper.data["tiles"][1]
    assert not re.search(r"\d × (as|ℓ)", page.text_content(".fac-stage"))
    heap = page.locator(".fac-step-heap").evaluate_all(box)
    assert page.locator(".fac-step-flown").count() == 0
    assert page.locator(".fac-step-landed").count() == 0, "the line of ℓ has not run yet"
    says = page.locator(".fac-stage text", has_text="exp(−").bounding_box()
    assert any("= 0.272" in text for text in page.locator(".fac-stage text").all_text_contents())
    way = page.locator(".fac-step-link").evaluate(
        """n => Array.from({ length: 200 }, (_, i) => (i * n.getTotalLength()) / 199)
          .map((at) => n.getPointAtLength(at).matrixTransform(n.getScreenCTM()))
          .map((p) => [p.x, p.y])"""
    )
    apart = not any(
        says["x"] < px < says["x"] + says["width"] and says["y"] < py < says["y"] + says["height"]
        for px, py in way
    )
    assert apart, "what leads to the weights stays off their words"
    page.evaluate("facModel.set('step', 13)")
    parts = page.locator("[data-fac-part=stepper-notes] .fac-step-landed").evaluate_all(box)
    assert len(parts) == stop - first
    for drawn in (bars, heap):
        assert [tall for _, tall in parts] == pytest.approx([t for _, t in drawn], abs=0.05)
    assert page.locator(".fac-step-flown").evaluate_all(box) == heap, "its outline stays behind"
    assert "+ 0.552" in page.locator(".fac-stage text").all_text_contents()
    tops = [old[0][0], *(y for y, _ in parts)]
    heights = [tall for _, tall in parts]
    assert tops[1:] == pytest.approx([y - h for y, h in zip(tops, heights, strict=False)], abs=0.01)
    steps = stepper._steps("right")
    assert old[0][1] / steps["l"][0] == pytest.approx(sum(heights) / steps["p"][1].sum(), rel=1e-3)
    page.evaluate("facModel.set('step', 14)")
    assert page.locator(".fac-step-landed").count() == 0, "then forgotten"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_line_that_runs_stands_once_and_its_numbers_beside_next(mount, width):
    """The line stood above the buttons and again, marked, in the code right below them."""
    page = mount(by_hand(), width=width, reduced=True)
    words, button = page.locator(".fac-step-words"), page.get_by_role("button", name="Next")
    names = "__smαpℓO"
    for step in range(2, 8):
        page.evaluate(f"facModel.set('step', {step})")
        assert f"Tile 1 of 2: {names[step]} = " in words.text_content()
        line = page.locator("[aria-current=step]").text_content()[:9]
        assert page.evaluate("document.querySelector('.fac').textContent").count(line) == 1
    assert button.bounding_box()["y"] - words.bounding_box()["y"] < 70
    page.get_by_role("button", name="O is not rescaled").click()
    page.evaluate("facModel.set('step', 11)")
    assert "✗ ℓ = α·ℓ, m = m" in page.locator("[aria-current=step]").text_content()


@pytest.mark.browser
def test_on_a_phone_what_is_kept_stays_in_its_box_and_order_is_no_mistake(mount):
    """`sum of p · V` ran out of it; α had three digits in ℓ, four in O; Order stood among them."""
    page = mount(at(by_hand(), 11), width=480, reduced=True)
    band = page.locator(".fac-step-kept").bounding_box()
    for text in page.locator(".fac-stage text", has_text="sum of p · V").all():
        box = text.bounding_box()
        assert box["x"] + box["width"] < band["x"] + band["width"]
    factors = page.locator("[data-fac-part=stepper-notes] text", has_text="× ").all_text_contents()
    assert len(factors) == 2
    assert len(set(factors)) == 1
    order = page.get_by_label("Order").bounding_box()
    for button in page.locator(".fac-step-slip-button").all():
        box = button.bounding_box()
        assert box["y"] + box["height"] <= order["y"]


@pytest.mark.browser
def test_many_bars_have_the_room_that_there_is(mount):
    """Thirty-two of them were 9 px wide, beside panels with room to spare."""
    page = mount(at(TileStepper(), 12), width=1280, reduced=True)
    bars = page.locator(".fac-step-score").evaluate_all("ns => ns.map((n) => n.getBBox().width)")
    assert min(bars) > 13
    page = mount(at(TileStepper(), 12), width=480, reduced=True)
    bars = page.locator(".fac-step-score").evaluate_all("ns => ns.map((n) => n.getBBox().width)")
    assert min(bars) > 9


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_what_will_shrink_is_hatched_and_every_stack_has_its_scale(mount, width):
    """At the line of alpha, exp(-2): the part that goes is 1 - exp(-2) of the stack."""
    page = mount(by_hand(), width=width, reduced=True)
    page.evaluate("facModel.set('step', 11)")
    notes = page.locator("[data-fac-part=stepper-notes]")
    box = "n => (({ y, height }) => ({ y, height }))(n.getBBox())"  # without its stroke
    stack = notes.locator(".fac-edge.fac-step-bar").first.evaluate(box)
    gone = notes.locator(".fac-step-gone-part").first.evaluate(box)
    share = 1 - math.exp(-2)
    assert gone["height"] == pytest.approx(share * stack["height"], abs=1)
    assert gone["y"] == pytest.approx(stack["y"], abs=1)
    assert notes.locator("text").filter(has_text="× 0.135").count() == 2
    assert page.locator(".fac-step-axis").count() == 3  # of p, of ℓ, of O
    for axis in page.locator(".fac-step-axis").all():
        assert axis.bounding_box()["x"] > 0
    page.evaluate("facModel.set('step', 13)")
    assert notes.locator(".fac-step-gone-part").count() == 1, "only O is still to shrink"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.few(1)
def test_printed_numbers_multiply_to_what_is_printed(mount, width):
    """What stands at the line of alpha: a → b is a times the α in the sentence, share by share."""
    number = r"−?[\d.]+(?:e−?\d+)?"
    read = lambda text: float(text.replace("−", "-"))  # noqa: E731
    for stepper in (by_hand(), TileStepper()):
        page, seen = mount(stepper, width=width, reduced=True, again=True), 0
        for row in stepper.data["rows"]:
            page.evaluate(f"facModel.set('row', {row})")
            for tile in range(1, len(stepper.data["tiles"])):
                page.evaluate(f"facModel.set('step', {LINES_PER_TILE * tile + 4})")
                words = page.inner_text(".fac-step-words").strip()
                alpha = read(re.search(rf"= ({number})$", words)[1])
                rose = re.search(rf"exp\(−({number})\)", page.inner_text(".fac-step-title"))
                if rose:
                    assert math.exp(-read(rose[1])) == pytest.approx(alpha, rel=5.5e-3)
                drawn = " ".join(page.locator(".fac-stage text").all_text_contents())
                for text in re.findall(rf"{number} → {number}", drawn):  # on a phone in two lines
                    old, new = (read(found) for found in re.findall(number, text))
                    rounded = [float(f"{old * alpha:.{digits}g}") for digits in (2, 3)]
                    assert new in rounded, (text, alpha)
                    seen += 1
                assert not re.search(rf"{number} × {number} =", page.text_content(".fac-stage"))
        assert seen >= 2


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.few(1)
def test_a_bar_is_as_long_as_its_number(mount, width):
    """Scores, V and weights start at 0: one number of pixels for one, in every tile."""
    heights = "nodes => nodes.map(n => Number(n.getAttribute('height')))"
    below = TileStepper.by_hand([[-2, -1], [-4, -3]], values=[[10, 20], [30, 40]])
    for stepper in (by_hand(), TileStepper(), below):
        page = mount(at(stepper, 12), width=width, reduced=True, again=True)
        scores = np.array(stepper.data["scores"][str(stepper.row)])
        first, stop = stepper.data["tiles"][1]
        bars = {
            ".fac-step-score": scores,
            ".fac-step-v": np.array(stepper.data["values"])[:, 0],
            "[data-fac-part=stepper-tiles] + g rect.fac-step-bar": np.exp(
                scores[first:stop] - stepper._steps("right")["m"][1]
            ),
        }
        for where, numbers in bars.items():
            long = np.array(page.locator(where).evaluate_all(heights))
            if where == ".fac-step-v" and not len(long):
                continue  # by hand V is written, not drawn
            assert len(long) == len(numbers)
            seen = long > 2  # a bar is at least a line
            unit = long[seen] / np.abs(numbers)[seen]
            np.testing.assert_allclose(unit, unit[0], rtol=1e-6)


@pytest.mark.browser
@pytest.mark.few(1)
def test_thin_bars_have_one_handle_as_wide_as_a_finger(mount):
    page = mount(at(TileStepper(), 12), width=480, reduced=True)
    handle = page.locator("circle.fac-grab")
    box = handle.bounding_box()
    assert handle.count() == 1
    assert min(box["width"], box["height"]) >= 24
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y + 30, steps=3)
    page.mouse.up()
    changed = page.evaluate("facModel.get('changed')")
    assert len(changed) == 1
    assert handle.bounding_box()["y"] == pytest.approx(box["y"] + 30, abs=3), "it stays in the hand"


@pytest.mark.browser
def test_a_weight_is_how_far_its_score_lies_under_the_record(mount):
    """A line from each score up to m's, as long as s - m; the tallest's says its length."""
    page = mount(by_hand(), width=1280, reduced=True)
    page.evaluate("facModel.set('step', 12)")
    lines = page.locator(".fac-step-under")
    assert lines.count() == 1, "5 is the record itself"
    box = "n => n.getBBox().height"
    bars = page.locator(".fac-step-score.fac-known")
    apart = abs(bars.nth(1).evaluate(box) - bars.nth(0).evaluate(box))
    assert lines.first.evaluate(box) == pytest.approx(apart, abs=1)
    assert page.locator(".fac-stage text", has_text="−3").count() == 1
    page = mount(at(TileStepper(), 12), width=1280, reduced=True)
    assert page.locator(".fac-step-under").count() == 8
    assert page.locator(".fac-step-quiet").count() == 7, "one is followed to its weight"
    said = page.locator(".fac-stage text").all_text_contents()
    assert {"2.617 − 3.919", "= −1.302", "exp(−1.302)", "= 0.272"} <= set(said)
    assert not any("4.03" in text for text in said), "of a tile that has not been read"
    later = page.locator(".fac-step-score.fac-later").first
    assert float(later.evaluate("n => getComputedStyle(n).fillOpacity")) <= 0.1
    assert f"{math.exp(-1.302):.3g}" == "0.272", "what is printed is true of what is printed"
    page.evaluate("facModel.set('step', 13)")
    assert page.locator(".fac-step-under").count() == 0


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.few(1)
def test_no_number_is_cut_at_the_edge(mount, width):
    """The answer's five digits stood half outside of the picture."""
    out = """() => { const all = document.querySelector('.fac-stage').getBoundingClientRect();
      return [...document.querySelectorAll('.fac-stage text')].filter((t) => t.textContent)
        .map((t) => [t.textContent, t.getBoundingClientRect()])
        .filter(([, r]) => r.left < all.left - 1 || r.right > all.right + 1).map(([t]) => t); }"""
    for stepper in (by_hand(), TileStepper()):
        page = mount(stepper, width=width, reduced=True, again=True)
        for step in range(stepper.last_step + 1):
            page.evaluate(f"facModel.set('step', {step})")
            assert page.evaluate(out) == [], step


@pytest.mark.browser
def test_a_new_record_leaves_the_answer_as_it_is_and_says_so(mount):
    page = mount(at(by_hand(), 11), width=1280, reduced=True)
    assert "unchanged: bothshrink alike" in page.text_content(".fac-stage")
    page.evaluate("facModel.set('step', 15)")
    assert "unchanged" not in page.text_content(".fac-stage")


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_values_stand_under_their_scores(mount, width):
    """O came from nowhere where V had no room for its numbers: there are bars, to one scale."""
    stepper = TileStepper()
    page = mount(at(stepper, 12), width=width, reduced=True)
    bars = page.locator(".fac-step-v").evaluate_all("ns => ns.map(n => n.getBBox().height)")
    values = np.abs(np.array(stepper.data["values"])[:, 0])
    tall = values > 0.2  # the least are a line
    ratio = np.array(bars)[tall] / values[tall]
    assert len(bars) == 32
    assert ratio == pytest.approx(ratio[0], rel=0.1)
    assert page.locator(".fac").bounding_box()["height"] < 1000
    page = mount(at(by_hand(), 12), width=width, reduced=True)
    assert page.locator(".fac-step-v").count() == 0
    assert "V = 40" in page.text_content(".fac-stage")


@pytest.mark.browser
def test_one_tile_is_at_hand_and_no_step_is_shown_before_it_is_made(mount):
    """Bars alike hid that tiles come one at a time; a handle on some denied "drag any bar"."""
    page = mount(by_hand(), width=1280, reduced=True)
    knob, later = page.locator("circle.fac-knob"), page.locator(".fac-step-score.fac-later")
    for step in (0, 5):
        page.evaluate(f"facModel.set('step', {step})")
        assert later.count() == 2, "tile A at hand, tile B to come"
        assert knob.count() == 4, "any bar can be dragged"
        assert page.get_by_role("slider", name="score of key 3").count() == 1, "still a handle"
    page.evaluate("facModel.set('step', 12)")
    assert page.locator(".fac-step-score.fac-gone").count() == 2
    assert "tile A ✓" in page.text_content(".fac-stage")
    assert "kept from tile to tile" in page.text_content(".fac-stage")
    page.evaluate("facModel.set('step', 0)")
    bars = page.locator("[data-fac-part=stepper-notes] rect:not(.fac-step-band)")
    assert bars.count() == 0
    page.evaluate("facModel.set('step', 7)")  # the first pile is folded in
    assert bars.count() >= 2
    dot = page.locator(".fac-step-dot")
    assert "fac-step-later" in dot.get_attribute("class")
    page.evaluate("facModel.set('step', 15)")
    assert "fac-step-later" not in dot.first.get_attribute("class")


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_all_lines_are_seen_and_the_answer_stands_in_their_place(mount, width):
    """Five lines of ten on a phone: without "for each tile" no loop is seen."""
    page = mount(at(by_hand(), 5), width=width, reduced=True)
    assert page.locator(".fac-code li:visible").count() == LINES_PER_TILE + 3
    assert not page.locator(".fac-final").is_visible()
    tall = page.locator(".fac").bounding_box()["height"]
    page.evaluate("facModel.set('step', 15)")
    assert not page.locator(".fac-code").is_visible()
    assert page.locator(".fac-final").is_visible()
    assert page.locator(".fac").bounding_box()["height"] == tall


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_exact_answer_is_a_line_that_the_walk_comes_to(mount, width):
    """It stood there only at the end: nothing was seen to arrive, and no mistake to miss it."""
    page = mount(by_hand(), width=width, reduced=True)
    line, heights = page.locator(".fac-step-truth"), set()
    middle = "n => { const b = n.getBBox(); return b.y + b.height / 2; }"
    for step in range(16):
        page.evaluate(f"facModel.set('step', {step})")
        heights.add(round(line.evaluate(middle), 2))
    assert len(heights) == 1, "it never moves"
    assert "exact" not in page.text_content(".fac-stage"), "at the end the answer is named itself"
    dot = page.locator(".fac-step-dot")
    assert dot.last.evaluate(middle) == pytest.approx(heights.pop(), abs=0.5)
    page.evaluate("facModel.set('step', 0)")
    assert "exact" in page.text_content(".fac-stage")
    page.get_by_role("button", name="nothing is rescaled").click()
    page.evaluate("facModel.set('step', 15)")
    cross = page.locator(".fac-step-cross").evaluate(middle)
    assert abs(cross - line.evaluate(middle)) > 15, "a mistake misses"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_no_line_of_m_strikes_a_score_out(mount, width):
    """ "m was 3" went through the 2 of tile B."""
    page = mount(at(by_hand(), 11), width=width, reduced=True)
    box = "n => { const b = n.getBBox(); return [b.y, b.y + b.height]; }"
    lines = page.locator(".fac-step-m, .fac-stage path.fac-step-m-old").evaluate_all(
        f"ns => ns.map({box})"
    )
    for number in ("1", "2", "3", "5"):
        label = page.locator("[data-fac-part=stepper-tiles] text").get_by_text(number, exact=True)
        top, low = label.evaluate(box)
        assert not any(y - 1 < low - 3 and top + 3 < y2 + 1 for y, y2 in lines), number


@pytest.mark.browser
def test_a_mistake_stands_above_what_an_average_can_be(mount):
    stepper = by_hand()
    stepper.mistake, stepper.step = "no_rescale_o", stepper.last_step
    page = mount(stepper, width=1280, reduced=True)
    band = page.locator(".fac-step-band").last.bounding_box()
    cross = page.locator(".fac-step-cross").bounding_box()
    assert cross["y"] + cross["height"] < band["y"]
    assert "✗ 52.223 impossible" in page.text_content(".fac-stage")


@pytest.mark.browser
def test_a_score_is_dragged_and_python_computes_the_same(mount):
    stepper = by_hand()
    stepper.step = stepper.last_step
    page = mount(stepper, width=1280, reduced=True)
    box = page.locator("[data-key='0']").bounding_box()
    page.mouse.move(box["x"] + 9, box["y"] + box["height"] * 0.9)
    page.mouse.down()
    page.mouse.move(box["x"] + 9, box["y"] + box["height"] * 0.4, steps=4)
    page.mouse.up()
    stepper.changed = page.evaluate("facModel.get('changed')")
    assert list(stepper.changed) == ["0:0"]
    assert stepper.changed["0:0"] > 3
    assert f"[{stepper.answer[0]:.5g}]" in page.inner_text(".fac-final")
    assert stepper.streamed() == pytest.approx(stepper.answer, rel=1e-12)
    assert stepper.answer[0] < 36
    page.get_by_role("button", name="Undo").click()
    assert "All at once: [36.881]" in page.inner_text(".fac-final")
    assert not page.get_by_role("button", name="Undo").is_visible()


@pytest.mark.browser
def test_piles_are_dragged_to_another_place_and_the_end_is_the_same(mount):
    stepper = TileStepper()
    stepper.step = stepper.last_step
    page = mount(stepper, width=1280, reduced=True)
    before = page.inner_text(".fac-final")
    first, last = (page.locator(f"[data-tile='{i}']").bounding_box() for i in (0, 3))
    page.mouse.move(first["x"] + 5, first["y"] + 5)
    page.mouse.down()
    page.mouse.move(last["x"] + 9, last["y"] + 5, steps=6)
    page.mouse.up()
    stepper.order = page.evaluate("facModel.get('order')")
    assert stepper.order == [1, 2, 3, 0]
    assert stepper._ordered()[-1] == (0, 8)
    assert page.inner_text(".fac-final") == before
    assert "as in the order given" in page.text_content(".fac-stage")
    np.testing.assert_allclose(stepper.streamed(), stepper.answer, rtol=1e-12)


@pytest.mark.browser
def test_scores_and_piles_by_keyboard(mount):
    page = mount(by_hand(), width=1280, reduced=True)
    page.keyboard.press("Tab")
    for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowUp", "PageDown"):
        page.keyboard.press(key)
    assert page.evaluate("facModel.get('changed')") == {"0:1": 2.7}
    page.keyboard.press("Shift+ArrowRight")
    assert page.evaluate("facModel.get('order')") == [1, 0]
    focus = page.evaluate("[document.activeElement.ariaLabel, document.activeElement.ariaValueNow]")
    assert focus == ["score of key 1, tile A", "2.7"]


@pytest.mark.browser
def test_what_a_kernel_loaded_is_not_dragged(mount):
    stepper = by_hand()
    stepper.data = {**stepper.data, "fixed": True}
    page = mount(stepper)
    assert page.locator("[role=slider], [data-tile]").count() == 0
    assert page.get_by_label("Order").count() == 0


def test_two_queries_by_hand():
    stepper = TileStepper.by_hand(PILES, VALUES, others=[[[5, 1], [0, 0]]])
    stepper.row = 1
    weights = np.exp([5, 1, 0, 0])
    assert stepper.streamed()[0] == pytest.approx(weights @ [10, 20, 30, 40] / weights.sum())
    assert stepper.streamed() == pytest.approx(stepper.answer)


@pytest.mark.browser
def test_on_a_phone_the_words_of_the_weights_keep_off_axes_and_of_the_next_heading(mount):
    page = mount(at(TileStepper(), 12), width=480, reduced=True)
    stage = page.locator(".fac-stage")
    heading, other = (
        stage.locator("text.fac-t-name", has_text=re.compile(f"^{text}$")).first.bounding_box()
        for text in ("weights p", "ℓ")
    )
    assert heading["x"] + heading["width"] + 20 < other["x"]
    axis = stage.locator(".fac-step-axis").first.bounding_box()
    assert stage.locator("text", has_text="exp(−1.302)").bounding_box()["x"] > axis["x"] + 2
    below = stage.locator("text", has_text="sum 0.552").last.bounding_box()
    assert below["y"] > axis["y"] + axis["height"], "no word stands where a bar can"


@pytest.mark.browser
def test_a_title_speaks_of_what_is_drawn(mount):
    """Of a score at m, which no tile had; the weight of the one that is followed is."""
    page = mount(at(TileStepper(), 12), width=1280, reduced=True)
    assert page.inner_text(".fac-step-title") == "A score 1.302 below m weighs 0.272"
    page = mount(by_hand(), width=1280, reduced=True)
    for step in range(15):
        page.evaluate(f"facModel.set('step', {step})")
        assert "record" not in page.inner_text(".fac-step-title")


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_a_mistake_is_seen_at_the_line_that_is_wrong(mount, width):
    """The old sums shrink, or should, at the line of α; its factor stands clear of the headings."""
    stepper = by_hand()
    stepper.mistake = "no_rescale_o"
    page = mount(at(stepper, 11), width=width, reduced=True)
    assert "✗ ℓ = α·ℓ, m = m" in page.inner_text("[aria-current=step]").replace("\n", " ")
    drawn = page.locator(".fac-stage text").all_text_contents()
    assert {"2.89", "✗ 21.35", "✗ 0.1537"} <= set(drawn)
    heading = page.locator(".fac-stage text.fac-t-name", has_text=re.compile("^O")).first
    factor = page.locator(".fac-stage text", has_text="× 0.1353").last
    line, above = (float(node.get_attribute("y")) for node in (factor, heading))
    assert line - above > 12, "a line of its own"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_m_is_kept_beside_the_sums_at_its_height_among_the_scores_and_stays_or_rises(mount, width):
    """It stood in a line of small print; that it stays, where no score is larger, was not seen."""
    page = mount(by_hand(), width=width, reduced=True)
    box = "n => (({ x, y, width, height }) => ({ x, y, width, height }))(n.getBBox())"
    kept = page.locator(".fac-step-kept").evaluate(box)
    track = page.locator(".fac-step-track").evaluate(box)
    stacks = page.locator("[data-fac-part=stepper-notes] .fac-step-axis").evaluate_all(
        f"ns => ns.map({box})"
    )
    for part in (track, *stacks):
        assert kept["x"] < part["x"]
        assert part["x"] + part["width"] < kept["x"] + kept["width"]
    m = page.locator("[data-fac-part=stepper-notes] .fac-step-m")
    assert m.count() == 0, "m = -inf"
    heights = {}
    for step in (7, 10, 11, 14):
        page.evaluate(f"facModel.set('step', {step})")
        y = m.evaluate("n => n.getBBox().y + n.getBBox().height / 2")
        heights[step] = (track["y"] + track["height"] - y) / track["height"]
    assert heights[7] == heights[10], "the new one is known, the old one is kept"
    assert heights[11] == heights[14]
    assert heights[11] / heights[7] == pytest.approx(5 / 3, rel=0.01), "one scale: the scores'"
    page.evaluate("facModel.set('step', 11)")
    assert "was 3" in page.locator("[data-fac-part=stepper-notes] text").all_text_contents()
    page.evaluate("facModel.set('reverse', true)")
    before = m.evaluate(box)
    for step in (10, 11, 12):
        page.evaluate(f"facModel.set('step', {step})")
        assert m.evaluate(box) == before
        assert "stays" in page.locator("[data-fac-part=stepper-notes] text").all_text_contents()


@pytest.mark.browser
def test_a_mistake_is_a_button_that_stays_down_until_it_is_pressed_again(mount):
    page = mount(by_hand(), width=480, reduced=True)
    button = page.get_by_role("button", name="nothing is rescaled")
    for name in ("neither", "none"):
        button.click()
        assert page.evaluate("facModel.get('mistake')") == name
        assert button.get_attribute("aria-pressed") == str(name == "neither").lower()


@pytest.mark.browser
def test_the_picture_is_larger_than_the_code_and_one_mistake_is_the_first(mount):
    """Code and mistakes took as much room as the chart; of six mistakes none came first."""
    page = mount(at(TileStepper(), 12), width=1280, reduced=True)
    chart, code = (page.locator(what).bounding_box() for what in (".fac-stage", ".fac-code"))
    assert chart["height"] > 1.7 * code["height"]
    plate = page.locator(".fac-step-plate").first.bounding_box()
    assert plate["height"] > 310
    (first,) = page.locator(".fac-step-first").all_text_contents()
    assert f"first “{first}”" in page.inner_text(".fac-step-try")
    stepper = by_hand()
    assert stepper.streamed(next(k for k, v in VARIANTS.items() if v == first)) > max(VALUES[1])
