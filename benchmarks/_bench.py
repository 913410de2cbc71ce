"""What every benchmark shares: a clock for the GPU, the record's header, the table."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "course_lib" / "accounting" / "measurements"
KERNELS = {x.stem: x for x in sorted((ROOT / "course_lib" / "kernels").glob("[a-z]*.py"))}


def gpu_times(
    run: Callable[[], Any], *, repeats: int = 25, warm_up: int = 3, device_only: bool = False
) -> dict[str, float]:
    """Return median, fastest and slowest of single calls, in microseconds, by CUDA events.

    Each call is timed on its own, after a read of 256 MB that fills the L2 cache with what the call
    does not need. (A write would leave it full of what must still go to DRAM, up to 50 MB, and the
    call would pay for that.) With ``device_only`` the GPU then sleeps for about a millisecond, in
    which Python has the time to put the whole call into the queue: what the host needs is left out.
    """
    import torch

    for _ in range(warm_up):
        run()
    other = torch.ones(64_000_000, device="cuda")
    times = []
    for _ in range(repeats):
        other.sum()
        if device_only:
            torch.cuda._sleep(2_000_000)  # clock cycles
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        stop.record()
        torch.cuda.synchronize()
        times.append(1e3 * start.elapsed_time(stop))
    return {"median_us": statistics.median(times), "min_us": min(times), "max_us": max(times)}


def in_turns(
    calls: dict[str, Callable[[], Any]], *, rounds: int, repeats: int = 3
) -> dict[str, dict[str, float]]:
    """Return for each call median, fastest and slowest of ``rounds`` medians, in microseconds.

    Every round times every call (`gpu_times`, device only) in another order: a change of clock, and
    what the kernel before leaves behind, meet all alike. In a fixed order the same kernel, measured
    at two places, differed by 8 %.
    """
    dice = random.Random(0)
    order, medians = list(calls), {name: [] for name in calls}
    for _ in range(rounds):
        dice.shuffle(order)
        for name in order:
            timed = gpu_times(calls[name], repeats=repeats, warm_up=1, device_only=True)
            medians[name].append(timed["median_us"])
    return {
        name: {"median_us": statistics.median(us), "min_us": min(us), "max_us": max(us)}
        for name, us in medians.items()
    }


def wall_times(
    run: Callable[[], Any], *, repeats: int = 100, warm_up: int = 10
) -> dict[str, float]:
    """Return median, fastest and slowest of single calls, in microseconds, by the host's clock.

    The GPU is idle before each call and done after it, so that the host's work is all counted.
    """
    import torch

    for _ in range(warm_up):
        run()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(1e6 * (time.perf_counter() - start))
    return {"median_us": statistics.median(times), "min_us": min(times), "max_us": max(times)}


def sdpa(backend: str, q: Any, k: Any, v: Any, **options: Any) -> Any:
    """Return PyTorch's attention by one backend, a name in ``torch.nn.attention.SDPBackend``."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(getattr(SDPBackend, backend)):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)


@functools.cache
def fa4() -> Callable[..., Any] | None:
    """Return FlashAttention-4's function of (B, N, H, d) tensors, or None if it is not installed.

    A peer to measure, never a dependency; the package is called flash-attn-4.
    """
    try:
        from flash_attn.cute import flash_attn_func
    except ImportError:
        return None
    return flash_attn_func


def fa4_version() -> dict[str, str]:
    """Return what a record adds to its versions where FlashAttention-4 took part."""
    return {} if fa4() is None else {"flash-attn-4": metadata.version("flash-attn-4")}


def need_gpu() -> None:
    """End the program with a sentence where there is no GPU."""
    from course_lib._mode import cuda_devices

    if cuda_devices() == 0:
        sys.exit("This benchmark needs a CUDA GPU, and this machine has none that works.")


def peak_bytes(run: Callable[[], Any]) -> int:
    """Return the allocator's peak above what was allocated before, in bytes, after a warm-up."""
    import torch

    run()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def header(question: str) -> dict[str, Any]:
    """Return what every record begins with: the question, device, versions, date, command."""
    import torch
    import triton

    asked = sys.argv[1:]
    if "--out" in asked:  # where the record lies is no part of how it was made
        del asked[asked.index("--out") : asked.index("--out") + 2]
    return {
        "question": question,
        "device": torch.cuda.get_device_name(),
        "versions": {"torch": torch.__version__, "triton": triton.__version__},
        "date": datetime.now(UTC).date().isoformat(),
        "command": "python " + " ".join(["benchmarks/" + Path(sys.argv[0]).name, *asked]),
    }


def save(record: dict[str, Any], name: str, folder: Path = RECORDS) -> None:
    """Write the record as JSON, and which kernels it saw, now and before; say where."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.json"
    used = [n for n in KERNELS if f"course_lib.kernels.{n}" in sys.modules]
    seen = record.get("kernels", {}) | {n: fingerprint(KERNELS[n]) for n in used}
    record = record | {"kernels": seen}
    file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"written: {file}")


def fingerprint(file: Path) -> str:
    """Return a short name of what a module does: its code without comments and docstrings.

    A record keeps it of every module of kernels that was loaded; a test finds records that are
    older than their kernels (tests/house/test_records.py).
    """
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
            node.body = [x for x in node.body if not _is_text(x)] or [ast.Pass()]
    return hashlib.blake2b(ast.unparse(tree).encode(), digest_size=8).hexdigest()


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def table(rows: list[dict[str, Any]]) -> None:
    """Print rows of equal keys as an aligned table."""
    heads = list(rows[0])
    cells = [heads, *([_text(row[head]) for head in heads] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(heads))]
    for line in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
