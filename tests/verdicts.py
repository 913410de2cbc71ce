"""Print the verdict table: what the check says of each submission of the corpus, one JSON a line.

make -s verdicts > before.jsonl
...a change that should change no verdict...
make -s verdicts > after.jsonl && diff before.jsonl after.jsonl

`verdicts.py --names` prints instead, for each exercise, how many wrong submissions that have a
name are told it; `verdicts.py --seeds=20` checks each right one at 20 seeds, and prints the
reports of those that do not pass; `verdicts.py --seeds=20 --wrong` prints the wrong ones that pass
at any of them: what is refused by chance only lacks a case that is always there. `verdicts.py 7.4
9.2` does each for these exercises only, `verdicts.py numpy` for all without a kernel.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch; one process for each core

import argparse
import contextlib
import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from corpus import Sample, corpus
from helpers import report_on

import course_lib  # noqa: F401  before triton: it chooses the mode
from course_lib.specs import EXERCISES


def row(id: str) -> list[str]:
    """Return [id, verdict, property, misconception] of a sample, at seed 1."""
    with contextlib.redirect_stdout(io.StringIO()):  # what a submission prints
        report = report_on(id)
    return [id, report.verdict.value, report.failed_property, report.misconception]


def rows(samples: list[Sample]) -> Iterator[list[str]]:
    """Yield a row for each sample, in order."""
    # forked from a process with torch's threads, a child can hang
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        yield from pool.map(row, [sample.id for sample in samples], chunksize=8)


def shares(samples: list[Sample]) -> Iterator[str]:
    """Yield a line for each exercise: how many mistakes were told by name, and which were not."""
    told: dict[str, Counter[str]] = defaultdict(Counter)
    for sample, (*_, name) in zip(samples, rows(samples), strict=True):
        what, expected = sample.expected
        expected = expected if what == "misconception" else ""
        share = "right" if name == expected else "wrong" if name else "unnamed"
        if name or expected:
            told[sample.exercise][share] += 1
        if name != expected:
            yield f"  {sample.id}: {name!r}, not {expected!r}"
    for exercise, counts in [*told.items(), ("all", sum(told.values(), Counter()))]:
        shown = ", ".join(f"{counts[share]} {share}" for share in ("right", "wrong", "unnamed"))
        yield f"{exercise:8} {shown}"


def unlucky(job: tuple[str, int]) -> str:
    """Return what is said of a right sample that fails at a seed, or of a wrong one that passes."""
    id, seed = job
    with contextlib.redirect_stdout(io.StringIO()):
        report = report_on(id, seed)
    if report.passed == ("/right/" in id):
        return ""
    return f"{id}, seed {seed}: passes" if report.passed else f"{id}, seed {seed}\n{report}\n"


def at_seeds(samples: list[Sample], seeds: int) -> Iterator[str]:
    """Yield what `unlucky` finds of each sample at seeds from 2 on, and how many checks ran."""
    jobs = [(sample.id, seed) for seed in range(2, seeds + 2) for sample in samples]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        yield from filter(None, pool.map(unlucky, jobs, chunksize=8))
    yield f"{len(jobs)} checks"


def main() -> None:
    text = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=text)
    parser.add_argument("exercises", nargs="*", metavar="exercise")
    parser.add_argument("--names", action="store_true")
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--wrong", action="store_true")
    options = parser.parse_args()
    if unknown := {*options.exercises} - {"numpy", *(one.id for one in EXERCISES)}:
        parser.error(f"no exercise: {', '.join(sorted(unknown))}")
    asked = options.exercises or ["*"]
    if "numpy" in asked:
        asked = [one.id for one in EXERCISES if one.kind not in ("kernel", "question")]
    only = options.wrong or options.names
    kinds = ("wrong",) if only else ("right",) if options.seeds else ("right", "wrong")
    samples = [sample for one in asked for kind in kinds for sample in corpus(kind, one)]
    samples.sort(key=lambda sample: sample.id)
    if options.seeds:
        lines = at_seeds(samples, options.seeds)
    elif options.names:
        lines = shares(samples)
    else:
        lines = (json.dumps(one, ensure_ascii=False) for one in rows(samples))
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
