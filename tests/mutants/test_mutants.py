"""A few mutants and rewrites of right programs; `make mutants`, `make rewrites` run them all."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from functools import cache

import pytest
from drawn import drawn, swept

from course_lib.classroom import grade_one
from course_lib.handin.submissions import Submission
from course_lib.specs import EXERCISES, find
from mutants import making, rewrites
from mutants.blocks import independent
from mutants.crew import Job, judged
from mutants.edits import Edit, Operator, Site, Source, edits, pairs
from mutants.making import (
    OPERATORS,
    Equivalent,
    Mutant,
    equivalents,
    explained,
    of_program,
    without_doubles,
)
from mutants.programs import programs

FEW = ("3.3", "4.2", "5.4", "7.2")  # exercises of which a few are run
# edits of the plain program that no check can let pass: each once in each of the few
DEADLY = ("the past is thrown away", "no maximum is subtracted", "base 2", "alpha is inverted")


def plain(exercise: str):
    return programs(exercise)[0]


def passed(chosen) -> list[str]:
    """Return the ids of those of the chosen that the check lets pass."""
    jobs = [Job(key, one.exercise, one.text, named=False) for key, one in enumerate(chosen)]
    return [chosen[job.key].id for job, outcome in judged(jobs, 1) if outcome.passed]


def nodes_at(source: Source, pattern: str) -> list[ast.AST]:
    """Return the nodes of a program that have a line in which a pattern is found."""
    lines = enumerate(source.text.splitlines(), 1)
    there = {number for number, line in lines if re.search(pattern, line.strip())}
    return [node for node in source.nodes if there.intersection(source.lines(node))]


def test_a_pattern_stands_for_any_expression_and_the_same_letter_for_the_same():
    halved = pairs("half", kind="mechanical", of=(("A + A", "A"),))
    assert [e.new for e in edits(halved, "y = (a[0] + a[0]) * (a + b)\n")] == ["y = a[0] * (a + b)"]


def test_left_arguments_are_kept_by_position_and_by_name():
    least = pairs("min", kind="mechanical", of=(("X.max(*A, **K)", "X.min(*A, **K)"),))
    (edit,) = edits(least, "m = s.max(1, keepdims=True)\n")
    assert edit.new == "m = s.min(1, keepdims=True)"


def test_every_operator_has_a_name_of_its_own_and_something_to_do():
    names = [operator.name for operator in (*OPERATORS, *rewrites.OPERATORS)]
    assert len(set(names)) == len(names)
    told = [plain(exercise) for exercise in ("7.4", "7-star", "5.3", "4.3", "1.2", "9.2")]
    sources = [Source(program.text) for program in (*told, *programs("4.6"))]
    every = (*OPERATORS, *rewrites.OPERATORS)
    idle = {o.name for o in every if not any(source.sites(o) for source in sources)}
    assert idle == set()


def test_a_seed_draws_the_same_sample_and_another_seed_another():
    first, again, other = (of_program(plain("4.2"), seed=seed, sample=9) for seed in (1, 1, 2))
    assert [m.id for m in first] == [m.id for m in again] != [m.id for m in other]


def test_equal_edits_of_equal_lines_count_once():
    two = programs("7.4")[:2]
    made = [m for program in two for m in of_program(program, OPERATORS[:12])]
    assert len(without_doubles(made)) < len(made)


KNOWN = [one for one in equivalents() if not one.pair]
ASKED = {"few": drawn(KNOWN, repr, one_in=8), "all": KNOWN}
source_of, programs_of = cache(Source), cache(programs)


@cache
def made(source: Source, operator: Operator, node: ast.AST) -> list[Edit | None]:
    return [source.edit(Site(operator, node, new)) for new in operator.change(node)]


def is_about_something(one: Equivalent) -> bool:
    goes = one.old or one.edit.partition(" -> ")[0]  # what stands in a line that it changes
    return any(
        one.explains(program.exercise, operator.name, edit.old, edit.new)
        for exercise in one.exercises or ("",)
        for program in programs_of(exercise)
        for source in [source_of(program.text)]
        for node in nodes_at(source, goes)
        for operator in OPERATORS
        if one.operator in ("", operator.name)
        for edit in filter(None, made(source, operator, node))
    )


@pytest.mark.parametrize("which", swept(ASKED, ["few"]))
def test_every_equivalent_mutant_is_still_one_of_some_exercise(which):
    """An entry that is about nothing any more would hide a survivor one day."""
    assert [one for one in ASKED[which] if not is_about_something(one)] == []


def test_a_pair_is_explained_if_both_of_its_edits_are():
    known = [Equivalent("one of them", operator="copy"), Equivalent("the other", new="late")]
    mutant = Mutant("7.4/plain", "7.4", "copy + swap", "pair", "", "", frozenset(), "")
    copied, late, lost = ("copy", "q", "q.clone()"), ("swap", "early", "late"), ("swap", "a", "b")
    assert explained(replace(mutant, parts=(copied, late)), known)
    assert not explained(replace(mutant, parts=(copied, lost)), known)


def test_stores_of_two_results_may_change_places_and_a_load_stays_behind_a_store():
    one, other, load = ast.parse("tl.store(o, x)\ntl.store(lse, y)\ny = tl.load(o)").body
    assert independent(one, other)
    assert not independent(one, load)


CODE = [exercise for exercise in EXERCISES if exercise.kind != "question"]
MUTATED = {"few": drawn(CODE, lambda one: one.id, group=lambda one: one.lesson), "all": CODE}


@pytest.mark.parametrize("which", swept(MUTATED, ["few"]))
def test_no_mutant_of_a_drawn_few_passes_unexplained(which):
    """`make mutants` asks it of all: what passes is killed by a case, or gets a reason."""
    few = [m for e in MUTATED[which] for m in of_program(plain(e.id), seed=1, sample=1)]
    known = equivalents()
    assert passed([mutant for mutant in few if not explained(mutant, known)]) == []


def test_an_entry_without_a_reason_is_refused(tmp_path):
    file = tmp_path / "equivalent.toml"
    file.write_text('[[equivalent]]\nold = "x"\nwhy = "so"\n')
    with pytest.raises(ValueError, match="needs a reason"):
        making.equivalents(file)


def test_deadly_mutants_die_and_what_hangs_or_crashes_is_contained():
    chosen = [
        mutant
        for exercise in FEW
        for mutant in of_program(plain(exercise), [o for o in OPERATORS if o.name in DEADLY])
    ]
    assert len(chosen) > 8
    assert passed(chosen) == []


def test_a_program_that_ends_its_process_fails_and_the_next_one_is_judged():
    right = plain("3.2").text
    jobs = [Job(0, "3.2", "import os\nos._exit(0)\n"), Job(1, "3.2", right)]
    ended = {job.key: outcome for job, outcome in judged(jobs, 1)}
    assert (ended[0].failed, ended[1].passed) == ("the process died", True)


SANDBOXED = (
    ("2.2", "answers: an array for two numbers"),
    ("2.2", "answers: fractions"),
    ("5.2", "operations imported by name"),
    ("5.2", "annotations are not evaluated"),
    ("6.4b", "a pointer loaded from a tensor"),
    ("7.4", "a run-time flag"),
)


@pytest.mark.parametrize(("exercise", "rewrite"), SANDBOXED)
@pytest.mark.few(2)
def test_rewrites_that_were_once_refused_get_their_points(exercise, rewrite, workshop, monkeypatch):
    draw = grade_one.draw_cases
    monkeypatch.setattr(grade_one, "draw_cases", lambda *asked: draw(*asked)[:3])
    monkeypatch.setattr(grade_one, "_compile", lambda *_: None)
    operators = [o for o in rewrites.OPERATORS if o.name == rewrite]
    (mutant, *_) = of_program(plain(exercise), operators)
    handed_in = Submission("ada", (("answer.py", mutant.text.encode()),))
    (line,) = grade_one.grade(workshop, handed_in, [find(exercise)], b"a secret")
    assert line["outcome"] == "passed", line["message"]


@pytest.mark.parametrize("exercise", swept(["3.2", "5.2", "6.3"], ["5.2"]))
def test_a_few_rewrites_of_right_programs_pass(exercise):
    chosen = of_program(plain(exercise), rewrites.OPERATORS, sample=8)
    assert {mutant.id for mutant in chosen} == set(passed(chosen))
