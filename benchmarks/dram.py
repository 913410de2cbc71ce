"""How many bytes cross DRAM and L2? Hardware counters of one call, over N. (GPU, ncu)

    python benchmarks/dram.py [--out FOLDER] [--parts shapes sweep naive orders rungs]

shapes: SDPA's kernels at the shapes that lesson 04 tells about, three times each.
sweep:  SDPA flash, the lesson's plain kernel and the public operator, N from 1k to 128k.
naive:  eager attention beside the model of six trips.
orders: one kernel, with its programs and its walk over the keys in different orders.
rungs:  the first and the last rung of the forward ladder, as lesson 08 times them.

Batch 1, head_dim 128, bf16. All caches are emptied before every kernel; clocks are left alone.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from _bench import KERNELS, RECORDS, fingerprint, header, need_gpu, save, sdpa, table

import course_lib  # noqa: F401  first: it chooses Triton's mode
from course_lib.accounting.traffic import (
    eager_six_trips,
    flash_compulsory,
    flash_tile_loads,
    naive_four_trips,
)

NAME = "h100_dram_traffic"
HEAD_DIM, HEADS, BLOCK_Q = 128, 8, 128
LENGTHS = tuple(1024 * 2**i for i in range(8))  # 1k ... 128k
SHAPES = (  # n, heads, causal: what lesson 04 tells about
    (8192, 8, False),
    (32768, 8, False),
    (32768, 8, True),
    (131072, 1, False),
    (131072, 8, False),
    (131072, 8, True),
)
PARTS = ("shapes", "sweep", "naive", "orders", "rungs")
REPEATS = 3  # of each shape and rung
ROWS = {"plain kernel": 64, "1 by_mask": 64, "8 specialised": 192}  # of a Q tile, or BLOCK_Q
PART = "COURSE_DRAM_PART"  # set in the run under ncu


def plan(part: str) -> Iterator[dict[str, Any]]:
    """Yield the calls of a part, in the order in which they are counted."""
    if part == "shapes":
        for n, heads, causal in SHAPES:
            shape = {"n": n, "heads": heads, "causal": causal}
            yield from ({"kernel": "SDPA flash", **shape} for _ in range(REPEATS))
            yield {"kernel": "SDPA cuDNN", **shape}
    elif part == "sweep":
        for kernel in ("SDPA flash", "plain kernel", "flash_attention"):
            for causal in (False, True):
                for n in LENGTHS:
                    yield {"kernel": kernel, "n": n, "heads": HEADS, "causal": causal}
    elif part == "naive":
        for n in (1024, 2048, 4096, 8192, 16384):
            yield {"kernel": "eager naive", "n": n, "heads": HEADS, "causal": False}
    elif part == "rungs":
        for kernel in ("1 by_mask", "8 specialised"):
            yield from REPEATS * [{"kernel": kernel, "n": 16384, "heads": 16, "causal": False}]
    else:
        for n in (32768, 131072):
            for causal in (False, True):
                for together in (1, HEADS):
                    for longest_first in (False, True) if causal else (False,):
                        for from_end in (False, True):
                            order = {"together": together, "longest_first": longest_first}
                            yield {"kernel": "ordered", "n": n, "heads": HEADS, "causal": causal,
                                   **order, "from_end": from_end}  # fmt: skip


def call(row: dict[str, Any]) -> Callable[[], Any]:
    """Return a call of the plan, on fresh random tensors."""
    import torch
    from _order_kernel import ordered

    from course_lib.kernels import attention_op, flash_forward, gluon_forward, ladder
    from course_lib.kernels.launch import multiprocessors
    from course_lib.kernels.tiles import by_hand_for

    torch.manual_seed(row["n"])
    shape = (1, row["heads"], row["n"], HEAD_DIM)
    q, k, v = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(3))
    causal = row["causal"]

    order = {name: row[name] for name in ("together", "longest_first", "from_end") if name in row}
    return {
        "SDPA flash": partial(sdpa, "FLASH_ATTENTION", q, k, v, is_causal=causal),
        "SDPA cuDNN": partial(sdpa, "CUDNN_ATTENTION", q, k, v, is_causal=causal),
        "plain kernel": lambda: flash_forward.flash_attention_with_lse(q, k, v, causal=causal),
        "flash_attention": lambda: attention_op.flash_attention(q, k, v, causal=causal),
        "eager naive": lambda: torch.softmax(q @ k.mT / math.sqrt(HEAD_DIM), dim=-1) @ v,
        "1 by_mask": lambda: ladder.by_mask(q, k, v, causal=causal),
        "8 specialised": lambda: gluon_forward.specialised(
            q, k, v, causal=causal, **by_hand_for(q, k, causal, multiprocessors(q))
        ),
        "ordered": lambda: ordered(q, k, v, causal=causal, **order),
    }[row["kernel"]]


def run_under_ncu(part: str) -> None:
    """Run every call of the part once where ncu listens."""
    import torch
    from _ncu import counted

    for row in plan(part):
        counted(call(row))
        torch.cuda.empty_cache()


def measure(part: str) -> list[dict[str, Any]]:
    """Count a part; return its rows with GB of DRAM and L2 beside the models."""
    from _ncu import DRAM, L2, NcuError, count

    rows = list(plan(part))
    try:
        found = count(__file__, metrics=(*DRAM, *L2), **{PART: part})
    except NcuError as problem:  # another chip may not know the second metric of L2
        print(f"again without {L2[1]}: {str(problem).splitlines()[0]}")
        found = count(__file__, metrics=(*DRAM, L2[0]), **{PART: part})
    if len(found) != len(rows):
        raise SystemExit(f"ncu saw {len(found)} calls of the {len(rows)} that were made.")
    return [row | figures(row, kernels) for row, kernels in zip(rows, found, strict=True)]


def figures(row: dict[str, Any], kernels: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what one call moved, GB, and what the models say."""
    from _ncu import DRAM, L2, total

    shape = {"n": row["n"], "heads": row["heads"], "d": HEAD_DIM, "causal": row["causal"]}
    asked = None
    if kernels and L2[1] in kernels[0]:
        asked = 32 * total(kernels, L2[1:]) / 1e9
    moved = {
        "kernels": len(kernels),
        "dram_read_gb": total(kernels, DRAM[:1]) / 1e9,
        "dram_write_gb": total(kernels, DRAM[1:]) / 1e9,
        "dram_gb": total(kernels, DRAM) / 1e9,
        "l2_gb": total(kernels, L2[:1]) / 1e9,
        "l2_asked_gb": asked,
    }
    if row["kernel"] == "eager naive":
        plain = {name: shape[name] for name in ("n", "heads", "d")}
        return moved | {
            "six_trips_gb": eager_six_trips.bytes(**plain) / 1e9,
            "four_trips_gb": naive_four_trips.bytes(**plain) / 1e9,
        }
    block_q = ROWS.get(row["kernel"], BLOCK_Q)
    return moved | {
        "compulsory_gb": flash_compulsory.bytes(**shape) / 1e9,
        "tile_loads_gb": flash_tile_loads.bytes(block_q=block_q, **shape) / 1e9,
    }


def by_shape(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each shape, as the lessons and widgets read them."""
    found = []
    for n, heads, causal in SHAPES:
        shape = {"n": n, "heads": heads, "causal": causal}
        mine = [row for row in rows if shape.items() <= row.items()]
        flash = [row for row in mine if row["kernel"] == "SDPA flash"]
        (cudnn,) = (row for row in mine if row["kernel"] == "SDPA cuDNN")
        dram = [_digits(row["dram_gb"]) for row in flash]
        found.append({
            **shape, "dram_gb": [min(dram), max(dram)],
            "l2_gb": _digits(sum(row["l2_gb"] for row in flash) / len(flash)),
            "dram_gb_cudnn": _digits(cudnn["dram_gb"]),
        })  # fmt: skip
    return found


def record(parts: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the record: what older readers know, and the other parts beside it."""
    return {
        "name": NAME,
        "what": "Bytes that one call of forward attention moved, per memory level, batch 1",
        **header("forward attention: DRAM and L2 bytes over N, and over the order of programs"),
        "dtype": "bf16",
        "head_dim": HEAD_DIM,
        "source": "ncu hardware counters, SDPA flash",
        "notes": [
            "Caches are emptied before every kernel; what a kernel wrote and L2 still holds at its "
            "end is not counted, so a small call can stay below the lower bound.",
            "l2_gb is lts__t_bytes: all that crosses L2's slices, copies between its two halves "
            "included; l2_asked_gb is what the SMs asked for (lts__t_sectors_srcunit_tex).",
            "tile_loads_gb is the model with 128 query rows a tile, 64 for the plain kernel and "
            "rung 1, 192 for rung 8.",
            "orders: together = heads whose programs start side by side; longest_first = the "
            "longest causal tiles start first; from_end = each program walks its keys backwards.",
        ],
        "fields": {
            "n": "sequence length, queries and keys alike",
            "heads": "query heads, as many key/value heads",
            "causal": "whether the causal mask was on",
            "dram_gb": "GB (powers of ten) between L2 and device memory, read and written: "
            f"[lowest, highest] of {REPEATS} calls",
            "l2_gb": "GB (powers of ten) that crossed L2's slices, mean of the calls",
            "dram_gb_cudnn": "as dram_gb, SDPA cuDNN instead of flash, one call",
        },
        "rows": by_shape(parts["shapes"]),
        **{part: rows for part, rows in parts.items() if part != "shapes"},
    }


def check_orders() -> None:
    """Every order must give the same answer: compare with SDPA before counting anything."""
    import torch
    from _order_kernel import ordered

    q, k, v = (torch.randn(1, 3, 1000, 128, device="cuda").bfloat16() for _ in range(3))
    for causal in (False, True):
        truth = torch.nn.functional.scaled_dot_product_attention(
            *(x.float() for x in (q, k, v)), is_causal=causal
        )
        for together, longest_first, from_end in ((1, False, False), (2, True, True)):
            order = {"together": together, "longest_first": longest_first, "from_end": from_end}
            o = ordered(q, k, v, causal=causal, **order)
            if not ((o.float() - truth).abs().max() <= 0.03):
                raise SystemExit(f"the kernel is wrong in the order {order}, causal={causal}.")


def _digits(x: float) -> float:
    return float(f"{x:.4g}")


def main() -> None:
    """Count, print, write the record."""
    if PART in os.environ:
        return run_under_ncu(os.environ[PART])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=RECORDS)
    parser.add_argument(
        "--parts",
        nargs="*",
        default=PARTS,
        choices=PARTS,
        help="only these; a record of the same kernels keeps the others",
    )
    asked = parser.parse_args()
    need_gpu()
    check_orders()
    parts = {}
    for part in asked.parts:
        parts[part] = measure(part)
        print(f"\n{part}:")
        table(parts[part])
    # what the processes under ncu ran, so that the record says so (`save`)
    from course_lib.kernels import attention_op, gluon_forward  # noqa: F401

    for rows in parts.values():
        for row in rows:
            row |= {key: _digits(x) for key, x in row.items() if isinstance(x, float)}
    if set(parts) == set(PARTS):
        save(record(parts), NAME, asked.out)
    elif "shapes" not in parts and (file := asked.out / f"{NAME}.json").exists():
        old = json.loads(file.read_text(encoding="utf-8"))
        now = {module: fingerprint(KERNELS[module]) for module in old["kernels"]}
        if (old["device"], old["kernels"]) == (header("")["device"], now):
            dates = old.get("added", {}) | dict.fromkeys(parts, header("")["date"])
            save(old | parts | {"added": dates}, NAME, asked.out)
        else:
            print(f"\n{file} is of another GPU or of other kernels: nothing was added to it.")
    return None


if __name__ == "__main__":
    main()
