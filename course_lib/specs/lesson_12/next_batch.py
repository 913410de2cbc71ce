"""Exercise 12.3: who goes next? A dialogue: the judge has the clock, the pages and the answers.

The function is asked once for each step, and is told what a server knows in that moment. How long
an answer will be, and who comes later, is on this side; so is every count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.random import Generator

from course_lib.accounting.serving import Request, Run, Server, simulate, trace
from course_lib.attention.scheduling import batches
from course_lib.judging.finding import Finding
from course_lib.judging.spec import HARD, Case, Exercise, Observed, Subject
from course_lib.specs.lesson_12.batch_rules import Broken, Decision, State, broken_rule, read

GAIN = "gains on static batching"
FAIR = "nobody is overtaken again and again"
ENDS = "every request gets its answer"
# Measured on 60 drawn crowds and 60 mixtures, for ten honest policies: 0.35 to 0.76 of the time of
# static batching at its best (`batches`), and 1 later request that gets past one, at the most.
# Static batching that sets room aside takes 1.3 to 2.8 times as long as `batches`. Shortest first
# lets 20 or more get past somebody in each of the crowds.
MOST_TIME = 0.85  # of the time of `batches`
MOST_PASSED = 5  # later requests that finish a prompt before, with more tokens in that step
_MUCH = 0.2  # of all that is computed: the share of what was lost and is computed anew
_FINE = {"rule": "", "says": "", "steps": ""}
_STEPS_TRIED = 800  # in smaller traces, after a failure
_STEPS_SHOWN = 4


def play(subject: Subject, case: Case) -> dict[str, str]:
    """Serve a case's requests by the function's decisions; return what is wrong, in words."""
    (requests,), sizes = case.args, dict(case.kwargs)
    try:
        run = _served(subject, requests, sizes)
    except Broken as broken:
        broken = _smallest(subject, requests, sizes, broken)
        return {"rule": broken.rule, "says": broken.says, "steps": broken.steps}
    return _goal(run, requests, sizes)


def _served(subject: Subject, requests: Sequence[Request], sizes: Mapping[str, Any]) -> Run:
    """Return the whole run. Raises Broken where a rule is."""
    server = Server(requests, sizes["pages"], sizes["page_size"])
    limits = {"budget": sizes["budget"], "page_size": sizes["page_size"]}
    most = 40 + 2 * sum(r.prompt + r.output for r in requests)
    shown: list[tuple[str, ...]] = []
    passed = dict.fromkeys((r.id for r in requests), 0)
    while not server.ended:
        state = State(server.waiting, server.running, server.free_pages, **limits)
        answer = subject(dict(state.waiting), dict(state.running), state.free_pages, **limits)
        decision: Decision | None = None
        try:
            decision = read(answer, state)
            broken_rule(decision, state)
            _overtaken(decision, state, passed)
            if len(server.steps) > most:
                says = f"after {most} steps there are still requests without their answer."
                raise Broken(ENDS, says)
        except Broken as broken:
            broken.step = len(server.steps)
            shown.append(_row(len(server.steps), state, decision))
            broken.steps = f"{_table(shown)}\n{_call(state)}"
            raise
        shown.append(_row(len(server.steps), state, decision))
        server.step(*decision)
    return Run(tuple(server.steps), server.waits, server.clock)


def _overtaken(decision: Decision, state: State, passed: dict[int, int]) -> None:
    """Count who finishes a prompt and gets more than one that came earlier and has not.

    Raises Broken.
    """
    (compute, leave), todo = decision, state.todo
    done = [i for i, n in compute.items() if n == todo[i] and not state.answers(i)]
    passed.update(dict.fromkeys(done, 0))
    for i in (i for i in todo if todo[i] and i not in done):
        if state.answers(i) and i not in leave:
            continue  # no prompt: who leaves has one again
        passed[i] += sum(j > i and compute[j] > compute.get(i, 0) for j in done)
        if passed[i] > MOST_PASSED:
            longest = max(todo[j] for j in done if j > i)
            why = "who came first waits as long as others come. "
            if i in compute:
                why = f"it computes {compute[i]} of its {todo[i]} tokens in this step. "
            elif todo[i] > longest:
                why = f"it has {todo[i]} tokens to compute and the last of them had {longest}, so "
                why += "a longer prompt waits as long as shorter ones come. "
            why += "Who is first, in which order, and does your function remember anything from "
            why += "another call?"
            if i in leave:
                why = "admit nobody in a step in which somebody has to leave."
            says = (
                f"request {i} is without its next token, and {passed[i]} that came later have got "
                f"past it: {why}"
            )
            raise Broken(FAIR, says)


def _goal(run: Run, requests: Sequence[Request], sizes: Mapping[str, Any]) -> dict[str, str]:
    if len(requests) < _CROWD:
        return _FINE
    share = run.seconds / simulate(batches, requests, **sizes).seconds
    if share <= MOST_TIME:
        return _FINE
    says = (
        f"all answers take {share:.0%} of the time of static batching with the same pages, and at "
        f"most {MOST_TIME:.0%} is asked: "
    )
    computed = sum(step.prefill + step.decode for step in run.steps)
    anew = computed - sum(one.prompt + one.output - 1 for one in requests)
    if anew > _MUCH * computed:
        says += (
            f"{anew} of {computed} tokens were computed anew, of requests that had left before "
            "they had ended. Who leaves, if somebody has to: who loses least?"
        )
    else:
        says += (
            "let others in as soon as somebody leaves, and compute as much in each step as budget "
            "and pages allow."
        )
    return {"rule": GAIN, "says": says, "steps": ""}


def _smallest(
    subject: Subject, requests: Sequence[Request], sizes: Mapping[str, Any], broken: Broken
) -> Broken:
    """Return how the same rule is broken by the smallest trace found."""
    left, smaller = _STEPS_TRIED, True
    while smaller:
        smaller = False
        for tried in _smaller(requests):
            if left < 0:
                return broken
            try:
                left -= len(_served(subject, tried, sizes).steps)
            except Broken as again:
                left -= again.step + 1
                if again.rule == broken.rule:
                    requests, broken, smaller = tried, again, True
                    break
    return broken


def _smaller(requests: Sequence[Request]) -> Iterator[Sequence[Request]]:
    """Yield traces with half of the requests, with one less, with shorter ones."""
    n = len(requests)
    if n > 3:
        yield requests[: n // 2]
        yield requests[n // 2 :]
    if n > 1:
        for i in range(n):
            yield [*requests[:i], *requests[i + 1 :]]
    for i, one in enumerate(requests):
        for change in (
            replace(one, prompt=max(1, one.prompt // 2)),
            replace(one, output=max(1, one.output // 2)),
            replace(one, arrival=0.0),
        ):
            if change != one:
                yield [*requests[:i], change, *requests[i + 1 :]]


# What is shown -----------------------------------------------------------------------------------

_WIDEST = 40  # characters of a column
_HEAD = ("step", "waiting", "running", "free", "yours")


def _row(step: int, state: State, decision: Decision | None) -> tuple[str, ...]:
    yours = "?" if decision is None else f"{decision.compute}, {list(decision.leave)}"
    told = (str(step), str(state.waiting), str(state.running), str(state.free_pages), yours)
    return tuple(x if len(x) <= _WIDEST else x[: _WIDEST - 3] + "..." for x in told)


def _call(state: State) -> str:
    """Return the last call as it can be made again: nothing of it is cut."""
    told = f"{dict(state.waiting)}, {dict(state.running)}, {state.free_pages}"
    return f"next_batch({told}, budget={state.budget}, page_size={state.page_size})"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    """Return the last few steps as a table: what the function was told, and what it decided."""
    rows = [_HEAD, *rows[-_STEPS_SHOWN:]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)


# Traces ------------------------------------------------------------------------------------------

_CROWD = 20  # requests from which on the gain counts


def _requests(*lengths: tuple[int, int], every: float = 0.0) -> tuple[Request, ...]:
    return tuple(Request(i, i * every, *one) for i, one in enumerate(lengths))


def _crowded(rng: Generator) -> tuple[Request, ...]:
    """Return requests that come almost at once; an early one has a long prompt."""
    drawn = trace(rng, 30, every=0.002, prompts=(3, 16), outputs=(2, 40))
    long = int(rng.integers(8, 12))
    drawn[long] = replace(drawn[long], prompt=80)
    return tuple(drawn)


def _mixed(rng: Generator) -> tuple[Request, ...]:
    """Return requests that come a little faster than they are answered."""
    return tuple(trace(rng, 30, every=0.008, prompts=(4, 60), outputs=(2, 40)))


def _cases(rng: Generator) -> list[Case]:
    def case(name: str, these: Iterable[Request], pages: int, page_size: int, budget: int) -> Case:
        sizes = {"pages": pages, "page_size": page_size, "budget": budget}
        return Case(name, (tuple(these),), sizes)

    size, budget = int(rng.integers(5, 8)), int(rng.integers(32, 41))
    pool = 128 // size
    return [
        case("one request, which fills the pool", _requests((10, 3)), 3, 4, 8),
        case("a prompt longer than the budget", _requests((21, 3)), 8, 4, 8),
        case("an answer, and then a long prompt",
             _requests((3, 12), (30, 2), every=0.006), 8, 8, 8),
        case("four that have to share eight pages",
             _requests((6, 9), (7, 12), (1, 8), (6, 7)), 8, 4, 16),
        case("three that grow until no page is left",
             _requests((8, 14), (8, 14), (8, 14)), 8, 4, 24),
        case("a prompt that fills the pool", _requests((12, 1)), 3, 4, 13),
        case("a long prompt, and 12 of one token that come later",
             _requests((20, 2), *[(1, 1)] * 12), 8, 4, 8),
        case("a chunk of one token", _requests((8, 3), (5, 3), (3, 3), (2, 3)), 9, 4, 9),
        case("a long one has to leave, and short ones wait",
             _requests((4, 9), (27, 3), *[(3, 2)] * 8), 8, 4, 40),
        case("who leaves has begun a page", _requests((4, 6), (3, 6), (1, 6)), 3, 4, 9),
        case("who leaves has all but filled a page", _requests((4, 6), (4, 6), (3, 6)), 3, 4, 11),
        case("who has ended has begun a page", _requests((4, 4), (4, 4), (5, 1)), 4, 4, 13),
        case("a chunk that ends before its page does", _requests((7, 5), (5, 2)), 3, 4, 10),
        case("30 requests that come almost at once", _crowded(rng), pool, size, budget),
        case("30 requests, a few more than can be served at once", _mixed(rng), pool, size, budget),
        case("one ends and leaves the page that the other needs",
             _requests((4, 4), (3, 1)), 2, 4, 8),
        case("two long prompts in turns: somebody has to come to an end",
             _requests((4, 4), (9, 1), every=0.006), 6, 2, 12),
        case("the newest has ended when pages run out",
             _requests((11, 4), (8, 9), (4, 2), (3, 1)), 8, 4, 16),
        case("12 short ones at once, and pages for all", _requests(*[(3, 4)] * 12), 24, 4, 48),
        # if the oldest leaves and waits again, the youngest may be left behind without a page
        case("three, of which the last has a long prompt", _requests((6, 6), (2, 3), (13, 1)),
             7, 2, 14),
        case("8 prompts that each fill the budget", _requests(*[(8, 1)] * 8), 8, 4, 8),
        case("an answer, and a later prompt that finds no page",
             _requests((4, 12), (18, 1), every=0.006), 5, 4, 8),
        case("two prompts, and pages for one", _requests((10, 1), (12, 1)), 3, 4, 9),
    ]  # fmt: skip


def _judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Return the rule that is broken, with the steps around it."""
    found = observed.result
    if not found["rule"]:
        return None
    return Finding(
        found["rule"], found["says"], found["steps"], numbers_right=True,
        look="make the call of the last line above yourself, and follow it through."
        if found["steps"] else "look for steps in which somebody leaves that has not ended."
        if "anew" in found["says"]
        else "look for steps in which somebody waits and budget is left.",
    )  # fmt: skip


EXERCISE = Exercise.of(
    "12.3",
    cases=_cases,
    truth=lambda requests, **_: _FINE,
    judge=_judge,
    play=play,
    spared=dict.fromkeys(HARD, "there are no scores, no tiles and no sums"),
)
