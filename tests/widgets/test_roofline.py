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
    assert "220 TFLOP/s measured at N = 8192 on A100-80" in text
    chart.add_measurement("by its loads, too", intensity=900, tflops=220, loads=64)
    assert chart.to_table().endswith("on A100-80, 64 FLOP/byte loaded")
    assert len(chart.to_figure().axes[0].lines) == len(axes.lines) + 2, "both ends of the arrow"
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
    assert "N = 4096" in page.text_content(".fac svg")
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
    assert "fused: 333 TFLOP/s" in page.text_content(".fac svg")
    page.get_by_label("N", exact=True).first.press("ArrowLeft")
    assert page.locator(".fac-measured").count() == 0
    assert "Measured at N = 8192: move there" in page.inner_text(".fac")


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 700, 900, 1100, 1280])
@pytest.mark.few(2)
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


def rungs() -> RooflineChart:
    """Return lesson 08's chart: two kernels that load far more than HBM moved."""
    chart = RooflineChart(n=16384, d=128, heads=16, block_q=128)
    chart.add_measurement("rung 1, plain", intensity=7800, tflops=400, loads=64)
    chart.add_measurement("rung 8, fast", intensity=2880, tflops=686, loads=127)
    return chart


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_an_arrow_leads_from_the_loads_to_the_bytes_of_hbm(mount, check_page, width):
    """A mark above the roof looked like an error; the bytes that HBM moved put it below."""
    page = mount(rungs(), width=width)
    check_page(page)
    says = "Rung 8 moves 2.7 × the HBM bytes of rung 1, and yet is 1.7 × as fast."
    assert page.inner_text(".fac-finding") == says
    drawn = page.text_content(".fac svg")
    assert "each does 4 × 16 heads × 16384² × 128 = 2.2 TFLOP" in drawn
    said = set(page.locator(".fac svg text").all_text_contents())
    for intensity, loads in ((7800, 64), (2880, 127)):  # the ends of an arrow give its number
        all_, hbm = (f"{2200 / x:.3g}" for x in (loads, intensity))
        unit = "" if width < 700 else " GB"
        assert {f"{all_}{unit}", f"{hbm}{unit}"} <= said, "in the strip above the field"
        factor = f"{float(all_) / float(hbm):.0f}"
        assert (f"bytes ÷ {factor}" if width < 700 else f"{factor} × fewer bytes") in drawn
    ways = page.locator(".fac-roof-saved").evaluate_all("ns => ns.map(n => n.getAttribute('d'))")
    assert all(re.fullmatch(r"M\S+ \S+H\S+V\S+", way) for way in ways), "bytes across, speed up"
    for tflops, loads in ((400, 64), (686, 127)):
        of = "" if width < 700 else "that "
        assert f"{tflops / (loads * 3.35):.2g} × {of}ceiling" in said, "a ceiling is no speed"
    start = "◇ if every load went to HBM" if width < 700 else "if every load went to HBM:"
    assert drawn.count(start) == 1, "beside one of the starts, where there is room"
    assert all(re.search(f"ceiling ?{most}", drawn) for most in (214, 425)), "64, 127 at 3350 GB/s"
    assert not {"naive", "decode"} & set(re.findall(r"[a-z]+", drawn))
    roof = page.locator(".fac-roof-line").element_handle()
    below = """(marks, roof) => marks.map((m) => { const b = m.getBBox();
      const at = [b.x + b.width / 2, b.y + b.height / 2], long = roof.getTotalLength();
      const near = Array.from({ length: 4000 }, (_, i) => roof.getPointAtLength((i * long) / 3999))
        .reduce((p, q) => (Math.abs(q.x - at[0]) < Math.abs(p.x - at[0]) ? q : p));
      return at[1] - near.y; })"""
    counted, timed = page.locator(".fac-roof-counted"), page.locator(".fac-measured")
    assert counted.evaluate_all(below, roof) == pytest.approx([0, 0], abs=2)
    assert min(timed.evaluate_all(below, roof)) > 10
    assert timed.count() == page.locator(".fac-roof-saved").count() == 2, "an arrow joins both"
    for i, name in enumerate(("rung 1", "rung 8")):  # right of its own mark, on its height
        mark = timed.nth(1 - i).bounding_box()  # the fastest first
        says = page.locator(".fac svg text", has_text=re.compile(f"^{name}")).last.bounding_box()
        assert 0 < says["x"] - mark["x"] - mark["width"] < 12
        assert abs(says["y"] + says["height"] / 2 - mark["y"] - mark["height"] / 2) < 6
    assert page.locator(".fac-knob").count() == 0, "a handle looks like a mark"
    assert not page.get_by_label("rows of a Q tile").first.is_visible(), "it would move nothing"
    page.get_by_label("N", exact=True).first.press("ArrowLeft")
    assert page.locator(".fac-knob").count() == 2
    assert page.get_by_label("rows of a Q tile").first.is_visible()


@pytest.mark.browser
def test_a_measurement_is_under_the_roof_of_its_own_gpu(mount):
    page = mount(rungs(), width=1280)
    page.get_by_label("GPU").select_option("T4")
    assert page.locator(".fac-measured").count() == 0
    assert "Measured at N = 16384 on H100: move there" in page.inner_text(".fac")


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 800, 1100, 1396])
@pytest.mark.few(1)
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
    charts = (*plain, RooflineChart(gpu="T4"), timed, rungs(), *dials)
    for chart in charts:
        assert mount(chart, width=width, again=True).evaluate(overlaps) == []


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.few(1)
def test_no_name_of_a_measurement_lies_across_the_ridge(mount, width):
    timed = RooflineChart(n=8192, heads=8)
    timed.add_measurement("eager, measured", intensity=42.4, tflops=75)
    timed.add_measurement("flash, measured", intensity=4218, tflops=345)
    lesson_8 = RooflineChart(n=16384, d=128, heads=16)
    lesson_8.add_measurement("rung 1, plain", intensity=7826, tflops=409, loads=63.8)
    lesson_8.add_measurement("rung 8, fast", intensity=2886, tflops=748, loads=188)
    for chart in (timed, rungs(), lesson_8):
        page = mount(chart, width=width, again=True)
        ridge = page.locator(".fac-roof-ridge").first.bounding_box()["x"]
        for text in page.locator(".fac-stage .fac-t-name, .fac-stage .fac-t-small").all():
            said, box = text.text_content(), text.bounding_box()
            above = box and box["y"] < page.locator(".fac-roof-side").bounding_box()["y"] - 20
            if said and box and "GB/s" not in said and not above:
                left, right = box["x"], box["x"] + box["width"]
                assert right <= ridge + 1 or left >= ridge - 1, said
    page = mount(timed, width=width, again=True)
    flops, one_pass = 4 * 8 * 8192**2 * 128, 4 * 8 * 8192 * 128 * 2
    counted, all_ = (f"{x / 1e9:.3g}" for x in (flops / 4218, one_pass))
    assert flops / one_pass == 4096
    assert page.inner_text(".fac-stage-words") == "", "nobody had asked yet"
    assert page.locator(".fac-more > .fac-soft").text_content().strip() == (
        f"Flash: {counted} GB were counted, less than one pass over Q, K, V and O ({all_} GB), "
        "hence over 4096 FLOP/byte."
    )


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_what_was_measured_has_the_picture_to_itself(mount, width):
    """The bar of a model was the brightest mark; flash stood right of what was called its best."""
    chart = RooflineChart(n=8192, d=128, heads=8)
    chart.add_measurement("eager, measured", intensity=42.4, tflops=75)
    chart.add_measurement("flash, measured", intensity=4218, tflops=345)
    page = mount(chart, width=width)
    drawn, said = page.text_content(".fac svg"), page.locator(".fac svg text").all_text_contents()
    assert names(page) == []
    assert page.locator(".fac-roof-bar, .fac-roof-tick, .fac-knob").count() == 0
    assert "each does 4 × 8 heads × 8192² × 128 = 0.275 TFLOP" in drawn
    # 42.4 FLOP/byte at 3350 GB/s: its own roof
    pair = {"345, 35 %", "75, 53 %"}
    if width > 700:
        pair = {"345 TFLOP/s, 35 % of 989", "75 TFLOP/s, 53 % of 142"}
    assert pair | {"at 42.4 FLOP/byte", "eager: 75 TFLOP/s", "flash: 345 TFLOP/s"} <= set(said)
    assert (
        page.inner_text(".fac-finding")
        == "Flash is 4.6 × as fast as eager: 345 TFLOP/s against 75."
    ), "what follows from the picture; shares are in the bars"
    page.get_by_label("N", exact=True).first.press("ArrowLeft")
    assert len(names(page)) == len(POINTS), "the models, where nothing was measured"


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
def test_the_name_of_the_slope_is_on_no_arrow(mount, width):
    crossed = """() => {
        const name = document.querySelector('.fac text[transform*=rotate]:not(.fac-t-name)');
        const box = name.getBBox(), to = name.getScreenCTM().inverse();
        const share = (arrow, i) => arrow.getPointAtLength((i * arrow.getTotalLength()) / 499);
        return [...document.querySelectorAll('.fac-roof-saved')].flatMap((arrow) =>
          Array.from({ length: 500 }, (_, i) =>
            share(arrow, i).matrixTransform(arrow.getScreenCTM()).matrixTransform(to))
          .filter((p) => p.x > box.x && p.x < box.x + box.width && p.y > box.y &&
            p.y < box.y + box.height)).length;
    }"""
    assert mount(rungs(), width=width).evaluate(crossed) == 0


def test_every_model_of_the_chart_exists():
    assert {model for model, _, _ in (*POINTS.values(), *DIAL.values())} <= set(MODELS)


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_roof_has_one_shape_or_the_zoom_is_shown(mount, width):
    """Four states had four windows: the same roof was flat in one and steep in another."""
    timed = RooflineChart(n=8192, d=128, heads=8)
    timed.add_measurement("eager, measured", intensity=42.4, tflops=75)
    timed.add_measurement("flash, measured", intensity=4218, tflops=345)
    shapes = {}
    charts = {"kernels": RooflineChart(), "dial": RooflineChart(view="dial"), "timed": timed}
    for name, chart in {**charts, "rungs": rungs()}.items():
        page = mount(chart, width=width, again=True)
        line = page.locator(".fac-roof-line").get_attribute("points")
        points = [[float(part) for part in point.split(",")] for point in line.split()]
        shapes[name] = [
            (round(x, 2), round(y - points[-1][1], 2)) for x, y in points
        ]  # at any height
        assert page.locator(".fac-roof-map").count() == (shapes[name] != shapes["kernels"]), name
    assert shapes["dial"] == shapes["kernels"]
    assert shapes["timed"] != shapes["kernels"], "what was measured fills the window at any width"
    seen, map_ = (page.locator(f".fac-roof-{name}").bounding_box() for name in ("seen", "map"))
    assert map_["x"] - 1 <= seen["x"]
    assert seen["x"] + seen["width"] <= map_["x"] + map_["width"] + 2
    assert seen["width"] * seen["height"] < map_["width"] * map_["height"]
    assert "zoomed in" in page.text_content(".fac-stage")


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_speeds_and_roofs_are_lengths_on_one_scale_outside_the_logarithmic_field(mount, width):
    """35 % was the gap of two logarithms; then two bars of one length for 989 and for 142."""
    timed = RooflineChart(n=8192, d=128, heads=8)
    timed.add_measurement("eager, measured", intensity=42.4, tflops=75)
    timed.add_measurement("flash, measured", intensity=4218, tflops=345)
    for chart, speeds, roofs in (
        (timed, (345, 75), (989, 42.4 * 3.35)),
        (rungs(), (686, 400), (989, 989)),
    ):
        page = mount(chart, width=width, again=True)
        long = "ns => ns.map((n) => n.width.baseVal.value)"
        frames, parts = (
            page.locator(f".fac-roof-{x}").evaluate_all(long) for x in ("share", "part")
        )
        scale = frames[0] / 989
        assert frames == pytest.approx([scale * roof for roof in roofs], rel=2e-3)
        assert parts == pytest.approx([scale * speed for speed in speeds], rel=2e-3)
        field = page.locator(".fac-roof-side").bounding_box()["y"]
        for bar in page.locator(".fac-roof-share").all():
            assert bar.bounding_box()["y"] + bar.bounding_box()["height"] < field


def lesson_8() -> RooflineChart:
    """Return lesson 08's chart with the names and numbers that it has there."""
    chart = RooflineChart(n=16384, d=128, heads=16)
    chart.add_measurement("rung 1, all tiles, all masked", intensity=7826, tflops=409, loads=63.8)
    chart.add_measurement("rung 8, one warp only copies", intensity=2886, tflops=748, loads=188)
    return chart


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 800, 1280])
def test_bars_name_kernels_and_are_the_thickest_marks(mount, width):
    """ "The fastest" and "the plainest" named none; the paradox was told by lines of 14 px."""
    page = mount(lesson_8(), width=width)
    says = "Rung 8 moves 2.7 × the HBM bytes of rung 1, and yet is 1.8 × as fast."
    assert page.inner_text(".fac-finding") == says, "the paradox; no record holds its reason"
    drawn = page.locator(".fac-stage text").all_text_contents()
    assert {mark["label"] for mark in lesson_8().marks} <= set(drawn)
    tall = page.locator(".fac-roof-crossed, .fac-roof-loaded, .fac-roof-part").evaluate_all(
        "ns => ns.map((n) => n.height.baseVal.value)"
    )
    assert min(tall) >= 20
    line = page.locator(".fac-roof-line").evaluate("n => getComputedStyle(n).strokeWidth")
    assert float(line[:-2]) < 2, "the chart is quieter where bars tell it"
    page.get_by_label("GPU").select_option("T4")
    assert "waits" not in page.inner_text(".fac-finding")


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_what_was_counted_below_the_least_of_the_models_says_so(mount, width):
    """Flash stood at 4220 FLOP/byte, and its best, a state before, at 4096."""
    chart = RooflineChart(n=8192, d=128, heads=8)
    best = chart.intensity("flash prefill, compulsory")
    chart.add_measurement("eager, measured", intensity=42.4, tflops=75)
    chart.add_measurement("flash, measured", intensity=4218, tflops=345)
    said = mount(chart, width=width).locator(".fac-stage text").all_text_contents()
    assert f"HBM moved {100 * (1 - best / 4218):.0f} % less" in said
    assert f"than at best: {best:.0f}" in said
    assert sum("than at best" in text for text in said) == 1, "nothing of eager"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_paradox_and_cause_are_bars_outside_the_logarithmic_field(mount, width):
    """Bars of bytes stood in the field, where a place means FLOP per byte, and a length nothing."""
    page = mount(rungs(), width=width)
    marks = sorted(rungs().marks, key=lambda mark: -mark["tflops"])
    bars = {"crossed": "intensity", "loaded": "loads"}
    for name, of in bars.items():
        found = page.locator(f".fac-roof-{name}").evaluate_all(
            "ns => ns.map((n) => n.width.baseVal.value)"
        )
        assert len(found) == len(marks) == 2
        assert found[1] / found[0] == pytest.approx(marks[0][of] / marks[1][of], rel=1e-3)
    speed = page.locator(".fac-roof-part").evaluate_all("ns => ns.map((n) => n.getBBox().width)")
    assert speed[0] / speed[1] == pytest.approx(686 / 400, rel=1e-3)
    field = page.locator(".fac-roof-side").bounding_box()["y"]
    for name in ("crossed", "loaded", "part", "share"):
        for bar in page.locator(f".fac-roof-{name}").all():
            box = bar.bounding_box()
            assert box["y"] + box["height"] < field
    said = page.locator(".fac svg text", has_text=re.compile("^686")).count()
    assert said == 1, "said once"


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_two_kernels_of_one_colour_have_two_values(mount, theme):
    """Both were the same blue, in bars, points and arrows."""
    page = mount(rungs())
    page.emulate_media(color_scheme=theme)
    bare = "n => { const c = getComputedStyle(n); return c.fill === 'none' ? c.stroke : c.fill; }"
    values = {}
    for what in ("crossed", "loaded", "part", "saved"):
        found = page.locator(f"path.fac-roof-{what}, rect.fac-roof-{what}")
        values[what] = found.evaluate_all(f"ns => ns.map({bare})")
    values["mark"] = page.locator("path.fac-measured").evaluate_all(f"ns => ns.map({bare})")
    assert len({tuple(pair) for pair in values.values()}) == 1, values
    fast, slow = values["mark"]
    assert fast != slow


@pytest.mark.browser
def test_on_a_phone_no_name_breaks_out_of_the_picture(mount):
    """ "flash at worst" stood over the upper edge of the shaded side."""
    page = mount(RooflineChart(n=8192, d=128, heads=8), width=480)
    edge = page.locator(".fac-roof-side").bounding_box()["y"]
    name = page.locator(".fac-stage text", has_text="flash at worst").bounding_box()
    assert name["y"] + 3 > edge, "but for the font's own room above its letters"


@pytest.mark.browser
def test_on_a_phone_no_name_lies_on_the_axis(mount):
    """ "TFLOP/s" of rung 1's bound began left of the axis, on its numbers."""
    page = mount(lesson_8(), width=480)
    axis = page.locator(".fac-roof-side").bounding_box()["x"]
    for text in page.locator(
        ".fac-stage text", has_text=re.compile("^ceiling|TFLOP/s$|^214$")
    ).all():
        if text.text_content() not in ("", "roof: 989 TFLOP/s"):
            assert text.bounding_box()["x"] >= axis - 2, text.text_content()


@pytest.mark.browser
@pytest.mark.parametrize("queries", [1, 1024])
def test_the_dial_has_its_share_as_a_length(mount, queries):
    """On a log axis 0.34 % looked like a third of the height."""
    page = mount(RooflineChart(view="dial", queries=queries), width=480)
    part, all_ = (
        page.locator(f".fac-roof-{name}").evaluate("n => n.getBBox().width")
        for name in ("part", "share")
    )
    says = page.locator(".fac-stage text", has_text=re.compile(r"TFLOP/s, [\d.]+ %")).text_content()
    assert 100 * part / all_ == pytest.approx(float(says.split()[-2]), rel=0.02)
    box = "n => (({ x, height }) => ({ x, height }))(n.getBBox())"
    end = page.locator(".fac-roof-end").evaluate(box)
    bar = page.locator(".fac-roof-share").evaluate(box)
    assert end["height"] > bar["height"], "a pixel lay under the line of the frame"
    assert end["x"] == pytest.approx(max(2, part), abs=0.1)
    assert says.startswith("← ") == (part < 0.4 * all_), "it points at so little"
