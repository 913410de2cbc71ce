"""What a kernel's report says: in the task's names, and of the call's tiles."""

from __future__ import annotations

import pytest
from corpus import sample
from helpers import function_of, module_from, report_on, words_of

from course_lib.checking import report_for
from course_lib.judging.finding import Finding
from course_lib.judging.outcomes import failed, incorrect
from course_lib.judging.spec import Case
from course_lib.sandbox.calling import Failure
from course_lib.specs import find

FLASH = find("7.4")


def edited(id, *changes):
    """Return the report on a sample of the corpus in which texts were replaced."""
    text = sample(id).text
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return report_for(getattr(module_from(text), find(id.split("/")[0]).function), seed=1)


def test_traffic_is_told_by_tensor_whatever_the_kernel_calls_it():
    others = {"q": "queries", "k": "all_keys", "v": "values", "o": "out", "lse": "logs"}
    parameters = "    {}, n_q, n_k, scale,\n".format
    renamed = edited(
        "7.4/wrong/causal_no_skip",
        (parameters(", ".join(others)), parameters(", ".join(others.values()))),
        *((f"    {name} += head", f"    {name} = {new} + head") for name, new in others.items()),
    )
    assert renamed.picture == report_on("7.4/wrong/causal_no_skip").picture
    assert [bar.name for bar in renamed.picture.bars] == ["q", "k", "v"]
    assert "find what touches k, " in words_of(renamed)


def test_a_kernel_with_tiles_of_its_own_hears_that_the_call_asks_for_others():
    own = ("def my_flash_attention(q, k, v, *, causal=False, block_q=64, block_k=64):\n",)
    own += (own[0] + "    block_q, block_k = 16, 16\n",)
    says = "The call asks for block_q = 32, block_k = 16, and your kernel ran with"
    assert says in words_of(edited("7.4/wrong/no_rescale_of_o", own))
    assert says not in words_of(report_on("7.4/wrong/no_rescale_of_o"))


def test_no_message_floods_the_page():
    numbers = "ValueError: these do not fit: " + "1.2345, " * 400
    for report in (
        failed(FLASH, Case("c"), Failure(("ValueError",), numbers)),
        incorrect(FLASH, Case("c"), Finding("the form", numbers)),
    ):
        assert len(report.text()) < 1000
        assert "these do not fit" in report.text()


# Triton's own errors ------------------------------------------------------------------------------

BLOCKS = '''
import torch, triton
import triton.language as tl

@triton.jit
def kernel(q, k, v, o, n_q: tl.constexpr, n_k, d: tl.constexpr, scale):
    head = tl.program_id(0)
    at = head * n_q * d + tl.arange(0, n_q)[:, None] * d + tl.arange(0, d)
    q_tile = tl.load(q + at)
    k_block = tl.make_block_ptr(k + head * n_k * d, (n_k, d), (d, 1), (0, 0), (16, d), (1, 0))
    v_block = tl.make_block_ptr(v + head * n_k * d, (n_k, d), (d, 1), (0, 0), (16, d), (1, 0))
    m = tl.full((n_q,), float("-inf"), tl.float32)
    l_sum = tl.zeros((n_q,), tl.float32)
    acc = tl.zeros((n_q, d), tl.float32)
    for start in range(0, n_k, 16):
        k_tile = tl.load(k_block)
        v_tile = tl.load(v_block)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        m_new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp(s - m_new[:, None])
        alpha = tl.exp(m - m_new)
        l_sum = l_sum * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new
        k_block = tl.advance(k_block, (16, 0))
        v_block = tl.advance(v_block, (16, 0))
    tl.store(o + at, (acc / l_sum[:, None]).to(q_tile.dtype))

def one_tile_attention(q, k, v):
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    o = torch.empty_like(q)
    b, h, n_q, d = q.shape
    kernel[(b * h,)](q, k, v, o, n_q, k.shape[2], d, d**-0.5)
    return o
'''  # fmt: skip
FOR = "    for start in range(0, n_k, 16):\n"
LAST = "        v_block = tl.advance(v_block, (16, 0))\n"


def blocks(*changes):
    source = BLOCKS
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    return report_for(module_from(source).one_tile_attention, seed=1)


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr")
@pytest.mark.parametrize(
    ("changes", "name", "says"),
    [
        ([("tl.trans(k_tile)", "k_tile"), ("(16, d)", "(32, d)"), ("(16, 0)", "(32, 0)"),
          ("n_k, 16", "n_k, 32")],
         "the inner sizes of tl.dot differ", "a tl.trans missing"),
        ([("p.to(v_tile.dtype)", "p")], "two dtypes meet in tl.dot", "cast one to the other's"),
        ([("dot(q_tile,", "dot(q_tile.to(tl.float16),")], "two dtypes meet in tl.dot", "fp16 and"),
        ([("p.to(v_tile.dtype)", "p.to(torch.float16)")],
         "a torch dtype in a kernel", "tl.float16"),
        ([("s - m_new[:, None])", "(s - m_new[:, None]).to(tl.float16))")],
         "another dtype where float32 is wanted", "cast with .to(tl.float32)"),
        ([("s - m_new[:, None])", "s - m_new)")], "two shapes that do not broadcast", "x[:, None]"),
        ([(FOR, "    start = 0\n    while start < n_k:\n"), (LAST, LAST + "        start += 16\n")],
         "a block pointer in `while`", "use `for start in range(...)`"),
        ([("tl.load(k_block)", "tl.load(k_block, boundary_check=(1))")],
         "boundary_check is no tuple", "write (1,), with a comma"),
        ([("range(0, n_k, 16)", "range(0, n_k + 16, 16)"),
          ("tl.load(k_block)", "tl.load(k_block, boundary_check=(0))")],
         "", "write boundary_check=(0,)"),
        ([("range(0, n_k, 16)", "range(0, n_k + 16, 16)")],
         "", "no boundary_check for each axis"),
    ],
)  # fmt: skip
def test_an_error_of_tritons_has_a_name_and_a_next_step(changes, name, says):
    report = blocks(*changes)
    assert not report.passed
    assert report.misconception == name, report.text()
    assert says in words_of(report), report.text()
    assert "print the addresses" not in report.text()


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr")
def test_the_kernel_that_these_are_edits_of_is_right():
    assert blocks().passed
    assert function_of(sample("7.1/right/plain"))
