"""What does it cost to look the addresses up? Decoding over pages against one piece. (GPU)

The keys of `decode.py`'s shapes, once in one piece and once in pages of several sizes, shuffled all
over the pool; all ways in turns, in an order that changes (`_bench.in_turns`). ``ratio`` is how
much longer than from one piece it takes, ``table_share`` how many bytes of the table are looked up
for each byte of K and V.
Usage: python benchmarks/paged.py [--out FOLDER] [--rounds 9]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from _bench import RECORDS, header, in_turns, need_gpu, save, table

import course_lib  # noqa: F401  first: it chooses Triton's mode

HEADS, HEAD_DIM = 32, 128
SHAPES = ((1, 65536, 8), (16, 16384, 8), (64, 4096, 8), (16, 4096, 32))  # batch, keys, kv_heads
PAGES = (1, 16, 64, 256)
WHOLE = "one piece"


def ways(batch: int, n: int, kv_heads: int) -> dict[str, Callable[[], Any]]:
    """Return the calls of one shape, by name: the same keys, wherever they lie."""
    import torch

    from course_lib.kernels.decode import flash_decode
    from course_lib.kernels.paged import paged_decode

    torch.manual_seed(n)
    q = torch.randn(batch, HEADS, 1, HEAD_DIM, dtype=torch.bfloat16, device="cuda")
    shape = (batch, kv_heads, n, HEAD_DIM)
    k, v = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    lengths = torch.full((batch,), n, dtype=torch.int32, device="cuda")
    calls: dict[str, Callable[[], Any]] = {WHOLE: partial(flash_decode, q, k, v, lengths)}
    for page in PAGES:
        where = torch.randperm(batch * n // page, device="cuda")
        pools = []
        for x in (k, v):
            cut = x.view(batch, kv_heads, n // page, page, HEAD_DIM).transpose(1, 2).flatten(0, 1)
            pool = torch.empty_like(cut)
            pool[where] = cut
            pools.append(pool)
        block_table = where.int().view(batch, -1)
        calls[f"pages of {page}"] = partial(paged_decode, q, *pools, block_table, lengths)
    for name, call in calls.items():  # what is fast and wrong is no result
        torch.testing.assert_close(call()[0], calls[WHOLE]()[0], atol=1e-2, rtol=0, msg=name)
    return calls


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORDS)
    parser.add_argument("--rounds", type=int, default=9)
    asked = parser.parse_args()
    need_gpu()
    rows = []
    for batch, n, kv_heads in SHAPES:
        moved = 2 * batch * kv_heads * n * HEAD_DIM * 2
        timed = in_turns(ways(batch, n, kv_heads), rounds=asked.rounds)
        for name, times in timed.items():
            row = {"batch": batch, "n": n, "kv_heads": kv_heads, "way": name} | times
            row |= {"gb_per_s": moved / times["median_us"] / 1e3}
            row |= {"ratio": times["median_us"] / timed[WHOLE]["median_us"]}
            row |= {"table_share": 0.0 if name == WHOLE else 4 / (2 * HEAD_DIM * 2)}
            rows.append(row)
    table(rows)
    save({**header("decode over pages against one piece"), "rows": rows}, "h100_paged", asked.out)


if __name__ == "__main__":
    main()
