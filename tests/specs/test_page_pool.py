"""Exercise 11.4: the truth of a walk is the reference's; one object, walked here and in the sandbox
alike; a report that can be played by hand."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import solutions

from course_lib.attention import page_pool as reference
from course_lib.checking import report_for
from course_lib.judging.report import Verdict
from course_lib.judging.spec import Observed
from course_lib.specs import find
from course_lib.specs.lesson_11.page_pool import _first_fault, _run
from course_lib.specs.lesson_11.pool_slips import FULL, ORDERS, SLIPS, played

EXERCISE = find("11.4")
ALL = [(name, slip) for name, _, slip in SLIPS]


def cases(seed: int):
    return EXERCISE.cases(np.random.default_rng(seed))


def what_is_asked(told):
    """Leave out which pages were chosen; tables are told where they change."""
    return [(raised, says and (says[1], says[2] is None)) for raised, says, _ in told]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_truth_of_a_walk_is_the_references(seed):
    for case in cases(seed):
        told = _run(reference.PagePool, case).result
        assert what_is_asked(told) == what_is_asked(EXERCISE.truth(*case.args)), case.name
        assert _first_fault(case, told) is None, case.name


def test_walks_fill_their_pools_share_pages_copy_and_begin_again():
    seen = set()
    for case in cases(1):
        told = EXERCISE.truth(*case.args)
        seen |= {raised for raised, _, _ in told}
        seen |= {"copy" for _, says, _ in told if says and says[2] is not None}
        seen |= {call[0] for call in case.args[-1]}
    assert seen == {"", FULL, "copy", "append", "fork", "free", "another.append"}


@pytest.mark.parametrize(("name", "slip"), ALL)
@pytest.mark.few(15)
def test_every_slip_is_found_whichever_free_page_is_taken(name, slip):
    walks = cases(1)
    for order in ORDERS:
        faults = (_first_fault(case, played(*case.args, slip, order)) for case in walks)
        assert any(faults), (name, order)


def test_the_shortest_walk_is_shown_with_every_answer():
    class PagePool(solutions(11).PagePool):
        def fork(self, parent, child):
            super().fork(parent, child)
            for page in self.tables[child]:
                self.holders[page] -= 1

    lines = report_for(PagePool, seed=1).lines
    assert lines[0].startswith("This looks like a known mistake: a fork is not counted.")
    assert lines[3].splitlines() == [
        "   pool = PagePool(2, 1)",
        "   pool.append('a')       # (1, 0, None)",
        "   pool.fork('a', 'b')",
        "   pool.free('a')",
        "   pool.append('c')       # (1, 0, None)",
    ]


def test_a_class_half_written_is_not_attempted():
    class PagePool(solutions(11).PagePool):
        def free(self, seq):
            raise NotImplementedError("not attempted")

    assert report_for(PagePool, seed=1).verdict is Verdict.NOT_ATTEMPTED


def test_a_function_that_makes_the_object_is_a_class_to_the_check():
    pool = solutions(11).PagePool

    def PagePool(n_pages, page_size):
        return pool(n_pages, page_size)

    assert report_for(PagePool, seed=1).passed


@pytest.mark.parametrize(
    "told",
    [[], [("", (0, 0, None), [])], [("", (0, 0, None), [("a", [0])])], 7 * [("", None, [])], [1]],
)
def test_what_a_process_makes_up_is_no_walk(told):
    case = cases(1)[0]
    assert EXERCISE.finding(case, Observed(told), EXERCISE.truth(*case.args)) is not None
