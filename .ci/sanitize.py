"""Run every kernel at small sizes under compute-sanitizer: a table of what it found. (GPU)

    python .ci/sanitize.py [NAME ...] [--tools memcheck racecheck] [--jobs 4]

A first run without the sanitizer compiles all kernels into Triton's cache; then each kernel runs
alone (tests/kernels/small_run.py) under each tool, with PyTorch's caching allocator off, which
would hide an overrun in its pool. Exits with 1 unless every cell is 0. The tools' own words lie in
--logs.

Rung 8 parts its warps (`gl.warp_specialize`), and racecheck reports hazards there whose ends all
lie in code that the compiler adds: on the kernel's `def` line, or where the warps part. They are
counted apart, for they are the tool's: one end reads which part a warp is to take, the other writes
that for the next time, and in the machine code a barrier of the whole block stands before and
behind either. Two controls share nothing at all: `dispatch` shows none, and `dispatch_and_meet`,
whose warps also meet in fours at a barrier of their own, shows the same report.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SMALL_RUN = ROOT / "tests" / "kernels" / "small_run.py"
NAMES = (
    *("teaching", *(f"rung_{i}" for i in range(1, 9)), "forward", "backward"),
    "backward_by_hand",
    *("flash_decode", "paged_decode", "dispatch", "dispatch_and_meet"),
)
TOOLS = ("memcheck", "racecheck")
# "ERROR SUMMARY: 0 errors", "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"
SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:errors?|hazards?)")
# one "Error: Race reported ..." and the lines that belong to it
HAZARD = re.compile(r"Race reported between .*(?:\n=+ +and .*)*")
ENVIRONMENT = {
    **os.environ,
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(ROOT),
}


def sanitize(name: str, tool: str, logs: Path, seconds: float) -> tuple[str, float]:
    """Return what the tool counted ("0", "3", "timeout", "failed: ...") and the seconds."""
    command = ["compute-sanitizer", "--tool", tool, "--target-processes", "application-only"]
    command += [sys.executable, str(SMALL_RUN), name]
    begun = time.perf_counter()
    log = logs / f"{name}-{tool}.txt"
    with log.open("w") as file:
        try:
            done = subprocess.run(
                command, env=ENVIRONMENT, stdout=file, stderr=subprocess.STDOUT, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return "timeout", time.perf_counter() - begun
    seconds = time.perf_counter() - begun
    return verdict(log.read_text(errors="replace"), name, done.returncode), seconds


def verdict(text: str, name: str, status: int) -> str:
    """Return the count of the tool's summary, or what went wrong before there was one."""
    found = SUMMARY.findall(text)
    if not found:
        return "failed: no summary"
    if f"{name}: finite" not in text or (found[-1] == "0" and status != 0):
        return f"failed: exit {status}"
    apart = sum(map(in_the_compilers_code, HAZARD.findall(text)))
    return f"{int(found[-1]) - apart}" + (f" (+{apart} in the compiler's code)" if apart else "")


def in_the_compilers_code(hazard: str) -> bool:
    """Return whether every end of a hazard lies where the compiler starts parted warps."""
    ends = re.findall(r"in (\S+):(\d+)", hazard)
    return bool(ends) and all(made_by_the_compiler(file, int(line)) for file, line in ends)


def made_by_the_compiler(file: str, line: int) -> bool:
    """Return whether a line of a kernel's file begins a kernel or parts its warps."""
    (path,) = [path for path in ROOT.rglob(file) if ".env" not in str(path)]
    lines = [text.strip() for text in path.read_text(encoding="utf-8").splitlines()]
    return lines[line - 1].startswith("def ") or "gl.warp_specialize(" in lines[line - 1 : line + 1]


def main() -> int:
    """Compile, run all, print the table; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--tools", nargs="*", default=TOOLS, help="also: initcheck, synccheck")
    parser.add_argument("--jobs", type=int, default=4, help="sanitizers at a time")
    parser.add_argument("--seconds", type=float, default=240, help="limit of one run")
    parser.add_argument("--logs", type=Path, default=Path(tempfile.gettempdir()) / "sanitizer")
    asked = parser.parse_args()
    names = asked.names or list(NAMES)
    if unknown := set(names) - set(NAMES):
        sys.exit(f"NAME must be one of {', '.join(NAMES)}; got {', '.join(sorted(unknown))}.")
    if shutil.which("compute-sanitizer") is None:
        sys.exit("compute-sanitizer is not on the PATH: it needs an NVIDIA GPU and CUDA's tools.")
    asked.logs.mkdir(parents=True, exist_ok=True)
    warm = subprocess.run([sys.executable, str(SMALL_RUN), *names], env=ENVIRONMENT)
    if warm.returncode:
        sys.exit("the kernels failed already without the sanitizer.")
    with ThreadPoolExecutor(asked.jobs) as pool:
        running = {
            (name, tool): pool.submit(sanitize, name, tool, asked.logs, asked.seconds)
            for name in names
            for tool in asked.tools
        }
        found = {key: future.result() for key, future in running.items()}
    print(f"{'kernel':14}" + "".join(f"{tool:>28}" for tool in asked.tools))
    for name in names:
        cells = (found[name, tool] for tool in asked.tools)
        print(f"{name:14}" + "".join(f"{f'{n}  ({s:.0f} s)':>28}" for n, s in cells))
    wrong = {key: n for key, (n, _) in found.items() if not re.match(r"0($| )", n)}
    for name, tool in wrong:
        lines = (asked.logs / f"{name}-{tool}.txt").read_text(errors="replace").splitlines()
        print(f"\n{name}, {tool}:", *lines[:25], "...", *lines[-8:], sep="\n  ")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
