"""RooflineChart and KVCacheCalculator: numbers from `accounting`, in Python and in the browser."""

from __future__ import annotations

import pytest
from traitlets import TraitError

from course_lib.accounting.hardware import GPUS
from course_lib.accounting.traffic import MODELS
from course_lib.widgets import KVCacheCalculator, RooflineChart
from course_lib.widgets.kv_cache import CAPACITY_GB, VARIANTS
from course_lib.widgets.kv_cache import PRESETS as MODELS_OF_KV
from course_lib.widgets.roofline import POINTS


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
    assert "220 TFLOP/s measured" in text
    assert text.count("memory-bound") == 4


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
        room = 2 * CAPACITY_GB["H100"] * 10**9 - cache.weights_m * 2 * 10**6
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
def test_roofline_points_move_with_n_but_not_with_batch(mount, check_page):
    page = mount(RooflineChart(), width=320)
    check_page(page)
    cells = lambda: page.locator("tbody td:nth-child(2)").all_inner_texts()  # noqa: E731
    before = cells()
    page.get_by_label("batch").first.press("End")
    assert page.evaluate("facModel.get('batch')") == 4096
    assert cells() == before
    page.get_by_label("N", exact=True).first.press("ArrowLeft")
    want = [RooflineChart(n=4096).intensity(point) for point in POINTS]
    assert [float(x) for x in cells()] == pytest.approx(want, rel=5e-3)
    page.get_by_label("GPU").select_option("T4")
    assert "T4 needs 203 FLOP/byte" in page.inner_text(".fac")
    assert "T4" in page.locator("svg[role=img]").get_attribute("aria-label")
    check_page(page)


@pytest.mark.browser
def test_cache_follows_the_model_and_refuses_bad_values(mount, check_page):
    page = mount(KVCacheCalculator(), width=320)
    check_page(page)
    assert "128 KiB a token, 1 GiB for 1 × 8192 tokens" in page.inner_text(".fac")
    fit = KVCacheCalculator().requests()
    assert f"{fit} requests fit on 1 × H100" in page.inner_text(".fac")
    page.get_by_label("Model").select_option("Llama-3-70B")
    assert "do not fit on 1 × H100" in page.inner_text(".fac")
    box = page.get_by_label("H_kv, K/V heads").nth(1)
    box.fill("5")
    box.press("Enter")
    assert "divides the 64 query heads" in page.inner_text(".fac")
    assert page.evaluate("facModel.get('kv_heads')") == 8
    page.get_by_label("GPUs").first.press("ArrowRight")
    assert page.evaluate("facModel.get('gpus')") == 2
    check_page(page)


def test_every_model_of_the_chart_exists():
    assert {model for model, _, _ in POINTS.values()} <= set(MODELS)


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
