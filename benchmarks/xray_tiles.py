"""Which tiles fit and spill where? (no GPU) The compiler's figures for rung 3 of the ladder.

One float16 causal kernel, `course_lib.kernels.ladder.skip_tiles`, compiled for three GPUs with
many tile sizes: what exercise 8.1 chooses from. On a T4 this Triton compiles for no tensor core and
unrolls the multiply-adds, so its tiles stay small here: 128 x 128 takes minutes to compile.
Usage: python benchmarks/xray_tiles.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

from _bench import RECORDS

import course_lib  # noqa: F401  first: it chooses Triton's mode

BIG = [*product((64, 128), (32, 64, 128), (4, 8), (2, 3)), (128, 128, 4, 4), (128, 128, 8, 4)]
SMALL = [(16, 16, 4, 1), (32, 16, 4, 1), (32, 32, 4, 1), (32, 32, 8, 1), (64, 32, 4, 1)]
SMALL += [(64, 32, 8, 1), (64, 64, 4, 1), (64, 64, 8, 1)]
CHOICES = {"A100": BIG, "H100": BIG, "T4": SMALL}
HEAD_DIMS = (64, 128)


def every_choice(q: Any, k: Any, v: Any, choices: list[list[int]]) -> None:
    """Launch rung 3 once with each choice; an x-ray stops each launch at compiling."""
    from course_lib.kernels.ladder import skip_tiles
    from course_lib.kernels.tiles import Tiles

    for choice in choices:
        skip_tiles(q, k, v, causal=True, tiles=Tiles(*choice))


def rows(target: str, head_dim: int) -> Iterator[dict[str, Any]]:
    """Compile all choices for one GPU and one head_dim."""
    import torch

    from course_lib.child.xray import xray_launch

    x = torch.empty(1, 1, 1024, head_dim, dtype=torch.float16)
    choices = [list(choice) for choice in CHOICES[target]]
    rays = xray_launch(every_choice, x, x, x, choices, target=target, timeout=7200)
    for (block_q, block_k, num_warps, num_stages), ray in zip(choices, rays, strict=True):
        yield {
            "gpu": target,
            "head_dim": head_dim,
            "block_q": block_q,
            "block_k": block_k,
            "num_warps": num_warps,
            "num_stages": num_stages,
            "fits": ray.fits,
            "shared_bytes": ray.shared_bytes,
            "registers": ray.registers,
            "stack_bytes": ray.stack_bytes,
            "tensor_core": ray.instructions["tensor_core"],
            "fma": ray.instructions["fma"],
            "blocks_per_sm": ray.blocks_per_sm,
        }


def main() -> None:
    """Compile, print a line per GPU, write the record."""
    import torch
    import triton

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORDS)
    out = parser.parse_args().out
    found = []
    for target, head_dim in product(CHOICES, HEAD_DIMS):
        found += rows(target, head_dim)
        print(target, head_dim, len(found), flush=True)
    record = {
        "question": "what the compiler makes of rung 3 (skip_tiles, float16, causal), by tiles",
        "device": f"none: compiled on a CPU ({platform.machine()}), not run",
        "versions": {"torch": torch.__version__, "triton": triton.__version__},
        "date": datetime.now(UTC).date().isoformat(),
        "command": "python benchmarks/xray_tiles.py",
        "rows": found,
    }
    text = json.dumps(record, indent=1) + "\n"
    (out / "xray_tiles.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
