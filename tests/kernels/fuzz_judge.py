"""Run one random case and say how near it came to what is allowed (1.0 is the limit).

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

import torch
from helpers import solutions

from course_lib.attention.truth import attention_float64
from course_lib.kernels import attention_op, decode, flash_forward, ladder, paged
from course_lib.kernels.tiles import BY_HAND, Tiles, tiles_for

from .decode_cases import in_pages
from .fuzz_cases import Case, laid_out, tensors

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FINE = 2.0**-23  # float32's last digit


def ratios(case: Case) -> dict[str, float]:
    """Return error / allowed error of each result. Above 1 is wrong, and infinite for NaN.

    Raises:
        AssertionError: if a shape, dtype or device is wrong.
    """
    q, k, v = tensors(case, DEVICE)
    _soil(q, k, v)
    if case.kernel.endswith("decode"):
        return _decoded(case, q, k, v)
    allowed = visible(case)
    if case.kernel not in ("flash_attention", "Attention"):
        o, lse = _forward_kernel(case, q, k, v)
        return forward_ratios(o, lse, q, k, v, allowed, case.factor)
    inputs = [x.requires_grad_() for x in (q, k, v)]
    if case.kernel == "Attention":
        o, lse = solutions(9).Attention.apply(*inputs, case.causal), None
    else:
        o, lse = attention_op.flash_attention(
            *inputs, causal=case.causal, window=case.window, scale=case.scale, return_lse=True
        )
    outputs = o.detach(), None if lse is None else lse.detach()
    found = forward_ratios(*outputs, *(x.detach() for x in inputs), allowed, case.factor)
    return found | _gradient_ratios(case, o, lse, inputs, allowed)


def visible(case: Case) -> torch.Tensor:
    """Return (n_q, n_k): which query may see which key."""
    gap = torch.arange(case.n_q)[:, None] + case.n_k - case.n_q - torch.arange(case.n_k)
    seen = torch.ones_like(gap, dtype=torch.bool)
    if case.causal:
        seen &= gap >= 0
    if case.window is not None:
        seen &= gap < case.window
    return seen.to(DEVICE)


def eager(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, allowed: torch.Tensor, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention in the inputs' own dtype; a row without a key gives 0, -inf and no gradient."""
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    some = allowed.any(1)
    s = (q @ k.mT * scale).masked_fill(~allowed, float("-inf")).masked_fill(~some[:, None], 0.0)
    o = (torch.softmax(s, -1) @ v).masked_fill(~some[:, None], 0.0)
    return o, torch.logsumexp(s, -1).masked_fill(~some, float("-inf"))


def forward_ratios(
    o: torch.Tensor,
    lse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    allowed: torch.Tensor,
    scale: float,
) -> dict[str, float]:
    """Hold o, and lse where it is returned, against float64."""
    assert (o.shape, o.dtype, o.device) == (q.shape, q.dtype, q.device), "o: shape or dtype"
    assert lse is None or (lse.shape, lse.dtype) == (q.shape[:3], torch.float32), (
        "lse: shape or dtype"
    )
    truth, lse_truth = (
        torch.from_numpy(x) for x in attention_float64(q, k, v, allowed=allowed, scale=scale)
    )
    size = score_size(q, k, scale)
    exact = o.dtype == torch.float32
    least = max(
        1e-5 if exact else 0.0,
        (unresolved(size, q.shape[-1]) + exact * summed(k.shape[2])) * _largest(v),
    )
    plain, _ = eager(q, k, v, allowed, scale)
    found = {"o": _ratio(o, truth, plain, 2, least)}

    some = allowed.any(1).cpu()
    if not (o.cpu()[:, :, ~some] == 0).all():
        found["o"] = math.inf  # a row without a key
    if lse is None:
        return found
    lse = lse.cpu()
    if not (lse[:, :, ~some] == float("-inf")).all():
        found["lse"] = math.inf
        return found
    error = (lse - lse_truth).abs()[:, :, some]
    found["lse"] = _over(error, 2e-5 + 2e-6 * max(size, _largest(lse_truth[:, :, some])))
    return found


def _gradient_ratios(
    case: Case,
    o: torch.Tensor,
    lse: torch.Tensor | None,
    inputs: Sequence[torch.Tensor],
    allowed: torch.Tensor,
) -> dict[str, float]:
    """Hold dq, dk, dv against float64 autograd; every other case has a gradient by lse too."""
    dtype, scale = o.dtype, case.factor
    made = torch.Generator().manual_seed(case.n_q * 7919 + case.n_k)
    do = laid_out(torch.randn(o.shape, generator=made).to(DEVICE, dtype), case.layout)
    dlse = torch.randn(o.shape[:3], generator=made).to(DEVICE, dtype)
    if case.n_k % 2 or lse is None:
        dlse.zero_()
    outputs, steps = ((o,), (do,)) if lse is None else ((o, lse), (do, dlse.float()))
    grads = torch.autograd.grad(outputs, inputs, steps)

    def by_autograd(wide: torch.dtype) -> Sequence[torch.Tensor]:
        copies = [x.detach().to(wide, copy=True).requires_grad_() for x in inputs]
        outputs = eager(*copies, allowed, scale)
        return torch.autograd.grad(outputs, copies, (do.to(wide), dlse.to(wide)))

    plain, true = by_autograd(dtype), by_autograd(torch.float64)
    least = _backward_blur(*inputs, do, dlse, allowed, scale)
    terms = (case.n_k, *2 * (case.n_q * case.heads // case.kv_heads,))
    found = {}
    for i, (x, got) in enumerate(zip(inputs, grads, strict=True)):
        name = ("dq", "dk", "dv")[i]
        assert (got.shape, got.dtype) == (x.shape, dtype), f"{name}: shape or dtype"
        off = least[i] + summed(terms[i]) * _largest(true[i])
        found[name] = _ratio(got, true[i], plain[i], 3, max(1e-5, off))
    return found


@torch.no_grad()
def _backward_blur(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    do: torch.Tensor,
    dlse: torch.Tensor,
    allowed: torch.Tensor,
    scale: float,
) -> tuple[float, float, float]:
    """Return by how much dq, dk and dv may be off through P = exp(s - lse) and delta = do . o."""
    digits = {torch.float32: 2.0**-24, torch.float16: 2.0**-12, torch.bfloat16: 2.0**-9}[q.dtype]
    # lse is rounded twice more on its way
    blur = 1.5 * unresolved(score_size(q, k, scale), q.shape[-1])
    group = q.shape[1] // k.shape[1]
    q, k, v, do, dlse = (x.double() for x in (q, k, v, do, dlse))
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    s = (q @ k.mT * scale).masked_fill(~allowed, float("-inf"))
    p = torch.softmax(s, -1).nan_to_num()
    o = p @ v
    ds = p * (do @ v.mT - (do * o).sum(-1, keepdim=True) + dlse[..., None])
    off = blur * ds.abs() + FINE * p * (do.abs() @ v.abs().mT)
    delta = 3 * (digits + blur) * (do * o).norm(dim=-1, keepdim=True)
    in_q = off @ k.abs() + delta * (p @ k).abs()
    in_k, in_v = (off + p * delta).mT @ q.abs(), blur * p.mT @ do.abs()
    in_k, in_v = (x.unflatten(1, (-1, group)).sum(2) for x in (in_k, in_v))
    return _largest(in_q) * abs(scale), _largest(in_k) * abs(scale), _largest(in_v)


def score_size(q: torch.Tensor, k: torch.Tensor, scale: float) -> float:
    """Return the largest sum of magnitudes behind a score."""
    q, k = q.detach().abs().float(), k.detach().abs().float()
    return _largest(q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT) * abs(scale)


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
    got, true, plain = (x.detach().cpu() for x in (got, true, plain))
    own = _largest(plain.double() - true)
    rounding = 0.0 if got.dtype == torch.float32 else _largest(true.to(got.dtype).double() - true)
    return _over((got.double() - true).abs(), factor * own + max(factor * rounding, least))


def _over(error: torch.Tensor, limit: float) -> float:
    worst = float(error.max()) if error.numel() else 0.0
    if not math.isfinite(worst):
        return math.inf
    return 0.0 if worst == 0 else worst / limit if limit else math.inf


def _largest(x: torch.Tensor) -> float:
    """Return the largest finite magnitude, 0 if there is none."""
    x = x.detach().abs()
    x = x[x.isfinite()]
    return float(x.max()) if x.numel() else 0.0


def _soil(*shapes: torch.Tensor) -> None:
    """Leave NaN in the memory that the results will get: what nobody writes then shows."""
    soiled = [torch.full(x.shape, float("nan"), dtype=x.dtype, device=x.device) for x in shapes]
    soiled += [torch.full(x.shape[:3], float("nan"), device=x.device) for x in shapes]
    del soiled


def _forward_kernel(
    case: Case, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    if case.kernel == "teaching kernel":
        return flash_forward.flash_attention_with_lse(q, k, v, causal=case.causal, **case.options)
    if case.kernel == "my_flash_attention":
        return solutions(7).my_flash_attention(q, k, v, causal=case.causal, **case.options)
    if case.kernel == "rung 8":
        from course_lib.kernels.gluon_forward import specialised

        choice = BY_HAND[case.d]
        return specialised(q, k, v, causal=case.causal, scale=case.scale, **choice)
    options = {}
    choice = case.options.get("tiles", "own")
    if choice != "own":
        options["tiles"] = tiles_for(q, causal=case.causal) if choice == "table" else Tiles(*choice)
    return ladder.RUNGS[int(case.kernel[-1])](q, k, v, causal=case.causal, **options)


def _decoded(case: Case, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> dict[str, float]:
    """Decode a ragged batch; beyond each sequence's length the cache is NaN."""
    made = torch.Generator().manual_seed(case.n_k)
    lengths = torch.randint(0, case.n_k + 1, (case.batch,), generator=made)
    lengths[-1] = case.n_k
    whole = [x.clone() for x in (k, v)]
    if case.layout != "expanded":
        for b, length in enumerate(lengths.tolist()):
            k[b, :, length:] = v[b, :, length:] = float("nan")
    held = lengths.to(DEVICE, torch.int32)
    settings = {"scale": case.scale, "splits": case.options["splits"]}
    if case.kernel == "ragged_decode":
        theirs = solutions(10)
        parts = theirs.ragged_decode(q[:, :, 0], k, v, held, settings["splits"] or 4)
        o, lse = (x[:, :, None] for x in theirs.merge_splits(*parts))
        o = o.to(q.dtype)
    elif case.kernel == "flash_decode":
        o, lse = decode.flash_decode(q, k, v, held, **settings)
    else:
        dtype = getattr(torch, case.options["table"])
        pools = (in_pages(x, case.options["page"], lengths, dtype) for x in (k, v))
        (k_pages, table), (v_pages, _) = pools
        pages = (laid_out(x, case.layout) for x in (k_pages, v_pages))
        o, lse = paged.paged_decode(q, *pages, table, held, **settings)
    found = {"o": 0.0, "lse": 0.0}
    gap = torch.arange(case.n_q)[:, None] - case.n_q
    for b, length in enumerate(lengths.tolist()):
        part = (q[b : b + 1], *(x[b : b + 1, :, :length] for x in whole))
        allowed = (gap + length >= torch.arange(length)).to(DEVICE)
        one = forward_ratios(o[b : b + 1], lse[b : b + 1], *part, allowed, case.factor)
        found = {name: max(one[name], worst) for name, worst in found.items()}
    return found
