"""Exercise 11.4: who owns which page. Judged on walks of calls on one pool."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from numpy.random import Generator

from course_lib.child.student_error import Failure
from course_lib.judging.finding import Finding
from course_lib.judging.spec import HARD, Case, Exercise, Mistake, Observed
from course_lib.judging.walks import Walk, another, as_code
from course_lib.sandbox.calling import misfit
from course_lib.specs.lesson_11.pool_reading import FORM, Reader
from course_lib.specs.lesson_11.pool_slips import ANOTHER, ORDERS, SLIPS, Told, played

_MANY_GO_ON = 6  # of those that hold a page: who counts in a byte takes 257 of 260 for one
_LONG = 160  # calls of a walk: in longer ones no slip is played, there are hundreds of them
_RIGHT = "every call is answered rightly"
_METHODS = {"append": "(seq)", "fork": "(parent, child)", "free": "(seq)", "table": "(seq)"}


def _case(name: str, n_pages: int, page_size: int, *calls: str) -> Case:
    """Return a case: ``"append a b"`` appends to a and to b, ``"fork a b"`` makes b of a."""
    walk = Walk()
    for call in calls:
        method, *names = call.split()
        walk += [(method, *names)] if method == "fork" else [(method, name) for name in names]
    return Case(name, (n_pages, page_size, walk))


def _random(rng: Generator, n_pages: int, page_size: int, n: int, most: int = 5) -> Case:
    """Return a walk of n calls, of at most so many sequences at a time.

    It fills the pool and empties it again, in turns. Names come back when they are free.
    """
    walk, names = Walk(), [_name(i) for i in range(most)]
    while len(walk) < n:
        live = _live(n_pages, page_size, walk)
        unused = [name for name in names if name not in live]
        filling = len(walk) // 12 % 3 < 2
        draw = rng.random()
        if live and draw < (0.05 if filling else 0.45):
            walk.append(("free", live[rng.integers(len(live))]))
        elif live and unused and draw < 0.6 * (0.5 if filling else 1):
            walk.append(("fork", live[rng.integers(len(live))], unused[0]))
        elif draw > 0.98:
            walk.append((ANOTHER, names[0]))
        else:
            new = unused[:1] if not live or rng.random() < 0.15 else []
            name = (new or live)[rng.integers(len(new or live))]
            walk += [("append", name)] * int(rng.integers(1, 2 * page_size + 2))
    pages = f"{n_pages} pages of {page_size}"
    return Case(f"{len(walk)} calls in any order, {pages}", (n_pages, page_size, walk))


def _from_every_page(n_pages: int, page_size: int) -> Case:
    """Return a walk in which each page but one is copied, whichever were taken first."""
    names = [_name(i) for i in range(n_pages)]
    walk = Walk([("append", name) for name in names] + [("free", names[0])])
    for name in names[1:]:
        walk += [("fork", name, "child"), ("append", "child"), ("free", "child")]
    walk += [("append", names[0]), ("free", names[1])]
    walk += [("fork", names[0], "child"), ("append", "child")]
    return Case(f"each of {n_pages} pages is shared and copied in turn", (n_pages, page_size, walk))


def _filled(n_pages: int, page_size: int) -> Case:
    """Return a walk of one sequence that fills a pool, and one of another name that finds it so."""
    walk = Walk([("append", "a")] * (n_pages * page_size))
    walk += [("append", "b"), ("append", "a"), ("free", "a"), ("append", "b")]
    return Case(f"one sequence fills {n_pages} pages of {page_size}", (n_pages, page_size, walk))


def _held_by(holders: int, page_size: int = 4) -> Case:
    """Return a walk in which many hold a page that is filled in part; each second goes on."""
    names = [f"held {i}" for i in range(holders)]
    walk = Walk([("append", names[0])] * (page_size - 1))
    walk += [("fork", names[0], name) for name in names[1:]]
    going_on = names[1 : 2 + _MANY_GO_ON]
    walk += [("append", name) for name in going_on]
    walk += [("free", name) for name in going_on[:3]] + [("append", names[0])] * 2
    n_pages = len(going_on) + 4
    return Case(f"a page that {holders} hold, pages of {page_size}", (n_pages, page_size, walk))


def _shared_when(filled: int, page_size: int) -> Iterator[tuple[Any, ...]]:
    """Yield calls in which a page with so many slots filled is shared, and both go on."""
    parent, child = ("parent", page_size, filled), ("child", filled)
    yield from [("append", parent)] * filled
    yield ("fork", parent, child)
    yield from [("append", child), ("append", parent), ("append", parent), ("append", child)]
    yield from [("free", parent), ("append", child), ("free", child)]


def _pages_of(page_size: int) -> Case:
    """Return a walk in which a page is shared with one slot filled, half, all but one, all."""
    fills = sorted({1, max(page_size // 2, 1), max(page_size - 1, 1), page_size, page_size + 1})
    walk = Walk(call for filled in fills for call in _shared_when(filled, page_size))
    return Case(f"shared at any slot, pages of {page_size}", (6, page_size, walk))


def _forked_down(depth: int, page_size: int) -> Case:
    """Return a walk of forks of forks, of which each goes on, the deepest first."""
    names = [f"depth {i}" for i in range(depth)]
    walk = Walk([("append", names[0])] * (page_size + 1))
    walk += [("fork", *pair) for pair in pairwise(names)]
    for name in reversed(names):
        walk += [("append", name)] * 2
    walk += [("free", name) for name in names[::2]] + [("append", names[-1])]
    name = f"forks of forks, {depth} deep, pages of {page_size}"
    return Case(name, (2 * depth + 3, page_size, walk))


def _name(i: int) -> Hashable:
    """Return what a sequence is called: a text, a number or a tuple, some of them alike."""
    return _ALIKE[i] if i < len(_ALIKE) else (f"{i}", i, ("user", i))[i % 3]


# as texts, as truth values, or by their hashes
_ALIKE: tuple[Hashable, ...] = (0, "0", "", (), "1", 1, ("1",), (1,), -1, -2)


def _live(n_pages: int, page_size: int, walk: Walk) -> list[Hashable]:
    told = played(n_pages, page_size, walk)
    return [name for name, _ in told[-1][2]] if told else []


def _cases(rng: Generator) -> list[Case]:
    return [
        _case("one sequence of 5 tokens, pages of 2", 4, 2, "append a a a a a"),
        _case("two sequences in turns, pages of 2", 6, 2, "append a b a b b a a"),
        _case("the parent ends, the child goes on, pages of 2", 4, 2,
              "append a a a", "fork a b", "free a", "append c c b b c"),
        _case("a fork, then both grow, pages of 4", 6, 4,
              "append a a a", "fork a b", "append b a b a a b"),
        _case("a fork where the last page is full, pages of 2", 6, 2,
              "append a a", "fork a b", "append a b a b"),
        _case("17 tokens held by four, who each append one, pages of 16", 5, 16,
              "append" + 17 * " a", "fork a b", "fork b c", "fork a d", "append b a d c"),
        _case("full, and full again after one has ended, pages of 2", 3, 2,
              "append a a a b b b", "append c b a", "free a", "append c c c c c b", "free b c",
              "append d d d d d d d"),
        _case("full at the moment of a copy, pages of 2", 2, 2,
              "append a", "fork a b", "append c a b c", "fork c d", "append c d a", "free c",
              "append a d b b"),
        _case("another pool begins, of larger pages, pages of 2", 4, 2,
              "append a", f"{ANOTHER} b", "append a a a"),
        *(_random(rng, *pool, 70)
          for pool in ((5, 1), (4, 2), (6, 3), (5, 4), (8, 2))),
        *(_filled(*pool) for pool in ((9, 3), (30, 2), (300, 1))),
        _random(rng, 30, 2, 150, most=20),
        _from_every_page(5, 3),
        *(_random(rng, *pool, 70) for pool in ((12, 1), (30, 1), (20, 5))),
        *(_pages_of(page_size) for page_size in (1, 3, 16, 33, 64)),
        *(_forked_down(*how) for how in ((5, 4), (17, 2), (40, 3))),
        *(_held_by(holders) for holders in (3, 5, 9, 260)),
    ]  # fmt: skip


def _run(function: Any, case: Case) -> Observed:
    """Play a walk on one pool of the student's; after each call, read every sequence's table.

    Told are the tables that are others than after the call before.
    """
    *made_with, walk = case.args
    if complaint := misfit(function, *made_with):
        return Observed(f"PagePool(n_pages, page_size) cannot be made: {complaint}")
    pool, live, told = function(*made_with), list[Any](), list[Any]()
    shown = dict[Hashable, Any]()  # of each sequence: its table when it was last told
    for name, signature in _METHODS.items():
        method = getattr(pool, name, None)
        if not callable(method):
            return Observed(f"a PagePool has a method {name}{signature}; yours has none")
        if complaint := misfit(method, *signature.split(",")):
            return Observed(f"{name} is called as {name}{signature}; yours cannot be: {complaint}")
    for call, *names in walk:
        says, raised, tables = None, "", list[Any]()
        try:
            try:
                if call == "another.append":
                    function(*another(*made_with)).append(*names)
                else:
                    says = getattr(pool, call)(*names)
            except MemoryError:
                raised = "MemoryError"
            if call == "free":
                live.remove(names[0])
            elif call == "fork" or (call == "append" and not raised and names[0] not in live):
                live.append(names[-1])
            tables = [pool.table(name) for name in live]
            tables = [list(table) if hasattr(table, "__iter__") else table for table in tables]
        except NotImplementedError:
            raise
        except Exception as error:
            failure = Failure.of(error, function)
            told.append(("\n".join((failure.text, *failure.lines)), None, []))
            break
        says = says if call == "append" else None
        now = dict(zip(live, tables, strict=True))
        changed = [(name, table) for name, table in now.items() if not _same(shown, name, table)]
        told.append((raised, says, changed))
        shown = now
    return Observed(told)


def _same(shown: dict[Hashable, Any], name: Hashable, table: Any) -> bool:
    """Whether a table was told before; what cannot be compared is told again."""
    try:
        return name in shown and bool(shown[name] == table)
    except Exception:
        return False


def _first_fault(case: Case, told: Sequence[Told]) -> tuple[int, str, str] | None:
    """Return the number of the first call that goes wrong, its property and a sentence."""
    n_pages, page_size, walk = case.args
    reader = Reader(n_pages, page_size)
    right = played(n_pages, page_size, walk)
    for i, (call, mine, wanted) in enumerate(zip(walk, told, right, strict=False)):
        if fault := reader.fault(call, mine, wanted):
            return i, *fault
    return None


def _compared(case: Case, told: Any) -> str:
    """Return in words where a walk goes wrong, and whether that call copies.

    That is what mistakes are known by.
    """
    fault = None if isinstance(told, str) else _first_fault(case, told)
    if not fault:
        return _RIGHT
    says = told[fault[0]][1]
    copies = isinstance(says, tuple | list) and says[-1:] not in ((None,), [None])
    return f"call {fault[0]}: {fault[1]}{', and it copies' if copies else ''}"


def _judge(case: Case, observed: Observed, _: Any) -> Finding | None:
    told = observed.result
    if isinstance(told, str):
        return Finding("the signature", told)
    fault = _first_fault(case, told)
    if fault is None:
        whole = len(told) == len(case.args[-1])
        return None if whole else Finding(FORM, "a walk was not played to its end")
    last, broken, says = fault
    says, *lines = says.split("\n")  # of an exception
    answers = [
        raised.partition(":")[0] or ("" if answer is None else repr(answer))
        for raised, answer, _ in told[: last + 1]
    ]
    return Finding(
        broken,
        f"the last of these calls goes wrong: {says}",
        "\n".join([*lines, *as_code("PagePool", case, answers)]),
        look="play these calls by hand, with a sheet of paper for each page, and note after each "
        "of them who holds which sheet.",
    )


def _mistakes() -> list[Mistake]:
    """Return every slip in each of the orders in which free pages can be taken."""

    def model(slip: str, order: str) -> Callable[..., str]:
        def answer(n_pages: int, page_size: int, walk: Walk) -> str:
            if len(walk) > _LONG:
                raise ValueError("a long walk")
            told = played(n_pages, page_size, walk, slip, order)
            return _compared(Case("", (n_pages, page_size, walk)), told)

        return answer

    return [
        Mistake(name, says, model(slip, order)) for name, says, slip in SLIPS for order in ORDERS
    ]


EXERCISE = Exercise.of(
    "11.4",
    cases=_cases,
    truth=played,
    judge=_judge,
    run=_run,
    answer=lambda truth: _RIGHT,
    compared=_compared,
    spared=dict.fromkeys(HARD, "there are no scores, no tiles and no sums"),
    mistakes=tuple(_mistakes()),
    seconds=5.0,
)
