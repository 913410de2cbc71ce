# What the launcher names is made at top level: a lambda, a logger, a cached helper, settings.
# Compiled
from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)
ceil_div = lambda n, tile: (n + tile - 1) // tile  # noqa: E731


@dataclass(frozen=True)
class Settings:
    warps: int = 4


SETTINGS, LEAST = Settings(), np.int64(1)


@functools.cache
def programs_for(n: int, block: int) -> int:
    return max(LEAST, ceil_div(n, block))


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask)
    tl.store(out + offsets, total, mask=mask)


@torch.no_grad()
def vector_add(x: Tensor, y: Tensor, *, block: int = 64) -> Tensor:
    out = torch.empty_like(x)
    n = x.numel()
    logger.debug("%d numbers", n)
    grid = (int(programs_for(n, block)),)
    add_kernel[grid](x, y, out, n, BLOCK=block, num_warps=SETTINGS.warps)
    return out
