"""How does `flash_attention` stand beside its peers, forward and backward? (GPU)

The public function, also on views of one projection (B, N, heads, d), SDPA's cuDNN and
FlashAttention-2 backends and, where it is installed, FlashAttention-4, each in the layout that it
wants, in one process and in turns. 4 N^2 d FLOPs a
head forward and 10 N^2 d backward, halved when causal.
Usage: python benchmarks/peers.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from _bench import RECORDS, fa4, fa4_version, header, in_turns, save, sdpa, table

import course_lib  # noqa: F401  first: it chooses Triton's mode

FORWARD = (  # batch, heads, key heads, N, head_dim
    (4, 16, 16, 4096, 128),
    (2, 16, 16, 8192, 128),
    (1, 16, 16, 16384, 128),
    (2, 16, 16, 10007, 128),
    (16, 16, 16, 1024, 128),
    (2, 32, 8, 8192, 128),
    (4, 32, 32, 4096, 64),
    (2, 32, 32, 8192, 64),
    (1, 32, 32, 16384, 64),
    (8, 32, 32, 1024, 64),
    (2, 20, 20, 8192, 96),
    (16, 20, 20, 1024, 96),
    (2, 20, 20, 10007, 96),
    (2, 8, 8, 8192, 256),
    (16, 8, 8, 1024, 256),
    (2, 8, 8, 10007, 256),
)
BACKWARD = (
    (2, 16, 16, 8192, 128),
    (2, 32, 8, 8192, 128),
    (2, 32, 32, 8192, 64),
    (2, 20, 20, 8192, 96),
    (2, 8, 8, 8192, 256),
)
ROUNDS = 9
SHOWN = ("course", "course, views", "cuDNN", "FA2", "FA4")


def callables(kv_heads: int, heads: int) -> dict[str, tuple[Callable[..., Any], bool]]:
    """Return for each way the function of q, k, v, and whether it wants (B, N, H, d)."""
    from course_lib.kernels.attention_op import flash_attention

    def library(backend: str) -> Callable[..., Any]:
        def call(q: Any, k: Any, v: Any, causal: bool) -> Any:
            return sdpa(backend, q, k, v, is_causal=causal, enable_gqa=kv_heads != heads)

        return call

    found: dict[str, tuple[Callable[..., Any], bool]] = {
        "course": (lambda q, k, v, causal: flash_attention(q, k, v, causal=causal), False),
        "course, views": (lambda q, k, v, causal: flash_attention(q, k, v, causal=causal), False),
        "cuDNN": (library("CUDNN_ATTENTION"), False),
        "FA2": (library("FLASH_ATTENTION"), False),
    }
    if fa4() is not None:
        found["FA4"] = (lambda q, k, v, causal: fa4()(q, k, v, causal=causal)[0], True)
    return found


def measure(shape: tuple[int, ...], causal: bool, backward: bool) -> list[dict[str, Any]]:
    import torch

    batch, heads, kv_heads, n, d = shape
    torch.manual_seed(n)
    sizes = (heads, kv_heads, kv_heads, heads)
    inputs = [torch.randn(batch, h, n, d, dtype=torch.bfloat16, device="cuda") for h in sizes]
    ways: dict[str, Callable[[], Any]] = {}
    for name, (call, rows_first) in callables(kv_heads, heads).items():
        *mine, do = (x.transpose(1, 2).contiguous() if rows_first else x for x in inputs)
        if name == "course, views":  # of one projection, as a model has them
            rows = torch.cat([x.transpose(1, 2) for x in mine], 2)  # (B, N, H + 2 H_kv, d)
            mine = rows.transpose(1, 2).split(sizes[:3], 1)
        try:
            if backward:
                mine = [x.detach().requires_grad_() for x in mine]
                o = call(*mine, causal)
                ways[name] = partial(torch.autograd.grad, o, mine, do, retain_graph=True)
            else:
                ways[name] = partial(call, *mine, causal)
            ways[name]()
        except Exception as problem:
            ways.pop(name, None)
            print(shape, name, str(problem).strip().splitlines()[0][:120])
    flops = (10 if backward else 4) * n * n * d * heads * batch / (2 if causal else 1)
    row = dict(zip(("batch", "heads", "kv_heads", "n", "d"), shape, strict=True))
    row |= {"causal": causal, "pass": "backward" if backward else "forward"}
    return [
        row | {"way": name} | times | {"tflops": flops / times["median_us"] / 1e6}
        for name, times in in_turns(ways, rounds=ROUNDS).items()
    ]


def main() -> None:
    """Measure, print a line a shape, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORDS)
    out = parser.parse_args().out
    rows, lines = [], []
    for backward, shapes in ((False, FORWARD), (True, BACKWARD)):
        for shape in shapes:
            for causal in (False, True):
                new = measure(shape, causal, backward)
                rows += new
                speed = {row["way"]: row["tflops"] for row in new}
                line = {key: new[0][key] for key in ("pass", "batch", "heads", "n", "d", "causal")}
                line |= {name: speed.get(name, 0.0) for name in SHOWN}
                for peer in ("course, views", "cuDNN", "FA4"):
                    line[f"/{peer}"] = speed["course"] / speed[peer] if peer in speed else 0.0
                print(
                    " ".join(f"{x:.3g}" if isinstance(x, float) else str(x) for x in line.values())
                )
                lines.append(line)
    table(lines)
    record = header("attention beside its peers, forward and backward")
    record["versions"] |= fa4_version()
    save({**record, "rows": rows}, "h100_peers", out)


if __name__ == "__main__":
    main()
