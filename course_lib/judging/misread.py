"""Attention as somebody computes it who misreads q, k, v, the scale, the mask or the loop's bounds.

A `Misreading` is data: what is read in place of the inputs, which pairs are seen, where the loop
ends. Slips of the recurrence itself are ``attention.slips``; a misreading may carry one.

Longer than 400 lines because every way to misread and what it reads instead stand together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from course_lib.attention.slips import SLIPS, Slip, streamed
from course_lib.judging.strides import as_contiguous, stored_as_contiguous
from course_lib.judging.tolerance import as_float64

Array = np.ndarray


@dataclass(frozen=True)
class Misreading:
    """Attention with one thing wrong; every default is right."""

    loop: Slip = SLIPS["right"]
    contiguous: str = ""  # which of q, k, v, o are taken for contiguous: "qkvo"
    strides: Callable[..., Any] | None = None  # (q=, k=, v=) tensors -> as they are read
    inputs: Callable[..., Any] | None = None  # (q, k, v, block_k) -> what is read in their place
    power: float = 1.0  # scores are divided by sqrt(d) ** power
    factor: float = 1.0  # and multiplied by this; ln 2 makes e ** s a 2 ** s
    masked: bool = True
    reverse: bool = False  # the past is hidden, not the future
    shift: int = 0  # how many keys of the future a query sees
    align: str = "end"  # or "start", or "sign": n_q - n_k in place of n_k - n_q
    always: bool = False  # the causal mask is there whatever the call says
    late: bool = False  # what the mask hides takes part in the maximum
    sees: Callable[..., Array] | None = None  # (row, key, block_q, block_k, n_k - n_q) -> pairs
    only: Callable[..., Array] | None = None  # (row, key, block_q, block_k) -> pairs ever met
    end: Callable[..., Array] | None = None  # (tile, block_q, block_k, n_q, n_k) -> end of the loop
    square: bool = False  # the loop steps by block_q
    columns: bool = False  # softmax down the columns
    with_scale: Callable[[Slip, float], Slip] | None = None  # (loop, scale) -> the loop

    def inputs_read(self, q: Any, k: Any, v: Any, tile: int) -> tuple[Array, Array, Array]:
        """Return q, k, v (..., n, d) in float64 as a kernel with this mistake reads them."""
        if self.strides:
            q, k, v = self.strides(q=q, k=k, v=v).values()
        q, k, v = (
            as_contiguous(x) if name in self.contiguous else x
            for name, x in zip("qkv", (q, k, v), strict=True)
        )
        q, k, v = as_float64(q), as_float64(k), as_float64(v)
        return self.inputs(q, k, v, tile) if self.inputs else (q, k, v)

    def loop_for(self, v: Any) -> Slip:
        """Return the slip of the recurrence; half scores, half an O only where inputs are half.

        There the weights are, too, before they meet V: small ones vanish.
        """
        whole = "16" not in str(getattr(v, "dtype", ""))
        if not whole:
            return replace(self.loop, half_weights=True)
        plain = self.loop.half or self.loop.half_scores
        return replace(self.loop, half=False, half_scores=False) if plain else self.loop

    def o_stored(self, o: Array, like: Any) -> Array:
        """Return what o (..., n, d) looks like after a kernel with this mistake stored it."""
        return stored_as_contiguous(o, like) if "o" in self.contiguous else o

    def beside(self, other: Misreading) -> Misreading | None:
        """Return both mistakes in one, None where they are about the same thing."""
        both: Misreading | None = _merged(self, other, Misreading())
        return both

    def attend(
        self, how: Model, q: Any, k: Any, v: Any, *, causal: bool, block_q: int, block_k: int
    ) -> tuple[Any, bool, bool]:
        """Return o, or (o, lse), of q, k, v (..., n, d) with this mistake.

        And whether it would be the same not guarded, and the same not skipping, as far as seen.
        """
        tile = block_k or k.shape[-2]
        guarded, skipping, dtype = how.guarded, how.skipping, how.dtype
        loop, like_q = self.loop_for(v), q
        there = k.shape[-2]  # keys; one may read more
        q, k, v = self.inputs_read(q, k, v, tile)
        group = q.shape[-3] // k.shape[-3] if q.ndim > 2 else 1
        if group > 1:
            k, v = np.repeat(k, group, axis=-3), np.repeat(v, group, axis=-3)
        n_q, n_k = q.shape[-2], k.shape[-2]
        hidden, ends = np.zeros((n_q, n_k), dtype=bool), None
        causal = causal or self.always
        if causal and self.masked:
            hidden = self._hidden(n_q, n_k, there - n_q, block_q or n_q, tile)
            if loop.past_end and (np.isinf(loop.fill) or not loop.fills_hidden):
                # the causal mask hides those places as well
                loop = replace(loop, past_end=0)
        if self.only is not None:
            met = self.only(np.arange(n_q)[:, None], np.arange(n_k), block_q or n_q, tile)
            hidden = hidden | ~np.broadcast_to(met, hidden.shape)
        if (self.end or (causal and skipping)) and block_q:
            number = np.arange(n_q) // block_q
            at = number if causal else np.full(n_q, n_q // block_q + n_k)  # no diagonal: to n_k
            end = (self.end or causal_end)(at, block_q, tile, n_q, there if causal else n_k)
            ends = np.clip(end, 0, n_k)
        step = block_q if self.square and block_q else tile
        o, lse = np.empty((*q.shape[:-1], v.shape[-1])), np.empty(q.shape[:-1])
        careless = whole = True
        for head in np.ndindex(*q.shape[:-2]):
            scale = self.factor / q.shape[-1] ** (self.power / 2)
            s = (q[head] @ k[head].T * scale).astype(dtype)
            loop = self.with_scale(loop, scale) if self.with_scale else loop
            late = hidden if self.late and hidden.any() else None
            if late is None:
                loop.hide(s, hidden)
            if self.columns:
                o[head], lse[head] = _down_the_columns(s, v[head])
                continue
            shared = loop.one_max or np.isfinite(loop.far)
            height = block_q if shared and block_q else n_q  # rows that share a tile
            for first in range(0, n_q, height):
                rows = np.s_[first : first + height]
                part, mine = s[rows], None if late is None else late[rows]
                stops = None if ends is None else ends[rows]
                n = len(part)
                if loop.empty_rows and n < height:  # one is as good as many
                    part = np.pad(part, ((0, 1), (0, 0)))
                    mine = None if mine is None else np.pad(mine, ((0, 1), (0, 0)))
                    stops = None if stops is None else np.pad(stops, (0, 1), mode="edge")
                with np.errstate(all="ignore"):
                    made = streamed(
                        loop,
                        part,
                        v[head],
                        tile,
                        step=step,
                        ends=stops,
                        guarded=guarded,
                        hidden=mine,
                    )
                o[head][rows], lse[head][rows] = made.o[:n], made.lse[:n]
                careless, whole = careless and made.careless, whole and made.whole
        o = self.o_stored(o, like_q)
        return ((o, lse) if how.with_lse else o), careless, whole

    def _hidden(self, n_q: int, n_k: int, off: int, block_q: int, block_k: int) -> Array:
        """Return bool (n_q, n_k): which keys a causal mask with this mistake hides.

        ``off``: how many keys there are more than queries.
        """
        if self.sees is not None:
            row = np.arange(n_q)[:, None]
            return ~self.sees(row, np.arange(n_k), block_q, block_k, off)
        offset = {"end": off, "start": 0, "sign": -off}[self.align]
        last = np.arange(n_q)[:, None] + offset + self.shift
        return np.arange(n_k) < last if self.reverse else np.arange(n_k) > last


@dataclass(frozen=True)
class Model:
    """What somebody with a misreading returns, called as a launcher is.

    A call that names no block_k has one tile. ``dtype`` is that of m, l, O. ``guarded``: with care
    for rows without a key. ``skipping``: the loop leaves out tiles of the future.
    """

    slip: Misreading
    with_lse: bool = False
    dtype: Any = np.float64
    guarded: bool = True
    skipping: bool = True

    def __call__(self, *inputs: Any, **how: Any) -> Any:
        """Return o, or (o, lse), of q, k, v (..., n, d) with this mistake."""
        return self.with_twins(*inputs, **how)[0]

    def with_twins(
        self,
        q: Any,
        k: Any,
        v: Any,
        *,
        causal: bool = False,
        block_q: int = 0,
        block_k: int = 0,
        **_rest: Any,
    ) -> tuple[Any, list[Model]]:
        """Return the answer and the models that are known to give the same one, itself among them.

        Most are told apart only where rows see no key: what changed nothing might as well be off.
        """
        answer, careless, whole = self.slip.attend(
            self, q, k, v, causal=causal, block_q=block_q, block_k=block_k
        )
        twins = [self, *([replace(self, guarded=False)] if careless else [])]
        return answer, twins + [replace(twin, skipping=False) for twin in twins if whole]

    def as_called(self, *, causal: bool = False, block_q: int = 0, **_rest: Any) -> Model:
        """Return the model whose answer to a call with these arguments is this one's, too.

        A loop that ends elsewhere, or at the last key, leaves nothing out. Arguments are only read.
        """
        skips = block_q and not self.slip.end and (causal or self.slip.always)
        return self if skips else replace(self, skipping=True)

    def beside(self, other: Model) -> Model | None:
        """Return the model of somebody who makes both mistakes, None if nobody can."""
        if (self.guarded, self.skipping) != (other.guarded, other.skipping):
            return None
        if _is_about_the_maximum(self.slip.loop) and _is_about_the_maximum(other.slip.loop):
            return None  # together they make whatever overflows
        if any(x.slip.loop.backwards or x.slip.loop.divide == "by lse" for x in (self, other)):
            return None  # each is seldom enough alone
        slip = self.slip.beside(other.slip)
        return replace(self, slip=slip) if slip else None


_ABOUT_THE_MAXIMUM = (
    "start", "use_max", "shifted", "clip", "p_power", "top", "first_max", "own_max", "one_max",
    "latest_max", "keep_max", "old_max", "safe_max_kept",
)  # fmt: skip


def _is_about_the_maximum(loop: Slip) -> bool:
    return any(getattr(loop, name) != getattr(SLIPS["right"], name) for name in _ABOUT_THE_MAXIMUM)


def _merged(one: Any, other: Any, right: Any) -> Any:
    """Return a `Misreading` or `Slip` with what is wrong in either, None if both change a field."""
    changes = {}
    for name in (field.name for field in fields(right)):
        a, b, plain = (getattr(x, name) for x in (one, other, right))
        if isinstance(plain, Slip):
            a = _merged(a, b, plain)
            if a is None:
                return None
        elif a == plain or name == "guards":
            a = b
        elif b != plain and a != b:
            return None
        changes[name] = a
    return replace(right, **changes)


class Known(NamedTuple):
    """A mistake that has a name, and the ways to make it."""

    name: str
    says: str
    slips: tuple[Misreading, ...]

    @classmethod
    def table(cls, *rows: tuple[Any, ...]) -> tuple[Known, ...]:
        """Return the mistakes of a table, whose rows are (name, what to tell, *ways).

        A way is a word where it is the slip of the recurrence that ``SLIPS`` calls so.
        """
        return tuple(
            cls(name, says, tuple(Misreading(SLIPS[x]) if isinstance(x, str) else x for x in ways))
            for name, says, *ways in rows
        )


def _down_the_columns(s: Array, v: Array) -> tuple[Array, int]:
    p = np.exp(s - s.max(axis=0))
    return (p / p.sum(axis=0)) @ v, 0


def causal_end(number: Array, block_q: int, block_k: int, n_q: int, n_k: int) -> Array:
    """Return where a right causal loop ends in query tile ``number``."""
    end: Array = np.clip((number + 1) * block_q + n_k - n_q, 0, n_k)
    return end


def repeated(*arrays: Any, at: Any) -> tuple[Any, ...]:
    """Return arrays (B, H, n, d) in which the heads at ``at`` stand in place of all."""
    if any(x.ndim != 4 for x in arrays):
        raise ValueError("without batches and heads there is nothing to mix up")
    return tuple(np.broadcast_to(x[at], x.shape) for x in arrays)


def first_tile(
    *, of_k: bool = False, of_v: bool = False, whole: bool = False
) -> Callable[..., Any]:
    """Return K or V (or both) with their first tile in place of every tile; the last one ``whole``,
    however short it should be."""

    def read(q: Any, k: Any, v: Any, tile: int) -> Any:
        n = k.shape[-2]
        rows = np.arange(-(-n // tile) * tile if whole and n > tile else n) % tile
        return q, k[..., rows, :] if of_k else k, v[..., rows, :] if of_v else v

    return read


def maximum_unscaled(loop: Slip, scale: float) -> Slip:
    """Return the loop that takes its maxima of scores that are not scaled."""
    return replace(loop, top=lambda part: SLIPS["right"].top(part) / scale)


def lse_unscaled(loop: Slip, scale: float) -> Slip:
    """Return the loop in whose lse stands the maximum of scores that are not scaled."""
    return replace(loop, lse=lambda m, l_sum: m / scale + np.log(l_sum))


def one_tile_more(q: Any, k: Any, v: Any, tile: int) -> Any:
    """Return K and V with zeros behind them: what fills their last tile, and one tile more."""
    n = k.shape[-2]
    more = [(0, 0)] * (k.ndim - 2) + [(0, -n % tile + tile), (0, 0)]
    return q, np.pad(k, more), np.pad(v, more)


def every_second_tile(*, of_k: bool = False, of_v: bool = False) -> Callable[..., Any]:
    """Return K or V (or both) as read at twice the start of a tile; past the end stands 0."""

    def one(x: Any, tile: int) -> Any:
        rows = np.arange(x.shape[-2])
        rows += rows // tile * tile
        real = rows < x.shape[-2]
        return np.where(real[:, None], x[..., np.where(real, rows, 0), :], 0)

    def read(q: Any, k: Any, v: Any, tile: int) -> Any:
        return q, one(k, tile) if of_k else k, one(v, tile) if of_v else v

    return read


def wrong_neighbours(names: str, share: Callable[..., Any]) -> Callable[..., Any]:
    """Return K or V ("k", "v", "kv") with the head ``share(head, heads of K)`` for each of Q's."""

    def read(q: Any, k: Any, v: Any, _tile: int) -> Any:
        every = np.arange(q.shape[-3])
        right = every // (q.shape[-3] // k.shape[-3])
        wrong = share(every, k.shape[-3])
        of_k, of_v = (wrong if name in names else right for name in "kv")
        return q, k[..., of_k, :, :], v[..., of_v, :, :]

    return read


def late(*, of_k: bool = False, of_v: bool = False) -> Callable[..., Any]:
    """Return K or V (or both) with the tile before in place of each but the first."""

    def read(q: Any, k: Any, v: Any, tile: int) -> Any:
        n = np.arange(k.shape[-2])
        rows = np.where(n < tile, n, n - tile)
        return q, k[..., rows, :] if of_k else k, v[..., rows, :] if of_v else v

    return read


def k_reshaped(*, padded: bool) -> Callable[..., Any]:
    """Return K whose tiles got the shape (head_dim, tile) with their numbers in the old order.

    ``padded``: the last tile is filled up with zeros first, as in a kernel.
    """

    def read(q: Any, k: Any, v: Any, tile: int) -> Any:
        (n, d), out = k.shape[-2:], np.empty_like(k)
        for first in range(0, n, tile):
            part = k[..., first : first + tile, :]
            rows = part.shape[-2]
            if padded:
                part = np.pad(part, [(0, 0)] * (k.ndim - 2) + [(0, tile - rows), (0, 0)])
            turned = part.reshape(*k.shape[:-2], d, -1).swapaxes(-1, -2)
            out[..., first : first + tile, :] = turned[..., :rows, :]
        return q, out, v

    return read


def k_not_transposed(q: Any, k: Any, v: Any, tile: int) -> Any:
    """Return K whose tiles stand as they are where their transposes belong: (d, d) each."""
    n, d = k.shape[-2:]
    if tile != d or n % tile:
        raise ValueError("the inner sizes differ")
    return q, k.reshape(*k.shape[:-2], -1, d, d).swapaxes(-1, -2).reshape(k.shape), v


def read_at(names: str, head_rows: str = "n_k", row: str = "d") -> Callable[..., Any]:
    """Return K or V ("k", "v", "kv") read at another distance from head to head, row to row."""

    def one(x: Any, n_q: int, tile: int) -> Any:
        (n, d), heads = x.shape[-2:], math.prod(x.shape[:-2])
        rows = n_q if head_rows == "n_q" else n
        width = tile if row == "block_k" else d
        at = (np.arange(heads) * rows * d)[:, None, None]
        at = at + np.arange(n)[:, None] * width + np.arange(d)  # (heads, n, d)
        return x.ravel()[at].reshape(x.shape)

    def read(q: Any, k: Any, v: Any, tile: int) -> Any:
        n_q = q.shape[-2]
        return q, one(k, n_q, tile) if "k" in names else k, one(v, n_q, tile) if "v" in names else v

    return read


def with_strides_of(whose: str, *readers: str, batches: bool = False) -> Callable[..., Any]:
    """Return q, k, v of which ``readers`` are read at the strides of another tensor.

    ``batches``: at its stride from batch to batch alone. Past the end of the memory: RuntimeError.
    """

    def read(**tensors: Any) -> dict[str, Any]:
        theirs = tensors[whose].stride()

        def strides(x: Any) -> tuple[int, ...]:
            return (theirs[0], *x.stride()[1:]) if batches else theirs

        return {
            n: x.as_strided(x.shape, strides(x)) if n in readers else x for n, x in tensors.items()
        }

    return read


def packed_batches(names: str) -> Callable[..., Any]:
    """Return q, k, v of which ``names`` are read as if a batch began after the last head.

    To be called with the tensors as they lie in memory (``Misreading.strides``). It raises
    RuntimeError past the end of the memory.
    """

    def packed(x: Any) -> Any:
        return x.as_strided(x.shape, (x.shape[1] * x.stride(1), *x.stride()[1:]))

    return lambda **tensors: {n: packed(x) if n in names else x for n, x in tensors.items()}
