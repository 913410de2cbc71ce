"""The picture of a kernel's loads: which tile, in which order, and where it goes wrong first."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import course_lib  # noqa: F401  (before triton: it chooses the mode)

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from corpus import corpus  # noqa: E402
from helpers import function_of, report_on  # noqa: E402

from course_lib.accounting.ledger import FIRST_LOADS, Visit  # noqa: E402
from course_lib.classroom.record import from_report  # noqa: E402
from course_lib.judging import engine  # noqa: E402
from course_lib.judging.finding import Finding  # noqa: E402
from course_lib.judging.hosts.here import Here  # noqa: E402
from course_lib.judging.load_map import MOST_CELLS, MOST_LINES, Cut, load_map  # noqa: E402
from course_lib.judging.outcomes import incorrect  # noqa: E402
from course_lib.judging.report_html import picture_html  # noqa: E402
from course_lib.judging.report_text import picture_lines  # noqa: E402
from course_lib.judging.spec import Case  # noqa: E402
from course_lib.specs import EXERCISES, find  # noqa: E402

FEW = settings(max_examples=60, deadline=None)


def loads_of(x, cut, *taken, names=("x",), kind="load", called="p"):
    """Return the map of loads (program, rows, columns) of x, each a rectangle."""
    item = x.element_size()
    visits = [
        Visit((p, 0, 0), called, rows, kind, item * np.ptp(rows) * np.ptp(columns), columns)
        for p, rows, columns in taken
    ]
    form = (tuple(x.shape), tuple(x.stride()), str(x.dtype).removeprefix("torch."))
    books = SimpleNamespace(visits=visits, launches=[SimpleNamespace(tensors={called: form})])
    origins = SimpleNamespace(input_of=lambda name: 0 if name == called else None)
    return load_map(dict.fromkeys(names, cut), (x,), books, origins)


def vector(*taken, n=10, tile=4, times=1):
    return loads_of(
        torch.zeros(n), Cut((tile, 1), times), *((p, rows, (0, 1)) for p, rows in taken)
    )


# --- which load goes wrong -----------------------------------------------------------------------


def test_each_tile_once_is_as_asked_in_any_order_and_by_any_program():
    for taken in (
        [(0, (0, 4)), (1, (4, 8)), (2, (8, 10))],
        [(0, (8, 10)), (0, (0, 4)), (0, (4, 8))],
    ):
        drawn = vector(*taken)
        assert (drawn.first_wrong, drawn.is_all_wrong) == (0, False)
        assert drawn.caption().endswith("Each takes what is asked for.")


def test_two_whole_tiles_at_once_are_as_asked():
    assert vector((0, (0, 8)), (0, (8, 10))).wrong == {}


@pytest.mark.parametrize(
    ("taken", "first", "says"),
    [
        ([(0, (0, 4)), (1, (0, 4)), (2, (0, 4))], 2, "program 1 takes entries 0 to 3 of `x` once"),
        ([(0, (0, 4)), (1, (1, 5)), (2, (2, 6))], 2, "program 1 touches entries 1 to 4 of `x`"),
        (
            [(0, (0, 4)), (1, (4, 8)), (2, (8, 9))],
            3,
            "touches entry 8 of `x`, and that is no whole",
        ),
        ([(0, (0, 4)), (0, (4, 8)), (0, (8, 10)), (1, (8, 10))], 4, "entries 8 to 9 of `x` once"),
    ],
)
def test_the_first_load_that_is_not_as_asked_is_told(taken, first, says):
    drawn = vector(*taken)
    assert drawn.first_wrong == first
    assert f"Number {first} goes wrong first: " in drawn.caption()
    assert says in drawn.caption()


def test_a_tile_that_several_need_is_wrong_from_the_first_program_that_takes_it_again():
    """Programs 0 and 1 are to take both tiles. One that takes tile 0 twice lacks another."""
    each = [(p, rows) for p in (0, 1) for rows in ((0, 4), (4, 8))]
    assert vector(*each, n=8, times=2).wrong == {}
    stands_still = [(p, (0, 4)) for p in (0, 0, 1, 1)]
    assert vector(*stands_still, n=8, times=2).first_wrong == 2
    assert vector(*each, (1, (4, 8)), n=8, times=2).first_wrong == 5


def test_a_tile_that_nobody_needs_is_told():
    drawn = vector((0, (0, 4)), (0, (4, 8)), n=8, times=np.array([[1], [0]]))
    assert "program 0 takes entries 4 to 7 of `x`, which nobody needs" in drawn.caption()


def test_tiles_that_are_never_loaded_are_told_and_counted():
    assert "Never loaded: entries 8 to 9 of `x`." in vector((0, (0, 4)), (1, (4, 8))).caption()
    assert "entries 4 to 7 of `x`, and 23 more tiles." in vector((0, (0, 4)), n=100).caption()
    assert vector((0, (8, 10)), n=10, times=np.array([[0], [0], [1]])).caption()[-4:] == "for."


@FEW
@given(st.data())
def test_the_first_of_planted_loads_is_marked(data):
    """Every tile once, in any order, and one of them once more somewhere behind."""
    rows, columns, tall, wide = (data.draw(st.integers(1, 9)) for _ in range(4))
    cells = [(i, j) for i in range(0, rows, tall) for j in range(0, columns, wide)]
    order = data.draw(st.permutations(cells))
    at = data.draw(st.integers(1, len(order)))
    again = data.draw(st.sampled_from(order[:at]))
    taken = [
        (n, (i, min(i + tall, rows)), (j, min(j + wide, columns)))
        for n, (i, j) in enumerate([*order[:at], again, *order[at:]])
    ]
    drawn = loads_of(torch.zeros(rows, columns), Cut((tall, wide)), *taken)
    assert (drawn.first_wrong, len(drawn.wrong)) == (at + 1, 1)
    marked = [
        cell for plane in drawn.planes for _, row in drawn.lines(plane) for cell in row
        if cell.is_marked
    ]  # fmt: skip
    assert len(marked) == 1
    assert str(at + 1) in re.split(r"\D", marked[0].text)


# --- what it is made of --------------------------------------------------------------------------


def test_an_input_is_known_by_its_numbers_and_in_its_own_form():
    x = torch.zeros(4)
    drawn = loads_of(x, Cut((4, 1)), (0, (0, 4), (0, 1)), called="<b>mine</b>\x1b")
    assert drawn.planes[0].name == "x"
    books = SimpleNamespace(
        visits=[], launches=[SimpleNamespace(tensors={"p": ((2, 2), (), "float32")})]
    )
    nothing = SimpleNamespace(input_of=lambda name: 0)
    assert load_map({"x": Cut((4, 1))}, (x,), books, nothing) is None
    assert load_map({"x": Cut((4, 1))}, (x,), None, nothing) is None


def test_stores_are_no_loads():
    drawn = loads_of(torch.zeros(4), Cut((4, 1)), (0, (0, 4), (0, 1)), kind="store")
    assert drawn.caption() == "Your kernel loads nothing of `x`."


def test_of_very_many_loads_the_first_are_drawn_and_none_is_missed():
    drawn = vector(*((p, (p, p + 1)) for p in range(FIRST_LOADS + 9)), n=FIRST_LOADS + 50, tile=1)
    says = f"The first {FIRST_LOADS} loads of your kernel that bring numbers, in order. Each takes"
    assert drawn.caption() == f"{says} what is asked for."
    assert drawn.left_out(drawn.planes[0]) == FIRST_LOADS + 50 - MOST_CELLS


def test_a_ledger_says_which_columns_a_load_took():
    report = report_on("5.4/wrong/first_block_only")
    assert [load.columns for load in report.loads.loads] == [(0, 2), (0, 2)]


# --- how it is drawn -----------------------------------------------------------------------------


def large(rows=300, columns=200):
    """Return a map of very many tiles, of which one in the middle is taken twice."""
    taken = [(0, (i, i + 1), (j, j + 1)) for i in (150, 7) for j in range(100, 130)]
    return loads_of(torch.zeros(rows, columns), Cut((1, 1)), *taken, taken[20])


def test_a_picture_never_floods_the_page_and_shows_what_is_marked():
    drawn = large()
    (plane,) = drawn.planes
    lines = picture_lines(drawn)
    texts = ["".join(words for words, _ in line) for line in lines]
    assert len(lines) <= MOST_LINES + 2
    assert max(map(len, texts)) <= 88
    assert any("*" in text for text in texts[1:-1])
    cells = sum(len(row) for _, row in drawn.lines(plane))
    assert drawn.left_out(plane) == 300 * 200 - cells
    assert re.search(r"\(\d+ more are not drawn\)", texts[0])
    markup = picture_html(drawn)
    assert len(markup) < 40_000
    svg = svg_of(markup)
    assert float(svg.get("width")) < 700
    assert len(list(svg.iter("rect"))) <= MOST_LINES * MOST_CELLS


def svg_of(markup):
    return ElementTree.fromstring(re.search(r"<svg.*</svg>", markup, re.DOTALL).group())


def test_text_and_html_say_the_same_and_nothing_hangs_on_colour():
    drawn = vector((0, (0, 4)), (1, (0, 4)))
    svg = svg_of(picture_html(drawn))
    assert svg.get("role") == "img"
    assert drawn.caption() in svg.get("aria-label")
    assert [e.text for e in svg.iter("text")] == [
        "x, tiles of 4 entries",
        "tiles 0 to 2",
        "1,2",
        "–",
        "–",
    ]
    (marked,) = [e for e in svg.iter("text") if e.text == "1,2"]
    assert marked.get("font-weight") == "bold"
    texts = ["".join(words for words, _ in line) for line in picture_lines(drawn)]
    assert texts[1].split() == ["tiles", "0", "to", "2", "*1,2", "–", "–"]
    assert texts[2].split("   ")[1:] == ["* goes wrong first", "– never loaded"]


def test_it_stands_behind_the_name_of_the_mistake_and_before_what_to_do_next():
    report = report_on("6.5/wrong/end_of_the_first_row")
    text = report.text()
    at = [text.index(words) for words in ("a known mistake", "The 4 loads", "Next: ")]
    assert at == sorted(at)
    markup = report._repr_html_()
    at = [markup.index(words) for words in ("a known mistake", "The 4 loads", "Next: ")]
    assert at == sorted(at)
    assert "The 4 loads" in from_report("ann", "hash", report)["message"]
    json.dumps(from_report("ann", "hash", report))


def test_loads_that_are_all_wrong_are_told_and_not_drawn():
    drawn = vector((0, (1, 5)), (1, (2, 6)))
    report = incorrect(find("5.2"), Case("c"), Finding("the values", "wrong."), loads=drawn)
    assert report.loads is None
    assert any(
        "None is as asked: program 0 touches entries 1 to 4" in line for line in report.lines
    )


def test_a_kernel_that_passes_and_one_that_leaves_its_tensors_have_no_picture():
    assert report_on("5.2/right/plain").loads is None
    assert report_on("5.2/wrong/load_without_mask").loads is None


DRAWN = [exercise.id for exercise in EXERCISES if exercise.cuts]


def test_every_kernel_exercise_of_lessons_05_and_06_has_one_but_where_rows_are_no_neighbours():
    kernels = {e.id for e in EXERCISES if e.lesson in (5, 6) and e.kind == "kernel"}
    assert set(DRAWN) == kernels - {"6.1"}


@pytest.mark.parametrize("exercise", DRAWN)
@pytest.mark.few(4)
def test_the_solution_takes_what_is_asked_for_in_every_case(exercise):
    """Its loads, judged as those of a wrong answer, have nothing that is wrong and lack nothing."""
    spec = find(exercise)
    (plain,) = [one for one in corpus("right", exercise) if one.name == "plain"]
    host = Here(spec, function_of(plain))
    for case in spec.cases(np.random.default_rng(2)):
        if case.refused:
            continue
        drawn = engine._loads(spec, case, host.run(case).observed)
        assert drawn is not None, case.name
        assert not drawn.wrong, (case.name, drawn.caption())
        assert "Never" not in drawn.caption(), (case.name, drawn.caption())
