"""Where do naive attention's bytes and time go? Its four steps, one by one. (GPU)

Times by CUDA events, DRAM bytes by hardware counters (Nsight Compute, if `ncu` is on the PATH).
Usage: python benchmarks/naive_steps.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _bench import RECORDS, gpu_times, header, need_gpu, save, table

import course_lib  # noqa: F401  first: it chooses Triton's mode

N, HEADS, HEAD_DIM = 8192, 8, 128
COUNTING = "COURSE_COUNTING"  # set in the run under ncu: every step once, no clock


def steps() -> dict[str, Callable[[], Any]]:
    """Return the four steps of softmax(q @ k.T / sqrt(d)) @ v on fresh random tensors."""
    import torch

    torch.manual_seed(0)
    q, k, v = (
        torch.randn(1, HEADS, N, HEAD_DIM, dtype=torch.bfloat16, device="cuda") for _ in range(3)
    )
    s = q @ k.mT
    return {
        "q @ k.T": lambda: q @ k.mT,
        "/ sqrt(d)": lambda: s / math.sqrt(HEAD_DIM),
        "softmax": lambda: torch.softmax(s, dim=-1),
        "weights @ v": lambda: s @ v,
    }


def count_dram() -> list[float] | None:
    """Return DRAM bytes read and written of each step, in GB; None without ncu."""
    from _ncu import DRAM, count, total

    if shutil.which("ncu") is None:
        return None
    return [total(call, DRAM) / 1e9 for call in count(__file__, **{COUNTING: "1"})]


def run_once_under_ncu() -> None:
    """Run every step once where ncu listens."""
    from _ncu import counted

    for step in steps().values():
        counted(step)


def main() -> None:
    """Measure, print, write the record."""
    if os.environ.get(COUNTING):
        return run_once_under_ncu()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORDS)
    out = parser.parse_args().out
    need_gpu()
    rows = [{"step": name, **gpu_times(step)} for name, step in steps().items()]
    counted = count_dram()
    if counted is not None and len(counted) == len(rows):
        rows = [{**row, "dram_gb": gb} for row, gb in zip(rows, counted, strict=True)]
    else:
        print(f"no DRAM bytes: ncu saw {counted}")
    table(rows)
    shape = {"batch": 1, "heads": HEADS, "n": N, "head_dim": HEAD_DIM, "dtype": "bfloat16"}
    device = header("naive attention: time and DRAM bytes of each step")
    save({**device, "shape": shape, "rows": rows}, "h100_naive_steps", out)
    return None


if __name__ == "__main__":
    main()
