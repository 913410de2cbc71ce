"""Hardware counters of single calls: run a script again under Nsight Compute and read its table.

The script's second run wraps what is to be counted in `counted`: a tiny kernel called
``call_begins`` then marks where each call's kernels begin in ncu's list. Before every kernel ncu
empties the caches (its default), so a call starts with nothing in L2, and what a kernel wrote and
L2 still holds at its end is not yet counted.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import course_lib  # noqa: F401  first: it chooses Triton's mode

# isort: split
import triton
import triton.language as tl

DRAM = ("dram__bytes_read.sum", "dram__bytes_write.sum")
L2 = ("lts__t_bytes.sum", "lts__t_sectors_srcunit_tex.sum")
"""All bytes that cross L2's slices; the 32-byte sectors of them that the SMs asked for."""
_POWERS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


class NcuError(RuntimeError):
    """ncu failed; the message is its last words."""


@triton.jit
def call_begins(x):
    """Mark the begin of a call."""
    tl.store(x, 1)


def counted(run: Callable[[], Any]) -> None:
    """In the run under ncu: warm up, then run once where ncu listens."""
    import torch

    mark = torch.zeros(1, dtype=torch.int32, device="cuda")
    call_begins[(1,)](mark)
    run()
    torch.cuda.synchronize()
    with torch.cuda.nvtx.range("step"):
        call_begins[(1,)](mark)
        run()
        torch.cuda.synchronize()


def count(
    script: str, arguments: Sequence[str] = (), metrics: Sequence[str] = DRAM, **environment: str
) -> list[list[dict[str, Any]]]:
    """Run ``script`` under ncu; return its calls in order, each a list of kernels.

    A kernel is ``{"kernel": name, metric: value, ...}``, bytes and sectors in ones.

    Raises:
        SystemExit: without ncu on the PATH, in a sentence.
        NcuError: if ncu, or the script under it, fails.
    """
    if shutil.which("ncu") is None:
        sys.exit("ncu (Nsight Compute) is not on the PATH: no hardware counter can be read.")
    command = ["ncu", "--csv", "--clock-control", "none", "--metrics", ",".join(metrics)]
    command += ["--nvtx", "--nvtx-include", "step/", sys.executable, script, *arguments]
    folder = str(Path(__file__).parent.parent)
    path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        words = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise NcuError(f"ncu failed (exit {done.returncode}):\n{words}")
    return calls(done.stdout)


def calls(text: str) -> list[list[dict[str, Any]]]:
    """Read ncu's comma-separated table: one row for each kernel and metric."""
    kernels: dict[str, dict[str, Any]] = {}
    for row in csv.DictReader(line for line in text.splitlines() if line.startswith('"')):
        kernel = kernels.setdefault(row["ID"], {"kernel": row["Kernel Name"]})
        kernel[row["Metric Name"]] = _number(row["Metric Value"], row["Metric Unit"])
    found: list[list[dict[str, Any]]] = []
    for kernel in kernels.values():
        if kernel["kernel"].startswith("call_begins"):
            found.append([])
        elif found:
            found[-1].append(kernel)
    return found


def total(call: Sequence[dict[str, Any]], metrics: Sequence[str]) -> float:
    """Return the sum of the metrics over a call's kernels."""
    return sum(kernel[metric] for kernel in call for metric in metrics)


def _number(value: str, unit: str) -> float:
    found = re.fullmatch(r"([KMGT]?)(byte|sector)s?", unit)
    if found is None:
        raise NcuError(f"ncu reports {value!r} in the unit {unit!r}, which is not known here.")
    return float(value.replace(",", "")) * _POWERS[found[1]]
