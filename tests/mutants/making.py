"""Draw mutants of right programs, each with its place in the list of equivalent ones."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from mutants import algorithmic, mechanical, misreadings
from mutants.edits import Edit, Operator, Site, Source
from mutants.programs import Program

OPERATORS = (*algorithmic.OPERATORS, *misreadings.OPERATORS, *mechanical.OPERATORS)
# Labels are about weights, tiles and products: in an answer that counts, the same edit is another
# mistake.
_COMPUTES = re.compile(r"exp|softmax| @ |load\(|dot\(|einsum|matmul")
_EQUIVALENT = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True)
class Mutant:
    """A right program with one edit, or two (``names`` are then none, ``parts`` are the two)."""

    program: str  # its id
    exercise: str
    operator: str
    kind: str
    old: str
    new: str
    names: frozenset[str]
    text: str
    parts: tuple[tuple[str, str, str], ...] = ()  # (operator, old, new)

    @property
    def id(self) -> str:
        return f"{self.program} | {self.operator} | {self.old} -> {self.new}"


@dataclass(frozen=True)
class Equivalent:
    """Mutants that are right, and why: those of some exercises that match the expressions.

    ``edit`` is about both sides, "old -> new", so that it can ask that the rest is the same.
    ``interpreted``: they pass in the interpreter alone, compiling refuses them. ``pair``: it is
    about two edits together.
    """

    why: str
    operator: str = ""
    exercises: tuple[str, ...] = ()
    old: str = ""
    new: str = ""
    edit: str = ""
    interpreted: bool = False
    pair: bool = False

    def holds(self, mutant: Mutant) -> bool:
        """Return whether this is about a mutant as a whole."""
        return self.explains(mutant.exercise, mutant.operator, mutant.old, mutant.new)

    def explains(self, exercise: str, operator: str, old: str, new: str) -> bool:
        """Return whether this is about an edit (the expressions are searched for in it)."""
        return (
            (not self.exercises or exercise in self.exercises)
            and self.operator in ("", operator)
            and bool(
                re.search(self.old, old)
                and re.search(self.new, new)
                and re.search(self.edit, f"{old} -> {new}")
            )
        )


def explained(mutant: Mutant, known: Sequence[Equivalent]) -> bool:
    """Return whether a mutant is in the list; a pair is as well if both of its edits are."""
    if mutant.parts and any(one.pair and one.holds(mutant) for one in known):
        return True
    single = [one for one in known if not one.pair]
    parts = mutant.parts or ((mutant.operator, mutant.old, mutant.new),)
    return all(any(one.explains(mutant.exercise, *part) for one in single) for part in parts)


def equivalents(file: Path = _EQUIVALENT) -> list[Equivalent]:
    """Return the list of equivalent mutants. Raises ValueError where an entry has no reason."""
    entries: list[dict[str, Any]] = tomllib.loads(file.read_text("utf-8")).get("equivalent", [])
    known = [Equivalent(**{**e, "exercises": tuple(e.get("exercises", ()))}) for e in entries]
    if unclear := [
        e for e in known if len(e.why) < 20 or not (e.operator or e.old or e.new or e.edit)
    ]:
        raise ValueError(f"an equivalent mutant needs a reason and a place: {unclear[0]}")
    return known


def of_program(
    program: Program,
    operators: Iterable[Operator] = OPERATORS,
    *,
    seed: int = 0,
    sample: int = 0,
    pairs: int = 0,
) -> list[Mutant]:
    """Return the mutants with one edit, all or a ``sample``, and ``pairs`` with two.

    What is drawn by ``seed`` is drawn in turn from each operator, so that those with many places
    do not outnumber the rest.
    """
    rng = random.Random(f"{seed} {program.id}")
    source = Source(program.text)
    sites = _in_turn([source.sites(operator) for operator in operators], rng)
    if sample:
        sites = sites[:sample]
    made = [edit for site in sites if (edit := source.edit(site))]
    algorithms = [edit for edit in made if edit.operator.kind == "algorithmic"]
    mutants = [_mutant(program, edit) for edit in made]
    for _ in range(pairs if algorithms else 0):
        mutants += _pair(program, rng.choice(algorithms), rng.choice(sites).operator, rng)
    return list({mutant.text: mutant for mutant in reversed(mutants)}.values())[::-1]


def _in_turn(many: list[list[Site]], rng: random.Random) -> list[Site]:
    """Return all sites in a random order, in which each operator has its turn."""
    for sites in many:
        rng.shuffle(sites)
    rng.shuffle(many)
    return [site for turn in zip_longest(*many) for site in turn if site is not None]


def _pair(program: Program, one: Edit, operator: Operator, rng: random.Random) -> Iterator[Mutant]:
    """Yield ``one`` with another edit on top, if the operator has any that does not undo it."""
    source = Source(one.text)
    sites = source.sites(operator)
    other = source.edit(rng.choice(sites)) if sites else None
    if other is not None and other.text != Source(program.text).text:
        yield Mutant(
            program.id,
            program.exercise,
            f"{one.operator.name} + {other.operator.name}",
            "pair",
            f"{one.old} + {other.old}",
            f"{one.new} + {other.new}",
            frozenset(),
            other.text,
            tuple((e.operator.name, e.old, e.new) for e in (one, other)),
        )


def _mutant(program: Program, edit: Edit) -> Mutant:
    operator = edit.operator
    place = (program.id, program.exercise, operator.name, operator.kind, edit.old, edit.new)
    names = operator.names if _COMPUTES.search(program.text) else frozenset[str]()
    return Mutant(*place, names, edit.text)


def without_doubles(mutants: Iterable[Mutant]) -> list[Mutant]:
    """Keep of each exercise one mutant with the same edit of the same lines: of the plain program.

    Most right submissions are edits of the plain one, and share most of its lines.
    """
    kept: dict[tuple[str, ...], Mutant] = {}
    for mutant in mutants:
        key = (mutant.exercise, mutant.operator, mutant.old, mutant.new)
        kept.setdefault(key, mutant)
    return list(kept.values())
