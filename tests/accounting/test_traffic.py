"""The closed-form models: golden numbers, and derived counts against a count of every score."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.accounting import traffic
from course_lib.accounting.hardware import gpu
from course_lib.attention import masks

GB = 1e9


def test_four_trips_of_32_heads_are_17_45_gb_and_65_times_the_compulsory():
    shape = {"n": 8192, "d": 128, "heads": 32, "b": 2}
    naive = traffic.naive_four_trips.terms(**shape)
    scores = sum(naive[way][name] for way in ("read", "written") for name in ("s", "p"))
    assert scores == 4 * 32 * 8192**2 * 2  # 17.18 GB
    total = traffic.naive_four_trips.bytes(**shape)
    assert round(scores / GB, 2) == 17.18
    assert round((total - scores) / GB, 2) == 0.27
    assert round(total / GB, 2) == 17.45
    assert total == 65 * traffic.flash_compulsory.bytes(**shape)
    assert traffic.reduction_factor(8192, 128) == 65


def test_eager_as_run_is_6_51_gb_at_8_heads():
    assert round(traffic.eager_six_trips.bytes(n=8192, d=128, heads=8) / GB, 2) == 6.51


@pytest.mark.parametrize(
    ("n", "heads", "causal", "compulsory", "loads"),
    [
        (8192, 8, False, 0.067, 2.18),
        (32768, 8, False, 0.268, 34.5),
        (32768, 8, True, 0.268, 17.4),
        (131072, 1, False, 0.134, 68.8),
        (131072, 8, False, 1.07, 550),
        (131072, 8, True, 1.07, 276),
    ],
)
def test_the_two_bounds_of_the_measured_table(n, heads, causal, compulsory, loads):
    shape = {"n": n, "d": 128, "heads": heads, "causal": causal, "block_q": 128}
    assert traffic.flash_compulsory.bytes(**shape) / GB == pytest.approx(compulsory, rel=5e-3)
    assert traffic.flash_tile_loads.bytes(**shape) / GB == pytest.approx(loads, rel=5e-3)


@pytest.mark.parametrize("n", [1024, 8192])
def test_tile_loads_are_the_textbook_formula_and_their_ratio_to_naive_is_constant(n):
    """2 N d b + 2 T_q N d b; over the four trips' N^2 part the ratio is 2 B_q / d, at any N."""
    d, block_q, b = 128, 128, 2
    loads = traffic.flash_tile_loads.bytes(n=n, d=d, b=b, block_q=block_q)
    assert loads == 2 * n * d * b + 2 * (n // block_q) * n * d * b
    quadratic_loads = loads - 2 * n * d * b
    assert 4 * n * n * b / quadratic_loads == 2 * block_q / d


def test_lse_is_four_bytes_a_row_whatever_the_dtype():
    for model in (traffic.flash_compulsory, traffic.flash_tile_loads):
        shape = {"n_q": 100, "n_k": 70, "d": 16, "heads": 3, "b": 2, "block_q": 16}
        assert model.bytes(**shape, lse=True) - model.bytes(**shape) == 4 * 3 * 100
        assert "lse" not in model.terms(**shape)["written"]


def test_grouped_heads_save_compulsory_bytes_but_no_tile_loads():
    shape = {"n": 256, "d": 64, "heads": 8, "b": 2, "block_q": 64}
    grouped = {**shape, "kv_heads": 2}
    q_bytes = 8 * 256 * 64 * 2
    assert traffic.flash_compulsory.terms(**grouped)["read"] == {
        "q": q_bytes,
        "k": q_bytes // 4,
        "v": q_bytes // 4,
    }
    assert traffic.flash_tile_loads.terms(**grouped) == traffic.flash_tile_loads.terms(**shape)


def test_formulas_are_the_terms():
    assert traffic.naive_four_trips.formula() == "2 H N_q d b + 2 H_kv N_k d b + 4 H N_q N_k b"
    assert traffic.eager_six_trips.formula().endswith("+ 6 H N_q N_k b")
    assert traffic.flash_tile_loads.formula() == "2 H N_q d b + 2 H K_rows d b + 4 H N_q (lse)"
    values = traffic.symbols(n_q=50, n_k=70, d=8, heads=6, kv_heads=2, b=4, block_q=16, causal=True)
    for model in traffic.MODELS.values():
        written_out = model.formula().replace(" (lse)", "")
        total = 0
        for term in written_out.split(" + "):
            product = 1
            for factor in term.split():
                product *= int(factor) if factor.isdigit() else values[factor]
            total += product
        shape = {"n_q": 50, "n_k": 70, "d": 8, "heads": 6, "kv_heads": 2, "b": 4, "block_q": 16}
        assert total == model.bytes(**shape, causal=True, lse=True)


def brute_force(n_q, n_k, block_q, block_k, causal, window):
    position = np.arange(n_q)[:, None] + n_k - n_q
    key = np.arange(n_k)[None, :]
    seen = np.ones((n_q, n_k), dtype=bool)
    if causal or window:
        seen &= key <= position
    if window:
        seen &= key > position - window
    counts = dict.fromkeys(traffic.derived_counts(1, 1, 1, 1), 0)
    counts["visible_pairs"] = int(seen.sum())
    for i, first in enumerate(range(0, n_q, block_q)):
        for j, left in enumerate(range(0, n_k, block_k)):
            tile = seen[first : first + block_q, left : left + block_k]
            counts["t_q"], counts["t_k"] = i + 1, j + 1
            if not tile.any():
                counts["skipped_tiles"] += 1
                continue
            counts["visited_tiles"] += 1
            counts["full_tiles" if tile.all() else "partial_tiles"] += 1
            counts["visited_q_rows"] += tile.shape[0]
            counts["visited_k_rows"] += tile.shape[1]
            counts["visited_pairs"] += tile.size
    return counts


small = st.integers(1, 40)


@settings(max_examples=200, deadline=None)
@given(small, small, st.integers(1, 17), st.integers(1, 17), st.booleans(), st.none() | small)
def test_derived_counts_equal_a_count_of_every_score(n_q, n_k, block_q, block_k, causal, window):
    call = (n_q, n_k, block_q, block_k, causal, window)
    assert traffic.derived_counts(*call) == brute_force(*call)


@settings(max_examples=40, deadline=None)
@given(small, small, st.integers(1, 17), st.integers(1, 17), st.none() | small)
def test_causal_and_window_mean_what_the_masks_mean(n_q, n_k, block_q, block_k, window):
    mask = masks.causal() if window is None else masks.sliding_window(window)
    counts = traffic.derived_counts(n_q, n_k, block_q, block_k, causal=True, window=window)
    assert counts["visible_pairs"] == int(mask.dense(n_q, n_k).sum())


def test_causal_four_by_four_tiles_visits_ten_of_sixteen():
    counts = traffic.derived_counts(64, 64, 16, 16, causal=True)
    assert (counts["visited_tiles"], counts["partial_tiles"], counts["skipped_tiles"]) == (10, 4, 6)
    flops = traffic.visited_flops(64, 64, 32, block_q=16, block_k=16, causal=True)
    assert flops / (4 * 64 * 64 * 32) == 10 / 16  # (T + 1) / 2T, not one half
    assert traffic.attention_flops(64, 64, 32, causal=True) == 2 * 64 * 64 * 32


def test_257_rows_in_tiles_of_128_need_three_tiles_and_load_257_rows():
    counts = traffic.derived_counts(257, 257, 128, 128)
    assert (counts["t_q"], counts["t_k"]) == (3, 3)
    assert counts["visited_k_rows"] == 3 * 257


@pytest.mark.parametrize("d", [16, 64, 128])
def test_over_four_trips_the_quadratic_term_overtakes_at_n_equal_d(d):
    def quadratic_share(n):
        total = traffic.naive_four_trips.bytes(n=n, d=d)
        return (total - traffic.flash_compulsory.bytes(n=n, d=d)) / total

    n = traffic.crossover_n(d)
    assert quadratic_share(n - 1) < 0.5 == quadratic_share(n) < quadratic_share(n + 1)


def test_intensities_of_n_8192():
    flops = traffic.attention_flops(8192, 8192, 128)
    shape = {"n": 8192, "d": 128, "block_q": 128}
    at = {m.name: traffic.intensity(flops, m.bytes(**shape)) for m in traffic.MODELS.values()}
    assert {name: round(value) for name, value in at.items()} == {
        "naive_four_trips": 63,
        "eager_six_trips": 42,
        "flash_compulsory": 4096,
        "flash_tile_loads": 126,  # about B_q, below the ridge of an H100
    }
    assert at["flash_tile_loads"] < gpu("H100").ridge < at["flash_compulsory"]


def test_three_regimes_on_an_h100():
    def dearest(n, model, launches):
        shape = {"n": n, "d": 128, "heads": 8}
        bounds = traffic.time_bounds(
            traffic.attention_flops(n, n, 128, 8), model.bytes(**shape), launches, gpu("H100")
        )
        return max(bounds, key=bounds.get)

    assert dearest(64, traffic.eager_six_trips, 4) == "overhead_s"
    assert dearest(8192, traffic.eager_six_trips, 4) == "traffic_s"
    assert dearest(8192, traffic.flash_compulsory, 1) == "arithmetic_s"
    bounds = traffic.time_bounds(989e12, 3350e9, 4, gpu("H100"), launch_s=40e-6)
    assert bounds == pytest.approx({"overhead_s": 160e-6, "traffic_s": 1, "arithmetic_s": 1})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: traffic.derived_counts(0, 1, 1, 1), "n_q must be a positive integer, got 0"),
        (lambda: traffic.derived_counts(1, 1, 1, 2.0), "block_k must be a positive integer"),
        (lambda: traffic.derived_counts(1, 1, 1, 1, window=0), "window must be a positive"),
        (lambda: traffic.naive_four_trips.bytes(d=8), "n_q must be a positive integer, got None"),
        (
            lambda: traffic.flash_tile_loads.bytes(n=8, d=8),
            "give block_q: flash_tile_loads",
        ),
        (lambda: traffic.naive_four_trips.bytes(n=8, d=8, heads=3, kv_heads=2), "multiple"),
        (lambda: traffic.intensity(1, 0), "n_bytes must be positive"),
    ],
)
def test_bad_input_gets_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()
