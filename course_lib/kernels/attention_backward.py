"""The backward pass: which kernels do it, and how they are launched.

Anywhere the three of `backward_kernels`, by tensor descriptors where that was measured to be faster
(`by_descriptors`): without a pointer for every row there are registers left.

On Hopper `gluon_backward` does all of it but the sums of rows in one kernel (`by_hand`). It knows
no soft-cap, no slopes and no packed sequences (`scores`): with one of these the plain ones are
chosen. Sinks change nothing in either, for lse holds them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from course_lib.kernels.attention_forward import fetchable, gluon_works, still
from course_lib.kernels.backward_kernels import dk_dv_kernel, dq_kernel, rows_kernel
from course_lib.kernels.ladder import described
from course_lib.kernels.launch import (
    cdiv,
    launch,
    likeness,
    on_device_of,
    power_of_2,
    remembered,
)
from course_lib.kernels.scores import LOG2_E, Extras
from course_lib.kernels.tiles import Tiles, backward_tiles_for


class Ways(NamedTuple):
    """What was chosen for calls that are alike: the kernel with five products, or tiles of two, and
    whether these load by descriptors."""

    five: bool
    described: bool
    for_keys: Tiles
    for_queries: Tiles


def ways(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, tiles: tuple | None,
    may_be_by_hand: bool, packed: bool,
) -> Ways:  # fmt: skip
    """Choose: ``may_be_by_hand`` where what was asked for is all that the kernel by hand knows."""
    five = tiles is None and may_be_by_hand and by_hand(q, k, v, do)
    described_ = not packed and by_descriptors(q, k, v, do)
    return Ways(five, described_, *(tiles or backward_tiles_for(q)))


def flash_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    dlse: torch.Tensor | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    tiles: tuple | None = None,
    extra: Extras = Extras(),  # noqa: B008 (a tuple never changes)
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Gradients of attention, from what the forward pass saved.

    Args:
        q: (B, H, n_q, d), any strides; packed, (1, H, total_q, d).
        k: (B, H_kv, n_k, d), likewise; H_kv divides H.
        v: like k.
        o: (B, H, n_q, d), the forward's output.
        lse: (B, H, n_q), float32, natural log, the forward's.
        do: gradient of the loss by o, any strides.
        dlse: gradient by lse, or None.
        causal: as in the forward pass.
        window: as in the forward pass.
        scale: as in the forward pass; default d ** -0.5.
        tiles: (tiles for dK and dV, tiles for dQ); default: this GPU's table.
        extra: as in the forward pass.

    Returns:
        dq, dk, dv, in the inputs' dtype, contiguous (packed: as (total, H, d)), and dsinks (H,), in
        the sinks' dtype, None without sinks.
    """
    batch, heads, n_q, d = q.shape
    kv_heads, n_k = k.shape[1:3]
    scale = d**-0.5 if scale is None else scale
    packed = extra.cu_q is not None
    dq, dk, dv = (new_gradient(x, packed=packed) for x in (q, k, v))
    if q.numel() == 0 or (n_k == 0 and extra.sinks is None):
        dsinks = None if extra.sinks is None else torch.zeros_like(extra.sinks)
        return dq.zero_(), dk.zero_(), dv.zero_(), dsinks
    o = o.transpose(1, 2).contiguous().transpose(1, 2) if packed else o.contiguous()
    lse = lse.contiguous()
    if do.stride(-1) != 1:  # that of o.sum() has strides of 0, which no copy engine takes
        do = do.contiguous()
    dlse = None if dlse is None else dlse.contiguous()
    given = (q, k, v, o, lse, do, *extra.tensors, *(() if dlse is None else (dlse,)))
    deterministic = torch.are_deterministic_algorithms_enabled()
    like = likeness(given, causal, window, tiles, deterministic, dlse is None, *extra.kinds)
    may_be_by_hand = not deterministic and window is None and extra.same_scores
    chosen = remembered(like, ways, q, k, v, do, tiles, may_be_by_hand, packed)
    for_keys, for_queries = chosen.for_keys, chosen.for_queries
    n_out = cdiv(n_q, 128) * 128 if chosen.five else n_q
    delta, lse_2 = (lse.new_empty((batch * heads, n_out)) for _ in range(2))
    dq_sum = lse.new_empty((batch * heads, n_out, power_of_2(d))) if chosen.five else None
    shape: dict[str, Any] = {"HEAD_DIM": d, "BLOCK_D": power_of_2(d)}
    mask = {"CAUSAL": causal, "WINDOWED": window is not None, "GROUP": heads // kv_heads}
    mask["DESCRIBED"] = chosen.described
    strides = (*q.stride(), *k.stride(), *v.stride(), *do.stride())
    sizes = (n_q, n_k, window or 0, scale, scale * LOG2_E)
    softcap = None if extra.softcap is None else extra.softcap * LOG2_E
    bends = (softcap, extra.slopes, extra.cu_q, extra.cu_k)

    def loaded_from(x: torch.Tensor, rows: int) -> Any:
        """Return what the kernel loads tiles of x from."""
        return described(x.contiguous(), rows) if chosen.described else x

    with on_device_of(q):
        launch(
            *(rows_kernel, (cdiv(n_out, 64), batch * heads), like),
            *(o, do, lse, dlse, delta, lse_2, dq_sum, *do.stride(), heads, n_q, n_out),
            BLOCK_Q=64,
            PACKED=packed,
            **shape,
        )
        dsinks = sink_gradient(extra.sinks, lse_2, delta)
        if chosen.five:
            from course_lib.kernels.gluon_backward import gradients

            row = (q, k, v, do, lse_2, delta, dq_sum, dq, dk, dv)
            gradients(*row, causal=causal, scale=scale, like=like)
            return dq, dk, dv, dsinks
        longest_q, longest_k = n_q, n_k
        if extra.cu_q is not None:
            batch, longest_q, longest_k = len(extra.cu_q) - 1, extra.max_q, extra.max_k
            strides = still(q, k, v, do)
        launch(
            *(dk_dv_kernel, (cdiv(longest_k, for_keys.block_k), batch * kv_heads), like),
            *(loaded_from(q, for_keys.block_q), k, v, loaded_from(do, for_keys.block_q)),
            *(lse_2, delta, dk, dv, *strides, kv_heads, *sizes, *bends),
            **(shape | mask | for_keys.options()),
        )
        launch(
            *(dq_kernel, (cdiv(longest_q, for_queries.block_q), batch * heads), like),
            *(q, loaded_from(k, for_queries.block_k), loaded_from(v, for_queries.block_k), do),
            *(lse_2, delta, dq, *strides, heads, *sizes, *bends),
            **(shape | mask | for_queries.options()),
        )
    return dq, dk, dv, dsinks


def new_gradient(x: torch.Tensor, *, packed: bool) -> torch.Tensor:
    """Return memory for the gradient by x; packed, (1, H, total, d), zero in rows of no sequence,
    and the heads of a row beside each other."""
    if not packed:
        return x.new_empty(x.shape)
    _, heads, total, d = x.shape
    return x.new_zeros((1, total, heads, d)).transpose(1, 2)


def sink_gradient(
    sinks: torch.Tensor | None, lse_2: torch.Tensor, delta: torch.Tensor
) -> torch.Tensor | None:
    """Return dsinks (H,): each took exp(sink - lse) of every row's weight, for a value of zero.

    lse_2 (base 2; inf where there is nothing) and delta are (B * H, rows).
    """
    if sinks is None:
        return None
    rows = (-1, len(sinks), lse_2.shape[1])
    weight = torch.exp2(sinks.float()[:, None] * LOG2_E - lse_2.view(rows))
    return -(weight * delta.view(rows)).sum((0, 2)).to(sinks.dtype)


FEWEST = 2**30  # q.numel() * n_k from which the kernel by hand is faster


def by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor) -> bool:
    """Return whether to take the kernel with five products: sm_90, half types, head_dim 64, 96 or
    128, rows `fetchable`, and enough to do."""
    return (
        q.shape[-1] in (64, 96, 128)
        and q.numel() * k.shape[2] >= FEWEST
        and fetchable(q, k, v, do)
        and gluon_works()
    )


def by_descriptors(*tensors: torch.Tensor) -> bool:
    """Return whether descriptors fit and were measured to be faster: sm_90, half types, large d."""
    return tensors[0].shape[-1] in (128, 256) and fetchable(*tensors)
