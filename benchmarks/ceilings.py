"""What can this GPU do at most, and what goes wrong on it that the interpreter hides? (GPU)

A copy's bytes per second, read plus written; a large matrix product's TFLOP/s; the largest error of
a `tl.dot` of 64 x 64 float32 numbers by precision, and how far it lies from lesson 06's emulation;
what lesson 06's split dot product of ones, which loads, adds and stores, returns in 30 runs.
Usage: python benchmarks/ceilings.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from _bench import RECORDS, gpu_times, header, save
from decode import copy_bandwidth

import course_lib  # noqa: F401  first: it chooses Triton's mode

import torch  # isort: skip
import triton  # isort: skip
import triton.language as tl  # isort: skip

SIZE, ONES, BLOCK, RUNS = 8192, 65536, 64, 30


@triton.jit
def _product(q, k, out, N: tl.constexpr, HOW: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(out + at, tl.dot(tl.load(q + at), tl.trans(tl.load(k + at)), input_precision=HOW))


@triton.jit
def _racing_sum(a, b, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(a + at) * tl.load(b + at), 0)
    tl.store(out, tl.load(out) + part)


def to_tf32(x: torch.Tensor) -> np.ndarray:
    """Return x with all but 10 bits of the fraction cut off, as float64."""
    bits = x.cpu().numpy().view(np.uint32) & np.uint32(0xFFFFE000)
    return bits.view(np.float32).astype(np.float64)


def precisions() -> dict[str, float]:
    """Return the largest error of a product in each precision, and TF32's from the emulation."""
    torch.manual_seed(0)
    q, k = torch.randn(2, 64, 64, device="cuda")
    found, out = {}, torch.empty(64, 64, device="cuda")
    for how in ("tf32", "ieee"):
        _product[(1,)](q, k, out, N=64, HOW=how)
        found[how] = (out - q.double() @ k.double().T).abs().max().item()
        if how == "tf32":
            emulated = to_tf32(q) @ to_tf32(k).T
            found["tf32_from_emulation"] = float(np.abs(out.cpu().numpy() - emulated).max())
    return found


def racing_sums() -> dict[str, int]:
    """Return how often each result came out."""
    ones, found = torch.ones(ONES, device="cuda"), Counter[int]()
    for _ in range(RUNS):
        out = torch.zeros(1, device="cuda")
        _racing_sum[(ONES // BLOCK,)](ones, ones, out, BLOCK=BLOCK)
        found[int(out.item())] += 1
    return {str(value): times for value, times in sorted(found.items())}


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORDS)
    out = parser.parse_args().out
    a, b = torch.randn(2, SIZE, SIZE, device="cuda", dtype=torch.bfloat16)
    gemm = gpu_times(lambda: a @ b, device_only=True)
    record: dict[str, Any] = {
        **header("ceilings: a copy, a matrix product; TF32 and a race on hardware"),
        "copy_gb_per_s": copy_bandwidth() / 1e9,
        "gemm_tflops": 2 * SIZE**3 / gemm["median_us"] / 1e6,
        "gemm": gemm,
        "dot_errors": precisions(),
        "racing_sums": racing_sums(),
        "shapes": {"gemm": SIZE, "ones": ONES, "programs": ONES // BLOCK, "runs": RUNS},
    }
    print(record)
    save(record, "h100_ceilings", out)


if __name__ == "__main__":
    main()
