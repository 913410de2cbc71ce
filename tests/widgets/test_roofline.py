"""RooflineChart: its numbers are `accounting`'s, in Python and in the browser."""

from __future__ import annotations

import re
from typing import Any

import pytest
from traitlets import TraitError

from course_lib.accounting.hardware import GPUS
from course_lib.accounting.traffic import MODELS
from course_lib.widgets import RooflineChart
from course_lib.widgets.roofline import DIAL, POINTS


def test_the_intensities_of_lesson_02():
    """N = 8192, d = 128, bf16: 42 as run, 63 in 4 trips, N/2 compulsory, about B_q in loads."""
    chart = RooflineChart()
    found = [chart.intensity(point) for point in POINTS]
    assert found == pytest.approx([42.2, 63.0, 126, 4096, 1.0], rel=0.01)
    assert chart.attainable(found[0]) == pytest.approx(42.23 * 3.350, rel=1e-3)
    assert chart.attainable(found[3]) == GPUS["H100"].tflops_half


def test_batching_does_not_raise_the_intensity_of_attention_and_gqa_does_for_decoding():
    one, many = RooflineChart(), RooflineChart(batch=64)
    for point in POINTS:
        assert one.intensity(point) == pytest.approx(many.intensity(point))
    shared = RooflineChart(heads=32, kv_heads=8)
    assert shared.intensity("decode, one query") == pytest.approx(4, rel=0.01)


def test_the_dial_is_group_times_queries_from_decode_to_prefill():
    chart = RooflineChart(view="dial", n=8192, d=128, heads=32, kv_heads=8)
    decode, here, prefill = "decode, one query", "you are here", "prefill"
    for queries in (1, 4, 16):
        chart.queries = queries
        assert chart.intensity(here) == pytest.approx(4 * queries, rel=0.01)
    chart.queries = 2**20  # no more than there are tokens
    assert chart.intensity(here) == chart.intensity(prefill) > GPUS["H100"].ridge
    assert chart.intensity(decode) == pytest.approx(4, rel=0.01)
    assert chart.to_table().count("memory-bound") == 1
    assert len(chart.to_figure().axes[0].lines) == 1 + len(DIAL) + 1
    with pytest.raises(ValueError, match="point must be one of prefill"):
        chart.intensity("naive, 4 trips")


def test_roofline_table_and_figure_show_the_same_points():
    chart = RooflineChart(gpu="A100")
    chart.add_measurement("SDPA flash, A100", intensity=900, tflops=220)
    text = chart.to_table()
    axes = chart.to_figure().axes[0]
    for line, point in zip(axes.lines[1:], POINTS, strict=False):
        x = chart.intensity(point)
        assert line.get_xdata()[0] == x
        assert line.get_ydata()[0] == chart.attainable(x)
        assert f"{x:8.4g} FLOP/byte" in text
    assert "220 TFLOP/s measured at N = 8192" in text
    assert text.count("memory-bound") == 4


@pytest.mark.parametrize(
    ("act", "error", "sentence"),
    [
        (lambda: RooflineChart(n=0), TraitError, "n must be a whole number from 1"),
        (lambda: RooflineChart(gpu="typo"), ValueError, "gpu must be"),
        (lambda: RooflineChart(tile=1), ValueError, "no setting 'tile'"),
        (lambda: RooflineChart().intensity("typo"), ValueError, "point must be"),
        (lambda: RooflineChart().add_measurement("", intensity=1, tflops=1), ValueError, "label"),
        (
            lambda: RooflineChart().add_measurement("x", intensity=0, tflops=1),
            ValueError,
            "intensity must be a positive",
        ),
    ],
)
def test_bad_values_get_one_sentence(act, error, sentence):
    with pytest.raises(error, match=sentence):
        act()


def names(page: Any) -> list[str]:
    """Return what the marks say of themselves, in the order of `POINTS`."""
    keys = page.locator("[data-point]").evaluate_all(
        "ns => ns.map(n => [n.dataset.point, n.textContent])"
    )
    return [text for _, text in sorted((int(key), text) for key, text in keys)]


def intensities(page: Any) -> list[float]:
    return [float(re.search(r": ([\d.]+)", text)[1]) for text in names(page)]


@pytest.mark.browser
def test_roofline_points_move_with_n_but_not_with_batch(mount, check_page):
    page = mount(RooflineChart(), width=320)
    check_page(page)
    page = mount(RooflineChart(), width=1280)
    before = intensities(page)
    page.get_by_text("more: ").click()
    page.get_by_label("batch").first.press("End")
    assert page.evaluate("facModel.get('batch')") == 4096
    assert intensities(page) == before
    page.get_by_label("N", exact=True).first.press("ArrowLeft")
    want = [RooflineChart(n=4096).intensity(point) for point in POINTS]
    assert intensities(page) == pytest.approx(want, rel=5e-3)
    page.get_by_label("GPU").select_option("T4")
    assert "T4 needs 203 FLOP for each byte" in page.inner_text(".fac")
    assert "T4" in page.locator("svg[role=img]").get_attribute("aria-label")
    check_page(page)


@pytest.mark.browser
def test_you_are_here_is_dragged_along_the_roof(mount):
    page = mount(RooflineChart(), width=1280)
    knob = page.locator(".fac-knob-n")
    x, y = (knob.bounding_box()[side] + 8 for side in "xy")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 82, y)  # one factor of two is as wide for N as for FLOP/byte
    page.mouse.up()
    assert page.evaluate("facModel.get('n')") == 4096
    assert "N = 4096" in names(page)[3]
    assert knob.bounding_box()["x"] + 8 == pytest.approx(x - 82, abs=8)


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_dial_is_dragged_from_decode_to_prefill(mount, check_page, width):
    page = mount(RooflineChart(view="dial", heads=32, kv_heads=8), width=width)
    check_page(page)
    knob = page.locator(".fac-knob-queries")
    start = knob.bounding_box()
    page.get_by_label("queries of a request").first.press("End")
    assert page.evaluate("facModel.get('queries')") == 8192
    end = knob.bounding_box()
    assert end["x"] > start["x"] + 100
    page.mouse.move(end["x"] + 8, end["y"] + 8)
    page.mouse.down()
    page.mouse.move(start["x"] + 8, start["y"])
    page.mouse.up()
    assert page.evaluate("facModel.get('queries')") == 1
    assert "4 heads × 1 query" in page.text_content(".fac svg")
    page.get_by_label("K/V heads").first.press("Home")
    assert "32 heads × 1 query" in page.text_content(".fac svg")
    check_page(page)


@pytest.mark.browser
def test_a_measurement_stands_at_its_own_n_only(mount):
    chart = RooflineChart(n=8192)
    chart.add_measurement("fused, H100", intensity=4096, tflops=333)
    page = mount(chart, width=1280)
    assert page.locator(".fac-measured").count() == 1
    assert "fused, H100: 333 TFLOP/s" in page.text_content(".fac svg")
    page.get_by_label("N", exact=True).first.press("ArrowLeft")
    assert page.locator(".fac-measured").count() == 0
    assert "Measured at N = 8192: move there" in page.inner_text(".fac")


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 700, 900, 1100, 1280])
def test_no_name_lies_on_what_was_measured(mount, width):
    chart = RooflineChart(n=8192, d=128, heads=8)
    chart.add_measurement("eager, measured", intensity=42.4, tflops=75)
    chart.add_measurement("flash, measured", intensity=4218, tflops=345)
    page = mount(chart, width=width)
    names = [one.bounding_box() for one in page.locator(".fac svg text").all()]
    for mark in (one.bounding_box() for one in page.locator(".fac-measured").all()):
        x, y = mark["x"] + mark["width"] / 2, mark["y"] + mark["height"] / 2
        assert not any(
            n["x"] < x < n["x"] + n["width"] and n["y"] < y < n["y"] + n["height"] for n in names
        )


def above_the_slope() -> RooflineChart:
    """Return lesson 08's chart: two kernels timed faster than the bytes counted would allow."""
    chart = RooflineChart(n=16384, d=128, heads=16, block_q=128)
    chart.add_measurement("rung 1", intensity=64, tflops=400)
    chart.add_measurement("rung 8", intensity=127, tflops=686)
    return chart


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_what_was_timed_above_the_roof_stands_where_its_bytes_were_counted(mount, width):
    """On the slope it had stood at an intensity that nobody measured."""
    page = mount(above_the_slope(), width=width)
    assert "Rung 1 and rung 8 run faster than if every load went to HBM" in page.inner_text(
        ".fac-finding"
    )
    drawn = page.text_content(".fac svg")
    assert "◇ if every load went to HBM" in drawn, "the words of the title say what is hollow"
    assert {"214 TFLOP/s", "425 TFLOP/s"} <= set(page.locator(".fac svg text").all_text_contents())
    assert all(f"{above} ×" in drawn for above in ("1.9", "1.6")), "400 of 214, 686 of 425"
    assert not {"naive", "decode"} & set(re.findall(r"[a-z]+", page.text_content(".fac svg")))
    slope = page.locator(".fac-roof-line").element_handle()
    off_roof = """(marks, roof) => marks.map((m) => { const b = m.getBBox();
      const at = [b.x + b.width / 2, b.y + b.height / 2], long = roof.getTotalLength();
      const on = (t) => roof.getPointAtLength(t);
      const far = (t) => Math.hypot(on(t).x - at[0], on(t).y - at[1]);
      return Math.min(...Array.from({ length: 2000 }, (_, i) => far((i * long) / 1999))); })"""
    counted, timed = page.locator(".fac-roof-counted"), page.locator(".fac-measured")
    assert max(counted.evaluate_all(off_roof, slope)) < 1.5
    for low, high in zip(counted.all(), timed.all(), strict=True):
        low, high = low.bounding_box(), high.bounding_box()
        assert low["x"] + low["width"] / 2 == pytest.approx(high["x"] + high["width"] / 2, abs=1)
        assert high["y"] < low["y"]
    assert timed.count() == page.locator(".fac-roof-way").count() == 2, "a line joins both"
    assert page.locator(".fac-knob").count() == 0, "a handle looks like a mark"
    assert not page.get_by_label("rows of a Q tile").first.is_visible(), "it would move nothing"
    page.get_by_label("N", exact=True).first.press("ArrowLeft")
    assert page.locator(".fac-knob").count() == 2
    assert page.get_by_label("rows of a Q tile").first.is_visible()


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 800, 1100, 1396])
def test_no_name_lies_on_another(mount, width):
    overlaps = """() => { const of = [...document.querySelectorAll('.fac svg text')]
      .filter((t) => t.textContent.trim() && !t.hasAttribute('transform'))
      .map((t) => [t.textContent, t.getBoundingClientRect()]);
      return of.flatMap(([a, p], i) => of.slice(i + 1).filter(([, q]) => p.left < q.right - 1 &&
        q.left < p.right - 1 && p.top < q.bottom - 5 && q.top < p.bottom - 5)
        .map(([b]) => [a, b])); }"""
    timed = RooflineChart(n=8192, heads=8)
    timed.add_measurement("eager, measured", intensity=42.4, tflops=75)
    timed.add_measurement("flash, measured", intensity=4218, tflops=345)
    dials = [RooflineChart(view="dial", queries=queries) for queries in (1, 64, 1024)]
    sizes = [(8192, 128), (512, 64), (64, 16), (2**17, 1024)]
    plain = [RooflineChart(n=n, heads=8, block_q=block_q) for n, block_q in sizes]
    charts = (*plain, RooflineChart(gpu="T4"), timed, above_the_slope(), *dials)
    for chart in charts:
        assert mount(chart, width=width).evaluate(overlaps) == []


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_beside_measured_marks_the_models_keep_their_names(mount, width):
    """At 480 px the bar, both ticks and the handles had none."""
    chart = RooflineChart(n=8192, d=128, heads=8)
    chart.add_measurement("eager, measured", intensity=42.4, tflops=75)
    chart.add_measurement("flash, measured", intensity=4218, tflops=345)
    page = mount(chart, width=width)
    # a phone has room for one "eager": the mark's
    assert len(names(page)) == len(POINTS) - (width == 480)
    drawn, said = page.text_content(".fac svg"), page.locator(".fac svg text").all_text_contents()
    for word in ("flash at best", "flash at worst", "naive", "eager", ": 345 TFLOP/s"):
        assert word in drawn
    assert "4100" not in drawn, "FLOP/byte beside TFLOP/s was read as a speed"
    if width > 700:
        assert "35 % of arithmetic's roof (989 TFLOP/s)" in drawn
        assert "53 % of memory's roof (142 TFLOP/s)" in drawn  # 42.4 FLOP/byte at 3350 GB/s
    else:
        assert {"35 % of its roof", "53 % of its roof"} <= set(said)
        assert "eager: 75 TFLOP/s" in drawn
    assert page.locator(".fac-roof-flash.fac-roof-lead").count() == 0, "no line crosses another"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_dots_of_the_dial_say_what_they_count_to_the_last(mount, width):
    page = mount(RooflineChart(view="dial"), width=width)
    said = page.locator(".fac-stage text.fac-t-soft").all_text_contents()
    assert {"4 queries", "16 queries", "64 queries", "256 queries", "4k queries"} <= set(said)
    assert page.get_by_text("prefill: 8k queries").count() == 1, "in what the dots are counted"
    box = "n => (({ x, width }) => ({ x, width }))(n.getBBox())"  # without its stroke
    at = page.locator(".fac-stage text", has_text=re.compile("^4k queries$")).last.evaluate(box)
    dots = page.locator(".fac-roof-stops").evaluate(box)
    # at the last dot: no tick of the axis
    assert at["x"] + at["width"] / 2 == pytest.approx(dots["x"] + dots["width"], abs=1)


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280, 1920])
def test_the_name_of_the_slope_is_on_no_stem(mount, width):
    crossed = """() => {
        const box = (n) => n.getBoundingClientRect();
        const a = box(document.querySelector('.fac text[transform*=rotate]'));
        const marks = [...document.querySelectorAll('.fac-roof-way')].map(box);
        return marks.filter((b) => b.left < a.right && a.left < b.right).length;
    }"""
    assert mount(above_the_slope(), width=width).evaluate(crossed) == 0


def test_every_model_of_the_chart_exists():
    assert {model for model, _, _ in (*POINTS.values(), *DIAL.values())} <= set(MODELS)
