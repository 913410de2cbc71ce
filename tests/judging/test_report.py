"""The report shows where a result is wrong and how many bytes moved, in text and HTML alike."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import ROOT
from corpus import sample
from helpers import function_of
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import checking
from course_lib.authoring.running import client
from course_lib.checking import report_for
from course_lib.classroom.record import from_report
from course_lib.judging.finding import Finding
from course_lib.judging.judges import array_finding
from course_lib.judging.outcomes import incorrect
from course_lib.judging.picture import (
    MEANING,
    NAN,
    RIGHT,
    SIGNS,
    Bar,
    ErrorMap,
    TrafficBars,
    edges,
    error_map,
    pool,
)
from course_lib.judging.report import CheckFailed, Report, Verdict
from course_lib.judging.report_html import MOST_CELLS, picture_html
from course_lib.judging.spec import Case
from course_lib.specs import find

FLASH = find("7.4")
AXES = ("batch", "head", "row", "column")
FEW = settings(max_examples=40, deadline=None)
sizes = st.integers(1, 200)


def report_on(got, truth, *, axes=(), **kwargs) -> Report:
    """Return the report on an array that is compared with its truth, tiles from keywords."""
    finding = array_finding(got, truth, allowed=1e-3, name="`o`", axes=axes)
    return incorrect(FLASH, Case("a case", (), kwargs), finding)


def words(markup: str) -> set[str]:
    """Return the words of a report, markup taken away."""
    return set(re.findall(r"[\w`]+", html.unescape(re.sub(r"<[^>]*>", " ", markup))))


def svg_of(markup: str) -> ElementTree.Element:
    """Return the first SVG as a parsed tree: it must be well-formed."""
    return ElementTree.fromstring(re.search(r"<svg role.*?</svg>", markup, re.DOTALL).group())


# --- where the error is --------------------------------------------------------------------------


@FEW
@given(rows=st.integers(2, 90), columns=st.integers(1, 70), tile=st.integers(1, 40), data=st.data())
def test_the_map_locates_a_planted_error_exactly(rows, columns, tile, data):
    """One wrong entry in one head: its head, tile, row and column are named, no others."""
    heads = data.draw(st.tuples(st.integers(1, 2), st.integers(1, 3)))
    shape = (*heads, rows, columns)
    at = tuple(data.draw(st.integers(0, n - 1)) for n in shape)
    got = np.zeros(shape)
    got[at] = 1.0
    picture = report_on(got, np.zeros(shape), axes=AXES, block_q=tile).picture
    assert np.argwhere(picture.plane).tolist() == [[at[2], at[3]]]
    if heads != (1, 1):
        assert picture.place == f"`o`, batch {at[0]}, head {at[1]}"
        assert "It is the only one" in picture.caption()
    if tile < rows:
        assert picture.wrong_tiles == (at[2] // tile,)
        assert f"(tile {at[2] // tile}, rows" in picture.caption()
    wrong = [band for band in picture.bands if band.wrong]
    assert len(wrong) == 1
    assert wrong[0].first <= at[2] <= wrong[0].last
    (fine,) = [band for band in picture.fine_bands if band.wrong]
    assert wrong[0].first <= fine.first <= at[2] <= fine.last <= wrong[0].last
    borders = edges(columns, 0, 32)
    (cell,) = [i for i, sign in enumerate(fine.cells) if sign != SIGNS[RIGHT]]
    assert borders[cell] <= at[3] < borders[cell + 1]


@FEW
@given(n=sizes, tile=st.integers(0, 80), most=st.integers(1, 64), whole=st.booleans())
def test_borders_cover_everything_and_keep_tiles_apart(n, tile, most, whole):
    """Groups are at most ``most``; none crosses a tile's border unless it holds whole tiles."""
    found = edges(n, tile, most, whole=whole)
    assert (found[0], found[-1]) == (0, n)
    assert 1 <= len(found) - 1 <= most
    for start, end in pairwise(found):
        assert start < end
        if tile and start // tile != (end - 1) // tile:
            assert start % tile == 0
            assert end % tile == 0 or end == n


@FEW
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_a_pooled_cell_is_the_worst_of_its_group(rows, columns, seed):
    """Against the loops one would write by hand."""
    codes = np.random.default_rng(seed).integers(0, 6, (rows, columns)).astype(np.int8)
    down, across = edges(rows, 2, 4), edges(columns, 0, 3)
    expected = [[codes[a:b, c:d].max() for c, d in pairwise(across)] for a, b in pairwise(down)]
    assert pool(codes, down, across).tolist() == expected


@pytest.mark.parametrize(
    ("got", "sign"),
    [(0.5, "."), (5, "1"), (50, "2"), (5e3, "3"), (np.inf, "I"), (-np.inf, "I"), (np.nan, "N")],
)
def test_each_size_of_error_has_its_sign(got, sign):
    picture = error_map(np.array([0.0, got]), np.zeros(2), 1.0, "x")
    assert picture.bands[0].cells == "." + sign


def test_minus_infinity_is_right_where_it_is_the_truth():
    """The lse of a row that sees no key is -inf: no error, and finite there is one."""
    truth = np.array([-np.inf, -np.inf, 0.0])
    picture = error_map(np.array([-np.inf, 1.0, 0.0]), truth, 1e-3, "`lse`")
    assert picture.bands[0].cells == ".3."


def test_nan_shows_in_text_and_html_in_a_pattern_of_its_own():
    got = np.zeros((40, 8))
    got[32:] = np.nan
    report = report_on(got, np.zeros((40, 8)), block_q=16)
    assert "tile 2  rows 32 to 39  NNNNNNNN  8 of 8 wrong" in report.text()
    drawn = [p for p in svg_of(report._repr_html_()).iter("path") if "stroke-dasharray" in p.attrib]
    assert len(drawn) == 1
    assert drawn[0].get("d").count("M") == 8


def test_signs_and_strokes_differ_without_their_colours():
    """No two codes look alike in grey: text by the letter, HTML by thickness or dashes."""
    looks = set()
    for code in range(1, NAN + 1):
        shown = picture_html(ErrorMap("x", np.full((2, 2), code, dtype=np.int8)))
        path = svg_of(shown).find(".//path")
        looks.add((path.get("stroke-width"), path.get("stroke-dasharray")))
        assert MEANING[code] in shown
    assert len(looks) == NAN
    assert len(set(SIGNS.values())) == len(MEANING)


def test_a_vector_is_a_strip_with_its_blocks():
    truth = np.zeros(150)
    got = truth.copy()
    got[128:] = 1
    finding = array_finding(got, truth, allowed=1e-3)
    report = incorrect(find("5.2"), Case("", (truth, truth), {"block": 64}), finding)
    assert report.picture.wrong_tiles == (2,)
    assert "tile 2  entries 128 to 149" in report.text()
    assert "which of its entries exist" in " ".join(report.text().split())


@pytest.mark.parametrize("strip", [False, True])
def test_rows_that_are_keys_are_called_so_and_cut_by_block_k(strip):
    """The judge's axes say what a result's rows are; 100 keys in tiles of 32, of queries in 16."""
    shape = (1, 1, 100) if strip else (1, 1, 100, 8)
    got = np.zeros(shape)
    got[:, :, 99] = 1
    axes = ("batch", "head", "key", "column")[: len(shape)]
    report = report_on(got, np.zeros(shape), axes=axes, block_q=16, block_k=32)
    assert report.picture.wrong_tiles == (3,)
    assert "1 of 4 key tiles is wrong (tile 3, keys 96 to 99)" in report.picture.caption()
    assert "Next: follow key tile 3 (keys 96 to 99)" in report.text()
    assert "keys 96 to 99" in report._repr_html_()
    assert "query" not in report.text()


@pytest.mark.parametrize(
    ("axes", "kind", "word", "across"),
    [
        (AXES, "head", "row", "column"),
        (("batch", "head", "key"), "head", "key", "key"),  # a strip
        (("sequence", "head", "column"), "sequence", "head", "column"),
        (("sequence", "head"), "matrix", "sequence", "head"),
        ((), "matrix", "row", "column"),
    ],
)
def test_a_place_is_called_as_the_axes_are(axes, kind, word, across):
    picture = error_map(np.ones((2,) * (len(axes) or 3)), np.zeros(1), 1e-3, "`o`", axes)
    assert (picture.kind, picture.word, picture.across) == (kind, word, across)


def test_a_limit_is_said_to_be_one():
    bars = (Bar("new tensors", 30, 20),)
    assert TrafficBars("bytes", bars).caption().endswith("20 are expected.")
    limit = TrafficBars("bytes", bars, limit=True)
    assert limit.caption().endswith("at most 20 are allowed.")
    assert "20 allowed" in picture_html(limit)


@pytest.mark.parametrize(
    ("says", "look"),
    [
        ("load from `k` by program (2, 1, 0): 4 addresses lie outside the tensor (past its end);",
         "Next: print the addresses of that line in program (2, 1, 0): which of them does the"),
        ("load from `k` by program (0, 0, 0): 4 addresses lie outside the tensor (before its "
         "start);", "Next: print the offsets of that line in program (0, 0, 0): which of"),
    ],
)  # fmt: skip
def test_who_leaves_a_tensor_is_told_in_which_program(says, look):
    report = incorrect(FLASH, Case("c"), Finding("stays inside its tensors", says))
    assert any(line.startswith(look) for line in report.lines), report.lines


def test_inputs_that_are_ragged_lists_have_no_tiles():
    """Lesson 03's arguments are lists of arrays of many lengths: the map has no tiles then."""
    finding = array_finding(np.eye(4)[0], np.zeros(4), allowed=1e-3)
    case = Case("", ([np.zeros(2), np.zeros(3)],), {"block": 2})
    assert incorrect(find("3.3"), case, finding).picture.tiles == ()


def test_where_every_row_is_wrong_a_sentence_says_it_and_no_map():
    truth = np.zeros((1, 1, 100, 8))
    report = report_on(truth + 1, truth, axes=AXES, block_q=16)
    assert report.picture is None
    assert "all 7 query tiles are wrong (all 100 rows), in all 8 columns." in report.text()
    assert "█" not in report.text()


def test_that_all_is_wrong_is_said_once():
    says = report_on(np.ones((9, 4)), np.zeros((9, 4))).text()
    assert "wrong in 9 of 9 rows" in says
    assert "all 9 rows" not in says
    some = np.zeros((9, 4))
    some[:, 1] = 1
    assert "all 9 rows are wrong, in column 1 of 4" in report_on(some, 0 * some).text()


# --- size ----------------------------------------------------------------------------------------


def noisy(shape) -> Report:
    """Return a report on an array in which all codes lie side by side: the worst to draw."""
    rng = np.random.default_rng(0)
    few = 0.5 * 64 * 64 / np.prod(shape[2:])  # wrong entries: one for every other cell
    share = [max(0, 1 - few), *[few / 5] * 5] if few < 1 else None
    got = rng.choice([0, 2e-3, 0.1, 1e3, np.inf, np.nan], shape, p=share)
    return report_on(got, np.zeros(shape), axes=AXES, block_q=16)


def test_a_large_result_is_pooled_and_its_report_small():
    """At most 64 x 64 cells are drawn and 16 lines written, whatever the size."""
    report = noisy((1, 2, 3000, 128))
    markup = report._repr_html_()
    svg = svg_of(markup)
    drawn = [p.get("d") for p in svg.iter("path") if p.get("opacity") is None]
    runs = [run for d in drawn for run in re.findall(r"M(\d+) ([\d.]+)h", d)]
    assert len({y for _, y in runs}) == 63  # 188 tiles of 16 rows, three to a line
    assert len({x for x, _ in runs}) == MOST_CELLS
    assert len(runs) <= MOST_CELLS**2
    assert len(markup) < 100_000
    assert len(report.picture.fine_bands) <= 16
    assert float(svg.get("width")) <= 520


def test_a_record_stays_small_and_holds_no_numbers_of_the_result():
    record = from_report("ann", "hash", noisy((2, 4, 2000, 128)))
    assert len(json.dumps(record)) < 20_000
    assert record["picture"]["kind"] == "error map"
    for band in record["picture"]["bands"]:
        assert band.keys() == {"tile", "rows", "wrong", "cells"}
        assert set(band["cells"]) <= set(SIGNS.values())


def test_nothing_is_drawn_before_somebody_looks(monkeypatch):
    """Making a report pools nothing: thousands of submissions are judged and not looked at."""
    monkeypatch.setattr("course_lib.judging.picture.pool", lambda *_: 1 / 0)
    report = noisy((1, 1, 3000, 64))
    with pytest.raises(ZeroDivisionError):
        report.text()


# --- words ---------------------------------------------------------------------------------------


def examples() -> list[Report]:
    bars = TrafficBars.of("loads", {"q": 10, "k": 30, "s": 5}, {"q": 10, "k": 20})
    got = np.zeros((2, 1, 40, 8))
    got[1, 0, 20:22] = 1
    return [
        report_on(got, np.zeros(got.shape), axes=AXES, block_q=16),
        report_on(got[1, 0], np.zeros((40, 8))),
        incorrect(FLASH, Case("c"), Finding("moves", "too much.", picture=bars)),
        incorrect(FLASH, Case("c"), Finding("the shape", "has shape (1,), not (2,).")),
        incorrect(find("1.1"), Case("c"), Finding("the answer", "is 3: that is not it.")),
    ]


@pytest.mark.parametrize("report", examples(), ids=range(5))
def test_text_and_html_carry_the_same_words(report):
    """Every word of the text stands in the HTML, but for what each line of signs counts."""
    text = re.sub(r"\d+ of \d+ wrong", "", report.text())
    said = words("\n".join([report.headline, *report.lines]))
    if report.picture is not None:
        said |= words(report.picture.caption())
    assert said <= words(report._repr_html_())
    assert said <= words(text)


@pytest.mark.parametrize("report", examples(), ids=range(5))
def test_each_report_has_exactly_one_sentence_on_what_to_look_at_next(report):
    (line,) = [line for line in report.lines if line.startswith("Next: ")]
    assert line[-1] in ".?"


def test_next_is_the_judges_own_sentence_if_it_has_one():
    report = incorrect(FLASH, Case(""), Finding("p", "wrong.", look="look at alpha."))
    assert "Next: look at alpha." in report.lines


def test_the_svg_has_a_role_a_summary_and_no_script():
    for report in examples()[:3]:
        svg = svg_of(report._repr_html_())
        assert svg.get("role") == "img"
        assert report.picture.caption() in svg.get("aria-label")
        assert not [e for e in svg.iter() if e.tag in ("script", "style", "foreignObject")]
        assert "max-width:100%" in svg.get("style")


def test_everything_that_a_student_named_is_escaped():
    """Markup in names and messages stays text; escape sequences lose their escape."""
    nasty = "<script>alert(1)</script>\x1b[31m\x9b2J\u202e'\""
    bars = TrafficBars.of("loads", {nasty: 1, "k": 2}, {"k": 2})
    report = incorrect(FLASH, Case("c"), Finding("p", nasty, nasty, picture=bars))
    for shown in (report.text(), report._repr_html_(), report.body()):
        assert not set(shown) & {"\x1b", "\x9b", "\u202e"}
    assert "<script" not in report._repr_html_()
    assert "&lt;script&gt;" in report._repr_html_()
    assert "\\x1b[31m" in report.text()
    svg_of(report._repr_html_())
    record = json.dumps(from_report("ann", "hash", report), ensure_ascii=False)
    assert not set(record) & {"\x1b", "\x9b", "\u202e"}


def test_colour_adds_only_colour():
    for report in examples():
        coloured = report.text(colour=True)
        assert "\x1b[" in coloured
        assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == report.text()


def test_no_line_of_a_picture_is_wider_than_a_terminal():
    text = noisy((1, 1, 300, 300)).text()
    assert max(map(len, text.splitlines()[3:])) <= 88


# --- traffic -------------------------------------------------------------------------------------


def test_the_bars_numbers_are_the_ledgers(monkeypatch):
    """A kernel that reads K twice, run under a ledger: the bars hold what the ledger counted."""
    seen = []
    judge = FLASH.judge

    def watch(case, observed, expected):
        seen.append((case, observed.ledger))
        return judge(case, observed, expected)

    counted = [case for case in FLASH.cases(np.random.default_rng(1)) if case.counted][:1]
    watched = replace(FLASH, judge=watch, cases=lambda rng: counted)
    monkeypatch.setattr(checking, "_exercise_of", lambda *_: watched)
    report = report_for(function_of(sample("7.4/wrong/k_read_twice")), seed=1)
    (case, ledger), (q, k) = seen[-1], counted[0].args[:2]
    bars = {bar.name: bar for bar in report.picture.bars}
    assert {name: 4 * bar.yours for name, bar in bars.items()} == dict(ledger.read)
    assert bars["q"].expected == q.numel()
    tiles = -(-q.shape[2] // case.kwargs["block_q"])
    assert bars["k"].expected == bars["v"].expected == tiles * k.numel()
    assert report.picture.worst == Bar("k", 2 * bars["k"].expected, bars["k"].expected)
    for shown in (report.text(), report._repr_html_(), report.body()):
        for bar in bars.values():
            assert f"{bar.yours:,}" in shown
            assert f"{bar.expected:,}" in shown
    drawn = json.loads(json.dumps(report.picture.record()))["bars"]
    assert [bar["yours"] for bar in drawn] == [bar.yours for bar in bars.values()]


@FEW
@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=2))
def test_bars_are_as_long_as_their_numbers(amounts):
    yours, expected = amounts
    svg = svg_of(picture_html(TrafficBars("loads", (Bar("k", yours, expected),))))
    long = [float(rect.get("width")) for rect in svg.iter("rect")]
    assert long == pytest.approx([200 * n / max(1, *amounts) for n in amounts], abs=0.1)


def test_names_of_the_students_own_give_one_bar():
    bars = TrafficBars.of("loads", {"x": 5, "y": 6}, {"q": 4, "k": 4}).bars
    assert bars == (Bar("all", 11, 8),)


# --- in a notebook -------------------------------------------------------------------------------


def test_a_notebook_shows_a_failed_report_once(monkeypatch):
    """It is displayed, and the exception is left with one line; asked again, no second display."""
    shown = []
    monkeypatch.setattr(
        "course_lib.judging.report.display_in_notebook", lambda r: shown.append(r) or True
    )
    failed = CheckFailed(examples()[0])
    assert "Next: " in str(failed)
    for _ in range(2):
        (line,) = failed._render_traceback_()
        assert line.startswith("CheckFailed: incorrect.")
    assert len(shown) == 1
    assert str(failed) == failed.report.headline


@pytest.mark.slow
def test_an_executed_notebook_holds_the_picture_and_one_line():
    """Through a real kernel: display first, then the error with its one line."""
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    source = (
        "import course_lib, numpy\n"
        "def tiled_attention(q, k, v, block_q, block_k):\n"
        "    p = numpy.exp(q @ k.T / q.shape[1] ** 0.5)\n"
        "    o = p @ v / p.sum(1, keepdims=True)\n"
        "    o[-1] = 0\n"
        "    return o\n"
        "course_lib.check(tiled_attention)"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    running = client(notebook, ROOT, 120)
    running.allow_errors = True
    running.execute()
    outputs = notebook.cells[0].outputs
    display, error = (o for o in outputs if o.output_type != "stream")  # "Checking ..." if slow
    assert "<svg role='img'" in display.data["text/html"]
    assert "Next: " in display.data["text/plain"]
    assert error.ename == "CheckFailed"
    assert error.traceback == ["CheckFailed: incorrect. The report stands above."]
    assert "\n" not in error.evalue


def test_what_was_not_attempted_needs_no_display(monkeypatch):
    monkeypatch.setattr("course_lib.judging.report.display_in_notebook", lambda _: 1 / 0)
    (line,) = CheckFailed(Report(FLASH, Verdict.NOT_ATTEMPTED))._render_traceback_()
    assert "not attempted" in line


def test_turns_past_the_end_are_told_from_turns_that_only_come_twice():
    """A load whose mask is False everywhere says which: the loop walked on past its rows."""
    walks_on = function_of(sample("7.4/wrong/causal_end_past_the_keys"))
    past = report_for(walks_on, seed=1).text(width=999)
    assert "tl.dot multiplies" in past
    assert "loads bring nothing, since their mask is False everywhere" in past
    assert "does a loop run past the last key" in past
