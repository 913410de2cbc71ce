"""The engine's interface: a function, a class, a walk of calls on one object, two ranks."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from course_lib.judging import engine, outcomes
from course_lib.judging.finding import Finding
from course_lib.judging.hosts import Ran
from course_lib.judging.hosts.here import Here
from course_lib.judging.judges import exactly, within
from course_lib.judging.report import Verdict
from course_lib.judging.spec import Case, Exercise, Mistake, Observed
from course_lib.sandbox.calling import Failure
from course_lib.sandbox.inputs import NEW, UNCHANGED

SUM = Exercise(
    id="0.9",
    function="total",
    signature="(x)",
    title="Add up",
    minutes=1,
    points=1,
    hints=("a", "b", "c"),
    cases=lambda rng: [Case(f"{n} numbers", (rng.standard_normal(n),)) for n in (3, 5)],
    truth=lambda x: float(x.sum()),
    judge=within(1e-9),
    notice="Sums add up.",
    mistakes=(Mistake("the largest", "that is the largest.", lambda x: float(x.max())),),
    seconds=2.0,
)


def report_on(exercise: Exercise, thing: object):
    cases = exercise.cases(np.random.default_rng(1))
    return engine.first_failure(exercise, Here(exercise, thing), cases)


def test_a_function():
    assert report_on(SUM, lambda x: sum(x)).passed
    found = report_on(SUM, lambda x: max(x))
    assert (found.verdict, found.misconception) == (Verdict.INCORRECT, "the largest")


# A class, and a walk of calls on one object ------------------------------------------------------


class Pool:
    """Lends numbers, each to one borrower at a time."""

    def __init__(self, size: int) -> None:
        self.free = list(range(size))

    def lend(self) -> int:
        return self.free.pop()

    def take_back(self, number: int) -> None:
        self.free.append(number)


class Forgetful(Pool):
    def take_back(self, number: int) -> None:
        pass


class Generous(Pool):
    def lend(self) -> int:
        return self.free[0]


def walk(pool, case: Case) -> str:
    """Lend all, give back what was lent first, lend again: judged by what is read back."""
    (size,) = case.args
    lender = pool.make(size)
    lend, take_back = lender.method("lend"), lender.method("take_back")
    lent = [lend() for _ in range(size)]
    if len(set(lent)) < size:
        return "lent twice"
    take_back(lent[0])
    return "as it should" if lend() == lent[0] else "lost"


POOL = replace(
    SUM,
    function="Pool",
    signature="(size)",
    cases=lambda rng: [Case("a pool of 3", (3,))],
    truth=lambda size: "as it should",
    judge=exactly,
    play=walk,
    mistakes=(),
)


def test_a_class_and_a_walk_of_calls_on_one_object():
    assert report_on(POOL, Pool).passed
    assert "lent twice" in report_on(POOL, Generous).text()
    broken = report_on(POOL, Forgetful)
    assert broken.verdict is Verdict.ERROR
    assert "pop from empty list" in broken.text()
    assert "return self.free.pop()" in broken.text()


def test_a_later_input_may_be_drawn_after_an_earlier_answer_was_seen():
    def play(function, case: Case) -> float:
        first = function(*case.args)
        return function(np.array([first, first]))

    twice = replace(SUM, play=play, truth=lambda x: 2 * float(x.sum()))
    assert report_on(twice, lambda x: sum(x)).passed
    assert not report_on(twice, lambda x: max(x)).passed


# Two ranks on a given transport ------------------------------------------------------------------


class Port:
    """One rank's end of a transport: sends to the other, receives what the other sent."""

    def __init__(self, sends: queue.Queue, receives: queue.Queue) -> None:
        self._sends, self._receives = sends, receives

    def send(self, x: np.ndarray) -> None:
        self._sends.put(x.copy())

    def receive(self) -> np.ndarray:
        return self._receives.get(timeout=1)


def exchange(rank, case: Case) -> list[float]:
    there, back = queue.Queue(), queue.Queue()
    halves = np.split(case.args[0], 2)
    return rank.together((halves[0], Port(there, back)), (halves[1], Port(back, there)))


RANKS = replace(
    SUM,
    signature="(part, port)",
    cases=lambda rng: [Case("8 numbers on two ranks", (rng.standard_normal(8),))],
    truth=lambda x: [float(x.sum())] * 2,
    play=exchange,
    mistakes=(),
)


def test_two_ranks_on_a_given_transport():
    def right(part, port):
        port.send(part)
        return float(part.sum() + port.receive().sum())

    def alone(part, port):
        return float(part.sum())

    def waits_first(part, port):
        other = port.receive()
        port.send(part)
        return float(part.sum() + other.sum())

    assert report_on(RANKS, right).passed
    assert report_on(RANKS, alone).verdict is Verdict.INCORRECT
    assert "Empty" in report_on(RANKS, waits_first).text()


# The engine and its host -------------------------------------------------------------------------


class Scripted:
    """A host that brings back what it was told to."""

    def __init__(self, *ran: Ran, doubts: Finding | None = None) -> None:
        self._ran, self._doubts = list(ran), doubts
        self.asked: list[Case] = []

    def run(self, case: Case) -> Ran:
        if case.rewritten:
            return ran(case, SUM.truth(*case.args))
        if not self._ran or "numbers" in case.name:  # one more, to name what is wrong
            return Ran(case, failure=Failure(("Error",), ""))
        self.asked.append(case)
        return self._ran.pop(0)

    def doubt(self, case: Case, observed: Observed, expected: object) -> Finding | None:
        return self._doubts

    def afresh(self, case: Case) -> Ran | None:
        return None


CASES = [
    Case("one", (np.array([2.0, 0.0]),)),
    Case("two", (np.full(2, 2.0),)),
    Case("three", (np.ones(3),)),
]


def ran(case: Case, result: object, **more) -> Ran:
    return Ran(case, Observed(result), **more)


def judged(host: Scripted, cases: Sequence[Case] = CASES) -> list[engine.Judged]:
    return list(engine.judge(SUM, host, cases))


class Wavering(Scripted):
    """Whose answer to new numbers is wrong, wrong where nothing came before it, and then right."""

    def run(self, case: Case) -> Ran:
        if case.rewritten:
            return ran(case, -1.0)
        return ran(case, SUM.truth(*case.args)) if "numbers" in case.name else super().run(case)

    def afresh(self, case: Case) -> Ran:
        return ran(case, -1.0)


def test_an_answer_that_was_wrong_is_not_forgiven_because_it_is_right_by_now():
    cases, results = (CASES[0], *CASES), (2.0, 2.0, 4.0, 3.0)
    found = judged(Wavering(*(ran(c, x) for c, x in zip(cases, results, strict=True))))
    (report,) = [one.report for one in found if one.report]
    assert "not when the function was called again" in report.text().replace("\n  ", " ")


def test_every_case_is_judged_and_only_the_first_failure_is_named():
    cases, results = (CASES[0], *CASES), (2.0, 2.0, 2.0, 1.0)  # what passes is called once more
    found = judged(Scripted(*(ran(c, x) for c, x in zip(cases, results, strict=True))))
    assert [one.report is None for one in found] == [True, False, False]
    assert [one.report and one.report.misconception for one in found] == [None, "the largest", ""]


def test_a_second_answer_in_the_memory_of_the_first_is_told():
    found = Finding("returns new memory", "the second overwrites the first.")
    host = Scripted(ran(CASES[0], 2.0), ran(CASES[0], 2.0, found=found))
    right, again = judged(host, CASES[:1])
    assert right.report is None
    assert again.report.failed_property == "returns new memory"


def test_a_fatal_end_is_the_last_case():
    over = Ran(CASES[0], failure=Failure(("ProcessEnded",), "it died"), fatal=True)
    host = Scripted(over)
    (only,) = judged(host)
    assert only.report.failed_property == "ProcessEnded"
    assert host.asked == CASES[:1]


@pytest.mark.parametrize("doubt", [None, Finding("is your own", "it is not.")])
def test_a_host_may_doubt_what_was_judged_right(doubt):
    twice = ran(CASES[0], 2.0), ran(CASES[0], 2.0)
    (one,) = judged(Scripted(*twice, doubts=doubt), CASES[:1])
    assert (one.report and one.report.failed_property) == (doubt and "is your own")


@pytest.mark.parametrize(
    ("last", "told"), [(3.0, ("is your own", "")), (1.0, ("the answer", "the largest"))]
)
def test_a_doubt_waits_for_what_fails_by_its_numbers(last, told):
    """It may be right by chance: what a later case shows is what is told, with its name."""
    cases, doubt = [CASES[0], CASES[2]], Finding("is your own", "it is not.")

    def host() -> Scripted:
        return Scripted(ran(cases[0], 2.0), ran(cases[1], last), doubts=doubt)

    assert [one.doubted for one in judged(host(), cases)] == [True, last == 3.0]
    report = engine.first_failure(SUM, host(), cases)
    assert (report.failed_property, report.misconception) == told


def test_a_doubt_is_told_before_what_is_no_wrong_number():
    bad = Finding("the traffic", "it reads twice.", numbers_right=True)
    script = ran(CASES[0], 2.0), ran(CASES[1], 4.0, found=bad)
    host = Scripted(*script, doubts=Finding("is your own", "it is not."))
    assert engine.first_failure(SUM, host, CASES[:2]).failed_property == "is your own"


@pytest.mark.parametrize(
    ("property", "result", "told"),
    [
        (NEW, 2.0, NEW),
        (NEW, 7.0, "the answer"),
        (UNCHANGED, 2.0, UNCHANGED),
        (UNCHANGED, 7.0, UNCHANGED),  # a changed input may be what makes the numbers wrong
        (UNCHANGED, None, "returns a value"),
    ],
)
def test_what_the_host_found_counts_after_the_numbers_unless_it_explains_them(
    property, result, told
):
    (one,) = judged(Scripted(ran(CASES[0], result, found=Finding(property, "no."))), CASES[:1])
    assert one.report.failed_property == told


def test_what_cannot_be_named_is_told_without_a_name():
    """A result in a form that nobody compares with a mistake's costs the name, not the record."""

    def compared(case: Case, result: object) -> object:
        return result[0]  # type: ignore[index]

    asked = replace(SUM, compared=compared)
    (first, *_) = engine.judge(
        asked, Here(asked, lambda x: 5.0), asked.cases(np.random.default_rng(1))
    )
    assert first.report.verdict is Verdict.INCORRECT
    assert not first.report.misconception


def test_a_result_that_the_judge_never_expected_is_a_finding():
    def judge(case, observed, expected):
        raise ValueError

    (one,) = engine.judge(replace(SUM, judge=judge), Scripted(ran(CASES[0], 2.0)), CASES[:1])
    assert one.report.failed_property == "the form"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("1 queries, 1 keys and 1 tokens in 21 pages", "1 query, 1 key and 1 token in 21 pages"),
        ("2 x 1 heads, 0.1 seconds, 1 pass, 1 axis, 1 class", None),
    ],
)
def test_sizes_are_drawn_and_one_is_no_plural(name, told):
    (line,) = outcomes._on(Case(name))
    assert line == f"On: {told or name}."
