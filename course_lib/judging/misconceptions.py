"""Streaming attention with one slip in it: what a known misunderstanding computes.

Run only after a failure, on the input that failed, to see whose answer the student's looks like.
A `Slip` is data, one function runs them all, and `_KNOWN` names them (some names have several
slips: mistakes that one sentence explains).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from course_lib.judging.spec import Mistake
from course_lib.judging.tolerance import as_float64

Array = np.ndarray
LN_2 = math.log(2.0)


def _as_is(alpha: Array) -> Array:
    return alpha


def _natural(m: Array, l_sum: Array) -> Array:
    return m + np.log(l_sum)


@dataclass(frozen=True)
class Slip:
    """Attention with one thing wrong; every default is right."""

    contiguous: str = ""  # "q, k, v" (and "o"): strided tensors are taken for contiguous ones
    inputs: Callable[..., Any] | None = None  # (q, k, v, block_k) -> what is read in their place
    power: float = 1.0  # scores are divided by sqrt(d) ** power
    factor: float = 1.0  # and multiplied by this; ln 2 makes e ** s a 2 ** s
    masked: bool = True
    reverse: bool = False  # the past is hidden, not the future
    shift: int = 0  # how many keys of the future a query sees
    align: str = "end"
    fill: float = -np.inf  # the score of a hidden key
    past_end: int = 0  # how many places past the end have score 0, or `fill` (the others: -inf)
    weightless: bool = False  # ... but no weight: they were masked after the maximum
    end: Callable[..., Array] | None = None  # (tile, block_q, block_k, n_q, n_k) -> end of the loop
    square: bool = False  # the loop steps by block_q
    rescale_o: Callable[[Array], Array] = _as_is  # alpha -> what O is multiplied by
    rescale_l: Callable[[Array], Array] = _as_is
    own_max: bool = False
    one_max: bool = False  # for all rows
    start: float = -np.inf
    use_max: bool = True
    columns: bool = False  # softmax down the columns
    tile_softmax: bool = False  # each tile's weights are divided by the tile's own sum
    rescale_new: bool = False  # the new tile is multiplied by alpha as well
    divide: str = "once"  # "never", "each" tile, or "each and at the end"
    half: bool = False  # O is rounded to the inputs' half precision in every tile
    guards: tuple[bool, ...] = (True, False)  # with and without care for rows that see no key
    l_guarded: bool | None = None  # care for l = 0 after the loop; None: as in the loop
    lse: Callable[[Array, Array], Array] = _natural


def stream(
    slip: Slip, s: Array, v: Array, ends: Array, tile: int, step: int, *, guarded: bool
) -> tuple[Array, Array]:
    """Return (o, lse) of online softmax over tiles of keys, with a slip.

    ``s`` (n_q, n_k), ``v`` (n_k, d); row i meets the tiles that begin before ``ends[i]``.
    ``guarded``: a row without a key, and a first tile met with m = -inf, give numbers, not NaN.
    The dtype of ``s`` is that of the notes: float32 in kernels, where exp(-150) is 0.
    """
    n_k, beyond = s.shape[1], np.arange(tile)
    score = slip.fill if np.isfinite(slip.fill) else 0.0
    padding = np.where(beyond < slip.past_end, score, -np.inf).astype(s.dtype)
    real = np.arange(n_k + tile) < n_k
    s = np.hstack([s, np.tile(padding, (len(s), 1))])
    v = np.pad(v, ((0, tile), (0, 0)))
    m = np.full((len(s), 1), slip.start, s.dtype)
    l_sum, o = np.zeros_like(m), np.zeros((len(s), v.shape[1]), s.dtype)
    for j in range(0, n_k, step):
        part = s[:, j : j + tile]
        top = part.max(axis=1, keepdims=True)
        if slip.one_max:
            top = np.full_like(top, top.max())
        m_new = np.maximum(m, top) if slip.use_max else np.zeros_like(m)
        alpha = np.exp(m - _finite(m_new, guarded)) if slip.use_max else np.ones_like(m)
        if guarded:
            alpha = np.where(np.isneginf(m), np.ones_like(m), alpha)
        p = np.exp(part - _finite(top if slip.own_max else m_new, guarded))
        if slip.weightless:
            p = p * real[j : j + tile]
        total = p.sum(axis=1, keepdims=True)
        if slip.tile_softmax:
            p, total = p / np.where(total == 0, 1, total), np.sign(total)
        if slip.rescale_new:
            p, total = p * alpha, total * alpha
        l_new = l_sum * slip.rescale_l(alpha) + total
        o_new = o * slip.rescale_o(alpha) + p @ v[j : j + tile]
        if slip.divide.startswith("each"):
            o_new = o_new / (np.where(l_new == 0, 1, l_new) if guarded else l_new)
        if slip.half:
            o_new = o_new.astype(np.float16).astype(s.dtype)
        visited = (j < ends)[:, None]
        m, l_sum = np.where(visited, m_new, m), np.where(visited, l_new, l_sum)
        o = np.where(visited, o_new, o)
    l_guarded = guarded if slip.l_guarded is None else slip.l_guarded
    l_sum = np.where(l_sum == 0, 1, l_sum) if l_guarded else l_sum
    lse = slip.lse(m, l_sum)[:, 0]
    return (o if slip.divide in ("never", "each") else o / l_sum), lse


def _finite(m: Array, guarded: bool) -> Array:
    return np.where(np.isneginf(m), np.zeros_like(m), m) if guarded else m


def _power(exponent: float) -> Callable[[Array], Array]:
    return lambda alpha: alpha**exponent


# What is read in place of q, k, v ---------------------------------------------------------------


def _repeated(*arrays: Any, at: Any) -> tuple[Any, ...]:
    """Return arrays (B, H, n, d) in which the heads at ``at`` stand in place of all."""
    if any(x.ndim != 4 for x in arrays):
        raise ValueError("without batches and heads there is nothing to mix up")
    return tuple(np.broadcast_to(x[at], x.shape) for x in arrays)


def _first_tile(*, of_k: bool = False, of_v: bool = False) -> Callable[..., Any]:
    """Return K or V (or both) with their first tile in place of every tile."""

    def read(q: Any, k: Any, v: Any, tile: int) -> Any:
        rows = np.arange(k.shape[-2]) % tile
        return q, k[..., rows, :] if of_k else k, v[..., rows, :] if of_v else v

    return read


def _wrong_neighbours(q: Any, k: Any, v: Any, _tile: int) -> Any:
    heads = np.arange(q.shape[-3]) % k.shape[-3]
    return q, k[..., heads, :, :], v[..., heads, :, :]


def _k_reshaped(q: Any, k: Any, v: Any, tile: int) -> Any:
    n, d = k.shape[-2:]
    tiles = np.pad(k, [(0, 0)] * (k.ndim - 2) + [(0, -n % tile), (0, 0)])
    mixed = tiles.reshape(*k.shape[:-2], -1, d, tile).swapaxes(-1, -2)
    return q, mixed.reshape(tiles.shape)[..., :n, :], v


def _v_read_at(head_rows: str, row: str) -> Callable[..., Any]:
    """Return V as read with another distance from head to head, or from row to row."""

    def read(q: Any, k: Any, v: Any, tile: int) -> Any:
        (n, d), heads = v.shape[-2:], math.prod(v.shape[:-2])
        rows = q.shape[-2] if head_rows == "n_q" else n
        width = tile if row == "block_k" else d
        at = (np.arange(heads) * rows * d)[:, None, None]
        at = at + np.arange(n)[:, None] * width + np.arange(d)  # (heads, n, d)
        return q, k, v.ravel()[at].reshape(v.shape)

    return read


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


# The names --------------------------------------------------------------------------------------

_KNOWN: tuple[tuple[str, str, tuple[Slip, ...]], ...] = (
    (
        "O is not rescaled",
        "the running sum is rescaled by alpha but the running output is not: "
        "both were measured against the old maximum.",
        (Slip(rescale_o=_power(0)),),
    ),
    (
        "l is not rescaled",
        "the running output is rescaled by alpha but the running sum is not.",
        (Slip(rescale_l=_power(0)),),
    ),
    (
        "nothing is rescaled",
        "neither the sum nor the output is rescaled when a new maximum arrives.",
        (Slip(rescale_o=_power(0), rescale_l=_power(0)),),
    ),
    (
        "alpha is inverted",
        "alpha is exp(m_new - m_old): the past grows where it should shrink.",
        (Slip(rescale_o=_power(-1), rescale_l=_power(-1), guards=(True,)),),
    ),
    (
        "alpha is inverted, or a mask multiplies",
        "two things make NaN of everything: exp(m_new - m_old) is inf while m_old is -inf, and a "
        "mask that multiplies by -inf makes 0 * -inf of what should be seen.",
        (Slip(rescale_o=_power(-1), rescale_l=_power(-1), guards=(False,)),),
    ),
    (
        "each tile uses its own maximum",
        "each tile's exponentials use that tile's own maximum instead of the running one.",
        (Slip(own_max=True),),
    ),
    (
        "one maximum for the whole tile",
        "each row has a maximum of its own: with one for all rows of a tile, the rows far below "
        "it vanish. Take the maximum along axis 1.",
        (Slip(one_max=True),),
    ),
    (
        "the maximum starts at 0",
        "the running maximum starts at 0: where all scores are very negative, "
        "every exponential vanishes. Start at -inf.",
        (Slip(start=0.0),),
    ),
    (
        "no maximum is subtracted",
        "no maximum is subtracted before exp: large scores overflow.",
        (Slip(use_max=False),),
    ),
    (
        "divided in every tile",
        "the output is divided by the running sum inside the loop, and then again or not undone.",
        (Slip(divide="each"), Slip(divide="each and at the end")),
    ),
    (
        "the past is thrown away",
        "l or acc (or both) hold the last tile only. Either they are set anew in each tile, not "
        "added to, or m stays at -inf, so that alpha is 0.",
        (
            Slip(rescale_o=np.zeros_like),
            Slip(rescale_l=np.zeros_like),
            Slip(rescale_o=np.zeros_like, rescale_l=np.zeros_like),
        ),
    ),
    (
        "each tile is normalised on its own",
        "each tile's weights are divided by the tile's own sum: divide once, at the end.",
        (Slip(tile_softmax=True),),
    ),
    (
        "base 2 and base e are mixed",
        "exp and exp2 (or a factor log2(e)) do not belong together: exp2 everywhere with log2(e) "
        "in the scale, or exp everywhere without it.",
        (
            Slip(factor=LN_2),
            Slip(factor=1 / LN_2),
            Slip(rescale_o=_power(LN_2), rescale_l=_power(LN_2)),
            Slip(factor=LN_2, rescale_o=_power(1 / LN_2), rescale_l=_power(1 / LN_2)),
        ),
    ),
    ("the scale is missing", "the scores are not divided by sqrt(d).", (Slip(power=0),)),
    ("scaled twice", "the scores are divided by d, not by sqrt(d).", (Slip(power=2),)),
    (
        "the scale is upside down",
        "the scores are multiplied by sqrt(d), not divided.",
        (Slip(power=-1),),
    ),
    (
        "scaled by a length, not by head_dim",
        "the scores are divided by the root of n_k or n_q: it is the root of head_dim.",
        tuple(
            Slip(inputs=lambda q, k, v, _tile, n=n: (q * (q.shape[-1] / n(q, k)) ** 0.5, k, v))
            for n in (lambda q, k: k.shape[-2], lambda q, k: q.shape[-2])
        ),
    ),
    (
        "softmax over the wrong axis",
        "the softmax runs down the columns: each query's weights are a row.",
        (Slip(columns=True),),
    ),
    (
        "not divided by l",
        "the weighted sum is not divided by the sum of weights.",
        (Slip(divide="never"),),
    ),
    (
        "keys past the end count as score 0",
        "the last tile is short and the missing keys (or the first of them) enter with score 0: "
        "set their scores to -inf before the maximum.",
        (Slip(past_end=1 << 30), Slip(past_end=1)),
    ),
    (
        "the mask comes after the maximum",
        "the weights past the end are 0, but their scores of 0 took part in the maximum: where "
        "all real scores are very negative, every exponential vanishes. Mask before the maximum.",
        (Slip(past_end=1 << 30, weightless=True),),
    ),
    (
        "the last tile is dropped",
        "the short last tile is left out: use ceil.",
        (Slip(end=lambda t, b_q, b_k, n_q, n_k: _end(t, b_q, b_k, n_q, n_k) // b_k * b_k),),
    ),
    (
        "only square tiles",
        "the loop over the keys steps by block_q, and a tile of keys has block_k.",
        (Slip(square=True), Slip(square=True, past_end=1 << 30)),
    ),
    ("the mask is missing", "causal=True makes no difference.", (Slip(masked=False),)),
    (
        "the causal mask is reversed",
        "a query sees the keys from its own place on: it should see those up to its own.",
        (Slip(reverse=True),),
    ),
    (
        "the causal mask is one key too strict",
        "a query does not see its own key: use <=, not <.",
        (Slip(shift=-1),),
    ),
    (
        "the causal mask is one key too generous",
        "a query sees one key of the future.",
        (Slip(shift=1),),
    ),
    (
        "the causal mask is aligned at the start",
        "with n_q != n_k the last query must see the last key: query i sees key j if "
        "j <= i + n_k - n_q.",
        (Slip(align="start"), Slip(align="start", end=lambda t, b_q, *_: (t + 1) * b_q)),
    ),
    (
        "the causal loop ends too early",
        "the mask is right, but the loop stops before the last key that the tile's last row sees. "
        "That row is number (tile + 1) * block_q - 1, and n_k - n_q comes on top.",
        (
            Slip(end=lambda t, b_q, b_k, n_q, n_k: t * b_q + n_k - n_q),
            Slip(end=lambda t, b_q, *_: (t + 1) * b_q),
            Slip(end=lambda t, b_q, b_k, n_q, n_k: (t + 1) * b_q - 1 + n_k - n_q),
        ),
    ),
    (
        "a hidden score is not -inf",
        "hidden keys get a large negative number. Where a row sees no key at all, all keys are "
        "hidden alike, and the row becomes an average of V.",
        (Slip(fill=-1e4, guards=(True,)), Slip(fill=-1e4, past_end=1 << 30, guards=(True,))),
    ),
    (
        "rows without a key are not guarded",
        "a row that sees no key has m = -inf, and -inf - (-inf) and 0 / 0 are NaN: o must be 0 "
        "there, and lse -inf.",
        (
            Slip(guards=(False,)),
            Slip(guards=(False,), l_guarded=True),
            Slip(guards=(True,), l_guarded=False),
        ),
    ),
    (
        "O is kept in half precision",
        "O is rounded to the inputs' half precision in every tile: keep it in float32 and round "
        "once, at the store.",
        (Slip(half=True),),
    ),
    (
        "strides are ignored",
        "the tensor is not contiguous, but is read as if it were: use its strides, or "
        ".contiguous() in the launcher.",
        (Slip(contiguous="q, k, v"), Slip(contiguous="q, k, v and o")),
    ),
    (
        "all heads read the first head",
        "every head uses K and V of the first one: add head * n_k * head_dim to k and v.",
        (
            Slip(inputs=lambda q, k, v, _tile: (q, *_repeated(k, v, at=np.s_[:1, :1]))),
            Slip(inputs=lambda q, k, v, _tile: (q, *_repeated(k, v, at=np.s_[:, :1]))),
        ),
    ),
    (
        "the wrong heads share",
        "neighbours share: query head h uses key/value head h // (H // H_kv), not h % H_kv.",
        (Slip(inputs=_wrong_neighbours),),
    ),
    (
        "V is read at the wrong stride",
        "V's heads are n_k rows apart, and its rows head_dim numbers.",
        (Slip(inputs=_v_read_at("n_q", "d")), Slip(inputs=_v_read_at("n_k", "block_k"))),
    ),
    (
        "all batches read the first batch",
        "every batch uses the numbers of the first one: add batch * its stride to each pointer.",
        (
            Slip(inputs=lambda q, k, v, _tile: _repeated(q, k, v, at=np.s_[:1])),
            Slip(inputs=lambda q, k, v, _tile: (q, *_repeated(k, v, at=np.s_[:1]))),
        ),
    ),
    (
        "only the first tile of keys counts",
        "either the loop ends after one tile (it must reach n_k), or the addresses of K and V do "
        "not move: keys = start + tl.arange(0, BLOCK_K).",
        (
            Slip(end=lambda t, b_q, b_k, *_: np.full_like(t, b_k)),
            Slip(inputs=_first_tile(of_k=True, of_v=True)),
        ),
    ),
    (
        "every step reads the first tile of K, or of V",
        "one of the two does not move along the row: both need keys = start + "
        "tl.arange(0, BLOCK_K).",
        (Slip(inputs=_first_tile(of_k=True)), Slip(inputs=_first_tile(of_v=True))),
    ),
    (
        "the loop ends at n_q",
        "the loop runs over keys, so it ends at n_k; n_q is the number of queries.",
        (Slip(end=lambda t, b_q, b_k, n_q, n_k: np.full_like(t, n_q)),),
    ),
    (
        "the new tile is rescaled as well",
        "alpha brings what is old to the new maximum; the new tile is measured against it "
        "already: rescale first, then add.",
        (Slip(rescale_new=True),),
    ),
    (
        "K is read in place of V",
        "the second product uses the tile of K.",
        (Slip(inputs=lambda q, k, v, _tile: (q, k, k)),),
    ),
    (
        "K is reshaped, not transposed",
        "the tile of K was given the shape (head_dim, block_k), but its numbers kept their order: "
        "use tl.trans.",
        (Slip(inputs=_k_reshaped),),
    ),
)

_LSE: tuple[tuple[str, str, tuple[Slip, ...]], ...] = (
    ("lse is m + l", "lse is m + ln(l), not m + l.", (Slip(lse=lambda m, l_sum: m + l_sum),)),
    ("lse is only l", "lse is m + ln(l).", (Slip(lse=lambda m, l_sum: l_sum),)),
    ("lse is ln(l)", "lse lacks the maximum m.", (Slip(lse=lambda m, l_sum: np.log(l_sum)),)),
    ("lse is m", "lse lacks ln(l).", (Slip(lse=lambda m, l_sum: m),)),
    (
        "lse in base 2",
        "lse is in base 2: multiply by ln 2.",
        (Slip(lse=lambda m, l_sum: _natural(m, l_sum) / LN_2),),
    ),
    (
        "log2 where ln is meant",
        "log2(l) is added to m: use the natural logarithm.",
        (Slip(lse=lambda m, l_sum: m + np.log2(l_sum)),),
    ),
    (
        "m in base 2 beside ln(l)",
        "m is a score times log2(e), and ln(l) is natural: bring both to one base.",
        (Slip(lse=lambda m, l_sum: m / LN_2 + np.log(l_sum)),),
    ),
    (
        "m is added but was not subtracted",
        "m was not subtracted before exp, so ln(l) is the whole lse already.",
        (Slip(lse=lambda m, l_sum: 2 * m + np.log(l_sum)),),
    ),
)


# what another mask and its loop bounds explain better
_OF_THE_MASK = (
    "the mask is missing",
    "the causal",
    "the last tile is dropped",
    "only square tiles",
    "a hidden score is not -inf",
)


def streaming_slips() -> Iterator[tuple[str, str, tuple[Slip, ...]]]:
    """Yield name, sentence and slips of the mistakes that any rule for pairs leaves possible."""
    for name, says, slips in _KNOWN + _LSE:
        if not name.startswith(_OF_THE_MASK) and not slips[0].columns:
            yield name, says, slips


def inputs_read(slip: Slip, q: Any, k: Any, v: Any, tile: int) -> tuple[Array, Array, Array]:
    """Return q, k, v (..., n, d) in float64 as a kernel with this slip reads them."""
    if slip.contiguous:
        q, k, v = _as_contiguous(q), _as_contiguous(k), _as_contiguous(v)
    q, k, v = as_float64(q), as_float64(k), as_float64(v)
    return slip.inputs(q, k, v, tile) if slip.inputs else (q, k, v)


def o_stored(slip: Slip, o: Array, like: Any) -> Array:
    """Return what o (..., n, d) looks like after a kernel with this slip stored it."""
    return _stored_as_contiguous(o, like) if slip.contiguous.endswith("o") else o


def attention_mistakes(
    *, tile: int = 64, with_lse: bool = False, dtype: Any = np.float64
) -> tuple[Mistake, ...]:
    """Return the mistakes of an attention function ``f(q, k, v, *, causal, block_k, ...)``.

    The models take (q, k, v) of shape (..., n, d) as arrays or tensors. ``with_lse``: the answer
    is (o, lse), else o alone. ``tile`` is used where the call names no block_k; ``dtype`` is that
    of the notes m, l and O (kernels: float32).
    """
    return tuple(
        Mistake(name, says, partial(_attend, slip, tile, with_lse, dtype, guarded, skipping))
        for name, says, slips in _KNOWN + (_LSE if with_lse else ())
        for slip in slips
        for guarded in slip.guards
        for skipping in (True, False)
    )


def _attend(
    slip: Slip,
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
    """Return the answer with a slip. ``skipping``: the loop leaves out the future's tiles."""
    tile = block_k or tile
    if slip.half and "16" not in str(getattr(v, "dtype", "")):
        slip = replace(slip, half=False)
    like_q = q
    q, k, v = inputs_read(slip, q, k, v, tile)
    group = q.shape[-3] // k.shape[-3] if q.ndim > 2 else 1
    if group > 1:
        k, v = np.repeat(k, group, axis=-3), np.repeat(v, group, axis=-3)
    n_q, n_k = q.shape[-2], k.shape[-2]
    hidden, ends = np.zeros((n_q, n_k), dtype=bool), np.full(n_q, n_k)
    if causal and slip.masked:
        last = np.arange(n_q)[:, None] + (n_k - n_q if slip.align == "end" else 0) + slip.shift
        hidden = np.arange(n_k) < last if slip.reverse else np.arange(n_k) > last
        if np.isinf(slip.fill):  # the causal mask hides the places past the end as well
            slip = replace(slip, past_end=0)
    if (slip.end or (causal and skipping)) and block_q:
        number = np.arange(n_q) // block_q
        whole = number if causal else np.full(n_q, n_q // block_q + n_k)  # no diagonal: to n_k
        ends = np.clip((slip.end or _end)(whole, block_q, tile, n_q, n_k), 0, n_k)
    step = block_q if slip.square and block_q else tile
    o, lse = np.empty((*q.shape[:-1], v.shape[-1])), np.empty(q.shape[:-1])
    for head in np.ndindex(*q.shape[:-2]):
        scale = slip.factor / q.shape[-1] ** (slip.power / 2)
        s = (q[head] @ k[head].T * scale).astype(dtype)
        s[hidden] = slip.fill
        with np.errstate(all="ignore"):
            if slip.columns:
                p = np.exp(s - s.max(axis=0))
                o[head], lse[head] = (p / p.sum(axis=0)) @ v[head], 0
            else:
                made = stream(slip, s, v[head], ends, tile, step, guarded=guarded)
                o[head], lse[head] = made
    o = o_stored(slip, o, like_q)
    return (o, lse) if with_lse else o


def _end(number: Array, block_q: int, block_k: int, n_q: int, n_k: int) -> Array:
    """Return where a right causal loop ends in query tile ``number``."""
    return np.clip((number + 1) * block_q + n_k - n_q, 0, n_k)
