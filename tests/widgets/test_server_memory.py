"""ServerMemory: what is recorded is what the policies make, and what the lanes show of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from traitlets import TraitError

from course_lib.accounting.serving import Policy, Run, Step
from course_lib.attention.scheduling import continuous, refill, static
from course_lib.widgets import ServerMemory, server_memory
from course_lib.widgets.server_memory import (
    ANSWER,
    BINS,
    FACTS,
    POLICIES,
    WHOLE,
    condense,
    key,
    places,
    serve,
)

RESERVING: dict[str, Callable[[int], Policy]] = {
    "static batching": static,
    "continuous batching": refill,
}


def step(at: float, seconds: float, rows: int, room: int, **others: int) -> Step:
    counts = {"prefill": 0, "decode": 1, "answered": 1, "waiting": 0, "running": 1, **others}
    return Step(at=at, seconds=seconds, rows=rows, room=room, **counts)


def test_memory_is_an_average_over_the_time():
    """Half of the pool is held for three quarters of the time, and half of that is needed."""
    run = Run((step(0, 3, 25, 50), step(3, 1, 0, 0, decode=0)), {0: 3.0}, 4.0)
    lane = condense(run, 100)
    quarter = BINS // 4
    assert lane["held"] == [50] * 3 * quarter + [0] * quarter
    assert lane["needed"] == [25] * 3 * quarter + [0] * quarter
    assert (lane["wasted"], lane["wait"], lane["step"]) == (50, 3.0, 3000.0)


@pytest.mark.parametrize("setting", [(64, 20, 128), *random.Random(0).sample(list(places()), 3)])
def test_the_record_is_what_the_policies_make(setting):
    lanes = ServerMemory().data["lanes"]
    most = setting[-1] + ANSWER
    for name, policy in RESERVING.items():
        run = serve(policy(most), *setting, budget=WHOLE, reserved=most)
        assert lanes[name][key(*setting)] == run, "run benchmarks/serving.py"
    assert lanes["pages and chunks"][key(*setting)] == serve(continuous, *setting)


def test_every_setting_is_recorded_and_nothing_is_held_beyond_the_pool():
    for lane in ServerMemory().data["lanes"].values():
        assert set(lane) == {key(*setting) for setting in places()}
        for run in lane.values():
            assert len(run["needed"]) == len(run["held"]) == BINS
            pairs = zip(run["needed"], run["held"], strict=True)
            assert all(0 <= needed <= held <= 100 for needed, held in pairs)


def test_a_policy_of_ones_own_gets_a_lane(monkeypatch):
    monkeypatch.setattr(server_memory, "places", lambda: [(64, 20, 128)])
    runs = ServerMemory(continuous).runs()
    assert list(runs) == list(POLICIES)
    assert runs["yours"] == runs["pages and chunks"]


def test_table_and_figure_say_the_same():
    widget = ServerMemory()
    speeds = [run["speed"] for run in widget.runs().values()]
    told = {line[2:28].strip(): line[28:].split() for line in widget.to_table().splitlines()[2:]}
    assert list(told) == [what for *_, what in FACTS]
    assert told["tokens a second"] == [str(speed) for speed in speeds]
    assert told["of the held rows empty"] == ["81", "%", "63", "%", "9", "%"]
    titles = [axes.get_title(loc="left") for axes in widget.to_figure().axes]
    assert [int(title.split()[-4].replace(",", "")) for title in titles] == speeds


@pytest.mark.parametrize(
    ("act", "error", "sentence"),
    [
        (lambda: ServerMemory(size=1), ValueError, "no setting 'size'"),
        (lambda: ServerMemory(pages=65), TraitError, "pages must be one of 64, 128, 256, 512"),
    ],
)
def test_bad_values_get_one_sentence(act, error, sentence):
    with pytest.raises(error, match=sentence):
        act()


def facts_of(widget: ServerMemory) -> list[str]:
    """Return what each lane should say beside its picture, lane after lane."""
    return [
        f"{run[name]:g}{unit} {what}"
        for run in widget.runs().values()
        for name, unit, what in (FACTS[0], FACTS[2])
    ]


def told_by(page: Any) -> list[str]:
    texts = page.locator(".fac-server-fact").all_text_contents()
    return [" ".join(pair) for pair in zip(texts[::2], texts[1::2], strict=True)]


@pytest.mark.browser
@pytest.mark.parametrize("width", [320, 480, 1280])
def test_sliders_and_the_scale_choose_the_run(mount, check_page, width):
    page = mount(ServerMemory(), width=width)
    check_page(page)
    assert told_by(page) == facts_of(ServerMemory())
    whole = "Pages and chunks: 3.4 × static batching's speed"
    said = "Same memory, 3.4 × the speed" if width == 320 else whole
    assert said in page.locator(".fac-stage").text_content()
    page.get_by_text("more: ").click()
    rest = page.locator(".fac-server-rest tr").nth(1)
    assert rest.inner_text().split("\t") == ["static batching", "4.79 s", "4.8 ms", "0"]
    page.get_by_label("ms between requests").first.press("ArrowRight")
    assert page.evaluate("facModel.get('every')") == 40
    box = page.get_by_label("rows of the pool").nth(1)
    box.fill("100")
    box.press("Enter")
    assert "One of 1024, 2048, 4096, 8192, please." in page.inner_text(".fac")
    page.locator(".fac-knob").scroll_into_view_if_needed()
    knob = page.locator(".fac-knob").bounding_box()
    x, y = knob["x"] + knob["width"] / 2, knob["y"] + knob["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 24)  # a step up is a pool twice as large, and the handle is in the hand
    assert page.evaluate("facModel.get('pages')") == 128
    assert page.locator(".fac-knob").bounding_box()["y"] == pytest.approx(knob["y"] - 22.5, abs=1)
    page.mouse.up()
    assert page.locator(".fac-knob").bounding_box()["y"] == pytest.approx(knob["y"], abs=1)
    assert told_by(page) == facts_of(ServerMemory(pages=128, every=40))
    check_page(page)


@pytest.mark.browser
def test_a_lane_is_as_long_as_its_run_and_as_full_as_its_pool(mount):
    widget = ServerMemory()
    page = mount(widget, width=1280)
    size = "ns => ns.map(n => n.getBBox()).map(b => [b.width, b.height])"
    boxes = page.locator("path.fac-server-full").evaluate_all(size)
    runs = list(widget.runs().values())
    for run, (width, height) in zip(runs, boxes, strict=True):
        assert width / boxes[0][0] == pytest.approx(run["seconds"] / runs[0]["seconds"], rel=0.01)
        full = max(run["needed"]) / max(runs[0]["needed"])
        assert height / boxes[0][1] == pytest.approx(full, rel=0.01)


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_needed_rows_are_not_in_flashs_colour_and_the_title_says_against_what(mount, width):
    page = mount(ServerMemory(), width=width)
    fill = page.locator("path.fac-server-full").first.evaluate("n => getComputedStyle(n).fill")
    named = page.locator(".fac").evaluate(
        "n => { n.style.fill = 'var(--fac-flash)'; return getComputedStyle(n).fill; }"
    )
    assert fill != named
    title = page.locator(".fac-stage text").first
    assert "static batching" in title.text_content()
    assert title.bounding_box()["width"] < width


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_an_area_says_on_itself_what_it_is_and_the_handle_how_much(mount, width):
    page = mount(ServerMemory(), width=width)
    said = page.locator(".fac-stage text").all_text_contents()
    assert {"held, but empty", "↓ rows that are needed"} <= set(said)
    first = page.locator(".fac-server-held").first.bounding_box()
    for name in ("held, but empty", "↓ rows that are needed"):
        box = page.locator(".fac-stage text", has_text=name).bounding_box()
        assert first["y"] < box["y"] < first["y"] + first["height"], "both where they are first met"
    assert any("with 9 % of the held rows empty, not 81 %" in text for text in said)
    assert page.get_by_text("held, but empty").locator("visible=true").count() == 1, (
        "no key repeats it"
    )
    assert any("1024 rows, drag" in text for text in said)
    assert " speed" in page.locator(".fac-stage text").first.text_content()
    assert sum("all 60 answered after" in text for text in said) == 3, "one wording"
    inside = page.evaluate(
        """() => { const chips = [...document.querySelectorAll('.fac-chip:is(rect)')];
        const lanes = [...document.querySelectorAll('.fac-server-held')];
        const box = (n) => n.getBoundingClientRect();
        return chips.map((c) => lanes.some((l) => box(l).left <= box(c).left &&
          box(c).right <= box(l).right && box(l).top <= box(c).top &&
          box(c).bottom <= box(l).bottom)); }"""
    )
    assert inside == [True] * 3, "and how the first coach left"


def test_the_queue_is_an_average_and_the_last_request_is_traced():
    """Two wait for a quarter of the time; the last comes at 1, is served at 3 and done at 4."""
    run = Run((step(0, 1, 9, 9, waiting=2), step(1, 3, 9, 9)), {0: 3.0}, 4.0, (1.0, 3.0, 4.0))
    lane = condense(run, 9)
    assert lane["waiting"] == [2] * (BINS // 4) + [0] * (3 * BINS // 4)
    assert (lane["last"], lane["aboard"]) == ([1.0, 3.0, 4.0], 1)
    lanes = ServerMemory().runs().values()
    assert len({run["last"][0] for run in lanes}) == 1, "the same requests in every lane"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_last_request_is_marked_and_traced_through_all_lanes(mount, width):
    """Why a lane is long was not seen: seats are held, and people wait."""
    widget = ServerMemory()
    page = mount(widget, width=width)
    runs = list(widget.runs().values())
    came = runs[0]["last"][0]
    text = page.locator(".fac-stage").text_content()
    assert f"last request comes, {came:.2f} s" in text
    assert "left with 1 aboard" in text
    assert all(f"{max(run['waiting'])} wait" in text for run in runs)
    box = (
        "n => { const b = n.getBBox(); return {x: b.x, y: b.y, width: b.width, height: b.height}; }"
    )
    floor = page.locator("path.fac-server-full").first.evaluate(box)
    second = floor["width"] / runs[0]["seconds"]
    mark = page.locator(".fac-server-came").evaluate(box)
    assert mark["x"] - floor["x"] == pytest.approx(came * second, abs=1)
    last = page.locator("path.fac-server-queue").last.evaluate(box)
    assert mark["y"] <= floor["y"]
    assert mark["y"] + mark["height"] > last["y"] + last["height"], "through all lanes"
    waits = page.locator(".fac-server-waits").evaluate_all("ns => ns.map(n => n.getBBox().width)")
    for run, wide in zip(runs, waits, strict=True):
        assert wide == pytest.approx((run["last"][1] - run["last"][0]) * second, abs=1)
    tall = page.locator("path.fac-server-queue").evaluate_all(
        "ns => ns.map(n => n.getBBox().height)"
    )
    most = [max(run["waiting"]) for run in runs]
    assert [high / tall[0] for high in tall] == pytest.approx([m / most[0] for m in most], abs=0.02)
