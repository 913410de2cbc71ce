"""What does the compiler say of the kernels that lessons compile? (no GPU) Shown where none is.

The lessons' own cells run, and each of their questions to the compiler is kept with its answer.
Usage: python benchmarks/compiled_lessons.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
import json
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

from _bench import RECORDS

import course_lib  # noqa: F401  first: it chooses Triton's mode
from course_lib.child import compiled

SOURCES = Path(__file__).parents[1] / "sources"
CELLS = {  # that compile, and those that they need
    "06_triton_in_two_dimensions": "imports two-kernels column-sums run-compile split-k-kernel "
    "run-race",
    "07_flash_attention_in_triton": "imports spills",
    "08_make_it_fast": "imports xray-tiles two-copies xray-copies",
}


def run_cells(lesson: str) -> None:
    """Run the cells of a lesson that compile, as a notebook does; raises what they raise."""
    from IPython.core.interactiveshell import InteractiveShell

    from course_lib.authoring.percent import read_cells

    shell = InteractiveShell.instance()
    shell.history_manager.enabled = False  # nothing of it is kept in the user's own
    cells = {cell.slug: cell.source for cell in read_cells(SOURCES / lesson / "lesson.py")}
    for slug in CELLS[lesson].split():
        shell.run_cell(cells[slug], store_history=True).raise_error()


def rows() -> list[dict[str, Any]]:
    """Return each question of the lessons to the compiler, with its answer."""
    found, run = [], compiled.run

    def kept(piece: Any, task: str, job: dict[str, Any], **how: Any) -> Any:
        result = run(piece, task, job, **how)
        key = compiled.key(piece, task, job)
        found.append({"of": piece.name, "key": key, "answer": result.value})
        return result

    with mock.patch.object(compiled, "run", kept):
        for lesson in CELLS:
            run_cells(lesson)
    return found


def main() -> None:
    """Compile, and write the record."""
    import torch
    import triton

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORDS)
    out = parser.parse_args().out
    record = {
        "question": "what the compiler says of the kernels that lessons compile",
        "device": f"none: compiled on a CPU ({platform.machine()}), not run",
        "versions": {"torch": torch.__version__, "triton": triton.__version__},
        "date": datetime.now(UTC).date().isoformat(),
        "command": "python benchmarks/compiled_lessons.py",
        "rows": rows(),
    }
    text = json.dumps(record, indent=1) + "\n"
    (out / f"{compiled.RECORD}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
