"""The shortest walk that still fails, and how it is shown."""

from __future__ import annotations

from course_lib.judging.spec import Case
from course_lib.judging.walks import SHORTEST, Walk, as_code, is_walk, shortest


def a_case(n: int, calls: str) -> Case:
    return Case("drawn", (n, Walk((call,) for call in calls)))


def of(case: Case) -> tuple[int, str]:
    return case.args[0], "".join(call for (call,) in case.args[1])


def test_only_the_calls_that_are_needed_are_left_in_their_order():
    def fails(case: Case) -> bool:
        n, calls = of(case)
        return n >= 3 and "ab" in calls.replace("x", "") and calls.endswith("b")

    short = shortest(a_case(40, "xxaxbxxxaxxxxxxbxxxxb"), fails)
    assert of(short) == (3, "ab")
    assert short.name == SHORTEST


def test_a_walk_that_cannot_be_shortened_stays_as_it_is():
    case = a_case(3, "abc")
    assert shortest(case, lambda tried: of(tried) == (3, "abc")) is case


def test_it_takes_a_moment_at_most(monkeypatch):
    monkeypatch.setattr("course_lib.judging.walks.SECONDS", 0.0)
    case = a_case(3, "abc")
    assert shortest(case, lambda tried: True) is case


def test_the_lines_can_be_typed_and_say_what_was_answered():
    walk = Walk([("append", "a"), ("fork", "a", ("b", 1)), ("another.append", "a")])
    case = Case("", (4, 2, walk))
    assert is_walk(case)
    assert not is_walk(Case("", (4, 2)))
    assert as_code("PagePool", case, ["(0, 0, None)", ""]) == [
        "pool = PagePool(4, 2)",
        "pool.append('a')          # (0, 0, None)",
        "pool.fork('a', ('b', 1))",
    ]
    assert as_code("PagePool", case)[-1] == "PagePool(4, 3).append('a')"


def test_of_a_long_walk_the_end_is_shown():
    lines = as_code("Pool", Case("", (Walk([("go", i) for i in range(100)]),)))
    assert lines[0] == "pool = Pool()"
    assert lines[1] == "... 61 calls, then"
    assert lines[-1] == "pool.go(99)"
    assert len(lines) == 41
