"""How much longer does a kernel take under the ledger, in Triton's interpreter? Goal: 15 %.

    python benchmarks/ledger_cost.py

Plain and counted runs of the same 64 tiles alternate, in CPU seconds of one process.
"""

from __future__ import annotations

import statistics
import sys
import time

import torch

import course_lib  # noqa: F401  first: it chooses Triton's mode
from course_lib.accounting.kernel_ledger import KernelLedger
from course_lib.kernels.flash_forward import flash_attention_with_lse

RUNS = 15
GOAL = 1.15


def seconds(counted: bool, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> float:
    """Return the CPU seconds of one call, with or without a ledger."""
    started = time.process_time()
    if counted:
        with KernelLedger():
            flash_attention_with_lse(q, k, v, block_q=32, block_k=64)
    else:
        flash_attention_with_lse(q, k, v, block_q=32, block_k=64)
    return time.process_time() - started


def main() -> int:
    """Print both medians and their ratio with its spread; return 1 if the goal is missed."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, n, 16) for n in (256, 512, 512))
    seconds(True, q, k, v)  # the first call imports what the others find
    pairs = [(seconds(False, q, k, v), seconds(True, q, k, v)) for _ in range(RUNS)]
    low, ratio, high = statistics.quantiles((counted / plain for plain, counted in pairs), n=4)
    plain, counted = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
    verdict = "met" if ratio <= GOAL else "missed"
    print(f"64 tiles: plain {plain * 1e3:.0f} ms, counted {counted * 1e3:.0f} ms (medians)")
    print(f"{ratio:.3f}x (quartiles {low:.3f} to {high:.3f}); goal {GOAL}x {verdict}, {RUNS} pairs")
    return 0 if ratio <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
