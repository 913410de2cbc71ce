"""What random cases are held to: float64, and by how much a result may be off from it.

The standard of the course: truth is float64 on the inputs as they are; o may be off by twice,
gradients by three times what eager PyTorch is off in the same dtype, plus 1e-5 in float32 and twice
(three times) the rounding of the truth in half types. lse is held to float32's digits.

Eager PyTorch is now and then exact by luck (with one key its softmax is 1 and its gradient 0). So
what float32 scores, and a backward pass that starts from the rounded o and lse, cannot know is
computed as well (`unresolved`, `_backward_blur`), and allowed where it is more than the 1e-5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

from course_lib.attention.truth import attention_float64

FINE = 2.0**-23  # float32's last digit


class Bends(NamedTuple):
    """What is done to scores: softcap, and for each head slopes and sinks, float32."""

    softcap: float | None = None
    slopes: torch.Tensor | None = None
    sinks: torch.Tensor | None = None


STRAIGHT = Bends()
Limit = tuple[torch.Tensor, float]  # the true gradient, and by how much one may be off


def bent(s: torch.Tensor, bends: Bends) -> torch.Tensor:
    """Return scores (B, H, n_q, n_k) with the cap, then the slopes."""
    if bends.softcap is not None:
        s = bends.softcap * torch.tanh(s / bends.softcap)
    if bends.slopes is not None:
        s = s - (bends.slopes[:, None, None] * distance(s)).to(s.dtype)
    return s


def distance(s: torch.Tensor) -> torch.Tensor:
    """Return how far each query of scores (..., n_q, n_k) is from each key, from the end."""
    n_q, n_k = s.shape[-2:]
    places = torch.arange(n_q, device=s.device)[:, None] + n_k - n_q
    return (places - torch.arange(n_k, device=s.device)).abs()


def eager(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    allowed: torch.Tensor,
    scale: float,
    bends: Bends = STRAIGHT,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention in the inputs' own dtype; a row without a key gives 0, -inf and no gradient."""
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    some = allowed.any(1)[:, None]
    s = bent(q @ k.mT * scale, bends).masked_fill(~allowed, float("-inf"))
    if bends.sinks is not None:  # one more key, whose value is zero
        sink = bends.sinks.to(s.dtype)[:, None, None].expand(*s.shape[:3], 1)
        nothing = v.new_zeros(*v.shape[:2], 1, v.shape[3])
        s, v = torch.cat([s, sink], 3), torch.cat([v, nothing], 2)
        some = torch.ones_like(some)
    s = s.masked_fill(~some, 0.0)
    o = (torch.softmax(s, -1) @ v).masked_fill(~some, 0.0)
    return o, torch.logsumexp(s, -1).masked_fill(~some[:, 0], float("-inf"))


def forward_ratios(
    o: torch.Tensor,
    lse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    allowed: torch.Tensor,
    scale: float,
    bends: Bends = STRAIGHT,
) -> dict[str, float]:
    """Hold o, and lse where it is returned, against float64."""
    assert (o.shape, o.dtype, o.device) == (q.shape, q.dtype, q.device), "o: shape or dtype"
    assert lse is None or (lse.shape, lse.dtype) == (q.shape[:3], torch.float32), (
        "lse: shape or dtype"
    )
    truth, lse_truth = (
        torch.from_numpy(x)
        for x in attention_float64(q, k, v, allowed=allowed, scale=scale, **bends._asdict())
    )
    size = score_size(q, k, scale, bends)
    exact = o.dtype == torch.float32
    least = max(
        1e-5 if exact else 0.0,
        (unresolved(size, q.shape[-1]) + exact * summed(k.shape[2])) * _largest(v),
    )
    plain, _ = eager(q, k, v, allowed, scale, bends)
    found = {"o": _ratio(o, truth, plain, 2, least)}

    some = allowed.any(1).cpu()
    if not (o.cpu()[:, :, ~some] == 0).all():
        found["o"] = math.inf  # a row without a key
    if lse is None:
        return found
    lse = lse.cpu()
    if bends.sinks is not None:
        some[:] = True  # what is in the sum then is the sink
    if not (lse[:, :, ~some] == float("-inf")).all():
        found["lse"] = math.inf
        return found
    error = (lse - lse_truth).abs()[:, :, some]
    found["lse"] = over(error, 2e-5 + 2e-6 * max(size, _largest(lse_truth[:, :, some])))
    return found


def gradient_limits(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    do: torch.Tensor,
    dlse: torch.Tensor,
    allowed: torch.Tensor,
    scale: float,
    bends: Bends = STRAIGHT,
) -> list[Limit]:
    """Return what float64 autograd says of dq, dk, dv and, with sinks, of dsinks."""
    dtype = q.dtype

    def by_autograd(wide: torch.dtype) -> Sequence[torch.Tensor]:
        copies = [x.detach().to(wide, copy=True).requires_grad_() for x in (q, k, v)]
        sinks = None if bends.sinks is None else bends.sinks.detach().to(wide).requires_grad_()
        outputs = eager(*copies, allowed, scale, bends._replace(sinks=sinks))
        wanted = copies if sinks is None else [*copies, sinks]
        return torch.autograd.grad(outputs, wanted, (do.to(wide), dlse.to(wide)))

    plain, true = by_autograd(dtype), by_autograd(torch.float64)
    least = _backward_blur(q, k, v, do, dlse, allowed, scale, bends)
    of_keys = q.shape[2] * q.shape[1] // k.shape[1]
    terms = (k.shape[2], of_keys, of_keys, q.shape[0] * q.shape[2])
    return [
        (exact, _allowed(exact, one, 3, max(1e-5, off + summed(n) * _largest(exact)), dtype))
        for exact, one, off, n in zip(true, plain, least, terms, strict=False)
    ]


@torch.no_grad()
def _backward_blur(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    do: torch.Tensor,
    dlse: torch.Tensor,
    allowed: torch.Tensor,
    scale: float,
    bends: Bends,
) -> tuple[float, float, float, float]:
    """Return by how much dq, dk, dv and dsinks may be off through P = exp(s - lse) and
    delta = do . o. (A cap only makes the first two smaller, and is left out.)"""
    digits = {torch.float32: 2.0**-24, torch.float16: 2.0**-12, torch.bfloat16: 2.0**-9}[q.dtype]
    # lse is rounded twice more on its way
    blur = 1.5 * unresolved(score_size(q, k, scale, bends), q.shape[-1])
    group = q.shape[1] // k.shape[1]
    q, k, v, do, dlse = (x.double() for x in (q, k, v, do, dlse))
    o, lse = eager(q, k, v, allowed, scale, bends)
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    s = bent(q @ k.mT * scale, bends).masked_fill(~allowed, float("-inf"))
    p = torch.exp(s - lse[..., None]).nan_to_num()
    ds = p * (do @ v.mT - (do * o).sum(-1, keepdim=True) + dlse[..., None])
    # do . v is added up as a score is, and once more in do . o
    off = blur * ds.abs() + unresolved(1.0, q.shape[-1]) * p * (do.abs() @ v.abs().mT)
    delta = 3 * (digits + blur) * (do * o).norm(dim=-1, keepdim=True)
    in_q = off @ k.abs() + delta * (p @ k).abs()
    in_k, in_v = (off + p * delta).mT @ q.abs(), blur * p.mT @ do.abs()
    in_k, in_v = (x.unflatten(1, (-1, group)).sum(2) for x in (in_k, in_v))
    found = _largest(in_q) * abs(scale), _largest(in_k) * abs(scale), _largest(in_v)
    if bends.sinks is None:
        return *found, 0.0
    taken = torch.exp(bends.sinks.double()[:, None] - lse)  # (B, H, n_q)
    of_row = blur * ((do * o).sum(-1) - dlse).abs() + delta[..., 0]
    return *found, _largest((taken * of_row).sum((0, 2)))


def score_size(q: torch.Tensor, k: torch.Tensor, scale: float, bends: Bends = STRAIGHT) -> float:
    """Return the largest sum of magnitudes behind a score."""
    q, k = q.detach().abs().float(), k.detach().abs().float()
    sums = q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT * abs(scale)
    if bends.slopes is not None:
        sums = sums + bends.slopes[:, None, None] * distance(sums)
    return _largest(sums)


def unresolved(size: float, terms: int) -> float:
    """Return by how much a weight exp(s) may be off, relative, for scores of that size.

    Forward and backward need not add a score's products in one order.
    """
    return max(2 * FINE, summed(terms)) * size


def summed(terms: int) -> float:
    """Return by how much a float32 sum, term by term, may be off, relative: a random walk."""
    return FINE / 2 * math.sqrt(terms)


def _ratio(
    got: torch.Tensor,
    true: torch.Tensor,
    plain: torch.Tensor,
    factor: int,
    least: float,
) -> float:
    limit = _allowed(true, plain, factor, least, got.dtype)
    return over((got.detach().cpu().double() - true.cpu()).abs(), limit)


def _allowed(
    true: torch.Tensor, plain: torch.Tensor, factor: int, least: float, dtype: torch.dtype
) -> float:
    """Return by how much one may be off: by ``factor`` times what eager PyTorch is, and more."""
    true, plain = (x.detach().cpu() for x in (true, plain))
    own = _largest(plain.double() - true)
    rounding = 0.0 if dtype == torch.float32 else _largest(true.to(dtype).double() - true)
    return factor * own + max(factor * rounding, least)


def over(error: torch.Tensor, limit: float) -> float:
    worst = float(error.max()) if error.numel() else 0.0
    if not math.isfinite(worst):
        return math.inf
    return 0.0 if worst == 0 else worst / limit if limit else math.inf


def _largest(x: torch.Tensor) -> float:
    """Return the largest finite magnitude, 0 if there is none."""
    x = x.detach().abs()
    x = x[x.isfinite()]
    return float(x.max()) if x.numel() else 0.0
