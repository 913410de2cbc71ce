"""What a model may ask of its scores besides a mask, and where sequences lie that are packed.

Each of these is a switch of the plain kernels, forward and backward: what is None costs nothing,
for the compiler never sees it. Between q k^T and softmax a score may be bent:

    soft-cap     s -> cap tanh(s / cap)    Gemma 2 (arXiv:2408.00118), section 2
    slope        s -> s - slope |i - j|    ALiBi: Press et al. 2022 (arXiv:2108.12409), section 3
    sink         one more term, exp(sink), in each row's sum, and no value: gpt-oss
                 (arXiv:2508.10925), section 2

The cap comes before the slope, as in FlashAttention's library; places are aligned at the end, as in
`visible`. As derivatives go, a cap leaves 1 - (s / cap)^2 of what comes to it, a slope all of it,
and the sink's own is that of a key whose value is zero: with o = p v, delta = rowsum(dO * O) stays,

    dsink = - sum over rows of exp(sink - lse) (delta - dlse)

Packed sequences lie end to end, (total, H, d), and ``cu`` (B + 1,) says where each begins.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl

LOG2_E = 1.4426950408889634
LN_2 = tl.constexpr(0.6931471805599453)


class Extras(NamedTuple):
    """What a call may ask for beyond mask and scale, in the order in which operators take it.

    sinks and slopes are (H,), one for each query head; cu_q and cu_k (B + 1,), None unless packed;
    max_q and max_k the longest of the packed sequences.
    """

    sinks: torch.Tensor | None = None
    slopes: torch.Tensor | None = None
    cu_q: torch.Tensor | None = None
    cu_k: torch.Tensor | None = None
    softcap: float | None = None
    max_q: int = 0
    max_k: int = 0

    @property
    def same_scores(self) -> bool:
        """Whether scores are what they are without: neither bent nor packed (a sink is beside)."""
        return self.softcap is None and self.slopes is None and self.cu_q is None

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Those that a kernel gets."""
        every = (self.sinks, self.slopes, self.cu_q, self.cu_k)
        return tuple(x for x in every if x is not None)

    @property
    def kinds(self) -> tuple[bool | int, ...]:
        """What decides, beside these tensors' shapes and dtypes, which machine code starts."""
        switches = (self.sinks, self.slopes, self.softcap, self.cu_q)
        return (*(x is not None for x in switches), self.max_q, self.max_k)


@triton.jit
def span(cu, batch):
    """Return where a packed sequence begins (64 bits: offsets can pass 2^31), and its length."""
    begin = tl.load(cu + batch)
    return begin.to(tl.int64), (tl.load(cu + batch + 1) - begin).to(tl.int32)


@triton.jit
def tanh(x):
    """tanh to float32's digits: near 0, where 1 - e^-2|x| loses them, by Lambert's fraction.

    (Triton's interpreter has no tanh.) One division for both: it is what takes long.
    """
    size = tl.abs(x)
    square = x * x
    e = tl.exp2(size * (-2 / LN_2))
    near = size < 0.6
    above = tl.where(near, size * (945 + square * (105 + square)), 1 - e)
    below = tl.where(near, 945 + square * (420 + 15 * square), 1 + e)
    share = above / below
    return tl.where(x < 0, -share, share)


@triton.jit
def capped(s, softcap):
    """Return scores between -softcap and softcap (both in base 2); softcap None: as they are."""
    if softcap is not None:
        s = softcap * tanh(s * (1 / softcap))
    return s


@triton.jit
def passed_by_cap(ds, s, softcap):
    """Return the derivative by the scores before the cap, from that by s, the capped ones."""
    if softcap is not None:
        share = s * (1 / softcap)
        ds = ds * (1 - share * share)
    return ds


@triton.jit
def sloped(s, slope, rows, keys, n_q, n_k):
    """Take slope (base 2) times the distance off each score; slope None: as they are."""
    if slope is not None:
        s = s - slope * tl.abs(rows + n_k - n_q - keys).to(tl.float32)
    return s


@triton.jit
def slope_of(slopes, head):
    """Return the head's slope in base 2, None without slopes."""
    slope = None
    if slopes is not None:
        slope = tl.load(slopes + head).to(tl.float32) / LN_2
    return slope
