"""The mistakes that people make with attention, by name: run to see whose answer it is.

Run only after a failure, on the input that failed, to see whose answer the student's looks like.
A slip of the recurrence comes from ``attention.slips``, anything else is a `Misreading`; some
names have several: mistakes that one sentence explains. Longer than 400 lines because it is one
list, a name and a sentence for each mistake.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from course_lib.attention.slips import LN_2, LOW_NUMBERS, SLIPS, Slip, stream
from course_lib.judging.mask_mistakes import MASKS
from course_lib.judging.misread import (
    Known,
    Misreading,
    Model,
    first_tile,
    k_not_transposed,
    k_reshaped,
    late,
    lse_unscaled,
    maximum_unscaled,
    one_tile_more,
    packed_batches,
    read_at,
    repeated,
    with_strides_of,
    wrong_neighbours,
)
from course_lib.judging.spec import Mistake
from course_lib.judging.strides import AS_IF, IGNORED


def _at_n_q(number: np.ndarray, _block_q: int, _block_k: int, n_q: int, _n_k: int) -> np.ndarray:
    return np.full_like(number, n_q)


ALPHA_IS_1 = (  # what is said where alpha = exp(0), whether or not anything is multiplied by it
    "If you do multiply: is `m` already the new maximum there? Keep the old one until alpha is "
    "computed."
)
NOT_THE_MAXIMUM = "not the maximum is subtracted"
NOT_THE_MAXIMUM_SLIPS = (
    "first_max",
    "mean_for_max",
    "min_for_max",
    "mean_of_all_for_max",
    "min_of_all_for_max",
    "first_score_for_max",
    "abs_for_max",
    "latest_max",
)
NO_MAXIMUM_SLIPS = ("no_max", "no_max_in_p")
CLIPPED = "scores are clipped, not shifted"
CLIPPED_SLIPS = tuple(name for name in SLIPS if name.startswith("clip"))
BOUNDED = "scores are bounded on both sides"
BOUNDED_SLIPS = tuple(name for name in SLIPS if name.startswith("bound"))
LEFT_OUT = "what lies far below the maximum is left out"
LEFT_OUT_SLIPS = tuple(name for name in SLIPS if name.startswith("least"))
SMALL_RISE = "a small rise of the maximum is not followed"
MOST_BELOW = "what lies far below the maximum weighs too much"
TWO_DESKS = "two sets of notes are added as they are"
STALE = "o is divided by the l of before the last tile"
STARTS_LOW = "the maximum does not start at -inf"
STARTS_LOW_SLIPS = tuple(f"start_{name}" for name, _ in LOW_NUMBERS)
OTHER_STRIDES = "the strides of another tensor"
ALL_NAN = "-inf makes NaN of everything"
ZERO_AT_LEAST = "a very negative maximum is replaced"
PAST_LOST = "the past is thrown away"
ONLY_RISES = "only a tile with a new maximum counts"
LATE = "K or V comes one tile late"
BASES = "base 2 and base e are mixed"
ADDED_IN_LOG = "a small number is added in the logarithm"
UNSCALED_MAXIMUM = "the maximum is that of unscaled scores"
TIMES_INFINITY = "0 times infinity is NaN"
BASES_SLIPS = tuple(name for name in SLIPS if name.startswith("base"))

_OF_THE_LOOP = Known.table(
    ("O is not rescaled",
     "the running sum is rescaled by alpha but the running output is not: "
     "both were measured against the old maximum.",
     "no_rescale_o", "no_rescale_o_whole"),
    ("l is not rescaled", "the running output is rescaled by alpha but the running sum is not.",
     "no_rescale_l"),
    ("nothing is rescaled",
     f"neither the sum nor the output is rescaled when a new maximum arrives. {ALPHA_IS_1}",
     "neither"),
    ("alpha is inverted", "alpha is exp(m_new - m_old): the past grows where it should shrink.",
     "inverse", "inverse_whole"),
    (ALL_NAN,
     "m is -inf before the first tile. exp(m_new - m), or exp(s - m) of the old m, is infinite "
     "there, and -inf - (-inf) and 0 * -inf (a mask that multiplies) are NaN. alpha is "
     "exp(m - m_new), scores are measured against m_new, and a mask chooses: use where.",
     "inverse_at_once", "inverse_guarded_at_the_end"),
    ("each tile uses its own maximum",
     "each tile's exponentials use that tile's own maximum instead of the running one.",
     "own_max"),
    ("alpha is measured against the tile's own maximum",
     "alpha = exp(m - m_new) brings what is old to m_new, the larger of m and the tile's "
     "maximum: against the tile's alone it grows where scores fall.",
     "own_alpha"),
    ("one maximum for the whole tile",
     "each row has a maximum of its own: with one for all rows of a tile, the rows far below "
     "it vanish. Take the maximum along axis 1.",
     "one_max", "one_max_of_empty_rows"),
    (ZERO_AT_LEAST,
     "the running maximum never falls below some number, 0 or another: does it start there? "
     "Where all scores are far below that, every exponential vanishes. Start at -inf.",
     "start_zero", "zero_at_least"),
    (UNSCALED_MAXIMUM,
     "m is the maximum of the scores before they are scaled, and what is measured against it is "
     "scaled: where scores are large every exponential vanishes, or overflows. Scale the scores "
     "first, and then take their maximum.",
     Misreading(with_scale=maximum_unscaled)),
    ("no maximum is subtracted", "no maximum is subtracted before exp: large scores overflow.",
     *NO_MAXIMUM_SLIPS, Misreading(loop=replace(SLIPS["no_max"], divide="by lse"))),
    (CLIPPED,
     "scores above some number are taken for that number, so that exp does not overflow: they "
     "all weigh the same then. Subtract the maximum.",
     *CLIPPED_SLIPS),
    (BOUNDED,
     "scores beyond some number, above or below 0, are taken for that number: they all weigh "
     "the same then. Once the maximum is subtracted, no score is too large: leave them as they "
     "are.",
     *BOUNDED_SLIPS),
    (LEFT_OUT,
     "weights below some number count as 0. There may be many of them, or their values may be "
     "large: exp makes them as small as they are, so let all of them count.",
     *LEFT_OUT_SLIPS),
    (SMALL_RISE,
     "where the maximum rises by less than some number, l and acc are not rescaled, and still "
     "what comes is measured against the new one. Many small rises are a large one: multiply by "
     "alpha = exp(m - m_new), however near to 1 it is.",
     *(name for name in SLIPS if name.startswith("small_rise"))),
    (MOST_BELOW,
     "differences s - m below some number are taken for that number, so that a key far below "
     "the maximum weighs more than exp gives it. exp of a large negative number is a small one, "
     "or 0, and never an error: leave the differences as they are.",
     *(name for name in SLIPS if name.startswith("most_below"))),
    (TWO_DESKS,
     "tiles take turns between two sets of notes, each with a maximum of its own. Bring both to "
     "the larger of the two before they are added: multiply l and acc by exp(m of theirs - m).",
     "two_desks"),
    (STALE, "the division comes after the loop, and uses the l to which every tile was added.",
     "stale_l_under_o"),
    ("divided in every tile",
     "the output is divided by the running sum inside the loop, and then again or not undone.",
     "divide_each", "divide_each_and_last", "divide_new_alone"),
    (PAST_LOST,
     "l or acc (or both) hold the last tile only. Either they are set anew in each tile, not "
     "added to, or m stays at -inf, so that alpha is 0.",
     "forget_o", "forget_l", "forget_both", "forget_whole", "keep_max"),
    ("m is never updated",
     "m keeps the number that it starts at: scores must be measured against "
     "m_new, the larger of m and the tile's maximum, and the step ends with m = m_new.",
     "old_max"),
    ("each tile is normalised on its own",
     "each tile's weights are divided by the tile's own sum: divide once, at the end.",
     "tile_softmax", "tile_softmax_averaged"),
    ("rescaled twice",
     "alpha multiplies the running sum, or the running output, twice in a step: once is enough "
     "to bring it to the new maximum.",
     "alpha_twice_in_l", "alpha_twice_in_o", "alpha_twice"),
    (BASES,
     "exp and exp2 (or a factor log2(e)) do not belong together: exp2 everywhere with log2(e) "
     "in the scale, or exp everywhere without it.",
     Misreading(factor=LN_2), Misreading(factor=1 / LN_2), *BASES_SLIPS,
     Misreading(factor=LN_2, loop=SLIPS["lse_in_base_2"]),
     Misreading(factor=LN_2, loop=SLIPS["base_e_in_l_and_o"])),
    ("the scale is missing", "the scores are not divided by sqrt(d).",
     Misreading(power=0, factor=LN_2),  # log2(e) is part of it
     Misreading(power=0)),
    ("scaled twice", "the scores are divided by d, not by sqrt(d).", Misreading(power=2)),
    ("the scale is upside down", "the scores are multiplied by sqrt(d), not divided.",
     Misreading(power=-1, factor=LN_2**2),  # divided by a scale with log2(e) in it
     Misreading(power=-1)),
    ("scaled by a length, not by head_dim",
     "the scores are divided by the root of n_k, n_q, a tile's length or the number of heads: "
     "it is the root of head_dim.",
     *(
         Misreading(
             inputs=lambda q, k, v, tile, n=n: (q * (q.shape[-1] / n(q, k, tile)) ** 0.5, k, v)
         )
         for n in (
             lambda q, k, _tile: k.shape[-2],
             lambda q, k, _tile: q.shape[-2],
             lambda q, k, tile: tile,
             lambda q, k, tile: q.shape[-3],
             lambda q, k, tile: k.shape[-3],
         )
     )),
    ("softmax over the wrong axis",
     "the softmax runs down the columns: each query's weights are a row.",
     Misreading(columns=True)),
    ("not divided by the sum", "the weighted sum is not divided by the sum of weights.",
     "no_divide"),
    ("keys past the end count as score 0",
     "the last tile is short and the missing keys (or the first of them) enter with score 0: "
     "set their scores to -inf before the maximum.",
     "zeros_past_end", "one_zero_past_end"),
    ("keys past the end are taken out of the sum again",
     "the missing keys of the last tile enter with score 0, and their weights are subtracted from "
     "l after the loop: where real scores lie far below 0, nothing is left. Set them to -inf "
     "before the maximum.",
     "zeros_past_end_repaid"),
    ("one tile too many",
     "the loop makes one step past the last key, and what it loads there enters with score 0: "
     "it ends at n_k.",
     Misreading(inputs=one_tile_more)),
    ("the mask comes after the maximum",
     "the weights past the end are 0, but their scores of 0 took part in the maximum: where "
     "all real scores are very negative, every exponential vanishes. Mask before the maximum.",
     "mask_after_max"),
)  # fmt: skip

_OF_INPUTS_AND_NOTES = Known.table(
    ("rows without a key are not guarded",
     "a row that sees no key has m = -inf, and -inf - (-inf) and 0 / 0 are NaN: o must be 0 "
     "there, and lse -inf.",
     "no_guard", "no_guard_in_the_loop", "no_guard_after_the_loop"),
    ("O is kept in half precision",
     "O is rounded to the inputs' half precision in every tile: keep it in float32 and round "
     "once, at the store.",
     "half"),
    ("l is kept in half precision",
     "the sum of the weights is rounded to half precision in every tile: keep it in float32.",
     "half_l"),
    ("alpha is kept in half precision",
     "alpha is rounded to half precision, so that each tile takes a little too much or too "
     "little of the past: keep it in float32.",
     "half_alpha"),
    ("the scores are rounded to float16",
     "a score of 50 is off by 0.015 in float16, and its weight by as much. tl.dot gives float32 "
     "even for float16 tiles: leave the scores so, and round the weights alone, for the second "
     "product.",
     "half_scores"),
    (IGNORED, f"the tensor is {AS_IF}",
     Misreading(contiguous="qkv"), Misreading(contiguous="qkvo"),
     Misreading(contiguous="qo")),  # o = empty_like(q) lies as q does
    ("all heads read the first head",
     "every head uses K and V of the first one: add head * n_k * head_dim to k and v.",
     Misreading(inputs=lambda q, k, v, _tile: (q, *repeated(k, v, at=np.s_[:1, :1]))),
     Misreading(inputs=lambda q, k, v, _tile: (q, *repeated(k, v, at=np.s_[:, :1])))),
    ("the wrong heads share",
     "neighbours share: query head h uses key/value head h // (H // H_kv), not h % H_kv or "
     "h // H_kv.",
     *(
         Misreading(inputs=wrong_neighbours(names, share))
         for names in ("kv", "k", "v")
         for share in (
             lambda head, kv_heads: head % kv_heads,
             lambda head, kv_heads: head % (len(head) // kv_heads),
             lambda head, kv_heads: np.minimum(head // kv_heads, kv_heads - 1),
         )
     )),
    ("V is read at the wrong stride",
     "V's heads are n_k rows apart, and its rows head_dim numbers.",
     Misreading(inputs=read_at("v", head_rows="n_q")),
     Misreading(inputs=read_at("v", row="block_k"))),
    ("K is read at the wrong stride",
     "K's heads are n_k rows apart, and its rows head_dim numbers.",
     Misreading(inputs=read_at("k", head_rows="n_q")),
     Misreading(inputs=read_at("k", row="block_k"))),
    ("all batches read the first batch",
     "every batch uses the numbers of the first one: add batch * its stride to each pointer.",
     Misreading(inputs=lambda q, k, v, _tile: repeated(q, k, v, at=np.s_[:1])),
     Misreading(inputs=lambda q, k, v, _tile: (q, *repeated(k, v, at=np.s_[:1])))),
    ("only the first tile of keys counts",
     "either the loop ends after one tile (it must reach n_k), or the addresses of K and V do "
     "not move: keys = start + tl.arange(0, BLOCK_K).",
     Misreading(end=lambda t, b_q, b_k, *_: np.full_like(t, b_k)),
     Misreading(inputs=first_tile(of_k=True, of_v=True)),
     Misreading(inputs=first_tile(of_k=True, of_v=True, whole=True)),
     *(
         Misreading(
             inputs=first_tile(of_k=True, of_v=True, whole=whole),
             sees=lambda row, key, b_q, b_k, off: key % b_k <= row + off,
         )
         for whole in (False, True)
     )),
    ("every step reads the first tile of K, or of V",
     "one of the two does not move along the row: both need keys = start + "
     "tl.arange(0, BLOCK_K).",
     Misreading(inputs=first_tile(of_k=True)), Misreading(inputs=first_tile(of_v=True))),
    (LATE,
     "a step multiplies by the tile of the step before (the first step, by its own): load K and "
     "V at the beginning of the step that uses them.",
     Misreading(inputs=late(of_v=True)), Misreading(inputs=late(of_k=True))),
    (ONLY_RISES,
     "a tile whose maximum is not above the maximum so far is left out of l and o: its weights "
     "are smaller, and still part of the sum.",
     "only_rises"),
    ("the loop over the keys makes no step",
     "no tile of keys is visited, so that o is 0 everywhere: look at where the loop begins and "
     "ends.",
     Misreading(loop=Slip(guards=(True,)), end=lambda t, *_: np.zeros_like(t))),
    ("the loop ends at n_q",
     "the loop runs over keys, so it ends at n_k; n_q is the number of queries.",
     Misreading(end=_at_n_q)),
    ("the new tile is rescaled as well",
     "alpha brings what is old to the new maximum; the new tile is measured against it "
     "already: rescale first, then add.",
     *(name for name in SLIPS if name.startswith("rescale"))),
    ("K is read in place of V", "the second product uses the tile of K.",
     Misreading(inputs=lambda q, k, v, _tile: (q, k, k))),
    (NOT_THE_MAXIMUM,
     "another number than the largest score so far is subtracted before exp: a mean, the first "
     "or the smallest score, the largest without its sign, a maximum that never changes, or "
     "that of the newest tile alone. Where a score lies far above it, exp overflows; where all "
     "lie far below, it vanishes.",
     *NOT_THE_MAXIMUM_SLIPS),
    ("K is reshaped, not transposed",
     "the tile of K was given the shape (head_dim, block_k), but its numbers kept their order: "
     "use tl.trans.",
     Misreading(inputs=k_reshaped(padded=True)), Misreading(inputs=k_reshaped(padded=False))),
    ("K is not transposed",
     "where a tile has as many keys as head_dim, q @ k runs too, and its numbers are wrong: use "
     "tl.trans.",
     Misreading(inputs=k_not_transposed)),
    ("one length for Q and K",
     "n_q is used where n_k belongs: K and V have n_k rows, and so have their heads; a mask of "
     "keys ends at n_k.",
     Misreading(inputs=read_at("kv", head_rows="n_q")),
     Misreading(inputs=read_at("kv", head_rows="n_q"), end=_at_n_q),
     Misreading(only=lambda row, key, *_tiles: key < len(row))),
    *((f"the strides of {x.upper()} are ignored",
       f"{x} alone is read or stored as if it were contiguous: each tensor has strides of its "
       "own.",
       Misreading(contiguous=x))
      for x in "qkvo"),
    (OTHER_STRIDES,
     "a tensor is read at the strides of another one: each has strides of its own, which are "
     "the same only if both have one shape and lie alike in memory.",
     *(Misreading(strides=with_strides_of(whose, *readers))
       for whose, readers in (("q", "kv"), ("q", "k"), ("q", "v"), ("k", "q"), ("k", "v"))),
     *(Misreading(strides=with_strides_of(whose, *readers, batches=True))
       for whose, readers in (("q", "kv"), ("q", "k"), ("q", "v"), ("k", "v")))),
    ("the batch stride is taken for that of all heads",
     "batches need not lie one after the last head of the other: split the program's number "
     "into batch and head, and multiply each by its own stride.",
     *(Misreading(strides=packed_batches(names)) for names in ("qkv", "q", "k", "v", "kv"))),
    ("the root of head_dim is cut to a whole number",
     "math.isqrt and int() cut the fraction off: divide by the root itself, d**0.5.",
     Misreading(
         inputs=lambda q, k, v, _tile: (
             q * (q.shape[-1] ** 0.5 / math.isqrt(q.shape[-1])),
             k,
             v,
         )
     )),
    # last: a factor so near to the right one changes little of what others explain
    ("log2(e) is cut short",
     "log2(e) is 1.4426950408889634: with fewer digits every exponent is a little off, and its "
     "weight by as much times the score.",
     *(Misreading(factor=cut * LN_2) for cut in (1.4, 1.44, 1.443, 1.4427))),
)  # fmt: skip

_KNOWN = (*_OF_THE_LOOP, *MASKS, *_OF_INPUTS_AND_NOTES)

_LSE = Known.table(
    ("lse of a row without keys is the logarithm of a small number",
     "the number that keeps the logarithm of 0 finite stands in lse then: such a row's is -inf.",
     *(name for name in SLIPS if name.startswith("lse_is_ln_1"))),
    ("lse is made of old notes",
     "m + ln(l) takes the m and the l after the last tile: one of the two is from before it.",
     "lse_of_the_m_before", "lse_of_the_l_before"),
    (ADDED_IN_LOG,
     "lse is m + ln(l): what is added to l is missing nowhere. Where l may be 0, choose another "
     "number by where.",
     *(name for name in SLIPS if name.endswith("_in_the_log"))),
    ("lse overflows",
     "ln(l * exp(m)) is m + ln(l) on paper, but exp(m) overflows above 88 and vanishes below "
     "-103: add m to the logarithm.",
     "lse_overflows"),
    ("m in lse is not scaled",
     "lse is m + ln(l) of the scaled scores: the m that stands in it is that of scores without "
     "the scale.",
     Misreading(with_scale=lse_unscaled)),
    ("lse is m + l", "lse is m + ln(l), not m + l.", "lse_adds_l"),
    ("lse is only l", "lse is m + ln(l).", "lse_is_l"),
    ("lse is ln(l)", "lse lacks the maximum m.", "lse_is_ln_l"),
    ("ln(l) has the wrong sign",
     "lse is m + ln(l): it is subtracted here, or l is already 1 / l when its logarithm is "
     "taken.",
     "lse_subtracts_ln_l"),
    ("lse is m * ln(l)", "lse is m + ln(l): the two are added.", "lse_is_a_product"),
    ("lse is ln(m + l)", "lse is m + ln(l): the logarithm is of l alone.", "lse_of_m_and_l"),
    ("lse is 0", "lse is m + ln(l): 0 is stored everywhere.", "lse_is_0"),
    ("lse of a row without keys is 0",
     "the m that is 0 in place of -inf, so that exp is no NaN, belongs in exp only: such a "
     "row's lse is -inf.",
     "lse_is_0_where_empty", "lse_is_0_where_visited"),
    ("lse of a row without keys is a large negative number",
     "such a row's lse is -inf, not a number like -1e6: m must start at -inf, or -inf be put "
     "there after the loop.",
     *(f"lse_is_{name}_where_empty" for name, _ in LOW_NUMBERS)),
    ("lse is m", "lse lacks ln(l).", "lse_is_m"),
    ("lse in base 2", "lse is in base 2: multiply by ln 2.", "lse_in_base_2"),
    ("log2 where ln is meant", "log2(l) is added to m: use the natural logarithm.",
     "lse_with_log2"),
    ("m in base 2 beside ln(l)",
     "m is a score times log2(e), and ln(l) is natural: bring both to one base.",
     "lse_with_m_in_base_2"),
    ("m is added but was not subtracted",
     "m was not subtracted before exp, so ln(l) is the whole lse already.",
     "lse_with_m_twice"),
)  # fmt: skip


def _other_loops(one: Known, *, only: Callable[[Slip], bool], **changed: Any) -> Known:
    """Return a mistake, made in loops that are right but for it and differ in what ``changed``."""
    loops = [slip.loop for slip in one.slips if slip == Misreading(loop=slip.loop)]
    made = (Misreading(loop=replace(loop, **changed)) for loop in loops if only(loop))
    return Known(one.name, one.says, tuple(made))


def order_matters(loop: Slip) -> bool:
    """Whether to walk from the last tile to the first makes something else of a slip."""
    usual = replace(loop, guards=Slip().guards, l_guarded=None, backwards=False)
    plain = usual == Slip() or usual.start != Slip().start or np.isfinite(usual.clip)
    return not (plain or loop.past_end or np.isfinite(loop.fill) or loop.backwards)


# P is made by exp(s - lse), of a wrong lse: asked for when none of those above explains it. What is
# added in the logarithm may then be added to the sum as well: o is the same.
_SELDOM = tuple(
    made
    for one in (*(one for one in _KNOWN if one.name in (ZERO_AT_LEAST, NOT_THE_MAXIMUM)), *_LSE)
    if one.name != ADDED_IN_LOG
    if (made := _other_loops(one, only=lambda loop: True, divide="by lse")).slips
)

# What other mistakes make as well, and loops that begin with the last tile, which is seldom done.
_LAST = (
    *Known.table(
        (STARTS_LOW,
         "m starts at a large negative number. Where all scores of a row lie below it, every "
         "exponential vanishes, and the lse of a row without keys is that number. Start at -inf.",
         *STARTS_LOW_SLIPS),
    ),
    *(
        turned
        for one in _KNOWN
        if (turned := _other_loops(one, only=order_matters, backwards=True)).slips
    ),
)  # fmt: skip

_EVERY = _KNOWN + _SELDOM + _LSE + _LAST
SAYS = {one.name: one.says for one in _EVERY}
"""Name -> the sentence for it, for those who compute the same mistake in another way."""

OF_ADDRESSES = frozenset(
    one.name
    for one in _KNOWN
    if all(slip.contiguous or slip.strides for slip in one.slips)
    or one.name.endswith("at the wrong stride")
)
"""The names of those by which addresses are wrong, which may lead out of a tensor."""


def streaming_slips() -> Iterator[Known]:
    """Yield the mistakes that any rule for pairs leaves possible."""
    for one in _EVERY:
        if one not in MASKS and not one.slips[0].columns:
            yield one


_OF_TILES = (
    "O is not rescaled", "l is not rescaled", "nothing is rescaled", "alpha is inverted",
    "each tile uses its own maximum", "m is never updated", "divided in every tile",
    PAST_LOST, "each tile is normalised on its own",
    "the new tile is rescaled as well", "rescaled twice", "no maximum is subtracted", BASES,
    NOT_THE_MAXIMUM, BOUNDED, LEFT_OUT, STARTS_LOW, ALL_NAN, ONLY_RISES, SMALL_RISE, MOST_BELOW,
    STALE, TWO_DESKS,
)  # fmt: skip


def weights_of_tiles(
    dtype: Any = np.float64,
) -> Iterator[tuple[str, str, Callable[[np.ndarray], np.ndarray]]]:
    """Yield (name, sentence, scores (..., n) -> what multiplies the n values) of a slip in tiles.

    For functions that may be written in one piece or in tiles of keys, of 32, 64 or 128, whose
    notes are of ``dtype``.
    """
    for tile in (64, 32, 128):
        yield (
            "only the first tile of keys counts",
            "the loop ends after one tile: it must reach the last key.",
            partial(_up_to, False, tile, dtype, True),
        )
        for guarded in (True, False):
            yield (
                "the last tile is dropped",
                SAYS["the last tile is dropped"],
                partial(_up_to, True, tile, dtype, guarded),
            )
        for one in known_as(frozenset(_OF_TILES)):
            for loop in (slip.loop for slip in one.slips if slip == Misreading(loop=slip.loop)):
                for guarded in loop.guards:
                    yield one.name, one.says, partial(_in_tiles, loop, tile, dtype, guarded)


def _up_to(whole: bool, tile: int, dtype: Any, guarded: bool, s: np.ndarray) -> np.ndarray:
    """Return the weights of the ``whole`` tiles, or of the first one alone."""
    n = s.shape[-1]
    end = n // tile * tile if whole else tile
    return _in_tiles(Slip(), tile, dtype, guarded, np.where(np.arange(n) < end, s, -np.inf))


def _in_tiles(loop: Slip, tile: int, dtype: Any, guarded: bool, s: np.ndarray) -> np.ndarray:
    rows, n = s.reshape(-1, s.shape[-1]).astype(dtype), s.shape[-1]
    return stream(loop, rows, np.eye(n), tile, guarded=guarded)[0].reshape(s.shape)


def known_as(names: frozenset[str]) -> Iterator[Known]:
    """Yield the mistakes with these names."""
    return (one for one in _EVERY if one.name in names)


def attention_mistakes(
    *,
    with_lse: bool = False,
    dtype: Any = np.float64,
    without_masks: frozenset[str] = frozenset(),
) -> tuple[Mistake, ...]:
    """Return the mistakes of an attention function ``f(q, k, v, *, causal, block_k, ...)``.

    The models take (q, k, v) of shape (..., n, d) as arrays or tensors. ``with_lse``: the answer
    is (o, lse), else o alone. ``dtype`` is that of the notes m, l and O (kernels: float32).
    ``without_masks``: only those with these names, for a function that has no ``causal``.
    """
    known = _KNOWN + _SELDOM + (_LSE if with_lse else ()) + _LAST
    return tuple(
        Mistake(name, says, Model(slip, with_lse, dtype, guarded, skipping))
        # the first alone is nothing but NaN, which others that are not guarded make as well
        for name, says, slips in sorted(known, key=lambda one: "not guarded" not in one.name)
        if not without_masks or name in without_masks
        for slip in slips
        for guarded in slip.loop.guards
        for skipping in ((True,) if without_masks else (True, False))
    )
