"""The Race: its lanes' totals, replays of real kernels, the picture, its handles and its keys."""

from __future__ import annotations

import itertools
import re
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from traitlets import TraitError

from course_lib import widgets
from course_lib.accounting.eager_ledger import EagerLedger
from course_lib.accounting.kernel_ledger import KernelLedger
from course_lib.accounting.memory import FlatMemory
from course_lib.accounting.traffic import MODELS
from course_lib.kernels.flash_forward import flash_attention_with_lse
from course_lib.style.palette import HUES, MEANINGS
from course_lib.widgets import Race


def rgb(tensor: str) -> str:
    """Return a tensor's colour as a canvas has it."""
    colour = HUES[MEANINGS[tensor].hue].hex
    return ",".join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))


def counted(*, causal: bool = False, n: int = 96, tile: int = 32) -> KernelLedger:
    q, k, v = torch.randn(3, 1, 1, n, 16)
    with KernelLedger() as ledger:
        flash_attention_with_lse(q, k, v, causal=causal, block_q=tile, block_k=tile)
    return ledger


@pytest.mark.parametrize("decode", [False, True])
def test_its_totals_are_the_models(decode):
    race = Race(200, 32, 64, 48, causal=True, decode=decode, at_once=3)
    sizes = {"n_q": 1 if decode else 200, "n_k": 200, "d": 32}
    assert race.total("naive") == MODELS["naive_four_trips"].bytes(**sizes)
    tiles = {"block_q": 64, "block_k": 48, "causal": True}
    assert race.total("flash") == MODELS["flash_tile_loads"].bytes(**sizes, **tiles)
    assert race.least("flash") == pytest.approx(MODELS["flash_compulsory"].bytes(**sizes))
    assert f"{race.total('flash'):,} bytes (upper bound on HBM)" in race.to_table()
    assert "not measured" in race.to_table()


def test_the_naive_lane_can_be_somebodys_eager_code():
    q, k, v = (torch.randn(96, 16) for _ in range(3))
    with EagerLedger(q=q, k=k, v=v) as ledger:
        torch.softmax(q @ k.T / 4, dim=-1) @ v
    race = Race(96, 16, 32, 32, dtype="fp32", eager=ledger)
    assert race.total("naive") == ledger.total
    assert race.badge("naive").startswith("counted")
    assert race.badge("flash").startswith("computed")


@pytest.mark.parametrize("at_once", [1, 4])
def test_a_replay_has_the_ledgers_bytes_its_sizes_and_its_badge(at_once):
    ledger = counted(causal=True)
    race = Race.replay(ledger, at_once=at_once)
    assert (race.n, race.d, race.block_q, race.block_k, race.dtype) == (96, 16, 32, 32, "fp32")
    assert race.total("replay") == ledger.total
    assert race.lanes == ["naive", "replay"]
    assert race.badge("replay") == "counted: replayed from your kernel"
    assert race.badge("naive") == "computed, not measured"
    assert "replayed from your kernel" in race.to_table()


def test_flat_memory_is_replayed_program_by_program():
    memory = FlatMemory(itemsize=2)
    at = {name: memory.place(name, np.zeros((64, 16))) for name in "qkvo"}
    tile = np.arange(32 * 16)
    for pid in range(2):
        memory.load(at["q"] + pid * tile.size + tile)
        for start in (0, tile.size):
            memory.load(at["k"] + start + tile)
            memory.load(at["v"] + start + tile)
        memory.store(at["o"] + pid * tile.size + tile, 0.0)
    race = Race.replay(memory, beside="model")
    assert race.total("replay") == memory.total == race.total("flash")
    assert race.difference() is None


def test_a_wrong_kernel_beside_the_right_one_shows_the_first_load_that_differs():
    """Without the skip, program 0 goes on to the second key tile: its fourth event."""
    race = Race.replay(counted(), beside=counted(causal=True))
    assert race.lanes == ["beside", "replay"]
    assert race.difference() == 3
    assert race.events("replay")[3][:2] == ("k", (32, 64))
    assert "first difference: event 3" in race.to_table()
    assert Race.replay(counted(causal=True), beside=counted(causal=True)).difference() is None
    assert Race.replay(counted(causal=True), beside="model", causal=True).difference() is None
    assert Race.replay(counted(), beside="model", causal=True).difference() == 3


def test_a_replay_is_called_by_whose_kernel_it_was():
    race = Race.replay(counted(), beside=counted(causal=True), whose="the course's kernel")
    assert race.data["titles"]["replay"] == "the course's kernel"
    table = race.to_table()
    assert "the course's kernel (counted: replayed from the course's kernel)" in table
    assert "event 3 of the course's kernel" in table
    assert "your kernel" not in table


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [({"rows": 3}, "no setting 'rows'"), ({"lanes": ["split"]}, "lanes must be of")],
)
def test_unknown_settings_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        Race(**settings)


def test_bad_counts_and_ledgers_without_attention_are_refused():
    race = Race()
    with pytest.raises(TraitError, match="n must be a whole number from 1 to 16384"):
        race.n = 0
    assert race.n == 512
    with pytest.raises(ValueError, match="loads of q and of k; it saw nothing"):
        Race.replay(FlatMemory())
    with pytest.raises(ValueError, match="beside must be"):
        Race.replay(counted(), beside="both")


def test_each_of_its_modules_is_under_20_kb():
    files = list((Path(widgets.__file__).parent / "static").glob("race*.js"))
    assert len(files) == 4
    assert max(file.stat().st_size for file in files) < 20_000


# In a browser -------------------------------------------------------------------------------------


def words(page) -> str:
    return page.locator(".fac-race-words").inner_text()


def title(page) -> str:
    return page.locator(".fac-race-title").inner_text()


def drawn(page) -> str:
    return page.locator(".fac-race-over").text_content()


def odometers(page) -> list[str]:
    return page.locator(".fac-race-odometer").all_text_contents()


@pytest.mark.browser
def test_a_playthrough_by_keyboard_alone(mount, check_page):
    """Plant the flag, play, pause, step both ways, change N and a tile, go to the end."""
    page = mount(Race(speed=64))
    check_page(page)
    page.locator("summary").focus()
    page.keyboard.press("Enter")
    page.get_by_label("your flag, % of the tape").first.focus()
    for _ in range(49):
        page.keyboard.press("ArrowRight")
    assert page.evaluate("facModel.get('flag')") == 0.49
    assert "your flag: 1.16 MB" in drawn(page)
    tape = page.get_by_label("Tape", exact=True)
    tape.focus()
    page.keyboard.press("Space")
    page.wait_for_function("document.querySelector('.fac-race-odometer').textContent !== '0 B'")
    page.keyboard.press("Space")
    assert page.get_by_role("button", name="Play").is_visible()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert odometers(page) == ["8.19 kB", "8.19 kB"]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    assert odometers(page) == ["8.19 kB", "8.19 kB"]
    page.keyboard.press("End")
    race = Race()
    assert odometers(page) == ["2.36 MB", "1.18 MB"]
    assert (race.total("naive"), race.total("flash")) == (2359296, 1179648)
    assert "your flag: 1.16 MB, 1.02 × too low" in drawn(page)
    assert (
        title(page) == "For the same O, naive attention moves 2\u00a0× the bytes of FlashAttention"
    )
    assert "not measured time" in page.locator(".fac-race-rate").inner_text()
    page.get_by_label("N, rows").first.focus()
    page.keyboard.press("ArrowRight")
    page.get_by_label("B_q").first.focus()
    page.keyboard.press("ArrowRight")
    state = "['n', 'block_q', 'at', 'flag'].map((t) => facModel.get(t))"
    assert page.evaluate(state) == [768, 128, 0, -1]
    check_page(page)


@pytest.mark.browser
def test_the_things_themselves_are_handles(mount):
    """S's corner, a tile's edge, the desk's wall, the flag and the tape, each dragged."""
    page = mount(Race(caches=True), width=1140, height=1100)

    def drag(selector: str, dx: float, dy: float) -> None:
        box = page.locator(selector).first.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + dx / 2, y + dy / 2)
        page.mouse.move(x + dx, y + dy)
        page.mouse.up()

    drag(".fac-race-grab", 200, 0)
    assert 0 < page.evaluate("facModel.get('flag')") < 0.5
    drag(".fac-race-corner", -100, -100)
    assert page.evaluate("facModel.get('n')") == 256
    drag(".fac-race-rim", 0, 30)
    assert page.evaluate("facModel.get('block_q')") == 128
    drag(".fac-race-wall", -70, 0)
    assert page.evaluate("facModel.get('gpu')").startswith("A100")
    own = page.locator(".fac-race-scrub").last.bounding_box()
    page.mouse.click(own["x"] + own["width"] / 2, own["y"] + 8)
    at_flag = "['at', 'flag'].map((t) => facModel.get(t))"
    assert page.evaluate(at_flag) == pytest.approx([0, 0.5], abs=0.01), "it asks before it shows"
    tape = page.locator(".fac-race-scrub").first.bounding_box()
    page.mouse.click(tape["x"] + tape["width"] / 4, tape["y"] + 8)
    assert page.evaluate("facModel.get('at')") == pytest.approx(0.25, abs=0.01)
    page.mouse.move(tape["x"] + 10, tape["y"] + 8)
    assert "event 1 of" in words(page)
    assert page.locator(".fac-race-mark").first.is_visible()


@pytest.mark.browser
def test_areas_are_to_one_scale(mount):
    """S is N / d strips wide, and the desk holds as many numbers as the GPU says."""
    page = mount(Race(512, 64, caches=True), width=1140)
    sizes = "ns => ns.map((n) => [n.width.baseVal.value, n.height.baseVal.value])"
    edges = page.locator(".fac-race-over > .fac-race-edge").evaluate_all(sizes)
    (q, q_tall), (s, s_tall) = edges[0], edges[4]
    assert s / q == pytest.approx(512 / 64)
    assert s_tall == q_tall == s
    wide, tall = page.locator(".fac-race-desk").evaluate_all(sizes)[-1]
    assert wide * (tall - 4) * (512 / s) ** 2 == pytest.approx(227 * 1024 / 2)


@pytest.mark.browser
def test_another_n_changes_neither_the_height_nor_the_nodes(mount):
    page = mount(Race(512, 64), width=900)
    stage = "() => { const n = document.querySelector('.fac-race'); return n.offsetHeight; }"
    tall = page.evaluate(stage)
    page.evaluate("() => { for (const n of document.querySelectorAll('.fac-race *')) n.kept = 1; }")
    for n in (768, 4096, 16384):
        page.evaluate("n => facModel.set('n', n)", n)
        page.wait_for_timeout(50)
        assert page.evaluate(stage) == tall
        kept = "() => [...document.querySelectorAll('.fac-race *')].filter((n) => !n.kept).length"
        assert page.evaluate(kept) == 0


@pytest.mark.browser
def test_what_does_not_fit_goes_over_the_wall(mount):
    page = mount(Race(512, 128, 128, 128, gpu="T4", caches=True))
    assert "160 of 64 KiB" in drawn(page)
    assert page.locator(".fac-race-spill").count() == 1
    assert mount(Race(512, 64, 64, 64, caches=True)).locator(".fac-race-spill").count() == 0


@pytest.mark.browser
def test_a_wrong_kernels_first_difference_flashes_once_it_is_reached(mount):
    page = mount(Race.replay(counted(), beside=counted(causal=True)))
    assert page.locator(".fac-race-differs").last.get_attribute("visibility") == "hidden"
    tape = page.get_by_label("Tape", exact=True)
    for _ in range(4):
        tape.press("ArrowRight")
    assert page.locator(".fac-race-differs").last.get_attribute("visibility") == "visible"
    tape.press("End")
    assert "The first difference is event 4: program 0, load K rows 32–63" in words(page)
    assert page.get_by_label("N, rows").count() == 0, "a replay has the sizes that it has"


@pytest.mark.browser
def test_off_the_screen_nothing_is_drawn(mount):
    page = mount(Race(speed=1))
    page.evaluate(
        """() => { document.body.style.paddingBottom = '3000px'; globalThis.drawn = 0;
           const draw = CanvasRenderingContext2D.prototype.clearRect;
           CanvasRenderingContext2D.prototype.clearRect = function (...a) {
             globalThis.drawn += 1; return draw.apply(this, a); }; }"""
    )
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("drawn > 3")
    page.evaluate("scrollTo(0, 2500)")
    page.wait_for_timeout(300)
    page.evaluate("drawn = 0")
    page.wait_for_timeout(300)
    assert page.evaluate("drawn") == 0
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_function("drawn > 3")


@pytest.mark.browser
def test_reduced_motion_steps_and_no_tile_flies(mount):
    page = mount(Race(speed=1), reduced=True)
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("document.querySelector('.fac-race-odometer').textContent !== '0 B'")
    began, seen = time.monotonic(), set()
    for _ in range(20):
        seen.add(tuple(odometers(page)))
        page.wait_for_timeout(60)
    assert len(seen) <= (time.monotonic() - began) / 0.5 + 2


@pytest.mark.browser
@pytest.mark.parametrize(("width", "least", "most"), [(1280, 0, 120), (480, 0, 200)])
def test_the_first_mark_is_at_the_top_and_few_controls_come_before_more(mount, width, least, most):
    page = mount(Race(), width=width)
    top = page.locator(".fac").bounding_box()["y"]
    tops = "nodes => nodes.map((node) => node.getBoundingClientRect().y)"
    mark = min(page.locator(".fac-race-over > .fac-race-edge").evaluate_all(tops))
    assert least <= mark - top <= most
    visible = page.locator(".fac :is(button, input[type=range], select):visible")
    assert visible.count() == 2, "first the flag"
    page.evaluate("facModel.set('flag', 0.5)")
    assert visible.count() == 3


@pytest.mark.browser
def test_lanes_stand_below_each_other_on_a_phone_and_beside_on_a_desktop(mount, check_page):
    for width, same in ((480, "x"), (1140, "y")):
        page = mount(Race(at=0.4), width=width, again=True)
        heads = page.locator(".fac-race-head")
        a, b = heads.nth(0).bounding_box(), heads.nth(1).bounding_box()
        assert a[same] == pytest.approx(b[same], abs=1)
        check_page(page)


@pytest.mark.browser
def test_on_a_phone_all_that_matters_is_within_900_px(mount):
    """It had been 1578 px tall: tapes and matrices were never seen together."""
    page = mount(Race(1024, 128, 128, 128, at=0.3), width=480)
    top = page.locator(".fac").bounding_box()["y"]
    play = page.get_by_role("button", name="Play").bounding_box()
    assert play["y"] + play["height"] < top + 840
    assert page.locator(".fac").bounding_box()["height"] < 920


@pytest.mark.browser
@pytest.mark.parametrize("flag", [0.01, 0.25, 0.5, 0.99])
def test_on_a_phone_both_tapes_have_names_and_the_flag_says_what_was_guessed(mount, flag):
    page = mount(Race(1024, 128, 128, 128, at=0.3, flag=flag), width=480, reduced=True)
    name = page.locator(".fac-race-name", has_text="FlashAttention").last
    says = page.locator(".fac-race-verdict")
    assert name.is_visible()
    assert says.text_content().startswith("your flag: ")
    name, says = name.bounding_box(), says.bounding_box()
    assert name["x"] + name["width"] < says["x"] < says["x"] + says["width"] < 481
    cloth = page.locator(".fac-race-grab").bounding_box()
    assert says["y"] + says["height"] < cloth["y"] + 5


@pytest.mark.browser
def test_a_step_goes_from_one_event_s_end_to_the_next_and_back(mount):
    page = mount(Race(256, 64, 64, 64), width=1140, reduced=True)
    page.get_by_text("more: ").first.click()
    places, at = [], "facModel.get('at')"
    for _ in range(6):
        page.get_by_role("button", name="Step ▶").click()
        places.append(page.evaluate(at))
    assert places == sorted(set(places))
    for place in [*places[-2::-1], 0]:
        page.get_by_role("button", name="◀ Step").click()
        assert page.evaluate(at) == pytest.approx(place)
    page.evaluate("facModel.set('at', 1)")
    page.get_by_role("button", name="Step ▶").click()
    assert page.evaluate(at) == 1


@pytest.mark.browser
def test_at_the_start_stand_two_drawings_two_tapes_and_the_flag(mount):
    """Caches, desks and the thin tapes come when they are asked for."""
    page = mount(Race(), width=1140)
    assert title(page) == ("Naive attention moves 2.36 MB. How much will FlashAttention move?")
    assert page.locator(".fac-race-over :is(.fac-race-desk, .fac-race-cached)").count() == 0
    for absent in ("thin", "L2", "shared memory", "moved"):
        assert absent not in drawn(page)
    page.get_by_text("more: ").first.click()
    page.get_by_label("show caches and shared memory").check()
    assert "thin: what of it must cross HBM" in drawn(page)
    assert page.locator(".fac-race-desk").count() == 2
    assert page.evaluate("facModel.get('caches')") is True


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1140])
def test_a_tape_and_its_meter_end_where_the_panels_end_and_its_number_stands_beside_or_above_it(
    mount, width
):
    page = mount(Race(1024, 128, 128, 128, at=1.0), width=width)
    panel = page.locator(".fac-race-panel").last.bounding_box()
    tape = page.locator(".fac-race-scrub").first.bounding_box()
    end = page.locator(".fac-race-meter").first.bounding_box()
    assert end["x"] + end["width"] == pytest.approx(panel["x"] + panel["width"], abs=2)
    above, beside = (one.bounding_box() for one in page.locator(".fac-race-odometer").all())
    assert above["y"] + above["height"] < tape["y"] + 6
    assert above["x"] + above["width"] <= panel["x"] + panel["width"] + 3, "and its halo"
    assert beside["x"] > tape["x"] + tape["width"] / 2, "right of flash's half of the bytes"


@pytest.mark.browser
def test_each_lane_says_how_much_of_o_is_written_and_what_it_does(mount):
    """Flash writes O as it goes, naive attention at the very end."""
    page = mount(Race(1024, 128, 128, 128, at=0.3), width=1140)
    assert page.locator(".fac-race-out").all_text_contents() == [
        "0 %",
        "50 %",
    ]
    assert "P = softmax(S)" in drawn(page)
    assert title(page) == "After 2.83 MB each: FlashAttention has 50 % of O, naive attention 0 %"
    page.get_by_label("Tape", exact=True).press("End")
    assert page.locator(".fac-race-out").all_text_contents() == ["2 ×", "1 ×"], "both have it all"


@pytest.mark.browser
def test_naives_desk_holds_what_has_come_and_is_empty_at_the_end(mount):
    page = mount(Race(1024, 128, 128, 128, at=0.3, caches=True), width=1140)
    held = """() => { const b = document.querySelector('.fac-race-desk').getBBox();
      const canvas = document.querySelector('.fac-race-moves');
      const k = canvas.width / canvas.clientWidth;
      const inside = [b.x + 3, b.y + 5, 12, b.height - 10].map((x) => x * k);
      const { data } = canvas.getContext('2d').getImageData(...inside);
      return data.some((x, i) => i % 4 === 3 && x); }"""
    assert page.evaluate(held)
    page.get_by_label("Tape", exact=True).press("End")
    assert not page.evaluate(held)


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_guess_has_a_yardstick_and_play_is_seen_with_the_lanes(mount, width):
    """Naive's end stands on its tape before anything moves; FlashAttention's does not."""
    page = mount(Race(1024, 128, 128, 128), width=width)
    share = 8 * 1024**2 / (8 * 1024**2 + 8 * 1024 * 128)  # four trips of S and P, one of the others
    assert odometers(page) == [f"ends at 9.44 MB, {share:.0%} S and P".replace("%", " %"), ""]
    assert page.locator(".fac-race-odometer").last.text_content() == ""
    top = page.locator(".fac").bounding_box()["y"]
    play = page.get_by_role("button", name="Play").bounding_box()
    assert play["y"] - top < (620 if width > 700 else 800)


@pytest.mark.browser
def test_the_flag_waits_where_no_tape_ends(mount):
    """In the middle it stood on the answer to the course's first question; then on 0 bytes."""
    page = mount(Race(), width=1140)
    grab, foot, tape = (
        page.locator(f".fac-race-{what}").last.bounding_box() for what in ("grab", "foot", "edge")
    )
    assert grab["x"] < tape["x"] + 15
    assert foot["y"] + foot["height"] < tape["y"], "off the tape"
    slider = page.get_by_label("Tape", exact=True)
    assert slider.evaluate("n => getComputedStyle(n).opacity") == "0", "two handles stood at zero"
    page.evaluate("facModel.set('flag', 0.5)")
    foot = page.locator(".fac-race-foot").bounding_box()
    assert tape["y"] < foot["y"] + foot["height"] / 2 < tape["y"] + tape["height"], "now on it"
    assert slider.evaluate("n => getComputedStyle(n).opacity") == "1"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1140])
def test_each_trip_over_s_has_its_tone_in_the_square_and_on_the_tape(mount, width):
    """S and P were one orange: in trips 2 to 4 nothing was seen to happen."""
    page = mount(Race(1024, 128, 128, 128), width=width, reduced=True)
    seen = """() => { const edge = document.querySelectorAll('.fac-race-edge')[4];
      const canvas = document.querySelector('.fac-race-laid'), g = canvas.getContext('2d');
      const b = edge.getBBox(), k = canvas.width / canvas.clientWidth;
      return g.getImageData((b.x + 5) * k, (b.y + b.height - 5) * k, 1, 1).data[3]; }"""
    tones = []
    for at in (0.28, 0.72, 0.999):  # stored; read and stored as P; read
        page.evaluate(f"facModel.set('at', {at})")
        page.wait_for_timeout(60)
        tones.append(page.evaluate(seen))
    assert tones == sorted(set(tones)), "each darker than the one before"
    tape = """() => { const b = document.querySelector('.fac-race-scrub').getBBox();
      const canvas = document.querySelector('.fac-race-laid'), g = canvas.getContext('2d');
      const k = canvas.width / canvas.clientWidth;
      const { data } = g.getImageData(0, Math.round((b.y + b.height / 2) * k), canvas.width, 1);
      return [...new Set(data.filter((_, i) => i % 4 === 3))].filter(Boolean).length; }"""
    assert page.evaluate(tape) == 4, "four trips"


@pytest.mark.browser
@pytest.mark.parametrize(("lanes", "asks"), [(("naive", "flash"), True), (("naive",), False)])
def test_the_flag_is_the_one_handle_until_it_is_set_or_the_race_runs(mount, lanes, asks):
    """Five handles had asked to be dragged, and the flag was the faintest of them."""
    for go in ("facModel.set('flag', 0.4)", "facModel.set('at', 0.1)"):
        page = mount(Race(lanes=lanes), width=1140, again=True)
        handles = page.locator(".fac circle.fac-knob:visible")
        assert (handles.count() == 0) is asks
        assert page.locator(".fac-race-grab").count() == asks
        page.evaluate(go)
        assert handles.count() > 0
        page.evaluate("facModel.set('n', 1024)")
        assert handles.count() > 0, "who has seen the flag once may drag another N"


@pytest.mark.browser
@pytest.mark.parametrize("caches", [False, True])
def test_presenter_mode_fits_a_full_hd_screen_without_scrolling(mount, caches):
    page = mount(Race(presenter=True, at=0.4, caches=caches), width=1920)
    assert page.locator(".fac").bounding_box()["height"] <= 1080


@pytest.mark.browser
def test_a_tape_has_a_scale_and_every_tensor_one_unit(mount):
    page = mount(Race(1024, 128, 128, 128, at=0.3), width=1280)
    text = drawn(page)
    scale = "0 bytes1 MB2 MB3 MB4 MB5 MB6 MB7 MB8 MB9 MB"
    assert text.count(scale) == 1, "one scale below both tapes"
    assert len(set(re.findall(r"(\d+) numbers", text))) == 1
    assert text.count(" numbers") == 2
    moved = page.locator(".fac-race-wear").all_text_contents()
    assert moved[:5] == ["read 1 ×", "1 ×", "0 ×", "", "1.1 of 4 trips"], "V is not read yet"
    assert moved[5:] == ["read 0.6 ×", "4.9 ×", "4.8 ×", ""]


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1140])
@pytest.mark.few(1)
def test_no_tick_of_the_scale_is_where_a_tape_ends(mount, width):
    """The middle of three ticks had been FlashAttention's total: the flag's answer."""
    for n, d, block in ((1024, 128, 128), (512, 64, 64), (4096, 128, 64), (2048, 64, 128)):
        race = Race(n, d, block, block)
        page = mount(Race(n, d, block, block), width=width, again=True)
        x = "nodes => nodes.map((node) => node.getBoundingClientRect().x)"
        ticks = page.locator(".fac-race-tick:not([d=''])").evaluate_all(x)
        tape = page.locator(".fac-race-scrub").first.bounding_box()
        ends = [race.total(lane) / race.total("naive") for lane in race.lanes]
        places = [(tick - tape["x"]) / tape["width"] for tick in ticks]
        assert len(places) >= 3
        assert min(abs(place - end) for place in places for end in ends) > 0.015, (n, d, block)


@pytest.mark.browser
def test_the_chip_is_there_from_the_start_and_holds_what_a_program_has_loaded(mount):
    page = mount(Race(1024, 128, 128, 128), width=1140)
    assert drawn(page).count("on chip") == 2
    assert page.locator(".fac-race-slot").count() == 5 + 5, "each under its matrix"
    filled = """() => [...document.querySelectorAll('.fac-race-slot')].map((slot) => {
      const b = slot.getBBox(), canvas = document.querySelector('.fac-race-moves');
      const k = canvas.width / canvas.clientWidth, g = canvas.getContext('2d');
      return g.getImageData((b.x + b.width / 2) * k, (b.y + b.height / 2) * k, 1, 1).data[3] > 0;
    })"""
    assert not any(page.evaluate(filled))
    page.get_by_label("Tape", exact=True).press("ArrowRight")
    page.get_by_label("Tape", exact=True).press("ArrowRight")
    assert page.evaluate(filled)[5:] == [True, True, False, False, True], "q and k, so S"


@pytest.mark.browser
def test_nothing_flies_while_it_does_not_play(mount):
    """In a still picture a tile half way would stand on rows that are not its own."""
    page = mount(Race(1024, 128, 128, 128, at=0.3), width=1140)
    filled = """() => { const [s] = [...document.querySelectorAll('.fac-race-edge')].slice(4);
      const b = s.getBBox(), canvas = document.querySelector('.fac-race-laid');
      const k = canvas.width / canvas.clientWidth, g = canvas.getContext('2d');
      const inside = [b.x, b.y + b.height / 8 + 4, b.width, b.height / 2].map((x) => x * k);
      const { data } = g.getImageData(...inside), orange = (x, i) => i % 4 === 3 && x > 250;
      return data.filter(orange).length / (data.length / 4); }"""
    still = page.evaluate(filled)
    page.get_by_label("Tape", exact=True).press("ArrowRight")
    assert page.evaluate(filled) == pytest.approx(still, abs=0.01)


@pytest.mark.browser
@pytest.mark.parametrize(("n", "fits"), [(1024, True), (8192, False)])
def test_the_end_says_which_bytes_moved_and_what_of_them_hbm_carries(mount, n, fits):
    """At N = 1024 the sentence read as if naive attention crossed HBM no more than flash does."""
    race = Race(n, 128, 128, 128)
    said = words(mount(Race(n, 128, 128, 128, at=1.0), width=1140))
    assert said.startswith("Tape: every load and store, by size; caches may serve a part.")
    said = words(mount(Race(n, 128, 128, 128, at=1.0, caches=True), width=1140))
    assert "every load and store, by size. HBM itself carries at least" in said
    assert ("for this N, S and P fit into it, for a larger one they do not" in said) == fits
    assert (race.least("naive") == race.least("flash")) == fits


@pytest.mark.browser
def test_nothing_on_the_picture_lies_on_anything_else(mount):
    overlaps = """() => { const of = [...document.querySelectorAll('.fac-race-over text')]
      .filter((t) => t.textContent.trim()).map((t) => [t.textContent, t.getBoundingClientRect()]);
      return of.flatMap(([a, p], i) => of.slice(i + 1).filter(([, q]) => p.left < q.right - 1 &&
        q.left < p.right - 1 && p.top < q.bottom - 4 && q.top < p.bottom - 4)
        .map(([b]) => [a, b])); }"""
    set_all = """(state) => { Object.entries(state).forEach((one) => facModel.set(...one));
      return new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))); }"""
    outside = """() => { const of = (s) => [...document.querySelectorAll(s)]
      .map((n) => n.getBoundingClientRect()), lanes = of('.fac-race-chip');
      return lanes.length ? of('.fac-race-edge, .fac-race-ghost').filter((p) =>
        p.width < 0.8 * lanes[0].width && !lanes.some((q) =>
          q.left < p.left && p.right < q.right)).map((p) => p.right) : []; }"""
    drawn = ((1024, 128, 0.0), (1024, 128, 0.3), (8192, 64, 0.5), (4096, 128, 1.0), (512, 64, 1.0))
    for width in (480, 740, 880, 1140):
        page = mount(Race(1024, 128, 128, 128), width=width, again=True)
        for n, d, at in drawn:
            for caches in (False, True):
                state = {"n": n, "d": d, "at": at, "flag": 0.25 if at else -1.0, "caches": caches}
                page.evaluate(set_all, state)
                assert page.evaluate(overlaps) == [], (width, state)
                assert page.evaluate(outside) == [], ("no matrix leaves its lane", width, state)
        page = mount(Race(4096, 128, at=0.5, decode=True), width=width, again=True)
        assert page.evaluate(overlaps) == [], "of one row of S"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_slider_is_the_tapes_ruler_and_play_stands_below_it(mount, width):
    """Tape and slider were two rulers that did not line up; on a phone Play was 700 px away."""
    page = mount(Race(n=1024), width=width)
    assert "0 bytes" in drawn(page), "the slider has a name at every width"
    for at in (0.0, 0.3, 1.0):
        page.evaluate(f"facModel.set('at', {at})")
        tape = page.locator(".fac-race-scrub").last.bounding_box()
        slider = page.get_by_label("Tape", exact=True).bounding_box()
        thumb = 14  # pixels
        middle = slider["x"] + thumb / 2 + at * (slider["width"] - thumb)
        assert middle == pytest.approx(tape["x"] + at * tape["width"], abs=1.5)
        below = slider["y"] - tape["y"] - tape["height"]
        assert -4 <= below < 12
        play = page.locator(".fac-race-go").bounding_box()
        assert play["y"] - slider["y"] < 60
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


MARKS = """(matrix) => { const all = document.querySelectorAll(
    '.fac-race-panel ~ :is(.fac-race-edge, .fac-race-ghost)');
  const b = [...all].filter((n) => n.getBBox().height > 60)[matrix].getBBox();
  const canvas = document.querySelector('.fac-race-moves'), g = canvas.getContext('2d');
  const k = canvas.width / canvas.clientWidth;
  const fs = parseFloat(getComputedStyle(document.querySelector('.fac-race'))
    .getPropertyValue('--fac-size'));
  const y = Math.round((b.y + b.height + 1.5 * fs) * k), x = Math.round((b.x + 0.5 * fs) * k);
  const { data } = g.getImageData(x, y, Math.round(4.9 * fs * k), 1), runs = [];
  for (let i = 0, last = 0; i < data.length / 4; i += 1) {
    const on = data[4 * i + 3] > 150 && data[4 * i] < 200; // no halo of an arrow
    if (on && !last) runs.push([data.slice(4 * i, 4 * i + 3).join(), 0]);
    if (on) runs.at(-1)[1] += 1 / k;
    last = on;
  }
  return runs; }"""


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_each_time_over_a_matrix_is_one_mark_below_it(mount, width):
    """A trip was a stripe an eighth as wide as S, or as K: what one stripe is had to be read."""
    page = mount(Race(1024, 128, 128, 128, at=1.0), width=width, reduced=True)
    marks = [page.evaluate(MARKS, i) for i in range(10)]
    assert [len(of) for of in marks[:3]] == [1, 1, 1], "naive reads Q, K and V once"
    assert [len(of) for of in marks[5:8]] == [1, 8, 8], "flash reads K and V for each Q tile"
    assert marks[9] == [], "S is never here"
    assert "4 of 4 trips" in drawn(page)
    long = [size for _, size in marks[6]]
    assert max(long) - min(long) <= 1, "all alike"
    paints = [[int(c) for c in colour.split(",")] for of in marks for colour, _ in of]
    assert all(max(of) - min(of) < 4 for of in paints), "a count has no tensor's colour"
    assert "A mark below a matrix: once over all of it." in words(page)
    page.evaluate("facModel.set('at', 0.3)")
    page.wait_for_timeout(60)
    assert len(page.evaluate(MARKS, 6)) == 5, "4.9 ×"
    page.evaluate("facModel.set('block_q', 16)")  # 64 reads: they lie together, as long as before
    page.evaluate("facModel.set('at', 1)")
    page.wait_for_timeout(60)
    assert sum(size for _, size in page.evaluate(MARKS, 6)) > 30


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_with_the_caches_an_arrow_goes_down_and_across(mount, width):
    """From a tile to its place in shared memory it ran aslant, over L2 and words."""
    page = mount(Race(1024, 128, 128, 128, at=0.3, caches=True), width=width)
    lines = page.evaluate(
        """() => { const g = CanvasRenderingContext2D.prototype, made = [], to = g.lineTo;
          const at = g.moveTo; let last;
          g.moveTo = function (x, y) { last = [x, y]; at.call(this, x, y); };
          g.lineTo = function (x, y) {
            made.push([x - last[0], y - last[1]].map(Math.abs)); last = [x, y];
            to.call(this, x, y); };
          facModel.set('at', 0.31);
          return new Promise((done) => setTimeout(() => {
            Object.assign(g, { lineTo: to, moveTo: at }); done(made); }, 80)); }"""
    )
    long = [line for line in lines if max(line) > 12]
    assert len(long) >= 6
    assert all(min(line) < 0.1 for line in long)


@pytest.mark.browser
@pytest.mark.parametrize("width", [1140, 480])
def test_no_tape_shows_a_k_before_its_q_or_an_o_before_its_v(mount, width):
    """Ten tiles had lain together, sorted by letter: K first, and O before the V that it is of."""
    page = mount(Race(1024, 128, 128, 128, at=0.3), width=width)
    pixels = """(lane) => { const canvas = document.querySelector('.fac-race-laid');
      const edges = [...document.querySelectorAll('.fac-race-scrub')], b = edges[lane].getBBox();
      const k = canvas.width / canvas.clientWidth, g = canvas.getContext('2d');
      const { data } = g.getImageData(0, Math.round((b.y + b.height / 2) * k), b.width * k, 1);
      return Array.from({ length: b.width * k }, (_, i) => [...data.slice(4 * i, 4 * i + 4)])
        .filter((c) => c[3] === 255).map((c) => c.slice(0, 3).join()); }"""
    first: dict[str, int] = {}
    for place, colour in enumerate(page.evaluate(pixels, 1)):
        first.setdefault(colour, place)
    q, k, v, o = sorted(first.values())  # one place each, in order of appearance
    assert first[rgb("q")] == q == 0
    assert [first[rgb(t)] for t in "kvo"] == [k, v, o]
    runs = [c for c, _ in itertools.groupby(page.evaluate(pixels, 1))]
    after = dict.fromkeys((rgb("q"), rgb("o")), 0)
    for one, two in itertools.pairwise(runs):
        if one == rgb("o"):
            assert two == rgb("q"), "a program begins with its Q"
            after[one] += 1
        if two == rgb("o"):
            assert one == rgb("v"), "O is stored after the last V"
    assert after[rgb("o")] >= 2
    assert ("lies together" in words(page)) == (width == 480), "stripes of 1.6 px had been a moiré"
    page = mount(Race(2048, 128, 128, 128, at=0.3), width=width)
    assert "lies together" in words(page), "1,184 tiles on so many pixels"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_an_arrow_goes_straight_from_a_matrix_to_its_place_on_the_chip_through_no_word(
    mount, width
):
    """It ran across S and through "4.8 ×": now each place on the chip lies under its matrix."""
    page = mount(Race(1024, 128, 128, 128), width=width, reduced=True)
    boxes = (
        "ns => ns.map((n) => n.getBBox()).map(({ x, y, width, height }) => [x, y, width, height])"
    )
    slots = page.locator(".fac-race-slot").evaluate_all(boxes)
    edges = page.locator(".fac-race-panel ~ :is(.fac-race-edge, .fac-race-ghost)").evaluate_all(
        boxes
    )
    matrices = [edge for edge in edges if edge[3] > 60]
    assert len(matrices) == len(slots) == 10
    for (x, y, w, _), (left, top, _, tall) in zip(slots, matrices, strict=True):
        assert x < left + 1 < x + w, "under its matrix"
        for at in (0.1, 0.3, 0.6):
            page.evaluate(f"facModel.set('at', {at})")
            texts = page.locator(".fac-race-over text").evaluate_all(boxes)
            crossed = [t for t in texts if t[0] < left + 4 and t[0] + t[2] > left - 3 and t[2]]
            assert not [t for t in crossed if t[1] < y - 4 and t[1] + t[3] > top + tall + 2], at


@pytest.mark.browser
def test_the_tape_at_rest_and_the_tape_that_has_run_are_one_encoding(mount):
    """At rest it was summed matrix by matrix, played it is in order."""
    page = mount(Race(1024, 128, 128, 128), width=1280)
    colours = """(at) => { const canvas = document.querySelector(at);
      const b = document.querySelector('.fac-race-scrub').getBBox();
      const k = canvas.width / canvas.clientWidth, g = canvas.getContext('2d');
      const { data } = g.getImageData(0, Math.round((b.y + b.height / 2) * k), canvas.width, 1);
      const kind = (i) => [0, 1, 2].map((c) => Math.round(data[4 * i + c] / 24)).join();
      return Array.from({ length: Math.floor(canvas.width * 0.99) }, (_, i) => kind(i)); }"""
    rest = page.evaluate(colours, ".fac-race-moves")
    page.evaluate("facModel.set('at', 1)")
    page.wait_for_timeout(80)
    played = page.evaluate(colours, ".fac-race-laid")
    cuts = [[i for i in range(1, len(of)) if of[i] != of[i - 1]] for of in (rest, played)]
    assert len(cuts[0]) > 20, "not one piece a matrix"
    near = [min(abs(cut - other) for other in cuts[1]) for cut in cuts[0]]
    assert max(near) <= 2


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_naives_tape_is_shown_pale_while_the_other_is_guessed(mount, width):
    """The yardstick was an empty box; what naive attention moves is given, most of it S and P."""
    race = Race(1024, 128, 128, 128)
    page = mount(race, width=width)
    pixels = """() => { const canvas = document.querySelector('.fac-race-moves');
      const b = document.querySelector('.fac-race-scrub').getBBox();
      const k = canvas.width / canvas.clientWidth, g = canvas.getContext('2d');
      const { data } = g.getImageData(0, Math.round((b.y + b.height / 2) * k), b.width * k, 1);
      return Array.from({ length: b.width * k }, (_, i) => [...data.slice(4 * i, 4 * i + 4)]); }"""
    alphas = [pixel[3] for pixel in page.evaluate(pixels)]
    assert max(alphas) < 128, "pale: nothing has run"
    assert sum(a > 40 for a in alphas) > 0.97 * len(alphas), "to its end"
    page.evaluate("facModel.set('at', 0.3)")
    page.wait_for_timeout(60)
    assert sum(pixel[3] > 0 for pixel in page.evaluate(pixels)) < 0.05 * len(alphas)


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1140])
def test_at_the_end_the_large_numbers_say_how_many_times_the_bytes(mount, width):
    """Both lanes said 100 %: at a glance, a draw."""
    race = Race(8192, 128, 128, 128)
    page = mount(Race(8192, 128, 128, 128, at=1.0), width=width)
    times = race.total("naive") / race.total("flash")
    assert page.locator(".fac-race-score").all_text_contents() == [
        f"{times:.3g} × the bytes",
        "1 × the bytes",
    ]
    page.evaluate("facModel.set('at', 0.3)")
    page.wait_for_timeout(60)
    assert page.locator(".fac-race-score").first.text_content() == "0 % of O written"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_tape_names_its_trips_and_has_a_meter_of_o(mount, width):
    """naive's trips had tones that nothing named; at the tape both lanes looked alike."""
    race = Race(1024, 64, 128, 128, at=1.0)
    page = mount(race, width=width, reduced=True)
    trips = page.locator(".fac-race-over text").all_text_contents()
    assert [text for text in trips if re.match("(read|write) [SP]", text)] == [
        "write S",
        "read S, write P",
        "read P",
    ]
    page.evaluate("facModel.set('at', 0.3)")
    naive, flash = page.locator(".fac-race-meter").all()
    for meter, lane in ((naive, "naive"), (flash, "flash")):
        events = race.events(lane)
        now = 0.3 * max(race.events(each)[-1].t1 for each in race.lanes)
        out = [e for e in events if e.tensor == "o" and e.kind == "store"]
        share = sum(e.n_bytes for e in out if e.t1 <= now) / sum(e.n_bytes for e in out)
        box = meter.bounding_box()
        fill = meter.evaluate("n => n.previousElementSibling.getBBox().width")
        assert fill / box["width"] == pytest.approx(share, abs=0.03)
        assert box["x"] + box["width"] < width
    tape = page.locator(".fac-race-scrub").first.bounding_box()
    assert tape["x"] + tape["width"] < naive.bounding_box()["x"], "in line, beside it"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.parametrize("n", [512, 1024, 4096])
def test_a_tile_on_the_chip_is_as_large_as_in_its_matrix(mount, width, n):
    """Squares of 24 pixels stood beside tiles of 31 or of 13."""
    page = mount(Race(n, 64, 128, 64), width=width, reduced=True)
    size = "ns => ns.map((n) => n.getBBox()).map((b) => [b.width, b.height])"
    slots = page.locator(".fac-race-slot").evaluate_all(size)[5:]
    edges = page.locator(".fac-race-panel ~ :is(.fac-race-edge, .fac-race-ghost)").evaluate_all(
        size
    )
    one = edges[0][1] / n  # pixels a row, of Q
    q, k = 128 * one, 64 * one
    for (w, h), (wide, tall) in zip(
        slots, [(64 * one, q), (64 * one, k), (64 * one, k), (64 * one, q), (k, q)], strict=True
    ):
        assert w == pytest.approx(max(2, wide), abs=0.1)
        assert h == pytest.approx(max(2, tall), abs=0.1)
    for chip in page.locator(".fac-race-chip").all():
        box = chip.bounding_box()
        name = page.locator("text", has_text="on chip").first.bounding_box()
        assert box["y"] > name["y"] or name["y"] + name["height"] <= box["y"] + box["height"] - 1


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1100, 1280])
@pytest.mark.parametrize("n", [256, 1024])
def test_words_below_a_matrix_and_on_the_chip_keep_apart(mount, width, n):
    """The film showed it: "P = softmax(S)" ran into "on chip", and the scale bar into the marks."""
    page = mount(Race(n, 64, 64, 64, at=0.5, flag=0.5), width=width, reduced=True)
    boxes = """words => [...document.querySelectorAll('.fac text')]
      .filter((n) => words.some((word) => n.textContent.includes(word)))
      .map((n) => [n.textContent, n.getBoundingClientRect()])"""
    found = page.evaluate(boxes, ["softmax", "on chip", "trips", " numbers", "HBM"])
    assert any("softmax" in text for text, _ in found)
    for i, (one, a) in enumerate(found):
        for other, b in found[:i]:
            apart = a["left"] >= b["right"] or b["left"] >= a["right"]
            apart |= a["top"] >= b["bottom"] - 3 or b["top"] >= a["bottom"] - 3
            assert apart, (one, other)


@pytest.mark.browser
def test_the_slider_of_the_tapes_ends_where_they_end_and_nothing_is_cut_off(mount):
    """Its track ran to the card's very edge, where its round end was cut off."""
    page = mount(Race(1024, 128, 128, 128, at=0.0, flag=0.3), width=480, reduced=True)
    tape = page.locator(".fac-race-scrub").first.bounding_box()
    slider, look = page.get_by_label("Tape", exact=True).evaluate(
        "n => [n.getBoundingClientRect().left, getComputedStyle(n).backgroundPositionX]"
    )
    assert slider >= 0
    assert slider + float(look.split("px")[0]) == pytest.approx(tape["x"], abs=1)
    page.evaluate("facModel.set('at', 0.5)")
    share = "n => Number(n.style.getPropertyValue('--fac-at'))"
    assert page.get_by_label("Tape", exact=True).evaluate(share) == pytest.approx(0.5)


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_both_tapes_have_a_name_from_the_start_and_a_trip_s_name_has_a_plate(mount, width):
    """The waiting flag took the second name away; "write S" lay on stripes of Q."""
    page = mount(Race(1024, 128, 128, 128), width=width, reduced=True)
    names = "ns => ns.filter((n) => n.checkVisibility()).map((n) => n.textContent)"
    for flag in (-1.0, 0.0, 0.04, 0.5):
        page.evaluate(f"facModel.set('flag', {flag})")
        shown = page.locator(".fac-race-over text.fac-race-name").evaluate_all(names)
        assert [text for text in shown if "ttention" in text] == [
            "naive attention",
            "FlashAttention",
        ]
        name = page.locator("text.fac-race-name", has_text="FlashAttention").bounding_box()
        pole = page.locator(".fac-race-flag").bounding_box()
        assert width == 480 or not name["x"] < pole["x"] + 2 < name["x"] + name["width"]
    page.evaluate("facModel.set('at', 0.3)")
    trip = page.locator(".fac-race-small", has_text="write S").bounding_box()
    plate = page.locator(".fac-race-over .fac-chip").first.bounding_box()
    assert plate["x"] <= trip["x"] + 3
    assert trip["x"] + trip["width"] <= plate["x"] + plate["width"] + 3
