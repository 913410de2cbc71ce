"""HBMAccountant: its areas are `accounting.traffic`, in Python and in the browser."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from traitlets import TraitError

from course_lib.accounting.format import bytes_decimal
from course_lib.accounting.ledger import Ledger
from course_lib.accounting.measurements import load_measurements
from course_lib.accounting.traffic import (
    MODELS,
    crossover_n,
    reduction_factor,
)
from course_lib.widgets import HBMAccountant
from course_lib.widgets.accountant import DTYPES, PRESETS
from course_lib.widgets.accountant_areas import placed


def test_the_numbers_of_lesson_02():
    """17.45 GB against 0.27 GB, 65 times; N overtakes at d."""
    accountant = HBMAccountant()
    assert accountant.bytes("naive_four_trips") == pytest.approx(17.45e9, rel=1e-3)
    ratio = accountant.bytes("naive_four_trips") / accountant.bytes("flash_compulsory")
    assert ratio == pytest.approx(reduction_factor(8192, 128)) == 65
    assert accountant.crossover("naive_four_trips") == crossover_n(128)
    assert accountant.crossover("flash_tile_loads") is None
    assert "17.45 GB" in accountant.to_table()


def test_footprint_is_what_was_measured():
    """FACTS: at H = 8, d = 128, bf16 and N = 8192 eager held 2048 MiB, flash 16 MiB."""
    accountant = HBMAccountant(preset="The counters' case (H = 8)")
    assert accountant.footprint("eager_six_trips") == 2048 * 2**20
    assert accountant.footprint("flash_compulsory") == 16 * 2**20


@pytest.mark.parametrize("preset", list(PRESETS))
def test_table_and_figure_agree_with_the_models(preset):
    accountant = HBMAccountant(preset=preset)
    shape = {k: v for k, v in PRESETS[preset].items() if k not in ("layers", "batch")}
    want = [
        PRESETS[preset]["layers"] * model.bytes(**shape, b=2, block_q=128, block_k=128)
        for model in accountant.models
    ]
    assert [row["bytes"] for row in accountant.rows()] == want
    areas, plot = accountant.to_figure().axes
    drawn = iter(areas.patches)
    times = 2 * PRESETS[preset]["layers"] * PRESETS[preset]["heads"]
    for model in accountant.models:
        total = accountant.bytes(model)
        trips = [next(drawn) for _ in accountant.areas(model)]
        area = sum(trip.get_width() * trip.get_height() for trip in trips)
        assert area * times == pytest.approx(total)
    assert next(drawn, None) is None
    at = list(plot.lines[0].get_xdata()).index(PRESETS[preset]["n"])
    assert [line.get_ydata()[at] for line in plot.lines[:4]] == want
    assert accountant.to_table().count("FLOP/byte") == 4


def test_only_the_models_asked_for_in_their_order_the_lower_bound_before_all():
    names = ["eager_six_trips", "flash_compulsory", "naive_four_trips"]
    accountant = HBMAccountant(models=names, n=1024, heads=8)
    assert [model.name for model in accountant.models] == [names[1], names[0], names[2]]
    assert accountant.kv_heads == 8


COUNTERS = load_measurements("h100_dram_traffic")


def counted(n: int, causal: bool) -> float:
    """Return the middle of the bytes that the counters saw, for 8 heads."""
    want = {"n": n, "heads": 8, "causal": causal}
    (row,) = (row for row in COUNTERS["rows"] if want.items() <= row.items())
    return sum(row["dram_gb"]) / 2 * 1e9


@pytest.mark.parametrize("n", [16, 100, 8192, 2**20])
def test_areas_are_areas_and_no_trip_lies_on_another(n):
    """Their sum is the model's bytes; N x N for each trip of scores, a strip for Q, K, V and O."""
    accountant = HBMAccountant(n=n, kv_heads=8, block_q=48)
    for model in accountant.models:
        trips = placed(accountant.areas(model))
        area = sum(trip["wide"] * trip["tall"] for trip in trips)
        assert area * 2 * 32 == pytest.approx(accountant.bytes(model))
        square = [trip for trip in trips if trip["kind"] == "square"]
        assert all(trip["wide"] == trip["tall"] == n for trip in square)
        for a, b in combinations(trips, 2):
            apart = [
                a[at] + a[size] <= b[at] + 1e-9 or b[at] + b[size] <= a[at] + 1e-9
                for at, size in (("x", "wide"), ("y", "tall"))
            ]
            assert any(apart), (model.name, a, b)


def test_launches_set_the_pace_of_a_short_call():
    """At N = 16 on an H100 four launches take 20 us, and nothing else takes one."""
    accountant = HBMAccountant(n=16, heads=1)
    assert accountant.pace("eager_six_trips")["overhead"] == pytest.approx(20e-6)
    assert {row["pace"] for row in accountant.rows()} == {"overhead"}
    paces = [row["pace"] for row in HBMAccountant().rows()]
    assert paces == ["arithmetic", "traffic", "traffic", "traffic"]


def test_ledger_and_counters_join_the_axis():
    accountant = HBMAccountant(preset="The counters' case (H = 8)")
    ledger = Ledger()
    ledger.note_read("q", 1000)
    ledger.note_written("o", 500)
    accountant.add_ledger(ledger, "mine")
    accountant.add_measurement({"label": "GPU, ncu", "bytes": 7e7, "n": 8192})
    assert [entry["bytes"] for entry in accountant.extra] == [1500, 7e7]
    assert "mine" in accountant.to_table()
    assert (8192, 7e7) in accountant.points()
    assert (32768, pytest.approx(counted(32768, False))) in accountant.points()
    accountant.causal = True
    assert (131072, pytest.approx(counted(131072, True))) in accountant.points()
    accountant.add_measurement(COUNTERS)
    assert len(accountant.extra) == 2 + len(COUNTERS["rows"])


@pytest.mark.parametrize(
    ("act", "error", "sentence"),
    [
        (lambda a: setattr(a, "n", 0), TraitError, "n must be a whole number from 1"),
        (lambda a: setattr(a, "n", 2**21), TraitError, "to 1048576"),
        (lambda a: setattr(a, "n", 1.5), TraitError, "int"),
        (lambda a: setattr(a, "kv_heads", 5), TraitError, "multiple of kv_heads"),
        (lambda a: setattr(a, "dtype", "int4"), TraitError, "fp32"),
        (lambda a: a.add_ledger(Ledger()), ValueError, "at least one byte"),
        (lambda a: a.add_measurement({"bytes": 3}), ValueError, "label"),
        (lambda a: a.add_measurement({"label": "x", "bytes": -1}), ValueError, "positive"),
        (lambda a: a.add_measurement({"rows": [{}]}), ValueError, "dram_gb"),
        (lambda _: HBMAccountant(models=["typo"]), ValueError, "models must be among"),
        (lambda _: HBMAccountant(models=[]), ValueError, "at least one model"),
        (lambda _: HBMAccountant(preset="typo"), ValueError, "preset must be"),
        (lambda _: HBMAccountant(seq=3), ValueError, "no setting 'seq'"),
        (lambda _: HBMAccountant(gpu="typo"), ValueError, "gpu must be"),
    ],
)
def test_bad_values_get_one_sentence_and_change_nothing(act, error, sentence):
    accountant = HBMAccountant()
    before = accountant.to_table()
    with pytest.raises(error, match=sentence):
        act(accountant)
    assert accountant.to_table() == before


def test_heads_and_kv_heads_can_change_together():
    accountant = HBMAccountant()
    accountant.set(heads=12, kv_heads=3)
    with pytest.raises(TraitError, match="got 12 and 5"):
        accountant.set(heads=12, kv_heads=5)
    assert (accountant.heads, accountant.kv_heads) == (12, 3)
    assert accountant.bytes("flash_compulsory") == MODELS["flash_compulsory"].bytes(
        n=8192, d=128, heads=12, kv_heads=3
    )


def shown_bytes(page) -> list[str]:
    return page.locator(".fac-bar .fac-bytes").all_inner_texts()


def ratios(page) -> list[str]:
    return page.locator(".fac-bar-head em").all_inner_texts()


def unfold(page) -> None:
    """Open what stands under "more" and the plot over N."""
    for summary in page.locator(".fac-more > summary").all():
        summary.click()


def pythons_bytes(settings: dict) -> list[str]:
    return [bytes_decimal(row["bytes"]) for row in HBMAccountant(**settings).rows()]


@pytest.mark.browser
def test_every_setting_moves_the_bars_to_pythons_numbers(mount, check_page):
    page = mount(HBMAccountant(), width=320)
    check_page(page)
    unfold(page)
    boxes = ["n", "d", "heads", None, "layers", "batch", "block_q", "block_k"]
    typed = {"n": 4000, "d": 64, "heads": 16, "layers": 3, "batch": 2, "block_q": 48, "block_k": 32}
    settings: dict = {}
    for name, value in typed.items():
        box = page.locator("input[type=text]").nth(boxes.index(name))
        box.fill(str(value))
        box.press("Enter")
        settings[name] = value
        assert shown_bytes(page) == pythons_bytes({"heads": 32, **settings})
    page.get_by_label("causal").check()
    page.get_by_label("dtype").select_option("fp32")
    assert shown_bytes(page) == pythons_bytes({**settings, "causal": True, "dtype": "fp32"})
    check_page(page)


@pytest.mark.browser
def test_keyboard_moves_a_slider_by_a_factor_of_two(mount):
    page = mount(HBMAccountant())
    unfold(page)
    slider = page.locator("input[type=range]").first
    slider.press("ArrowRight")
    assert page.evaluate("facModel.get('n')") == 16384
    slider.press("End")
    assert page.evaluate("facModel.get('n')") == 2**20
    ratio = page.locator("input[type=range]").nth(3)
    ratio.press("ArrowRight")
    ratio.press("ArrowRight")
    assert page.evaluate("facModel.get('kv_heads')") == 8
    heads = page.locator("input[type=text]").nth(2)
    heads.fill("12")
    heads.press("Enter")
    assert page.evaluate("[facModel.get('heads'), facModel.get('kv_heads')]") == [12, 3]


@pytest.mark.browser
def test_the_axis_over_n_reaches_as_far_as_n(mount):
    """The mark of N stays on the plot, whose axis grows; both ratios are written alike."""
    page = mount(HBMAccountant(n=2**18))
    unfold(page)
    assert "1M" not in page.inner_text(".fac-plot")
    page.locator("input[type=range]").first.press("End")
    assert page.evaluate("facModel.get('n')") == 2**20
    mark = page.locator(".fac-here")
    assert mark.evaluate("n => n.style.display") == ""
    width = page.locator(".fac-plot svg[role=img]").evaluate("n => n.viewBox.baseVal.width")
    assert 66 < float(mark.get_attribute("x1")) < width
    assert "2M" in page.inner_text(".fac-plot")
    page = mount(HBMAccountant(models=["naive_four_trips", "flash_compulsory"], n=24, batch=128))
    assert ratios(page) == ["1 × the bytes", "1.19 × the bytes"]


@pytest.mark.browser
@pytest.mark.parametrize("typed", ["0", "-5", "1.5", "2^40", "1e400", "many", ""])
def test_a_bad_value_says_what_is_allowed_and_keeps_the_last_good_state(mount, typed):
    page = mount(HBMAccountant())
    before = shown_bytes(page)
    box = page.locator("input[type=text]").first
    box.fill(typed)
    box.press("Enter")
    page.keyboard.press("Tab")
    assert "whole number from 1 to 1048576" in page.inner_text(".fac")
    assert box.get_attribute("aria-invalid") == "true"
    assert shown_bytes(page) == before
    box.fill("2^12")
    box.press("Enter")
    assert page.evaluate("facModel.get('n')") == 4096
    assert "whole number" not in page.inner_text(".fac")


@pytest.mark.browser
def test_words_presets_extras_and_counters(mount, check_page):
    accountant = HBMAccountant(models=["naive_four_trips", "flash_compulsory"])
    ledger = Ledger()
    ledger.note_read("q", 12_345_000)
    accountant.add_ledger(ledger, "mine")
    page = mount(accountant, width=480, dark=True)
    unfold(page)
    words = page.inner_text(".fac-words")
    assert (
        "Naive moves 65 × the least (each of Q, K, V, O once), FlashAttention 1 ×; in time 4.7 ×."
        in words
    )
    assert shown_bytes(page)[-1] == bytes_decimal(12_345_000)
    assert page.get_by_text("no area here depends on it").count() == 2
    plot = page.locator(".fac-plot").filter(has_text="N² takes over: 128")
    plot.wait_for(state="attached")  # it is drawn when its folder has opened, a moment later
    page.get_by_role("button", name="H = 8, d = 128, causal").first.click()
    assert page.locator(".fac-point").count() == 2
    assert f"{bytes_decimal(counted(131072, True))} at N = 131072" in page.inner_text(".fac")
    page.get_by_label("Preset").select_option("Llama-3-8B, 128k")
    want = HBMAccountant(preset="Llama-3-8B, 128k").bytes("naive_four_trips") / 1e12
    assert float(re.match(r"[\d.]+", shown_bytes(page)[1])[0]) == pytest.approx(want, rel=1e-3)
    terms = page.locator(".fac-sums li")  # spelled when the fold tells that it is open
    terms.filter(has_text="4 H N_q N_k b").first.wait_for()
    label = page.locator(".fac-plot svg[role=img]").get_attribute("aria-label")
    assert "At N = 131072" in label
    check_page(page)


def test_every_dtype_is_sent_with_its_bytes():
    assert HBMAccountant().data["dtypes"] == DTYPES == {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}


AREAS = """() => [...document.querySelectorAll('.fac-bar')].map((lane) =>
  [...lane.querySelectorAll('.fac-area')].map((n) =>
    ['x', 'y', 'width', 'height'].map((size) => n[size].baseVal.value)))"""


@pytest.mark.browser
@pytest.mark.parametrize("n", [100, 8192])
def test_what_is_65_times_more_looks_65_times_more(mount, n):
    """All lanes have one scale: pixels are to each other as the models' bytes."""
    accountant = HBMAccountant(n=n, kv_heads=16, causal=True)
    page = mount(accountant, width=1100)
    pixels = [sum(w * h for *_, w, h in lane) for lane in page.evaluate(AREAS)]
    want = [row["bytes"] for row in accountant.rows()]
    assert [x / pixels[0] for x in pixels] == pytest.approx([x / want[0] for x in want], rel=1e-3)


@pytest.mark.browser
def test_each_lane_says_how_many_times_the_least_it_moves(mount):
    """A reader of the picture alone took four trips at N = 8192 for 5 times the least."""
    page = mount(HBMAccountant(), width=1100)
    assert ratios(page) == [f"{x} × the bytes" for x in ("1", "32.5", "65", "97")]
    sizes = "nodes => nodes.map((n) => parseFloat(getComputedStyle(n).fontSize))"
    assert page.locator(".fac-bar-head em").evaluate_all(sizes)[0] >= 22


@pytest.mark.browser
def test_the_factor_can_be_counted_in_the_areas(mount):
    """Four squares of 64 strips and four strips are 65 times four: 4 x 64 + 4 = 65 x 4.

    "64 strips" was not explained where it stood: the square is 64 times Q.
    """
    page = mount(HBMAccountant(), width=1280)
    squares = [
        trip for trip in HBMAccountant().areas("naive_four_trips") if trip["kind"] == "square"
    ]
    assert page.locator("text.fac-on-s").filter(has_text=re.compile("^= 64 × Q$")).count() == 2
    assert len(squares) * 64 + 4 == 65 * 4
    said = page.inner_text(".fac-scale").replace("\u00a0", " ")
    strip = 8192 * 128 * 2 * 32
    assert f"A strip, N × d: Q, K, V or O, {bytes_decimal(strip)}." in said
    assert 64 * strip == 8192**2 * 2 * 32, "the square of the caption"


@pytest.mark.browser
def test_with_fewer_kv_heads_a_strip_of_k_is_less(mount):
    said = mount(HBMAccountant(kv_heads=8)).inner_text(".fac-scale").replace("\u00a0", " ")
    q, k = (bytes_decimal(8192 * 128 * 2 * heads) for heads in (32, 8))
    assert f"Q or O, {q}; K or V, {k}." in said


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_line_of_the_arithmetic_runs_through_no_name(mount, width):
    """It struck out the end of "read K ×64", and on a phone "write"."""
    page = mount(HBMAccountant(), width=width)
    met = page.evaluate(
        """() => { const box = (n) => n.getBoundingClientRect();
        const { x } = box(document.querySelector('.fac-clock-arithmetic'));
        return [...document.querySelectorAll('.fac-lane text:not([visibility=hidden])')]
          .filter((n) => n.textContent && box(n).x < x && x < box(n).right)
          .map((n) => n.textContent); }"""
    )
    assert met == []


@pytest.mark.browser
def test_equal_strips_are_drawn_equal(mount):
    """Snapped to whole pixels each, Q, K, V and O were 2, 1, 2 and 2 px."""
    page = mount(HBMAccountant(), width=1280)
    strips = page.locator(".fac-bar").first.locator(".fac-area")
    shapes = "nodes => nodes.map((n) => [n.width.baseVal.value, n.getAttribute('shape-rendering')])"
    assert len({tuple(shape) for shape in strips.evaluate_all(shapes)}) == 1
    assert strips.evaluate_all(shapes)[0][1] is None


def end_of(lane: list[list[float]]) -> float:
    """Return where the last area of a lane ends, in pixels from the first."""
    return max(x + w for x, _, w, _ in lane)


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_what_a_row_moves_is_its_time_on_the_axis_below(mount, width):
    """Bytes as areas and the same bytes as bars of time were one thing shown twice."""
    accountant = HBMAccountant()
    page = mount(accountant, width=width)
    places = page.locator(".fac-clock text[text-anchor=middle]").evaluate_all(
        "ns => ns.map((n) => [n.textContent, Number(n.getAttribute('x'))])"
    )
    (zero, start), (first, at) = places[:2]
    assert zero == "0 ms"
    second = (at - start) / (1e-3 * float(first))
    paces = [accountant.pace(model) for model in accountant.models]
    assert [end_of(lane) / second for lane in page.evaluate(AREAS)] == pytest.approx(
        [pace["traffic"] for pace in paces], rel=1e-2
    )
    lines = page.locator(".fac-clock-arithmetic")  # the same for all
    assert lines.count() == 4
    far = lines.evaluate_all("ns => ns.map((n) => n.getBBox().x)")
    assert far == pytest.approx(4 * [paces[0]["arithmetic"] * second], rel=1e-2)
    assert page.locator(".fac-time").all_text_contents() == [
        "1.11 ms",  # a row takes what sets its pace: here arithmetic, to whose line it is outlined
        "2.60 ms",
        "5.21 ms",
        "7.77 ms",
    ]
    said = page.inner_text(".fac")
    assert said.count("bytes: 0.0801 ms") == 1
    outline = page.locator(".fac-launch")
    assert outline.count() == 1
    ends = outline.evaluate("n => n.getBBox().x + n.getBBox().width")
    assert ends == pytest.approx(far[0], abs=1), "0.0801 ms stood at the line as its label"
    assert "arithmetic: 1.11 ms at 989 TFLOP/s" in said, "each time can be recomputed"
    assert "bytes at 3350 GB/s (H100)" in said
    assert "All times are the least by formula; none is measured." in said


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_launches_are_the_bar_and_the_bytes_a_part_of_it(mount, width):
    """Below 760 px of bytes, 0.157 us, stood 224 px of a launch, 5 us: the eye read the opposite.

    At N = 16 a launch is 32 times the bytes: one scale, and below a zoom between two lines.
    """
    accountant = HBMAccountant(n=16)
    page = mount(accountant, width=width)
    size = "ns => ns.map((n) => n.width.baseVal.value)"
    for lane, model, many in zip(
        page.locator(".fac-bar:visible").all(),
        ("flash_compulsory", "naive_four_trips", "eager_six_trips"),
        (1, 3, 4),
        strict=True,
    ):
        boxes = lane.locator(".fac-launch").evaluate_all(size)
        assert len(boxes) == many
        (filled,) = lane.locator(".fac-in-launch").evaluate_all(size)
        share = accountant.pace(model)["traffic"] / 5e-6
        assert filled / boxes[0] == pytest.approx(share, rel=1e-2)
        box = "n => { const r = n.getBoundingClientRect(); return [r.x, r.y, r.right, r.bottom]; }"
        says = lane.locator(".fac-clock-longest").text_content()
        assert says == f"{many} launch{'es' * (many > 1)}"
        box_, part_ = (
            lane.locator(what).first.evaluate("n => n.height.baseVal.value")
            for what in (".fac-launch", ".fac-in-launch")
        )
        assert box_ == part_, "filled as an area, from top to bottom"
        if model != "naive_four_trips":
            assert not lane.locator(".fac-zoom, .fac-area:visible").count(), "one zoom for all"
            continue
        part, zoom = (lane.locator(what).evaluate(box) for what in (".fac-in-launch", ".fac-zoom"))
        areas = lane.locator(".fac-area").evaluate_all(f"ns => ns.map({box})")
        assert zoom[1] == pytest.approx(part[3], abs=1), "from the part of the launches"
        assert min(y for _, y, *_ in areas) == pytest.approx(zoom[3], abs=1), "to the bytes"
        end = max(x for *_, x, _ in areas)
        assert end == pytest.approx(zoom[2], abs=2)
        factor = re.search(r"zoom(?:ed in)? ([\d.]+) ×", lane.text_content())[1]
        assert (end - zoom[0]) / filled == pytest.approx(float(factor), rel=0.02)
    visible = page.locator(".fac-bar-head em:visible").all_inner_texts()
    assert [" ".join(text.split()) for text in visible] == [
        f"{many} × the time" for many in (1, 3, 4)
    ]
    assert shown_bytes(page)[-2:] == ["15 µs", "20 µs"], "what the headline is about"
    assert page.locator(".fac-clock-arithmetic").count() == 0
    assert "A box: a launch, 5 µs. Filled: all bytes of the row" in page.inner_text(".fac")
    rows = page.evaluate(AREAS)
    assert end_of(rows[2]) / end_of(rows[0]) == pytest.approx(1.125, rel=1e-2)


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.parametrize("n", [64, 256, 384])
def test_bytes_are_zoomed_by_what_is_said_or_at_the_scale_of_launches(mount, width, n):
    page = mount(HBMAccountant(n=n), width=width)
    lane = page.locator("[data-fac-part=accountant-naive_four_trips]")
    said = re.search(r"zoom(?:ed in)? ([\d.]+) ×", lane.text_content())
    assert said or n > 64
    filled = lane.locator(".fac-in-launch").evaluate("n => n.width.baseVal.value")
    long = end_of(page.evaluate(AREAS)[2])
    assert long / filled == pytest.approx(float(said[1]) if said else 1, rel=0.02)


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_flash_at_best_and_at_worst_are_one_where_they_are_alike(mount, width):
    """The same column had stood there twice, then a hole; under the hand no column moves."""
    page = mount(HBMAccountant(n=128), width=width, reduced=True)
    lanes = page.locator(".fac-bar:visible")
    names = page.locator(".fac-bar-head b:visible")
    assert names.all_text_contents() == ["flash", "naive", "eager as run"]
    way = "y"
    lefts = [lane.bounding_box()[way] for lane in lanes.all()]
    tall = [lane.bounding_box()["height"] for lane in lanes.all()]
    assert lefts[2] - lefts[1] - tall[1] == pytest.approx(lefts[1] - lefts[0] - tall[0], abs=1)
    box = page.locator(".fac-knob").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 2 * width, y)
    page.wait_for_timeout(60)
    assert page.evaluate("facModel.get('n')") > 1024
    assert [lane.bounding_box()[way] for lane in lanes.all()][:2] == pytest.approx(lefts[:2])
    assert names.first.text_content() == "flash at best"
    page.mouse.up()
    page.get_by_text("flash at worst").first.wait_for()
    assert lanes.count() == 4


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_handle_of_a_small_s_covers_no_letter(mount, width):
    page = mount(HBMAccountant(n=16), width=width)
    assert page.locator('[data-names="n"]').text_content() in ("drag: N = 16", "drag: N 16")
    overlap = page.evaluate(
        """() => { const all = (what) => [...document.querySelectorAll(what)]
          .filter((n) => n.getAttribute('visibility') !== 'hidden')
          .map((n) => n.getBoundingClientRect()).filter((r) => r.width);
        const meet = (ones, others) => ones.some((a) => others.some((b) =>
          a.x < b.right && b.x < a.right && a.y < b.bottom && b.y < a.bottom));
        return meet(all('[data-names]'), all('.fac-area, .fac-knob'))
          || meet(all('.fac-knob'), all('.fac-trip:not([data-names])')); }"""
    )
    assert not overlap


@pytest.mark.browser
def test_drag_the_corner_of_s(mount):
    """N follows the pointer; past the scale's end the picture zooms out, and so does its axis."""
    page = mount(HBMAccountant(n=4096), width=1100, reduced=True)
    ticks = page.locator(".fac-clock text[text-anchor=middle]")
    axis = ticks.all_text_contents()
    box = page.locator(".fac-knob").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    side = page.evaluate(AREAS)[2][4][2]
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - side / 4, y - side / 4)
    assert page.evaluate("facModel.get('n')") == 3072
    assert page.evaluate(AREAS)[2][4][2] == pytest.approx(0.75 * side)
    page.mouse.move(x + side, y + side)
    page.mouse.up()
    assert page.evaluate("facModel.get('n')") == 8192
    assert ticks.all_text_contents() != axis
    before = page.locator(".fac-ghost").evaluate("n => n.width.baseVal.value")
    assert before == pytest.approx(page.evaluate(AREAS)[2][4][2] * 3072 / 8192, rel=0.02)
    page.mouse.move(x, y)
    assert page.evaluate("facModel.get('n')") == 8192, "the button is up"


@pytest.mark.browser
def test_trips_are_laid_one_after_the_other(mount):
    """With reduced motion one a press; the bytes beside the name count what lies there."""
    accountant = HBMAccountant(models=["naive_four_trips", "flash_compulsory"])
    page = mount(accountant, reduced=True)
    lay = page.get_by_role("button", name="One trip at a time")
    lay.click()
    visible = page.locator(".fac-bar").last.locator(".fac-area:visible")
    assert visible.count() == 1
    strip = bytes_decimal(8192 * 128 * 2 * 32)
    assert shown_bytes(page) == [strip, strip]
    button = page.locator(".fac button:visible")
    for _ in range(7):
        button.press("Enter")
    assert visible.count() == 8
    assert shown_bytes(page) == pythons_bytes({"models": ["naive_four_trips", "flash_compulsory"]})
    page = mount(accountant)
    lay = page.get_by_role("button", name="One trip at a time")
    lay.click()
    lay.wait_for(timeout=8000)  # it plays to its end
    assert page.locator(".fac-bar").last.locator(".fac-area:visible").count() == 8


@pytest.mark.browser
def test_a_short_call_is_said_to_wait_for_launches(mount):
    page = mount(HBMAccountant(n=16, heads=1))
    words = page.inner_text(".fac-words").replace("\u00a0", " ")
    assert words == ("At N = 16 launches set the pace: naive takes 15 µs, FlashAttention 5 µs.")


@pytest.mark.browser
@pytest.mark.parametrize(("width", "most"), [(1280, 130), (480, 200)])
def test_the_first_mark_is_at_the_top_and_few_controls_come_before_more(mount, width, most):
    page = mount(HBMAccountant(), width=width)
    top = page.locator(".fac").bounding_box()["y"]
    assert page.locator(".fac-area").first.bounding_box()["y"] - top <= most
    assert page.locator(".fac :is(button, input[type=range], select):visible").count() == 3


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.few(1)
def test_no_slider_moves_under_the_hand(mount, width):
    """At N = 16 the slider had stood 200 px higher than at 8192, and the time above the areas."""
    page = mount(HBMAccountant(), width=width)
    slider = page.get_by_label("N, rows of Q, K, V").first
    places = {}
    for n in (8192, 16, 64, 128, 256, 512, 1024, 1536, 2048, 2**20):
        page.evaluate("n => facModel.set('n', n)", n)
        page.wait_for_timeout(60)
        places[n] = round(slider.bounding_box()["y"])
    assert len(set(places.values())) == 1, places
    assert page.locator(".fac").bounding_box()["height"] < 1000


@pytest.mark.browser
def test_on_a_phone_no_trip_is_blank_and_the_caption_is_true_of_its_rows(mount):
    """Two trips of S/√d had no name; "left written, right read" is true of two columns only."""
    page = mount(HBMAccountant(), width=480)
    assert page.locator(".fac-on-s:not([visibility=hidden])", has_text="S/√d").count() == 2
    said = page.inner_text(".fac")
    assert "left written, right read" not in said
    claim = "65 × the least (each of Q, K, V, O once), FlashAttention 1 × to 32.5 ×; in time 4.7 ×."
    assert claim in " ".join(said.split()), "one claim"


@pytest.mark.browser
def test_bytes_say_of_how_many_heads_they_are(mount):
    """Bytes of all heads beside the areas of one were a trap: a square is S of all of them."""
    page = mount(HBMAccountant(heads=32), width=1280)
    assert shown_bytes(page)[0] == "268.4 MB"
    said = page.inner_text(".fac")
    assert "All 32 heads." in said
    square = 8192**2 * 2 * 32
    assert f"N × N numbers of each head, {bytes_decimal(square)}." in said
    strips = 4 * 8192 * 128 * 2 * 32
    assert bytes_decimal(4 * square + strips) == shown_bytes(page)[2]


@pytest.mark.browser
@pytest.mark.parametrize("n", [16, 8192])
@pytest.mark.parametrize("width", [480, 1280])
def test_scores_lie_before_strips_and_each_row_says_what_decides(mount, width, n):
    page = mount(HBMAccountant(n=n), width=width)
    kinds = page.evaluate(
        """() => [...document.querySelectorAll('.fac-bar')].map((lane) =>
          [...lane.querySelectorAll('.fac-area')].sort((a, b) => a.x.baseVal.value
            - b.x.baseVal.value).map((n) => n.classList[1].replace('fac-fill-', '')).join(''))"""
    )
    assert kinds[0] == "qkvo"
    assert kinds[-2:] == ["ssssqkvo", "ssssssqkvo"]
    if n == 8192:
        assert kinds[1] == "kvqo"
        said = page.inner_text(".fac-lanes")
        assert "a cache keeps K and V: read once" in said, "what decides"
        assert "each Q tile reads K and V again: 64 ×" in said
    over = """() => { const all = [...document.querySelectorAll(
        '.fac-clock text, .fac-end b, .fac-end small, .fac-lane text:not([visibility=hidden])')]
        .filter((n) => n.textContent.trim()).map((n) => [n.textContent, n.getBoundingClientRect()])
        .filter(([_, r]) => r.width);
      return [...all.flatMap(([n, a], i) => all.slice(i + 1).filter(([_, b]) => a.x < b.right - 2
        && b.x < a.right - 2 && a.y < b.bottom - 5 && b.y < a.bottom - 5).map(([m]) => [n, m])),
        ...all.filter(([_, a]) => a.right > innerWidth).map(([n]) => n)]; }"""
    assert page.evaluate(over) == [], "no words on words"


@pytest.mark.browser
@pytest.mark.parametrize("n", [16, 512, 8192])
def test_on_a_phone_every_strip_has_its_letter_and_the_handle_is_near_s(mount, n):
    """Four colours in three pixels had no key; the handle of S hung through P."""
    page = mount(HBMAccountant(n=n), width=480)
    for lane in page.locator(".fac-bar:visible").all():
        found = lane.locator(".fac-letter:not([visibility=hidden])").all_text_contents()
        inside = lane.locator(".fac-trip:not([visibility=hidden]) tspan").all_text_contents()
        found += [text[0] for text in inside if re.match("[QKVO] ×", text)]  # "read K ×64"
        assert sorted(filter(None, found)) == ["K", "O", "Q", "V"]
    knob = page.locator(".fac-knob").bounding_box()
    around = page.locator(".fac-around").bounding_box()
    gap = knob["y"] + knob["height"] / 2 - around["y"] - around["height"]
    assert abs(gap) < (4 if n > 16 else 60)


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_a_lane_is_a_row_that_is_as_long_as_what_it_moves(mount, width):
    """In four columns 65 times was a pile of four beside one of two."""
    accountant = HBMAccountant()
    page = mount(accountant, width=width)
    rows = page.evaluate(AREAS)
    tall = rows[2][4][3]
    assert tall > 43, "two lines of words fit; its time stands at its end"
    assert all(h == pytest.approx(tall) for lane in rows for *_, h in lane)
    long = [end_of(lane) for lane in rows]
    want = [row["bytes"] for row in accountant.rows()]
    assert [x / long[0] for x in long] == pytest.approx([x / want[0] for x in want], rel=1e-3)
    if width > 480:
        return
    naive = page.locator("[data-fac-part=accountant-naive_four_trips] tspan").all_text_contents()
    assert naive == ["write", "S", "read", "S", "write", "P", "read", "P"]


@pytest.mark.browser
def test_on_a_phone_a_count_is_an_area_of_the_same_height(mount):
    accountant = HBMAccountant(models=["naive_four_trips", "flash_compulsory"])
    ledger = Ledger()
    ledger.note_read("q", 3_000_000_000)
    accountant.add_ledger(ledger, "mine")
    page = mount(accountant, width=480)
    best, naive, mine = page.evaluate(AREAS)
    assert mine[0][3] == pytest.approx(naive[4][3])
    pixels = sum(w * h for *_, w, h in naive)
    assert mine[0][2] * mine[0][3] / pixels == pytest.approx(
        3e9 / accountant.bytes("naive_four_trips"), rel=1e-2
    )
    assert not page.get_by_text("goes on").is_visible()
    assert best


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_what_waits_for_the_arithmetic_is_a_pale_box_and_says_so(mount, width):
    """A bracket led to 1.11 ms without a word; the title's bytes stood over an axis of ms."""
    accountant = HBMAccountant()
    page = mount(accountant, width=width)
    box = page.locator(".fac-wait")
    assert box.count() == 1
    assert box.evaluate("n => n.localName") == "rect"
    areas = page.evaluate(AREAS)[0]
    end = max(x + w for x, _, w, _ in areas)
    assert box.evaluate("n => n.x.baseVal.value") == pytest.approx(end, abs=0.5)
    assert box.evaluate("n => n.height.baseVal.value") == pytest.approx(areas[0][3], abs=0.5)
    lane = " ".join(page.locator(".fac-bar").first.locator("text, small").all_text_contents())
    assert "waits for arithmetic" in lane
    paces = [accountant.pace(model) for model in accountant.models]
    took = [max(pace[key] for key in ("overhead", "traffic", "arithmetic")) for pace in paces]
    naive = [model.name for model in accountant.models].index("naive_four_trips")
    assert f"in time {took[naive] / took[0]:.2g} ×" in page.inner_text(".fac-words")


@pytest.mark.browser
def test_boxes_of_launches_are_flat_and_say_what_they_are(mount):
    """At 1280 they were 134 px tall and empty."""
    page = mount(HBMAccountant(n=16), width=1280)
    boxes = page.locator("rect.fac-launch")
    assert boxes.count() == 1 + 3 + 4
    assert max(boxes.evaluate_all("ns => ns.map((n) => n.height.baseVal.value)")) <= 68
    said = page.locator(".fac-launch-in")
    assert set(said.all_text_contents()) == {"launch, 5 µs"}
    assert said.count() == 8
    edges = """ns => ns.map((n) => n.getBoundingClientRect())
      .map(({ left, top, right, bottom }) => [left, top, right, bottom])"""
    words = said.evaluate_all(edges) + page.locator(".fac-end:visible").evaluate_all(edges)
    for left, top, right, bottom in boxes.evaluate_all(edges):
        within = [low for a, b, c, low in words if left <= a and c < right and top <= b < bottom]
        assert within
        assert max(within) <= bottom + 3
