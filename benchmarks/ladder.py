"""What does each rung of the forward ladder gain, and how far is it from the libraries? (GPU)

Rungs 1 to 8 and the public operator beside SDPA's FlashAttention-2 and cuDNN backends and
FlexAttention under torch.compile, in one process, in turns.
Usage: python benchmarks/ladder.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from _bench import RECORDS, header, in_turns, peak_bytes, save, sdpa, table

import course_lib  # noqa: F401  first: it chooses Triton's mode

SHAPES = (  # head_dim, N, causal; 16384 tokens in all, heads * head_dim = 2048
    (128, 16384, False),
    (128, 16384, True),
    (128, 4096, False),
    (128, 4096, True),
    (64, 4096, False),
    (64, 16384, True),
)
ROUNDS = 15


def ways(q: Any, k: Any, v: Any, causal: bool) -> dict[str, Callable[[], Any]]:
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    from course_lib.kernels import ladder
    from course_lib.kernels.attention_op import flash_attention
    from course_lib.kernels.gluon_forward import specialised
    from course_lib.kernels.launch import multiprocessors
    from course_lib.kernels.tiles import by_hand_for

    n = q.shape[2]
    mask = None
    if causal:
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, n, n, device="cuda")
    flex = torch.compile(flex_attention, dynamic=False)
    found = {
        "FA2": partial(sdpa, "FLASH_ATTENTION", q, k, v, is_causal=causal),
        "cuDNN": partial(sdpa, "CUDNN_ATTENTION", q, k, v, is_causal=causal),
        "FlexAttention": lambda: flex(q, k, v, block_mask=mask),
    }
    for number, rung in ladder.RUNGS.items():
        found[f"{number} {rung.__name__}"] = partial(rung, q, k, v, causal=causal)
    choice = by_hand_for(q, k, causal, multiprocessors(q))
    hand = partial(specialised, q, k, v, causal=causal, **choice)
    found["8 specialised"] = hand
    found["flash_attention"] = lambda: flash_attention(q, k, v, causal=causal)
    return found


def measure(d: int, n: int, causal: bool) -> list[dict[str, Any]]:
    import torch

    torch.manual_seed(n)
    shape = (16384 // n, 2048 // d, n, d)
    q, k, v = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(3))
    flops = 4 * n * n * 2048 * (16384 // n) / (2 if causal else 1)
    rows = []
    for name, times in in_turns(ways(q, k, v, causal), rounds=ROUNDS).items():
        row = {"d": d, "n": n, "causal": causal, "way": name}
        rows.append(row | times | {"tflops": flops / times["median_us"] / 1e6})
    for row in rows:
        row["vs_FA2"] = rows[0]["median_us"] / row["median_us"]
        row["vs_cuDNN"] = rows[1]["median_us"] / row["median_us"]
    return rows


def peaks() -> list[dict[str, Any]]:
    """Peak memory above the inputs, against what o and lse alone take."""
    import torch

    from course_lib.kernels.attention_op import flash_attention

    found = []
    for n in (4096, 32768):
        q, k, v = (torch.randn(1, 8, n, 128, dtype=torch.bfloat16, device="cuda") for _ in range(3))
        peak = peak_bytes(partial(flash_attention, q, k, v, causal=True))
        needed = q.numel() * 2 + 4 * 8 * n
        found.append({"n": n, "heads": 8, "d": 128, "peak_bytes": peak, "o_and_lse_bytes": needed})
    return found


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORDS)
    out = parser.parse_args().out
    rows = [row for shape in SHAPES for row in measure(*shape)]
    table(rows)
    memory = peaks()
    table(memory)
    device = header("forward attention: what each rung of the ladder gains")
    save({**device, "rows": rows, "peak_memory": memory}, "h100_ladder", out)


if __name__ == "__main__":
    main()
