"""How long does forward attention take, and how much memory, as N grows? (GPU)

Naive eager PyTorch, SDPA with the FlashAttention-2 and the cuDNN backend, and the course's kernel
of lesson 07, in one process and in turns, what the host needs left out.
Usage: python benchmarks/forward.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from _bench import RECORDS, header, in_turns, peak_bytes, save, sdpa, table

import course_lib  # noqa: F401  first: it chooses Triton's mode

HEADS, HEAD_DIM = 8, 128
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
TILES = ((64, 64), (128, 64), (128, 128))
ROUNDS = 9


def candidates(q: Any, k: Any, v: Any, causal: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield (name, call) for each way of computing attention on q, k, v."""
    import torch

    from course_lib.kernels.flash_forward import flash_attention_with_lse

    def naive() -> Any:
        s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        if causal:
            n = s.shape[-1]
            s = s.masked_fill(torch.ones(n, n, dtype=torch.bool, device="cuda").triu(1), -torch.inf)
        return torch.softmax(s, -1) @ v

    yield "naive", naive
    yield "sdpa_flash", partial(sdpa, "FLASH_ATTENTION", q, k, v, is_causal=causal)
    yield "sdpa_cudnn", partial(sdpa, "CUDNN_ATTENTION", q, k, v, is_causal=causal)
    for block_q, block_k in TILES:
        yield (
            f"course_{block_q}x{block_k}",
            lambda bq=block_q, bk=block_k: flash_attention_with_lse(
                q, k, v, causal=causal, block_q=bq, block_k=bk
            ),
        )


def measure(n: int, causal: bool) -> Iterator[dict[str, Any]]:
    """Yield a row per way: times, TFLOP/s, peak memory above the inputs."""
    import torch

    torch.manual_seed(n)
    q, k, v = (
        torch.randn(1, HEADS, n, HEAD_DIM, dtype=torch.bfloat16, device="cuda") for _ in range(3)
    )
    flops = 4 * n * n * HEAD_DIM * HEADS / (2 if causal else 1)
    calls, peaks = {}, {}
    for name, call in candidates(q, k, v, causal):
        try:
            peaks[name] = peak_bytes(call) / 2**20
            calls[name] = call
        except (torch.OutOfMemoryError, RuntimeError) as error:
            yield {"n": n, "causal": causal, "way": name, "error": str(error).split("\n")[0]}
    for name, times in in_turns(calls, rounds=ROUNDS).items():
        row = {"n": n, "causal": causal, "way": name, **times}
        yield row | {"tflops": flops / times["median_us"] / 1e6, "peak_mib": peaks[name]}


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORDS)
    out = parser.parse_args().out
    rows = [row for causal in (False, True) for n in LENGTHS for row in measure(n, causal)]
    table([row for row in rows if "error" not in row])
    shape = {"batch": 1, "heads": HEADS, "head_dim": HEAD_DIM, "dtype": "bfloat16"}
    device = header("forward attention: time and peak memory over N")
    save({**device, "shape": shape, "rows": rows}, "h100_forward", out)


if __name__ == "__main__":
    main()
