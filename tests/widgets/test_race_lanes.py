"""The Race's lanes: every byte of ledger and model, in order, on a clock of bytes a second."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.accounting.eager_ledger import EagerLedger
from course_lib.accounting.kernel_ledger import KernelLedger
from course_lib.accounting.ledger import Visit
from course_lib.accounting.memory import FlatMemory
from course_lib.accounting.traffic import MODELS
from course_lib.kernels.flash_forward import flash_attention_with_lse
from course_lib.widgets import race_lanes as race
from course_lib.widgets.race_lanes import Shape

L2 = 50 * 2**20


def total(events):
    return sum(event.n_bytes for event in events)


@given(
    n_q=st.integers(1, 90), more=st.integers(0, 60), block_q=st.integers(1, 40),
    block_k=st.integers(1, 40), causal=st.booleans(), at_once=st.integers(1, 7),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_totals_are_the_models_to_the_byte(n_q, more, block_q, block_k, causal, at_once):
    """Whatever runs side by side; what must cross at least is the compulsory model."""
    n_k = n_q + more
    shape = Shape(n_q, n_k, 8, block_q, block_k, causal, 2)
    sizes = {"n_q": n_q, "n_k": n_k, "d": 8}
    naive = race.schedule(race.naive_kernels(shape), at_once, 1000, L2)
    assert total(naive) == MODELS["naive_four_trips"].bytes(**sizes)
    flash = race.schedule(race.flash_kernels(shape), at_once, 1000, L2)
    tiles = {"block_q": block_q, "block_k": block_k, "causal": causal}
    assert total(flash) == MODELS["flash_tile_loads"].bytes(**sizes, **tiles)
    compulsory = MODELS["flash_compulsory"].bytes(**sizes)
    assert sum(event.least for event in flash) == pytest.approx(compulsory)


def test_the_clock_is_bytes_over_bandwidth_and_programs_share_it():
    shape = Shape(64, 64, 8, 16, 16, False, 2)
    alone = race.schedule(race.flash_kernels(shape), 1, 2.0, L2)
    assert alone[0].t0 == 0
    assert all(a.t1 == b.t0 for a, b in itertools.pairwise(alone))
    assert all(e.t1 - e.t0 == pytest.approx(e.n_bytes / 2e9) for e in alone)
    beside = race.schedule(race.flash_kernels(shape), 4, 2.0, L2)
    assert beside[-1].t1 == alone[-1].t1 == total(alone) / 2e9
    assert [e.program for e in beside[:5]] == [0, 1, 2, 3, 0]
    assert len({(e.t0, e.t1) for e in beside[:4]}) == 1
    assert sorted(e[:6] for e in beside) == sorted(e[:6] for e in alone)


def test_scores_that_outgrow_l2_must_cross_with_what_does_not_fit():
    shape = Shape(64, 64, 8, 16, 16, False, 2)
    scores, rows = 64 * 64 * 2, 4 * 64 * 8 * 2
    for l2, spilt in ((scores, 0), (scores // 4, 3 * scores // 4), (0, scores)):
        events = race.schedule(race.naive_kernels(shape), 1, 1.0, l2)
        assert sum(event.least for event in events) == pytest.approx(rows + 4 * spilt)


def test_many_events_become_one_a_program_and_tensor_with_the_same_bytes():
    shape = Shape(1024, 1024, 16, 16, 16, True, 2)
    events = race.schedule(race.flash_kernels(shape), 1, 1.0, L2)
    assert len(events) == 64 * 4
    assert events[5][:4] == ("k", (0, 32), (0, 16), "load")
    want = MODELS["flash_tile_loads"].bytes(n=1024, d=16, block_q=16, block_k=16, causal=True)
    assert total(events) == want
    assert sum(event.least for event in events) == pytest.approx(4 * 1024 * 16 * 2)


@pytest.mark.parametrize("extra_trip", [False, True])
def test_the_naive_lane_is_what_the_eager_ledger_counts(extra_trip):
    q, k, v = (torch.randn(96, 16) for _ in range(3))
    with EagerLedger(q=q, k=k, v=v) as ledger:
        scores = q @ k.T * 0.25 if extra_trip else q @ k.T
        torch.softmax(scores, dim=-1) @ v
    shape = Shape(96, 96, 16, 32, 40, False, 4)
    operations = race.operations_of(ledger, shape)
    if not extra_trip:
        assert operations == [[list(reads), list(writes)] for reads, writes in race.NAIVE]
    else:
        assert operations[1] == [["s"], ["s2"]]
    events = race.schedule(race.naive_kernels(shape, operations), 1, 1.0, L2)
    assert total(events) == ledger.total
    loads = sum(event.n_bytes for event in events if event.kind == "load")
    assert loads == sum(ledger.read.values())


def test_an_eager_run_with_other_matrices_is_refused():
    q, k, v = (torch.randn(96, 16) for _ in range(3))
    with EagerLedger(q=q, k=k, v=v) as ledger:
        torch.softmax(torch.cat([q, q]) @ k.T, dim=-1) @ v
    with pytest.raises(ValueError, match="q, k, v, O and scores alone"):
        race.operations_of(ledger, Shape(96, 96, 16, 32, 32, False, 4))


def test_a_kernels_visits_are_replayed_to_the_byte_and_program_by_program():
    q, k, v = torch.randn(3, 1, 1, 80, 16)
    with KernelLedger() as ledger:
        flash_attention_with_lse(q, k, v, causal=True, block_q=32, block_k=16)
    columns = dict.fromkeys({visit.tensor for visit in ledger.visits}, 16)
    kernels = race.kernels_of(ledger.visits, columns)
    assert [len(kernel) for kernel in kernels] == [3]
    events = race.schedule(kernels, 1, 1.0, L2)
    assert total(events) == ledger.total
    model = race.flash_kernels(Shape(80, 80, 16, 32, 16, True, 4))
    mine = [[move for move in program if move.tensor != "lse"] for program in kernels[0]]
    assert mine == model[0]
    assert race.first_difference(mine[0], model[0][0]) is None


def test_a_memory_without_programs_begins_one_with_the_first_load_after_a_store():
    memory = FlatMemory()
    at = {name: memory.place(name, np.zeros((4, 3))) for name in "qko"}
    tile = np.arange(6)
    for pid in range(2):
        memory.load(at["q"] + 6 * pid + tile)
        memory.load(at["k"] + tile)
        memory.store(at["o"] + 6 * pid + tile, 0.0)
    kernels = race.kernels_of(memory.visits, dict.fromkeys("qko", 3))
    assert [[move.tensor for move in program] for program in kernels[0]] == [list("qko")] * 2
    assert kernels[0][1][0].rows == (2, 4)
    assert total(race.schedule(kernels, 2, 1.0, L2)) == memory.total


def test_program_ids_that_begin_again_are_another_kernel():
    visits = [Visit((p, 0, 0), "q_ptr", (p, p + 1), "load", 4) for p in (0, 1, 0, 1)]
    kernels = race.kernels_of(visits, {"q_ptr": 1})
    assert [len(kernel) for kernel in kernels] == [2, 2]


def test_the_first_difference_is_found():
    shape = Shape(64, 64, 8, 16, 16, True, 2)
    right = race.schedule(race.flash_kernels(shape), 1, 1.0, L2)
    wrong = race.schedule(race.flash_kernels(shape._replace(causal=False)), 1, 1.0, L2)
    assert race.first_difference(right, right) is None
    assert race.first_difference(wrong, right) == 3  # the first program goes on to another key
    assert race.first_difference(right[:-1], right) == len(right) - 1


@pytest.mark.parametrize(
    ("parameter", "role"),
    [("q_ptr", "q"), ("Out", "o"), ("V", "v"), ("key", "k"), ("lse_ptr", "lse"), ("m_i", "m_i")],
)
def test_parameters_are_named_after_what_they_are(parameter, role):
    assert race.role(parameter) == role
