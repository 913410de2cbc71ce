"""The child's side: run one attention call under a memory limit and say what it took."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from course_lib.demo.peak import ITEMSIZE, Peak, predicted_bytes
from course_lib.sandbox.limit import memory_at_most

_BACKENDS = {  # the operator that ran -> what it is
    "_scaled_dot_product_flash_attention_for_cpu": "flash attention for CPU (tiled C++)",
    "_scaled_dot_product_flash_attention": "flash attention (FA2 kernel)",
    "_scaled_dot_product_efficient_attention": "memory-efficient attention (xFormers kernel)",
    "_scaled_dot_product_cudnn_attention": "cuDNN attention",
}
_MATH = "math: PyTorch chose the unfused path, so the scores are written down here too"


def _serve(method: str) -> None:
    """Answer the questions on stdin, one line each, until it closes (the child's main)."""
    import torch

    answers, sys.stdout = sys.stdout, sys.stderr  # nobody else's print becomes an answer
    with contextlib.suppress(OSError):  # if memory runs out, this process goes, not the notebook
        Path("/proc/self/oom_score_adj").write_text("1000")
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = asdict(_measure(torch, method, **question)) if question else _hello(torch)
        except Exception as error:
            answer = {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}
        for known in ("method", "n"):
            answer.pop(known, None)
        print(json.dumps(answer), file=answers, flush=True)


def _hello(torch: Any) -> dict[str, Any]:
    on_gpu = torch.cuda.is_available()
    modern = on_gpu and torch.cuda.get_device_capability()[0] >= 8
    if on_gpu:
        source = "peak of PyTorch's allocator above a warm baseline"
    elif _resident() is not None:
        source = "peak of the process's memory above a warm baseline"
    else:
        source = "not on this system (the ledger counts)"
    return {
        "on_gpu": on_gpu,
        "device": torch.cuda.get_device_name() if on_gpu else f"a CPU ({_threads(torch)})",
        "dtype": ("bfloat16" if modern else "float16") if on_gpu else "float32",
        "dtypes": [name for name in ITEMSIZE if name != "bfloat16" or modern or not on_gpu],
        "source": source,
    }


def _threads(torch: Any) -> str:
    count = torch.get_num_threads()
    return f"{count} thread" + "s" * (count > 1)


def _measure(
    torch: Any,
    method: str,
    *,
    n: int,
    heads: int,
    head_dim: int,
    dtype: str,
    limit_bytes: int | None,
) -> Peak:
    """Run one attention call, warm, and return its peak; out of memory is an answer too."""
    from course_lib.accounting.eager_ledger import EagerLedger
    from course_lib.attention.naive_eager import naive_eager

    attend = naive_eager if method == "naive" else torch.nn.functional.scaled_dot_product_attention
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def draw(length: int, count: int) -> list[Any]:
        shape = (1, count, length, head_dim)
        return [torch.randn(shape, dtype=getattr(torch, dtype), device=device) for _ in range(3)]

    size = ITEMSIZE[dtype]
    need = predicted_bytes(method, n, heads, head_dim, size, lse=device == "cpu")
    with torch.no_grad():
        with EagerLedger():  # libraries load, workspaces and threads appear: not counted
            attend(*draw(1024, 1))
        q, k, v = draw(n, heads)
        ledger = EagerLedger(q=q, k=k, v=v)
        try:
            with _limited(torch, limit_bytes, need), _peak(torch) as peak, ledger:
                attend(q, k, v)
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not _is_allocation(torch, error):
                raise
            return Peak(method, n, need, out_of_memory=_reason(limit_bytes))
    backend = "three lines of eager PyTorch" if method == "naive" else _backend(ledger)
    return Peak(method, n, need, ledger.peak_bytes, peak[0] if peak else None, backend)


def _is_allocation(torch: Any, error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error)


def _reason(limit_bytes: int | None) -> str:
    if limit_bytes is None:
        return "the device has no more"
    return "the limit stopped it"


def _backend(ledger: Any) -> str:
    ops = {crossing.op for crossing in ledger.crossings}
    return next((words for op, words in _BACKENDS.items() if op in ops), _MATH)


@contextlib.contextmanager
def _limited(torch: Any, limit_bytes: int | None, need: int) -> Iterator[None]:
    """Let the block hold ``limit_bytes`` more than now; MemoryError if nothing can enforce it."""
    if limit_bytes is None:
        yield
    elif torch.cuda.is_available():
        held, total = torch.cuda.memory_reserved(), torch.cuda.mem_get_info()[1]
        torch.cuda.set_per_process_memory_fraction(min(1.0, (held + limit_bytes) / total))
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
    elif sys.platform == "linux":
        with memory_at_most(limit_bytes):
            yield
    elif need > limit_bytes:  # macOS and Windows enforce no such limit: the formula guards
        raise MemoryError
    else:
        yield


@contextlib.contextmanager
def _peak(torch: Any) -> Iterator[list[int]]:
    """Yield a list that holds the block's peak bytes above now, once the block has ended."""
    found: list[int] = []
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        yield found
        torch.cuda.synchronize()
        found.append(torch.cuda.max_memory_allocated() - before)
        return
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts from here
    before = _resident()
    yield found
    after = _resident("VmHWM")
    if before is not None and after is not None:
        found.append(max(0, after - before))


def _resident(field: str = "VmRSS") -> int | None:
    """Return bytes of this process in memory now, or at most (VmHWM); None if not told."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(field)).split()[1]) * 1024
    return None


if __name__ == "__main__":
    _serve(sys.argv[1])
