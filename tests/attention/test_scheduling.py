"""Policies of a server: single decisions by hand; whole runs are in `tests/accounting`."""

from __future__ import annotations

from course_lib.attention.scheduling import admit_all, continuous, shortest_first, static

SIZES = {"budget": 8, "page_size": 4}


def test_answers_come_first_and_a_prompt_gets_what_is_left():
    assert continuous({7: 30}, {3: (5, 1), 4: (6, 20)}, 9, **SIZES) == ({3: 1, 4: 7}, [])
    assert continuous({7: 30}, {3: (5, 1)}, 9, **SIZES) == ({3: 1, 7: 7}, [])


def test_who_has_ended_leaves_and_its_pages_are_used_at_once():
    assert continuous({7: 5}, {3: (7, 0)}, 0, **SIZES) == ({7: 5}, [3])


def test_nobody_is_admitted_without_a_page():
    assert continuous({7: 5}, {3: (5, 1)}, 0, **SIZES) == ({3: 1}, [])
    assert continuous({7: 9}, {3: (5, 1)}, 1, **SIZES) == ({3: 1, 7: 4}, [])


def test_the_newest_goes_when_answers_need_its_pages():
    running = {3: (8, 1), 4: (5, 1), 6: (4, 9)}
    assert continuous({7: 5}, running, 0, **SIZES) == ({3: 1, 4: 1}, [6])
    assert continuous({}, {3: (8, 1), 4: (4, 1)}, 0, **SIZES) == ({3: 1}, [4])


def test_shortest_first_overtakes():
    assert shortest_first({7: 6, 8: 3}, {}, 9, **SIZES) == ({8: 3, 7: 5}, [])


def test_admit_all_looks_at_no_page():
    assert admit_all({7: 5, 8: 5}, {}, 0, **SIZES) == ({7: 5, 8: 3}, [])


def test_static_batches_begin_together_and_leave_together():
    policy = static(8)
    assert policy({7: 5, 8: 5, 9: 5}, {}, 5, **SIZES) == ({7: 5, 8: 3}, [])
    assert policy({9: 5}, {7: (5, 1), 8: (6, 0)}, 1, **SIZES) == ({7: 1}, [])
    assert policy({9: 5}, {7: (5, 0), 8: (6, 0)}, 1, **SIZES) == ({}, [7, 8])
