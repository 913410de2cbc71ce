"""From how many keys on does rung 8 beat rung 7 at head_dim 64? (GPU)

All keys and causal, with 16384 tokens and with one sequence of 16 heads, in turns.
Usage: python benchmarks/short_keys.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from _bench import RECORDS, header, in_turns, save, sdpa, table

import course_lib  # noqa: F401  first: it chooses Triton's mode

LENGTHS = (512, 1024, 1536, 2048, 2560, 3072, 4096)
ROUNDS = 7


def measure(n: int, causal: bool, batch: int, heads: int) -> Iterator[dict[str, Any]]:
    import torch

    from course_lib.kernels.gluon_forward import specialised
    from course_lib.kernels.ladder import longest_first
    from course_lib.kernels.tiles import BY_HAND

    torch.manual_seed(n)
    shape = (batch, heads, n, 64)
    q, k, v = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(3))

    ways = {
        "7 longest_first": partial(longest_first, q, k, v, causal=causal),
        "8 specialised": partial(specialised, q, k, v, causal=causal, **BY_HAND[64]),
        "cuDNN": partial(sdpa, "CUDNN_ATTENTION", q, k, v, is_causal=causal),
    }
    times = in_turns(ways, rounds=ROUNDS)
    for name, found in times.items():
        row = {"n": n, "causal": causal, "batch": batch, "heads": heads, "way": name}
        vs_7 = times["7 longest_first"]["median_us"] / found["median_us"]
        yield row | found | {"vs_rung_7": vs_7}


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORDS)
    out = parser.parse_args().out
    rows = []
    for n, causal in product(LENGTHS, (False, True)):
        for batch, heads in ((16384 // n, 32), (1, 16)):
            rows += measure(n, causal, batch, heads)
    table(rows)
    device = header("from how many keys on rung 8 beats rung 7 at head_dim 64")
    save({**device, "rows": rows}, "h100_short_keys", out)


if __name__ == "__main__":
    main()
