"""Exercises of lesson 05, Triton in one dimension."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging.judges import Judge, array_finding
from course_lib.judging.kernel_judge import in_turn, stored_whole, was_launched
from course_lib.judging.picture import TrafficBars, error_map
from course_lib.judging.questions import question, wrong_answer
from course_lib.judging.spec import Case, Exercise, Finding, Mistake, Observed
from course_lib.judging.tolerance import as_float64
from course_lib.sandbox import faults


def _tensor(x: Any) -> Any:
    """Return a float32 tensor of these numbers."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))


def _float32(name: str, relative: float) -> Judge:
    """Judge one float32 tensor on the input's device: formal faults, values, was it a kernel."""

    def judge(case: Case, observed: Observed, expected: np.ndarray) -> Finding | None:
        like = case.args[0].new_empty(expected.shape)
        got = observed.result
        if faults.is_tensor(got):
            like = like.to(got.device)  # the launcher is given: the device is not the question
        if fault := faults.find_fault(got, like):
            return fault
        return array_finding(got, expected, relative=relative, name=name)

    return in_turn(stored_whole(judge, name), was_launched)


# --- 5.1 ----------------------------------------------------------------------------------------

OFFSETS = question(
    id="5.1",
    function="offsets_of_program_2",
    title="The offsets of program 2",
    answer=(32, 47, 12),
    minutes=4,
    points=1,
    hints=(
        "A program owns a whole block of 16 offsets at once. Program 0 owns 0 to 15.",
        "The block of program 2 starts at 2 * 16. The mask keeps the offsets below 44.",
        "tl.arange(0, 16) is 0, 1, ..., 15. Add 32 to each, then count those that are below 44.",
    ),
    notice="One program, sixteen offsets, twelve of them used. The mask changes no offset: it says "
    "which of them may touch memory.",
    wrong=(
        wrong_answer(
            (2, 2, 1),
            "a program is taken for a thread",
            "Program 2 owns a block of 16 offsets, not the single offset 2.",
        ),
        wrong_answer(
            (2, 47, 14),
            "programs are dealt out like cards",
            "Program 2 does not take every third offset: its 16 offsets are neighbours.",
        ),
        wrong_answer(
            (2, 17, 16),
            "the program number is added, not multiplied",
            "The block starts at program_id * 16, not at program_id.",
        ),
        *(
            wrong_answer(
                answer,
                "programs are counted from 1",
                "The first program has number 0, so program 2 is the third one.",
            )
            for answer in ((16, 31, 16), (17, 32, 16))
        ),
        *(
            wrong_answer(
                answer,
                "the mask is taken for a shorter block",
                "tl.arange always gives 16 offsets. The mask switches some of them off; the last "
                "offset is still the last of the block.",
            )
            for answer in ((32, 43, 12), (32, 44, 12), (32, 43, 11))
        ),
        wrong_answer(
            (32, 48, 12),
            "the end is counted in",
            "tl.arange(0, 16) ends with 15: the last offset is 32 + 15.",
        ),
        wrong_answer(
            (32, 47, 16),
            "the mask is forgotten",
            "The vector has 44 numbers: not all of the 16 offsets are below 44.",
        ),
        wrong_answer(
            (32, 47, 13),
            "the offset 44 is counted in",
            "44 numbers have the offsets 0 to 43: the mask is offsets < 44.",
        ),
    ),
)


# --- 5.2 ----------------------------------------------------------------------------------------


def _vector_cases(rng: Generator) -> list[Case]:
    def pair(n: int) -> tuple[Any, Any]:
        return _tensor(rng.standard_normal(n)), _tensor(rng.standard_normal(n))

    return [
        Case("64 numbers in blocks of 16: four full blocks", pair(64), {"block": 16}),
        Case("70 numbers in blocks of 16: the last block is short", pair(70), {"block": 16}),
        Case("5 numbers in a block of 64: one block, mostly empty", pair(5), {"block": 64}),
        Case(
            "200 numbers in blocks of 64, counted",
            pair(200),
            {"block": 64},
            counted=True,
            compiled=True,
        ),
    ]


def _each_number_once(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask that n numbers of x and of y were loaded and n sums stored, 12 bytes per sum."""
    ledger = observed.ledger
    if not case.counted or ledger is None or ledger.total == 12 * expected.size:
        return None
    return Finding(
        "loads each number once",
        f"the sums are right, but the kernel moves {ledger.total} bytes where "
        f"{12 * expected.size} are enough: 4 for each number of x, of y and of the result.",
        picture=TrafficBars.of(
            "loads and stores", {"all": ledger.total}, {"all": 12 * expected.size}
        ),
    )


def _every_program_works(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask that no program finds its whole block masked."""
    ledger = observed.ledger
    if not case.counted or ledger is None:
        return None
    started = sum(int(np.prod(launch.grid)) for launch in ledger.launches)
    working = len({visit.program for visit in ledger.visits})
    if started <= working * len(ledger.launches):
        return None
    return Finding(
        "every program has work",
        f"the sums are right, but {started} programs were started and only {working} of them "
        "touch memory: a program owns a block, not one number. n / block programs, rounded up, "
        "are enough.",
    )


def _all_written(case: Case, observed: Observed, expected: np.ndarray) -> Finding | None:
    """Ask that every entry was written (unwritten memory is NaN), and say why if not."""
    got = as_float64(observed.result) if faults.is_tensor(observed.result) else None
    if got is None or got.shape != expected.shape or not np.isnan(got).any():
        return None
    n, block = expected.size, case.kwargs["block"]
    missing = np.flatnonzero(np.isnan(got))
    reasons = {
        n // block * block: "The number of programs must be n / block, rounded up.",
        n - 1: "The last offset is n - 1: it passes the mask offsets < n.",
        block: "Do all programs work on the first block? Offsets depend on tl.program_id(0).",
        block - 1 + -(-n // block): "Blocks start at program_id * BLOCK, not at program_id: a "
        "program is not a thread.",
    }
    to_the_end = missing.size == n - missing[0]
    return Finding(
        "writes every entry",
        f"{missing.size} of {n} entries were never written, the first at offset {missing[0]}. "
        + (reasons.get(int(missing[0]), "") if to_the_end else ""),
        picture=error_map(got, expected, np.inf, "the result"),
    )


def _one_stands_still(x: Any, y: Any, block: int, swap: bool) -> np.ndarray:
    x, y = as_float64(x), as_float64(y)
    x, y = (y, x) if swap else (x, y)
    return x + np.resize(y[:block], y.size)


VECTOR_ADD = Exercise(
    id="5.2",
    function="vector_add",
    signature="(x, y, *, block=64)",
    title="Add two vectors of any length",
    minutes=8,
    points=2,
    hints=(
        "Program number pid owns the offsets pid * block, pid * block + 1, ... "
        "Build them with tl.arange.",
        "The last program owns offsets past the end: compare the offsets with n. The number of "
        "programs is n / block, rounded up: triton.cdiv(n, block).",
        "at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), and mask=at < n in both loads and "
        "in the store.",
    ),
    cases=_vector_cases,
    truth=lambda x, y, *, block: as_float64(x) + as_float64(y),
    judge=in_turn(_all_written, _float32("the sum", 1e-6), _each_number_once, _every_program_works),
    notice="Without the mask the last program writes past the end of the output. On a GPU "
    "nothing stops it: it would silently change somebody else's numbers.",
    kind="kernel",
    mistakes=(
        Mistake(
            "x is added to itself",
            "Both loads read x: the second must read y.",
            lambda x, y, *, block: 2 * as_float64(x),
        ),
        *(
            Mistake(
                "one vector is read without the program's offset",
                "Every program reads the first block of it: both loads need the same offsets.",
                lambda x, y, *, block, swap=swap: _one_stands_still(x, y, block, swap),
            )
            for swap in (False, True)
        ),
    ),
)


# --- 5.3 ----------------------------------------------------------------------------------------


def _softmax(x: Any) -> np.ndarray:
    x = as_float64(x)
    p = np.exp(x - x.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def _row_cases(rng: Generator) -> list[Case]:
    def drawn(rows: int, n: int, size: float = 2.0, around: float = 0.0) -> Any:
        return _tensor(around + size * rng.standard_normal((rows, n)))

    n = int(rng.integers(18, 30))
    return [
        Case("5 rows of 32 scores: a full block", (drawn(5, 32),)),
        Case("6 rows of 37 scores, in blocks of 64", (drawn(6, 37),)),
        Case("4 rows of 20 scores, some above +100, some below -100", (drawn(4, 20, size=90),)),
        Case("4 rows of 50 scores, all of them negative, near -120", (drawn(4, 50, around=-120),)),
        Case("2 rows of 3 scores", (drawn(2, 3),)),
        Case(
            f"5 rows of {n} scores that are a part of a wider table", (drawn(5, 64)[:, 7 : 7 + n],)
        ),
        Case("3 rows of 100 scores", (drawn(3, 100),), compiled=True),
    ]


def _padded_with_zeros(x: Any, *, in_max: bool = True, in_sum: bool = True) -> np.ndarray:
    """Softmax of a row in a block of a power of two whose rest has score 0."""
    x = as_float64(x).astype(np.float32)
    n = x.shape[1]
    padded = np.pad(x, ((0, 0), (0, (1 << (n - 1).bit_length()) - n)))
    top = (padded if in_max else x).max(axis=1, keepdims=True)
    p = np.exp(padded - top)
    return p[:, :n] / (p if in_sum else p[:, :n]).sum(axis=1, keepdims=True)


def _without_max(x: Any) -> np.ndarray:
    p = np.exp(as_float64(x).astype(np.float32))
    return p / p.sum(axis=1, keepdims=True)


def _weighed(x: Any, wrong: Any) -> np.ndarray:
    """Return ``wrong`` of the scores below their maximum; None: divide by the scores' sum."""
    x = as_float64(x)
    s = x - x.max(axis=1, keepdims=True)
    return np.exp(s) / x.sum(axis=1, keepdims=True) if wrong is None else wrong(s)


ROW_SOFTMAX = Exercise(
    id="5.3",
    function="row_softmax",
    signature="(x)",
    title="The softmax of each row, one program per row",
    minutes=8,
    points=3,
    hints=(
        "The block is longer than the row. Which score must the empty places have, so that they "
        "change neither the maximum nor the sum?",
        "Load with mask= and other=float('-inf'). Then the maximum, exp of the difference, the "
        "sum, the quotient. tl.max(s, 0) is the largest entry of a block.",
        "p = tl.exp(s - tl.max(s, 0)); the stored row is p / tl.sum(p, 0). The row starts at "
        "x + row * x_row; the store needs the mask too.",
    ),
    cases=_row_cases,
    truth=_softmax,
    judge=_float32("the softmax", 1e-5),
    notice="A masked score is -inf, not 0. exp(-inf) is 0, so the empty places weigh nothing, "
    "and -inf is never the maximum. exp(0) is 1: a score of 0 would have counted.",
    kind="kernel",
    mistakes=(
        Mistake(
            "masked means score zero",
            "The empty places of the block entered with score 0 and weight exp(0 - max). Load "
            "them as -inf.",
            _padded_with_zeros,
        ),
        Mistake(
            "masked means score zero",
            "The empty places of the block entered the sum with weight exp(0 - max). Load them "
            "as -inf.",
            lambda x: _padded_with_zeros(x, in_max=False),
        ),
        Mistake(
            "masked means score zero",
            "The empty places entered the maximum with score 0. In a row of very negative scores "
            "every exponential is then 0. Load them as -inf.",
            lambda x: _padded_with_zeros(x, in_sum=False),
        ),
        Mistake(
            "no maximum is subtracted",
            "exp of a large score is infinite, and inf / inf is NaN. Subtract the row's maximum "
            "before exp.",
            _without_max,
        ),
        Mistake(
            "not divided by the sum",
            "The exponentials are not divided by their sum: each row must add up to 1.",
            lambda x: np.exp(as_float64(x) - as_float64(x).max(axis=1, keepdims=True)),
        ),
        *(
            Mistake(name, says, lambda x, wrong=wrong: _weighed(x, wrong))
            for name, says, wrong in (
                (
                    "2 in place of e",
                    "tl.exp2 is a power of 2: exp2(s) is exp(s * ln 2). Use tl.exp, or multiply "
                    "the scores by log2(e) first.",
                    lambda s: np.exp2(s) / np.exp2(s).sum(axis=1, keepdims=True),
                ),
                (
                    "divided by the sum of the scores",
                    "The sum is taken of the scores: add up the exponentials, p.",
                    None,
                ),
                (
                    "the logarithm of the softmax",
                    "This is s - max - log(sum): the weights themselves are p / sum(p).",
                    lambda s: s - np.log(np.exp(s).sum(axis=1, keepdims=True)),
                ),
            )
        ),
        Mistake(
            "every program works on the first row",
            "The address does not depend on tl.program_id(0): the row starts at row * x_row.",
            lambda x: np.repeat(_softmax(x)[:1], len(x), axis=0),
        ),
    ),
)


# --- 5.4 ----------------------------------------------------------------------------------------


def _logsumexp(x: Any, *, block: int = 64) -> np.ndarray:
    x = as_float64(x)
    m = x.max(axis=1)
    return m + np.log(np.exp(x - m[:, None]).sum(axis=1))


def _long_cases(rng: Generator) -> list[Case]:
    def drawn(rows: int, n: int, around: float = 0.0, rise: float = 0.0) -> Any:
        return _tensor(around + np.linspace(0, rise, n) + rng.standard_normal((rows, n)))

    by_hand = _tensor([[1, 3, 2, 5], [2, 5, 1, 3]])
    return [
        Case("the rows [1, 3, 2, 5] and [2, 5, 1, 3] in blocks of 2", (by_hand,), {"block": 2}),
        Case("3 rows of 64 rising scores in blocks of 16", (drawn(3, 64, rise=6),), {"block": 16}),
        Case(
            "3 rows of 70 scores, all negative; the last of 5 blocks is short",
            (drawn(3, 70, around=-8),),
            {"block": 16},
        ),
        Case("2 rows of 150 scores near +100", (drawn(2, 150, around=100),), {"block": 64}),
        Case(
            "2 rows of 150 scores that fall from +100 to -100",
            (drawn(2, 150, around=100, rise=-200),),
            {"block": 64},
        ),
        Case("2 rows of 200 scores near -150", (drawn(2, 200, around=-150),), {"block": 64}),
        Case("3 rows of 5 scores in one block of 64", (drawn(3, 5),), {"block": 64}),
        Case(
            "3 rows of 90 scores that are a part of a wider table",
            (drawn(3, 128, rise=5)[:, 9:99],),
            {"block": 32},
            compiled=True,
        ),
    ]


def _streamed(
    x: Any,
    *,
    block: int = 64,
    rescale: int = 1,
    own_max: bool = False,
    latest_max: bool = False,
    keep_max: bool = False,
    start: float = -np.inf,
    use_max: bool = True,
    pad: float = -np.inf,
    drop_tail: bool = False,
    first_only: bool = False,
    base: float = math.e,
    new_too: bool = False,
    forget: bool = False,
    ending: Any = lambda m, l_sum: m + np.log(l_sum),
) -> np.ndarray:
    """Log-sum-exp in a loop, in float32, as somebody with the named mistake writes it.

    ``rescale`` is the power of alpha: 1 is right, 0 forgets it, -1 inverts it. ``new_too``: the
    new block is rescaled as well; ``forget``: the old sum is dropped.
    """
    x = (as_float64(x) * np.log(base)).astype(np.float32)
    n = x.shape[1]
    x = x[:, : n // block * block] if drop_tail else x
    x = x[:, :block] if first_only else x
    x = np.pad(x, ((0, 0), (0, -x.shape[1] % block)), constant_values=pad)
    m, l_sum = np.full(len(x), start, np.float32), np.zeros(len(x), np.float32)
    for s in np.split(x, x.shape[1] // block, axis=1):
        top = s.max(axis=1)
        m_new = top if latest_max else np.maximum(m, top) if use_max else np.zeros_like(m)
        alpha = np.exp(m - m_new) if use_max else np.ones_like(m)
        if rescale != 1:  # before the first block there is nothing to rescale
            alpha = np.where(np.isneginf(m), 1, alpha) ** rescale
        new = np.exp(s - (top if own_max else m_new)[:, None]).sum(axis=1)
        l_sum = (l_sum + new) * alpha if new_too else new if forget else l_sum * alpha + new
        m = m if keep_max else m_new
    return ending(m if use_max else np.zeros_like(m), l_sum)


def _long(name: str, says: str, **flags: Any) -> Mistake:
    return Mistake(name, says, lambda x, *, block=64: _streamed(x, block=block, **flags))


LONG_LOGSUMEXP = Exercise(
    id="5.4",
    function="long_logsumexp",
    signature="(x, *, block=64)",
    title="The log-sum-exp of a long row, block by block",
    minutes=12,
    points=4,
    hints=(
        "It is lesson 03's walk with blocks for piles. Two numbers stay on the desk from block "
        "to block: m and l_sum. Here there is no O.",
        "In the loop: load a block with other=float('-inf'), m_new, alpha = exp(m - m_new), then "
        "l_sum * alpha plus the block's own sum, and m = m_new. After the loop: m + log(l_sum).",
        "m_new = tl.maximum(m, tl.max(s, 0)) and then "
        "l_sum = l_sum * tl.exp(m - m_new) + tl.sum(tl.exp(s - m_new), 0).",
    ),
    cases=_long_cases,
    truth=_logsumexp,
    judge=_float32("the log-sum-exp", 2e-6),
    notice="The row may have any length, the program holds one block of it. These are lesson "
    "03's two lines. FlashAttention's loop adds one more: acc is rescaled by the same alpha.",
    kind="kernel",
    mistakes=(
        _long(
            "l_sum is not rescaled",
            "When a new maximum arrives, the old sum is measured against the old one: multiply "
            "it by alpha = exp(m - m_new).",
            rescale=0,
        ),
        _long(
            "alpha is inverted",
            "alpha is exp(m_new - m): the past grows where it should shrink. "
            "alpha = exp(m - m_new) is never above 1.",
            rescale=-1,
        ),
        _long(
            "each block uses its own maximum",
            "The exponentials of a block are measured against that block's maximum. Measure "
            "them against m_new, the maximum so far.",
            own_max=True,
        ),
        _long(
            "m forgets the earlier blocks",
            "The new maximum is that of the last block only. Where scores fall far, alpha "
            "overflows: take the larger of it and m.",
            latest_max=True,
        ),
        _long(
            "the maximum starts at 0",
            "m starts at 0: near -150 every exp(s - 0) is 0. Start at -inf.",
            start=0.0,
        ),
        _long(
            "no maximum is subtracted",
            "Without a maximum, exp overflows near +100 and vanishes near -150.",
            use_max=False,
        ),
        _long(
            "masked means score zero",
            "The empty places of the last block entered with score 0. Load them as -inf.",
            pad=0.0,
        ),
        _long(
            "the short last block is left out",
            "The loop ends before the last, short block: range(0, n, BLOCK) reaches it.",
            drop_tail=True,
        ),
        _long(
            "only the first block counts",
            "The loop must go on to the end of the row: range(0, n_cols, BLOCK).",
            first_only=True,
        ),
        _long(
            "only the last block counts",
            "l_sum is set anew in each block: add the block's sum to what was there.",
            forget=True,
        ),
        _long(
            "the new block is rescaled as well",
            "alpha brings the old sum to the new maximum; the new block is measured against it "
            "already: l_sum * alpha + the block's sum.",
            new_too=True,
        ),
        *(
            _long(
                "2 in place of e",
                "tl.exp2 is a power of 2: use tl.exp and tl.log, or multiply the scores by "
                "log2(e) first and the result by ln 2.",
                base=2.0,
                ending=ending,
            )
            for ending in (
                lambda m, l_sum: m / np.log(2) + np.log2(l_sum),
                lambda m, l_sum: m / np.log(2) + np.log(l_sum),
            )
        ),
        _long(
            "the sum is missing",
            "m is the largest score only: add log(l_sum).",
            ending=lambda m, l_sum: m,
        ),
        _long(
            "the logarithm is missing",
            "The answer is m + log(l_sum), not m + l_sum.",
            ending=lambda m, l_sum: m + l_sum,
        ),
        _long(
            "the maximum is missing",
            "log(l_sum) is measured against m: add m at the end.",
            ending=lambda m, l_sum: np.log(l_sum),
        ),
        _long(
            "the logarithm has base 2",
            "tl.log2 is the logarithm to base 2: use tl.log.",
            ending=lambda m, l_sum: m + np.log2(l_sum),
        ),
        _long(
            "m is never updated",
            "The loop ends without m = m_new, so the next block sees the old maximum.",
            keep_max=True,
        ),
        Mistake(  # the last one, since other things give NaN too
            "alpha is inverted",
            "If alpha is exp(m_new - m), it is infinite before the first block, and inf * 0 is "
            "NaN. alpha = exp(m - m_new) is never above 1.",
            lambda x, *, block=64: np.full(len(x), np.nan),
        ),
    ),
)

EXERCISES = (OFFSETS, VECTOR_ADD, ROW_SOFTMAX, LONG_LOGSUMEXP)
