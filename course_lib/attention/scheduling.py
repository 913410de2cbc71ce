"""What is computed next: policies that a server can have (lesson 12), one function each.

Each is told who waits, {id: todo}, and who runs, {id: (cached, todo)}, both in the order in which
they came, and how many pages are free. It returns how many tokens of whom are computed in this
step, {id: tokens}, and who gives up its pages. ``todo`` is 1 for a request that is answered, more
for a prompt, 0 for an answer that has ended. `course_lib.accounting.serving` simulates them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Waiting: TypeAlias = dict[int, int]
Running: TypeAlias = dict[int, tuple[int, int]]
Decision: TypeAlias = tuple[dict[int, int], list[int]]


def continuous(
    waiting: Waiting, running: Running, free_pages: int, *, budget: int, page_size: int
) -> Decision:
    """Continuous batching with chunked prefill: answers first, then prompts, the oldest first.

    Who has ended leaves at once. If the answers need more pages than there are, the newest gives
    up its own and is computed anew later; nobody is admitted in such a step.
    """
    ended = [i for i, (_, todo) in running.items() if todo == 0]
    stay = {i: state for i, state in running.items() if i not in ended}
    free = free_pages + sum(pages(running[i][0], page_size) for i in ended)
    preempted: list[int] = []
    while (needed := _new_pages_of_answers(stay, page_size)) > free:
        preempted.append(newest := max(stay))
        free += pages(stay.pop(newest)[0], page_size)

    compute = {i: 1 for i, (_, todo) in stay.items() if todo == 1}
    budget, free = budget - len(compute), free - needed
    prompts = {i: state for i, state in stay.items() if i not in compute}
    if not preempted:
        prompts |= {i: (0, todo) for i, todo in waiting.items()}
    for i, (cached, todo) in prompts.items():
        has = pages(cached, page_size)
        tokens = min(todo, budget, (has + free) * page_size - cached)
        if tokens <= 0:
            break
        compute[i] = tokens
        budget, free = budget - tokens, free + has - pages(cached + tokens, page_size)
    return compute, ended + preempted


def _new_pages_of_answers(running: Running, page_size: int) -> int:
    """Return how many answers find their last page full."""
    return sum(todo == 1 and cached % page_size == 0 for cached, todo in running.values())


def shortest_first(waiting: Waiting, *rest: Any, **sizes: Any) -> Decision:
    """Continuous batching that admits the shortest prompt first."""
    return continuous(dict(sorted(waiting.items(), key=lambda one: one[1])), *rest, **sizes)


def batches(waiting: Waiting, running: Running, *rest: Any, **sizes: Any) -> Decision:
    """Static batching with pages: as many as fit begin together, and the next once all have ended.

    (Who has ended leaves at once: the best that can be said of static batching.)
    """
    full = any(todo for _, todo in running.values())
    return continuous({} if full else waiting, running, *rest, **sizes)


def admit_all(
    waiting: Waiting, running: Running, free_pages: int, *, budget: int, page_size: int
) -> Decision:
    """Compute for everybody who is there, whatever pages there are."""
    ended = [i for i, (_, todo) in running.items() if todo == 0]
    everybody = running | {i: (0, todo) for i, todo in waiting.items()}
    return _answers_first(everybody, budget), ended


def static(most: int) -> Callable[..., Decision]:
    """Return static batching: nobody is admitted until the whole batch has ended, and then leaves.

    Room for ``most`` tokens is set aside for each, however long it gets.
    """

    def next_batch(
        waiting: Waiting, running: Running, free_pages: int, *, budget: int, page_size: int
    ) -> Decision:
        if running and not any(todo for _, todo in running.values()):
            return {}, list(running)
        if not running:
            size = max(1, free_pages // pages(most, page_size))
            running = {i: (0, todo) for i, todo in list(waiting.items())[:size]}
        return _answers_first(running, budget), []

    return next_batch


def refill(most: int) -> Callable[..., Decision]:
    """Return continuous batching without pages: room for ``most`` tokens is set aside for each."""

    def next_batch(
        waiting: Waiting, running: Running, free_pages: int, *, budget: int, page_size: int
    ) -> Decision:
        ended = [i for i, (_, todo) in running.items() if todo == 0]
        room = free_pages // pages(most, page_size) + len(ended)
        admitted = {i: (0, todo) for i, todo in list(waiting.items())[:room]}
        return _answers_first(running | admitted, budget), ended

    return next_batch


def _answers_first(running: Running, budget: int) -> dict[int, int]:
    compute = {}
    for i, (_, todo) in sorted(running.items(), key=lambda one: one[1][1] > 1):
        if tokens := min(todo, budget):
            compute[i] = tokens
            budget -= tokens
    return compute


def pages(rows: int, page_size: int) -> int:
    """Return how many pages so many rows fill."""
    return -(-rows // page_size)
