"""The mistakes that people make with attention, by name: run to see whose answer it is.

Run only after a failure, on the input that failed, to see whose answer the student's looks like.
A slip of the recurrence comes from ``attention.slips``, anything else is a `Misreading`; some
names have several: mistakes that one sentence explains.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from course_lib.attention.slips import LN_2, SLIPS
from course_lib.judging.misread import (
    Misreading,
    causal_end,
    first_tile,
    k_reshaped,
    repeated,
    v_read_at,
    wrong_neighbours,
)
from course_lib.judging.spec import Mistake


class Known(NamedTuple):
    """A mistake that has a name."""

    name: str
    says: str
    slips: tuple[Misreading, ...]


def _known(name: str, says: str, *slips: str | Misreading) -> Known:
    """Return a mistake; a word stands for the slip of the recurrence that ``SLIPS`` calls so."""
    readings = (Misreading(loop=SLIPS[s]) if isinstance(s, str) else s for s in slips)
    return Known(name, says, tuple(readings))


NOT_THE_MAXIMUM = "not the maximum is subtracted"
NOT_THE_MAXIMUM_SLIPS = ("first_max", "mean_for_max", "min_for_max", "first_score_for_max")

_KNOWN = (
    _known(
        "O is not rescaled",
        "the running sum is rescaled by alpha but the running output is not: "
        "both were measured against the old maximum.",
        "no_rescale_o",
    ),
    _known(
        "l is not rescaled",
        "the running output is rescaled by alpha but the running sum is not.",
        "no_rescale_l",
    ),
    _known(
        "nothing is rescaled",
        "neither the sum nor the output is rescaled when a new maximum arrives.",
        "neither",
    ),
    _known(
        "alpha is inverted",
        "alpha is exp(m_new - m_old): the past grows where it should shrink.",
        "inverse",
    ),
    _known(
        "alpha is inverted, or a mask multiplies",
        "two things make NaN of everything: exp(m_new - m_old) is inf while m_old is -inf, and a "
        "mask that multiplies by -inf makes 0 * -inf of what should be seen.",
        "inverse_at_once",
    ),
    _known(
        "each tile uses its own maximum",
        "each tile's exponentials use that tile's own maximum instead of the running one.",
        "own_max",
    ),
    _known(
        "one maximum for the whole tile",
        "each row has a maximum of its own: with one for all rows of a tile, the rows far below "
        "it vanish. Take the maximum along axis 1.",
        "one_max",
    ),
    _known(
        "the maximum starts at 0",
        "the running maximum starts at 0: where all scores are very negative, "
        "every exponential vanishes. Start at -inf.",
        "start_zero",
    ),
    _known(
        "no maximum is subtracted",
        "no maximum is subtracted before exp: large scores overflow.",
        "no_max",
    ),
    _known(
        "divided in every tile",
        "the output is divided by the running sum inside the loop, and then again or not undone.",
        "divide_each",
        "divide_each_and_last",
    ),
    _known(
        "the past is thrown away",
        "l or acc (or both) hold the last tile only. Either they are set anew in each tile, not "
        "added to, or m stays at -inf, so that alpha is 0.",
        "forget_o",
        "forget_l",
        "forget_both",
    ),
    _known(
        "each tile is normalised on its own",
        "each tile's weights are divided by the tile's own sum: divide once, at the end.",
        "tile_softmax",
    ),
    _known(
        "base 2 and base e are mixed",
        "exp and exp2 (or a factor log2(e)) do not belong together: exp2 everywhere with log2(e) "
        "in the scale, or exp everywhere without it.",
        Misreading(factor=LN_2),
        Misreading(factor=1 / LN_2),
        "base_2_in_l_and_o",
        Misreading(factor=LN_2, loop=SLIPS["base_e_in_l_and_o"]),
    ),
    _known("the scale is missing", "the scores are not divided by sqrt(d).", Misreading(power=0)),
    _known("scaled twice", "the scores are divided by d, not by sqrt(d).", Misreading(power=2)),
    _known(
        "the scale is upside down",
        "the scores are multiplied by sqrt(d), not divided.",
        Misreading(power=-1),
    ),
    _known(
        "scaled by a length, not by head_dim",
        "the scores are divided by the root of n_k or n_q: it is the root of head_dim.",
        *(
            Misreading(
                inputs=lambda q, k, v, _tile, n=n: (q * (q.shape[-1] / n(q, k)) ** 0.5, k, v)
            )
            for n in (lambda q, k: k.shape[-2], lambda q, k: q.shape[-2])
        ),
    ),
    _known(
        "softmax over the wrong axis",
        "the softmax runs down the columns: each query's weights are a row.",
        Misreading(columns=True),
    ),
    _known(
        "not divided by l", "the weighted sum is not divided by the sum of weights.", "no_divide"
    ),
    _known(
        "keys past the end count as score 0",
        "the last tile is short and the missing keys (or the first of them) enter with score 0: "
        "set their scores to -inf before the maximum.",
        "zeros_past_end",
        "one_zero_past_end",
    ),
    _known(
        "the mask comes after the maximum",
        "the weights past the end are 0, but their scores of 0 took part in the maximum: where "
        "all real scores are very negative, every exponential vanishes. Mask before the maximum.",
        "mask_after_max",
    ),
    _known(
        "the last tile is dropped",
        "the short last tile is left out: use ceil.",
        Misreading(
            end=lambda t, b_q, b_k, n_q, n_k: causal_end(t, b_q, b_k, n_q, n_k) // b_k * b_k
        ),
    ),
    _known(
        "only square tiles",
        "the loop over the keys steps by block_q, and a tile of keys has block_k.",
        Misreading(square=True),
        Misreading(square=True, loop=SLIPS["zeros_past_end"]),
    ),
    _known("the mask is missing", "causal=True makes no difference.", Misreading(masked=False)),
    _known(
        "the causal mask is reversed",
        "a query sees the keys from its own place on: it should see those up to its own.",
        Misreading(reverse=True),
    ),
    _known(
        "the causal mask is one key too strict",
        "a query does not see its own key: use <=, not <.",
        Misreading(shift=-1),
    ),
    _known(
        "the causal mask is one key too generous",
        "a query sees one key of the future.",
        Misreading(shift=1),
    ),
    _known(
        "the causal mask is aligned at the start",
        "with n_q != n_k the last query must see the last key: query i sees key j if "
        "j <= i + n_k - n_q.",
        Misreading(align="start"),
        Misreading(align="start", end=lambda t, b_q, *_: (t + 1) * b_q),
    ),
    _known(
        "the causal loop ends too early",
        "the mask is right, but the loop stops before the last key that the tile's last row sees. "
        "That row is number (tile + 1) * block_q - 1, and n_k - n_q comes on top.",
        Misreading(end=lambda t, b_q, b_k, n_q, n_k: t * b_q + n_k - n_q),
        Misreading(end=lambda t, b_q, *_: (t + 1) * b_q),
        Misreading(end=lambda t, b_q, b_k, n_q, n_k: (t + 1) * b_q - 1 + n_k - n_q),
    ),
    _known(
        "a hidden score is not -inf",
        "hidden keys get a large negative number. Where a row sees no key at all, all keys are "
        "hidden alike, and the row becomes an average of V; where all real scores lie below that "
        "number, only hidden keys count.",
        "fill",
        "fill_past_end",
    ),
    _known(
        "rows without a key are not guarded",
        "a row that sees no key has m = -inf, and -inf - (-inf) and 0 / 0 are NaN: o must be 0 "
        "there, and lse -inf.",
        "no_guard",
        "no_guard_in_the_loop",
        "no_guard_after_the_loop",
    ),
    _known(
        "O is kept in half precision",
        "O is rounded to the inputs' half precision in every tile: keep it in float32 and round "
        "once, at the store.",
        "half",
    ),
    _known(
        "strides are ignored",
        "the tensor is not contiguous, but is read as if it were: use its strides, or "
        ".contiguous() in the launcher.",
        Misreading(contiguous="q, k, v"),
        Misreading(contiguous="q, k, v and o"),
    ),
    _known(
        "all heads read the first head",
        "every head uses K and V of the first one: add head * n_k * head_dim to k and v.",
        Misreading(inputs=lambda q, k, v, _tile: (q, *repeated(k, v, at=np.s_[:1, :1]))),
        Misreading(inputs=lambda q, k, v, _tile: (q, *repeated(k, v, at=np.s_[:, :1]))),
    ),
    _known(
        "the wrong heads share",
        "neighbours share: query head h uses key/value head h // (H // H_kv), not h % H_kv.",
        Misreading(inputs=wrong_neighbours),
    ),
    _known(
        "V is read at the wrong stride",
        "V's heads are n_k rows apart, and its rows head_dim numbers.",
        Misreading(inputs=v_read_at("n_q", "d")),
        Misreading(inputs=v_read_at("n_k", "block_k")),
    ),
    _known(
        "all batches read the first batch",
        "every batch uses the numbers of the first one: add batch * its stride to each pointer.",
        Misreading(inputs=lambda q, k, v, _tile: repeated(q, k, v, at=np.s_[:1])),
        Misreading(inputs=lambda q, k, v, _tile: (q, *repeated(k, v, at=np.s_[:1]))),
    ),
    _known(
        "only the first tile of keys counts",
        "either the loop ends after one tile (it must reach n_k), or the addresses of K and V do "
        "not move: keys = start + tl.arange(0, BLOCK_K).",
        Misreading(end=lambda t, b_q, b_k, *_: np.full_like(t, b_k)),
        Misreading(inputs=first_tile(of_k=True, of_v=True)),
    ),
    _known(
        "every step reads the first tile of K, or of V",
        "one of the two does not move along the row: both need keys = start + "
        "tl.arange(0, BLOCK_K).",
        Misreading(inputs=first_tile(of_k=True)),
        Misreading(inputs=first_tile(of_v=True)),
    ),
    _known(
        "the loop ends at n_q",
        "the loop runs over keys, so it ends at n_k; n_q is the number of queries.",
        Misreading(end=lambda t, b_q, b_k, n_q, n_k: np.full_like(t, n_q)),
    ),
    _known(
        "the new tile is rescaled as well",
        "alpha brings what is old to the new maximum; the new tile is measured against it "
        "already: rescale first, then add.",
        "rescale_new",
        "rescale_all",
    ),
    _known(
        "K is read in place of V",
        "the second product uses the tile of K.",
        Misreading(inputs=lambda q, k, v, _tile: (q, k, k)),
    ),
    _known(
        NOT_THE_MAXIMUM,
        "another number than the largest score so far is subtracted before exp: a mean, the "
        "smallest score, or a maximum that never changes. Where a score lies far above it, exp "
        "overflows.",
        *NOT_THE_MAXIMUM_SLIPS,
    ),
    _known(
        "K is reshaped, not transposed",
        "the tile of K was given the shape (head_dim, block_k), but its numbers kept their order: "
        "use tl.trans.",
        Misreading(inputs=k_reshaped),
    ),
)

_LSE = (
    _known("lse is m + l", "lse is m + ln(l), not m + l.", "lse_adds_l"),
    _known("lse is only l", "lse is m + ln(l).", "lse_is_l"),
    _known("lse is ln(l)", "lse lacks the maximum m.", "lse_is_ln_l"),
    _known("lse is m", "lse lacks ln(l).", "lse_is_m"),
    _known("lse in base 2", "lse is in base 2: multiply by ln 2.", "lse_in_base_2"),
    _known(
        "log2 where ln is meant",
        "log2(l) is added to m: use the natural logarithm.",
        "lse_with_log2",
    ),
    _known(
        "m in base 2 beside ln(l)",
        "m is a score times log2(e), and ln(l) is natural: bring both to one base.",
        "lse_with_m_in_base_2",
    ),
    _known(
        "m is added but was not subtracted",
        "m was not subtracted before exp, so ln(l) is the whole lse already.",
        "lse_with_m_twice",
    ),
)

SAYS = {known.name: known.says for known in _KNOWN}
"""Name -> the sentence for it, for those who compute the same mistake in another way."""

# what another mask and its loop bounds explain better
_OF_THE_MASK = (
    "the mask is missing",
    "the causal",
    "the last tile is dropped",
    "only square tiles",
    "a hidden score is not -inf",
)


def streaming_slips() -> Iterator[Known]:
    """Yield the mistakes that any rule for pairs leaves possible."""
    for known in _KNOWN + _LSE:
        if not known.name.startswith(_OF_THE_MASK) and not known.slips[0].columns:
            yield known


def attention_mistakes(
    *,
    tile: int = 64,
    with_lse: bool = False,
    dtype: Any = np.float64,
    without_masks: frozenset[str] = frozenset(),
) -> tuple[Mistake, ...]:
    """Return the mistakes of an attention function ``f(q, k, v, *, causal, block_k, ...)``.

    The models take (q, k, v) of shape (..., n, d) as arrays or tensors. ``with_lse``: the answer
    is (o, lse), else o alone. ``tile`` is used where the call names no block_k; ``dtype`` is that
    of the notes m, l and O (kernels: float32). ``without_masks``: only those with these names, for
    a function that has no ``causal``.
    """
    return tuple(
        Mistake(name, says, partial(slip.attend, tile, with_lse, dtype, guarded, skipping))
        for name, says, slips in _KNOWN + (_LSE if with_lse else ())
        if not without_masks or name in without_masks
        for slip in slips
        for guarded in slip.loop.guards
        for skipping in ((True,) if without_masks else (True, False))
    )
