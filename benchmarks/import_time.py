"""How long `import course_lib` takes on top of a bare interpreter. Goal: 0.15 s.

    python benchmarks/import_time.py

Bare and importing runs alternate, so that a busy moment of the machine hits both.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

RUNS = 25
GOAL = 0.15  # seconds


def main() -> int:
    """Print both medians with their spread; return 1 if the goal is missed."""
    seconds(""), seconds("import course_lib")  # warm the file cache, write the bytecode
    pairs = [(seconds(""), seconds("import course_lib")) for _ in range(RUNS)]
    bare, whole = ([pair[i] for pair in pairs] for i in (0, 1))
    extra = statistics.median(w - b for b, w in pairs)
    ratio = statistics.median(w / b for b, w in pairs)
    print(f"bare python        {described(bare)}")
    print(f"import course_lib  {described(whole)}")
    verdict = "met" if extra <= GOAL else "missed"
    print(f"the import: {extra:.3f} s, {ratio:.2f}x bare; goal {GOAL} s {verdict} ({RUNS} runs)")
    return 0 if extra <= GOAL else 1


def seconds(code: str) -> float:
    """Return the wall-clock seconds of one fresh interpreter running ``code``."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def described(times: list[float]) -> str:
    """Return median and quartiles in seconds."""
    low, middle, high = statistics.quantiles(times, n=4)
    return f"median {middle:.3f} s, quartiles {low:.3f} to {high:.3f} s"


if __name__ == "__main__":
    sys.exit(main())
