"""ServerMemory: what is recorded is what the policies make, and what the lanes show of it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from traitlets import TraitError

from course_lib.accounting.serving import Policy, Request, Run, Step, simulate
from course_lib.attention.scheduling import continuous, refill, static
from course_lib.widgets import ServerMemory, server_memory
from course_lib.widgets.server_memory import (
    ANSWER,
    BUDGET,
    FACTS,
    PAGE_SIZE,
    POLICIES,
    REQUESTS,
    WHOLE,
    condense,
    key,
    memory_at,
    places,
    requests_at,
    serve,
)

RESERVING: dict[str, Callable[[int], Policy]] = {
    "static batching": static,
    "continuous batching": refill,
}


def step(at: float, seconds: float, rows: int, room: int, **others: int) -> Step:
    counts = {"prefill": 0, "decode": 1, "answered": 1, "waiting": 0, "running": 1, **others}
    return Step(at=at, seconds=seconds, rows=rows, room=room, **counts)


def test_a_lane_tells_how_long_a_request_waited_was_computed_and_held_its_memory():
    """One comes at 0 and is thrown out once; the other waits until the first has gone."""
    moments = {0: (0, 0, 1, 2, 3, 4, 5, 5), 1: (1, 5, 6, 8, 9)}
    run = Run((step(0, 3, 25, 50), step(3, 6, 0, 0, decode=0)), {0: 3.0}, 9.0, (1, 6, 8), moments)
    lane = condense(run)
    assert lane["lanes"] == [[0, 1000, 1000, 1000, 1000, 1000, 0], [4000, 1000, 2000, 1000]]
    assert (lane["most"], lane["moment"]) == (1, 0)
    assert (lane["wasted"], lane["wait"], lane["step"]) == (50, 3.0, 3000.0)


def test_memory_at_a_moment_by_hand():
    """16 slots a page: a prompt of 20 takes two pages, and three once it has 33 rows."""
    requests = [Request(0, 0.0, 20, 21), Request(1, 0.5, 40, 2)]
    run = {"lanes": [[0, 10, 100, 5], [0, 50, 10, 1]], "lost": {}}
    paged = {"pages": 5, "reserved": 0}
    assert memory_at(run, requests, 0, **paged) == [(0, 20, 32)], "a prompt has all its rows"
    assert memory_at(run, requests, 75, **paged) == [(0, 33, 48)], "65 of 100 ms: 13 of 20 more"
    assert memory_at(run, requests, 112, **paged) == [(0, 0, 0)], "answered: nothing is used"
    assert memory_at(run, requests, 112, pages=5, reserved=64) == [(0, 0, 64)], "and it is held"
    assert memory_at(run, requests, 500, **paged) == [(1, 40, 48)]
    both = {"lanes": [[0, 10, 1000, 5], [0, 50, 10, 1]], "lost": {}}
    assert memory_at(both, requests, 510, **paged) == [(0, 30, 32), (1, 40, 48)]
    assert memory_at(both, requests, 510, pages=4, reserved=0)[1] == (1, 32, 32), "what is free"


@pytest.mark.parametrize("setting", [(64, 20, 128), *random.Random(0).sample(list(places()), 3)])
@pytest.mark.parametrize("name", [*RESERVING, "pages and chunks"])
def test_the_memory_that_is_drawn_is_that_of_the_steps(setting, name):
    """Rows between two moments are interpolated: on the average within 4 % of the pool."""
    pages, every, prompt = setting
    most = prompt + ANSWER
    reserved = most if name in RESERVING else 0
    policy = RESERVING[name](most) if reserved else continuous
    requests = requests_at(every, prompt)
    run = simulate(
        policy, requests, pages=pages, page_size=PAGE_SIZE, reserved=reserved,
        budget=WHOLE if reserved else BUDGET,
    )  # fmt: skip
    lane, used, held = condense(run), [], []
    for step in run.steps:
        t = round(1000 * (step.at + step.seconds)) - 1
        here = memory_at(lane, requests, t, pages=pages, reserved=reserved)
        used.append(sum(rows for _, rows, _ in here) - step.rows)
        held.append(sum(room for *_, room in here) - step.room)
    for wrong in (used, held):
        assert np.mean(np.abs(wrong)) < 0.04 * pages * PAGE_SIZE


@pytest.mark.parametrize("setting", [(64, 20, 128), *random.Random(0).sample(list(places()), 3)])
def test_the_record_is_what_the_policies_make(setting):
    lanes = ServerMemory().data["lanes"]
    most = setting[-1] + ANSWER
    for name, policy in RESERVING.items():
        run = serve(policy(most), *setting, budget=WHOLE, reserved=most)
        assert lanes[name][key(*setting)] == run, "run benchmarks/serving.py"
    assert lanes["pages and chunks"][key(*setting)] == serve(continuous, *setting)


def test_every_setting_is_recorded_and_nothing_is_held_beyond_the_pool():
    for name, lane in ServerMemory().data["lanes"].items():
        assert set(lane) == {key(*setting) for setting in places()}
        for pages, every, prompt in places():
            run = lane[key(pages, every, prompt)]
            requests, reserved = requests_at(every, prompt), (prompt + ANSWER) * (name in RESERVING)
            assert all(len(spent) % 3 == 1 for spent in run["lanes"])
            here = memory_at(run, requests, run["moment"], pages=pages, reserved=reserved)
            assert len(here) >= run["most"]
            assert sum(room for *_, room in here) <= pages * PAGE_SIZE


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


def told_by(page: Any) -> list[str]:
    return page.locator(".fac-server-fact").all_text_contents()


def facts_of(widget: ServerMemory) -> list[str]:
    """Return what each panel should say: how fast. What is wasted on the average is folded."""
    return [f"{run['speed']} tokens a second" for run in widget.runs().values()]


def says(page: Any, widget: ServerMemory) -> bool:
    pairs = zip(told_by(page), facts_of(widget), strict=True)
    return all(text.startswith(fact) for text, fact in pairs)


@pytest.mark.browser
@pytest.mark.parametrize("width", [320, 480, 1280])
def test_sliders_and_the_handle_choose_the_run_and_the_moment(mount, check_page, width):
    page = mount(ServerMemory(), width=width)
    check_page(page)
    assert says(page, ServerMemory())
    assert page.locator(".fac-finding").text_content() == (
        "Pages and chunks: 3.4 × the tokens a second of static batching"
    )
    page.get_by_text("more: ").click()
    rest = page.locator(".fac-server-rest tr").nth(1)
    seen = ["static batching", "4", "81 %", "4.79 s", "4.8 ms", "0"]
    assert rest.inner_text().split("\t") == seen
    page.get_by_label("ms between requests").first.press("ArrowRight")
    assert page.evaluate("facModel.get('every')") == 40
    box = page.get_by_label("rows of the pool").nth(1)
    box.fill("100")
    box.press("Enter")
    assert "One of 1024, 2048, 4096, 8192, please." in page.inner_text(".fac")
    knob = page.locator(".fac-knob")
    knob.scroll_into_view_if_needed()
    at = page.evaluate("facModel.get('at')")
    assert at == -1, "another setting has another moment"
    begun = knob.bounding_box()
    x, y = begun["x"] + begun["width"] / 2, begun["y"] + begun["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 60, y)  # the handle is in the hand
    assert knob.bounding_box()["x"] == pytest.approx(begun["x"] + 60, abs=1)
    page.mouse.up()
    at = page.evaluate("facModel.get('at')")
    knob.press("ArrowLeft")
    assert 0 < page.evaluate("facModel.get('at')") < at
    knob.press("Home")
    assert page.evaluate("facModel.get('at')") == 0
    assert knob.get_attribute("aria-valuetext") == "0.00 s"
    assert says(page, ServerMemory(every=40))
    check_page(page)


BOX = "ns => ns.map(n => n.getBBox()).map(b => [b.x, b.x + b.width, b.y, b.y + b.height])"


@pytest.mark.browser
def test_a_request_is_a_lane_and_the_clock_is_the_same_in_all_panels(mount):
    widget = ServerMemory()
    page = mount(widget, width=1280)
    runs = list(widget.runs().values())
    waits, answers, panels = (
        page.locator(f".fac-stage .fac-server-{kind}").evaluate_all(BOX)
        for kind in ("wait", "answer", "panel")
    )
    came = [request.arrival for request in requests_at(widget.every, widget.prompt)]
    ends = [
        max(came[i] + sum(run["lanes"][i][:-1]) / 1000 for i in range(REQUESTS)) for run in runs
    ]
    second = (answers[0][1] - panels[0][0]) / ends[0]
    last = page.locator(".fac-stage .fac-t-soft", has_text=str(REQUESTS))
    assert last.count() >= len(runs), "its ticks"
    for end, wait, answer, panel in zip(ends, waits, answers, panels, strict=True):
        assert panel[:2] == panels[0][:2], "one scale"
        assert panel[3] - panel[2] == 3 * REQUESTS, "a lane a request"
        assert answer[1] - panel[0] == pytest.approx(end * second, abs=3)
        assert wait[0] >= panel[0] - 0.1
    ways = page.locator(".fac-stage .fac-server-prompt").evaluate_all(
        "ns => ns.map(n => n.getAttribute('d').split('M').length - 1)"
    )
    spells = [sum(len(spent) // 3 for spent in run["lanes"]) for run in runs]
    assert ways == spells, "one prompt for each time that a request is admitted"


@pytest.mark.browser
def test_on_a_phone_a_panel_shows_how_many_are_in_which_state_and_leaves_nobody_out(mount):
    """Every other request had a line, of 1 to 3 px."""
    widget = ServerMemory()
    page = mount(widget, width=480)
    (left, right, *_), *_ = page.locator(".fac-stage .fac-server-panel").evaluate_all(BOX)
    end = max(run["seconds"] for run in widget.runs().values())
    high = """([x, kinds]) => kinds.map((kind) =>
      [...document.querySelectorAll(`.fac-stage .fac-server-${kind}.fac-server-band`)].map((n) => {
        const box = n.getBBox();
        let many = 0;
        for (let y = box.y + 1; y < box.y + box.height; y += 2) {
          const at = n.ownerSVGElement.createSVGPoint();
          [at.x, at.y] = [x, y];
          many += n.isPointInFill(at);
        }
        return many;
      }))"""
    for t in (300, 615, 1350, 2750):
        shown = page.evaluate(
            high, [left + (right - left) * t / 1000 / end, ["wait", "served", "ended"]]
        )
        for i, run in enumerate(widget.runs().values()):
            now = [state_at(run, request, t) for request in range(REQUESTS)]
            told = [now.count(state) for state in ("wait", "served", "ended")]
            assert [kind[i] for kind in shown] == pytest.approx(told, abs=1.5), (t, told)
    lit = page.locator(".fac-stage .fac-server-lit").evaluate_all(BOX)
    counts = page.locator(".fac-server-count").all_text_contents()
    assert [(low - top) / 2 for *_, top, low in lit] == [int(text.split()[0]) for text in counts]


def state_at(run: dict[str, Any], request: int, t: int) -> str:
    """Return what happens to a request in a millisecond."""
    came = round(1000 * requests_at(20, 128)[request].arrival)
    m = np.cumsum([came, *run["lanes"][request]])
    if not m[0] <= t < m[-1]:
        return ""
    if t >= m[-2]:
        return "ended"
    return "wait" if np.searchsorted(m, t, side="right") % 3 == 1 else "served"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_who_is_thrown_out_is_counted_on_a_row_of_its_own_with_a_scale(mount, width):
    """A smear of rings was none; and bars stood there without a number."""
    widget = ServerMemory()
    page = mount(widget, width=width)
    thrown = page.locator(".fac-stage .fac-server-thrown")
    (counts,) = thrown.evaluate_all("ns => ns.map(n => n.dataset.counts.split(' ').map(Number))")
    out = widget.runs()["pages and chunks"]["out"]
    assert sum(counts) == out
    ((_, _, top, _),) = thrown.evaluate_all(BOX)
    panels = page.locator(".fac-server-panel").evaluate_all(BOX)
    assert top >= panels[-1][3], "below the requests"
    says = page.locator(".fac-stage text", has_text="thrown out").text_content()
    assert [int(n) for n in re.findall(r"\d+(?= thrown| times thrown| in )", says)] == [
        out, max(counts),
    ]  # fmt: skip


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_pool_shows_who_holds_how_much_and_the_numbers_stand_on_it(mount, width):
    """The single message: the same memory, 2 or 4 in it, or 11."""
    widget = ServerMemory()
    page = mount(widget, width=width)
    at = widget.runs()["pages and chunks"]["moment"]
    area = """ns => ns.map((n) => { let sum = 0; const path = n.getAttribute('d') ?? '';
      for (const [, w, h] of path.matchAll(/h([\\d.]+)v([\\d.]+)/g)) sum += w * h;
      return sum; })"""
    pool, used, empty = (
        page.locator(f".fac-stage path.{name}").evaluate_all(area)
        for name in ("fac-server-pool", "fac-server-used", "fac-waste")
    )
    counts = page.locator(".fac-server-count").all_text_contents()
    for i, (name, run) in enumerate(widget.runs().items()):
        most = 256 * (name in RESERVING)
        here = memory_at(run, requests_at(20, 128), at, pages=64, reserved=most)
        rows, room = sum(r for _, r, _ in here), sum(r for *_, r in here)
        assert pool[i] == pytest.approx(pool[0], rel=0.01), "one scale"
        assert used[i] / pool[i] == pytest.approx(rows / 1024, abs=0.01)
        assert empty[i] / pool[i] == pytest.approx((room - rows) / 1024, abs=0.01)
        assert counts[i].endswith(f"{sum(r > 0 for _, r, _ in here)} served")
    assert [text.split(": ")[-1] for text in counts] == ["2 served", "4 served", "11 served"]
    seats = page.locator(".fac-stage .fac-t-chip", has_text="ended").all_text_contents()
    assert seats == ["3 ended", "4 ended"], "two seats that are held stood there without a word"
    assert "2 ended, 22 wait" in page.locator(".fac-stage").text_content(), "four seats, two in use"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.parametrize("settings", [{}, {"every": 5, "prompt": 896}, {"pages": 512, "every": 5}])
def test_no_word_lies_on_another_and_no_rule_crosses_one(mount, width, settings):
    page = mount(ServerMemory(**settings), width=width)
    crossed = page.evaluate(
        """() => { const box = (n) => n.getBoundingClientRect();
        const all = [...document.querySelectorAll('.fac-stage text')];
        const texts = all.filter((n) => n.textContent);
        const over = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
          && a.top < b.bottom - 4 && b.top < a.bottom - 4;
        const rules = [...document.querySelectorAll('.fac-server-now')];
        const found = [];
        texts.forEach((a, i) => {
          const b = box(a);
          if (b.left < 0 || b.right > innerWidth) found.push(a.textContent + ' is cut');
          for (const o of texts.slice(i + 1)) {
            if (over(b, box(o))) found.push(a.textContent + ' / ' + o.textContent);
          }
          if (rules.some((rule) => over(b, box(rule)))) found.push(a.textContent + ' is crossed');
        });
        return found; }"""
    )
    assert crossed == []


@pytest.mark.browser
def test_used_rows_are_not_in_flashs_colour(mount):
    page = mount(ServerMemory(), width=1280)
    fill = page.locator("path.fac-server-used").first.evaluate("n => getComputedStyle(n).fill")
    named = page.locator(".fac").evaluate(
        "n => { n.style.fill = 'var(--fac-flash)'; return getComputedStyle(n).fill; }"
    )
    assert fill != named


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.parametrize("settings", [{}, {"every": 5}, {"pages": 256}])
def test_each_step_is_credited_with_its_own_gain_and_the_whole_stands_where_the_runs_end(
    mount, width, settings
):
    """It said 3.4 times for pages, where the tram alone made twice the coach's tokens."""
    widget = ServerMemory(**settings)
    page = mount(widget, width=width)
    runs = list(widget.runs().values())
    told = page.locator(".fac-stage").text_content()
    gains = [f"{b['speed'] / a['speed']:.1f} ×" for a, b in pairwise(runs)]
    whole = f"{runs[2]['speed'] / runs[0]['speed']:.1f} ×"
    finding = f"Pages and chunks: {whole} the tokens a second of static batching"
    assert page.locator(".fac-finding").text_content() == finding, "what over what"
    marks = page.locator("path.fac-server-finish").evaluate_all(BOX)
    (begin, end, *_), *_ = page.locator(".fac-stage .fac-server-panel").evaluate_all(BOX)
    scale = (end - begin) / max(run["seconds"] for run in runs)
    for (at, *_), run in zip(marks, [*runs, *runs], strict=True):
        assert at == pytest.approx(begin + scale * run["seconds"], abs=0.1), "in its panel, below"
    for run in runs:
        assert f"all answered at {run['seconds']:.2f} s" in told
    drawn = [gain for gain in gains if gain != "1.0 ×"]
    if gains[1] == "1.0 ×":
        assert "pages: no more" in told
    else:
        drawn.append(whole)
    says = page.locator(".fac-server-gains").all_text_contents()
    assert [re.search(r"[\d.]+ ×", text)[0] for text in says] == drawn, "no length is a ratio"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_who_is_in_the_pool_has_a_number_that_is_the_lanes(mount, width):
    widget = ServerMemory()
    page = mount(widget, width=width)
    told = page.locator(".fac-stage").text_content()
    assert "60 requests" in told
    soft = set(page.locator(".fac-stage .fac-t-soft").all_text_contents())
    assert {"0" if width == 480 else "1", "60"} <= soft
    assert not re.search(r"\d–\d", told), "11–27 was read as 17 requests, where 11 were served"
    at, most = widget.runs()["pages and chunks"]["moment"], 256
    who = [int(text) for text in page.locator(".fac-stage .fac-server-who").all_text_contents()]
    named, parts = [], 0
    for name, run in widget.runs().items():
        room = most * (name in RESERVING)
        here = memory_at(run, requests_at(20, 128), at, pages=64, reserved=room)
        named += [i + 1 for i, rows, _ in here if rows > 0]
        line, ends = 1024 // (2 if width == 480 else 4), np.cumsum([room for *_, room in here])
        split = [a < k < b for k in range(line, 1024, line) for a, b in pairwise([0, *ends])]
        parts += 0 if room else sum(split)
    assert set(who) <= set(named)
    assert len(who) >= len(named) - 3, "but for those with too little room"
    twice = [one for one in who if who.count(one) > named.count(one)]
    assert not twice, "a request in two lines of the pool looked like two"
    joined = page.locator(".fac-server-joins").evaluate_all(
        "ns => ns.map(n => (n.getAttribute('d').match(/M/g) ?? []).length)"
    )
    assert sum(joined) == parts > 0
    ink = "n => getComputedStyle(n)[n.classList.contains('fac-server-lit') ? 'stroke' : 'fill']"
    (lit,) = set(
        page.locator(".fac-server-lit, .fac-server-used").evaluate_all(f"ns => ns.map({ink})")
    )
    if width == 1280:
        paint = "n => getComputedStyle(n).stroke"
        served, prompt = (
            page.locator(f".fac-stage .fac-server-{kind}").first.evaluate(paint)
            for kind in ("answer", "prompt")
        )
        assert lit != served, "who is in the pool is lit in the lanes"
        assert prompt == served, "and nothing else has that ink"
    hand = page.locator(".fac-server-now").first.evaluate("n => getComputedStyle(n).stroke")
    assert lit != hand, "the hand's colour is for what is dragged"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_moment_is_dragged_in_any_chart_and_each_pool_lies_by_its_chart(mount, width):
    """The handle was above three charts; then the pools were below all of them."""
    page = mount(ServerMemory(), width=width)
    ends = "ns => ns.map((n) => n.getBoundingClientRect()).map((b) => [b.top, b.bottom])"
    (knob,), panels, pools = (
        page.locator(f".fac-stage {name}").evaluate_all(ends)
        for name in (".fac-knob", ".fac-server-panel", ".fac-server-pool")
    )
    assert all(bottom < knob[0] for _, bottom in panels)
    if width == 480:
        assert all(0 < pool[0] - panel[1] < 50 for pool, panel in zip(pools, panels, strict=True))
        assert knob[1] - panels[0][0] < 740, "all that it moves is in view with it"
    else:
        assert [top for top, _ in pools] == pytest.approx([top for top, _ in panels], abs=2)
    line = page.locator(".fac-server-hold").nth(1)
    line.scroll_into_view_if_needed()
    box = line.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 50, y)
    page.mouse.up()
    assert page.evaluate("facModel.get('at')") > ServerMemory().runs()["pages and chunks"]["moment"]


@pytest.mark.browser
def test_waiting_is_a_mass_a_prompt_is_taller_and_a_held_seat_is_hatched_as_held_memory(mount):
    """Black and grey lines of 2 px could not be told apart; who waited was a haze of hairs."""
    page = mount(ServerMemory(), width=1280)
    thick = {
        kind: float(
            page.locator(f".fac-stage .fac-server-{kind}").first.get_attribute("stroke-width")
        )
        for kind in ("wait", "prompt", "answer")
    }
    assert thick["prompt"] > 2 * thick["answer"]
    assert thick["answer"] < thick["wait"] == 3, "a line as wide as its place"
    seat, empty = (
        page.locator(f".fac-stage path.{name}").first.evaluate("n => getComputedStyle(n).fill")
        for name in ("fac-server-ended", "fac-waste")
    )
    assert seat == empty, "memory that is held for nothing has one look"
    key_ = page.locator(".fac-key span:visible").all_text_contents()
    assert key_[:3] == ["its prompt", "served", "served at 0.61 s"], (
        "the others are said where they are"
    )
    told = page.locator(".fac-stage text").all_text_contents()
    assert {"waiting", "ended, seat held", "held, but empty"} <= set(told)
