"""The kernel ledger: counts to the byte, catches every step outside, leaves nothing behind."""

from __future__ import annotations

import math

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from triton.runtime import interpreter
from triton.tools.tensor_descriptor import TensorDescriptor

from course_lib import _mode
from course_lib.accounting import kernel_ledger
from course_lib.accounting.eager_ledger import EagerLedger
from course_lib.accounting.kernel_ledger import (
    KernelLedger,
    LedgerUnavailable,
    OutOfBounds,
    Visit,
)
from course_lib.accounting.traffic import flash_tile_loads
from course_lib.child import codec
from course_lib.kernels.attention_op import flash_attention
from course_lib.kernels.flash_forward import flash_attention_with_lse

pytestmark = pytest.mark.skipif(_mode.mode() != "interpreter", reason="needs the interpreter")


def rows_walked(n_q, n_k, block_q, block_k, causal):
    """K rows that one head's programs load, counted row by row: shares nothing with the models."""
    loaded = 0
    for first in range(0, n_q, block_q):
        last = min(first + block_q, n_q) - 1
        for start in range(0, n_k, block_k):
            if not causal or start <= last + n_k - n_q:
                loaded += min(block_k, n_k - start)
    return loaded


def qkv(n_q, n_k, d, heads=1, kv_heads=1, batch=1, dtype=torch.float32):
    q = torch.randn(batch, heads, n_q, d).to(dtype)
    return q, *(torch.randn(batch, kv_heads, n_k, d).to(dtype) for _ in range(2))


# Bytes -----------------------------------------------------------------------------------------


@settings(max_examples=12, deadline=None)
@given(
    n_q=st.integers(1, 90),
    n_k=st.integers(1, 90),
    block_q=st.sampled_from([16, 32, 64]),
    block_k=st.sampled_from([16, 32, 64]),
    kv_heads=st.sampled_from([1, 2]),
    dtype=st.sampled_from([torch.float32, torch.float16]),
    causal=st.booleans(),
)
def test_flash_moves_what_the_model_says_to_the_byte(
    n_q, n_k, block_q, block_k, kv_heads, dtype, causal
):
    """Ragged, causal, grouped heads; every tensor on its own, lse included; and a count by rows."""
    d, heads, b = 16, 2, dtype.itemsize
    with KernelLedger() as ledger:
        flash_attention_with_lse(
            *qkv(n_q, n_k, d, heads, kv_heads, dtype=dtype),
            causal=causal,
            block_q=block_q,
            block_k=block_k,
        )
    model = flash_tile_loads.terms(
        lse=True, n_q=n_q, n_k=n_k, d=d, heads=heads, kv_heads=kv_heads, b=b,
        block_q=block_q, block_k=block_k, causal=causal,
    )  # fmt: skip
    assert {k: n for k, n in model["read"].items() if n} == ledger.read
    assert model["written"] == ledger.written
    k_bytes = heads * rows_walked(n_q, n_k, block_q, block_k, causal) * d * b
    assert ledger.read == {
        name: n for name, n in (("q", heads * n_q * d * b), ("k", k_bytes), ("v", k_bytes)) if n
    }
    assert ledger.written == {"o": heads * n_q * d * b, "lse": heads * n_q * 4}
    assert ledger.total == sum(ledger.read.values()) + sum(ledger.written.values())


def test_strides_do_not_change_the_bytes():
    packed = torch.randn(2, 50, 3, 2, 16)  # (B, N, 3, H, d): q, k, v lie inside one another
    q, k, v = (packed[:, :, i].transpose(1, 2) for i in range(3))
    with KernelLedger() as spread:
        flash_attention_with_lse(q, k, v, causal=True, block_q=16, block_k=32)
    with KernelLedger() as dense:
        dense_qkv = (x.contiguous() for x in (q, k, v))
        flash_attention_with_lse(*dense_qkv, causal=True, block_q=16, block_k=32)
    assert spread.read == dense.read
    assert spread.written == dense.written
    assert spread.visits == dense.visits


def test_keys_are_loaded_exactly_once_per_visited_tile_and_in_order():
    n, block_q, block_k = 96, 32, 16
    with KernelLedger() as ledger:
        flash_attention_with_lse(*qkv(n, n, 16), causal=True, block_q=block_q, block_k=block_k)
    for program in range(n // block_q):
        expected = [(s, s + block_k) for s in range(0, (program + 1) * block_q, block_k)]
        for name in ("k", "v"):
            mine = [v for v in ledger.visits if v.program == (program, 0, 0) and v.tensor == name]
            assert [visit.rows for visit in mine] == expected
    own = [visit for visit in ledger.visits if visit.program == (1, 0, 0)]
    assert own[0] == Visit((1, 0, 0), "q", (32, 64), "load", 32 * 16 * 4, (0, 16))
    assert own[-2] == Visit((1, 0, 0), "o", (32, 64), "store", 32 * 16 * 4, (0, 16))
    assert [v.program[0] for v in ledger.visits] == sorted(v.program[0] for v in ledger.visits)


def test_the_visits_bytes_are_the_books():
    with KernelLedger() as ledger:
        flash_attention_with_lse(*qkv(50, 70, 16), causal=True, block_q=32, block_k=16)
    for books, kind in ((ledger.read, "load"), (ledger.written, "store")):
        for name, n_bytes in books.items():
            visits = [v for v in ledger.visits if (v.tensor, v.kind) == (name, kind)]
            assert sum(visit.n_bytes for visit in visits) == n_bytes


def test_flops_of_dot_and_what_was_launched():
    with KernelLedger() as ledger:
        flash_attention_with_lse(*qkv(64, 64, 16, heads=2), block_q=32, block_k=32)
    assert ledger.flops == 2 * 2 * 2 * (4 * 32 * 32 * 16)
    (launch,) = ledger.launches
    assert (launch.kernel, launch.grid) == ("flash_forward", (2, 2, 1))
    assert launch.constexprs["BLOCK_K"] == 32
    assert launch.options == {"num_stages": 1}
    assert launch.tensors["lse"] == ((1, 2, 64), (128, 64, 1), "float32")


def test_a_ledger_survives_the_way_to_another_process():
    with KernelLedger() as ledger:
        flash_attention_with_lse(*qkv(20, 20, 16), block_q=16, block_k=16)
    copy = KernelLedger.from_plain(codec.decode(codec.encode(ledger.to_plain())))
    assert vars(copy) | {"_stack": 0, "_hooks": 0} == vars(ledger) | {"_stack": 0, "_hooks": 0}
    assert copy.table() == ledger.table()


@triton.jit
def reinforce(x, total, seen, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total + at % 4, tl.load(x + at, mask=at < n, other=0.0), mask=at < n)
    tl.atomic_cas(seen, 0, 1)


def test_atomics_read_and_write():
    x, total, seen = torch.ones(50), torch.zeros(4), torch.zeros(1, dtype=torch.int32)
    with KernelLedger() as ledger:
        reinforce[(4,)](x, total, seen, 50, BLOCK=16)
    assert total.sum() == 50
    assert ledger.read == {"x": 200, "total": 200, "seen": 16}
    assert ledger.written == {"total": 200, "seen": 16}


@triton.jit
def add_by_descriptor(x_desc, y, out, n, D: tl.constexpr, ROWS: tl.constexpr):
    first = tl.program_id(0) * ROWS
    y_desc = tl.make_tensor_descriptor(y, [n, D], [D, 1], [ROWS, D])
    out_desc = tl.make_tensor_descriptor(out, [n, D], [D, 1], [ROWS, D])
    out_desc.store([first, 0], x_desc.load([first, 0]) + y_desc.load([first, 0]))


def test_descriptors_of_both_kinds_are_counted_and_named():
    x, y, out = torch.randn(40, 16), torch.randn(40, 16), torch.empty(40, 16)
    x_desc = TensorDescriptor.from_tensor(x, [32, 16])
    with KernelLedger() as ledger:
        add_by_descriptor[(2,)](x_desc, y, out, 40, D=16, ROWS=32)
    assert torch.equal(out, x + y)
    assert ledger.read == {"x_desc": 40 * 64, "y": 40 * 64}
    assert ledger.written == {"out": 40 * 64}
    assert ledger.visits[-1] == Visit((1, 0, 0), "out", (32, 40), "store", 8 * 64, (0, 16))


@triton.jit
def load_row(x, row, stride, D: tl.constexpr):
    return tl.load(x + row * stride + tl.arange(0, D))


@triton.autotune([triton.Config({"D": 8}, num_warps=2)], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
@triton.jit
def sum_rows(x, y, bias, n, shape, D: tl.constexpr, EVEN: tl.constexpr):
    row = tl.program_id(0)
    value = tl.sum(load_row(x, row, shape[0], D))
    if bias is not None:
        value += tl.load(bias)
    tl.store(y + row, value)


@pytest.mark.parametrize("with_bias", [True, False])
def test_helpers_wrappers_keywords_none_and_tuples(with_bias):
    x, y = torch.randn(5, 8), torch.empty(5)
    bias = torch.ones(1) if with_bias else None
    with KernelLedger() as ledger:
        sum_rows[lambda meta: (5,)](x, n=5, y=y, bias=bias, shape=(8, 1))
    torch.testing.assert_close(y, x.sum(1) + int(with_bias))
    assert ledger.read == {"x": 160, "bias": 20} if with_bias else {"x": 160}
    assert ledger.launches[0].grid == (5,)
    assert ledger.launches[0].options["num_warps"] == 2


@triton.jit
def add_tuple(tensors, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(tensors[0] + at) + tl.load(tensors[1] + at))


def test_tensors_in_a_tuple_get_an_index():
    a, b, out = torch.randn(16), torch.randn(16), torch.empty(16)
    with KernelLedger() as ledger:
        add_tuple[(1,)]((a, b), out, N=16)
    assert torch.equal(out, a + b)
    assert ledger.read == {"tensors[0]": 64, "tensors[1]": 64}


@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)


def test_in_place_views_and_one_tensor_twice_keep_their_memory():
    base = torch.arange(40.0)
    with KernelLedger() as ledger:
        double[(2,)](base[3:23], base[3:23], 20, BLOCK=16)
        double[(2,)](base[3:23], base[20:40], 20, BLOCK=16)  # overlapping: one storage, kept one
    expected = torch.arange(40.0)
    expected[3:23] *= 2
    other = expected.clone()
    other[20:36] = 2 * expected[3:19]
    other[36:40] = 2 * other[19:23]  # the second program sees what the first wrote
    assert torch.equal(base, other)
    assert ledger.total == 4 * 20 * 4
    assert ledger.read["x"] == 2 * 20 * 4


def test_views_inside_one_another_are_told_apart():
    pairs = torch.randn(20, 2)
    with KernelLedger() as ledger:
        copy_columns[(1,)](pairs[:, 0], pairs[:, 1], 20, 2, BLOCK=32)
    assert (ledger.read, ledger.written) == ({"x": 80}, {"y": 80})


@triton.jit
def copy_columns(x, y, n, stride, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at * stride, tl.load(x + at * stride, mask=at < n), mask=at < n)


# Out of bounds ---------------------------------------------------------------------------------


@triton.jit
def unmasked_store(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n))


@triton.jit
def unmasked_load(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    tl.store(y + at, value, mask=at < n)


@triton.jit
def load_before(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at - 1, mask=at < n), mask=at < n)


@triton.jit
def load_far(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at.to(tl.int64) * 1000000000000, mask=at < n), mask=at < n)


@pytest.mark.parametrize(
    ("kernel", "kind", "tensor", "program", "count", "where"),
    [
        (unmasked_store, "store", "y", (2, 0, 0), 12, "past its end"),
        (unmasked_load, "load", "x", (2, 0, 0), 12, "past its end"),
        (load_before, "load", "x", (0, 0, 0), 1, "before its start"),
        (load_far, "load", "x", (0, 0, 0), 15, "past its end"),
    ],
)
def test_a_missing_mask_is_caught_and_named(kernel, kind, tensor, program, count, where):
    """x and y are neighbours in memory: without bands the over-read of one is in the other."""
    both = torch.zeros(2, 36)
    both[1] = 7.0
    x, y = both[0], both[1]
    with pytest.raises(OutOfBounds) as caught, KernelLedger():
        kernel[(3,)](x, y, 36, BLOCK=16)
    error = caught.value
    assert (error.kind, error.tensor, error.program, error.count) == (kind, tensor, program, count)
    for part in (f"`{tensor}`", str(program), f"{count} address", where, error.line):
        assert part in str(error)
    assert error.line.startswith(("tl.store", "value = tl.load"))
    assert error.__cause__ is None, "Triton's wrapper should be off"


@pytest.mark.parametrize(("kernel", "tensor"), [(unmasked_store, "y"), (unmasked_load, "x")])
def test_separate_tensors_are_caught_too(kernel, tensor):
    with pytest.raises(OutOfBounds, match=f"`{tensor}`"), KernelLedger():
        kernel[(3,)](torch.zeros(36), torch.zeros(36), 36, BLOCK=16)


def test_the_end_of_a_view_counts_not_that_of_its_buffer():
    buffer = torch.zeros(1000)
    with pytest.raises(OutOfBounds, match="12 addresses lie outside"), KernelLedger():
        unmasked_load[(3,)](buffer[:36], torch.zeros(36), 36, BLOCK=16)


def test_gaps_between_the_rows_of_a_view_are_outside():
    pairs = torch.zeros(20, 3)
    with pytest.raises(OutOfBounds, match="between its rows"), KernelLedger():
        copy_columns[(1,)](pairs[:, 0], torch.zeros(40), 20, 1, BLOCK=32)


def test_a_row_that_runs_into_the_neighbouring_slice_is_outside():
    """q and k side by side in each row of one buffer: reading q too wide reads k."""
    packed = torch.zeros(4, 32)
    q, k = packed[:, :16], packed[:, 16:]
    with KernelLedger() as ledger:
        add_rows[(4,)](q, k, 32, D=16)
    assert ledger.read == {"q": 256, "k": 256}
    with pytest.raises(OutOfBounds, match=r"load from `q`.*16 addresses"), KernelLedger():
        add_rows[(4,)](q, k, 32, D=32)


@triton.jit
def add_rows(q, k, stride, D: tl.constexpr):
    at = tl.program_id(0) * stride + tl.arange(0, D)
    tl.store(k + at, tl.load(q + at) + tl.load(k + at))


def test_pointers_into_nothing_are_refused_before_they_are_followed():
    """The interpreter alone would end with a segmentation fault."""
    address = torch.tensor([64], dtype=torch.int64)
    with pytest.raises(OutOfBounds, match="no tensor of this launch"), KernelLedger():
        follow[(1,)](address, torch.zeros(1))


@triton.jit
def follow(address, y):
    tl.store(y, tl.load(tl.load(address).to(tl.pointer_type(tl.float32))))


@triton.jit
def load_where(x, y, mask, far, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    chosen = tl.load(mask + at)
    tile = tl.load(x + tl.where(at == BLOCK - 1, far, at), mask=chosen, other=-1.0)
    tl.store(y + at, tile)


MASKS = st.lists(st.sampled_from([0, 0, 1, 2, 256, -1]), min_size=8, max_size=8)


@settings(max_examples=15, deadline=None)
@given(MASKS, st.sampled_from([torch.int32, torch.int64, torch.float32]))
def test_a_mask_of_numbers_selects_the_lanes_that_are_not_zero(numbers, dtype):
    """These are the lanes that the interpreter touches, and so those that are counted."""
    x, y, mask = torch.arange(8.0), torch.full((8,), -1.0), torch.tensor(numbers).to(dtype)
    with KernelLedger() as ledger:
        load_where[(1,)](x, y, mask, 7, BLOCK=8)
    assert torch.equal(y, torch.where(mask != 0, x, -1.0))
    assert ledger.read.get("x", 0) == 4 * int((mask != 0).sum())


def test_a_launch_that_is_refused_is_a_launch():
    """Whoever counts launches beside a ledger stays in step, though somebody goes on after it."""
    half, y = torch.ones(1, dtype=torch.bfloat16), torch.ones(2)
    with KernelLedger() as ledger:
        with pytest.raises(TypeError, match="bfloat16"):
            load_one[(1,)](half, y, OTHER=2.0)
        load_one[(1,)](torch.ones(1), y, OTHER=2.0)
    assert [run.tensors["x"][2] for run in ledger.launches] == ["bfloat16", "float32"]


@triton.jit
def load_one(x, y, OTHER: tl.constexpr):
    tl.store(y, tl.load(x, mask=tl.program_id(0) > 0, other=OTHER))
    one = tl.arange(0, 1)
    tl.store(y + 1 + one, tl.load(x + one, mask=one > 0, other=OTHER))


@pytest.mark.parametrize(
    ("other", "expected"), [(0.0, 0.0), (0, 0.0), (2.0, 2.0), (None, math.nan)]
)
def test_a_single_number_that_is_masked_out_is_other(other, expected):
    """Triton asks `if other`, so its interpreter takes a single 0 for none."""
    y = torch.ones(2)
    with KernelLedger():
        load_one[(1,)](torch.full((1,), 7.0), y, OTHER=other)
    assert torch.equal(y.nan_to_num(-1.0), torch.full((2,), expected).nan_to_num(-1.0))


@pytest.mark.parametrize("far", [20_000, 1 << 40])
def test_a_mask_of_numbers_does_not_hide_an_address(far):
    """NumPy would take the numbers for places, look at harmless addresses, and let this pass."""
    mask = torch.tensor([0, 1, 2, 3, 4, 5, 6, 6], dtype=torch.int32)
    with pytest.raises(OutOfBounds, match="1 address"), KernelLedger():
        load_where[(1,)](torch.zeros(8), torch.zeros(8), mask, far, BLOCK=8)


@triton.jit
def swap_wide(x, y):
    tl.atomic_cas(x, tl.load(y), 1)


def test_a_wide_comparison_cannot_reach_past_the_last_element():
    """`atomic_cas` touches as many bytes as what it compares with has."""
    with pytest.raises(OutOfBounds, match="atomic"), KernelLedger():
        swap_wide[(1,)](torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int64))


def test_what_a_launch_wrote_before_it_failed_is_kept():
    y = torch.zeros(36)
    with pytest.raises(OutOfBounds), KernelLedger() as ledger:
        unmasked_store[(3,)](torch.ones(36), y, 36, BLOCK=16)
    assert (y[:32] == 1).all()
    assert (y[32:] == 0).all(), "a refused store must not happen"
    assert ledger.written == {"y": 128}


# Manners ---------------------------------------------------------------------------------------


def hooks():
    return (
        interpreter._interpreter,
        interpreter.GridExecutor.__call__,
        interpreter.InterpreterBuilder.create_dot,
        interpreter._patch_lang_tensor,
    )


@triton.jit
def raises(x):
    tl.static_assert(False, "not attempted")


def test_everything_is_put_back_whatever_happens():
    before = hooks()
    for launch in (
        lambda: raises[(1,)](torch.zeros(1)),
        lambda: unmasked_load[(3,)](torch.zeros(36), torch.zeros(36), 36, BLOCK=16),
        lambda: double[(1,)](torch.zeros(1), missing=3),
        lambda: 1 / 0,
    ):
        with pytest.raises(Exception), KernelLedger():
            launch()
        assert hooks() == before
    with KernelLedger() as ledger:
        double[(1,)](torch.zeros(4), torch.zeros(4), 4, BLOCK=16)
    assert hooks() == before
    assert ledger.total == 32


def test_a_students_exception_keeps_its_message():
    with pytest.raises(interpreter.InterpreterError, match="not attempted"), KernelLedger():
        raises[(1,)](torch.zeros(1))


def test_results_are_the_same_with_and_without():
    q, k, v = qkv(40, 50, 16)
    plain = flash_attention_with_lse(q, k, v, causal=True, block_q=16, block_k=32)
    with KernelLedger():
        counted = flash_attention_with_lse(q, k, v, causal=True, block_q=16, block_k=32)
    assert all(torch.equal(a, b) for a, b in zip(plain, counted, strict=True))


def test_two_ledgers_at_once_are_refused():
    with KernelLedger(), pytest.raises(RuntimeError, match="another KernelLedger"), KernelLedger():
        pass
    with KernelLedger():
        pass


@pytest.mark.parametrize(
    "given", [torch.ones(1), (2.0, torch.ones(1))], ids=["alone", "in a tuple"]
)
def test_a_tensor_is_no_constant(given):
    with pytest.raises(TypeError, match=r"`OTHER.*`tl.constexpr`, and a tensor"), KernelLedger():
        load_one[(1,)](torch.ones(1), torch.ones(2), OTHER=given)


def test_bfloat16_is_refused_with_the_reason():
    x = torch.zeros(16, dtype=torch.bfloat16)
    with pytest.raises(TypeError, match=r"`y` is bfloat16.*silently wrong"), KernelLedger():
        double[(1,)](torch.zeros(16), x, 16, BLOCK=16)


def test_guarding_tensors_is_no_traffic_for_an_eager_ledger():
    x, y = torch.zeros(16), torch.zeros(16)
    with EagerLedger() as eager, KernelLedger() as ledger:
        double[(1,)](x, y, 16, BLOCK=16)
    assert eager.total == 0
    assert ledger.total == 128


@pytest.mark.parametrize(("mode", "words"), [("gpu", "`count"), ("none", "not installed")])
def test_elsewhere_one_sentence_says_what_to_do(monkeypatch, mode, words):
    monkeypatch.setattr(_mode, "mode", lambda: mode)
    with pytest.raises(LedgerUnavailable, match=words), KernelLedger():
        pass


@pytest.mark.parametrize("name", ["load", "store", "atomic_rmw"])
def test_a_triton_that_moved_its_insides_gives_a_sentence(monkeypatch, name):
    from course_lib.accounting import interpreter_hooks

    class Moved:
        def __getattr__(self, other):
            if other == name:
                raise AttributeError(other)
            return getattr(real, other)

    real = interpreter._interpreter
    monkeypatch.setattr(interpreter, "_interpreter", Moved())
    interpreter_hooks.verify.cache_clear()
    with pytest.raises(LedgerUnavailable, match=r"3\.4 to 3\.9"), KernelLedger():
        pass
    monkeypatch.undo()
    with KernelLedger():
        pass
    assert kernel_ledger._active is None


# What the interpreter would hide ----------------------------------------------------------------


@triton.jit
def copy_padded(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n))
    tl.load(x + at + n, mask=at > BLOCK)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
def test_lanes_without_other_are_poisoned_and_named(dtype):
    """On a GPU they hold anything; the interpreter has 0 there, which is too often right."""
    x, out = torch.ones(3, dtype=dtype), torch.zeros(8, dtype=dtype)
    with KernelLedger() as ledger:
        copy_padded[(1,)](x, out, 3, BLOCK=8)
    assert out[:3].tolist() == [1, 1, 1]
    assert out[3:].isnan().all() if dtype.is_floating_point else (out[3:] > 1 << 20).all()
    assert ledger.undefined == {"x": 1}
    assert ledger.launches[0].widest == {"x": 8}
    assert ledger.launches[0].idle == 1
    copy_padded[(1,)](x, out, 3, BLOCK=8)  # and not when nobody counts
    assert out[3:].tolist() == [0] * 5


@triton.jit
def square(x, out, HOW: tl.constexpr, HALF: tl.constexpr):
    at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tile = tl.load(x + at)
    if HALF:
        tile = tile.to(tl.bfloat16)
    tl.store(out + at, tl.dot(tile, tile, input_precision=HOW))


@pytest.mark.parametrize(
    ("how", "dtype", "rounded"),
    [
        (None, torch.float32, 1),
        ("tf32", torch.float32, 1),
        ("tf32x3", torch.float32, 0),
        ("ieee", torch.float32, 0),
        (None, torch.float16, 0),
    ],
)
def test_a_dot_that_a_gpu_rounds_is_counted(how, dtype, rounded):
    x = torch.randn(16, 16).to(dtype)
    with KernelLedger() as ledger:
        square[(1,)](x, torch.empty(16, 16), HOW=how, HALF=False)
    assert ledger.rounded == rounded
    again = KernelLedger.from_plain(ledger.to_plain())
    assert (again.rounded, again.launches[0].widest) == (rounded, {"x": 256})
    assert again.dots == {(16, 16, 16): 1}


def test_bfloat16_in_a_dot_is_refused():
    with pytest.raises(Exception, match="bfloat16") as raised, KernelLedger():
        square[(1,)](torch.randn(16, 16), torch.empty(16, 16), HOW=None, HALF=True)
    assert "dtype of the inputs" in str(raised.value.__cause__ or raised.value)


def test_a_module_may_launch_after_another_used_its_functions():
    q = torch.randn(1, 1, 20, 16, requires_grad=True)
    with KernelLedger() as ledger:
        o, _ = flash_attention_with_lse(q.detach(), q.detach(), q.detach(), causal=True)
        flash_attention(q, q, q, causal=True).sum().backward()  # shares functions with the forward
        flash_attention(q.detach(), q.detach(), q.detach(), causal=True)
    assert len({launch.module for launch in ledger.launches}) > 1
    assert o.isfinite().all()
