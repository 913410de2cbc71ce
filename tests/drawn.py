"""Which few of a large family `make test` tries; `make test-sweep` tries the others, and CI all.

Who is drawn hangs on all that the family holds: a change there draws anew. So one tree always tries
the same ones, and the course in time all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from hashlib import blake2b
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


def drawn(
    family: Iterable[T],
    text: Callable[[T], str],
    *,
    group: Callable[[T], Hashable] = lambda one: None,
    few: int = 1,
    one_in: int | None = None,
) -> list[T]:
    """Return ``few`` of each group or, where that is more, ``one_in`` so many.

    ``text`` is what a member is, the same in every process.
    """
    groups: dict[Hashable, list[tuple[str, T]]] = {}
    for one in family:
        groups.setdefault(group(one), []).append((text(one), one))
    chosen: list[T] = []
    for own in groups.values():
        whole = _digest(*(of_one for of_one, _ in own))
        turns = sorted(own, key=lambda member: _digest(whole, member[0]))
        share = -(-len(own) // one_in) if one_in else 0
        chosen += [one for _, one in turns[: max(few, share)]]
    return chosen


def swept(family: Iterable[T], few: Iterable[T], id: Callable[[T], str] = str) -> list[Any]:
    """Return parameters: every member of a family, those that are not among the few swept."""
    these = list(few)
    sweep = [pytest.mark.sweep]
    return [pytest.param(o, id=id(o), marks=[] if o in these else sweep) for o in family]


def sweep_all_but_few(items: Iterable[pytest.Item]) -> None:
    """Mark as swept what is not among the few of a test marked ``few(n)``.

    Of all that a parametrised test tries, n are drawn; ``few(n, each="name")``: n of each ``name``.
    """
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few") and not item.get_closest_marker("slow"):
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for family in families.values():
        mark, source = family[0].get_closest_marker("few"), family[0].path.read_text("utf-8")
        each = mark.kwargs.get("each")
        few = drawn(
            family,
            lambda item, source=source: item.nodeid + source,
            group=lambda item, each=each: str(item.callspec.params[each]) if each else None,
            few=mark.args[0],
        )
        for item in family:
            if item not in few:
                item.add_marker("sweep")


def _digest(*texts: str) -> str:
    return blake2b("\n".join(texts).encode(), digest_size=8).hexdigest()
