"""EagerLedger against counts written out by hand; each rule of its module docstring has a test."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
import threading

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import course_lib
from course_lib.accounting import eager_ledger as module
from course_lib.accounting.eager_ledger import EagerLedger, paused
from course_lib.accounting.traffic import eager_six_trips, flash_compulsory, naive_four_trips
from course_lib.attention.naive_eager import (
    naive_eager,
    naive_eager_einsum,
    naive_eager_four_trips,
)
from course_lib.attention.tiled_eager import tiled_eager

N, D = 48, 16
SHAPES = {"2-D": (N, D), "4-D": (2, 3, N, D)}


def inputs(*shape, **options):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=generator, **options) for _ in range(3)]


def counted(function, q, k, v, **options):
    with EagerLedger(q=q, k=k, v=v) as ledger:
        result = function(q, k, v, **options)
    del result
    return ledger


def nbytes(*tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


# ---------------------------------------------------------------- trips


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(
    ("attention", "trips"),
    [(naive_eager, 6), (naive_eager_einsum, 6), (naive_eager_four_trips, 4)],
)
@pytest.mark.parametrize("inference", [False, True])
def test_trips_do_not_depend_on_the_spelling(attention, trips, shape, inference):
    q, k, v = inputs(*shape)
    heads = math.prod(shape[:-2])
    with torch.inference_mode(inference):
        ledger = counted(attention, q, k, v)
    s, qb = heads * N * N * 4, nbytes(q)
    assert ledger.trips(s) == trips
    scaling_q = 2 * qb if trips == 4 else 0  # q / sqrt(d): read q, write a scaled copy
    assert ledger.total == trips * s + 4 * qb + scaling_q
    assert (ledger.read["q"], ledger.read["k"], ledger.read["v"]) == (qb, qb, qb)
    assert ledger.flops == 4 * heads * N * N * D


def test_ledger_equals_the_models():
    q, k, v = inputs(*SHAPES["4-D"])
    shape = {"n": N, "d": D, "heads": 6, "b": 4}
    assert counted(naive_eager, q, k, v).total == eager_six_trips.bytes(**shape)
    scaled_first = counted(naive_eager_four_trips, q, k, v).total
    assert scaled_first == naive_four_trips.bytes(**shape) + 2 * nbytes(q)
    fused = counted(F.scaled_dot_product_attention, q, k, v).total
    assert fused == flash_compulsory.bytes(**shape, lse=True)


def test_heads_in_the_middle_einsum_pays_for_the_copies_it_makes():
    """(B, N, H, d): bmm needs heads outside, so q, k and v are cloned; the scores still trip 6x."""
    q, k, v = inputs(2, N, 3, D)

    def attention(q, k, v):
        s = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(D)
        return torch.einsum("bhqk,bkhd->bqhd", torch.softmax(s, -1), v)

    ledger = counted(attention, q, k, v)
    assert ledger.trips(6 * N * N * 4) == 6
    assert ledger.total == 6 * (6 * N * N * 4) + 4 * nbytes(q) + 3 * 2 * nbytes(q)


def test_a_count_without_the_aliasing_rule_would_depend_on_the_spelling():
    """The contrast: every big tensor of every operator, views included."""

    class Naive(TorchDispatchMode):
        trips = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            leaves = tree_leaves((args, kwargs, out))
            self.trips += sum(
                isinstance(t, torch.Tensor) and t.numel() >= 6 * N * N for t in leaves
            )
            return out

    q, k, v = inputs(*SHAPES["4-D"])
    trips = {}
    for attention in (naive_eager, naive_eager_einsum):
        with Naive() as mode:
            attention(q, k, v)
        trips[attention.__name__] = mode.trips
        assert counted(attention, q, k, v).trips(6 * N * N * 4) == 6
    assert trips == {"naive_eager": 12, "naive_eager_einsum": 20}


def test_a_boolean_mask_is_read_as_well():
    q, k, v = inputs(N, D)
    mask = torch.ones(N, N, dtype=torch.bool).tril()
    with EagerLedger(q=q, mask=mask) as ledger:
        s = q @ k.T / math.sqrt(D)
        torch.softmax(s.masked_fill(~mask, -math.inf), -1) @ v
    # ~mask: read and written, one byte each; masked_fill reads that and makes two more trips of S
    assert ledger.read["mask"] == N * N
    assert ledger.read["bitwise_not"] == ledger.written["bitwise_not"] == N * N
    assert ledger.trips(N * N * 4) == 8


def test_half_precision_scores_count_two_bytes():
    q, k, v = inputs(N, D, dtype=torch.float16)
    ledger = counted(naive_eager, q, k, v)
    assert ledger.total == 6 * N * N * 2 + 4 * N * D * 2


# ---------------------------------------------------------------- tiles


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(("block_q", "block_k"), [(16, 16), (24, 16), (48, 16), (13, 7)])
def test_eager_tiles_read_q_t_k_times_and_k_v_t_q_times(shape, block_q, block_k):
    q, k, v = inputs(*shape)
    ledger = counted(tiled_eager, q, k, v, block_q=block_q, block_k=block_k)
    t_q, t_k = -(-N // block_q), -(-N // block_k)
    assert ledger.read["q"] == t_k * nbytes(q)
    assert ledger.read["k"] == t_q * nbytes(k)
    assert ledger.read["v"] == t_q * nbytes(v)
    # The state moves too, so eager tiles are no fused kernel: far above the tile-load model.
    assert ledger.total > 2 * (t_k + 2 * t_q + 1) * nbytes(q)


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_peak_of_naive_is_two_score_matrices(shape):
    """At worst S and S/sqrt(d), or S/sqrt(d) and P, are alive: 2 N^2; P and O are less."""
    q, k, v = inputs(*shape)
    s = math.prod(shape[:-2]) * N * N * 4
    assert counted(naive_eager, q, k, v).peak_bytes == 2 * s


def test_peak_with_every_step_kept_is_three_score_matrices_and_o():
    q, k, v = inputs(N, D)

    def keep_all(q, k, v):
        s = q @ k.T
        scaled = s / math.sqrt(D)
        p = torch.softmax(scaled, -1)
        return p @ v

    assert counted(keep_all, q, k, v).peak_bytes == 3 * N * N * 4 + N * D * 4


def test_live_bytes_follow_storages_not_views():
    x = torch.ones(10, 10)
    with EagerLedger(x=x) as ledger:
        y = x + 1
        view = y[:1]
        del y
        gc.collect()
        assert ledger.live_bytes == 400  # the view keeps all of it alive
        del view
        gc.collect()
        assert ledger.live_bytes == 0
        buffer = torch.empty(25)  # allocation is no traffic, but it is memory
        assert ledger.live_bytes == 100
        del buffer
    assert (ledger.live_bytes, ledger.peak_bytes, ledger.total) == (0, 400, 800)


def test_the_inputs_and_the_ledger_do_not_keep_memory_alive():
    x = torch.ones(10)
    reference = module.StorageWeakRef(x.untyped_storage())
    with EagerLedger(x=x) as ledger:
        x = x * 2
    assert reference.expired()
    assert ledger.live_bytes == 40


def test_recycled_addresses_do_not_inherit_names():
    """A freed temporary's address is used again by the next one: names must not stick to it."""
    with EagerLedger() as ledger:
        for _ in range(50):
            torch.ones(7)
            torch.zeros(7)
    assert dict(ledger.written) == {"ones": 50 * 28, "zeros": 50 * 28}


# ---------------------------------------------------------------- rules, one by one

X = torch.arange(24.0).reshape(4, 6)
B = 24 * 4  # bytes of X

RULES = {
    # name: (function of x, bytes read, bytes written)
    "view": (lambda x: x.view(6, 4), 0, 0),
    "transpose": (lambda x: x.T, 0, 0),
    "expand": (lambda x: x[None].expand(5, 4, 6), 0, 0),
    "reshape that fits": (lambda x: x.reshape(24), 0, 0),
    "reshape that copies": (lambda x: x.T.reshape(24), B, B),
    "slice": (lambda x: x[1:3], 0, 0),
    "contiguous already": (lambda x: x.contiguous(), 0, 0),
    "contiguous that copies": (lambda x: x.T.contiguous(), B, B),
    "split": (lambda x: x.split(2), 0, 0),
    "in-place view": (lambda x: x.clone().t_(), B, B),
    "clone": (lambda x: x.clone(), B, B),
    "clone of a slice": (lambda x: x[:2].clone(), B // 2, B // 2),
    "copy of an expanded row": (lambda x: x[:1].expand(4, 6).clone(), B // 4, B),
    "elementwise": (lambda x: x * 2, B, B),
    "elementwise on a transpose": (lambda x: x.T * 2, B, B),
    "same input twice": (lambda x: x * x, B, B),
    "different slices": (lambda x: x[:2] * x[2:], B, B // 2),
    "x @ x.T": (lambda x: x @ x.T, B, 64),
    "broadcast row": (lambda x: x + x[:1], B + B // 4, B),
    "in-place": (lambda x: x.mul_(2), B, B),
    "in-place on a slice": (lambda x: x[:1].add_(x[1:2]), B // 2, B // 4),
    "in-place transposed": (lambda x: x.T.mul_(2), B, B),
    "fill": (lambda x: x.fill_(0), 0, B),
    "copy into a slice": (lambda x: x[0].copy_(x[1]), B // 4, B // 4),
    "assignment": (lambda x: x.__setitem__(0, x[1]), B // 4, B // 4),
    "out=": (lambda x: torch.mul(x, 2, out=torch.empty(4, 6)), B, B),
    "empty": (lambda x: torch.empty(1000), 0, 0),
    "empty_like": (lambda x: torch.empty_like(x), 0, 0),
    "new_empty": (lambda x: x.new_empty(7), 0, 0),
    "zeros": (lambda x: torch.zeros(6), 0, 24),
    "zeros_like": (lambda x: torch.zeros_like(x), 0, B),
    "full": (lambda x: torch.full((6,), 2.0), 0, 24),
    "row sums": (lambda x: x.sum(-1), B, 16),
    "cat": (lambda x: torch.cat([x, x[:2]]), B + B // 2, B + B // 2),
    "to half": (lambda x: x.half(), B, B // 2),
    "to the same dtype": (lambda x: x.float(), 0, 0),
    "select rows": (lambda x: x.index_select(0, torch.tensor([3])), B // 4 + 8, B // 4),
    "put rows": (lambda x: x.__setitem__(torch.tensor([2]), torch.ones(1, 6)), B // 4 + 8, B // 2),
    "put a number anywhere": (lambda x: x.__setitem__(torch.tensor([2]), 0.0), B + 8, B),
    "add rows": (
        lambda x: x.index_put_((torch.tensor([2]),), torch.ones(1, 6), accumulate=True),
        B + 8 + B // 4,
        B + B // 4,
    ),
    "copy rows": (
        lambda x: x.index_copy_(0, torch.tensor([2]), torch.ones(1, 6)),
        B // 4 + 8,
        B // 2,
    ),
    "scatter rows": (
        lambda x: x.scatter_(0, torch.tensor([[2] * 6]), torch.ones(1, 6)),
        B // 4 + 48,
        B // 2,
    ),
    "where with a number": (lambda x: torch.where(x > 1, x, 0.0), 2 * B + B // 4, B // 4 + B),
}


@pytest.mark.parametrize("rule", RULES)
def test_rule(rule):
    function, read, written = RULES[rule]
    x = X.clone()
    with EagerLedger(x=x) as ledger:
        function(x)
    assert (sum(ledger.read.values()), sum(ledger.written.values())) == (read, written)
    assert ledger.flops == (2 * 4 * 6 * 4 if rule == "x @ x.T" else 0)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("beta", [0, 1])
def test_an_input_times_beta_zero_is_not_read(batched, in_place, beta):
    lead = (3,) if batched else ()
    c, a, b = torch.zeros(*lead, 4, 8), torch.ones(*lead, 4, 5), torch.ones(*lead, 5, 8)
    name = ("baddbmm" if batched else "addmm") + "_" * in_place
    with EagerLedger(c=c, a=a, b=b) as ledger:
        getattr(c, name)(a, b, beta=beta)
    assert ledger.read["c"] == beta * nbytes(c)
    assert ledger.read["a"] + ledger.read["b"] == nbytes(a, b)
    assert sum(ledger.written.values()) == nbytes(c)
    assert ledger.flops == 2 * math.prod(lead) * 4 * 5 * 8


def test_names_follow_storages():
    q, k, v = torch.ones(3, 4, 5).unbind(0)
    with EagerLedger(q=q, k=k, v=v) as packed:
        k * 2
    assert dict(packed.read) == {"q/k/v": 80}  # one storage, so one name

    x = torch.ones(4, 6)
    with EagerLedger(x=x) as ledger:
        y = x.T.exp()
        ledger.name(y=y)
        y[:2].sum()
        torch.ones(5) + torch.ones(5)
    assert ledger.read["x"] == 96
    assert ledger.read["y"] == 32
    assert ledger.read["ones"] == 40

    with EagerLedger() as unnamed:
        x * 2
    assert dict(unnamed.read) == {"input": 96}
    with pytest.raises(TypeError, match=r"q must be a torch\.Tensor, got list\."):
        EagerLedger(q=[1.0])


@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention_is_booked_by_its_model(causal):
    q, k, v = inputs(2, 3, N, D)
    ledger = counted(F.scaled_dot_product_attention, q, k, v, is_causal=causal)
    assert dict(ledger.read) == {"q": nbytes(q), "k": nbytes(k), "v": nbytes(v)}
    assert dict(ledger.written) == {"o": nbytes(q), "lse": 2 * 3 * N * 4}
    assert ledger.flops == 4 * 6 * N * N * D // (2 if causal else 1)
    assert ledger.peak_bytes == nbytes(q) + 2 * 3 * N * 4


def test_paused_books_nothing_and_nests():
    x = torch.ones(10)
    with EagerLedger() as ledger:
        with paused(), paused():
            x * 2
        x * 3
    assert ledger.total == 80
    with EagerLedger() as ledger, paused():
        with paused():
            pass
        x * 2
    assert ledger.total == 0


def test_nested_ledgers_both_count():
    x = torch.ones(10)
    with EagerLedger() as outer:
        x * 2
        with EagerLedger() as inner:
            x * 2
    assert (outer.total, inner.total) == (160, 80)


def divided_in_numpy(s):
    s.numpy()[...] /= 2
    return s


def divided_in_a_thread(s):
    thread = threading.Thread(target=lambda: s.div_(2))
    thread.start()
    thread.join()
    return s


def divided_out_of_sight(s):
    with torch._C._DisableTorchDispatch():
        return s / 2


UNSEEN = [divided_in_numpy, divided_in_a_thread, divided_out_of_sight]


@pytest.mark.parametrize("divided", [*UNSEEN, lambda s: s / 2, lambda s: s.div_(2)])
def test_what_is_computed_beside_the_ledger_is_heard_of_where_it_is_read(divided):
    q, k, v = inputs(N, D)
    readers = ["_softmax"] if divided in UNSEEN else []
    with EagerLedger() as ledger:
        ledger.follow((q, k, v), least=N * D)
        o = torch.softmax(divided(q @ k.T), -1) @ v
    ledger.look("the result", o)
    assert ledger.unseen == readers
    assert EagerLedger.from_plain(ledger.to_plain()).unseen == readers
    divided_in_numpy(o)
    ledger.look("the result", o)
    assert ledger.unseen == [*readers, "the result"]


def test_the_result_is_untouched_and_gradients_flow():
    q, k, v = (t.requires_grad_() for t in inputs(N, D))
    with EagerLedger(q=q, k=k, v=v) as ledger:
        o = naive_eager(q, k, v)
        forward = ledger.flops
        o.sum().backward()
    torch.testing.assert_close(o, naive_eager(q, k, v), rtol=0, atol=0)
    assert q.grad is not None
    assert ledger.flops == 3 * forward  # two products of the same size for each product


def test_a_triton_launch_is_not_booked(monkeypatch):
    pytest.importorskip("triton")
    if course_lib._mode.mode() != "interpreter":
        pytest.skip("phantom bytes exist only in the interpreter")
    from accounting.copy_kernel import launch_copy

    x = torch.arange(100.0)
    with EagerLedger(x=x) as ledger:
        y = launch_copy(x)
    torch.testing.assert_close(y, x)
    assert ledger.total == 0
    assert ledger.peak_bytes == 400  # y itself

    monkeypatch.setattr(module, "_inside_triton_launch", lambda: False)
    with EagerLedger(x=x) as fooled:
        launch_copy(x)
    assert fooled.total > 0  # there was something to ignore


def test_counting_loads_neither_triton_nor_the_compiler():
    """Importing them takes seconds, and triton must not be imported behind the course's back."""
    code = (
        "import sys, course_lib, torch\n"
        "with course_lib.EagerLedger() as ledger: torch.ones(3) * 2\n"
        "assert ledger.total == 36\n"
        "sys.exit(any(m in sys.modules for m in ('triton', 'torch._dynamo')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
