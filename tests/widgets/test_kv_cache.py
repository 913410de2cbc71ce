"""KVCacheCalculator: published models add up, memory holds what it says, also in the browser."""

from __future__ import annotations

import re
from typing import Any

import pytest
from traitlets import TraitError

from course_lib.widgets import KVCacheCalculator
from course_lib.widgets.kv_cache import CAPACITY, VARIANTS
from course_lib.widgets.kv_cache import PRESETS as MODELS_OF_KV


def test_llama_3_8b_keeps_128_kib_a_token():
    """2 x 32 layers x 8 heads x 128 x 2 bytes; MHA would keep four times that."""
    cache = KVCacheCalculator("Llama-3-8B", n=1)
    assert cache.cache_bytes() == 128 * 1024
    assert cache.cache_bytes("MHA") == 4 * cache.cache_bytes()
    assert cache.cache_bytes("MQA") * 8 == cache.cache_bytes()
    assert cache.cache_bytes("int8") * 2 == cache.cache_bytes()
    assert cache.cache_bytes("MLA") == 576 * 32 * 2
    long = KVCacheCalculator("Mistral-7B", n=32768)
    assert long.cache_bytes("window") * 8 == long.cache_bytes()


@pytest.mark.parametrize("preset", MODELS_OF_KV)
def test_as_many_requests_fit_as_memory_allows_and_no_more(preset):
    cache = KVCacheCalculator(preset, gpus=2)
    for variant in VARIANTS:
        fit = cache.requests(variant)
        room = 2 * CAPACITY["H100"] - cache.weights_m * 2 * 10**6
        assert cache.cache_bytes(variant, batch=fit) <= room
        assert cache.cache_bytes(variant, batch=fit + 1) > room
    assert KVCacheCalculator("Llama-3-70B").requests() == 0


def test_cache_table_and_figure_agree():
    cache = KVCacheCalculator()
    assert "1 GiB" in cache.to_table()
    widths = [bar.get_width() for bar in cache.to_figure().axes[0].patches]
    assert widths == [cache.cache_bytes(name) / 2**30 for name in VARIANTS]


@pytest.mark.parametrize(
    ("act", "error", "sentence"),
    [
        (lambda: KVCacheCalculator("typo"), ValueError, "preset must be"),
        (lambda: KVCacheCalculator(size=1), ValueError, "no setting 'size'"),
        (lambda: KVCacheCalculator(kv_heads=5), TraitError, "multiple of kv_heads"),
        (lambda: KVCacheCalculator(n=-1), TraitError, "n must be"),
        (lambda: KVCacheCalculator().cache_bytes("typo"), ValueError, "variant must be"),
    ],
)
def test_bad_values_get_one_sentence(act, error, sentence):
    with pytest.raises(error, match=sentence):
        act()


@pytest.mark.browser
def test_cache_follows_the_model_and_refuses_bad_values(mount, check_page):
    page = mount(KVCacheCalculator(), width=320)
    check_page(page)
    assert "128 KiB a token, 1 GiB a request of 8192 tokens" in page.inner_text(".fac-stage-words")
    fit = KVCacheCalculator().requests()
    finding = f"One H100 (79.2 GiB) holds {fit} requests of 8192 tokens"
    assert finding in page.text_content(".fac-stage")
    page.get_by_role("combobox", name="Model").select_option("Llama-3-70B")
    assert "do not fit on 1 × H100" in page.inner_text(".fac")
    page.get_by_text("more: ").click()
    box = page.get_by_label("H_kv, K/V heads").nth(1)
    box.fill("5")
    box.press("Enter")
    assert "divides the 64 query heads" in page.inner_text(".fac")
    assert page.evaluate("facModel.get('kv_heads')") == 8
    page.get_by_label("GPUs").first.press("ArrowRight")
    assert page.evaluate("facModel.get('gpus')") == 2
    check_page(page)


def area_of(page: Any, what: str) -> float:
    boxes = page.locator(what).evaluate_all("ns => ns.map(n => n.getBBox())"
                                            ".map(b => b.width * b.height)")  # fmt: skip
    return sum(boxes)


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_weights_and_bricks_take_the_area_that_they_take_of_the_memory(mount, width):
    cache = KVCacheCalculator(batch=3)
    page = mount(cache, width=width, reduced=True)
    pixels = area_of(page, ".fac-kv-wall") / CAPACITY["H100"]
    assert area_of(page, ".fac-kv-weights") == pytest.approx(pixels * 8030 * 2e6, rel=0.01)
    filled = area_of(page, ".fac-stage > g > .fac-fill-k, .fac-stage > g > .fac-fill-v")
    want = pixels * cache.cache_bytes(batch=cache.requests())
    assert filled == pytest.approx(want, rel=0.01)
    assert area_of(page, ".fac-kv-asked") == pytest.approx(pixels * cache.cache_bytes(), rel=0.01)
    edges = page.locator(".fac-kv-edges").get_attribute("d").count("v")
    assert edges == cache.requests() == 64
    numbers = page.locator("text.fac-kv-number").all_text_contents()
    assert numbers == [str(8 * row) for row in range(1, 9)], "the last of each row"
    assert page.locator("text.fac-kv-letter").all_text_contents() == ["K", "V"]
    key = page.inner_text(".fac-key")
    assert "weights 14.96 GiB" not in key, "the box has room for it"
    assert "14.96 GiB" in key + page.text_content(".fac-stage")


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_pointing_at_another_way_outlines_its_request_in_the_box(mount, width):
    """What MHA would take was a bar beside the box; now it lies over the bricks that it ousts."""
    page = mount(KVCacheCalculator(), width=width)
    outline, first = page.locator(".fac-kv-other"), page.locator(".fac-kv-first-k")
    assert outline.count() == 0
    for name, times in (("MHA", 4), ("MQA", 1 / 8)):
        page.locator(".fac-kv-store", has_text=name).hover()
        long = "ns => ns.reduce((sum, n) => sum + n.width.baseVal.value, 0)"
        assert outline.evaluate_all(long) == pytest.approx(
            times * first.evaluate_all(long), rel=1e-2
        )
    page.locator(".fac-kv-fields select").first.hover()
    page.wait_for_timeout(100)
    assert outline.count() == 0


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_each_way_to_keep_the_cache_says_what_it_keeps(mount, width):
    cache = KVCacheCalculator(window=512)
    variants = mount(cache, width=width).locator("[data-fac-part=kv-variants]")
    shown, fits = variants.text_content(), variants.locator(".fac-kv-fit").all_text_contents()
    for name in VARIANTS:
        assert cache.says(name) in shown
    assert sorted(fits) == sorted(str(cache.requests(name)) for name in VARIANTS)
    groups = variants.locator(".fac-kv-group").all_text_contents()
    assert groups == ["K/V heads", "bytes a number", "other models"], "by what changes"
    assert "only the last 512 keys are kept" in shown


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_a_bar_is_as_long_as_many_requests_fit(mount, width):
    """Bars of the size of one had the best way look the least."""
    cache = KVCacheCalculator()
    page = mount(cache, width=width, reduced=True)
    bars = page.locator(".fac-kv-bar.fac-fill-other")
    long = bars.evaluate_all("ns => ns.map(n => n.getBBox().width)")
    want = [cache.requests(name) for name in ("MHA", "this model", "MQA", "int8", "window", "MLA")]
    shown = page.locator(".fac-kv-fit")
    assert shown.all_text_contents() == list(map(str, want))
    assert [x / long[1] for x in long] == pytest.approx([n / want[1] for n in want], rel=0.01)
    for number, said in zip(shown.all(), page.locator("[data-variant]").all(), strict=True):
        a, b = number.bounding_box(), said.bounding_box()
        assert a["x"] + a["width"] < b["x"] + 5, "a halo has no ink"
        assert b["x"] + b["width"] <= width
    assert page.locator(".fac-kv-store").count() == page.locator(".fac-kv-choice").count() == 3
    assert page.locator(".fac-stage text", has_text="press to try").count() == 1


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.parametrize("n", [8192, 65536])
def test_beside_each_count_lies_one_request_as_large_as_in_the_box(mount, width, n):
    """Bars said how many, words how large: that one buys the other was nowhere to be seen."""
    cache = KVCacheCalculator(n=n)
    page = mount(cache, width=width, reduced=True)
    said = page.locator(".fac-stage text", has_text="cell: one request").text_content()
    less = int((re.findall(r"1/(\d+) of", said) or [1])[0])
    pixels = area_of(page, ".fac-kv-wall") / CAPACITY["H100"] / less
    for name in VARIANTS:
        if cache.requests(name):
            want = pixels * cache.cache_bytes(name)
            assert area_of(page, f'[data-cell="{name}"]') == pytest.approx(want, rel=0.01)
    if n == 8192:
        assert less == 1
    bars = page.locator(".fac-kv-bar").evaluate_all("ns => ns.map(n => getComputedStyle(n).fill)")
    assert len(bars) == len(VARIANTS)
    assert len(set(bars)) == 1, "counts have no colour of K and V: bytes have"
    ends = "ns => ns.map(n => [n.dataset.variant ?? n.dataset.cell, n.getBBox()]).map(BOX)"
    words, cells = (
        dict(page.locator(at).evaluate_all(ends.replace("BOX", f"([name, b]) => [name, {edge}]")))
        for at, edge in (("[data-variant]", "b.x + b.width"), ("[data-cell]", "b.x"))
    )
    assert all(words[name] < cells[name] for name in VARIANTS), "no word lies on a cell"


@pytest.mark.browser
def test_weights_that_do_not_fit_reach_beyond_the_wall(mount):
    cache = KVCacheCalculator("Llama-3-70B")
    page = mount(cache, width=1280, reduced=True)
    pixels = area_of(page, ".fac-kv-wall") / CAPACITY["H100"]
    assert area_of(page, ".fac-kv-weights") == pytest.approx(pixels * CAPACITY["H100"], rel=0.01)
    assert area_of(page, ".fac-kv-over") == pytest.approx(pixels * -cache.free_bytes(), rel=0.01)
    assert "52.22 GiB too much" in page.inner_text(".fac-key")


@pytest.mark.browser
def test_a_longer_brick_is_a_longer_text_and_fewer_fit(mount):
    page = mount(KVCacheCalculator(), width=1280, reduced=True)
    box = page.locator(".fac-knob-n").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + (x - page.locator(".fac-kv-weights").bounding_box()["width"]), y)
    page.mouse.up()
    assert page.evaluate("facModel.get('n')") == 16384
    fit = KVCacheCalculator(n=16384).requests()
    assert f"holds {fit} requests of 16384 tokens" in page.text_content(".fac-stage")
    assert "drag its end" not in page.text_content(".fac-stage"), "it has been found"


@pytest.mark.browser
def test_a_press_on_another_way_stores_it_so(mount):
    page = mount(KVCacheCalculator(), width=1280, reduced=True)
    for name, trait, want in (("MHA", "kv_heads", 32), ("MQA", "kv_heads", 1)):
        row = page.locator(".fac-kv-store").filter(has_text=f"store it so: {name}")
        row.click(position={"x": 200, "y": 12})
        assert page.evaluate(f"facModel.get('{trait}')") == want
    want = KVCacheCalculator(kv_heads=1).requests()
    assert f"holds {want} requests" in page.text_content(".fac-stage")


def test_an_h100_is_what_a_program_sees_of_it():
    assert CAPACITY["H100"] / 2**30 == pytest.approx(79.2)
    assert CAPACITY["H100"] / 1e9 == pytest.approx(85.0, abs=0.05)
    assert "79.2 GiB, weights 14.96 GiB" in KVCacheCalculator().to_table()


# vocabulary, width, feed-forward width (the papers named in kv_cache.py)
PUBLISHED = {
    "Llama-2-7B": (32000, 4096, 11008),
    "Llama-3-8B": (128256, 4096, 14336),
    "Mistral-7B": (32000, 4096, 14336),
    "Llama-3-70B": (128256, 8192, 28672),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_weights_are_what_the_published_configuration_adds_up_to(name):
    """Two embeddings; per layer Q, K, V, O, three feed-forward matrices, two norms; a last norm."""
    vocabulary, width, inner = PUBLISHED[name]
    model = MODELS_OF_KV[name]
    assert model["heads"] * model["d"] == width
    attention = 2 * width * width + 2 * width * model["kv_heads"] * model["d"]
    layer = attention + 3 * width * inner + 2 * width
    total = 2 * vocabulary * width + model["layers"] * layer + width
    assert model["weights_m"] == round(total / 1e6)


def test_weights_of_gpt_2():
    """Tied embedding, 1024 learnt positions, biases everywhere."""
    width, layers = 768, 12
    layer = 12 * width**2 + 13 * width
    total = (50257 + 1024) * width + layers * layer + 2 * width
    assert MODELS_OF_KV["GPT-2 (124M)"]["weights_m"] == round(total / 1e6)


@pytest.mark.browser
@pytest.mark.parametrize("n", [2048, 8192, 32768, 262144])
def test_no_request_is_torn_where_the_rows_can_be_chosen_so(mount, n):
    """Each of eight rows had begun with the rest of a request, and 14 arrowheads said so."""
    cache = KVCacheCalculator(n=n)
    page = mount(cache, width=1280, reduced=True)
    boxes = page.locator(".fac-kv-box, .fac-stage > g > .fac-fill-k").evaluate_all(
        "ns => ns.map(n => n.getBBox()).map(b => [b.x, b.width, b.y])"
    )
    brick = page.locator(".fac-kv-asked").first.evaluate("n => n.getBBox().width")
    assert len(boxes) == len({round(y) for *_, y in boxes}) >= min(5, cache.requests())
    for _, w, _ in boxes:
        assert w / brick == pytest.approx(round(w / brick), abs=1e-3)
    assert sum(round(w / brick) for _, w, _ in boxes) == cache.requests()


@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True])
def test_only_the_first_request_is_in_full_colour_and_gaps_part_them(mount, dark):
    """64 stripes of green and pink, side by side, made the eye swim."""
    page = mount(KVCacheCalculator(), width=1280, dark=dark, reduced=True)
    paint = "n => getComputedStyle(n).fill"
    for name in "kv":
        first = page.locator(f".fac-kv-first-{name}")
        assert first.count() == 1
        quiet = page.locator(f".fac-stage > g > .fac-fill-{name}").first
        assert first.evaluate(paint) != quiet.evaluate(paint)
    brick = page.locator(".fac-kv-asked").evaluate("n => n.getBBox().width")
    assert page.locator(".fac-kv-first-k").evaluate("n => n.getBBox().width") == pytest.approx(
        brick
    )
    assert float(page.locator(".fac-kv-edges").get_attribute("stroke-width")) >= 3


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_what_cannot_be_pressed_stands_apart_and_a_count_is_no_fraction(mount, width):
    """ "64 of 1 GiB" read as a part of one; two models that nothing chooses looked like others."""
    page = mount(KVCacheCalculator(), width=width, reduced=True)
    said = page.locator("[data-variant]").all_text_contents()
    assert all(text.startswith("× ") for text in said)
    line = page.locator(".fac-kv-apart").evaluate("n => n.getBBox().y")
    stores = page.locator(".fac-kv-store, .fac-kv-is")
    assert stores.evaluate_all(f"ns => ns.every(n => n.getBBox().y + n.getBBox().height < {line})")
