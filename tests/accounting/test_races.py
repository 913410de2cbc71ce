"""Races are found address by address, whatever the order in which the interpreter ran."""

from __future__ import annotations

import pytest

import course_lib  # noqa: F401  (before triton: it chooses the mode)

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

from course_lib.accounting.kernel_ledger import OutOfBounds  # noqa: E402
from course_lib.accounting.races import RaceLedger  # noqa: E402


@triton.jit
def load_add_store(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0)
    tl.store(out, tl.load(out) + part)


@triton.jit
def atomic(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0))


@triton.jit
def own_slots(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    whole = tl.sum(tl.load(x + tl.arange(0, BLOCK)), 0)  # every program reads the same
    tl.store(out + at, whole + at, mask=at < n)


@triton.jit
def overlapping(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * (BLOCK - 2) + tl.arange(0, BLOCK)  # neighbours share two
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def neighbours_in_place(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x + at - 1, mask=(at > 0) & (at < n), other=0.0)  # one is another's
    tl.store(x + at, left, mask=at < n)


@triton.jit
def load_between(x, out, n, BLOCK: tl.constexpr):
    old = tl.atomic_add(out, 0.0)
    tl.atomic_add(out, old - tl.load(out) + 1.0)


@triton.jit
def put(out, number):
    bits = out.to(tl.pointer_type(tl.int32), bitcast=True)
    tl.atomic_xchg(bits, number.to(tl.int32, bitcast=True))


@triton.jit
def exchange(x, out, n, BLOCK: tl.constexpr):
    put(out, tl.atomic_add(out, 0.0) + 1.0)


@triton.jit
def exchange_after_many(x, out, n, BLOCK: tl.constexpr):
    for _ in range(20):
        tl.atomic_add(out, 0.0)
    if tl.program_id(0) == 1:
        exchange(x, out, n, BLOCK)
    else:
        tl.atomic_add(out, 1.0)


@triton.jit
def add_the_difference(x, out, n, BLOCK: tl.constexpr):
    old = tl.atomic_add(out, 0.0)
    tl.atomic_add(out, old + 1.0 - tl.atomic_add(out, 0.0))


@triton.jit
def compare_once(x, out, n, BLOCK: tl.constexpr):
    bits = out.to(tl.pointer_type(tl.int32), bitcast=True)
    old = tl.atomic_or(bits, 0)
    tl.atomic_cas(bits, old, (old.to(tl.float32, bitcast=True) + 1.0).to(tl.int32, bitcast=True))


@triton.jit
def last_one_wins(x, out, n, BLOCK: tl.constexpr):
    put(out, tl.program_id(0).to(tl.float32))


@triton.jit
def compare_until_it_holds(x, out, n, BLOCK: tl.constexpr):
    bits = out.to(tl.pointer_type(tl.int32), bitcast=True)
    old = tl.atomic_or(bits, 0)
    seen = old + 1
    while seen != old:
        old = tl.atomic_or(bits, 0)
        new = (old.to(tl.float32, bitcast=True) + 1.0).to(tl.int32, bitcast=True)
        seen = tl.atomic_cas(bits, old, new)


@triton.jit
def under_a_lock(x, out, n, BLOCK: tl.constexpr):
    bits = (out + 1).to(tl.pointer_type(tl.int32), bitcast=True)
    while tl.atomic_cas(bits, 0, 1) == 1:
        pass
    put(out, tl.atomic_add(out, 0.0) + 1.0)
    tl.atomic_xchg(bits, 0)


@triton.jit
def places_by_ticket(x, out, n, BLOCK: tl.constexpr):
    place = tl.atomic_add(out, 1.0).to(tl.int32)
    tl.store(out + 1 + place, tl.program_id(0).to(tl.float32))


@triton.jit
def store_what_came_back(x, out, n, BLOCK: tl.constexpr):
    tl.store(out, tl.atomic_add(out, 1.0) + 1.0)


@triton.jit
def store_under_a_lock(x, out, n, BLOCK: tl.constexpr):
    lock = (out + 1).to(tl.pointer_type(tl.int32), bitcast=True)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out, tl.load(out) + 1.0)
    tl.atomic_xchg(lock, 0)


@triton.jit
def compare_with_a_plain_load(x, out, n, BLOCK: tl.constexpr):
    old = tl.load(out)
    seen = tl.atomic_cas(out, old, old + 1.0)
    while seen != old:
        old = seen
        seen = tl.atomic_cas(out, old, old + 1.0)


@triton.jit
def compare_once_with_a_plain_load(x, out, n, BLOCK: tl.constexpr):
    old = tl.load(out)
    tl.atomic_cas(out, old, old + 1.0)


@triton.jit
def compare_with_a_plain_load_each_time(x, out, n, BLOCK: tl.constexpr):
    done = 0
    while done == 0:
        old = tl.load(out)
        done = (tl.atomic_cas(out, old, old + 1.0) == old).to(tl.int32)


def races(kernel, n=40, block=16, out=64):
    with RaceLedger() as ledger:
        kernel[(triton.cdiv(n, block),)](torch.ones(n), torch.zeros(out), n, BLOCK=block)
    return ledger.races


def test_load_add_store_races_for_its_one_element():
    (race,) = races(load_add_store)
    assert (race.tensor, race.addresses) == ("out", 1)
    assert str(race) == "load_add_store: programs 0, 1 and 1 more race for 1 element of `out`"


@pytest.mark.parametrize("kernel", [atomic, own_slots])
def test_atomics_and_shared_reads_do_not_race(kernel):
    assert races(kernel) == []


@pytest.mark.parametrize(
    "kernel",
    [load_between, exchange, exchange_after_many, add_the_difference, compare_once,
     compare_once_with_a_plain_load, last_one_wins],
)  # fmt: skip
def test_atomics_race_where_one_program_may_come_between_two_of_another(kernel):
    (race,) = races(kernel)
    assert (race.tensor, race.addresses) == ("out", 1)
    assert race.atomic == (kernel is not load_between)


@pytest.mark.parametrize(
    "kernel", [compare_until_it_holds, compare_with_a_plain_load, under_a_lock, places_by_ticket]
)
def test_what_holds_in_every_order_does_not_race(kernel):
    assert races(kernel) == []


@pytest.mark.parametrize("kernel", [store_what_came_back, store_under_a_lock])
def test_a_lock_is_an_atomic_at_another_address(kernel):
    (race,) = races(kernel)
    assert (race.locked, race.read) == (kernel is store_under_a_lock, False)


@pytest.mark.parametrize("kernel", [load_between, compare_with_a_plain_load_each_time])
def test_a_plain_load_among_atomics_is_named(kernel):
    (race,) = races(kernel)
    assert race.read
    assert "a plain load reads it in between" in str(race)


def test_other_orders_leave_neither_numbers_nor_books():
    out = torch.zeros(64)
    with RaceLedger() as ledger:
        under_a_lock[(3,)](torch.ones(40), out, 40, BLOCK=16)
    assert (out[0].item(), ledger.written["out"], len(ledger.launches)) == (3.0, 48, 1)


def test_overlapping_stores_race_for_what_they_share():
    (race,) = races(overlapping)
    assert (race.tensor, race.addresses) == ("out", 4)  # two between each of three programs


def test_reading_what_a_neighbour_writes_is_a_race():
    (race,) = races(neighbours_in_place)
    assert (race.tensor, race.addresses) == ("x", 2)


def test_one_program_never_races_and_launches_are_judged_apart():
    x, out = torch.ones(40), torch.zeros(1)
    with RaceLedger() as ledger:
        for _ in range(2):
            load_add_store[(1,)](x, out, 40, BLOCK=64)
    assert ledger.races == []
    assert out.item() == 80.0


def test_it_counts_and_guards_like_any_ledger():
    with RaceLedger() as ledger:
        atomic[(3,)](torch.ones(40), torch.zeros(1), 40, BLOCK=16)
    assert (ledger.read["x"], ledger.written["out"]) == (160, 12)
    with RaceLedger(), pytest.raises(OutOfBounds) as caught:
        own_slots[(3,)](torch.ones(40), torch.zeros(8), 40, BLOCK=16)
    assert caught.value.line == "tl.store(out + at, whole + at, mask=at < n)"  # the kernel's line
