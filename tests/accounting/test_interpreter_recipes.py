"""What is remembered of Triton's interpreter gives what the interpreter gives, bit by bit."""

from __future__ import annotations

import pytest
import torch
from helpers import module_from

from course_lib.accounting.kernel_ledger import KernelLedger

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def kernel(x, w, m, y, n, s, B: tl.constexpr):
    at = tl.arange(0, B)
    tile = at[:, None] * B + at[None, :]
    a = tl.load(x + tile)
    b = tl.load(x + tile + 1, mask=tile < n, other=1)
    row, half = tl.load(x + at), tl.load(w + tile)
    whole = tl.load(m + tile)
    out = {expression}
    tl.store(y + tile, tl.broadcast_to(out, [B, B]).to(tl.float32))
"""
EXPRESSIONS = [
    "a + b", "a - a", "a * row[None, :]", "row[:, None] - b", "a / b", "a / 3", "2.5 / b",
    "a + s", "s * a", "-a", "a + 1", "1 - a", "a * -0.0", "half + half", "half * 2.0",
    "half / half", "half.to(tl.float32) + a", "a.to(tl.float16)", "whole + 1", "whole * whole",
    "whole / 2", "whole // 3", "whole % 3", "whole + n", "n - whole", "whole + a", "whole < 7",
    "7 > whole", "a < 0.5", "a < b", "a == a", "a != b", "a >= row[None, :]", "a < 1e-40",
    "(n > 4) & (whole < 3)", "(whole < 3) | (n != n)", "~(a < b)", "whole & 3", "whole ^ 1",
    "tl.where(a < b, a, 0.0)", "tl.where(a < b, a, row[None, :])", "tl.where(n > 3, a, b)",
    "tl.maximum(a, 0.0)", "tl.maximum(a, b)", "tl.minimum(a, row[:, None])", "tl.exp(a)",
    "tl.exp2(half.to(tl.float32))", "tl.dot(a, b)", "tl.dot(half, half)", "tl.dot(a, b, acc=a)",
    "tl.dot(a, tl.trans(b))", "tl.full((B, B), 3, tl.int32) + a", "tl.zeros((B, B), tl.float32)",
    "tl.sum(a, 1)[:, None] + tl.max(b, 0)[None, :]", "whole.to(tl.float32) * 0.5",
]  # fmt: skip


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_what_is_remembered_is_what_the_interpreter_does(expression):
    kernel = module_from(KERNEL.replace("{expression}", expression)).kernel
    inputs = torch.randn(17 * 16), torch.randn(256).half(), torch.randint(1, 9, (256,)).int()
    right = torch.empty(256)
    kernel[(1,)](*inputs, right, 300, 0.75, B=16)
    for _ in range(3):  # learnt, known, and known to another ledger
        with KernelLedger() as ledger:
            found = [torch.empty(256), torch.empty(256)]
            for y in found:
                kernel[(1,)](*inputs, y, 300, 0.75, B=16)
        for y in found:
            assert torch.equal(y.nan_to_num(), right.nan_to_num())
            assert torch.equal(y.isnan(), right.isnan())
        once, again = ledger.launches
        assert (once.read, once.stored) == (again.read, again.stored)


def test_what_is_learnt_does_not_depend_on_numbers():
    """`x + x` has one operand, and with one number a load asks which it is."""
    source = """
import triton
import triton.language as tl

@triton.jit
def kernel(x, y, other, B: tl.constexpr):
    at = tl.arange(0, B)
    a = tl.load(x + at)
    tl.store(y + at, (a + a) - (a - tl.load(x + 1)) * (a > a))
    tl.store(y + B, tl.load(x, mask=other > 5.0, other=other))
"""
    kernel = module_from(source).kernel
    x = torch.arange(16.0)
    with KernelLedger():
        for other in (0.0, 3.0, 0.0):
            y = torch.empty(17)
            kernel[(1,)](x, y, other, B=16)
            assert torch.equal(y[:16], 2 * x)
            assert y[16] == other
