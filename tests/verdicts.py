"""Print the verdict table: what the check says of each submission of the corpus, one JSON a line.

make -s verdicts > before.jsonl
...a change that should change no verdict...
make -s verdicts > after.jsonl && diff before.jsonl after.jsonl
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch; one process for each core

import contextlib
import io
import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from corpus import corpus
from helpers import report_on

import course_lib  # noqa: F401  before triton: it chooses the mode


def row(id: str) -> list[str]:
    """Return [id, verdict, property, misconception] of a sample, at seed 1."""
    with contextlib.redirect_stdout(io.StringIO()):  # what a submission prints
        report = report_on(id)
    return [id, report.verdict.value, report.failed_property, report.misconception]


def main() -> None:
    ids = sorted(sample.id for kind in ("right", "wrong") for sample in corpus(kind))
    # forked from a process with torch's threads, a child can hang
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for one in pool.map(row, ids, chunksize=8):
            print(json.dumps(one, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
