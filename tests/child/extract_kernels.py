"""Kernels and launchers as a student's file would have them, for the tests of extract."""

import functools
import logging
import math
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import torch
import torch as pytorch
import triton
import triton.language as tl
from triton.language import constexpr as fixed

from course_lib.kernels.flash_forward import load_tile as library_load

BLOCK = tl.constexpr(16)
SCALES = (0.5, float("inf"), -2)
NAME, NOTHING = "it's", None
HALF, DEVICE = torch.float16, torch.device("cpu")
ACCUMULATE = tl.float32
CONFIGS = [triton.Config({"TILE": 16}, num_warps=2)]
WEIGHTS = torch.ones(3)
SIDE = fixed(4)


@triton.jit
def twice(x):
    return x * 2


@triton.jit
def four_times(x):
    return twice(twice(x))


multiply = four_times


@triton.autotune(CONFIGS, key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
@triton.jit
def kernel(x, y, n, TILE: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, TILE)
    value = tl.load(x + at, mask=at < n).to(ACCUMULATE)
    tl.store(y + at, multiply(value), mask=at < n)


class Settings:
    """What a launcher may be configured with."""

    def __init__(self, rows: int = 3):
        self.rows = rows


def countdown(n):
    return 0 if n == 0 else countdown(n - 1)


def launcher(x, settings=Settings(), start=SCALES[0]):
    y = pytorch.empty_like(x, device=DEVICE)
    grid = lambda meta: (triton.cdiv(x.numel(), BLOCK.value),)  # noqa: E731
    kernel[grid](x, y, x.numel())
    used = [NAME for _ in range(2)], NOTHING, math.isinf(SCALES[1]), countdown(settings.rows)
    assert used == (["it's", "it's"], None, True, 0)
    assert np.ceil(start) == 1 == HALF.itemsize - 1
    return y


def uses_a_tensor(x):
    return x + WEIGHTS


def uses_nothing_defined(x):
    return x + undefined_name  # noqa: F821


def uses_the_library(x):
    return library_load


def make_scaler(factor):
    def scaler(x):
        """Closes over factor."""
        return factor * x

    return scaler


ceil_div = lambda n, tile: -(-n // tile)  # noqa: E731
LOG = logging.getLogger(__name__)
Plan = namedtuple("Plan", "tile warps")
PLAN, LOG2E = Plan(16, 4), np.log2(np.e)


@dataclass(frozen=True)
class Knobs:
    plan: Plan = PLAN


KNOBS = Knobs()
double = functools.partial(pow, 2)


@functools.cache
def tiles(n):
    return ceil_div(n, KNOBS.plan.tile)


@torch.no_grad()
def uses_made_globals(n):
    LOG.debug("%d", n)
    return tiles(n) + double(3) + round(LOG2E, 3)
