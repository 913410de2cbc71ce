"""The rules that every decision of 12.3 keeps, each with its name and one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from course_lib.attention.scheduling import pages

FORM = "the form"
KNOWN = "names only requests that are there"
THERE = "computes only tokens that are known"
TWICE = "whoever leaves does so once"
LEAVES = "who has ended leaves at once"
BUDGET = "keeps the budget"
ONCE = "promises no page twice"
FITS = "admits only whom pages are left for"
NEEDED = "takes pages away only if they are needed"
ANSWERS = "an answer waits for nothing but a page"
CHUNKS = "cuts a long prompt into chunks"
IDLE = "computes whatever can be computed"


class Broken(Exception):
    """A rule is broken: its name, and what to tell the student."""

    def __init__(self, rule: str, says: str) -> None:
        super().__init__(rule, says)
        self.rule, self.says = rule, says
        self.step, self.steps = 0, ""  # which one, and a table of those before it


class Decision(NamedTuple):
    """What the student's function decides for one step."""

    compute: dict[int, int]
    leave: list[int]


@dataclass(frozen=True)
class State:
    """What it was told."""

    waiting: Mapping[int, int]
    running: Mapping[int, tuple[int, int]]
    free_pages: int
    budget: int
    page_size: int

    @property
    def todo(self) -> dict[int, int]:
        """Tokens that are left to compute of everybody who is there."""
        return {**{i: todo for i, (_, todo) in self.running.items()}, **self.waiting}

    def answers(self, i: int) -> bool:
        """Whether a request has pages and one token to go on with."""
        return self.running.get(i, (0, 0))[1] == 1

    def new_pages(self, i: int, tokens: int) -> int:
        """Return how many pages ``tokens`` more of a request need."""
        cached, _ = self.running.get(i, (0, 0))
        return pages(cached + tokens, self.page_size) - pages(cached, self.page_size)

    def given_back(self, ids: list[int]) -> int:
        """Return how many pages are free once these have left."""
        return sum(pages(self.running[i][0], self.page_size) for i in ids)


def read(answer: Any, state: State) -> Decision:
    """Return an answer as a decision in plain numbers. Raises Broken if it is none."""
    if not isinstance(answer, tuple | list) or len(answer) != 2 or isinstance(answer[0], tuple):
        says = f"return two things, a dict {{id: tokens}} and a list of ids, not {_kind(answer)}."
        raise Broken(FORM, says)
    compute, leave = answer
    if not isinstance(compute, dict):
        raise Broken(
            FORM, f"what is computed should be a dict {{id: tokens}}, not {_kind(compute)}."
        )
    if isinstance(leave, np.ndarray) and leave.ndim == 1:
        leave = leave.tolist()
    if not isinstance(leave, tuple | list):
        raise Broken(FORM, f"those who leave should be a list of ids, not {_kind(leave)}.")
    compute = {_id(i): _tokens(i, n) for i, n in compute.items()}
    leave = [_id(i) for i in leave]
    if twice := [i for i in leave if leave.count(i) > 1]:
        ended = "has ended, and " if state.todo.get(twice[0]) == 0 else ""
        says = f"request {twice[0]} {ended}stands twice among those who leave: it gives its pages"
        raise Broken(TWICE, f"{says} back once.")
    if unknown := [i for i in [*compute, *leave] if i not in state.todo]:
        raise Broken(KNOWN, f"there is no request {unknown[0]}, neither waiting nor running.")
    if idle := [i for i in leave if i in state.waiting]:
        raise Broken(KNOWN, f"request {idle[0]} leaves, but it waits and has no pages.")
    if both := [i for i in leave if i in compute]:
        why = "it can do one of them"
        if state.todo[both[0]] == 0:
            why = "it has ended, and there is nothing left to compute"
        says = f"request {both[0]} leaves and is computed in the same step: {why}."
        raise Broken(KNOWN, says)
    return Decision(compute, leave)


def _kind(x: Any) -> str:
    name = type(x).__name__
    return "None" if x is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _id(i: Any) -> int:
    if isinstance(i, bool) or not isinstance(i, int | np.integer):
        raise Broken(FORM, f"an id is one of the whole numbers that you were given, not {i!r:.40}.")
    return int(i)


def _tokens(i: Any, n: Any) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer):
        raise Broken(
            FORM, f"the tokens of request {i!r:.40} should be a whole number, not {n!r:.40}."
        )
    if n < 1:
        says = f"{n} tokens for request {i!r:.40}: name only those that compute at least one."
        raise Broken(FORM, says)
    return int(n)


def broken_rule(decision: Decision, state: State) -> None:
    """Raise Broken with the first rule that a decision breaks."""
    compute, leave = decision
    _known_tokens(compute, state)
    ended = [i for i, (_, todo) in state.running.items() if todo == 0]
    if stays := [i for i in ended if i not in leave]:
        says = f"request {stays[0]} has ended (its todo is 0), and it keeps its pages."
        raise Broken(LEAVES, says)
    if (tokens := sum(compute.values())) > state.budget:
        says = f"{tokens} tokens are to be computed in one step, and the budget is {state.budget}."
        raise Broken(BUDGET, says)
    _pages_there(compute, leave, state)
    _preempted(leave, ended, state)
    _answers_first(compute, leave, state)
    if not compute and not leave:
        _idle(state)


def _known_tokens(compute: dict[int, int], state: State) -> None:
    for i, tokens in compute.items():
        todo = state.todo[i]
        if tokens <= todo:
            continue
        why = f"it has {todo} to compute"
        if todo == 0:
            why = "it has ended"
        elif state.answers(i):
            why = "of an answer only one token is known, the next comes out of this step"
        raise Broken(THERE, f"{tokens} tokens of request {i} are to be computed, and {why}.")


def _pages_there(compute: dict[int, int], leave: list[int], state: State) -> None:
    free = state.free_pages + state.given_back(leave)
    needed = {i: state.new_pages(i, tokens) for i, tokens in compute.items()}
    if sum(needed.values()) <= free:
        return
    are = "is" if free == 1 else "are"
    says = f"this step needs {sum(needed.values())} new pages, and {free} {are} free"
    admitted = [i for i in compute if i in state.waiting]
    if admitted and sum(n for i, n in needed.items() if i not in admitted) <= free:
        raise Broken(FITS, f"{says}: who is admitted needs pages that nobody else has.")
    raise Broken(ONCE, f"{says}: a page holds the rows of one request.")


def _preempted(leave: list[int], ended: list[int], state: State) -> None:
    preempted = [i for i in leave if i not in ended]

    def may_stay(one: int) -> bool:
        """Whether there are pages for all who run if the others leave, and this one does not.

        Nobody has to leave an answer's pages to a prompt that came later.
        """
        gone = [i for i in leave if i != one]
        free = state.free_pages + state.given_back(gone)
        stay = [i for i in state.running if i not in gone]
        if state.answers(one):
            stay = [i for i in stay if i <= one or state.answers(i)]
        return sum(state.new_pages(i, min(state.todo[i], state.budget)) for i in stay) <= free

    if preempted and all(map(may_stay, preempted)):
        raise Broken(NEEDED, _needless(preempted, ended, state))


def _needless(preempted: list[int], ended: list[int], state: State) -> str:
    """Say how few of those who lose their pages would have sufficed: none, or only some."""
    most_first = sorted(preempted, key=lambda i: state.given_back([i]), reverse=True)
    fewest, waits = preempted[:-1], list[int]()
    for some in (most_first[:n] for n in range(len(preempted))):
        found = _who_waits(some, preempted, ended, state)
        if found is not None:
            fewest, waits = some, found
            break
    if len(preempted) == 1 or not fewest:
        i, back = preempted[-1], state.given_back(ended)
        kind = "is an answer and loses its pages" if state.answers(i) else "loses its pages"
        says = f"request {i} {kind}, and what was computed of it, although there would be enough "
        if waits:
            return f"{says}if the prompt of request {waits[0]}, which came later, waits for pages."
        more = f": who has ended gives {back} page{'s' * (back > 1)} back" if back else ""
        return f"{says}for all who run{more}."
    lose, would = _and(preempted), _and(fewest)
    does = "request {} alone did" if len(fewest) == 1 else "requests {} alone did"
    later = f" and the prompt of request {waits[0]}, which came later, waited" if waits else ""
    return (
        f"requests {lose} lose their pages, and what was computed of them, although it would be "
        f"enough if {does.format(would)}{later}."
    )


def _who_waits(
    gone: list[int], preempted: list[int], ended: list[int], state: State
) -> list[int] | None:
    """Return which later prompts have to wait if, of ``preempted``, only ``gone`` lose theirs.

    None: there is not enough even so.
    """
    free = state.free_pages + state.given_back([*gone, *ended])
    stay = [i for i in state.running if i not in gone and i not in ended]
    kept = [i for i in preempted if i not in gone]
    later = [i for i in stay if i > max(kept) and not state.answers(i)]
    for wait in ([], later if all(map(state.answers, kept)) else []):
        of = [i for i in stay if i not in wait]
        if sum(state.new_pages(i, min(state.todo[i], state.budget)) for i in of) <= free:
            return wait
    return None


def _and(ids: list[int]) -> str:
    *most, last = map(str, ids)
    return f"{', '.join(most)} and {last}" if most else last


def _answers_first(compute: dict[int, int], leave: list[int], state: State) -> None:
    left_out = [
        i for i in state.running if state.answers(i) and i not in compute and i not in leave
    ]
    prompts = [i for i in compute if not state.answers(i)]
    if left_out and prompts:
        says = (
            f"request {left_out[0]} waits for its next token while the prompt of request "
            f"{prompts[0]} is computed."
        )
        raise Broken(ANSWERS, says)
    ended = [i for i in leave if state.todo[i] == 0]
    needed = sum(state.new_pages(i, n) for i, n in compute.items())
    free = state.free_pages + state.given_back(ended) - needed
    budget = state.budget - sum(compute.values())
    for i in left_out:
        if budget > 0 and state.new_pages(i, 1) <= free:
            room = "a page" if state.new_pages(i, 1) else "room on its last page"
            says = f"request {i} waits for its next token, and budget and {room} are left for it."
            raise Broken(ANSWERS, says)


_ADMITTED = (
    "Is it admitted at all? A call knows what it is given and nothing else: is anything kept from "
    "one call to the next?"
)


def _idle(state: State) -> None:
    first = min(state.todo)
    if state.todo[first] > state.budget:
        runs = first in state.running
        says = (
            f"nothing is computed: request {first} has {state.todo[first]} tokens to compute, more "
            f"than the budget of {state.budget}, so it has to come in parts. "
            f"{'It has begun: why does it not go on?' if runs else _ADMITTED}"
        )
        if not runs:
            raise Broken(CHUNKS, says)
        if state.new_pages(first, 1) <= state.free_pages:
            raise Broken(IDLE, says)
    if first in state.running and state.new_pages(first, 1) > state.free_pages:
        says = (
            f"nothing is computed: request {first} needs a page, so somebody has to give up some."
        )
        raise Broken(IDLE, says)
    raise Broken(IDLE, f"nothing is computed and nobody leaves, but request {first} could go on.")
