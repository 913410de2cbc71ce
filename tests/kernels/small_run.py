"""Run one kernel of the course once at small, ragged sizes, for a tool that watches it. (GPU)

Usage: python tests/kernels/small_run.py NAME [NAME ...]; `all` for all. `.ci/sanitize.py` runs this
under compute-sanitizer. Inputs are made on the CPU, so that the GPU runs little else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import course_lib  # noqa: F401  first: it chooses Triton's mode

# isort: split
import torch

from course_lib.kernels import (
    attention_backward,
    attention_op,
    decode,
    flash_forward,
    ladder,
    packed,
    paged,
)
from course_lib.kernels.tiles import BY_HAND, CAUSAL_LISTS, LISTS

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def make(
    n_q: int, n_k: int, d: int, heads: int = 2, kv_heads: int = 1, dtype: torch.dtype | None = None
) -> list[torch.Tensor]:
    """Return q, k, v of one sequence; half precision unless said otherwise."""
    made = torch.Generator().manual_seed(n_q + n_k)
    shapes = ((heads, n_q), (kv_heads, n_k), (kv_heads, n_k))
    dtype = torch.float16 if dtype is None else dtype
    return [torch.randn(1, *shape, d, generator=made).to(dtype).to(DEVICE) for shape in shapes]


def teaching() -> None:
    for d, causal in ((64, False), (128, True)):
        finite(*flash_forward.flash_attention_with_lse(*make(150, 200, d), causal=causal))


def rung(number: int) -> None:
    for d, causal in ((64, True), (128, False)):
        finite(*ladder.RUNGS[number](*make(150, 200, d, kv_heads=2), causal=causal))


def rung_8() -> None:
    from course_lib.kernels.gluon_forward import specialised

    for d, causal in ((64, True), (96, False), (128, True), (128, False), (256, True)):
        for table in (BY_HAND, LISTS, CAUSAL_LISTS):
            if d in table:
                finite(*specialised(*make(200, 300, d), causal=causal, **table[d]))


def forward() -> None:
    """The operator's own kernel (window, odd head_dim, strides) and whatever it chooses here."""
    call = attention_op.flash_attention
    finite(*call(*make(150, 200, 128), causal=True, window=70, return_lse=True))
    finite(*call(*make(70, 90, 96, dtype=torch.float32), return_lse=True))
    turned = [x.mT.contiguous().mT for x in make(70, 90, 64)]
    finite(*call(*turned, causal=True, return_lse=True))
    for d in (64, 96, 128, 256):
        finite(*call(*make(200, 300, d), causal=True, return_lse=True))


def backward() -> None:
    for d, window in ((64, None), (128, 70), (96, None)):
        inputs = [x.requires_grad_() for x in make(150, 200, d)]
        o = attention_op.flash_attention(*inputs, causal=True, window=window)
        do = torch.ones(o.shape, dtype=o.dtype).to(DEVICE)
        finite(*torch.autograd.grad(o, inputs, do))


def backward_by_hand() -> None:
    attention_backward.FEWEST = 0
    for d, causal in ((64, True), (96, True), (128, False)):
        inputs = [x.requires_grad_() for x in make(200, 300, d)]
        o = attention_op.flash_attention(*inputs, causal=causal)
        do = torch.ones(o.shape, dtype=o.dtype).to(DEVICE)
        finite(*torch.autograd.grad(o, inputs, do))


def packed_sequences() -> None:
    """Forward and backward with every switch on, among them a sequence without a row."""
    starts = torch.tensor([0, 70, 70, 150], dtype=torch.int32).to(DEVICE)
    per_head = torch.tensor([0.5, 0.1]).to(DEVICE)
    for d in (64, 128):
        q, k, v = (x[0].transpose(0, 1).requires_grad_() for x in make(150, 150, d))
        sinks = per_head.clone().requires_grad_()
        o = packed.flash_attention_packed(
            *(q, k, v, starts, starts), causal=True, softcap=5.0, sinks=sinks, slopes=per_head
        )
        do = torch.ones(o.shape, dtype=o.dtype).to(DEVICE)
        finite(o, *torch.autograd.grad(o, (q, k, v, sinks), do))


def paged_prefill() -> None:
    q, k, v = make(90, 640, 128, heads=8, kv_heads=2)
    pages = [x.view(2, 40, 16, 128).transpose(0, 1).contiguous() for x in (k, v)]
    table = torch.arange(39, -1, -1, dtype=torch.int32).view(1, 40).to(DEVICE)
    lengths = torch.tensor([633], dtype=torch.int32).to(DEVICE)
    starts = torch.tensor([0, 90], dtype=torch.int32).to(DEVICE)
    finite(*paged.paged_prefill(q[0].transpose(0, 1), *pages, table, lengths, starts))


def flash_decode() -> None:
    for d in (96, 128):
        q, k, v = make(2, 700, d, heads=8, kv_heads=2)
        lengths = torch.tensor([633], dtype=torch.int32).to(DEVICE)
        finite(*decode.flash_decode(q, k, v, lengths, splits=4))
    lengths = (torch.arange(100, dtype=torch.int32) % 33 + 1).to(DEVICE)  # many: they are sorted
    q, k, v = (torch.ones(100, 8, n, 64, dtype=torch.float16).to(DEVICE) for n in (1, 33, 33))
    assert decode.to_sort(decode.multiprocessors(q), 100, 800)
    finite(*decode.flash_decode(q, k, v, lengths))


def paged_decode() -> None:
    q, k, v = make(2, 640, 128, heads=8, kv_heads=2)
    pages = [x.view(2, 40, 16, 128).transpose(0, 1).contiguous() for x in (k, v)]
    table = torch.arange(39, -1, -1, dtype=torch.int32).view(1, 40).to(DEVICE)
    lengths = torch.tensor([633], dtype=torch.int32).to(DEVICE)
    finite(*paged.paged_decode(q, *pages, table, lengths, splits=4))


def dispatch(meet: bool) -> None:
    """A control: warps part and share nothing. What a tool finds here is not ours."""
    import _dispatch_kernel

    count = torch.tensor(64, device=DEVICE, dtype=torch.int32)
    o = torch.zeros(2, 3, 64, device=DEVICE)
    _dispatch_kernel.part_and_fill[(2,)](o, count, meet, num_warps=4)
    assert (o == torch.tensor([[1], [2], [3]], device=DEVICE)).all()


def finite(*results: torch.Tensor) -> None:
    """Raise if a result holds NaN or infinities (every row here has a key)."""
    for x in results:
        assert x.detach().cpu().isfinite().all(), "not finite"


RUNS: dict[str, Callable[[], None]] = {
    "teaching": teaching,
    **{f"rung_{number}": lambda number=number: rung(number) for number in ladder.RUNGS},
    "rung_8": rung_8,
    "dispatch": lambda: dispatch(False),
    "dispatch_and_meet": lambda: dispatch(True),
    "forward": forward,
    "backward": backward,
    "backward_by_hand": backward_by_hand,
    "flash_decode": flash_decode,
    "paged_decode": paged_decode,
    "packed_sequences": packed_sequences,
    "paged_prefill": paged_prefill,
}


HOPPER = ("rung_8", "backward_by_hand", "dispatch", "dispatch_and_meet")


def main(names: Sequence[str]) -> None:
    """Run each by its name."""
    for name in RUNS if list(names) == ["all"] else names:
        if name in HOPPER and (DEVICE == "cpu" or torch.cuda.get_device_capability() != (9, 0)):
            print(f"{name}: for sm_90 alone, not run")
            continue
        RUNS[name]()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        print(f"{name}: finite", flush=True)


if __name__ == "__main__":
    if not sys.argv[1:] or not set(sys.argv[1:]) <= {"all", *RUNS}:
        sys.exit(f"usage: small_run.py NAME ..., of: all, {', '.join(RUNS)}")
    main(sys.argv[1:])
