"""TileSchedule: its grid is the masks', its loads are the tile-load model's."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traitlets import TraitError

from course_lib.accounting.traffic import MODELS, derived_counts
from course_lib.widgets import TileSchedule

SIZES = st.integers(1, 24)
BLOCKS = st.integers(1, 9)


@given(
    n_q=SIZES, n_k=SIZES, block_q=BLOCKS, block_k=BLOCKS, window=SIZES, at_once=st.integers(1, 5),
    mask=st.sampled_from(["everything", "causal", "window"]),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_flash_visits_each_tile_that_is_not_skipped_once(mask, **sizes):
    """Counts equal `derived_counts`, whatever runs side by side; a program goes left to right."""
    schedule = TileSchedule(mask=mask, **sizes)
    causal = mask == "causal"
    window = sizes["window"] if mask == "window" else None
    counts = derived_counts(
        sizes["n_q"], sizes["n_k"], sizes["block_q"], sizes["block_k"], causal, window
    )
    flat = [tile for row in schedule.tiles() for tile in row]
    assert flat.count("full") == counts["full_tiles"]
    assert flat.count("partial") == counts["partial_tiles"]
    work = [w for now in schedule.steps() for w in now]
    assert len(work) == len({(w.i, w.j) for w in work}) == counts["visited_tiles"]
    assert all(len(now) <= sizes["at_once"] for now in schedule.steps())
    for program in {w.program for w in work}:
        columns = [w.j for w in work if w.program == program]
        assert columns == sorted(columns)
    assert schedule.loads().k == counts["visited_k_rows"] == schedule.loads().v
    assert schedule.loads().pairs == counts["visited_pairs"]


def test_loads_are_the_tile_load_model():
    """Rows times d times b is `flash_tile_loads`, with K and V once per query head."""
    schedule = TileSchedule(n_q=32, n_k=32, heads=4, kv_heads=2, mask="causal")
    loads = schedule.loads()
    rows = loads.q + loads.k + loads.v + loads.o
    want = MODELS["flash_tile_loads"].bytes(
        n=32, d=64, b=2, heads=4, kv_heads=2, block_q=4, block_k=4, causal=True
    )
    assert rows * 64 * 2 == want


def test_naive_sends_every_score_through_hbm_four_times():
    schedule = TileSchedule(schedule="naive", mask="causal")
    assert schedule.loads().scores == 4 * 16 * 16
    assert schedule.loads().pairs == 16 * 16
    assert [now[0].phase for now in schedule.steps()] == ["scores"] * 16 + ["softmax"] * 16 + [
        "values"
    ] * 16


def test_split_k_does_the_same_work_in_fewer_steps():
    """One query against 64 keys in 8 tiles: 8 steps by one program, 2 by four beside each other."""
    one = TileSchedule(n_q=1, block_q=1, n_k=64, block_k=8, at_once=4)
    four = TileSchedule(
        n_q=1, block_q=1, n_k=64, block_k=8, at_once=4, schedule="split_k", splits=4
    )
    assert (len(one.steps()), len(four.steps())) == (8, 2)
    assert one.loads().k == four.loads().k == 64
    assert four.loads(1).o == 0
    assert four.loads().o == 1
    assert four.loads().partial == 8


def test_o_is_written_when_a_program_ends():
    schedule = TileSchedule()
    assert [schedule.loads(step).o for step in (3, 4, 8, 16)] == [0, 4, 8, 16]


def test_table_and_figure_show_the_grid():
    schedule = TileSchedule(mask="causal")
    assert "/···\n#/··\n##/·\n###/" in schedule.to_table()
    assert "10 steps" in schedule.to_table()
    assert [text.get_text() for text in schedule.to_figure().axes[0].texts] == [
        str(i) for i in range(1, 11)
    ]


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        ("n_q", 0, "n_q must be a whole number from 1 to 4096"),
        ("n_k", 5000, "4096"),
        ("block_q", -1, "block_q must be"),
        ("n_q", 4096, "4096 tiles, at most 1024"),
        ("kv_heads", 3, "multiple of kv_heads"),
        ("mask", "typo", "mask"),
        ("schedule", "typo", "schedule"),
    ],
)
def test_bad_values_keep_the_last_good_state(setting, value, sentence):
    schedule = TileSchedule()
    before = schedule.to_table()
    with pytest.raises(TraitError, match=sentence):
        setattr(schedule, setting, value)
    assert schedule.to_table() == before
    with pytest.raises(ValueError, match="no setting 'rows'"):
        TileSchedule(rows=3)


@pytest.mark.browser
def test_steps_and_counters_by_mouse_and_keyboard(mount, check_page):
    page = mount(TileSchedule(), width=320)
    check_page(page)
    page.get_by_label("Mask").select_option("causal")
    assert page.locator(".fac-stage .fac-skip").count() == 6
    assert page.locator(".fac-stage .fac-half").count() == 4
    for _ in range(6):
        page.get_by_role("button", name="Next").click()
    assert "Step 6 of 10: program 2 at Q tile 2, K/V tile 2" in page.inner_text(".fac")
    seek = page.get_by_label("Step", exact=True)
    seek.press("End")
    page.get_by_text("more: ").click()
    rows = dict(zip(
        page.locator("tbody th").all_inner_texts(),
        page.locator("tbody tr td:nth-child(3)").all_inner_texts(), strict=True,
    ))  # fmt: skip
    assert rows == {
        "rows of Q loaded": "16", "rows of K loaded": "40", "rows of V loaded": "40",
        "rows of O written": "16", "scores computed": "160",
    }  # fmt: skip
    assert "Skipping saves 37.5 %" in page.inner_text(".fac")
    check_page(page)


@pytest.mark.browser
def test_a_field_refuses_too_many_tiles_and_settings_restart_the_walk(mount):
    page = mount(TileSchedule(step=3))
    page.get_by_text("more: ").click()
    box = page.get_by_label("N_q, query rows").nth(1)
    box.fill("4096")
    box.press("Enter")
    assert "4096 tiles; at most 1024" in page.inner_text(".fac")
    assert page.evaluate("[facModel.get('n_q'), facModel.get('step')]") == [16, 3]
    page.get_by_label("Schedule").select_option("split_k")
    assert page.evaluate("facModel.get('step')") == 0
    assert page.get_by_label("splits of the keys").first.is_visible()
    page.get_by_label("query heads").first.press("ArrowRight")
    assert page.locator("[data-head]").count() == 2


@pytest.mark.browser
def test_tiles_count_what_is_read_and_a_click_jumps_to_a_cell(mount):
    """Each K tile says how often it was read; the cell that is clicked is the one at work."""
    schedule = TileSchedule(mask="causal")
    page = mount(schedule, width=1280, reduced=True)
    counts = page.locator("[data-fac-part=schedule-grid] .fac-tile-said").filter(has_text="×")
    assert counts.count() == 0
    page.locator(".fac-cell[data-at='6']").click()
    assert page.evaluate("facModel.get('step')") == 6
    assert "Step 6 of 10: program 2 at Q tile 2, K/V tile 2" in page.inner_text(".fac")
    assert counts.all_text_contents()[:3] == ["read ×3", "×2", "×1"]  # K tiles 0, 1, 2
    assert "12 of 16" in page.text_content(".fac-stage")  # rows of Q
    assert "24 of 40" in page.text_content(".fac-stage")  # rows of K
    assert "program 2 has 16 scores, none in HBM" in page.text_content(".fac-stage")
    assert page.locator(".fac-stage text").filter(has_text="skipped").count() == 1
    assert (
        page.locator(".fac-stage .fac-fill-o:not(.fac-tile-end)").count() == 2 + 1 + 1 + 1
    )  # rows 0 to 2, the desk, the count
    assert schedule.loads(6).k == 4 * (3 + 2 + 1)


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_decoding_shows_what_every_program_holds_and_merges_when_all_are_done(mount, width):
    """257 keys in 17 tiles for 4 programs: 5, 5, 5 and 2 tiles, then four parts."""
    decode = {"n_q": 4, "block_q": 4, "n_k": 257, "block_k": 16, "schedule": "split_k"}
    page = mount(TileSchedule(**decode, splits=4, at_once=4, step=2), width=width, reduced=True)
    assert page.locator(".fac-tile-part").count() == 1  # the last program has had its two
    assert "program 3 at K/V tile 16" in page.inner_text(".fac")
    assert "merged" not in page.text_content(".fac svg[role=img]")
    page.get_by_label("Step", exact=True).press("End")
    assert page.locator(".fac-tile-part").count() == 4
    assert "Step 5 of 5: program 0 at K/V tile 4, program 1 at" in page.inner_text(".fac")
    assert "weighted by exp(lse)" in page.text_content(".fac svg[role=img]")


@pytest.mark.browser
def test_at_the_start_the_desk_is_empty_and_the_first_tiles_are_outlined(mount):
    page = mount(TileSchedule(), width=1280, reduced=True)
    assert page.locator(".fac-stage .fac-tile-pale").count() == 5  # Q, K, V, O and S
    first = page.locator("[data-fac-part=schedule-grid] .fac-tile-first")
    assert first.count() == 3 + 1  # of Q, K, V, and the cell
    page.get_by_role("button", name="Next").click()
    assert page.locator(".fac-tile-pale, .fac-tile-first").count() == 0


@pytest.mark.browser
def test_the_guess_is_asked_below_the_title_and_only_its_handle_is_bright(mount):
    """Three rings of one kind competed; on a phone the guess lay a screen below its instruction.

    Then the buttons stood between the bars and the grid that they count, then above the chip.
    """
    page = mount(TileSchedule(), width=480, reduced=True)
    asks, grid, desk, guess, buttons = (
        page.locator(found).bounding_box()
        for found in (
            ".fac-stage-words",
            "[data-fac-part=schedule-grid]",
            ".fac-tile-desk",
            ".fac-tile-cloth",
            "[data-fac-part=schedule-steps]",
        )
    )
    for above, below in itertools.pairwise([asks, guess, grid, desk, buttons]):
        assert above["y"] + above["height"] <= below["y"] + 4
    assert page.locator(".fac").bounding_box()["height"] < 1000
    assert page.locator(".fac-knob").count() == 1
    assert grid["y"] - guess["y"] - guess["height"] < 130, "right below the bars"
    names = page.locator(".fac-stage text[data-names]")
    assert names.all_text_contents() == ["drag me: your guess"]
    zero = page.locator(".fac-stage text.fac-t-soft", has_text=re.compile("^0$")).first
    knob, zero = page.locator(".fac-knob-guess").bounding_box(), zero.bounding_box()
    assert knob["x"] + knob["width"] < zero["x"] + zero["width"] / 2, "1 × was an answer: off it"
    words = page.locator(".fac-stage-words")
    assert words.inner_text() == "Guess first: drag the flag. Then press Next."
    next_ = page.get_by_role("button", name="Next")
    assert "fac-go" not in (next_.get_attribute("class") or "")
    page.evaluate("facModel.set('guess', 3)")
    assert words.inner_text() == "Start: 16 steps to come."
    assert "fac-go" in next_.get_attribute("class")
    assert page.locator(".fac-knob").count() == 3
    assert names.count() == 3


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_rows_moved_are_shown_at_every_width(mount, width):
    page = mount(TileSchedule(mask="causal", step=6), width=width, reduced=True)
    assert "24 of 40 row loads" in page.text_content(".fac-stage")  # of 16 rows
    assert "rows moved so far; pale: by the end" in page.text_content(".fac-stage")
    assert "2.5 ×" not in page.text_content(".fac-stage"), "it is the answer to what was guessed"
    page.get_by_label("Step", exact=True).press("End")
    assert "40 of 40 row loads2.5 ×" in page.text_content(".fac-stage")


@pytest.mark.browser
@pytest.mark.parametrize("schedule", ["flash", "naive"])
def test_the_title_asks_before_the_first_step_and_answers_at_the_end(mount, schedule):
    """It told at step 0 how often K and V would be read, and so did the dashed bars."""
    page = mount(TileSchedule(mask="causal", schedule=schedule), width=1280, reduced=True)
    ends = "nodes => Math.max(...nodes.map((n) => n.width.baseVal.value))"
    assert page.inner_text(".fac-finding").endswith("?")
    assert page.locator(".fac-tile-end").evaluate_all(ends) == 0
    said = page.locator(".fac-stage text").all_text_contents()
    marks = [text for text in said if text.endswith(" ×")]  # a scale, which goes on past the end
    assert marks == ([f"{k} ×" for k in range(1, 6)] if schedule == "flash" else [])
    full = page.locator(".fac-edge:is(.fac-fill-q, .fac-fill-k, .fac-fill-v):not(.fac-tile-unread)")
    assert full.count() == 0  # full colour: read
    page.get_by_role("button", name="Next").click()
    assert full.count() > 0
    assert "so far" in page.inner_text(".fac-finding").lower()
    assert page.locator(".fac-tile-end").evaluate_all(ends) > 0
    page.get_by_label("Step", exact=True).press("End")
    answer = {
        "flash": "Each row of K and V is read 2.5 times on average",
        "naive": "S and P go through HBM: each score crossed it 4 times",
    }
    assert page.inner_text(".fac-finding") == answer[schedule]


@pytest.mark.browser
def test_a_program_without_a_tile_is_named(mount):
    short = {"n_q": 1, "block_q": 1, "n_k": 10, "block_k": 4, "schedule": "split_k"}
    page = mount(TileSchedule(**short, splits=8, at_once=8, step=1), width=1280)
    assert page.locator(".fac-tile-part").count() == 3
    assert "Without any tile: 5." in page.inner_text(".fac")


@pytest.mark.browser
def test_the_edges_of_tiles_are_dragged_and_a_part_opens_its_fold(mount):
    page = mount(TileSchedule(step=3), width=1280, reduced=True)
    for trait, move in (("block_k", (85, 0)), ("block_q", (0, -40))):
        box = page.locator(f".fac-knob-{trait}").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + move[0], y + move[1])
        page.mouse.up()
    got = page.evaluate("['block_k', 'block_q', 'step'].map((name) => facModel.get(name))")
    assert got == [8, 2, 0]


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_its_question_has_a_place_for_a_guess(mount, check_page, width):
    """Dragged on the axis of the rows loaded before the first step; then it stands at the bars."""
    page = mount(TileSchedule(), width=width, height=1300, reduced=True)
    tick = page.locator(".fac-stage text", has_text=" ×").evaluate_all(
        "ns => ns.map(n => n.getBBox()).map(b => b.x + b.width / 2)"
    )
    once = tick[1] - tick[0]
    knob = page.locator(".fac-knob-guess").bounding_box()
    x, y = knob["x"] + knob["width"] / 2, knob["y"] + knob["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    zero = tick[0] - once
    page.mouse.move(page.locator(".fac-stage").bounding_box()["x"] + zero + 3 * once, y)
    page.mouse.up()
    assert page.evaluate("facModel.get('guess')") == 3
    assert "3 ×" in page.locator("text[data-names=guess]").text_content()
    check_page(page)
    page.evaluate("facModel.set('step', 16)")
    assert page.locator(".fac-knob-guess").count() == 0, "it is kept"
    assert page.locator(".fac-tile-guess").count() == 1
    assert page.inner_text(".fac-finding") == "Each row of K and V is read 4 times"
    assert "you: 3 ×" in page.locator(".fac-stage text").all_text_contents(), "once, on the axis"
    page.evaluate("facModel.set('schedule', 'naive')")
    assert page.locator(".fac-tile-guess").count() == 0, "that question is another"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.parametrize("guess", [1.5, 2, 3, 3.5, 4, 5])
@pytest.mark.few(4)
def test_the_guess_runs_through_no_number_and_no_number_is_cut(mount, width, guess):
    """Its line struck *12 of 16* out, and what a student had guessed was cut at the edge."""
    page = mount(TileSchedule(mask="causal", guess=guess), width=width, height=1300, reduced=True)
    boxes = """() => [...document.querySelectorAll('.fac-stage text')].filter((t) => t.textContent)
      .map((t) => t.getBoundingClientRect()).map((r) => [r.left, r.right, r.top, r.bottom])"""
    for step in (0, 6, 10):
        page.evaluate(f"facModel.set('step', {step})")
        found = page.evaluate(boxes)
        stage = page.locator(".fac-stage").first.bounding_box()
        assert max(right for _, right, *_ in found) <= stage["x"] + stage["width"] + 3
        if not step:
            continue
        line = page.locator(".fac-tile-guess").bounding_box()
        across, low = line["x"] + line["width"] / 2, line["y"] + line["height"] - 6
        for left, right, top, bottom in found:
            assert not (left < across < right and top < low and bottom > line["y"]), guess


@pytest.mark.browser
def test_a_guess_is_made_without_a_mouse(mount):
    page = mount(TileSchedule(), reduced=True)
    page.get_by_text("more: ").first.click()
    box = page.get_by_label("your guess, times").nth(1)
    box.fill("2.5")
    box.press("Enter")
    assert page.evaluate("facModel.get('guess')") == 2.5
    page.get_by_role("button", name="Next").click()
    assert not box.is_visible()


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_tiles_on_chip_have_the_size_that_they_have_in_the_grid(mount, width):
    """They were swatches; beside half a screen of nothing they are larger, all by one factor."""
    page = mount(TileSchedule(mask="causal", step=6), width=width, reduced=True)
    size = "ns => ns.map(n => [n.getBBox().width, n.getBBox().height])"
    grid = page.locator("[data-fac-part=schedule-grid]")
    desk = ".fac-stage > g:not([data-fac-part]) > .fac-edge.fac-fill-"
    lens = set()
    for fill in "qkvo":
        (on_chip,) = page.locator(f"{desk}{fill}").evaluate_all(size)
        lies = grid.locator(f".fac-fill-{fill}").first.evaluate_all(size)[0]
        lens |= {round(a / b, 2) for a, b in zip(on_chip, lies, strict=True)}
    (lens,) = lens
    assert lens == 1 if width == 480 else lens > 1.4
    (scores,) = page.locator(f"{desk}s").evaluate_all(size)
    cell = grid.locator(".fac-cell").first.evaluate("n => [n.getBBox().width, n.getBBox().height]")
    assert scores == pytest.approx([lens * (side + 1) for side in cell], rel=0.01)
    page.get_by_text("more: ").click()
    page.get_by_label("B_q").first.press("End")
    page.get_by_label("B_k").first.press("End")
    box, stage = (
        page.locator(f".{of}").last.bounding_box() for of in ("fac-tile-desk", "fac-stage")
    )
    assert box["x"] + box["width"] <= stage["x"] + stage["width"], "a tile as large as the grid"
    assert box["y"] + box["height"] <= stage["y"] + stage["height"]


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_counts_stand_on_the_tiles_and_no_unnamed_tick_in_a_bar(mount, width):
    """White and black ticks in the bars of K and V, one a tile and time, were explained nowhere."""
    page = mount(TileSchedule(mask="causal", step=6), width=width, reduced=True)
    bars = page.locator(".fac-tile-once").evaluate_all(
        "ns => ns.map(n => n.getBoundingClientRect()).map(b => [b.left, b.right, b.top, b.bottom])"
    )
    for text in page.locator(".fac-stage text").filter(has_text=re.compile(r"\d")).all():
        box = text.bounding_box()
        low, high = box["y"] + 4, box["y"] + box["height"] - 4
        for left, right, top, bottom in bars:  # lines struck the counts that stood there
            across = box["x"] < right and left < box["x"] + box["width"]
            assert not (across and low < bottom and top < high), text.text_content()
    reads = page.locator("[data-fac-part=schedule-grid] text.fac-t-name.fac-tile-said")
    assert reads.all_text_contents() == ["read ×3", "×2", "×1", "×3", "×2", "×1"], "on the tiles"


@pytest.mark.browser
def test_no_other_schedule_stands_on_the_axis_of_this_one(mount):
    """naive: 4 × was explained nowhere, and stood on a causal picture whose answer is 2.5 ×."""
    page = mount(TileSchedule(n_q=16, n_k=16, mask="causal", step=6, guess=2), reduced=True)
    texts = page.locator(".fac-stage text").all_text_contents()
    assert "you: 2 ×" in texts
    assert not [text for text in texts if "naive" in text]
    rows = [text for text in texts if re.fullmatch(r"program \d", text)]
    assert rows == [f"program {i}" for i in range(4)], "who computes a row stands beside it"


@pytest.mark.browser
@pytest.mark.parametrize("step", [0, 6])
def test_on_a_phone_the_chip_is_right_below_the_grid_and_the_buttons_below_it(mount, step):
    """The buttons stood between the chip and the tile that it holds."""
    page = mount(TileSchedule(n_q=16, n_k=16, step=step, guess=2), width=480, reduced=True)
    grid = page.locator("[data-fac-part=schedule-grid]").bounding_box()
    bar = page.locator("[data-fac-part=schedule-steps]").bounding_box()
    chip = page.locator(".fac-tile-desk").bounding_box()
    assert 0 <= chip["y"] - grid["y"] - grid["height"] < 40
    assert chip["y"] + chip["height"] <= bar["y"]
    name = page.locator(".fac-stage text", has_text="on chip").bounding_box()
    assert name["x"] > chip["x"] + chip["width"], "beside it"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_a_line_leads_from_the_tile_at_work_to_the_chip(mount, width):
    page = mount(TileSchedule(mask="causal"), width=width, reduced=True)
    line = page.locator(".fac-tile-leader:not(.fac-tile-halo)")
    assert line.count() == 0, "nothing is there yet"
    box = "n => { const b = n.getBBox(); return [b.x, b.y, b.x + b.width, b.y + b.height]; }"
    for step in (1, 6, 10):
        page.evaluate(f"facModel.set('step', {step})")
        ends = line.evaluate(
            """n => [0, n.getTotalLength()].map((at) => n.getPointAtLength(at))
              .map((p) => [p.x, p.y])"""
        )
        for (x, y), what in zip(ends, (".fac-cell.fac-now", ".fac-tile-desk"), strict=True):
            left, top, right, low = page.locator(f".fac-stage {what}").evaluate(box)
            assert left - 1 <= x <= right + 1
            assert top - 1 <= y <= low + 1
    desk, stage = (page.locator(of).bounding_box() for of in (".fac-tile-desk", ".fac-stage"))
    if width == 1280:
        assert desk["width"] * desk["height"] > 2 * 163 * 157, "of a screen's size"
    assert desk["y"] + desk["height"] <= stage["y"] + stage["height"]


@pytest.mark.browser
def test_until_it_is_set_the_flag_leaves_the_axis_clear_and_the_axis_is_alike_everywhere(mount):
    """It lay on the bar of K and on the line at 1 ×; the axis ended at 5 × or at 6 ×."""
    marks = {}
    for width in (480, 1280, 1920):
        page = mount(TileSchedule(), width=width, reduced=True, again=True)
        cloth = page.locator(".fac-tile-cloth").bounding_box()
        texts = page.locator(".fac-stage text", has_text=re.compile(r"^\d+ ×$"))
        marks[width] = texts.all_text_contents()
        low = max(one["y"] + one["height"] for one in (text.bounding_box() for text in texts.all()))
        assert cloth["y"] > low - 4
        for once in page.locator(".fac-tile-once").all():
            box = once.bounding_box()
            assert box["y"] + box["height"] < cloth["y"]
        page.evaluate("facModel.set('guess', 2)")
        assert page.locator(".fac-tile-cloth").bounding_box()["y"] < low, "on the axis"
    assert marks[480] == marks[1280] == marks[1920]


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_a_step_in_the_grid_is_a_piece_of_the_bars(mount, width):
    """What a tile costs had to be found out from two numbers."""
    page = mount(TileSchedule(mask="causal", step=6), width=width, reduced=True)
    box = "ns => ns.map((n) => n.getBBox()).map((b) => [b.x, b.x + b.width, b.width])"
    outlines = page.locator("rect.fac-tile-now").evaluate_all(box)
    bars = page.locator("rect:is(.fac-fill-k, .fac-fill-v):not(.fac-edge, .fac-tile-end)")
    for bar in bars.evaluate_all(box):
        piece = [one for one in outlines if one[1] == pytest.approx(bar[1], abs=0.1)]
        assert [one[2] for one in piece] == pytest.approx([bar[2] / 6] * 2, abs=0.1), "K and V"
    cuts = page.locator(".fac-tile-units").first.get_attribute("d").count("M")
    assert cuts == 6, "one for each tile that was read"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.parametrize("guess", [2, 3.5, 4, 4.5])
@pytest.mark.few(2)
def test_no_word_is_cut_off_and_none_lies_on_another_midway(mount, width, guess):
    """The foot of "you: 2 ×" was outside its picture."""
    widget = TileSchedule(n_q=16, n_k=16, mask="causal", step=6, guess=guess)
    page = mount(widget, width=width, reduced=True)
    wrong = page.evaluate(
        """() => [...document.querySelectorAll('.fac-stage')].flatMap((svg) => {
          const all = svg.getBoundingClientRect();
          const texts = [...svg.querySelectorAll('text')].filter((n) => n.textContent);
          const boxes = texts.map((n) => n.getBoundingClientRect());
          return texts.flatMap((n, i) => {
            const b = boxes[i];
            const cut = b.bottom > all.bottom || b.right > all.right;
            const over = boxes.findIndex((o, j) => j > i && b.left < o.right - 1
              && o.left < b.right - 1 && b.top < o.bottom - 4 && o.top < b.bottom - 4);
            const two = over > 0 && `${n.textContent} / ${texts[over].textContent}`;
            return [cut && n.textContent, two];
          }).filter(Boolean); })"""
    )
    assert wrong == []


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_way_of_each_program_is_an_arrow_dark_as_far_as_it_came(mount, width):
    """In what order tiles are computed stood in small numbers alone."""
    page = mount(TileSchedule(mask="causal", step=5), width=width, reduced=True)
    grid = page.locator("[data-fac-part=schedule-grid]")
    ways = ["path.fac-tile-walk:not(.fac-tile-coming)", "path.fac-tile-walk.fac-tile-coming"]
    ends = [
        [[float(x) for x in way] for way in re.findall(r"M([\d.]+) [\d.]+H([\d.]+)", path)]
        for path in (grid.locator(way).get_attribute("d") for way in ways)
    ]
    assert [len(path) for path in ends] == [2, 2], "two rows begun, the second half; one to come"
    gone, coming = ends
    assert gone[1][1] == coming[0][0], "one arrow"
    cells = grid.locator(".fac-cell.fac-now").evaluate(
        "n => [n.x.baseVal.value, n.width.baseVal.value]"
    )
    assert gone[1][1] == pytest.approx(cells[0] + cells[1] / 2, abs=1.5), "it has come to this tile"
    number = grid.locator("text.fac-tile-large").first
    assert float(number.evaluate("n => parseFloat(getComputedStyle(n).fontSize)")) > 18
