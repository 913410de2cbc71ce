"""A name is said only where nothing seen speaks against it, and as a fact only where confirmed."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import wraps

import numpy as np
import pytest
import torch
from corpus import sample
from helpers import first_cases, function_of, renamed, words_of

from course_lib.attention.truth import attention_float64
from course_lib.judging import engine
from course_lib.judging.attention_judge import attention_judge
from course_lib.judging.hosts.here import Here
from course_lib.judging.judges import array_finding
from course_lib.judging.misconceptions import attention_mistakes
from course_lib.judging.misread import Model
from course_lib.judging.recognise import recognise
from course_lib.judging.report import Verdict
from course_lib.judging.seen import Seen, is_formula
from course_lib.judging.spec import Case
from course_lib.judging.tolerance import rounded, same
from course_lib.specs import EXERCISES, find

CERTAIN = "This looks like a known mistake: "


FLASH = find("7.4")


def right(q, k, v, causal=False):
    """Return (o, lse) as a launcher does; no kernel is needed where the numbers are wrong."""
    o, lse = attention_float64(q, k, v, causal=causal)
    return torch.from_numpy(o).to(q.dtype), torch.from_numpy(lse).float()


def final(change):
    """Return the report on 7.4 answered by ``change(q, k, v, o, lse, causal)``."""

    def launcher(q, k, v, *, causal=False, block_q=64, block_k=64):
        return change(q, k, v, *right(q, k, v, causal), causal)

    return report_on(FLASH, launcher)


def report_on(exercise, function):
    """Judge the numbers alone: whether a kernel computed them is asked elsewhere."""
    judge = attention_judge(with_lse=exercise.id == "7.4", in_dtype=True)
    numbers = replace(exercise, judge=judge, kind="torch")
    cases = exercise.cases(np.random.default_rng(7))
    return engine.first_failure(numbers, Here(numbers, function), cases)


def parts(q, k, causal):
    """Return m and l of every row."""
    s = (q.double() @ k.double().mT) / q.shape[-1] ** 0.5
    if causal:
        n_q, n_k = s.shape[-2:]
        s = s.masked_fill(torch.ones(n_q, n_k, dtype=torch.bool).triu(n_k - n_q + 1), -torch.inf)
    m = s.amax(-1)
    return m, torch.exp(s - m.clamp(min=-1e300)[..., None]).sum(-1)


def log_of_both(q, k, v, o, lse, causal):
    m, l_sum = parts(q, k, causal)
    return o, torch.log(m + l_sum).float()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda q, k, v, o, lse, causal: (o, 0 * lse.nan_to_num()), "lse is 0"),
        (lambda q, k, v, o, lse, causal: (o, lse.nan_to_num(neginf=0.0)),
         "lse of a row without keys is 0"),
        (log_of_both, "lse is ln(m + l)"),
    ],
)  # fmt: skip
def test_nothing_is_said_that_a_right_o_refutes(change, name):
    """These were called softmax over the wrong axis, a maximum from 0, an inverted alpha."""
    assert final(change).misconception == name


def test_a_number_that_happens_to_fit_is_no_name():
    """1/8 is 1/sqrt(n_k) where n_k is 64, and nowhere else."""

    def one_tile_attention(q, k, v):
        return right(q * q.shape[-1] ** 0.5 / 8, k, v)[0]

    report = report_on(find("7.1"), one_tile_attention)
    assert (report.failed_property, report.misconception) == ("the values", "")


def test_two_slips_are_told_together():
    def both(q, k, v, o, lse, causal):
        o, lse = right(q * q.shape[-1] ** 0.5, k, v, causal)
        return o, lse / np.log(2)

    report = final(both)
    assert report.misconception == "the scale is missing; lse in base 2"
    assert CERTAIN + "the scale is missing; lse in base 2." in words_of(report)


def test_half_precision_is_told_from_a_small_mistake():
    """Numbers rounded to float16 or bfloat16; a factor as small has no name."""
    for dtype in (torch.float16, torch.bfloat16):
        report = final(lambda q, k, v, o, lse, causal, t=dtype: (o.to(t).to(o.dtype), lse))
        assert report.misconception == "half precision"
    report = final(lambda q, k, v, o, lse, causal: (o * 1.001, lse))
    assert (report.failed_property, report.misconception) == ("the values", "")
    one_sided = np.linspace(0.5, 1, 40)
    assert not rounded(one_sided + 1e-4, one_sided)


@pytest.mark.parametrize("id", ["9.3", "10.2", "10.3", "10-star", "11-star", "12.1"])
def test_float32_on_the_way_is_seen_where_float64_is_given(id):
    """And told, where the first case is in float64 and has no hard scores."""
    exercise = find(id)
    solved = function_of(sample(f"{id}/right/plain"))

    def short(x):
        if isinstance(x, np.ndarray) and x.dtype == np.float64:
            return x.astype(np.float32).astype(x.dtype)
        if getattr(x, "dtype", None) == torch.float64:
            return x.float().double()
        return x

    @wraps(solved)
    def rounds(*args, **kwargs):
        return solved(short(args[0]), *args[1:], **kwargs)

    report = report_on(exercise, rounds)
    assert report.verdict is Verdict.INCORRECT
    assert report.misconception == ("single precision" if id == "9.3" else "")


@pytest.mark.parametrize(("off", "asked"), [(1e-7, False), (1e-4, True)])
def test_whose_number_is_right_is_not_run_again_to_see_it_rounded(off, asked):
    """A race, say, is told of numbers that are right; dozens of further runs would say nothing."""
    exercise, ran = find("6.4b"), []
    (case, *_) = exercise.cases(np.random.default_rng(1))
    failed = replace(Seen.of(exercise, case), passed=False)
    failed = replace(failed, result=torch.from_numpy(failed.answer * (1 + off)).float())
    assert recognise(exercise, [failed], ran.append) is None
    assert bool(ran) is asked


def test_two_numbers_that_differ_late_are_shown_so():
    finding = array_finding(np.full(3, 1 + 2e-9), np.ones(3), allowed=1e-9)
    assert "yours 1.000000002, expected 1" in finding.where


# The rules themselves ----------------------------------------------------------------------------

SHAPES = [(5, 7), (6, 4), (9, 9)]


def cases(seed=0):
    rng = np.random.default_rng(seed)
    return [
        Case(f"{n_q} and {n_k}", tuple(rng.standard_normal((n, 4)) for n in (n_q, n_k, n_k)),
             {"causal": True, "block_q": 4, "block_k": 2})
        for n_q, n_k in SHAPES
    ]  # fmt: skip


def seen(case, function):
    answer = attention_float64(*case.args, causal=True)
    return Seen(FLASH, case, answer, function(*case.args, **case.kwargs), passed=False)


def named(name):
    return next(m for m in attention_mistakes(with_lse=True) if m.name == name)


@pytest.mark.parametrize("name", ["the scale is missing", "lse is ln(l)", "only one diagonal tile"])
def test_a_case_that_passed_refutes_what_would_show_in_it(name):
    mistake = named(name)
    last = seen(cases()[0], mistake.model)
    told = recognise(FLASH, [last], lambda case: mistake.model(*case.args, **case.kwargs))
    assert told.mistake.name == name
    passed = [Seen(FLASH, case, attention_float64(*case.args, causal=True)) for case in cases(1)]
    refuted = recognise(FLASH, [*passed, last], lambda case: None)
    assert refuted is None or name not in refuted.mistake.name


def test_it_is_a_fact_only_where_two_more_cases_confirm_it():
    mistake = named("the scale is missing")
    last = seen(cases()[0], mistake.model)
    assert recognise(FLASH, [last], lambda case: mistake.model(*case.args, **case.kwargs)).certain
    assert not recognise(FLASH, [last], lambda case: None).certain  # it ends in an exception
    other = named("the mask is missing")
    coincidence = recognise(FLASH, [last], lambda case: other.model(*case.args, **case.kwargs))
    assert coincidence.mistake.name == "hidden keys are seen"  # which is true of the other


def test_two_about_the_same_thing_are_no_pair():
    models = {m.name: m.model for m in attention_mistakes(with_lse=True)}
    scale, twice, lse = (models[n] for n in ("the scale is missing", "scaled twice", "lse is m"))
    assert isinstance(scale, Model)
    assert scale.beside(twice) is None
    q, k, v = cases()[0].args
    both = scale.beside(lse)(q, k, v)
    np.testing.assert_allclose(both[0], scale(q, k, v)[0])
    np.testing.assert_allclose(both[1], (q @ k.T).max(-1))


@pytest.mark.parametrize("call", [{"causal": True, "block_q": 4, "block_k": 2}, {"block_k": 3}])
def test_what_is_computed_once_for_several_models_is_what_each_of_them_makes(call):
    """Nor does a model write to its arguments, which all of them are given."""
    args = cases()[1].args  # rows without a key
    before = [x.copy() for x in args]
    every = [m.model for m in attention_mistakes(with_lse=True)]
    fewer = {model.as_called(**call) for model in every}
    assert len(fewer) < len(every)
    for model in every[::3]:
        with np.errstate(all="ignore"):
            made, alike = made_by(model, args, call), made_by(model.as_called(**call), args, call)
        np.testing.assert_array_equal(made, alike)
    for x, copy in zip(args, before, strict=True):
        np.testing.assert_array_equal(x, copy)


@pytest.mark.parametrize("which", [0, 1])
def test_a_model_s_twins_give_its_answer(which):
    """In both cases there are some, and some that only look like it."""
    args, call = cases()[which].args, {"causal": True, "block_q": 4, "block_k": 2}
    twins, others = 0, 0
    for model in [m.model for m in attention_mistakes(with_lse=True)][::2]:
        with np.errstate(all="ignore"):
            made = made_by(model, args, call)
            alike = model.with_twins(*args, **call)[1] if made.size else []
            for twin in alike:
                np.testing.assert_array_equal(made_by(twin, args, call), made)
        twins += len(alike) - 1
        others += made.size and len(alike) < 4
    assert twins > 10
    assert others > 10


def made_by(model, args, call):
    """Return o with lse as its last column, an empty array where the model cannot be."""
    try:
        o, lse = model(*args, **call)
    except Exception:
        return np.empty(0)
    return np.hstack([o, lse[:, None]])


FORMULAS = [e for e in EXERCISES if all(map(is_formula, first_cases(e)))]


@pytest.mark.parametrize("exercise", FORMULAS, ids=lambda exercise: exercise.id)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_cases_of_a_formula_tell_any_two_of_its_mistakes_apart(exercise, seed):
    seen = [Seen.of(exercise, case) for case in exercise.cases(np.random.default_rng(seed))]
    made = [(m.name, [one.made_by(m).answer for one in seen]) for m in exercise.mistakes]
    for (name, a), (other, b) in itertools.combinations(made, 2):
        assert name == other or not all(map(same, a, b)), (name, other)


def doubled(x):
    """Return an answer with twice each of its numbers; words stay."""
    if isinstance(x, dict):
        return {key: doubled(value) for key, value in x.items()}
    if isinstance(x, tuple | list):
        return type(x)(map(doubled, x))
    return x if x is None or isinstance(x, bool | str) else 2 * x


@pytest.mark.parametrize("exercise", FORMULAS, ids=lambda exercise: exercise.id)
@pytest.mark.few(3)
def test_a_formula_is_not_given_the_name_of_what_it_agrees_with_only_where_that_shows(exercise):
    """Where the mistake makes no difference, it is wrong all the same: no name is true of it."""
    drawn = [Seen.of(exercise, case) for case in exercise.cases(np.random.default_rng(2))]
    for mistake in exercise.mistakes:

        def mixed(case, mistake=mistake):
            one = Seen.of(exercise, case)
            made = one.made_by(mistake).answer
            return doubled(one.answer) if same(made, one.answer) else made

        shown = [not same(one.made_by(mistake).answer, one.answer) for one in drawn]
        hidden = [one.answer for one, here in zip(drawn, shown, strict=True) if not here]
        if all(shown) or all(same(doubled(answer), answer) for answer in hidden):
            continue
        if not any(shown):  # a few bytes too many of millions: `same` is not as strict as 1.3
            continue
        failed = drawn[shown.index(True)]
        assert recognise(exercise, [failed.answered(mixed(failed.case))], mixed) is None, mistake


BEYOND = (10**400, 10**5000, -(10**400), [10**400] * 2, (1e308, -1e308), np.array([1e308]))


@pytest.mark.parametrize("slug", ["trip_bytes", "least_bytes", "stream_denominator"])
@pytest.mark.parametrize("answer", BEYOND, ids=lambda x: type(x).__name__)
def test_a_number_beyond_float64_is_wrong_and_nothing_else(slug, answer, recwarn):
    """Of such a list the desk raised, and the factor of such a float overflowed."""
    report = renamed(lambda *_args, **_kwargs: answer, slug)
    assert not report.passed
    assert not [str(w.message) for w in recwarn if "overflow" in str(w.message)]
