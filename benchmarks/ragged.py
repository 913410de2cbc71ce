"""How close does a ragged batch come to the memory's speed? (GPU)

Sequences of drawn lengths, the longest n_max, decode together, from a cache in one piece and from
pages of 16, beside a copy of as many bytes (read plus written) as K and V of these lengths have.
"as of equal length" is the number of splits that a batch of that shape gets without `lengths`: all
then wait for the longest sequence. All ways in turns, in an order that changes.
Usage: python benchmarks/ragged.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from _bench import RECORDS, header, in_turns, need_gpu, save, table

import course_lib  # noqa: F401  first: it chooses Triton's mode

HEAD_DIM, PAGE, ROUNDS = 128, 16, 9
SHAPES = (  # batch, query heads, key heads, n_max
    (4, 32, 8, 32768),
    (8, 32, 8, 65536),
    (16, 32, 8, 32768),
    (32, 32, 8, 16384),
    (32, 32, 32, 16384),
    (64, 32, 8, 8192),
    (128, 64, 8, 4096),
)


def ways(
    batch: int, heads: int, kv_heads: int, n_max: int
) -> tuple[int, dict[str, Callable[[], Any]]]:
    """Return how many bytes K and V have, and the calls of one shape by name."""
    import torch

    from course_lib.kernels.decode import flash_decode, splits_for
    from course_lib.kernels.launch import cdiv, multiprocessors
    from course_lib.kernels.paged import paged_decode
    from course_lib.kernels.tiles import decode_tiles_for

    torch.manual_seed(n_max)
    lengths = torch.randint(1, n_max + 1, (batch,), dtype=torch.int32, device="cuda")
    lengths[0] = n_max
    q = torch.randn(batch, heads, 1, HEAD_DIM, dtype=torch.bfloat16, device="cuda")
    shape = (batch, kv_heads, n_max, HEAD_DIM)
    k, v = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    n_tiles = cdiv(n_max, decode_tiles_for(q, heads // kv_heads).block_k)
    equal = splits_for(multiprocessors(q), batch * kv_heads, n_tiles)
    calls: dict[str, Callable[[], Any]] = {
        "flash_decode": partial(flash_decode, q, k, v, lengths),
        "as of equal length": partial(flash_decode, q, k, v, lengths, splits=equal),
    }
    where = torch.randperm(batch * n_max // PAGE, device="cuda")
    pools = []
    for x in (k, v):
        pages = x.view(batch, kv_heads, -1, PAGE, HEAD_DIM).transpose(1, 2).flatten(0, 1)
        pools.append(torch.empty_like(pages))
        pools[-1][where] = pages
    block_table = where.int().view(batch, -1)
    calls["pages of 16"] = partial(paged_decode, q, *pools, block_table, lengths)
    for name, call in calls.items():  # what is fast and wrong is no result
        torch.testing.assert_close(
            call()[0], calls["flash_decode"]()[0], atol=1e-2, rtol=0, msg=name
        )

    moved = 2 * int(lengths.sum()) * kv_heads * HEAD_DIM * 2
    source = torch.ones(moved // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    calls["copy"] = lambda: target.copy_(source)
    return moved, calls


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORDS)
    asked = parser.parse_args()
    need_gpu()
    rows = []
    for shape in SHAPES:
        moved, calls = ways(*shape)
        timed = in_turns(calls, rounds=ROUNDS)
        for name, times in timed.items():
            row = dict(zip(("batch", "heads", "kv_heads", "n_max"), shape, strict=True))
            row |= {"way": name} | times | {"gb_per_s": moved / times["median_us"] / 1e3}
            rows.append(row | {"of_copy": timed["copy"]["median_us"] / times["median_us"]})
    table(rows)
    save({**header("decoding a ragged batch"), "rows": rows}, "h100_ragged", asked.out)


if __name__ == "__main__":
    main()
