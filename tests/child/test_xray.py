"""Compiling for GPUs that are not here, and what the machine code gives away."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from course_lib.child.xray import xray, xray_launch


@triton.jit
def product(a, b, c, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    square = i[:, None] * BLOCK + i[None, :]
    tl.store(c + square, tl.dot(tl.load(a + square), tl.load(b + square)))


def launch_product(a, b, c, block):
    product[(1,)](a, b, c, BLOCK=block, num_warps=8)


POINTERS = {"a": "*fp16", "b": "*fp16", "c": "*fp32"}


def test_a_dot_is_tensor_core_work_on_an_a100_and_fma_on_a_t4():
    t4, a100, h100 = xray(product, POINTERS, {"BLOCK": 64}, ["T4", "A100", "H100"])
    assert t4.instructions["tensor_core"] == 0
    assert t4.instructions["fma"] > 0
    assert "tl.dot is" in t4.sentence
    assert a100.instructions["tensor_core"] > 0
    assert h100.instructions["tensor_core"] > 0
    assert a100.stack_bytes == 0
    assert 1 <= a100.blocks_per_sm <= 16


def test_a_tile_too_large_for_the_registers_spills_and_says_so():
    (ray,) = xray(product, POINTERS, {"BLOCK": 128}, "A100", num_warps=1)
    assert ray.stack_bytes > 0
    assert "spills" in ray.sentence


def test_as_launched_with_the_launchers_own_options_and_as_a_table():
    half = torch.empty(32, 32, dtype=torch.float16)
    rays = xray_launch(launch_product, half, half, torch.empty(32, 32), 32, target="L4")
    assert [(ray.kernel, ray.num_warps) for ray in rays] == [("product", 8)]
    assert str(rays).splitlines()[-1].startswith("L4")
    assert rays._repr_html_().count("<tr>") == 2


def test_bad_input_gets_a_sentence():
    with pytest.raises(ValueError, match=r"missing \['BLOCK'\], unknown \['BLOKC'\]"):
        xray(product, POINTERS, {"BLOKC": 64})
    with pytest.raises(ValueError, match="gpu must be one of"):
        xray(product, POINTERS, {"BLOCK": 64}, "H1000")
    with pytest.raises(ValueError, match="could not be compiled"):
        xray(product, POINTERS, {"BLOCK": 48})
