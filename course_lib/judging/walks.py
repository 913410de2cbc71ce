"""Walks: calls on one object, one after the other, and the shortest that still fails.

A case of a walk has it as its last argument, behind those that the object is made with.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from course_lib.judging.spec import Case

SECONDS = 1.5  # after which no shorter walk is tried
# for a number that the object is made with
_TARGETS = (1, 2, 3, 4, 6, 8, 9, 12, 16, 17, 24, 32, 64)
_MOST_LINES = 40
_MANY = 6  # times that a call is repeated, and shown as a loop
ANOTHER = "another."  # before a method's name: it is called on a new object, see `another`
SHORTEST = "the shortest walk found on which it fails"


class Walk(list[tuple[Any, ...]]):
    """Calls in their order, (method, \\*arguments) each."""


def another(*made_with: int) -> tuple[int, ...]:
    """Return what the new object is made with: the last number is one more."""
    return *made_with[:-1], *(number + 1 for number in made_with[-1:])


def is_walk(case: Case) -> bool:
    """Return whether a case is made of calls on one object."""
    return bool(case.args) and isinstance(case.args[-1], Walk)


def shortest(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Return the shortest walk found that fails as well, of the smallest object found.

    ``fails`` is asked of walks that may make no sense any more, and says no to them.
    """
    until = time.monotonic() + SECONDS

    def still_fails(tried: Case) -> bool:
        return time.monotonic() < until and fails(tried)

    size = None
    while size != (size := _size(case)):
        case = _with_less(_with_fewer_calls(case, still_fails), still_fails)
    return case


def as_code(function: str, case: Case, answers: Sequence[str] = ()) -> list[str]:
    """Return a walk as lines that can be typed, each with what the student's object answered.

    With answers it ends behind the last of them. Of a long walk only the end is shown.
    """
    *made_with, walk = case.args
    making, new = (
        f"{function}({', '.join(map(repr, numbers))})"
        for numbers in (made_with, another(*made_with))
    )
    name = re.findall("[A-Z]?[a-z]+", function)[-1].lower()
    lines = [f"{name} = {making}"]
    for method, *args in walk[: len(answers) or None]:
        whose = new if method.startswith(ANOTHER) else name
        lines.append(f"{whose}.{method.removeprefix(ANOTHER)}({', '.join(map(repr, args))})")
    width = max(map(len, lines)) + 2
    same = lines[:]
    for i, answer in enumerate(answers, start=1):
        lines[i] = f"{lines[i]:{width}}# {answer}" if answer else lines[i]
    lines = _repeats_in_loops(lines, same)
    if len(lines) <= _MOST_LINES:
        return lines
    return [lines[0], f"... {len(lines) - _MOST_LINES} calls, then", *lines[1 - _MOST_LINES :]]


def _repeats_in_loops(lines: list[str], calls: list[str]) -> list[str]:
    """Return lines in which one call that is made many times, but for the last line, is a loop."""
    found: list[str] = []
    for _, run in groupby(range(len(lines)), key=lambda i: (calls[i], i == len(lines) - 1)):
        those = list(run)
        if len(those) < _MANY:
            found += [lines[i] for i in those]
        else:
            last = lines[those[-1]].removeprefix(calls[those[-1]]).strip()
            last = f"  {last.replace('# ', '# the last: ', 1)}" if last else ""
            found.append(f"for _ in range({len(those)}): {calls[those[0]]}{last}")
    return found


def _size(case: Case) -> tuple[int, ...]:
    *made_with, walk = case.args
    return len(walk), *made_with


def _with_fewer_calls(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Leave out what can be left out, from the end on: halves first, single calls last."""
    step = len(case.args[-1]) // 2
    while step:
        end = len(case.args[-1])
        while end > 0:
            walk, start = case.args[-1], max(end - step, 0)
            tried = _changed(case, -1, Walk([*walk[:start], *walk[end:]]))
            case, end = (tried if fails(tried) else case), start
        step //= 2
    return case


def _with_less(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Make each number that the object is made with as small as can be."""
    for place, number in enumerate(case.args[:-1]):
        for target in (n for n in _TARGETS if n < number):
            if fails(tried := _changed(case, place, target)):
                case = tried
                break
    return case


def _changed(case: Case, place: int, value: Any) -> Case:
    args = list(case.args)
    args[place] = value
    return replace(case, name=SHORTEST, args=tuple(args))
