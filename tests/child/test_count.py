"""`count` gives the same books here and from a child, and says in a sentence what goes wrong."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import triton
import triton.language as tl

from course_lib import _mode
from course_lib import count as public_count
from course_lib.accounting.kernel_ledger import KernelLedger, LedgerUnavailable, OutOfBounds
from course_lib.child.count import CountFailed, count, in_child
from course_lib.kernels import ladder
from course_lib.kernels.flash_forward import flash_attention_with_lse
from course_lib.kernels.tiles import Tiles


@triton.jit
def copy_all(x, y, n, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    if not MASKED:
        inside = at >= 0
    tl.store(y + at, tl.load(x + at, mask=inside), mask=inside)


def copy(x, masked=True, block=16):
    y = torch.empty_like(x)
    if masked is None:
        raise RuntimeError("no decision")
    copy_all[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), MASKED=masked, BLOCK=block)
    return y


def count_in_child(function, *args, **kwargs):
    return in_child(function, args, kwargs)


def books(ledger):
    tables = {key: getattr(ledger, key) for key in ("visits", "compared")}
    return ledger.to_plain() | tables


@pytest.mark.parametrize("counting", [count, count_in_child], ids=["anywhere", "in a child"])
def test_counts_and_out_of_bounds(counting):
    ledger = counting(copy, torch.zeros(40), block=32)
    assert isinstance(ledger, KernelLedger)
    assert (ledger.read, ledger.written) == ({"x": 160}, {"y": 160})
    with pytest.raises(OutOfBounds, match=r"`x` by program .1, 0, 0.: 24 addresses") as caught:
        counting(copy, torch.zeros(40), masked=False, block=32)
    error = caught.value
    assert (error.tensor, error.program, error.count) == ("x", (1, 0, 0), 24)


def test_a_child_keeps_the_same_books():
    packed = torch.randn(1, 40, 3, 2, 16)
    q, k, v = (packed[:, :, i].transpose(1, 2) for i in range(3))
    options = {"causal": True, "block_q": 16, "block_k": 32}
    assert books(count(flash_attention_with_lse, q, k, v, **options)) == books(
        count_in_child(flash_attention_with_lse, q, k, v, **options)
    )


def test_a_dataclass_from_a_module_travels_and_one_of_a_notebook_is_named():
    x, tiles = torch.randn(1, 1, 32, 16), Tiles(16, 32)
    assert books(count(ladder.skip_tiles, x, x, x, tiles=tiles)) == books(
        count_in_child(ladder.skip_tiles, x, x, x, tiles=tiles)
    )
    mine = dataclasses.make_dataclass("Mine", ["block"])
    mine.__module__ = "__main__"
    with pytest.raises(TypeError, match=r"^tiles must be .* got Mine"):
        count_in_child(ladder.skip_tiles, x, x, x, tiles=mine(16))


def test_a_students_exception_comes_with_its_line():
    with pytest.raises(CountFailed, match=r"RuntimeError: no decision .line \d+: raise"):
        count_in_child(copy, torch.zeros(4), masked=None)


def test_bfloat16_is_refused_in_the_child_too():
    with pytest.raises(TypeError, match="bfloat16"):
        count_in_child(copy, torch.zeros(4, dtype=torch.bfloat16))


def test_no_launch_and_no_triton(monkeypatch):
    with pytest.raises(ValueError, match="launched no Triton kernel"):
        count(torch.zeros, 3)
    monkeypatch.setattr(_mode, "mode", lambda: "none")
    with pytest.raises(LedgerUnavailable, match="not installed"):
        count(copy, torch.zeros(4))


def test_students_find_it_at_the_top():
    assert public_count is count


@pytest.mark.gpu
def test_on_a_gpu_it_counts_in_a_child():
    x = torch.zeros(40, device="cuda")
    assert count(copy, x, block=32).read == {"x": 160}
    q, k, v = torch.randn(3, 1, 2, 100, 64, device="cuda").half()
    assert count(flash_attention_with_lse, q, k, v).read["q"] == 2 * 100 * 64 * 2
