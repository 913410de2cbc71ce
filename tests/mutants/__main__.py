"""`make mutants`: judge mutants of right programs, list those that pass. `make rewrites`: the rest.

    make mutants EXERCISE=7.4            all mutants of one exercise
    make mutants LESSON=07 JOBS=16       of a lesson, with 16 processes
    make mutants SAMPLE=50 SEED=2        50 of each exercise, drawn by a seed
    make mutants MINUTES=10              as many as there is time for, in a random order
    make mutants OUT=after.jsonl BEFORE=before.jsonl       and compare with an earlier run
    make rewrites                        rewrites of right programs, which must all pass

Ends with 1 if a mutant survives that is not in `equivalent.toml`, if an entry there is about
nothing any more, or if a right rewrite fails.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch; one process for each core

import argparse
import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from mutants import rewrites
from mutants.crew import Job, Outcome, judged
from mutants.making import OPERATORS, Mutant, equivalents, explained, of_program, without_doubles
from mutants.programs import Program, programs

Result = tuple[Mutant, Outcome]


def naming(mutant: Mutant, outcome: Outcome) -> str:
    """Return "right", "wrong" or "unnamed" for a mutant with a label, else "free, ...".

    A name is right if the operator's list has it; so is a property, where no mistake is named.
    What ends in an exception has that for a name, Triton's in our words: "exception".
    """
    if outcome.verdict == "error":
        return "exception"
    if not mutant.names:
        return "free, named" if outcome.misconception else "free, unnamed"
    if outcome.misconception:
        return "right" if outcome.misconception in mutant.names else "wrong"
    return "right" if outcome.failed in mutant.names else "unnamed"


def main() -> int:
    asked = _arguments()
    started = time.monotonic()
    mutants = drawn(asked)
    counts = Counter(mutant.exercise for mutant in mutants)
    print(f"{len(mutants)} programs of {len(counts)} exercises, {asked.jobs} processes, ", end="")
    print(f"made in {time.monotonic() - started:.0f} s", flush=True)
    results = list(run(mutants, asked, started))
    if asked.out:
        asked.out.write_text("".join(map(_line, results)), encoding="utf-8")
    bad = _report_rewrites(results) if asked.rewrites else _report_mutants(results, asked)
    print(f"{len(results)} of {len(mutants)} judged in {time.monotonic() - started:.0f} s")
    return int(bad)


def drawn(asked: argparse.Namespace) -> list[Mutant]:
    """Return the programs to be judged, in an order that the seed decides."""
    every = programs(asked.exercise, asked.lesson)
    with ProcessPoolExecutor(asked.jobs) as pool:
        made = [mutant for many in pool.map(partial(_made, asked), every) for mutant in many]
    made = without_doubles(made)
    random.Random(asked.seed).shuffle(made)
    if asked.sample:
        taken: Counter[str] = Counter()
        few = []
        for mutant in made:
            taken[mutant.exercise] += 1
            few += [mutant] if taken[mutant.exercise] <= asked.sample else []
        made = few
    return made


def _made(asked: argparse.Namespace, program: Program) -> list[Mutant]:
    operators = rewrites.OPERATORS if asked.rewrites else OPERATORS
    operators = tuple(o for o in operators if asked.operator in o.name)
    drawn = {"seed": asked.seed, "sample": asked.sample, "pairs": asked.pairs}
    return of_program(program, operators, **drawn)


def run(mutants: list[Mutant], asked: argparse.Namespace, started: float) -> Iterator[Result]:
    """Yield what came of each, until time is over; what passes is compiled for a GPU as well."""
    latest = started + 60 * asked.minutes if asked.minutes else float("inf")
    passed = []
    for job, outcome in judged(_jobs(mutants, asked.seed, latest), asked.jobs):
        if outcome.passed and asked.compile:
            passed.append(job.key)
        else:
            yield mutants[job.key], outcome
    again = (
        Job(key, mutants[key].exercise, mutants[key].text, 1 + asked.seed, compiled=True)
        for key in passed
    )
    for job, outcome in judged(again, asked.jobs):
        yield mutants[job.key], outcome


def _jobs(mutants: list[Mutant], seed: int, latest: float) -> Iterator[Job]:
    for key, mutant in enumerate(mutants):
        if time.monotonic() > latest:
            return
        yield Job(key, mutant.exercise, mutant.text, 1 + seed)


# Reports ----------------------------------------------------------------------------------------


def _report_mutants(results: list[Result], asked: argparse.Namespace) -> bool:
    known = [one for one in equivalents() if not (one.interpreted and asked.compile)]
    before = _survivors_in(asked.before)
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    survivors = []
    for mutant, outcome in results:
        row = rows[mutant.exercise]
        row["mutants"] += 1
        if not outcome.passed:
            row[naming(mutant, outcome)] += 1
        elif explained(mutant, known):
            row["equivalent"] += 1
        else:
            row["survivors"] += 1
            survivors.append(mutant)
    columns = ("mutants", "equivalent", "survivors", "right", "wrong", "unnamed",
               "free, named", "free, unnamed", "exception")  # fmt: skip
    _table(rows, columns, before)
    for mutant in sorted(survivors, key=lambda m: (m.exercise, m.operator)):
        print("SURVIVES", mutant.id)
    whole = not (asked.exercise or asked.lesson or asked.sample or asked.minutes or asked.operator)
    idle = [one for one in known if not any(one.holds(m) for m, _ in results)]
    idle = [one for one in idle if asked.pairs or not one.pair]
    for one in idle if whole else []:
        print("EQUIVALENT TO NOTHING ANY MORE", one)
    return bool(survivors or (whole and idle))


def _table(
    rows: dict[str, Counter[str]], columns: tuple[str, ...], before: dict[str, int] | None
) -> None:
    total: Counter[str] = Counter()
    heads = [*columns, *(["before"] if before is not None else [])]
    print("exercise  " + "  ".join(heads))
    for exercise in [*sorted(rows), "all"]:
        row = total if exercise == "all" else rows[exercise]
        numbers = [row[name] for name in columns]
        if before is not None:
            numbers.append(sum(before.values()) if exercise == "all" else before.get(exercise, 0))
        cells = (f"{n:>{len(head)}}" for n, head in zip(numbers, heads, strict=True))
        print(f"{exercise:8}  " + "  ".join(cells))
        total.update(row if exercise != "all" else {})
    named = total["right"] + total["wrong"] + total["unnamed"]
    if named:
        shares = (f"{total[how] / named:.1%} {how}" for how in ("right", "wrong", "unnamed"))
        print(f"of {named} with a label: {', '.join(shares)}")


def _report_rewrites(results: list[Result]) -> bool:
    refused = [(mutant, outcome) for mutant, outcome in results if not outcome.passed]
    counts = Counter(mutant.operator for mutant, _ in results)
    bad = Counter(mutant.operator for mutant, _ in refused)
    for operator, n in sorted(counts.items()):
        print(f"{operator:45} {n:6} rewritten {bad[operator]:6} refused")
    for mutant, outcome in refused:
        print("REFUSED", mutant.id[:200], "|", outcome.verdict, outcome.failed, outcome.text[:300])
    return bool(refused)


def _line(result: Result) -> str:
    mutant, outcome = result
    row = {
        "id": mutant.id, "exercise": mutant.exercise, "operator": mutant.operator,
        "kind": mutant.kind, "verdict": outcome.verdict, "property": outcome.failed,
        "misconception": outcome.misconception, "names": sorted(mutant.names),
        "naming": "" if outcome.passed else naming(mutant, outcome),
    }  # fmt: skip
    return json.dumps(row, ensure_ascii=False) + "\n"


def _survivors_in(file: Path | None) -> dict[str, int] | None:
    """Return how many of each exercise passed in an earlier run, None without one."""
    if file is None:
        return None
    rows: Iterable[dict] = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return Counter(row["exercise"] for row in rows if row["verdict"] == "passed")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutants", description="See tests/mutants/__main__.py.")
    parser.add_argument("--rewrites", action="store_true", help="right rewrites, not mutants")
    parser.add_argument("--exercise", default="")
    parser.add_argument("--lesson", type=int, default=0)
    parser.add_argument("--operator", default="", help="only those with this in their name")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=int, default=0, help="at most so many of each exercise")
    parser.add_argument("--pairs", type=int, default=0, help="pairs of edits of each program")
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--out", type=Path, help="what came of each, one JSON a line")
    parser.add_argument("--before", type=Path, help="what an earlier run wrote")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
