"""Does a model learn with it, and what does training keep? (GPU) The GPT of lesson 09, three ways.

The model, its text and its training are the cells of the lesson, read from its source; only the
sizes differ: 12 layers of 12 heads, N = 1024, batch 8, in bfloat16 (autocast). ``naive`` is trained
twice, for two runs of the same thing differ too. Then one attention alone, forward and backward.
Usage: python benchmarks/small_gpt.py [--out FOLDER] [--steps 200]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from _bench import RECORDS, header, in_turns, need_gpu, save, sdpa, table

import course_lib  # noqa: F401  first: it chooses Triton's mode

LESSON = Path(__file__).parents[1] / "sources" / "09_backward" / "lesson.py"
CELLS = ("naive-and-fused", "gpt-text", "gpt-model", "gpt-train")
SIZES = {"n": 1024, "width": 768, "heads": 12, "layers": 12}
BATCH, RATE = 8, 3e-4
LENGTHS = (512, 1024, 2048, 4096)  # of one attention alone, 8192 queries in all
WARM_UP = 10  # steps


def lesson() -> dict[str, Any]:
    """Return what the lesson's cells define."""
    import torch

    from course_lib.authoring.percent import read_cells

    sources = {cell.slug: cell.source for cell in read_cells(LESSON)}
    names: dict[str, Any] = {"torch": torch}
    for slug in CELLS:
        exec(sources[slug], names)
    return names


def ways(names: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    from course_lib.kernels.attention_op import flash_attention

    return {
        "naive": names["naive"],
        "naive again": names["naive"],
        "FA2": partial(sdpa, "FLASH_ATTENTION", is_causal=True),
        "course": partial(flash_attention, causal=True),
    }


def trained(names: dict[str, Any], attend: Callable[..., Any], steps: int) -> dict[str, Any]:
    """Return the loss of each step, the median milliseconds of a step and the peak of one.

    ``held_bytes`` is what was allocated when that step began: its own need is the difference.
    """
    import torch

    torch.manual_seed(9)
    model = names["SmallGPT"](attend, **SIZES).cuda()
    model.forward = torch.autocast("cuda", torch.bfloat16)(model.forward)
    training = names["train"](model, steps, BATCH, SIZES["n"], RATE)
    losses, seconds, peak, held = [], [], 0, 0
    for step in range(steps):
        if step == WARM_UP:
            held = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        losses.append(next(training))
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
        if step == WARM_UP:
            peak = torch.cuda.max_memory_allocated()
    milliseconds = 1e3 * statistics.median(seconds[WARM_UP:])
    return {"step_ms": milliseconds, "peak_bytes": peak, "held_bytes": held, "losses": losses}


def alone(all_ways: dict[str, Callable[..., Any]], n: int) -> Iterator[dict[str, Any]]:
    """Time forward and backward of one attention, and weigh what it keeps in between."""
    import torch

    torch.manual_seed(n)
    shape = (8192 // n, SIZES["heads"], n, SIZES["width"] // SIZES["heads"])
    q, k, v, do = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(4))
    inputs = [x.requires_grad_() for x in (q, k, v)]
    calls: dict[str, Callable[[], Any]] = {}
    kept = {}
    for name, attend in all_ways.items():
        if name == "naive again":
            continue
        attend(*inputs)  # compiles
        before = torch.cuda.memory_allocated()
        o = attend(*inputs)
        kept[name] = torch.cuda.memory_allocated() - before
        calls[f"{name} forward"] = partial(attend, q.detach(), k.detach(), v.detach())
        calls[f"{name} backward"] = partial(torch.autograd.grad, o, inputs, do, retain_graph=True)
    for call, times in in_turns(calls, rounds=7).items():
        name, part = call.rsplit(" ", 1)
        row = {"n": n, "batch": shape[0], "way": name, "part": part}
        yield row | times | {"kept_bytes": kept[name]}


def main() -> None:
    """Train, measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORDS)
    parser.add_argument("--steps", type=int, default=200)
    asked = parser.parse_args()
    need_gpu()
    names = lesson()
    rows = []
    for way, attend in ways(names).items():
        rows.append({"way": way} | trained(names, attend, asked.steps))
        print({key: rows[-1][key] for key in ("way", "step_ms", "peak_bytes", "held_bytes")})
        print(f"losses {rows[-1]['losses'][0]:.4f} to {rows[-1]['losses'][-1]:.4f}", flush=True)
    attention = [row for n in LENGTHS for row in alone(ways(names), n)]
    table(attention)
    question = "training a small GPT with three attentions"
    made = {**header(question), "sizes": SIZES, "batch": BATCH, "dtype": "bfloat16 (autocast)"}
    save({**made, "rows": rows, "attention": attention}, "h100_small_gpt", asked.out)


if __name__ == "__main__":
    main()
