"""What bounds attention at which length: overhead, traffic, arithmetic? (GPU)

Time of one call over N from 64 to 16k, in turns: eager PyTorch, SDPA flash and the course's
operator, once by the host's clock (all that the host does included) and once on the GPU alone.
Where the first is far above the second, overhead decides; where the GPU moves its bytes near the
memory's speed, traffic; near its matmul speed, arithmetic.
Usage: python benchmarks/regimes.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from _bench import RECORDS, gpu_times, header, need_gpu, save, table, wall_times

import course_lib  # noqa: F401  first: it chooses Triton's mode
from course_lib.accounting.traffic import attention_flops, eager_six_trips

HEADS, HEAD_DIM = 8, 128
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
ROUNDS = 5


def ways(n: int) -> dict[str, Callable[[], Any]]:
    """Return the three ways of computing attention on fresh random tensors."""
    import torch

    from course_lib.kernels.attention_op import flash_attention

    torch.manual_seed(n)
    shape = (1, HEADS, n, HEAD_DIM)
    q, k, v = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(3))

    # once and for all: entering a context in every call would count as overhead
    for other in ("cudnn", "mem_efficient", "math"):
        getattr(torch.backends.cuda, f"enable_{other}_sdp")(False)
    return {
        "eager": lambda: torch.softmax(q @ k.mT / math.sqrt(HEAD_DIM), dim=-1) @ v,
        "flash": partial(torch.nn.functional.scaled_dot_product_attention, q, k, v),
        "course": partial(flash_attention, q, k, v),
    }


def measure(n: int) -> dict[str, Any]:
    """Return the row of one length: medians over all rounds, microseconds."""
    times: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, call in ways(n).items():
            wall = wall_times(call, repeats=20, warm_up=5)
            alone = gpu_times(call, repeats=7, device_only=True)
            times.setdefault(f"{name}_us", []).append(wall["median_us"])
            times.setdefault(f"{name}_gpu_us", []).append(alone["median_us"])
    row = {"n": n} | {name: round(statistics.median(each), 1) for name, each in times.items()}
    moved = eager_six_trips.bytes(n=n, d=HEAD_DIM, heads=HEADS)
    flops = attention_flops(n, n, HEAD_DIM, HEADS)
    row["eager_gb_per_s"] = round(moved / row["eager_gpu_us"] / 1e3)
    row["course_tflops"] = round(flops / row["course_gpu_us"] / 1e6, 1)
    return row


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=RECORDS)
    out = parser.parse_args().out
    need_gpu()
    rows = [measure(n) for n in LENGTHS]
    table(rows)
    record = {
        "name": "h100_regimes",
        "what": "Median time of one call of forward attention, eager naive against fused, batch 1",
        **header("forward attention: time over N in its three regimes"),
        "dtype": "bf16",
        "heads": HEADS,
        "head_dim": HEAD_DIM,
        "causal": False,
        "source": "median wall-clock time of single calls, host work included",
        "notes": [
            "Eager naive is softmax(q @ k.T / sqrt(d)) @ v: four kernels, six trips of the scores.",
            "Times on the GPU alone (_gpu_us) are by CUDA events, after the L2 cache was emptied.",
        ],
        "fields": {
            "n": "sequence length, queries and keys alike",
            "eager_us": "microseconds, eager naive (four kernels)",
            "eager_gpu_us": "the same on the GPU alone, without what the host needs to launch",
            "flash_us": "microseconds, SDPA with the flash backend",
            "flash_gpu_us": "the same on the GPU alone",
            "course_us": "microseconds, course_lib.kernels.attention_op.flash_attention",
            "course_gpu_us": "the same on the GPU alone",
            "eager_gb_per_s": "bytes of the six-trip model over eager_gpu_us",
            "course_tflops": "4 N^2 d FLOPs a head over course_gpu_us",
        },
        "rows": rows,
    }
    save(record, "h100_regimes", out)


if __name__ == "__main__":
    main()
