"""Simulate lesson 12's server at every place of its sliders: `simulated_serving.json`.

So the picture moves in a page without a kernel. Nothing is measured: the clock is a cost model.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from course_lib.attention.scheduling import continuous, refill, static
from course_lib.widgets.server_memory import WHOLE, serve_everywhere

RECORD = Path("course_lib/accounting/measurements/simulated_serving.json")


def record() -> dict[str, Any]:
    """Return the record: for each policy a run at every setting, condensed."""
    return {
        "what": "a server simulated in steps: static and continuous batching with room set aside, "
        "and continuous batching with pages as needed and prompts in chunks",
        "device": "none: a cost model of an H100",
        "command": "python benchmarks/serving.py",
        "fields": "policy, then pages every prompt, then what widgets/server_memory.py keeps",
        "rows": {
            "static batching": serve_everywhere(static, budget=WHOLE, reserves=True),
            "continuous batching": serve_everywhere(refill, budget=WHOLE, reserves=True),
            "pages and chunks": serve_everywhere(lambda most: continuous),
        },
    }


if __name__ == "__main__":
    RECORD.write_text(json.dumps(record(), separators=(",", ":")) + "\n", encoding="utf-8")
    print(RECORD.stat().st_size, "bytes")
