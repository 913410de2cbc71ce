"""Where do naive attention's bytes and time go? Its four steps, one by one. (GPU)

Times by CUDA events, DRAM bytes by hardware counters (Nsight Compute, if `ncu` is on the PATH).
Usage: python benchmarks/naive_steps.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _bench import RECORDS, gpu_times, header, save, table

import course_lib  # noqa: F401  first: it chooses Triton's mode

N, HEADS, HEAD_DIM = 8192, 8, 128
METRICS = "dram__bytes_read.sum,dram__bytes_write.sum"
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
    if shutil.which("ncu") is None:
        return None
    command = ["ncu", "--csv", "--clock-control", "none", "--metrics", METRICS]
    command += ["--nvtx", "--nvtx-include", "step/", sys.executable, __file__]
    done = subprocess.run(
        command, env={**os.environ, COUNTING: "1"}, capture_output=True, text=True, check=True
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    scale = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
    kernels: dict[str, float] = {}
    for row in csv.DictReader(lines):
        n_bytes = float(row["Metric Value"].replace(",", "")) * scale[row["Metric Unit"]]
        kernels[row["ID"]] = kernels.get(row["ID"], 0.0) + n_bytes / 1e9
    return list(kernels.values())


def run_once_under_ncu() -> None:
    """Run every step once inside an nvtx range that ncu listens to."""
    import torch

    for step in steps().values():
        step()  # warm-up, outside the range
        torch.cuda.synchronize()
        with torch.cuda.nvtx.range("step"):
            step()
            torch.cuda.synchronize()


def main() -> None:
    """Measure, print, write the record."""
    if os.environ.get(COUNTING):
        return run_once_under_ncu()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORDS)
    out = parser.parse_args().out
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
