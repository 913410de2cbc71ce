"""How close does decoding come to the memory's speed? (GPU)

One query per sequence against a long cache: K and V bytes per second, beside a copy in the same
process (bytes read plus written). The caches are larger than L2, and nothing of them is in it when
a call begins; `copy` is a copy of the same number of bytes: what the size alone costs.
Usage: python benchmarks/decode.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from _bench import RECORDS, gpu_times, header, save, sdpa, table

import course_lib  # noqa: F401  first: it chooses Triton's mode

HEADS, HEAD_DIM, PAGE = 32, 128, 64
SHAPES = ((1, 65536), (16, 16384), (64, 4096))  # batch, keys


def copy_bandwidth() -> float:
    """Return bytes per second of a device-to-device copy of 4 GB, read plus written."""
    import torch

    source = torch.randn(1_000_000_000, device="cuda")
    target = torch.empty_like(source)
    seconds = gpu_times(lambda: target.copy_(source))["median_us"] / 1e6
    return 2 * source.nbytes / seconds


def ways(batch: int, n: int, kv_heads: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    import torch

    from course_lib.kernels.decode import flash_decode
    from course_lib.kernels.paged import paged_decode

    torch.manual_seed(n)
    q = torch.randn(batch, HEADS, 1, HEAD_DIM, dtype=torch.bfloat16, device="cuda")
    shape = (batch, kv_heads, n, HEAD_DIM)
    k, v = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(2))

    yield "copy", lambda: v.copy_(k)
    yield "FA2", partial(sdpa, "FLASH_ATTENTION", q, k, v, enable_gqa=True)
    yield "cuDNN", partial(sdpa, "CUDNN_ATTENTION", q, k, v, enable_gqa=True)
    yield "flash_decode", lambda: flash_decode(q, k, v)
    for splits in (1, 2, 4, 8, 16, 32, 64, 128):
        if batch * kv_heads * splits <= 16384:
            yield f"flash_decode {splits}", lambda s=splits: flash_decode(q, k, v, splits=s)
    pool_k, pool_v = (  # heads behind slots; `paged.py` has them before
        x.view(batch, kv_heads, n // PAGE, PAGE, HEAD_DIM).permute(0, 2, 3, 1, 4).flatten(0, 1)
        for x in (k, v)
    )
    pool_k, pool_v = pool_k.transpose(1, 2), pool_v.transpose(1, 2)
    table_ = torch.arange(len(pool_k), dtype=torch.int32, device="cuda").view(batch, -1)
    lengths = torch.full((batch,), n, dtype=torch.int32, device="cuda")
    yield "paged_decode", lambda: paged_decode(q, pool_k, pool_v, table_, lengths)


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORDS)
    out = parser.parse_args().out
    copy = copy_bandwidth()
    rows = []
    for batch, n in SHAPES:
        for kv_heads in (8, 32):
            moved = 2 * batch * kv_heads * n * HEAD_DIM * 2
            for name, call in ways(batch, n, kv_heads):
                times = gpu_times(call, device_only=True)
                rate = moved / times["median_us"] / 1e3
                row = {"batch": batch, "n": n, "kv_heads": kv_heads, "way": name}
                rows.append(row | times | {"gb_per_s": rate, "of_copy": rate / copy * 1e9})
    print(f"copy: {copy / 1e9:.0f} GB/s")
    table(rows)
    save(
        {**header("decode: K and V bytes per second"), "copy_gb_per_s": copy / 1e9, "rows": rows},
        "h100_decode",
        out,
    )


if __name__ == "__main__":
    main()
