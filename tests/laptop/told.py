"""What the checks say of solutions and submissions, and which bytes their ledgers count.

`python told.py ID...` prints a JSON list; an id is of the corpus, or "solution/7.4".
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch

import contextlib
import io
import json
import sys
import time
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers import report_on, solutions

from course_lib import checking
from course_lib.accounting.kernel_ledger import KernelLedger
from course_lib.judging import shrink
from course_lib.specs import find


def told(id: str) -> dict[str, object]:
    """Return the verdict on one, the names of its mistake, every ledger's totals, CPU seconds.

    Nothing is compiled, and no smaller input is looked for: that takes as long as it may.
    """
    books, started = [], time.process_time()
    leave = KernelLedger.__exit__

    def closed(ledger: KernelLedger, *error: object) -> None:
        books.append([dict(ledger.read), dict(ledger.written), ledger.flops])
        leave(ledger, *error)

    with (
        contextlib.redirect_stdout(io.StringIO()),  # what a submission prints
        mock.patch.object(KernelLedger, "__exit__", closed),
        mock.patch.object(shrink, "SECONDS", -1.0),
        mock.patch.object(checking, "_compiled", lambda report, *_: report),
    ):
        report = of_a_solution(id) if id.startswith("solution/") else report_on(id)
    return {
        "id": id,
        "verdict": report.verdict.value,
        "property": report.failed_property,
        "misconception": report.misconception,
        "ledgers": books,
        "seconds": time.process_time() - started,
    }


def of_a_solution(id: str) -> checking.Report:
    exercise = find(id.removeprefix("solution/"))
    solved = getattr(solutions(exercise.lesson), exercise.function)
    return checking.report_for(solved, seed=1)


if __name__ == "__main__":
    json.dump([told(id) for id in sys.argv[1:]], sys.stdout)
