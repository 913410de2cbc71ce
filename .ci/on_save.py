"""Rebuild the notebooks and run the tests of the lessons whose files were saved (`make watch`).

    python .ci/on_save.py [NN]

NN chooses one lesson, whatever was saved. Without it the names of the saved files say which; a
file that belongs to no lesson has the notebooks built, and no more.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# sources/03_name/..., specs/lesson_03/..., test_lesson_03.py, tests/submissions/3.1/...
_NAMES = re.compile(r"(?:/|lesson_)(\d\d)(?=[_/.])|submissions/(\d+)(?=[.-])")


def lessons(files: Iterable[str]) -> set[str]:
    """Return the lessons, as two digits, that these files belong to."""
    found = (match for file in files for match in _NAMES.finditer(file))
    return {(match[1] or match[2]).zfill(2) for match in found}


def saved() -> list[str]:
    """Return the files that `watchfiles` says have changed, below the course's folder."""
    changes = json.loads(os.environ.get("WATCHFILES_CHANGES") or "[]")
    return [os.path.relpath(file, ROOT) for _kind, file in changes]


def main() -> int:
    """Build, run the tests, return the first status that is not 0."""
    wanted = sorted(set(sys.argv[1:]) or lessons(saved()))
    bin_folder = Path(sys.executable).parent
    status = subprocess.run([bin_folder / "course", "build"], cwd=ROOT).returncode
    if status or not wanted:
        return status
    chosen = [word for lesson in wanted for word in ("--lesson", lesson)]
    tests = [sys.executable, "-m", "pytest", "-x", "-m", "not gpu and not slow and not browser"]
    print("lesson", *wanted, flush=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([*tests, *chosen], cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # Ctrl-C, or the next save
        sys.exit(130)
