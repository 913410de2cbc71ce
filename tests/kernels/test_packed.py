"""Packed batches, soft-cap, slopes and sinks: against float64, and as citizens of PyTorch.

The random cases of `fuzz.py` judge each of them with its gradients; here stand the mistakes that
are near at hand, the edges, and what a compiler or a mode sees.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernels.fuzz_judge import DEVICE, ratios
from kernels.fuzz_limits import Bends, forward_ratios

from course_lib.attention.truth import packed_float64
from course_lib.kernels import attention_forward, backward_kernels
from course_lib.kernels.attention_op import flash_attention
from course_lib.kernels.packed import flash_attention_packed
from course_lib.kernels.paged import paged_prefill

from .fuzz_cases import Case

SMALL = not torch.cuda.is_available()


def rows(total, heads, d=16, dtype=torch.float32):
    made = torch.Generator().manual_seed(total + heads)
    return torch.randn(total, heads, d, generator=made).to(DEVICE, dtype)


def starts(*lengths, dtype=torch.int32):
    return torch.tensor([0, *lengths]).cumsum(0).to(DEVICE, dtype)


def case(kernel="packed", lengths=((20, 33), (0, 7), (9, 0), (25, 18)), **changes):
    """A case like those that `fuzz_cases.draw` makes, with lengths of one's own."""
    n_q, n_k = (sum(column) for column in zip(*lengths, strict=True))
    options = {"softcap": 2.0, "slopes": True, "sinks": True, "lengths": lengths}
    options |= {name: changes.pop(name) for name in list(changes) if name in options}
    given = {"dtype": "float32", "d": 16, "batch": 1, "heads": 2, "kv_heads": 1}
    given |= {"causal": True, "window": None, "scale": None, "values": "normal"}
    given |= {"layout": "contiguous", "n_q": n_q, "n_k": n_k}
    return Case(name=f"0/{kernel}/0/0", kernel=kernel, options=options, **(given | changes))


SETTINGS = {
    "nothing": {"softcap": None, "slopes": False, "sinks": False},
    "a cap": {"slopes": False, "sinks": False},
    "slopes": {"softcap": None, "sinks": False, "causal": False},
    "sinks": {"softcap": None, "slopes": False},
    "all, and a window": {"window": 5},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_packed_sequences_with(name):
    found = ratios(case(**SETTINGS[name]))
    assert {"o", "lse", "dq", "dk", "dv"} <= set(found)
    assert all(ratio <= 1 for ratio in found.values()), found


LENGTHS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=4)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(lengths=LENGTHS.filter(lambda x: all(sum(column) for column in zip(*x, strict=True))),
       sinks=st.booleans(), causal=st.booleans())  # fmt: skip
def test_packed_sequences_of_any_lengths(lengths, sinks, causal):
    found = ratios(case(lengths=tuple(lengths), heads=1, kv_heads=1, sinks=sinks, causal=causal))
    assert all(ratio <= 1 for ratio in found.values()), found


def test_it_is_the_packed_truth_in_float64():
    q, k, cu_q, cu_k = rows(30, 4), rows(41, 2), starts(13, 0, 17), starts(20, 5, 16)
    o, lse = flash_attention_packed(q, k, k, cu_q, cu_k, causal=True, return_lse=True)
    truth = packed_float64(q, k, k, cu_q, cu_k, causal=True)
    for got, true in zip((o, lse), truth, strict=True):
        torch.testing.assert_close(got.cpu().double(), torch.from_numpy(true), rtol=0, atol=1e-5)


def test_whole_numbers_of_64_bits_and_lengths_that_are_given():
    q, k = rows(30, 4), rows(41, 2)
    expected = flash_attention_packed(q, k, k, starts(13, 17), starts(25, 16))
    long = [starts(*x, dtype=torch.int64) for x in ((13, 17), (25, 16))]
    given = flash_attention_packed(q, k, k, *long, max_seqlen_q=30, max_seqlen_k=25)
    assert torch.equal(given, expected)


def test_no_sequence_no_query_and_no_key():
    q, k = rows(5, 4), rows(7, 2)
    none = flash_attention_packed(q, k, k, starts(), starts())
    assert (none == 0).all()
    assert flash_attention_packed(q[:0], k, k, starts(0), starts(7)).shape == (0, 4, 16)
    sinks = torch.linspace(-3, 3, 4, device=DEVICE).requires_grad_()
    o, lse = flash_attention_packed(
        q, k[:0], k[:0], starts(5), starts(0), sinks=sinks, return_lse=True
    )
    assert (o == 0).all()
    assert (lse - sinks[:, None]).abs().max() <= 1e-5
    (of_sinks,) = torch.autograd.grad(lse.sum(), sinks)
    assert (of_sinks - 5).abs().max() <= 1e-5


def test_a_sink_takes_all_of_rows_without_a_key_in_half_precision_too():
    """At head_dim 128 a Hopper GPU describes tiles, and of no rows there are none."""
    q = torch.randn(1, 2, 20, 128, dtype=torch.float16, device=DEVICE).requires_grad_()
    sinks = torch.zeros(2, device=DEVICE).requires_grad_()
    o, lse = flash_attention(q, q[:, :, :0], q[:, :, :0], sinks=sinks, return_lse=True)
    assert (o == 0).all()
    of_q, of_sinks = torch.autograd.grad(lse.sum(), (q, sinks))
    assert (of_q == 0).all()
    assert (of_sinks == 20).all()


def test_a_sink_far_below_changes_nothing_and_one_far_above_takes_all():
    q, k = rows(20, 2).transpose(0, 1)[None], rows(30, 1).transpose(0, 1)[None]
    plain = flash_attention(q, k, k, causal=True)
    for low in (-200.0, float("-inf")):
        sinks = torch.full((2,), low, device=DEVICE).requires_grad_()
        o = flash_attention(q, k, k, causal=True, sinks=sinks)
        assert (o - plain).abs().max() <= 1e-6
        (of_sinks,) = torch.autograd.grad(o.sum(), sinks)
        assert (of_sinks == 0).all()
    o = flash_attention(q, k, k, causal=True, sinks=torch.full((2,), 200.0, device=DEVICE))
    assert (o == 0).all()


# Mistakes, as what would come of them, and the judge that must see each


def test_the_judge_sees_sequences_that_see_each_other(monkeypatch):
    right = flash_attention_packed
    joined = lambda q, k, v, cu_q, cu_k, **x: right(q, k, v, cu_q[[0, -1]], cu_k[[0, -1]], **x)  # noqa: E731
    monkeypatch.setattr("course_lib.kernels.packed.flash_attention_packed", joined)
    assert ratios(case(lengths=((20, 20), (9, 9))))["o"] > 1


@pytest.mark.parametrize("mistake", ["a sink for each tile", "the slope's sign", "no cap"])
def test_the_judge_sees(mistake):
    q, k = rows(40, 2).transpose(0, 1)[None], rows(50, 2).transpose(0, 1)[None]
    slopes, sinks = (torch.tensor(x, device=DEVICE) for x in ([0.5, 0.1], [1.0, -1.0]))
    right = {"softcap": 1.5, "slopes": slopes, "sinks": sinks}
    wrong = {
        "a sink for each tile": {"sinks": sinks + torch.log(torch.tensor(2.0))},
        "the slope's sign": {"slopes": -slopes},
        "no cap": {"softcap": None},
    }[mistake]
    seen = torch.ones(40, 50, dtype=torch.bool, device=DEVICE)
    judged = [
        forward_ratios(
            *flash_attention(q, k, k, return_lse=True, **changed), *(q, k, k), seen, 0.25,
            Bends(**right),
        )
        for changed in (right, right | wrong)
    ]  # fmt: skip
    assert max(judged[0].values()) <= 1
    assert min(judged[1].values()) > 1


@pytest.mark.skipif(not SMALL, reason="what is compiled keeps what it was made of")
def test_the_judge_sees_a_cap_without_its_derivative(monkeypatch):
    bent = case("bent scores", ((20, 18),), heads=2, slopes=False, sinks=False, softcap=0.5)
    assert max(ratios(bent).values()) <= 1
    monkeypatch.setattr(backward_kernels, "passed_by_cap", lambda ds, s, softcap: ds)
    found = ratios(bent)
    assert min(found["dq"], found["dk"]) > 1
    assert found["dv"] <= 1


def test_what_is_asked_for_beside_a_mask_is_the_plain_kernels(monkeypatch):
    """The kernels by hand know no cap, no slopes, no sinks, no packed sequences."""
    monkeypatch.setattr(attention_forward, "worth_descriptors", lambda q, k: True)
    monkeypatch.setattr(attention_forward, "by_hand", lambda *tensors: True)
    monkeypatch.setattr(attention_forward, "_on_hopper", lambda *x: pytest.fail("by hand"))
    q, number = rows(20, 2), torch.ones(2, device=DEVICE)
    one = q.transpose(0, 1)[None]
    for asked in ({"softcap": 1.0}, {"slopes": number}, {"sinks": number}):
        flash_attention(one, one, one, **asked)
    flash_attention_packed(q, q, q, starts(20), starts(20))


# Citizens of PyTorch


def inputs():
    q, k, v = (x.requires_grad_() for x in (rows(17, 2), rows(27, 1), 1 + rows(27, 1)))
    sinks = torch.linspace(-1, 1, 2, device=DEVICE).requires_grad_()
    return q, k, v, sinks, torch.tensor([0.5, 0.0], device=DEVICE)


def test_citizens_of_torch_library():
    """opcheck: schema, autograd registration, fake tensors, and both under AOT dispatch."""
    q, k, v, sinks, slopes = inputs()
    packed = [x.detach().transpose(0, 1)[None].requires_grad_() for x in (q, k, v)]
    op = torch.ops.flashattention_course.attention.default
    extras = sinks, slopes, starts(6, 11), starts(16, 11), 2.0, 11, 16
    torch.library.opcheck(op, (*packed, True, None, 0.25, *extras))
    torch.library.opcheck(op, (*packed, False, None, 0.25, sinks))
    o, lse = op(*packed, True, None, 0.25, *extras)
    backward = torch.ops.flashattention_course.attention_backward.default
    saved = [x.detach() for x in (*packed, o, lse, torch.randn_like(o), torch.zeros_like(lse))]
    torch.library.opcheck(backward, (*saved, True, None, 0.25, *(
        x.detach() if isinstance(x, torch.Tensor) else x for x in extras)))  # fmt: skip


def test_traced_whole_by_torch_compile():
    *learned, slopes = inputs()
    cu_q, cu_k = starts(6, 11), starts(16, 11)

    def layer(q, k, v, sinks):
        return flash_attention_packed(
            *(2 * q, k, v, cu_q, cu_k),
            max_seqlen_q=11,
            max_seqlen_k=16,
            causal=True,
            softcap=2.0,
            sinks=sinks,
            slopes=slopes,
        ).reshape(-1, 32)

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager" if SMALL else "inductor")
    do = torch.randn(17, 32, device=DEVICE)
    grads = (torch.autograd.grad(f(*learned), learned, do) for f in (compiled, layer))
    for got, expected in zip(*grads, strict=True):
        assert (got - expected).abs().max() <= 1e-5


def test_fake_tensors_have_the_layout_of_real_ones():
    from torch._subclasses.fake_tensor import FakeTensorMode

    def strides():
        *learned, slopes = inputs()
        q, k, v, sinks = learned
        cu = torch.zeros(3, dtype=torch.int32, device=DEVICE)
        o, lse = flash_attention_packed(
            *(q, k, v, cu, cu), max_seqlen_q=9, max_seqlen_k=9, sinks=sinks, slopes=slopes,
            return_lse=True,
        )  # fmt: skip
        grads = torch.autograd.grad(o.sum() + lse.sum(), learned)
        return [(x.shape, x.stride(), x.dtype) for x in (o, lse, *grads)]

    real = strides()
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert strides() == real


# Bad input

Q, CU, NUMBERS = torch.zeros(20, 2, 16), torch.tensor([0, 12, 20]), torch.zeros(2)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"q": [1.0]}, TypeError, "q must be a torch.Tensor"),
        ({"k": Q[0]}, ValueError, r"k must have shape \(total, H, head_dim\)"),
        ({"v": Q.half()}, TypeError, "v must have q's dtype"),
        (dict.fromkeys(("k", "v"), Q[:, :1].expand(20, 3, 16)), ValueError, "divides q's 2"),
        ({"cu_seqlens_q": [0, 20]}, TypeError, "cu_seqlens_q must be a torch.Tensor"),
        ({"cu_seqlens_q": CU.float()}, TypeError, "cu_seqlens_q must be int32 or int64"),
        ({"cu_seqlens_k": CU[:0]}, ValueError, r"cu_seqlens_k must have shape \(B \+ 1,\)"),
        ({"cu_seqlens_k": CU[:2]}, ValueError, "cu_seqlens_k must have cu_seqlens_q's shape"),
        ({"cu_seqlens_k": CU.to("meta")}, ValueError, "cu_seqlens_k must be on q's device"),
        ({"cu_seqlens_q": CU + 1}, ValueError, "cu_seqlens_q must begin with 0"),
        ({"cu_seqlens_q": CU.flip(0) - 20}, ValueError, "cu_seqlens_q must begin with 0"),
        ({"cu_seqlens_q": 2 * CU}, ValueError, "never fall and end at most at 20"),
        ({"max_seqlen_q": 2.5}, ValueError, "max_seqlen_q must be a whole number"),
        ({"max_seqlen_k": -1}, ValueError, "max_seqlen_k must be a whole number"),
        ({"window": 4}, ValueError, "window needs causal=True"),
        ({"scale": float("inf")}, ValueError, "scale must be a finite number"),
        ({"softcap": 0.0}, ValueError, "softcap must be a finite number above 0"),
        ({"softcap": float("nan")}, ValueError, "softcap must be a finite number above 0"),
        ({"sinks": [0.0, 1.0]}, TypeError, "sinks must be a torch.Tensor or None"),
        ({"sinks": NUMBERS.half()}, TypeError, "sinks must be torch.float32, got"),
        ({"sinks": NUMBERS[:1]}, ValueError, r"sinks must have shape \(2,\)"),
        ({"sinks": NUMBERS.to("meta")}, ValueError, "sinks must be on q's device"),
        ({"slopes": NUMBERS.double()}, TypeError, "slopes must be torch.float32"),
        ({"slopes": NUMBERS[None]}, ValueError, r"slopes must have shape \(2,\)"),
        ({"slopes": NUMBERS.clone().requires_grad_()}, ValueError, "slopes get no gradient"),
    ],
)
def test_bad_input_gets_a_sentence(changes, error, words):
    whole = {"q": Q, "k": Q, "v": Q, "cu_seqlens_q": CU, "cu_seqlens_k": CU} | changes
    with pytest.raises(error, match=words):
        flash_attention_packed(**whole)


POOL, TABLE = torch.zeros(3, 1, 4, 16), torch.zeros(2, 2, dtype=torch.int32)
KEYS = torch.tensor([8, 8], dtype=torch.int32)


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        ((Q[0], POOL, POOL, TABLE, KEYS, CU), ValueError, "q must have shape"),
        ((Q, POOL[0], POOL[0], TABLE, KEYS, CU), ValueError, "k_pages must have shape"),
        ((Q, *(POOL.expand(3, 3, 4, 16),) * 2, TABLE, KEYS, CU), ValueError, "divides q's 2"),
        ((Q, POOL, POOL, TABLE[:1], KEYS, CU), ValueError, "table must have shape"),
        ((Q, POOL, POOL, TABLE.float(), KEYS, CU), TypeError, "table must be int32 or int64"),
        ((Q, POOL, POOL, TABLE, KEYS.long(), CU), TypeError, "lengths must be int32"),
        ((Q, POOL, POOL, TABLE, KEYS, CU[:2]), ValueError, r"cu_seqlens_q must have shape \(3,\)"),
    ],
)
def test_bad_input_of_a_prefill_gets_a_sentence(args, error, words):
    with pytest.raises(error, match=words):
        paged_prefill(*args)


# On a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("d", [64, 96, 128, 256])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_compiled_for_this_gpu(dtype, d, name):
    torch.backends.cuda.matmul.allow_tf32 = False
    lengths = ((300, 300), (1, 700), (0, 40), (257, 129), (64, 0))
    for kernel, of_all in (("packed", lengths), ("bent scores", lengths[:1])):
        found = ratios(case(kernel, of_all, dtype=dtype, d=d, **SETTINGS[name]))
        assert all(ratio <= 1 for ratio in found.values()), found


@pytest.mark.gpu
def test_the_same_bits_in_every_run():
    lengths = (1000, 300, 2100)
    q, k = rows(3400, 8, 128, torch.bfloat16), rows(3400, 2, 128, torch.bfloat16)
    learned = [x.requires_grad_() for x in (q, k, k.clone())]
    sinks = torch.zeros(8, device=DEVICE).requires_grad_()
    runs = []
    for _ in range(4):
        o = flash_attention_packed(
            *learned, starts(*lengths), starts(*lengths), causal=True, sinks=sinks
        )
        runs.append(torch.autograd.grad(o, [*learned, sinks], torch.ones_like(o)))
    for other in runs[1:]:
        assert all(torch.equal(x, y) for x, y in zip(runs[0], other, strict=True))
