"""Print how much of each room of course_lib the tests ran (`make coverage`), the least first.

Counted is what ran in the tests' own processes. What runs in children only (kernels in Triton's
compiler, the sandbox's side of grading, notebooks) is not, so a low number there is no alarm.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path


def main() -> None:
    """Read .coverage and print a line a room."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "coverage.json"
        command = [sys.executable, "-m", "coverage", "json", "-q", "-o", str(file)]
        subprocess.run(command, check=True)
        files = json.loads(file.read_text())["files"]
    ran, lines = Counter(), Counter()
    for name, found in files.items():
        room = Path(name).relative_to("course_lib").parts[0]
        ran[room] += found["summary"]["covered_lines"]
        lines[room] += found["summary"]["num_statements"]
    ran["all"], lines["all"] = ran.total(), lines.total()
    for room in sorted((room for room in lines if lines[room]), key=lambda r: ran[r] / lines[r]):
        print(
            f"{room:20} {ran[room]:6} of {lines[room]:6} statements {ran[room] / lines[room]:6.1%}"
        )


if __name__ == "__main__":
    main()
