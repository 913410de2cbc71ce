"""Where should rung 8's programs stay, each with a list of tiles, and where is rung 7 faster? (GPU)

16384 tokens in sequences of 512 to 16384, d = 64, 96 and 128, all keys and causal, in turns.
`tiles.by_hand_for` and `attention_forward.MANY_KEYS` are read off this.
Usage: python benchmarks/short_keys.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from _bench import RECORDS, header, in_turns, save, sdpa, table

import course_lib  # noqa: F401  first: it chooses Triton's mode

TOKENS = 16384
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
ROUNDS = 7


def measure(d: int, n: int, causal: bool) -> Iterator[dict[str, Any]]:
    import torch

    from course_lib.kernels.gluon_forward import specialised
    from course_lib.kernels.ladder import longest_first
    from course_lib.kernels.tiles import BY_HAND, CAUSAL_LISTS, FEW, FEW_KEYS, LISTS

    torch.manual_seed(n)
    shape = (TOKENS // n, 2048 // d, n, d)
    q, k, v = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(3))
    lists = CAUSAL_LISTS[d] if causal else LISTS[d]
    lists = FEW if causal and d == 64 and n <= FEW_KEYS else lists
    ways: dict[str, Callable[[], Any]] = {
        "8, a tile each": partial(specialised, q, k, v, causal=causal, **BY_HAND[d]),
        "8, lists": partial(specialised, q, k, v, causal=causal, **lists),
        "cuDNN": partial(sdpa, "CUDNN_ATTENTION", q, k, v, is_causal=causal),
    }
    if d != 96:  # rung 7's tiles are powers of two
        ways["7"] = partial(longest_first, q, k, v, causal=causal)
    times = in_turns(ways, rounds=ROUNDS)
    for name, found in times.items():
        vs = times["8, a tile each"]["median_us"] / found["median_us"]
        yield {"d": d, "n": n, "causal": causal, "way": name} | found | {"vs_a_tile_each": vs}


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORDS)
    out = parser.parse_args().out
    shapes = product((64, 96, 128), LENGTHS, (False, True))
    rows = [row for shape in shapes for row in measure(*shape)]
    table(rows)
    about = "where programs of rung 8 better stay, and where rung 7 is faster"
    save({**header(about), "rows": rows}, "h100_short_keys", out)


if __name__ == "__main__":
    main()
