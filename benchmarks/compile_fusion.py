"""What does torch.compile make of naive attention, with and without its attention pattern? (GPU)

Four versions of one call: time, peak memory, and by Nsight Compute (`ncu` on the PATH) the kernels
that ran and their DRAM bytes. Between two kernels that follow each other one (n, n) matrix is
written and read again, so k kernels make 2 (k - 1) trips.
Usage: python benchmarks/compile_fusion.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from _bench import RECORDS, header, need_gpu, peak_bytes, save, sdpa, table, wall_times

import course_lib  # noqa: F401  first: it chooses Triton's mode

N, HEADS, HEAD_DIM = 8192, 8, 128
COUNTING = "COURSE_COUNTING"  # set in the run under ncu


def versions() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield (name, call), each compiled when it is its turn."""
    import torch

    torch.manual_seed(0)
    shape = (1, HEADS, N, HEAD_DIM)
    q, k, v = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(3))

    def naive(q: Any, k: Any, v: Any) -> Any:
        return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(HEAD_DIM), dim=-1) @ v

    def compiled(pattern: bool) -> Callable[[], Any]:
        torch._dynamo.reset()
        made = torch.compile(naive, dynamic=False, options={"pattern_matcher": pattern})
        made(q, k, v)  # compiles here, with this option
        return lambda: made(q, k, v)

    with torch.no_grad():
        yield "eager naive", lambda: naive(q, k, v)
        yield "torch.compile(naive), pattern off", compiled(False)
        yield "torch.compile(naive), as it comes", compiled(True)
        yield "SDPA flash", partial(sdpa, "FLASH_ATTENTION", q, k, v)


def measure() -> list[dict[str, Any]]:
    """Return a row for each version."""
    import torch
    from _ncu import DRAM, count, total

    found = count(__file__, **{COUNTING: "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"})
    rows = []
    for (version, call), kernels in zip(versions(), found, strict=True):
        dram = total(kernels, DRAM)
        names = [each["kernel"][:90] for each in kernels if total([each], DRAM) > 0.01 * dram]
        print(version, *names, sep="\n    ")
        with torch.no_grad():
            us = wall_times(call, repeats=50)["median_us"]
            peak = peak_bytes(call) / 2**20
        rows.append({"version": version, "trips": 2 * (len(names) - 1), "us": round(us),
                     "peak_mib": round(peak), "dram_gb": round(dram / 1e9, 3),
                     "names": names})  # fmt: skip
    table([{key: x for key, x in row.items() if key != "names"} for row in rows])
    return rows


def run_under_ncu() -> None:
    """Run every version once where ncu listens."""
    import torch
    from _ncu import counted

    for _, call in versions():
        with torch.no_grad():
            counted(call)


def main() -> None:
    """Measure, print, write the record."""
    if os.environ.get(COUNTING):
        return run_under_ncu()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=RECORDS)
    out = parser.parse_args().out
    need_gpu()
    rows = measure()
    record = {
        "name": "h100_compile_fusion",
        "what": "Median time and peak memory of one call of forward attention, as far as each was "
        "fused",
        **header("torch.compile on naive attention, with and without its attention pattern"),
        "dtype": "bf16",
        "n": N,
        "heads": HEADS,
        "head_dim": HEAD_DIM,
        "causal": False,
        "source": "median wall-clock time of single calls; peak of the allocator above the inputs, "
        "after a warm-up; kernels and DRAM bytes by ncu",
        "notes": [
            "The option that switches the pattern off is torch._inductor.config.pattern_matcher = "
            "False.",
            "trips is the model's: k kernels in a row write and read k - 1 matrices of (n, n).",
        ],
        "fields": {
            "version": "what was run",
            "trips": "crossings of the (n, n) scores or weights between HBM and chip, by the model",
            "us": "microseconds",
            "peak_mib": "MiB above the inputs",
            "dram_gb": "GB (powers of ten) of DRAM traffic, caches emptied before every kernel",
            "names": "the kernels that moved more than 1 % of it, the first 90 letters of each",
        },
        "rows": rows,
    }
    save(record, "h100_compile_fusion", out)
    return None


if __name__ == "__main__":
    main()
