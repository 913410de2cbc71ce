"""Thousands of random cases for every kernel, each held against float64. (GPU)

    python tests/kernels/fuzz.py --cases 2000 --seed 0
    python tests/kernels/fuzz.py --only 0/flash_attention/3/7     one case again

Prints, for each kernel, how many cases failed and the worst error as a share of what is allowed;
then every failure by name. Exits with 1 if there is any. Without a GPU the cases are small and run
in Triton's interpreter: `tests/kernels/test_fuzz.py` is a handful of those.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[0] = str(ROOT / "tests")  # instead of this folder
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OMP_NUM_THREADS", "1")  # many processes

import course_lib  # noqa: E402  first: it chooses Triton's mode

PER_GROUP = 12
RESULTS = ("o", "lse", "dq", "dk", "dv", "dsinks")
_lost = ""  # why this process cannot use the GPU any more


def groups(cases: int, seed: int) -> Iterator[list[str]]:
    """Yield the names of all cases, group by group: at least ``cases`` in all."""
    from kernels.fuzz_cases import CONTRACTS

    total = sum(contract.share for contract in CONTRACTS.values() if contract.share)
    for kernel, contract in CONTRACTS.items():
        wanted = -(-cases * contract.share // total)
        for group in range(int(-(-wanted // PER_GROUP))):
            numbers = range(int(min(PER_GROUP, wanted - group * PER_GROUP)))
            yield [f"{seed}/{kernel}/{group}/{number}" for number in numbers]


def run_group(names: list[str], small: bool) -> list[dict[str, Any]]:
    """Run the cases of one group in this process; never raise."""
    global _lost
    rows = []
    for name in names:
        start = time.perf_counter()
        row: dict[str, Any] = {"name": name, "ratios": {}, "error": _lost}
        if not _lost:
            try:
                row["ratios"] = run_case(name, small)
            except Exception as problem:
                row["error"] = f"{type(problem).__name__}: {str(problem).strip()[:300]}"
                if "CUDA error" in row["error"]:
                    _lost = f"not run: {name} broke this process's CUDA context"
        rows.append(row | {"seconds": time.perf_counter() - start})
    return rows


def run_case(name: str, small: bool) -> dict[str, float]:
    """Run one case; return error / allowed error of each result."""
    from kernels.fuzz_cases import draw
    from kernels.fuzz_judge import ratios

    return ratios(draw(name, small=small))


def run_all(
    work: list[list[str]], small: bool, processes: int, seconds: float
) -> list[dict[str, Any]]:
    """Share the groups among processes; what is not done in time is a failure."""
    rows: list[dict[str, Any]] = []
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    waiting = {pool.submit(run_group, names, small): names for names in work}
    reason = f"not done within {seconds:.0f} s"
    try:
        for done in as_completed(list(waiting), timeout=seconds):
            rows += done.result()
            del waiting[done]
    except TimeoutError:
        pass
    except BrokenProcessPool:
        reason = "not run: a process died"
    names = [name for group in waiting.values() for name in group]
    rows += [{"name": name, "ratios": {}, "error": reason, "seconds": 0.0} for name in names]
    for process in list((pool._processes or {}).values()) if waiting else ():
        process.kill()  # ours, and stuck
    pool.shutdown(wait=not waiting, cancel_futures=True)
    return rows


def failed(row: dict[str, Any]) -> bool:
    """Return whether anything about this case is wrong (NaN fails)."""
    return bool(row["error"]) or not all(value <= 1 for value in row["ratios"].values())


def report(rows: list[dict[str, Any]]) -> None:
    """Print one line for each kernel."""
    kernels = dict.fromkeys(row["name"].split("/")[1] for row in rows)
    print(f"{'kernel':16} {'cases':>6} {'failed':>6}" + "".join(f"{x:>7}" for x in RESULTS))
    for kernel in [*kernels, "all"]:
        mine = [row for row in rows if kernel in ("all", row["name"].split("/")[1])]
        line = f"{kernel:16} {len(mine):6} {sum(map(failed, mine)):6}"
        for result in RESULTS:
            worst = [row["ratios"][result] for row in mine if result in row["ratios"]]
            line += f"{max(worst):7.2f}" if worst else "      -"
        print(line)


def main() -> int:
    """Draw, run, print; return the exit status."""
    import torch
    from kernels.fuzz_cases import draw

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=min(16, os.cpu_count() or 1))
    parser.add_argument("--seconds", type=float, default=540, help="give up after so long")
    parser.add_argument("--kernels", nargs="*", help="only these, by name")
    parser.add_argument("--only", metavar="NAME", help="one case, in this process")
    asked = parser.parse_args()
    small = not torch.cuda.is_available()
    if asked.only:
        print(draw(asked.only, small=small))
        print(found := run_case(asked.only, small))
        return int(not all(value <= 1 for value in found.values()))
    where = "Triton's interpreter" if small else torch.cuda.get_device_name()
    begun = time.perf_counter()
    work = [
        names
        for names in groups(asked.cases, asked.seed)
        if runnable(kernel := names[0].split("/")[1], small)
        and (not asked.kernels or kernel in asked.kernels)
    ]
    work.sort(key=lambda names: compiling(draw(names[0], small=small)), reverse=True)
    rows = run_all(work, small, asked.processes, asked.seconds)
    report(rows)
    wrong = [row for row in rows if failed(row)]
    for row in wrong:
        print(row["name"], row["error"] or {k: f"{x:.3g}" for k, x in row["ratios"].items()})
    print(f"{len(rows)} cases, {len(wrong)} failed, seed {asked.seed}, {where}, torch "
          f"{torch.__version__}, {time.perf_counter() - begun:.0f} s")  # fmt: skip
    return int(bool(wrong))


def compiling(case: Any) -> float:
    """Guess how long a group compiles: float32 dots are unrolled. The longest must begin first."""
    kernels = 4 if case.kernel in ("flash_attention", "bent scores", "packed") else 1
    return kernels * case.d * (4 if case.dtype == "float32" else 1)


def runnable(kernel: str, small: bool) -> bool:
    """Rung 8 runs on sm_90 alone."""
    if kernel != "rung 8":
        return True
    if small:
        return False
    import torch

    from course_lib.kernels.attention_forward import gluon_works

    return torch.cuda.get_device_capability() == (9, 0) and gluon_works()


if __name__ == "__main__":
    assert course_lib
    sys.exit(main())
