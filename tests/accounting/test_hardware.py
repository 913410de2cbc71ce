"""The hardware tables: consistent with each other and with arithmetic known independently."""

from __future__ import annotations

import dataclasses

import pytest

from course_lib.accounting.hardware import GPUS, MEMORY_HIERARCHY, gpu


@pytest.mark.parametrize(
    ("name", "ridge"), [("T4", 203), ("A100-80", 153), ("H100", 295), ("B200", 281)]
)
def test_ridge_is_flops_over_bandwidth(name, ridge):
    assert round(gpu(name).ridge) == ridge


def test_names_are_found_in_any_case_and_unknown_ones_are_answered_with_the_list():
    assert gpu("h100") is GPUS["H100"]
    assert gpu("A100") is GPUS["A100-80"]
    with pytest.raises(ValueError, match=r"gpu must be one of T4, L4, A100-40.*; got 'V100'"):
        gpu("V100")


def test_a_gpu_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        gpu("H100").tflops_half = 1
    with pytest.raises(TypeError):
        GPUS["mine"] = gpu("H100")


@pytest.mark.parametrize("name", MEMORY_HIERARCHY)
def test_memory_gets_larger_and_slower_downwards(name):
    levels = MEMORY_HIERARCHY[name]
    assert [level.name for level in levels] == ["registers", "shared memory", "L2", "HBM"]
    speeds = [level.gb_per_s for level in levels if level.gb_per_s is not None]
    assert speeds == sorted(speeds, reverse=True)
    assert levels[3].n_bytes > levels[2].n_bytes > levels[1].n_bytes
    assert levels[3].gb_per_s == gpu(name).hbm_gb_per_s
    assert levels[2].n_bytes == gpu(name).l2_mb * 2**20
    # A block gets all of an SM's shared memory but 1 KiB.
    assert levels[1].n_bytes == gpu(name).sms * (gpu(name).shared_kib_per_block + 1) * 1024
    for level in levels:
        assert (level.gb_per_s is None) == (level.origin == "not published")


def test_shared_memory_of_an_a100_is_an_order_of_magnitude_above_its_hbm():
    """The FlashAttention paper (figure 1) draws 19 TB/s over 20 MB against 1.5 TB/s."""
    shared = MEMORY_HIERARCHY["A100-80"][1]
    assert shared.gb_per_s == pytest.approx(19500, rel=0.01)
