"""Lesson 07: solutions pass, stubs are not attempted, mistakes fail under their own names."""

from __future__ import annotations

import pytest
import torch
from grading.helpers import code, module_from, solutions, stubs

from course_lib.grading.check import report_for
from course_lib.grading.report import Verdict

STEPS = ["one_tile_attention", "looped_attention", "ragged_attention", "my_flash_attention"]
ALL = [*STEPS, "rebuild_weights", "flash_from_scratch"]


@pytest.mark.parametrize("name", ALL)
def test_the_solution_passes(name):
    report = report_for(getattr(solutions(7), name), seed=1)
    assert report.passed, report.text()


@pytest.mark.parametrize("name", ALL)
def test_the_stub_is_not_attempted(name):
    report = report_for(getattr(stubs(7), name), seed=1)
    assert report.verdict is Verdict.NOT_ATTEMPTED, report.text()


NULLS = {
    "zeros": lambda q, k, v: torch.zeros_like(q),
    "mean of V": lambda q, k, v: (
        v.mean(-2, keepdim=True)
        .repeat_interleave(q.shape[1] // k.shape[1], 1)
        .expand_as(q)
        .contiguous()
    ),
    "the input": lambda q, k, v: q.clone(),
    "V": lambda q, k, v: v.clone() if v.shape == q.shape else torch.zeros_like(q),
}


@pytest.mark.parametrize("null", NULLS)
@pytest.mark.parametrize("name", [*STEPS, "flash_from_scratch"])
def test_null_models_fail(name, null):
    def launcher(q, k, v, *, causal=False, block_q=64, block_k=64):
        o = NULLS[null](q, k, v)
        return o if name in STEPS[:2] else (o, torch.zeros(q.shape[:-1]))

    launcher.__name__ = name
    assert report_for(launcher, seed=1).verdict is Verdict.INCORRECT


def test_a_right_answer_without_a_kernel_is_refused():
    def my_flash_attention(q, k, v, *, causal=False, block_q=64, block_k=64):
        from course_lib.attention.truth import attention_float64

        o, lse = attention_float64(q, k, v, causal=causal)
        return torch.from_numpy(o).to(q.dtype), torch.from_numpy(lse).float()

    report = report_for(my_flash_attention, seed=1)
    assert report.verdict is Verdict.INCORRECT
    assert report.failed_property == "is a Triton kernel"


def test_the_courses_own_kernel_is_refused():
    def my_flash_attention(q, k, v, *, causal=False, block_q=64, block_k=64):
        from course_lib.kernels.flash_forward import flash_attention

        return flash_attention(q, k, v, causal=causal, block_q=block_q, block_k=block_k)

    report = report_for(my_flash_attention, seed=1)
    assert report.failed_property == "is your own kernel", report.text()


# what is changed in the solution of 7.4, and how the report must call it
WRONG = {
    "O is not rescaled": ("acc = acc * alpha[:, None]\n", "acc = acc\n"),
    "l is not rescaled": ("l_sum = l_sum * alpha + ", "l_sum = l_sum + "),
    "alpha is inverted, or a mask multiplies": (
        "alpha = tl.exp(m - m_safe)",
        "alpha = tl.exp(m_safe - m)",
    ),
    "the maximum starts at 0": (
        'm = tl.full((BLOCK_Q,), float("-inf"), tl.float32)',
        "m = tl.zeros((BLOCK_Q,), tl.float32)",
    ),
    "the scale is missing": ('input_precision="ieee") * scale', 'input_precision="ieee")'),
    "scaled twice": ('input_precision="ieee") * scale', 'input_precision="ieee") * scale * scale'),
    "keys past the end count as score 0": (
        's = tl.where(keys[None, :] < n_k, s, float("-inf"))',
        "s = tl.where(keys[None, :] < n_k, s, 0.0)",
    ),
    "the causal mask is one key too strict": ("keys[None, :] <= last", "keys[None, :] < last"),
    "the causal mask is one key too generous": (
        "keys[None, :] <= last[:, None]",
        "keys[None, :] <= last[:, None] + 1",
    ),
    "the causal mask is aligned at the start": ("last = rows + n_k - n_q", "last = rows"),
    "lse is m + l": ("lse_row = m + tl.log(l_safe)", "lse_row = m + l_safe"),
    "lse is ln(l)": ("lse_row = m + tl.log(l_safe)", "lse_row = tl.log(l_safe)"),
    "log2 where ln is meant": ("lse_row = m + tl.log(l_safe)", "lse_row = m + tl.log2(l_safe)"),
}


def final_kernel_with(old: str, new: str):
    """Return my_flash_attention with one change in its kernel."""
    source = code(7)
    start, stop = source.index("def flash_kernel"), source.index("def my_flash_attention")
    assert old in source[start:stop], "the solution has changed: mend the test"
    return module_from(
        source[:start] + source[start:stop].replace(old, new) + source[stop:]
    ).my_flash_attention


@pytest.mark.parametrize("name", WRONG)
def test_each_known_mistake_fails_under_its_own_name(name):
    report = report_for(final_kernel_with(*WRONG[name]), seed=1)
    assert report.verdict is Verdict.INCORRECT, report.text()
    assert report.misconception == name, report.text()


def test_not_skipping_the_future_is_seen_in_the_traffic():
    report = report_for(
        final_kernel_with("end = tl.minimum(n_k, (tile + 1) * BLOCK_Q + n_k - n_q)", "end = n_k"),
        seed=1,
    )
    assert report.failed_property == "moves only what it must", report.text()


def test_skipping_one_tile_too_many_is_wrong():
    change = ("(tile + 1) * BLOCK_Q + n_k - n_q)", "tile * BLOCK_Q + n_k - n_q)")
    assert report_for(final_kernel_with(*change), seed=1).verdict is Verdict.INCORRECT


def test_a_missing_tail_mask_is_named_with_its_tensor():
    source = code(7).replace(
        "return tl.load(ptrs, mask=rows[:, None] < n_rows, other=0.0)", "return tl.load(ptrs)"
    )
    report = report_for(module_from(source).my_flash_attention, seed=1)
    assert report.failed_property == "stays inside its tensors", report.text()
    assert "`k`" in report.text() or "`q`" in report.text()


def test_scalar_initialisers_are_right_here_but_not_on_a_gpu():
    change = ('m = tl.full((BLOCK_Q,), float("-inf"), tl.float32)', 'm = float("-inf")')
    report = report_for(final_kernel_with(*change), seed=1)
    assert report.verdict is Verdict.NOT_ON_A_GPU, report.text()


def test_a_score_buffer_is_found():
    source = code(7).replace(
        "    flash_kernel[(triton.cdiv(n_q, block_q), b * h)](",
        "    scores = torch.empty(b * h, n_q, k.shape[2])\n"
        "    flash_kernel[(triton.cdiv(n_q, block_q), b * h)](",
    )
    report = report_for(module_from(source).my_flash_attention, seed=1)
    assert report.failed_property == "needs memory linear in N", report.text()
