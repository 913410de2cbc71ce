"""Which tiles, warps and stages are fastest on this GPU? (GPU; where the table of tiles is from)

Tries the forward kernels of the ladder over a list of tiles, checks each against SDPA, and writes
every time, those that lost included. Usage: python benchmarks/tune.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from _bench import RECORDS, header, in_turns, save, sdpa, table

import course_lib  # noqa: F401  first: it chooses Triton's mode

SHAPES = ((128, 16384, False), (128, 16384, True), (64, 4096, False), (64, 16384, True))
PLAIN = ((64, 64, 4, 2), (64, 64, 4, 3), (128, 64, 8, 2), (128, 64, 8, 3))
WITH_DESCRIPTORS = (  # block_q, block_k, warps, stages
    (64, 64, 4, 3),
    (64, 64, 4, 4),
    (64, 128, 4, 2),
    (64, 128, 4, 3),
    (128, 32, 4, 3),
    (128, 64, 4, 2),
    (128, 64, 8, 3),
    (128, 128, 4, 2),
    (128, 128, 8, 3),
)
ROUNDS = 9
CAPPED = ((64, 128, 4, 2, 160),)  # at head_dim 64 also: at most so many registers
BY_HAND = (  # groups, block_k, stages
    (2, 128, 2),
    (2, 128, 3),
    (2, 64, 4),
    (3, 64, 3),
    (3, 128, 2),
)


def candidates(d: int, causal: bool) -> Iterator[tuple[str, Callable[..., Any]]]:
    from course_lib.kernels import ladder
    from course_lib.kernels.gluon_forward import specialised
    from course_lib.kernels.tiles import Tiles

    for t in PLAIN:
        yield f"skip_tiles {t}", partial(ladder.skip_tiles, tiles=Tiles(*t))
    for t in PLAIN:
        yield f"edge_masks {t}", partial(ladder.edge_masks, tiles=Tiles(*t))
    for t in (*WITH_DESCRIPTORS, *(CAPPED if d == 64 else ())):
        yield (
            f"descriptors {t}",
            partial(ladder.descriptors, tiles=Tiles(*t), longest_first=causal),
        )
    for groups, block_k, stages in BY_HAND:
        if d == 128 and groups * block_k == 384:
            continue  # no room
        for overlap in (True, False):
            hand = {"groups": groups, "block_k": block_k, "stages": stages, "overlap": overlap}
            yield f"specialised {tuple(hand.values())}", partial(specialised, **hand)


def measure(d: int, n: int, causal: bool) -> Iterator[dict[str, Any]]:
    import torch

    torch.manual_seed(n)
    shape = (16384 // n, 2048 // d, n, d)
    q, k, v = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(3))
    flops = 4 * n * n * 2048 * (16384 // n) / (2 if causal else 1)

    ways = {
        "FA2": partial(sdpa, "FLASH_ATTENTION", q, k, v, is_causal=causal),
        "cuDNN": partial(sdpa, "CUDNN_ATTENTION", q, k, v, is_causal=causal),
    }
    for name, call in candidates(d, causal):
        ways[name] = lambda call=call: call(q, k, v, causal=causal)[0]
    truth = ways["FA2"]().float()
    off = {}
    for name, call in list(ways.items()):
        try:
            off[name] = (call().float() - truth).abs().max().item()
        except Exception as problem:
            del ways[name]
            said = str(problem).strip().splitlines()[0][:90]
            row = {"d": d, "n": n, "causal": causal, "way": name}
            yield row | {"tflops": 0.0, "off": said}
    for name, times in in_turns(ways, rounds=ROUNDS).items():
        row = {"d": d, "n": n, "causal": causal, "way": name}
        yield row | times | {"tflops": flops / times["median_us"] / 1e6, "off": off[name]}


def compile_all(d: int, n: int, causal: bool, half: int) -> None:
    """Fill Triton's cache, so that several processes can share the compiling."""
    import torch

    q = torch.randn(16384 // n, 2048 // d, n, d, dtype=torch.bfloat16, device="cuda")
    for name, call in list(candidates(d, causal))[half::2]:
        try:
            call(q, q, q, causal=causal)
            torch.cuda.synchronize()
        except Exception as problem:
            print(d, causal, name, repr(problem)[:200], flush=True)


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORDS)
    parser.add_argument("--warm", type=int, help="only compile: the i-th eighth of the candidates")
    asked = parser.parse_args()
    if asked.warm is not None:
        compile_all(*SHAPES[asked.warm // 2], asked.warm % 2)
        return
    rows = []
    for shape in SHAPES:
        new = list(measure(*shape))
        rows += new
        table(
            [{key: row[key] for key in ("d", "n", "causal", "way", "tflops", "off")} for row in new]
        )
    save(
        {**header("forward attention: tiles, warps, stages"), "rows": rows}, "h100_tiles", asked.out
    )


if __name__ == "__main__":
    main()
