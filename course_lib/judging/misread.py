"""Attention as somebody computes it who misreads q, k, v, the scale, the mask or the loop's bounds.

A `Misreading` is data: what is read in place of the inputs, which pairs are seen, where the loop
ends. Slips of the recurrence itself are ``attention.slips``; a misreading may carry one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from course_lib.attention.slips import SLIPS, Slip, stream
from course_lib.judging.tolerance import as_float64

Array = np.ndarray


@dataclass(frozen=True)
class Misreading:
    """Attention with one thing wrong; every default is right."""

    loop: Slip = SLIPS["right"]
    contiguous: str = ""  # "q, k, v" (and "o"): strided tensors are taken for contiguous ones
    inputs: Callable[..., Any] | None = None  # (q, k, v, block_k) -> what is read in their place
    power: float = 1.0  # scores are divided by sqrt(d) ** power
    factor: float = 1.0  # and multiplied by this; ln 2 makes e ** s a 2 ** s
    masked: bool = True
    reverse: bool = False  # the past is hidden, not the future
    shift: int = 0  # how many keys of the future a query sees
    align: str = "end"
    end: Callable[..., Array] | None = None  # (tile, block_q, block_k, n_q, n_k) -> end of the loop
    square: bool = False  # the loop steps by block_q
    columns: bool = False  # softmax down the columns

    def inputs_read(self, q: Any, k: Any, v: Any, tile: int) -> tuple[Array, Array, Array]:
        """Return q, k, v (..., n, d) in float64 as a kernel with this mistake reads them."""
        if self.contiguous:
            q, k, v = _as_contiguous(q), _as_contiguous(k), _as_contiguous(v)
        q, k, v = as_float64(q), as_float64(k), as_float64(v)
        return self.inputs(q, k, v, tile) if self.inputs else (q, k, v)

    def loop_for(self, v: Any) -> Slip:
        """Return the slip of the recurrence; half precision is one only where inputs are half."""
        return self.loop if "16" in str(getattr(v, "dtype", "")) else replace(self.loop, half=False)

    def o_stored(self, o: Array, like: Any) -> Array:
        """Return what o (..., n, d) looks like after a kernel with this mistake stored it."""
        return _stored_as_contiguous(o, like) if self.contiguous.endswith("o") else o

    def attend(
        self,
        tile: int,
        with_lse: bool,
        dtype: Any,
        guarded: bool,
        skipping: bool,
        q: Any,
        k: Any,
        v: Any,
        *,
        causal: bool = False,
        block_q: int = 0,
        block_k: int = 0,
        **_rest: Any,
    ) -> Any:
        """Return o, or (o, lse), of q, k, v (..., n, d) with this mistake.

        ``guarded``: with care for rows without a key. ``skipping``: the loop leaves out tiles of
        the future. ``tile`` counts where the call names no block_k; ``dtype`` is that of m, l, O.
        """
        tile = block_k or tile
        loop, like_q = self.loop_for(v), q
        q, k, v = self.inputs_read(q, k, v, tile)
        group = q.shape[-3] // k.shape[-3] if q.ndim > 2 else 1
        if group > 1:
            k, v = np.repeat(k, group, axis=-3), np.repeat(v, group, axis=-3)
        n_q, n_k = q.shape[-2], k.shape[-2]
        hidden, ends = np.zeros((n_q, n_k), dtype=bool), np.full(n_q, n_k)
        if causal and self.masked:
            hidden = self._hidden(n_q, n_k)
            if np.isinf(loop.fill):  # the causal mask hides the places past the end as well
                loop = replace(loop, past_end=0)
        if (self.end or (causal and skipping)) and block_q:
            number = np.arange(n_q) // block_q
            whole = number if causal else np.full(n_q, n_q // block_q + n_k)  # no diagonal: to n_k
            ends = np.clip((self.end or causal_end)(whole, block_q, tile, n_q, n_k), 0, n_k)
        step = block_q if self.square and block_q else tile
        o, lse = np.empty((*q.shape[:-1], v.shape[-1])), np.empty(q.shape[:-1])
        for head in np.ndindex(*q.shape[:-2]):
            scale = self.factor / q.shape[-1] ** (self.power / 2)
            s = (q[head] @ k[head].T * scale).astype(dtype)
            s[hidden] = loop.fill
            with np.errstate(all="ignore"):
                o[head], lse[head] = (
                    _down_the_columns(s, v[head])
                    if self.columns
                    else stream(loop, s, v[head], tile, step=step, ends=ends, guarded=guarded)
                )
        o = self.o_stored(o, like_q)
        return (o, lse) if with_lse else o

    def _hidden(self, n_q: int, n_k: int) -> Array:
        """Return bool (n_q, n_k): which keys a causal mask with this mistake hides."""
        last = np.arange(n_q)[:, None] + (n_k - n_q if self.align == "end" else 0) + self.shift
        return np.arange(n_k) < last if self.reverse else np.arange(n_k) > last


def _down_the_columns(s: Array, v: Array) -> tuple[Array, int]:
    p = np.exp(s - s.max(axis=0))
    return (p / p.sum(axis=0)) @ v, 0


def causal_end(number: Array, block_q: int, block_k: int, n_q: int, n_k: int) -> Array:
    """Return where a right causal loop ends in query tile ``number``."""
    end: Array = np.clip((number + 1) * block_q + n_k - n_q, 0, n_k)
    return end


def _as_contiguous(x: Any) -> Any:
    """Return what a kernel reads that takes a strided tensor for a contiguous one."""
    if not hasattr(x, "untyped_storage"):
        return x
    return x.new_empty(0).set_(x.untyped_storage()).ravel()[: x.numel()].reshape(x.shape)


def _stored_as_contiguous(o: Array, like: Any) -> Array:
    """Return what stands in ``empty_like(q)`` if ``o`` is stored there row after row."""
    if not hasattr(like, "untyped_storage"):
        return o
    import torch

    strides = [step * o.itemsize for step in torch.empty_like(like).stride()]
    return np.lib.stride_tricks.as_strided(o.ravel(), o.shape, strides)


def repeated(*arrays: Any, at: Any) -> tuple[Any, ...]:
    """Return arrays (B, H, n, d) in which the heads at ``at`` stand in place of all."""
    if any(x.ndim != 4 for x in arrays):
        raise ValueError("without batches and heads there is nothing to mix up")
    return tuple(np.broadcast_to(x[at], x.shape) for x in arrays)


def first_tile(*, of_k: bool = False, of_v: bool = False) -> Callable[..., Any]:
    """Return K or V (or both) with their first tile in place of every tile."""

    def read(q: Any, k: Any, v: Any, tile: int) -> Any:
        rows = np.arange(k.shape[-2]) % tile
        return q, k[..., rows, :] if of_k else k, v[..., rows, :] if of_v else v

    return read


def wrong_neighbours(q: Any, k: Any, v: Any, _tile: int) -> Any:
    """Return K and V as read with ``head % heads``, not ``head // group``."""
    heads = np.arange(q.shape[-3]) % k.shape[-3]
    return q, k[..., heads, :, :], v[..., heads, :, :]


def k_reshaped(q: Any, k: Any, v: Any, tile: int) -> Any:
    """Return K whose tiles got the shape (head_dim, tile) with their numbers in the old order."""
    n, d = k.shape[-2:]
    tiles = np.pad(k, [(0, 0)] * (k.ndim - 2) + [(0, -n % tile), (0, 0)])
    mixed = tiles.reshape(*k.shape[:-2], -1, d, tile).swapaxes(-1, -2)
    return q, mixed.reshape(tiles.shape)[..., :n, :], v


def v_read_at(head_rows: str, row: str) -> Callable[..., Any]:
    """Return V as read with another distance from head to head, or from row to row."""

    def read(q: Any, k: Any, v: Any, tile: int) -> Any:
        (n, d), heads = v.shape[-2:], math.prod(v.shape[:-2])
        rows = q.shape[-2] if head_rows == "n_q" else n
        width = tile if row == "block_k" else d
        at = (np.arange(heads) * rows * d)[:, None, None]
        at = at + np.arange(n)[:, None] * width + np.arange(d)  # (heads, n, d)
        return q, k, v.ravel()[at].reshape(v.shape)

    return read
