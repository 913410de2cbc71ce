"""A finding is computed from the numbers that are drawn: other numbers, another finding."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.text import Text

from course_lib.accounting.measurements import load_measurements
from course_lib.accounting.serving import Run, simulate
from course_lib.attention.scheduling import continuous
from course_lib.figures import (
    backward,
    blocks,
    chart,
    counters,
    decode,
    dram,
    drift,
    forward,
    fusion,
    half_precision,
    hierarchy,
    ladder,
    memory_scale,
    naive_steps,
    pages,
    regimes,
    sentence,
    serving,
    staircase,
    tile_choice,
    timeline,
    training,
    trips,
    visits,
    warps,
)  # fmt: skip

RUNGS = ["1 by_mask", "8 specialised"]
STEPS = {"a": 1.0, "b": 2.0, "c": 2.0, "d": 1.0}


def books(tiles: int, *, causal: bool) -> SimpleNamespace:
    cells = [(i, j) for i in range(tiles) for j in range(i + 1 if causal else tiles)]
    loads = [
        SimpleNamespace(tensor="k", kind="load", program=(i, 0), rows=(j * 4, j * 4 + 4))
        for i, j in cells
    ]
    return SimpleNamespace(visits=loads)


def served() -> Run:
    return simulate(continuous, serving.requests(), pages=serving.PAGES,
                    page_size=serving.PAGE_SIZE, budget=256)  # fmt: skip


def seen(tiles: int) -> dict[str, SimpleNamespace]:
    return {"all": books(tiles, causal=False), "causal": books(tiles, causal=True)}


FIGURES = {
    "third": half_precision.draw_third,
    "charts": lambda: chart.draw_charts(3, 6),
    "trips": trips.draw_trips,
    "scale": lambda: memory_scale.draw_scale(8192, 2),
    "warps": lambda: warps.draw_split(64, 64, 128),
    "drift": lambda: drift.draw_drift(8, 4),
    "steps": lambda: naive_steps.draw_steps(STEPS),
    "regimes": regimes.draw_regimes,
    "programs": lambda: blocks.draw_programs(21, 8),
    "addresses": lambda: blocks.draw_addresses(np.array([1, 2]), np.array([3, 4, 5]), 10),
    "sentence": lambda: sentence.draw_sentence(["a", "it"], [0.8, 0.2], 1),
    "staircase": lambda: staircase.draw_staircase(6, 10, 2, 4, 1),
    "visits": lambda: visits.draw_visits(seen(4), 16, 4),
    "walks": lambda: backward.draw_walks(3, causal=True),
    "losses": training.draw_losses,
    "forward": forward.draw_time_and_memory,
    "rungs": lambda: ladder.draw_rungs(RUNGS),
    "speeds": tile_choice.draw_speeds,
    "timeline of rung 4": lambda: timeline.draw_timeline("edge_masks"),
    "timeline of rung 8": lambda: timeline.draw_timeline("specialised"),
    "timeline of the backward": lambda: timeline.draw_timeline("gradients"),
    "counters": lambda: counters.draw_counters({256: 10**7}),
    "fusion": fusion.draw_fusion,
    "cache": lambda: decode.draw_cache(257, 128),
    "splits": decode.draw_splits,
    "seats": lambda: serving.draw_seats({"tram": [(0, 0, 2), (1, 0, 7), (0, 2, 6)]}),
    "serving": lambda: serving.draw_memory({"paged": served()}),
}
TABLES = {
    "steps": naive_steps.formula_and_counters,
    "six trips": naive_steps.six_trips_over_n,
    "places": hierarchy.places,
    "times": regimes.times,
    "bounds": lambda: regimes.bounds(10**12, 10**10, 10**8),
    "products": regimes.beside_the_products,
    "memory of a step": training.memory_of_a_step,
    "time of a step": training.time_of_a_step,
    "backward alone": training.backward_alone,
    "one walk or two": training.one_walk_or_two,
    "against naive": forward.against_naive,
    "tiles": forward.by_tiles,
    "gains": lambda: ladder.gains({RUNGS[1]: RUNGS[0]}),
    "speeds": lambda: ladder.speeds(RUNGS),
    "peers": ladder.peers,
    "versions": fusion.versions,
    "kernels": fusion.kernels,
    "calls": lambda: dram.calls(lambda n, causal: (1.0, 2.0)),
    "orders": dram.orders,
    "decode": decode.against_others,
    "pages": pages.paged_times,
    "cycles of rung 4": lambda: timeline.cycles("edge_masks"),
    "cycles of rung 8": lambda: timeline.cycles("specialised"),
    "cycles of the backward": lambda: timeline.cycles("gradients"),
}


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.few(9)
def test_a_figure_says_a_finding_and_has_no_legend(name):
    figure = FIGURES[name]()
    assert len(figure.finding.split()) >= 5
    assert not [axes for axes in figure.axes if axes.get_legend()]
    assert "<svg" in figure._repr_html_()


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_rows_in_both_forms(name):
    table = TABLES[name]()
    assert table.rows
    assert table._repr_html_().count("<tr") == len(table.rows) + 1
    assert len(str(table).splitlines()) > len(table.rows)


@pytest.mark.parametrize(
    ("draw", "one", "other", "found"),
    [
        (chart.draw_charts, (3, 6), (2, 6), ("2 times", "3 times")),
        (blocks.draw_programs, (21, 8), (24, 8), ("has 3 places", "has 0 places")),
        (naive_steps.draw_steps, (STEPS,), (dict.fromkeys("abcd", 2.0),), ("6.00", "8.00")),
        (decode.draw_cache, (257, 128), (256, 128), ("127 rows", "0 rows")),
        (decode.draw_splits, (1,), (64, 4096), ("10.3 times", "1.1 times")),
        (sentence.draw_sentence, (["a", "it"], [0.8, 0.2], 1), (["a", "b"], [0.3, 0.7], 0),
         ("80% of its weight to 'a'", "70% of its weight to 'b'")),
        (staircase.draw_staircase, (6, 10, 2, 4, 1), (6, 4, 2, 4, 0), ("from 8 on", "from 0 on")),
        (memory_scale.draw_scale, (8192, 2), (4096, 2), ("is larger", "is smaller")),
        (warps.draw_split, (64, 64, 128), (64, 64, 128, 8), ("128 KiB", "256 KiB")),
        (drift.draw_drift, (12, 4), (12, 3), ("3.6 tiles", "2.9 tiles")),
        (visits.draw_visits, (seen(4), 16, 4), (seen(8), 32, 4), ("62%", "56%")),
    ],
)  # fmt: skip
def test_other_numbers_give_another_finding(draw, one, other, found):
    first, second = draw(*one).finding, draw(*other).finding
    assert found[0] in first
    assert found[1] in second


def test_the_boundary_of_a_staircase_is_a_whole_number_of_tiles():
    assert "Query 2 sees 7 keys; rounded down to tiles of 4, boundary = 4." in (
        staircase.draw_staircase(5, 9, 2, 4, 1, boundary=True).note
    )
    assert "boundary" not in staircase.draw_staircase(5, 9, 2, 4, 1).note


def test_findings_of_records_are_what_the_records_say():
    rows = load_measurements("h100_regimes")["rows"]
    ratios = [f"{rows[i]['eager_us'] / rows[i]['flash_us']:.1f} times" for i in (0, -1)]
    assert re.findall(r"[\d.]+ times", regimes.draw_regimes().finding) == ratios
    speeds = tile_choice.descriptor_speeds().values()
    assert f"{max(speeds) / min(speeds):.1f}" in tile_choice.draw_speeds().finding


def test_empty_seats_are_counted_and_the_faster_run_is_named():
    drawn = serving.draw_seats({"coach": [(0, 0, 2), (1, 0, 7)], "tram": [(0, 0, 2), (0, 2, 9)]})
    words = " ".join(text.get_text() for axes in drawn.axes for text in axes.findobj(Text))
    assert "coach: 7 steps, 5 empty places" in words
    assert "tram: 9 steps, 0 empty places" in words
    run = served()
    slow = replace(run, seconds=2 * run.seconds)
    assert "2.0 times" in serving.draw_memory({"a": slow, "b": run}).finding


def test_programs_of_one_length_walk_as_one_and_a_free_sm_takes_the_next():
    assert drift.read_at_a_time(drift.walks([5] * 6, 3), 3) == 1
    assert [walk[0][0] for walk in drift.walks([1, 2, 3], 2)] == [0, 0, 1]
