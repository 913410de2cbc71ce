"""The simulated server: every token is computed once, pages add up, the clock is the roofline."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.accounting.serving import Costs, Request, Server, simulate, trace
from course_lib.attention.scheduling import continuous, shortest_first, static

POOL = {"pages": 12, "page_size": 4, "budget": 16}


def test_one_request_by_hand():
    server = Server([Request(0, 0.0, 5, 2)], pages=3, page_size=4)
    assert (server.waiting, server.running, server.free_pages) == ({0: 5}, {}, 3)
    server.step({0: 3})
    assert (server.waiting, server.running, server.free_pages) == ({}, {0: (3, 2)}, 2)
    first = server.step({0: 2})  # the prompt is done: the first token comes
    assert (server.running, server.free_pages) == ({0: (5, 1)}, 1)
    assert (first.prefill, first.decode, first.answered, first.wasted) == (2, 0, 1, 3)
    last = server.step({0: 1})  # and the second, the last: nobody needs its row, nor the others
    assert server.running == {0: (6, 0)}
    assert (last.decode, last.rows, last.wasted) == (1, 0, 8)
    server.step({}, [0])
    assert server.ended
    assert server.waits == {0: pytest.approx(server.steps[0].seconds + server.steps[1].seconds)}


def test_who_is_preempted_begins_anew_with_the_tokens_it_was_given():
    server = Server([Request(0, 0.0, 5, 9)], pages=3, page_size=4)
    server.step({0: 5})
    server.step({0: 1})
    assert server.running == {0: (6, 1)}
    assert server.step({}, [0]).preempted == (0,)
    assert (server.waiting, server.running, server.free_pages) == ({0: 7}, {}, 3)
    assert server.step({0: 7}).prefill == 7


def test_more_pages_than_there_are_raise():
    server = Server([Request(0, 0.0, 9, 9)], pages=2, page_size=4)
    with pytest.raises(ValueError, match="1 pages too few"):
        server.step({0: 9})


def test_a_policy_that_gets_nowhere_is_stopped():
    with pytest.raises(ValueError, match="without an answer"):
        simulate(lambda *_, **__: ({}, []), [Request(0, 0.0, 1, 1)], **POOL)


def test_the_clock_waits_for_the_next_arrival():
    run = simulate(continuous, [Request(0, 0.5, 4, 1), Request(1, 9.0, 4, 1)], **POOL)
    assert [step.at for step in run.steps if step.prefill] == [0.5, 9.0]


def test_a_step_costs_bytes_or_operations():
    costs = Costs(weights=1e9)
    assert costs.row_bytes == 131_072
    assert costs.seconds(1, 0) == pytest.approx(2e9 / 3350e9)  # the weights, once
    assert costs.seconds(1, 10**6) == pytest.approx((2e9 + 131_072e6) / 3350e9)
    assert costs.seconds(4096, 0) == pytest.approx(2e9 * 4096 / 989e12)  # past the ridge


@pytest.mark.parametrize("reserved", [0, 40])
@given(seed=st.integers(0, 10_000), n=st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_every_answer_is_whole_and_no_page_is_lost(reserved, seed, n):
    requests = trace(np.random.default_rng(seed), n, every=0.01, prompts=(1, 20), outputs=(1, 20))
    policy = static(40) if reserved else continuous
    run = simulate(policy, requests, **POOL, reserved=reserved)
    assert sum(step.answered for step in run.steps) == sum(r.output for r in requests)
    assert all(0 <= step.rows <= step.room <= 48 for step in run.steps)
    assert all(step.prefill + step.decode <= 16 for step in run.steps)
    assert run.steps[-1].room == 0
    assert set(run.waits) == {r.id for r in requests}
    if not any(step.preempted for step in run.steps):
        assert sum(step.prefill for step in run.steps) == sum(r.prompt for r in requests)
    assert run.seconds >= sum(step.seconds for step in run.steps) - 1e-9


def test_a_trace_is_the_same_for_the_same_seed():
    drawn = [trace(np.random.default_rng(seed), 9, every=0.01) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(16 <= r.prompt <= 128 and 4 <= r.output <= 128 for r in drawn[0])


def test_continuous_batching_beats_static_with_an_equal_pool():
    requests = trace(np.random.default_rng(0), 20, every=0.01, prompts=(1, 20), outputs=(1, 20))
    slow = simulate(static(40), requests, **POOL, reserved=40)
    fast = simulate(continuous, requests, **POOL)
    assert fast.tokens_per_second > 1.5 * slow.tokens_per_second
    assert fast.wasted < slow.wasted / 2


def test_shortest_first_makes_a_long_prompt_wait():
    requests = trace(np.random.default_rng(0), 40, every=0, prompts=(1, 8), outputs=(1, 20))
    requests[5] = Request(5, requests[5].arrival, 30, 1)
    fair, unfair = (simulate(policy, requests, **POOL) for policy in (continuous, shortest_first))
    assert unfair.waits[5] > 2 * fair.waits[5]
