"""What the compiler takes, Triton's interpreter takes too while a ledger watches."""

from __future__ import annotations

import pytest
import torch
from helpers import module_from

from course_lib.accounting.kernel_ledger import KernelLedger

FLAGGED = """
import torch, triton
import triton.language as tl

@triton.jit
def flagged(x, y, n, flag, B: tl.constexpr):
    at = tl.arange(0, B)
    a = tl.load(x + at, mask=at < n, other=0.0)
    if flag:
        a += 1
    if not flag:
        a += 10
    a = tl.where(flag & (at < n), a + 0.5, a)
    tl.store(y + at, a + flag * 100, mask=at < n)
"""

COMPARED = """
import torch, triton
import triton.language as tl

@triton.jit
def compared(x, y, n, B: tl.constexpr):
    at = tl.arange(0, B)
    first = tl.load(x)
    seen = {mask}
    tl.store(y + at, tl.where(seen, 1.0, 0.0), mask=at < n)
"""

IMPORTED = """
{future}
import torch, triton
import triton.language as L
from triton.language import arange, constexpr, load, static_range, store
from triton.language import exp as power

@triton.jit
def helper(p, at, n):
    return load(p + at, mask=at < n, other=0.0)

@triton.jit
def imported(x, y, n, B: L.constexpr, C: constexpr):
    at = arange(0, B)
    a = power(helper(x, at, n))
    for _ in static_range(C):
        a += 1
    store(y + at, a, mask=at < n)
"""


SUMMED = """
import torch, triton
import triton.language as tl

@triton.jit
def summed(x, y, B: tl.constexpr):
    tl.store(y, tl.sum(tl.load(x + tl.arange(0, B)).to(tl.int8), 0, dtype=tl.int8))
"""


@pytest.mark.parametrize(("flag", "expected"), [(True, 101.5), (False, 10.0)])
def test_a_python_bool_is_a_flag(flag, expected):
    x, y = torch.zeros(5), torch.empty(5)
    with KernelLedger():
        module_from(FLAGGED).flagged[(1,)](x, y, 5, flag, B=16)
    assert y.tolist() == [expected] * 5


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        ("(first > 0.0) & (at < 3)", [1, 1, 1, 0, 0]),
        ("(at < 3) & (first <= 0.0)", [0] * 5),
        ("(first < 0.0) | (at >= 3)", [0, 0, 0, 1, 1]),
        ("(first != 2.0) ^ (at < 3)", [0, 0, 0, 1, 1]),
        ("(n > 4) & (at < 3)", [1, 1, 1, 0, 0]),
    ],
)
def test_a_comparison_of_numbers_stands_beside_one_of_tiles(mask, expected):
    x, y = torch.ones(1), torch.empty(5)
    with KernelLedger():
        module_from(COMPARED.replace("{mask}", mask)).compared[(1,)](x, y, 5, B=16)
    assert y.tolist() == expected


@pytest.mark.parametrize("future", ["", "from __future__ import annotations"])
def test_operations_may_be_imported_by_name_and_tl_called_otherwise(future):
    module = module_from(IMPORTED.format(future=future))
    own = module.load, module.power
    x, y = torch.zeros(5), torch.empty(5)
    for _ in range(2):
        with KernelLedger() as ledger:
            module.imported[(1,)](x, y, 5, B=16, C=3)
        assert y.tolist() == [4.0] * 5
        assert ledger.read == {"x": 20}
        assert (module.load, module.power) == own, "what the student imported is theirs again"


def test_a_sum_of_small_whole_numbers_wraps_as_on_a_gpu():
    y = torch.zeros(1, dtype=torch.int32)
    with KernelLedger():
        module_from(SUMMED).summed[(1,)](torch.full((16,), 50), y, B=16)
    assert y.item() == 800 - 3 * 256


def test_without_a_ledger_nothing_is_changed():
    from triton.runtime import interpreter

    before = interpreter._implicit_cvt, interpreter._patch_lang
    with KernelLedger():
        assert interpreter._implicit_cvt is not before[0]
    assert (interpreter._implicit_cvt, interpreter._patch_lang) == before


def test_a_kernel_called_without_a_grid_leaves_the_language_as_it_was():
    """Triton restores it after a launch, not after a call: the next launch failed by it."""
    import triton.language as tl

    kernel, own = module_from(FLAGGED).flagged, tl.arange
    x, y = torch.zeros(5), torch.zeros(5)
    with KernelLedger():
        with pytest.raises(Exception, match="has no attribute"):
            kernel(x, y, 5, True, B=8)
        assert tl.arange is own
        kernel[(1,)](x, y, 5, True, B=8)
    assert y.tolist() == [101.5] * 5
    assert tl.arange is own
