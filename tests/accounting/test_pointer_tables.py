"""A kernel that loads its pointers from a tensor is watched like any other."""

from __future__ import annotations

import pytest
import torch
from helpers import module_from

from course_lib.accounting.kernel_ledger import KernelLedger, OutOfBounds
from course_lib.accounting.launch_arguments import from_plain, to_plain
from course_lib.accounting.pointer_tables import PointerTable, with_targets

GROUPED = """
import torch, triton
import triton.language as tl

@triton.jit
def grouped(xs, ys, n, B: tl.constexpr):
    x = tl.load(xs + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    y = tl.load(ys + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    at = tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)
"""


def table(*tensors: torch.Tensor) -> torch.Tensor:
    return torch.tensor([x.data_ptr() for x in tensors], dtype=torch.int64)


def test_what_a_table_points_at_is_read_written_and_counted():
    a, b, c, d = torch.ones(5), torch.full((5,), 2.0), torch.empty(5), torch.empty(5)
    with KernelLedger() as ledger:
        module_from(GROUPED).grouped[(2,)](table(a, b), table(c, d), 5, B=16)
    assert (c.tolist(), d.tolist()) == ([2.0] * 5, [4.0] * 5)
    assert ledger.read == {"xs[0]": 20, "xs[1]": 20}, "loading a pointer is no traffic"
    assert ledger.written == {"ys[0]": 20, "ys[1]": 20}


def test_leaving_such_a_tensor_is_out_of_bounds():
    a, c = torch.ones(5), torch.empty(5)
    with KernelLedger(), pytest.raises(OutOfBounds, match=r"`xs\[0\]`"):
        module_from(GROUPED).grouped[(1,)](table(a), table(c), 9, B=16)


def test_a_table_may_point_into_the_middle_and_moves_to_another_place():
    whole = torch.arange(12.0).reshape(3, 4)
    known = with_targets(table(whole[1], whole[2]))
    assert isinstance(known, PointerTable)
    assert known.offsets == (16, 32)
    moved = from_plain(to_plain(known))
    assert torch.equal(moved.table, known.table), "the same tensors, so the same addresses"


@pytest.mark.parametrize("numbers", [[1, 2, 3], [2**40 + 1], list(range(100))])
def test_other_integers_are_no_table(numbers):
    value = torch.tensor(numbers, dtype=torch.int64)
    assert with_targets(value) is value
