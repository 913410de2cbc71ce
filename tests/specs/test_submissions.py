"""The corpus of submissions: every wrong one fails for its reason, every right one passes.

`tests/submissions/README.md` says how they are written.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator

import pytest
import triton
from corpus import Sample, corpus
from drawn import drawn
from helpers import report_on, says, words_of

from course_lib.judging.report import Verdict
from course_lib.specs import EXERCISES, find

CODE = [e for e in EXERCISES if e.kind != "question" and not e.draft]
KERNELS = {e.id for e in EXERCISES if e.kind == "kernel"}
LONG = {"9.6", "9-star"}  # each case goes forward and back through a class: seconds for a sample
FAILED = (Verdict.INCORRECT, Verdict.ERROR, Verdict.NOT_ON_A_GPU)


def name_of(sample) -> str:
    return f"{sample.exercise}-{sample.name}"


def those_that_wait() -> Iterator[str]:
    """Yield what `make test-slow` tries: a mistake made again in one exercise, or told elsewhere.

    A name is tried in the first and in the last exercise that tells it, if others tell it in none
    that takes long; of a kernel exercise's right submissions one in three is, of those one in six.
    """
    ends: dict[tuple[str, str], list[str]] = {}  # what is told -> its exercises, in order
    for one in corpus("wrong"):
        before = ends.setdefault(one.expected, [])
        if one.exercise in before:
            yield f"wrong {name_of(one)}"
        else:
            before.append(one.exercise)
    for one in corpus("wrong"):
        those = ends[one.expected]
        first, *_, last = 2 * ([exercise for exercise in those if exercise not in LONG] or those)
        if one.exercise not in (first, last):
            yield f"wrong {name_of(one)}"
    for exercise in KERNELS:
        few = 6 if exercise in LONG else 3
        yield from (
            f"right {name_of(one)}" for n, one in enumerate(corpus("right", exercise)) if n % few
        )


SLOW = set(those_that_wait())


def samples(kind: str) -> list[object]:
    """Return parameters: every sample of a kind, those that wait marked slow.

    Of the others `make test` tries one in twelve, of the wrong ones of each exercise one at least,
    of the right ones of each lesson two (solutions are tried by each lesson's own tests).
    """
    every = corpus(kind)
    others = [one for one in every if f"{kind} {name_of(one)}" not in SLOW]
    if kind == "wrong":
        few = drawn(others, text_of, group=exercise_of, one_in=12)
    else:
        few = drawn(others, text_of, group=lesson_of, few=2, one_in=12)
    tried, swept = ({one.id for one in these} for these in (few, others))

    def marks(one: Sample) -> list[object]:
        if one.id in tried:
            return []
        return [pytest.mark.sweep if one.id in swept else pytest.mark.slow]

    return [pytest.param(one, id=name_of(one), marks=marks(one)) for one in every]


def text_of(one: Sample) -> str:
    return one.id + one.text


def exercise_of(one: Sample) -> str:
    return one.exercise


def lesson_of(one: Sample) -> int:
    return find(one.exercise).lesson


@pytest.mark.parametrize("sample", samples("wrong"))
def test_every_wrong_submission_fails_for_its_reason(sample):
    report = report_on(sample)
    assert report.verdict in FAILED, report.text()
    what, name = sample.expected
    assert says(report, what) == name, report.text()


def test_every_name_and_every_exercise_is_among_those_that_do_not_wait():
    fast = [one for one in corpus("wrong") if f"wrong {name_of(one)}" not in SLOW]
    assert {one.expected for one in fast} == {one.expected for one in corpus("wrong")}
    each = Counter(one.exercise for one in fast)
    assert all(each[exercise] >= 3 for exercise in {one.exercise for one in corpus("wrong")})


@pytest.mark.parametrize("exercise", ["3.2", "3.3", "4.2", "4.6", "4-star", "5.4", "7.4"])
def test_who_multiplies_by_an_alpha_of_1_is_asked_for_the_old_maximum(exercise):
    """They believe the name no sooner: they do multiply."""
    says = words_of(report_on(f"{exercise}/wrong/m_updated_before_alpha"))
    assert "Keep the old one until alpha is computed" in says


WORDS = {  # what a report says where its property alone does not tell the mistake
    "2.2/wrong/widths_upside_down": "or the ratio of the two widths is upside down",
    "3.3/wrong/ends_before_the_first_key": "pass such a pile over and go on to the next",
    "4.2/wrong/ends_where_weights_vanish": "does the loop end early or leave a tile out",
    "4.3/wrong/all_rows_at_once": "are the rows of several taken together, or a copy of it?",
    "5.2/wrong/offsets_held_at_the_end": "of `x`, and some of them more than once",
    "5.3/wrong/largest_without_its_sign": "without its sign is subtracted (tl.abs)",
    "6.1/wrong/either_end_is_enough": "lets an entry through whose row or column exists",
    "6.2/wrong/a_product_for_each_half_of_d": "how many are there of one pair of tiles",
    "6.3/wrong/pointers_move_and_the_mask_does_not": "what is compared must move as well",
    "6.4b/wrong/at_most_512_programs": "is the number of programs bounded",
    "6.4b/wrong/nearly_all_in_one_program": "one of 2 programs that load anything loads nearly all",
    "9-star/wrong/dv_of_the_whole_p": "dV is made of P without its gaps",
}


@pytest.mark.parametrize("one", WORDS)
def test_a_property_of_several_mistakes_is_told_in_the_words_of_this_one(one):
    assert WORDS[one].lower() in words_of(report_on(one)).lower()


@pytest.mark.parametrize("sample", samples("right"))
def test_every_right_submission_passes(sample):
    """Written differently is not wrong, whatever was drawn: each has draws of its own."""
    report = report_on(sample, seed=zlib.crc32(sample.id.encode()))
    minor = ".".join(triton.__version__.split(".")[:2])
    if f"# Compiled, but not by Triton {minor}\n" in sample.text:
        assert report.verdict is Verdict.NOT_ON_A_GPU, report.text()
    else:
        assert report.passed, report.text()


@pytest.mark.parametrize("exercise", CODE, ids=lambda exercise: exercise.id)
def test_the_corpus_is_as_large_as_promised(exercise):
    wrong, right = (24, 8) if exercise.id == "7.4" else (8, 4 if exercise.kind == "kernel" else 1)
    assert len(corpus("wrong", exercise.id)) >= wrong
    assert len(corpus("right", exercise.id)) >= right
