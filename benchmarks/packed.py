"""What does a packed batch gain over padding, and what do soft-cap, sinks and slopes cost? (GPU)

Sequences of very different lengths: packed, padded to the longest, and one call each; the last two
go through the fastest kernel, the first through the plain one. Then one long batch with each switch
of the plain kernel, beside the fastest. All ways in turns (`_bench.in_turns`), in microseconds.
Usage: python benchmarks/packed.py [--out FOLDER] [--rounds 9]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from _bench import RECORDS, header, in_turns, need_gpu, save, table

import course_lib  # noqa: F401  first: it chooses Triton's mode

HEADS, HEAD_DIM = 16, 128
LENGTHS = (4096, 128, 1000, 2048, 64, 700, 3000, 257, 512, 1500, 90, 2600)


def with_backward(forward: Callable[..., Any], leaves: tuple[Any, ...]) -> Callable[[], None]:
    """Return a call of forward and backward."""
    do = leaves[0].detach().clone()

    def run() -> None:
        for leaf in leaves:
            leaf.grad = None
        forward(*leaves).backward(do)

    return run


def of_lengths() -> dict[str, Callable[..., Any]]:
    """Return the three ways to attend to sequences of different lengths, of packed q, k, v."""
    import torch

    from course_lib.kernels.attention_op import flash_attention
    from course_lib.kernels.packed import flash_attention_packed

    starts = torch.tensor([0, *LENGTHS]).cumsum(0).int().cuda()
    longest, places = max(LENGTHS), [*pairwise(starts.tolist())]

    def packed(q: Any, k: Any, v: Any) -> Any:
        most = {"max_seqlen_q": longest, "max_seqlen_k": longest}
        return flash_attention_packed(q, k, v, starts, starts, causal=True, **most)

    def one_by_one(q: Any, k: Any, v: Any) -> Any:
        parts = [
            flash_attention(*(x[a:b].transpose(0, 1)[None] for x in (q, k, v)), causal=True)
            for a, b in places
        ]
        return torch.cat([o[0].transpose(0, 1) for o in parts])

    def padded(q: Any, k: Any, v: Any) -> Any:
        rows = [[x[a:b] for a, b in places] for x in (q, k, v)]
        wide = (torch.nn.utils.rnn.pad_sequence(x, batch_first=True) for x in rows)
        o = flash_attention(*(x.transpose(1, 2) for x in wide), causal=True).transpose(1, 2)
        return torch.cat([one[: b - a] for one, (a, b) in zip(o, places, strict=True)])

    return {"packed": packed, "one call each": one_by_one, "padded": padded}


def switches() -> dict[str, Callable[..., Any]]:
    """Return one batch's attention with each switch, and without any."""
    import torch

    from course_lib.kernels.attention_op import flash_attention

    sinks = torch.zeros(HEADS, device="cuda")
    slopes = 2.0 ** -torch.arange(1, HEADS + 1, device="cuda").float()
    return {
        "fastest": partial(flash_attention, causal=True),
        "soft-cap": partial(flash_attention, causal=True, softcap=30.0),
        "sinks": partial(flash_attention, causal=True, sinks=sinks),
        "slopes": partial(flash_attention, causal=True, slopes=slopes),
    }


def measure(ways: dict[str, Callable[..., Any]], shape: tuple[int, ...], rounds: int) -> list[Any]:
    """Return a row for each way, forward alone and with its backward."""
    import torch

    torch.manual_seed(0)
    qkv = [torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in "qkv"]
    leaves = tuple(x.clone().requires_grad_() for x in qkv)
    if "packed" in ways:  # what is fast and wrong is no result
        for name, way in ways.items():
            torch.testing.assert_close(way(*qkv), ways["packed"](*qkv), atol=2e-2, rtol=0, msg=name)
    calls = {("forward", name): partial(way, *qkv) for name, way in ways.items()}
    calls |= {("both", name): with_backward(way, leaves) for name, way in ways.items()}
    named = {" ".join(key): call for key, call in calls.items()}
    times = in_turns(named, rounds=rounds)
    return [{"pass": p, "way": name, **times[f"{p} {name}"]} for p, name in calls]


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORDS)
    parser.add_argument("--rounds", type=int, default=9)
    asked = parser.parse_args()
    need_gpu()
    rows = measure(of_lengths(), (sum(LENGTHS), HEADS, HEAD_DIM), asked.rounds)
    table(rows)
    more = measure(switches(), (2, HEADS, 8192, HEAD_DIM), asked.rounds)
    table(more)
    record = {**header(__doc__.splitlines()[0]), "lengths": LENGTHS, "heads": HEADS,
              "head_dim": HEAD_DIM, "rows": rows, "switches": more}  # fmt: skip
    save(record, "h100_packed", asked.out)


if __name__ == "__main__":
    main()
