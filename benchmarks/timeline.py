"""Who waits for whom on one SM? Clocks read in two forward kernels and the backward. (GPU)

The kernels are copies of the course's own with a line that reads the SM's clock after each step
("edits"): an anchor that is gone is an error. What the clocks cost is measured and said.
Usage: python benchmarks/timeline.py [--out FOLDER]; rung 8 needs sm_90.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from _bench import RECORDS, header, in_turns, need_gpu, save, table

import course_lib  # noqa: F401  first: it chooses Triton's mode

HEADS, N, D = 32, 4096, 128
WINDOW = 6  # key tiles of one lane that are drawn
ROLES, SLOTS, EVENTS = 4, N // 64 + 1, 8  # a program's room: lanes, key tiles, clocks of one
SM = 7  # the event that is no clock, but the number of the SM

# What is written into a kernel, and what its lanes do between two clocks (None: the next tile's
# first). Rung 4's clocks wait for a number of each row: m, the tile's maximum, l_sum.
RUNG_4: dict[str, Any] = {
    "module": "ladder",
    "call": "edge_masks",
    "tiles": N // 64,
    "lanes": {
        0: ("program", [(0, 1, "product"), (1, 2, "exponentials"), (2, None, "rescales O")]),
    },
    "edits": [
        ("import triton.language as tl\n", """import triton.language as tl

CLOCKS = None


@triton.jit
def stamp(clocks, step, event: tl.constexpr, known, rows):
    now = tl.inline_asm_elementwise(
        "mov.u64 $0, %clock64;", "=l,r", [known], dtype=tl.int64, is_pure=False, pack=1)
    sm = tl.inline_asm_elementwise(
        "mov.u32 $0, %smid;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)
    program = tl.program_id(0) + tl.program_id(1) * tl.num_programs(0)
    at = clocks + ((program * 4 + rows % 64 // 16) * SLOTS + step) * 8
    tl.store(at + event, now, mask=(rows % 16 == 0))
    tl.store(at + 7, rows * 0 + sm, mask=(rows % 16 == 0))
""", 1),
        ("    q, k, v, o, lse, n_q,", "    q, k, v, o, lse, clocks, n_q,", 5),
        ("*(q, k, v, o, lse, q.shape[2]", "*(q, k, v, o, lse, CLOCKS, q.shape[2]", 1),
        ("""        s = dot(q_tile, tl.trans(k_tile)) * scale
        m, l_sum, acc = add_keys(m, l_sum, acc, s, v_tile)
""", """        stamp(clocks, start // BLOCK_K, 0, m, rows)
        s = dot(q_tile, tl.trans(k_tile)) * scale
        stamp(clocks, start // BLOCK_K, 1, tl.max(s, 1), rows)
        m, l_sum, acc = add_keys(m, l_sum, acc, s, v_tile)
        stamp(clocks, start // BLOCK_K, 2, l_sum, rows)
""", 1),
    ],
}  # fmt: skip
_GROUP = [
    (0, 1, "waits for K"),
    (1, 2, "product"),
    (2, 3, "exponentials"),
    (3, 4, "waits for P V"),
    (4, None, "rescales O"),
]
_COPIES = [
    (0, 1, "waits for room"),
    (1, 2, "starts a copy"),
    (2, 3, "waits for room"),
    (3, 4, "starts a copy"),
]
_STAMP = """@gluon.jit
def stamp(clocks, role: gl.constexpr, step, event: gl.constexpr):
    now = gl.inline_asm_elementwise(
        "mov.u64 $0, %clock64;", "=l", [], dtype=gl.int64, is_pure=False, pack=1)
    sm = gl.inline_asm_elementwise(
        "mov.u32 $0, %smid;", "=r", [], dtype=gl.int32, is_pure=False, pack=1)
    program = PROGRAM
    at = clocks + ((program * 4 + role) * SLOTS + step) * 8
    gl.store(at + event, now)
    gl.store(at + 7, sm.to(gl.int64))


@gluon.jit
"""
RUNG_8: dict[str, Any] = {
    "module": "gluon_forward",
    "call": "specialised",
    "tiles": N // 64,
    "lanes": {3: ("copies", _COPIES), **{g: (f"group {g}", _GROUP) for g in range(3)}},
    "edits": [
        ("@gluon.jit\ndef seen_as(",
         "CLOCKS = None\n\n\n" + _STAMP.replace("PROGRAM", "gl.program_id(0)") + "def seen_as(", 1),
        ("o_desc, lse, smem, bars, heads", "o_desc, lse, clocks, smem, bars, heads", 6),
        ("o_desc, lse, n_q, n_k, heads", "o_desc, lse, clocks, n_q, n_k, heads", 1),
        ("*(lse, n_q, n_k, batch", "*(lse, CLOCKS, n_q, n_k, batch", 1),
        ("q_tile, room, turn, smem,", "q_tile, room, turn, clocks, smem,", 2),
        ("tile_overlapped(\n", "tile_overlapped(\n    clocks, group,\n", 3),
        ("    clocks, group,\n    i, q_tile", "    clocks, group: gl.constexpr,\n    i, q_tile", 1),
        ("v_desc, smem, bars, heads", "v_desc, clocks, smem, bars, heads", 1),
        ("v_desc, copied, bars,", "v_desc, clocks, copied, bars,", 2),
        ("    before = (i - 1) % STAGES\n", """    before = (i - 1) % STAGES
    stamp(clocks, group, i, 0)
    mbarrier.wait(k_full.index(slot), (i // STAGES) & 1)
    stamp(clocks, group, i, 1)
""", 1),
        ("""num_outstanding=len(PARTS), deps=(s,))
""", """num_outstanding=len(PARTS), deps=(s,))
    stamp(clocks, group, i, 2)
""", 1),
        ("    acc = finished(acc, (p, p_new))\n", """    stamp(clocks, group, i, 3)
    acc = finished(acc, (p, p_new))
    stamp(clocks, group, i, 4)
""", 1),
        ("            mbarrier.wait(k_empty.index(slot), free)\n", """\
            stamp(clocks, 3, i, 0)
            mbarrier.wait(k_empty.index(slot), free)
            stamp(clocks, 3, i, 1)
""", 1),
        ("            mbarrier.wait(v_empty.index(slot), free)\n", """\
            stamp(clocks, 3, i, 2)
            mbarrier.wait(v_empty.index(slot), free)
            stamp(clocks, 3, i, 3)
""", 1),
        ("v_full.index(slot), v_smem.index(slot))\n", """v_full.index(slot), v_smem.index(slot))
            stamp(clocks, 3, i, 4)
""", 1),
        ("worker_num_regs=[160, 160, 24]", "worker_num_regs=[160, 160, 40]", 1),
    ],
}  # fmt: skip
_GRADIENTS = [
    (0, 1, "waits for Q"),
    (1, 2, "S, dQ of the tile before is handed over"),
    (2, 3, "exponentials, waits for dP"),
    (3, 4, "dS, handed over"),
    (4, 5, "waits for the other dS"),
    (5, 6, "waits for dV and dK"),
    (6, None, "waits for dQ"),
]
BACKWARD: dict[str, Any] = {
    "module": "gluon_backward",
    "call": "gradients",
    "tiles": N // 64,
    "lanes": {g: (f"group {g}", _GRADIENTS) for g in range(2)},
    "edits": [
        ("# fmt: off\n@gluon.jit\n", "CLOCKS = None\n\n\n# fmt: off\n" + _STAMP.replace(
            "PROGRAM", "gl.program_id(0) + gl.program_id(1) * gl.num_programs(0)"), 1),
        ("dk_desc, dv_desc, smem, bars, start", "dk_desc, dv_desc, clocks, smem, bars, start", 3),
        ("dv_desc, dq_desc,\n", "dv_desc, dq_desc, clocks,\n", 1),
        ("        *(kv_heads, n_q, n_k, rows,", "        *(CLOCKS, kv_heads, n_q, n_k, rows,", 1),
        ("    t, group: gl.constexpr, dk, dv", "    clocks, t, group: gl.constexpr, dk, dv", 1),
        ("member * tiles + i - start, group", "clocks, member * tiles + i - start, group", 2),
        *(
            (line, f"{line}{indent}stamp(clocks, group, t, {event})\n", 1)
            for event, (indent, line) in enumerate((
                (" " * 4, "    phase = (t // STAGES) & 1\n"),
                (" " * 12, "            mbarrier.wait(q_full.index(slot), phase)\n"),
                (" " * 12, "            s = warpgroup_mma_wait(num_outstanding=1, deps=(s,))\n"),
                (" " * 8, "        dp = warpgroup_mma_wait(num_outstanding=0, deps=(dp,))\n"),
                (" " * 12, "            mbarrier.arrive(dq_full.index(group))\n"),
                (" " * 4, "    mbarrier.wait(ds_full.index(half_of_ds), (t // 2) & 1)\n"),
                (" " * 4, "    mbarrier.arrive(q_empty.index(slot))\n"),
            ))
        ),
    ],
}  # fmt: skip


def forward_of(function: Callable[..., Any], qkv: tuple[Any, ...]) -> Callable[[], Any]:
    """Return a call without arguments that returns o."""
    return lambda: function(*qkv)[0]


def backward_of(function: Callable[..., Any], qkv: tuple[Any, ...]) -> Callable[[], Any]:
    """Return a call without arguments that returns dV; dQ is added up, so it grows."""
    import torch

    from course_lib.kernels.gluon_forward import specialised
    from course_lib.kernels.scores import LOG2_E

    o, lse = specialised(*qkv)
    do = torch.ones_like(o) + qkv[0]
    delta = (o.float() * do.float()).sum(-1).flatten(0, 1)  # (H, N)
    dq_sum = torch.zeros(HEADS, N, D, device=o.device)
    gradients = tuple(torch.empty_like(x) for x in qkv)
    given = (*qkv, do, lse.flatten(0, 1) * LOG2_E, delta, dq_sum, *gradients)

    def call() -> Any:
        function(*given, causal=False, scale=D**-0.5)
        return gradients[2]

    return call


def with_clocks(kernel: dict[str, Any], folder: Path) -> ModuleType:
    """Return a copy of a module of kernels that writes down clocks (`CLOCKS`, int64)."""
    import course_lib.kernels

    name = kernel["module"]
    text = (Path(course_lib.kernels.__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    for old, new, count in kernel["edits"]:
        if text.count(old) != count:
            sys.exit(f"{name}.py: {old.strip()!r} is there {text.count(old)} times, not {count}.")
        text = text.replace(old, new.replace("SLOTS", str(SLOTS)))
    file = folder / f"{name}_with_clocks.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def spans(kernel: dict[str, Any], clocks: Any) -> Iterator[dict[str, Any]]:
    """Return what the lanes of one program do when, in cycles; clocks (ROLES, SLOTS, EVENTS)."""
    for role, (lane, steps) in kernel["lanes"].items():
        for tile in range(kernel["tiles"]):
            for first, last, what in steps:
                begin = int(clocks[role, tile, first])
                end = int(clocks[role, tile, last] if last else clocks[role, tile + 1, 0])
                if begin and end:  # the first tile and the last one may lie outside the loop
                    yield {"lane": lane, "what": what, "begin": begin, "end": end}


def read_clocks(call: Callable[[], Any], module: ModuleType) -> Any:
    """Return what one call, warmed up, writes down: (programs, ROLES, SLOTS, EVENTS)."""
    import torch

    programs = HEADS * N // 64
    module.CLOCKS = torch.zeros(programs, ROLES, SLOTS, EVENTS, dtype=torch.int64, device="cuda")
    for _ in range(3):
        call()
    module.CLOCKS.zero_()
    call()
    return module.CLOCKS.cpu()


def describe(kernel: dict[str, Any], clocks: Any) -> dict[str, Any]:
    """Return the median cycles of each step over all programs, and a window of one SM."""
    middle = kernel["tiles"] // 2
    used = [one for one in clocks if one[0, middle, 0]]
    cycles: dict[tuple[str, str], list[int]] = {}
    for one in used:
        for span in spans(kernel, one):
            length = span["end"] - span["begin"]
            cycles.setdefault((span["lane"], span["what"]), []).append(length)
    chosen = used[len(used) // 2]
    sm = int(chosen[0, middle, SM])
    start, stop = (int(chosen[0, tile, 0]) for tile in (middle, middle + WINDOW))
    drawn = [
        {**span, "program": program, "begin": span["begin"] - start, "end": span["end"] - start}
        for program, one in enumerate(one for one in used if int(one[0, middle, SM]) == sm)
        for span in spans(kernel, one)
        if span["end"] > start and span["begin"] < stop
    ]
    medians = [
        {"lane": lane, "what": what, "cycles": statistics.median(found)}
        for (lane, what), found in cycles.items()
    ]
    return {"sm": sm, "medians": medians, "window": stop - start, "spans": drawn}


def measure(kernel: dict[str, Any], qkv: tuple[Any, ...], scratch: Path) -> dict[str, Any]:
    """Return a kernel's name and time, what the clocks in its copy cost, and what they say."""
    module = with_clocks(kernel, scratch)
    ours = importlib.import_module(f"course_lib.kernels.{kernel['module']}")
    prepared = backward_of if kernel is BACKWARD else forward_of
    plain, timed = (prepared(getattr(one, kernel["call"]), qkv) for one in (ours, module))
    clocks = read_clocks(timed, module)
    if not timed().equal(plain()):
        sys.exit(f"{kernel['call']}: the copy with clocks gives another answer.")
    times = in_turns({"with": timed, "without": plain}, rounds=9)
    us = {way: time["median_us"] for way, time in times.items()}
    return {
        "kernel": kernel["call"],
        "median_us": us["without"],
        "with_clocks": us["with"] / us["without"],
        **describe(kernel, clocks),
    }


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RECORDS)
    folder = parser.parse_args().out
    need_gpu()
    torch.manual_seed(0)
    qkv = tuple(torch.randn(1, HEADS, N, D, device="cuda", dtype=torch.bfloat16) for _ in "qkv")
    with tempfile.TemporaryDirectory() as scratch:
        rows = [measure(kernel, qkv, Path(scratch)) for kernel in (RUNG_4, RUNG_8, BACKWARD)]
    for row in rows:
        print(f"{row['kernel']}: {row['with_clocks']:.3f} of its time with the clocks")
        table(row["medians"])
    shape = {"heads": HEADS, "n": N, "head_dim": D, "key_tiles": WINDOW}
    save({**header(__doc__.splitlines()[0]), **shape, "rows": rows}, "h100_timeline", folder)


if __name__ == "__main__":
    main()
