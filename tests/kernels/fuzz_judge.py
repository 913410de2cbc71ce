"""Run one random case and say how near it came to what is allowed (1.0 is the limit).

What is allowed, and why, is said in `fuzz_limits`.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import pairwise

import torch
from helpers import solutions

from course_lib.kernels import attention_op, decode, flash_forward, ladder, packed, paged
from course_lib.kernels.tiles import BY_HAND, CAUSAL_LISTS, LISTS, Tiles, tiles_for

from .decode_cases import in_pages
from .fuzz_cases import Case, laid_out, tensors
from .fuzz_limits import Bends, Limit, forward_ratios, gradient_limits, over

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def bends_of(case: Case) -> Bends:
    """Return those that the case asks for."""
    made = torch.Generator().manual_seed(zlib.crc32(case.name.encode()) + 1)
    slopes, sinks = torch.rand(case.heads, generator=made), torch.randn(case.heads, generator=made)
    return Bends(
        case.options.get("softcap"),
        slopes.to(DEVICE) if case.options.get("slopes") else None,
        3 * sinks.to(DEVICE) if case.options.get("sinks") else None,
    )


def ratios(case: Case) -> dict[str, float]:
    """Return error / allowed error of each result. Above 1 is wrong, and infinite for NaN.

    Raises:
        AssertionError: if a shape, dtype or device is wrong.
    """
    q, k, v = tensors(case, DEVICE)
    _soil(q, k, v)
    if case.kernel.endswith("decode"):
        return _decoded(case, q, k, v)
    if case.kernel == "paged_prefill":
        return _prefilled(case, q, k, v)
    if case.kernel == "packed":
        return _packed(case, q, k, v)
    allowed = visible(case)
    if case.kernel not in ("flash_attention", "bent scores", "Attention"):
        o, lse = _forward_kernel(case, q, k, v)
        return forward_ratios(o, lse, q, k, v, allowed, case.factor)
    bends = bends_of(case)
    inputs = learned(q, k, v, bends=bends)
    if case.kernel == "Attention":
        o, lse = solutions(9).Attention.apply(*inputs, case.causal), None
    else:
        o, lse = attention_op.flash_attention(
            *inputs[:3],
            causal=case.causal,
            window=case.window,
            scale=case.scale,
            return_lse=True,
            **bends._asdict(),
        )
    outputs = o.detach(), None if lse is None else lse.detach()
    given = [x.detach() for x in (q, k, v)]
    found = forward_ratios(*outputs, *given, allowed, case.factor, bends)
    steps = _steps(case, o, no_lse=lse is None)
    grads = _gradients(o, lse, inputs, *steps)
    limits = gradient_limits(*given, *steps, allowed, case.factor, bends)
    return found | _gradient_ratios(inputs, grads, limits)


def learned(*inputs: torch.Tensor, bends: Bends) -> list[torch.Tensor]:
    """Return q, k, v and, where there are some, sinks: all want gradients."""
    found = [*inputs, *(() if bends.sinks is None else (bends.sinks,))]
    return [x.requires_grad_() for x in found]


def visible(case: Case, n_q: int | None = None, n_k: int | None = None) -> torch.Tensor:
    """Return (n_q, n_k): which query may see which key; of all, or of one packed sequence."""
    n_q, n_k = case.n_q if n_q is None else n_q, case.n_k if n_k is None else n_k
    gap = torch.arange(n_q)[:, None] + n_k - n_q - torch.arange(n_k)
    seen = torch.ones_like(gap, dtype=torch.bool)
    if case.causal:
        seen &= gap >= 0
    if case.window is not None:
        seen &= gap < case.window
    return seen.to(DEVICE)


def _steps(case: Case, o: torch.Tensor, *, no_lse: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients by o and lse; every other case has one by lse."""
    made = torch.Generator().manual_seed(case.n_q * 7919 + case.n_k)
    do = laid_out(torch.randn(o.shape, generator=made).to(DEVICE, o.dtype), case.layout)
    dlse = torch.randn(o.shape[:3], generator=made).to(DEVICE, o.dtype)
    if case.n_k % 2 or no_lse:
        dlse.zero_()
    return do, dlse


def _gradients(
    o: torch.Tensor,
    lse: torch.Tensor | None,
    inputs: Sequence[torch.Tensor],
    do: torch.Tensor,
    dlse: torch.Tensor,
) -> Sequence[torch.Tensor]:
    if lse is None:
        return torch.autograd.grad(o, inputs, do)
    return torch.autograd.grad((o, lse), inputs, (do, dlse.float()))


def _gradient_ratios(
    inputs: Sequence[torch.Tensor], grads: Sequence[torch.Tensor], limits: Sequence[Limit]
) -> dict[str, float]:
    """Hold dq, dk, dv (and dsinks) against their limits."""
    found = {}
    names = ("dq", "dk", "dv", "dsinks")
    for name, x, got, (true, limit) in zip(names, inputs, grads, limits, strict=False):
        assert (got.shape, got.dtype) == (x.shape, x.dtype), f"{name}: shape or dtype"
        found[name] = over((got.double() - true).abs(), limit)
    assert len(found) == len(inputs) == len(grads) == len(limits), "a gradient is missing"
    return found


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

        lists = CAUSAL_LISTS if case.causal else LISTS
        table = lists if case.n_q // 16 % 2 and case.d in lists else BY_HAND
        choice = table[case.d]
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


def _packed(case: Case, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> dict[str, float]:
    """Judge each sequence of a packed batch by itself, and the rows of none: 0, and -inf."""
    bends, lengths = bends_of(case), case.options["lengths"]
    inputs = learned(q, k, v, bends=bends)
    cu_q, cu_k = (_starts(column) for column in zip(*lengths, strict=True))
    most = {} if case.n_q % 2 else {"max_seqlen_q": case.n_q, "max_seqlen_k": case.n_k}
    o, lse = packed.flash_attention_packed(
        *(x[0].transpose(0, 1) for x in inputs[:3]),
        *(cu_q, cu_k),
        causal=case.causal,
        window=case.window,
        scale=case.scale,
        return_lse=True,
        **most,
        **bends._asdict(),
    )
    assert o.is_contiguous(), "o: strides"
    o, lse = o.transpose(0, 1)[None], lse[None]
    steps = _steps(case, o, no_lse=False)
    grads = _gradients(o, lse, inputs, *steps)
    found, limits_of_sinks = [], []
    for (i, i_end), (j, j_end) in zip(_spans(cu_q), _spans(cu_k), strict=True):
        if i == i_end:  # nobody looked at these keys
            found.append({x: over(g[:, :, j:j_end].abs(), 0.0) for x, g in zip(
                ("dk", "dv"), grads[1:3], strict=True)})  # fmt: skip
            continue
        part = q[:, :, i:i_end], k[:, :, j:j_end], v[:, :, j:j_end]
        part = tuple(x.detach() for x in part)
        allowed = visible(case, i_end - i, j_end - j)
        outputs = o[:, :, i:i_end].detach(), lse[:, :, i:i_end].detach()
        one = forward_ratios(*outputs, *part, allowed, case.factor, bends)
        steps_here = (x[:, :, i:i_end] for x in steps)
        limits = gradient_limits(*part, *steps_here, allowed, case.factor, bends)
        mine = grads[0][:, :, i:i_end], *(x[:, :, j:j_end] for x in grads[1:3])
        limits_of_sinks += limits[3:]
        found.append(one | _gradient_ratios(part, mine, limits[:3]))
    if limits_of_sinks:
        true, limit = sum(x for x, _ in limits_of_sinks), sum(x for _, x in limits_of_sinks)
        found.append({"dsinks": over((grads[3].double() - true).abs(), limit)})
    q_end, k_end = int(cu_q[-1]), int(cu_k[-1])
    spare = o[:, :, q_end:], grads[0][:, :, q_end:], *(x[:, :, k_end:] for x in grads[1:3])
    assert all((x == 0).all() for x in spare), "a row of no sequence"
    assert (lse[:, :, q_end:] == float("-inf")).all(), "lse of no sequence"
    names = dict.fromkeys(name for one in found for name in one)
    return {name: max(one.get(name, 0.0) for one in found) for name in names}


def _starts(lengths: Sequence[int]) -> torch.Tensor:
    return torch.tensor([0, *lengths]).cumsum(0).to(DEVICE, torch.int32)


def _spans(cu: torch.Tensor) -> list[tuple[int, int]]:
    return list(pairwise(cu.tolist()))


def _prefilled(case: Case, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> dict[str, float]:
    """Judge each sequence's newest rows by themselves; beyond its length the cache is NaN."""
    made, bends = torch.Generator().manual_seed(case.n_k), bends_of(case)
    keys, queries = (
        torch.randint(0, n + 1, (case.batch,), generator=made) for n in (case.n_k, case.n_q)
    )
    keys[-1] = case.n_k
    whole = [x.clone() for x in (k, v)]
    for b, length in enumerate(keys.tolist()):
        k[b, :, length:] = v[b, :, length:] = float("nan")
    dtype = getattr(torch, case.options["table"])
    pools = (in_pages(x, case.options["page"], keys, dtype) for x in (k, v))
    (k_pages, table), (v_pages, _) = pools
    cu = _starts(queries.tolist())
    o, lse = paged.paged_prefill(
        torch.cat([x[:, :n].transpose(0, 1) for x, n in zip(q, queries.tolist(), strict=True)]),
        *(laid_out(x, case.layout) for x in (k_pages, v_pages)),
        *(table, keys.to(DEVICE, torch.int32), cu),
        window=case.window,
        scale=case.scale,
        **bends._asdict(),
    )
    found = [{"o": 0.0, "lse": 0.0}]
    for b, (i, i_end) in enumerate(_spans(cu)):
        length = int(keys[b])
        part = q[b : b + 1, :, : i_end - i], *(x[b : b + 1, :, :length] for x in whole)
        mine = o[i:i_end].transpose(0, 1)[None], lse[None, :, i:i_end]
        allowed = visible(case, i_end - i, length)
        found.append(forward_ratios(*mine, *part, allowed, case.factor, bends))
    return {name: max(one[name] for one in found) for name in found[0]}
