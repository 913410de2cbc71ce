"""SramBudget: the paper's layout is `accounting.sram`; what fits and what is implied."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traitlets import TraitError

from course_lib.accounting.hardware import GPUS
from course_lib.accounting.sram import STATISTICS_BYTES, largest_square_tile, tile_bytes
from course_lib.widgets import SramBudget
from course_lib.widgets.sram_budget import SHOWN_GPUS


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300))
@settings(max_examples=30, deadline=None)
def test_the_papers_layout_is_tile_bytes(block_q, block_k, d):
    budget = SramBudget(block_q=block_q, block_k=block_k, d=d)
    want = tile_bytes(block_q, block_k, d, 2)
    assert sum(budget.buffer_bytes().values()) == want.pop("total")
    assert sorted(budget.buffer_bytes().values()) == sorted(want.values())
    for name in SHOWN_GPUS:
        limit = GPUS[name].shared_bytes
        exact = largest_square_tile(limit, d, 2, with_statistics=True)
        assert budget.largest_tile(name) == exact // 16 * 16


def test_the_example_of_lesson_04():
    """161 KiB at d = 128 and 128 x 128 in fp16; B is at most 129 on an A100, 128 in 16s."""
    budget = SramBudget()
    assert sum(budget.buffer_bytes().values()) == 161 * 1024
    assert budget.largest_tile("A100") == 128
    assert budget.rereads() == 64
    text = budget.to_table()
    assert "161 KiB" in text
    assert "A100-80   163 KiB: fits; largest B = 128" in text
    widths = [bar.get_width() for bar in budget.to_figure().axes[0].patches]
    assert sum(widths) == 161


def test_a_real_kernel_keeps_s_and_o_in_registers_and_stages_in_shared_memory():
    budget = SramBudget(buffers="kernel", stages=3, warps=8)
    assert sum(budget.buffer_bytes().values()) == (32 + 3 * 64) * 1024
    assert budget.registers_per_thread() == pytest.approx((64 + 64 + 1) * 1024 / 4 / 256)


def test_bad_values_get_one_sentence():
    budget = SramBudget()
    with pytest.raises(TraitError, match="block_q must be a whole number from 1 to 1024, got 0"):
        budget.block_q = 0
    with pytest.raises(ValueError, match="no setting 'tile'"):
        SramBudget(tile=3)
    with pytest.raises(ValueError, match="shared must be"):
        budget.add_compiled("H100", shared=-1)
    with pytest.raises(ValueError, match="gpu must be"):
        budget.add_compiled("typo", shared=1)
    assert budget.compiled == []


@pytest.mark.browser
def test_tiles_move_the_budget_and_the_compiler_has_its_place(mount, check_page):
    budget = SramBudget()
    budget.add_compiled("A100", shared=98304, registers=255, spills=120)
    page = mount(budget, width=320)
    check_page(page)
    title = page.locator(".fac-sram-title")
    assert title.inner_text() == (
        "Tiles of 128 rows need 161 KiB: they fit A100-80, H100, B200; not T4, L4"
    )
    assert "96 KiB shared, 255 registers a thread, 120 B spilled" in page.inner_text(".fac")
    assert page.locator(".fac-measured").count() == 1
    page.get_by_label("B_q, query rows").first.press("ArrowLeft")
    budget.block_q = 64
    total = sum(budget.buffer_bytes().values()) / 1024
    assert title.inner_text().startswith(
        f"Tiles of 64 and 128 rows need {total:.4g} KiB: they fit "
    )
    assert "read 128 times" in page.text_content(".fac-stage")
    page.get_by_label("Layout").select_option("kernel")
    page.get_by_text("more: dtype").click()
    page.get_by_label("stages, K/V tiles").first.press("ArrowRight")
    assert page.evaluate("facModel.get('stages')") == 4
    assert "registers a thread for these buffers" in page.inner_text(".fac")
    check_page(page)


def width_of(page: Any, what: str) -> float:
    return page.locator(what).evaluate("n => n.getBoundingClientRect().width")


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_every_kib_has_the_same_width_on_one_axis(mount, width):
    """64 KiB look smaller than 227, and what is over a wall is as wide as what is over it."""
    page = mount(SramBudget(block_q=256), width=width, reduced=True)
    shared = SramBudget(block_q=256).buffer_bytes()
    pixels = width_of(page, "[class*=fac-fill-q]") / (shared["Q"] / 1024)
    for name in ("k", "v", "s", "o"):
        want = pixels * shared[name.upper()] / 1024
        assert width_of(page, f".fac-sram-buffer.fac-fill-{name}") == pytest.approx(want, abs=1.5)
    rooms = page.locator(".fac-sram-wall").evaluate_all("ns => ns.map(n => n.getBBox().x)")
    assert [round(x / pixels) for x in rooms] == pytest.approx([64, 99, 163, 227], abs=2)
    total = sum(shared.values()) / 1024
    over = page.locator(".fac-sram-spill").evaluate_all("ns => ns.map(n => n.getBBox().width)")
    assert over == pytest.approx([pixels * (total - 227)], abs=2)
    said = page.locator(".fac-sram-table tbody tr").all_text_contents()
    for row, kib in zip(said, (64, 99, 163, 227), strict=True):
        assert f"✗ {total - kib:g} KiB over" in row


@pytest.mark.browser
def test_the_title_says_how_much_is_too_much_and_each_wall_whether_it_holds(mount):
    page = mount(SramBudget(block_q=256, block_k=256), width=1280)
    assert page.locator(".fac-sram-title").inner_text() == (
        "Tiles of 256 rows need 386 KiB: 159 KiB more than even H100 and B200 have"
    )
    page.get_by_label("B_q").first.press("ArrowLeft")
    page.get_by_label("B_k").first.press("ArrowLeft")
    assert page.locator(".fac-sram-gpu").all_text_contents() == [
        "T4", "L4", "A100-80", "H100, B200",
    ]  # fmt: skip
    marks = page.locator(".fac-stage text").all_text_contents()
    verdicts = [re.search("yes|no", mark) for mark in marks if re.match(r"\d+ KiB: ", mark)]
    assert [found and found[0] for found in verdicts] == ["no", "no", "yes", "yes"]
    assert not any("×" in mark or "✗" in mark for mark in marks), "that sign means times"
    assert "H100, B200" in page.locator(".fac-sram-title").inner_text()


@pytest.mark.browser
def test_each_wall_says_what_is_left_or_over_and_the_overflow_how_much(mount):
    """A table below the picture said it, at a third of the instrument's height."""
    page = mount(SramBudget(), width=1280)
    said = page.locator(".fac-stage text").all_text_contents()
    assert {
        "64 KiB: no",
        "99 KiB: no",
        "163 KiB: yes, 2 left",
        "227 KiB: yes, 66 left",
    } <= set(said)
    for width in (480, 1280):
        page = mount(SramBudget(block_q=256, block_k=256), width=width, again=True)
        said = page.locator(".fac-stage text").all_text_contents()
        assert "159 KiB too much" in said
        assert not any("over" in text for text in said), "one number says what is too much"
        assert "Q and O 256 × 128 numbers, K and V 256 × 128; S 256 × 256; 2 bytes each" in (
            page.inner_text(".fac")
        ), "each size can be recomputed"
        assert "Q 64 + K 64 + V 64 + S 128 + O 64 + m and ℓ 2 KiB" in said, "what 386 is"
        assert 256 * 2 * STATISTICS_BYTES == 2 * 1024
        assert STATISTICS_BYTES == 4


@pytest.mark.browser
@pytest.mark.parametrize("width", [320, 480, 1280])
@pytest.mark.parametrize("block", [128, 256])
def test_each_gpu_that_is_drawn_is_named_at_its_line(mount, block, width):
    """On a phone four names stood on two levels: what has no room is left to the table."""
    page = mount(SramBudget(block_q=block, block_k=block), width=width, reduced=True)
    names, walls = page.locator(".fac-sram-gpu").all(), page.locator(".fac-sram-wall").all()
    assert len(walls) == {320: 2, 480: 4, 1280: 4}[width]
    assert names[-1].text_content() == "H100, B200", "what none has is over this one"
    assert len({name.bounding_box()["y"] for name in names}) == 1, "in one row"
    for name, wall in zip(names, walls, strict=True):
        n, w = name.bounding_box(), wall.bounding_box()
        assert n["x"] - 6 <= w["x"] + w["width"] / 2 <= n["x"] + n["width"] + 6


@pytest.mark.browser
def test_the_edges_of_q_and_k_are_dragged(mount):
    page = mount(SramBudget(), width=1280, reduced=True)
    for trait, by, want in (("block_q", 130, 256), ("block_k", -50, 64)):
        box = page.locator(f".fac-knob-{trait}").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + by / 2, y)
        page.mouse.move(x + by, y)
        page.mouse.up()
        assert page.evaluate(f"facModel.get('{trait}')") == want
    page.mouse.move(x + 300, y)  # the hand has let go
    assert page.evaluate("facModel.get('block_k')") == 64


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 800, 1280])
@pytest.mark.parametrize("block", [64, 128, 256])
@pytest.mark.few(3)
def test_no_plate_lies_on_a_wall_or_on_a_handle(mount, width, block):
    page = mount(SramBudget(block_q=block, block_k=block, d=128), width=width, reduced=True)
    plates = [one.bounding_box() for one in page.locator(".fac-chip").all()]
    assert len(plates) + page.locator(".fac-sram-letter").count() >= (4 if block == 256 else 5)
    fences = page.locator(".fac-sram-wall")
    for fence in (one.bounding_box() for one in fences.all()):
        for plate in plates:
            assert (
                plate["x"] + plate["width"] <= fence["x"] + 1
                or plate["x"] >= fence["x"] + fence["width"] - 1
                or plate["y"] + plate["height"] <= fence["y"] + 4  # a stroke has no cap
                or fence["y"] + fence["height"] - 4 <= plate["y"]
            ), (plate, fence)


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_what_is_too_much_is_one_block_and_a_handle_is_seen_at_a_wall(mount, width):
    """S and O were blamed in their colours; what is too much lay at their names, within them."""
    page = mount(SramBudget(block_q=256, block_k=256), width=width, reduced=True)
    words = page.locator(".fac-stage text", has_text=re.compile("^159 KiB")).bounding_box()
    spill = page.locator(".fac-sram-spill").bounding_box()
    assert spill["x"] < words["x"], "below the block that it counts"
    assert words["x"] + words["width"] < spill["x"] + spill["width"]
    assert words["y"] + 4 > spill["y"] + spill["height"], "and on no name of it"
    edge = page.locator(".fac-sram-edge").first
    limit = page.locator(".fac-sram-limit").first.bounding_box()
    assert limit["y"] + limit["height"] < edge.bounding_box()["y"], "the handle is not T4's"
    assert edge.evaluate(
        "(n) => !!(n.compareDocumentPosition(document.querySelector("
        "'.fac-sram-wall')) & Node.DOCUMENT_POSITION_PRECEDING)"
    ), "over the wall"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_limits_stand_still_and_a_zoom_is_told(mount, width):
    """T4's went from x = 324 to 210 when the tiles grew: what changed was the ruler."""
    page = mount(SramBudget(), width=width, reduced=True)
    places = "ns => ns.map((n) => n.getBBox().x)"
    walls = page.locator("path.fac-sram-wall")
    before = walls.evaluate_all(places)
    for rows in (16, 256):
        page.evaluate(f"facModel.set('block_q', {rows}); facModel.set('block_k', {rows})")
        page.wait_for_function(f"document.querySelector('.fac').innerText.includes('of {rows} r')")
        assert walls.evaluate_all(places) == pytest.approx(before, abs=0.1)
    assert "zoomed out" not in page.text_content(".fac-stage")
    page.evaluate("facModel.set('block_q', 512)")
    page.wait_for_function("document.querySelector('.fac').textContent.includes('zoomed out')")
    assert "zoomed out 2 ×, to 816 KiB" in page.text_content(".fac-stage")
    assert walls.evaluate_all(places)[-1] == pytest.approx(before[-1] / 2, abs=2)


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_a_bigger_tile_lowers_the_dot_of_the_reads(mount, width):
    """What memory buys was a sentence below: 64 reads of K and V, 32 with tiles twice as large."""
    page = mount(SramBudget(), width=width, reduced=True)
    long = {}
    for rows in (64, 128, 256, 32):
        page.evaluate(f"facModel.set('block_q', {rows})")
        many = SramBudget(block_q=rows).rereads()
        page.wait_for_function(
            f"document.querySelector('.fac-stage').textContent.includes('read {many} times')"
        )
        (long[rows],) = page.locator(".fac-sram-read").evaluate_all(
            "ns => ns.map(n => n.getBBox().height)"
        )
    assert long[64] == pytest.approx(2 * long[128], rel=1e-3)
    assert long[128] == pytest.approx(2 * long[256], rel=1e-3)
    assert long[32] == pytest.approx(long[64] * 200 / 128, rel=1e-3), (
        "no taller than there is room,"
    )
    assert "↑ 256" in page.text_content(".fac-stage"), "and it says so"
    page.evaluate("facModel.set('n', 1)")
    page.wait_for_function("document.querySelector('.fac').textContent.includes('are read 1 time')")


@pytest.mark.browser
def test_a_title_breaks_no_number_from_its_unit(mount):
    """ "A100-/80" on a phone; the same of every text that is written over."""
    for width in range(320, 620, 30):
        page = mount(SramBudget(), width=width, again=True)
        held = page.locator(".fac-unbroken")
        assert {"A100-80", "161 KiB", "128 rows"} <= set(held.all_inner_texts())
        assert held.evaluate_all("ns => ns.every((n) => n.getClientRects().length === 1)")


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280, 1920])
def test_a_limit_stands_over_the_reads_that_it_allows(mount, width):
    """Two rulers had the GPUs in opposite order; memory is one axis, its lines cross no words."""
    budget = SramBudget()
    page = mount(budget, width=width, reduced=True)
    box = """ns => ns.map((n) => n.getBBox()).map((b) => [b.x + b.width / 2, b.y + b.height / 2])"""
    bar = page.locator(".fac-sram-read").first.evaluate("n => [n.getBBox().y, n.getBBox().height]")
    each, base = bar[1] / budget.rereads(), sum(bar)
    want = {name: budget.rereads(budget.largest_tile(name)) for name in SHOWN_GPUS}
    assert want == {"T4": 171, "L4": 103, "A100-80": 64, "H100": 52, "B200": 52}
    marks = page.locator(".fac-sram-least").evaluate_all(box)
    walls = page.locator(".fac-sram-wall").evaluate_all(box)
    through = page.locator(".fac-sram-through")
    assert [x for x, _ in marks] == pytest.approx([x for x, _ in walls], abs=0.6), "one axis"
    for (x, _), one in zip(walls, through.evaluate_all(
        "ns => ns.map((n) => n.getBBox()).map((b) => [b.x, b.y + b.height])"
    ), strict=True):  # fmt: skip
        assert one == pytest.approx([x, base], abs=0.6), "to the floor"
    title = page.locator(".fac-stage text", has_text="K and V are read").bounding_box()
    for one in through.all():
        assert one.bounding_box()["y"] >= title["y"] + title["height"] - 6, "through no title"
    shown = [reads for gpu, reads in want.items() if gpu != "B200"]
    assert [(base - y) / each for _, y in marks] == pytest.approx(shown, abs=0.5)
    ticks = page.locator(".fac-stage text").all_text_contents()
    assert {"0", "50", "100", "150", "200 times"} <= set(ticks), "an axis with its unit"
    line = page.locator(".fac-sram-line")
    for x, y in marks:  # each limit ends on the line of the fewest reads
        assert line.evaluate(
            """(n, [x, y]) => { for (let at = 0; at < n.getTotalLength(); at += 0.5) {
                 const p = n.getPointAtLength(at);
                 if (Math.hypot(p.x - x, p.y - y) < 2) return true; }
               return false; }""",
            [x, y],
        )
    said = page.locator(".fac-sram-allows").all_text_contents()
    assert [int(re.match(r"\d+", text)[0]) for text in said] == shown
    assert re.search(r"fewest.*square tiles", page.text_content(".fac-stage"))
    boxes = [one.bounding_box() for one in page.locator(".fac-stage text").all()]
    below = [
        b for b in boxes if b and b["y"] > page.locator(".fac-sram-read").first.bounding_box()["y"]
    ]
    for a, b in itertools.combinations(below, 2):
        assert (
            a["x"] + a["width"] <= b["x"] + 1
            or b["x"] + b["width"] <= a["x"] + 1
            or a["y"] + a["height"] <= b["y"] + 10  # strokes, and lines of one mark
            or b["y"] + b["height"] <= a["y"] + 10
        )
    assert max(b["x"] + b["width"] for b in below) <= width


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_what_is_outside_says_how_much_of_it_and_what_the_limit_costs(mount, width):
    """Two hatched matrices with their whole sizes: what spills, and how much, was a sum to do."""
    budget = SramBudget(block_q=256, block_k=256, d=128)
    page = mount(budget, width=width, reduced=True)
    shared, limit = budget.buffer_bytes(), GPUS["B200"].shared_bytes
    covered = page.locator(".fac-sram-spill").evaluate(
        """(spill) => Object.fromEntries(['.fac-sram-buffer', '.fac-chip'].map((what) => [what,
          [...document.querySelectorAll(what)].filter((n) =>
            n.getBBox().x + n.getBBox().width > spill.getBBox().x + 1).map((n) =>
            !!(n.compareDocumentPosition(spill) & Node.DOCUMENT_POSITION_FOLLOWING))]))"""
    )
    assert covered[".fac-sram-buffer"] == [True] * 3, "hatched over: S, O, m and l"
    assert set(covered[".fac-chip"]) == {False}, "names stand on it"
    veil = page.locator(".fac-sram-spill").evaluate("n => getComputedStyle(n).fillOpacity")
    assert float(veil) < 0.5, "S was drawn half as long as Q, and O vanished: colours shine through"
    pixels = width_of(page, ".fac-fill-q.fac-sram-buffer") / shared["Q"]
    for name in "so":
        part = page.locator(f".fac-sram-buffer.fac-fill-{name}").bounding_box()
        assert part["width"] == pytest.approx(pixels * shared[name.upper()], abs=1.5)
        named = page.locator(".fac-stage text", has_text=re.compile(f"^{name.upper()}( 64| 128|$)"))
        box = named.first.bounding_box()
        assert part["x"] < box["x"]
        assert box["x"] + box["width"] < part["x"] + part["width"]
    assert sum(shared.values()) - limit == 159 * 1024
    wall = page.locator(".fac-sram-last").bounding_box()
    block = page.locator(".fac-sram-spill").bounding_box()
    assert wall["height"] > block["height"], "one wall goes through"
    assert wall["x"] + wall["width"] / 2 == pytest.approx(block["x"] + 1, abs=2)
    assert f"would be read {budget.rereads()} times" in page.text_content(".fac-stage")
    assert re.search(r"fewest.*square tiles", page.text_content(".fac-stage")), "the key stays"
    assert page.locator(".fac-sram-here.fac-sram-not").count() == 1, "a hollow dot: not possible"
    assert page.get_by_text("you would be here").count() == 1
    page.get_by_label("B_q").first.press("ArrowLeft")
    page.get_by_label("B_k").first.press("ArrowLeft")
    page.wait_for_function("!document.querySelector('.fac-sram-spill, .fac-sram-last')")
    assert "are read 64 times" in page.text_content(".fac-stage")
    dot, line = (page.locator(f".fac-sram-{what}").bounding_box() for what in ("here", "line"))
    assert dot["x"] > line["x"]
    assert "here" in page.text_content(".fac-stage")


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_no_words_lie_on_words_whatever_fits(mount, width):
    """With B_q = 512 the note on m and l lay on a handle's name; four limits shared one end."""
    overlaps = """() => { const of = [...document.querySelectorAll('.fac-stage text')]
      .filter((t) => t.textContent.trim()).map((t) => [t.textContent, t.getBoundingClientRect()]);
      return of.flatMap(([a, p], i) => of.slice(i + 1).filter(([, q]) => p.left < q.right - 5 &&
        q.left < p.right - 5 && p.top < q.bottom - 10 && q.top < p.bottom - 10)
        .map(([b]) => [a, b])); }"""
    for sizes in (
        {"block_q": 512, "block_k": 64, "n": 1024, "d": 256},
        {"buffers": "kernel", "stages": 4},
        {"block_q": 64, "block_k": 64, "n": 2048, "d": 64},
        {"block_q": 16, "block_k": 16},
    ):
        page = mount(SramBudget(**sizes), width=width, reduced=True, again=True)
        assert page.evaluate(overlaps) == [], sizes


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_each_handle_has_its_name_and_what_it_moves_is_outlined_while_it_is_held(mount, width):
    """Two nested brackets told which parts belong together; on a phone they crossed."""
    page = mount(SramBudget(), width=width, reduced=True)
    said = [page.locator(f'[data-names="block_{x}"]') for x in "qk"]
    assert [one.text_content() for one in said] == [
        "drag: Q and O, 128 rows", "drag: K and V, 128 rows",
    ]  # fmt: skip
    q, k = (one.bounding_box() for one in said)
    knob = page.locator(".fac-knob-block_k").bounding_box()
    assert k["x"] >= knob["x"] + knob["width"] - 6, "beside its knob"
    assert q["y"] >= k["y"] + k["height"] - 10, "on a line of its own"
    assert page.locator(".fac-sram-pair").count() == 0
    for trait, pair in (("block_q", "qo"), ("block_k", "kv")):
        box = page.locator(f".fac-knob-{trait}").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x - (24 if width == 480 else 60), y)
        page.wait_for_selector(".fac-sram-pair")
        for letter, outline in zip(pair, page.locator(".fac-sram-pair").all(), strict=True):
            part = page.locator(f".fac-sram-buffer.fac-fill-{letter}").bounding_box()
            assert abs(outline.bounding_box()["x"] - part["x"]) < 4, letter
        page.mouse.up()
        page.wait_for_function("!document.querySelector('.fac-sram-pair')")


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.parametrize("block", [128, 512])
def test_the_axis_of_both_pictures_is_drawn_once_between_them(mount, width, block):
    """Both lay on one axis of KiB that nothing showed."""
    page = mount(SramBudget(block_q=block), width=width, reduced=True)
    ticks = page.locator(".fac-sram-kib")
    kib = [int(text) for text in ticks.all_text_contents()]
    assert len(kib) > 2
    assert page.get_by_text("KiB of on-chip memory").count() == 1
    zero, *rest = page.locator(".fac-sram-kib").evaluate_all(
        "ns => ns.map((n) => n.x.baseVal[0].value)"
    )
    shared = sum(SramBudget(block_q=block).buffer_bytes().values()) / 1024
    here = page.locator(".fac-sram-here").evaluate("n => n.cx.baseVal.value")
    for x, at in zip(rest, kib[1:], strict=True):
        assert (x - zero) / at == pytest.approx((here - zero) / shared, rel=1e-3)
    y = page.locator(".fac-sram-axis").bounding_box()["y"]
    block_, line = (
        page.locator(f".fac-sram-{one}").first.bounding_box() for one in ("buffer", "line")
    )
    assert block_["y"] + block_["height"] < y < line["y"]


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_where_the_curve_leaves_its_picture_an_arrow_says_what_comes_next(mount, width):
    budget = SramBudget()
    page = mount(budget, width=width, reduced=True)
    arrow, line = (page.locator(f".fac-sram-{one}").bounding_box() for one in ("off", "line"))
    assert arrow["x"] + arrow["width"] / 2 == pytest.approx(line["x"] + 1, abs=2), "where it begins"
    text = page.locator(".fac-sram-off-says").text_content()
    reads, rows = map(int, re.findall(r"\d+", text))
    assert reads > 200
    assert SramBudget(block_q=rows).rereads() == reads
    assert SramBudget(block_q=rows + 16).rereads() <= 200, "the first that is off"
    page.evaluate("facModel.set('n', 1)")
    page.wait_for_function("!document.querySelector('.fac-sram-off')")


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.parametrize("block", [128, 256])
def test_no_name_of_a_part_hides_a_limit(mount, width, block):
    """L4's line ended at the plate "K 64 KiB" and went on below it."""
    page = mount(SramBudget(block_q=block, block_k=block, d=128), width=width, reduced=True)
    limits = page.locator(".fac-sram-limit").evaluate_all("ns => ns.map((n) => n.getBBox().x)")
    assert len(limits) == 4
    for x, w in page.locator(".fac-chip").evaluate_all(
        "ns => ns.map((n) => n.getBBox()).map((b) => [b.x, b.width])"
    ):
        assert not any(x - 1 < at < x + w + 1 for at in limits)


@pytest.mark.browser
@pytest.mark.parametrize("block", [128, 256])
def test_on_a_phone_every_gpu_has_its_yes_or_no_and_the_grey_note_its_line(mount, block):
    page = mount(SramBudget(block_q=block, block_k=block, d=128), width=480, reduced=True)
    marks = page.locator(".fac-stage text").all_text_contents()
    verdicts = [mark.split(": ")[1] for mark in marks if re.match(r"\d+: ", mark)]
    assert verdicts == (["no", "no", "yes", "yes"] if block == 128 else ["no"] * 4)
    lead = page.locator(".fac-sram-note-lead")
    assert lead.count() == (block == 128)
    if block == 128:
        bare = "n => (({ x, y, width, height }) => ({ x, y, width, height }))(n.getBBox())"
        box, grey = lead.evaluate(bare), page.locator(".fac-fill-other").evaluate(bare)
        note = page.locator(".fac-stage text", has_text="grey: 1 KiB").evaluate(bare)
        assert box["x"] == pytest.approx(grey["x"] + grey["width"], abs=2)
        assert box["x"] + box["width"] < note["x"] + note["width"]
        assert box["y"] + box["height"] == pytest.approx(note["y"], abs=6)
