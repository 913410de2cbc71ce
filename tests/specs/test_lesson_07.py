"""Lesson 07: mistakes fail under their own names."""

from __future__ import annotations

import pytest
import torch
from helpers import report_on

from course_lib.checking import report_for
from course_lib.judging.report import Verdict

STEPS = ["one_tile_attention", "looped_attention", "ragged_attention", "my_flash_attention"]


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
@pytest.mark.usefixtures("unnamed")
def test_null_models_fail(name, null):
    def launcher(q, k, v, *, causal=False, block_q=64, block_k=64):
        o = NULLS[null](q, k, v)
        return o if name in STEPS[:2] else (o, torch.zeros(q.shape[:-1]))

    launcher.__name__ = name
    assert report_for(launcher, seed=1).verdict is Verdict.INCORRECT


def test_the_courses_own_kernel_is_refused():
    def my_flash_attention(q, k, v, *, causal=False, block_q=64, block_k=64):
        from course_lib.kernels.flash_forward import flash_attention_with_lse

        return flash_attention_with_lse(q, k, v, causal=causal, block_q=block_q, block_k=block_k)

    report = report_for(my_flash_attention, seed=1)
    assert report.failed_property == "is your own kernel", report.text()


@pytest.mark.parametrize("tensor", ["q", "k", "v"])
def test_a_missing_tail_mask_is_named_with_its_tensor(tensor):
    report = report_on(f"7.4/wrong/tail_mask_missing_on_{tensor}")
    assert f"`{tensor}`" in report.text()
