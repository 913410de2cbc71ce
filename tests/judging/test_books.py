"""Books from a process that may forge them: honest ones arrive whole, others are refused."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from course_lib.accounting.desk import Desk
from course_lib.accounting.eager_ledger import EagerLedger
from course_lib.accounting.memory import FlatMemory
from course_lib.child import codec
from course_lib.child.codec import BadFrame
from course_lib.judging import books


def sent(ledger):
    return books.rebuilt(codec.decode(codec.encode(ledger.to_plain())))


def test_eager_books_arrive_with_their_crossings():
    x = torch.randn(8, 8)
    with EagerLedger(x=x) as ledger:
        torch.softmax(x @ x, -1)
    got = sent(ledger)
    assert (got.read, got.written, got.flops) == (ledger.read, ledger.written, 2 * 8**3)
    assert (got.crossings, got.peak_bytes) == (ledger.crossings, ledger.peak_bytes)
    assert got.trips(8 * 8 * 4) == ledger.trips(8 * 8 * 4) > 0


def test_a_flat_memory_arrives_with_its_tensors():
    memory = FlatMemory(itemsize=2)
    memory.place("q", np.arange(6.0).reshape(2, 3))
    memory.store(memory.place("o", np.zeros(4)) + np.arange(4), np.ones(4))
    got = sent(memory)
    assert (got.read, got.written, got.itemsize) == ({}, {"o": 8}, 2)
    assert got.placements == memory.placements
    np.testing.assert_array_equal(got.array("q"), memory.array("q"))
    np.testing.assert_array_equal(got.array("o"), np.ones(4))


def test_the_books_of_a_desk_arrive():
    desk = Desk()
    k = desk.lay("k", np.ones((6, 2)))
    k[0:4], k[4:6], k[0:4]
    got = sent(desk)
    assert got.places["k"].times.tolist() == [2, 2, 2, 2, 1, 1]
    assert (got.places["k"].visits, got.places["k"].tallest) == (3, 4)
    assert (got.peak, got.stale) == (None, False)


HONEST = {"read": {"q": 1}, "written": {}, "flops": 0}
EAGER = HONEST | {"kind": "eager", "crossings": [], "peak": 0, "unseen": [], "of_given": []}
FLAT = HONEST | {"kind": "flat", "itemsize": 4, "arrays": {}, "loads": 0, "largest": {}}
DESK = {"kind": "desk", "places": {}, "peak": None, "stale": False}
PLACE = {"times": np.ones(3), "visits": 1, "tallest": 3}
FORGED = [
    [],
    {},
    {"kind": "eager", "crossings": 7},
    EAGER | {"kind": "kernel"},
    EAGER | {"kind": []},
    EAGER | {"read": 3},
    EAGER | {"read": {"q": "many"}},
    EAGER | {"flops": float("inf")},
    EAGER | {"peak": torch.ones(3)},
    EAGER | {"crossings": [("mm", "q", "read")]},
    DESK | {"peak": "little"},
    DESK | {"places": 3},
    DESK | {"places": {"k": PLACE | {"times": [[1]]}}},
    DESK | {"places": {"k": PLACE | {"times": "often"}}},
    DESK | {"places": {"k": PLACE | {"visits": float("nan")}}},
    FLAT | {"itemsize": 3},
    FLAT | {"loads": "many"},
    FLAT | {"largest": 3},
    FLAT | {"arrays": {"q": "text"}},
    FLAT | {"arrays": {"q": []}},
    FLAT | {"arrays": {str(i): [1.0] for i in range(65)}},
]


@pytest.mark.parametrize("data", FORGED, ids=lambda data: str(data)[-40:])
def test_forged_books_are_refused_with_one_kind_of_error(data):
    assert books.rebuilt(EAGER).read == books.rebuilt(FLAT).read == {"q": 1}
    with pytest.raises(BadFrame, match="no books"):
        books.rebuilt(data)


def test_numbers_and_texts_are_no_books_and_stay_what_they_are():
    assert [books.rebuilt(x) for x in (None, 3, 0.5, "x")] == [None, 3, 0.5, "x"]


def test_names_in_a_record_are_few_short_and_plain():
    ledger = SimpleNamespace(read={}, written={}, flops=0)
    ledger.read = {f"{i:0>5}" * 1000: i for i in range(500)}
    kept = books.traffic(ledger)["read"]
    assert len(kept) <= 64
    assert {len(name) for name in kept} == {100}
    ledger.read = {"a\x1b[31m\u202eb\n": 3}
    assert books.traffic(ledger)["read"] == {"a[31mb": 3}
