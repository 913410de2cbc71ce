"""Simulate lesson 12's requests with pages as they are needed: `simulated_serving.json`.

A lesson draws the run beside two simpler ones, in copies of the course, too, that do not hold the
policy. Nothing is measured: the clock is a cost model.
"""

from __future__ import annotations

import json
from dataclasses import astuple
from pathlib import Path
from typing import Any

from course_lib.accounting.serving import simulate
from course_lib.attention.scheduling import continuous
from course_lib.figures import serving

RECORD = Path("course_lib/accounting/measurements/simulated_serving.json")


def record() -> dict[str, Any]:
    """Return the record of the run."""
    run = simulate(
        continuous,
        serving.requests(),
        pages=serving.PAGES,
        page_size=serving.PAGE_SIZE,
        budget=serving.BUDGET,
    )
    return {
        "what": "a server simulated in steps, continuous batching with chunked prefill",
        "device": "none: a cost model of an H100",
        "command": "python benchmarks/serving.py",
        "fields": "at seconds prefill decode answered rows room waiting running preempted",
        "rows": [list(astuple(step)) for step in run.steps],
        "waits": [run.waits[i] for i in sorted(run.waits)],
        "seconds": run.seconds,
    }


if __name__ == "__main__":
    RECORD.write_text(json.dumps(record()) + "\n", encoding="utf-8")
