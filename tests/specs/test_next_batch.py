"""12.3: a dialogue in which each null model fails by name, and honest policies have room to spare.

Wrong submissions of all kinds, and right ones of other styles, are in ``tests/submissions/12.3``.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from corpus import corpus, sample
from helpers import function_of, module_from, report_on, solutions, stubs, words_of

from course_lib.accounting.serving import Request, simulate
from course_lib.attention import scheduling
from course_lib.checking import report_for
from course_lib.classroom import grade_one
from course_lib.handin.submissions import Submission
from course_lib.judging.engine import first_failure
from course_lib.judging.hosts.here import Here
from course_lib.judging.report import Verdict
from course_lib.specs import find
from course_lib.specs.lesson_12 import batch_rules, next_batch

EXERCISE = find("12.3")
HONEST = [one.name for one in corpus("right", "12.3")]
NULLS = {
    "static, whoever has ended stays": (scheduling.static(48), batch_rules.LEAVES),
    "static, at its best": (scheduling.batches, next_batch.GAIN),
    "admit all": (scheduling.admit_all, batch_rules.ONCE),
    "shortest first": (scheduling.shortest_first, next_batch.FAIR),
}


def drawn(seed: int):
    """Return the two cases that are drawn: a crowd, and a mixture."""
    cases = EXERCISE.cases(np.random.default_rng(seed))
    return [case for case in cases if len(case.args[0]) >= next_batch._CROWD]


def with_the_name(policy):
    def next_batch(waiting, running, free_pages, *, budget, page_size):
        return policy(waiting, running, free_pages, budget=budget, page_size=page_size)

    return next_batch


def test_the_solution_passes_and_the_stub_is_not_attempted():
    assert report_for(solutions(12).next_batch, seed=2).passed
    assert report_for(stubs(12).next_batch, seed=2).verdict is Verdict.NOT_ATTEMPTED


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", NULLS)
def test_each_null_model_fails_by_its_name(name, seed, monkeypatch):
    monkeypatch.setattr("course_lib.checking.refused", lambda modules: None)  # the course's own
    policy, rule = NULLS[name]
    report = report_for(with_the_name(policy), seed=seed)
    assert report.failed_property == rule, report.text()


@pytest.mark.parametrize("name", HONEST)
def test_honest_policies_have_room_to_spare(name, monkeypatch):
    monkeypatch.setattr(next_batch, "MOST_PASSED", 2)
    policy = function_of(sample(f"12.3/right/{name}"))
    for case in [*drawn(11), *drawn(12)]:
        run = next_batch._served(policy, case.args[0], case.kwargs)
        at_best = simulate(scheduling.batches, case.args[0], **case.kwargs)
        assert run.seconds < 0.8 * at_best.seconds


def test_shortest_first_is_far_past_the_bound(monkeypatch):
    monkeypatch.setattr(next_batch, "MOST_PASSED", 10)
    for seed in range(4):
        crowd, _ = drawn(seed)
        with pytest.raises(batch_rules.Broken, match="overtaken"):
            next_batch._served(scheduling.shortest_first, crowd.args[0], crowd.kwargs)


def test_the_last_call_is_shown_whole_and_breaks_the_rule_again():
    def admits_nobody_else(waiting, running, free_pages, *, budget, page_size):
        compute, leave = scheduling.continuous(
            waiting, running, free_pages, budget=budget, page_size=page_size
        )
        return compute, [] if len(running) > 5 else leave

    crowd, _ = drawn(1)
    with pytest.raises(batch_rules.Broken) as broken:
        next_batch._served(admits_nobody_else, crowd.args[0], crowd.kwargs)
    call = broken.value.steps.splitlines()[-1]
    assert len(call) > 120
    asked = eval(call, {"next_batch": lambda *args, **sizes: (args, sizes)})
    state = batch_rules.State(*asked[0], **asked[1])
    again = admits_nobody_else(*asked[0], **asked[1])
    with pytest.raises(batch_rules.Broken, match=re.escape(broken.value.rule)):
        batch_rules.broken_rule(batch_rules.read(again, state), state)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("pages_of_the_ended_rounded_down", "for all who run: who has ended gives 3 pages back."),
        ("a_page_is_kept_back", "there would be enough for all who run."),
        ("too_many_leave", "although it would be enough if request 3 alone did."),
        ("answers_leave_for_a_prompt", "enough if the prompt of request 2, which came later, wait"),
        ("newest_first", "got past it: who came first waits as long as others come."),
        ("one_token_first", "it has 2 tokens to compute and the last of them had 1, so a longer"),
        ("drips", "it computes 1 of its 6 tokens in this step."),
    ],
)
def test_what_is_said_is_true_of_the_step(name, sentence):
    assert sentence in words_of(report_on(f"12.3/wrong/{name}"))


def test_the_function_is_told_nothing_of_what_is_to_come():
    """Two traces that differ in the future only look alike until the difference has happened."""
    told: list[list] = []

    def listens(waiting, running, free_pages, **limits):
        told[-1].append((dict(waiting), dict(running), free_pages))
        return scheduling.continuous(waiting, running, free_pages, **limits)

    now = [Request(0, 0.0, 5, 6), Request(1, 0.0, 7, 6)]
    later = [replace(now[0], output=20), now[1], Request(2, 0.02, 3, 3)]
    for requests in (now, later):
        told.append([])
        next_batch._served(listens, requests, {"pages": 12, "page_size": 4, "budget": 12})
    assert told[0][:5] == told[1][:5]
    assert told[0][5:7] != told[1][5:7]


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        ("None", "not None"),
        ("{}", "return two things"),
        ("([(0, 1)], [])", "a dict {id: tokens}, not a list"),
        ("({0: 1}, 0)", "a list of ids, not an int"),
        ("({0: 1}, {0})", "a list of ids, not a set"),
        ("({0: 0}, [])", "0 tokens for request 0"),
        ("({0: -3}, [])", "-3 tokens for request 0"),
        ("({0: True}, [])", "a whole number, not True"),
        ("({0: 1.5}, [])", "a whole number, not 1.5"),
        ("({'0': 1}, [])", "not '0'"),
        ("({(0, 1): 1}, [])", "one of the whole numbers that you were given"),
        ("({9: 1}, [])", "there is no request 9"),
        ("({}, [0])", "it waits and has no pages"),
        ("({}, [])", "nothing is computed"),
        ("({0: 10 ** 30}, [])", "a whole number"),
        ("(dict.fromkeys(range(2000), 1), [])", "there is no request"),
        ("np.zeros((2, 2))", "return two things"),
        ("([], [], [])", "return two things"),
        ("(x for x in ({}, []))", "return two things"),
    ],
)
def test_what_is_no_decision_is_answered_with_a_sentence(returned, sentence):
    code = f"import numpy as np\n\n\ndef next_batch{EXERCISE.signature}:\n    return {returned}\n"
    report = report_for(module_from(code).next_batch, seed=1)
    assert report.verdict is Verdict.INCORRECT
    assert sentence.lower() in report.text(width=10_000).lower(), report.text()


def test_a_loop_without_end_is_stopped():
    def endless(waiting, running, free_pages, *, budget, page_size):
        while True:
            pass

    short = replace(EXERCISE, seconds=0.3)
    report = first_failure(short, Here(short, endless), drawn(1))
    assert report.failed_property == "comes to an end"


@pytest.mark.parametrize(
    ("name", "requests"), [("answers_cost_nothing", 2), ("ended_go_on", 1), ("newest_first", 12)]
)
def test_a_failure_is_shown_on_few_requests_in_four_steps_at_the_most(name, requests):
    lines = report_on(sample(f"12.3/wrong/{name}")).text(width=10_000).splitlines()
    rows = [line for line in lines if re.match(r" +\d+ +\{", line)]
    assert 1 <= len(rows) <= 4
    ids = {int(i) for row in rows for i in re.findall(r"(\d+):", row)}
    assert len(ids) <= requests, rows


@pytest.mark.parametrize(
    ("name", "rule"),
    [("12.3/right/plain", ""), ("12.3/wrong/admit_all", batch_rules.ONCE),
     ("12.3/wrong/a_set_leaves", batch_rules.FORM)],
)  # fmt: skip
@pytest.mark.few(1)
def test_the_dialogue_goes_on_through_the_wall_of_the_sandbox(name, rule, workshop):
    handed_in = Submission("ada", ((f"{name[-5:]}.py", sample(name).text.encode()),))
    (line,) = grade_one.grade(workshop, handed_in, [EXERCISE], b"a secret")
    assert (line["outcome"], line["property"]) == ("incorrect" if rule else "passed", rule)


@pytest.mark.parametrize(
    ("body", "kind"),
    [("raise SystemExit", "SystemExit"), ("return {}[0]", "KeyError")],
)
def test_what_a_function_raises_in_the_sandbox_is_its_own(body, kind, workshop):
    code = f"def next_batch{EXERCISE.signature}:\n    {body}\n"
    handed_in = Submission("ada", (("answer.py", code.encode()),))
    (line,) = grade_one.grade(workshop, handed_in, [EXERCISE], b"a secret")
    assert (line["outcome"], line["property"]) == ("error", kind)


@pytest.mark.parametrize(("lost", "says"), [(0, "let others in as soon"), (500, "anew")])
def test_who_is_slow_is_told_whether_work_was_lost(lost, says):
    """That somebody waits while budget is left is not what is wrong where work is thrown away."""
    requests = [Request(i, 0.0, 10, 11) for i in range(next_batch._CROWD)]
    sizes = {"pages": 8, "page_size": 4, "budget": 8}
    step = simulate(scheduling.batches, requests, **sizes).steps[0]
    tokens = 20 * len(requests) + lost
    run = next_batch.Run((replace(step, prefill=tokens, decode=0),), {}, 1e9)
    assert says in next_batch._goal(run, requests, sizes)["says"]
