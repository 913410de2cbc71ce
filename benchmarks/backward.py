"""How fast is the backward pass? (GPU) The course's beside SDPA's FlashAttention-2 and cuDNN.

10 N^2 d FLOPs per head, halved when causal. At head_dim 64, 96 and 128 the course's is one kernel
on Hopper; "course, the same every time" is what deterministic algorithms get. ``--tune`` also tries
tiles for the two kernels of that.
Usage: python benchmarks/backward.py [--out FOLDER] [--tune]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from _bench import RECORDS, header, in_turns, save, sdpa, table

import course_lib  # noqa: F401  first: it chooses Triton's mode

SHAPES = ((128, 8192, False), (128, 8192, True), (64, 8192, False), (64, 8192, True))
ROUNDS = 9
FOR_KEYS = (  # block_q, block_k, warps, stages of the dK, dV kernel
    (64, 128, 8, 2),
    (64, 64, 4, 3),
    (32, 64, 4, 2),
    (32, 64, 4, 3),
    (32, 128, 8, 2),
)
FOR_QUERIES = (  # of the dQ kernel
    (128, 32, 4, 3),
    (128, 64, 4, 2),
    (128, 64, 8, 4),
    (64, 64, 4, 2),
)


def candidates(d: int, tune: bool) -> Iterator[tuple[str, Any]]:
    import torch

    from course_lib.kernels.tiles import Tiles, backward_tiles_for

    first, second = backward_tiles_for(torch.empty(d, dtype=torch.bfloat16, device="cuda"))
    yield "course", None
    yield "course, the same every time", (first, second)
    if tune:
        for t in FOR_KEYS:
            yield f"dk_dv {t}", (Tiles(*t), second)
        for t in FOR_QUERIES:
            yield f"dq {t}", (first, Tiles(*t))


def ways(
    q: Any, k: Any, v: Any, do: Any, causal: bool, tune: bool
) -> Iterator[tuple[str, Callable]]:
    import torch

    from course_lib.kernels.attention_backward import flash_backward
    from course_lib.kernels.attention_forward import forward

    for name, backend in (("FA2", "FLASH_ATTENTION"), ("cuDNN", "CUDNN_ATTENTION")):
        inputs = [x.detach().requires_grad_() for x in (q, k, v)]
        o = sdpa(backend, *inputs, is_causal=causal)
        yield name, partial(torch.autograd.grad, o, inputs, do, retain_graph=True)
    o, lse = forward(q, k, v, causal, None, q.shape[-1] ** -0.5)
    for name, tiles in candidates(q.shape[-1], tune):
        yield name, partial(flash_backward, q, k, v, o, lse, do, causal=causal, tiles=tiles)


def measure(d: int, n: int, causal: bool, tune: bool) -> Iterator[dict[str, Any]]:
    import torch

    torch.manual_seed(n)
    shape = (16384 // n, 2048 // d, n, d)
    q, k, v, do = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(4))
    flops = 10 * n * n * 2048 * (16384 // n) / (2 if causal else 1)
    calls = {}
    for name, call in ways(q, k, v, do, causal, tune):
        try:
            call()
            calls[name] = call
        except Exception as problem:
            print(d, n, causal, name, str(problem).strip().splitlines()[0][:120])
    for name, times in in_turns(calls, rounds=ROUNDS).items():
        row = {"d": d, "n": n, "causal": causal, "way": name}
        yield row | times | {"tflops": flops / times["median_us"] / 1e6}


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORDS)
    parser.add_argument("--tune", action="store_true", help="also try other tiles")
    parser.add_argument("--shape", type=int, help="only the i-th shape, and no record")
    asked = parser.parse_args()
    shapes = SHAPES if asked.shape is None else SHAPES[asked.shape : asked.shape + 1]
    rows = [row for shape in shapes for row in measure(*shape, asked.tune)]
    table(rows)
    if asked.shape is None:
        save({**header("backward attention"), "rows": rows}, "h100_backward", asked.out)


if __name__ == "__main__":
    main()
