"""The programs of a launch in other orders, one of them interrupted by the others.

On a GPU another program may come between any two steps of this one. Here that is done on purpose:
a program waits before it touches a *contended* address (one that several programs change
atomically) while another runs from beginning to end, then before its next, and so on. Each such
order may happen on a GPU, so a right kernel leaves the same numbers behind, up to rounding.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator
from typing import Any

Program = tuple[int, int, int]
MOST_ORDERS = 32  # of one launch
_MOST_STEPS = 1000  # on contended addresses: a program that waits for one that waits for it


class Stuck(Exception):
    """A program waits for one that has been made to wait: this order says nothing."""


class Interleaved:
    """A kernel's function that runs all programs when it is first called, in an order of its own.

    ``first`` begins; from its contended access number ``gap`` on (0: never) it waits before each
    one while another program runs. The rest run backwards. ``go_to`` tells the interpreter which
    program it is working on.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        programs: list[Program],
        order: tuple[Program, int],
        go_to: Callable[[Program], None],
    ) -> None:
        self._function, self._go_to = function, go_to
        self._first, self._gap = order
        self._left = [self._first, *(p for p in reversed(programs) if p != self._first)]
        self._waiting, self._seen, self._steps = False, 0, 0
        self._args: dict[str, Any] = {}
        self.__signature__ = inspect.signature(function)  # the interpreter asks for it

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    def __call__(self, **args: Any) -> None:
        """Run all programs; at every later call of the same launch nothing is left."""
        self._args = args
        while self._left:
            self._run(self._left.pop(0))

    def before_contended(self, program: Program) -> None:
        """Let another program run now, if this one is to be interrupted. Raises Stuck."""
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise Stuck
        if self._waiting or program != self._first or not self._gap:
            return
        self._seen += 1
        if self._seen >= self._gap and self._left:
            self._waiting = True
            self._run(self._left.pop(0))
            self._waiting = False
            self._go_to(program)

    def _run(self, program: Program) -> None:
        self._steps = 0
        self._go_to(program)
        self._function(**self._args)


def orders(
    steps: dict[Program, int], last: Program, rng: random.Random
) -> Iterator[tuple[Program, int]]:
    """Yield which program begins, and from which of its contended accesses on it is interrupted.

    ``steps``: how many contended accesses each program makes, ``last``: the last of all. Programs
    with as many are alike; the others fill as many gaps as they are. ``rng`` chooses, where there
    are too many orders.
    """
    yield last, 0  # backwards
    alike = {n: program for program, n in steps.items()}
    others = max(len(steps) - 1, 1)
    every = [(p, gap) for n, p in alike.items() for gap in range(2, n + 1, others)]
    yield from every if len(every) < MOST_ORDERS else rng.sample(every, MOST_ORDERS)
