"""8.2a: predict masked tiles and loads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.random import Generator

from course_lib.accounting.traffic import derived_counts
from course_lib.judging.finding import Finding
from course_lib.judging.judges import exactly
from course_lib.judging.spec import HARD, Case, Exercise, Mistake, Observed


def _counts(n: int, block_q: int, block_k: int) -> tuple[int, int]:
    counts = derived_counts(n, n, block_q, block_k, causal=True)
    return counts["visited_tiles"], counts["partial_tiles"]


def _count_cases(rng: Generator) -> list[Case]:
    block, times = int(rng.choice([16, 32, 64])), int(rng.integers(3, 40))
    wide, tall = int(rng.choice([2, 4])), int(rng.choice([2, 4]))
    sizes = [
        (16, 4, 4),
        (16, 4, 1),  # with one key in a tile every slip by one shows
        (8, 1, 2),
        (block * times, block, block),
        (block * tall * times, block * tall, block),
        (block * wide * times, block, block * wide),
        (64, 64, 64),
        (int(rng.integers(300, 600)), 1, 1),  # more tiles than 16 bits count
        (128 * int(rng.integers(60, 120)), 128, 64),
    ]
    return [Case(f"n = {n}, tiles {b_q} x {b_k}", (n, b_q, b_k)) for n, b_q, b_k in sizes]


def _judge(case: Case, observed: Observed, expected: tuple[int, int]) -> Finding | None:
    """Judge two whole numbers, and say which is off and on which side."""
    finding = exactly(case, observed, expected)
    if finding is None or finding.property != "the answer":
        return finding
    counts = zip(("loaded", "masked"), observed.result, expected, strict=True)
    name, got, right = next(count for count in counts if count[1] != count[2])
    side = "many" if got > right else "few"
    return Finding("the answer", f"{name}: yours is {got:g} tiles; that is too {side}.")


Count = Callable[..., float]  # of T_q, T_k, the right counts, n, block_q, block_k


def _right_loaded(t_q: int, t_k: int, right: int, *_: int) -> int:
    return right


def _right_masked(t_q: int, t_k: int, _right: int, masked: int, *_: int) -> int:
    return masked


def _t_q(t_q: int, *_: int) -> int:
    return t_q


def _miscount(loaded: Count = _right_loaded, masked: Count = _right_masked) -> Callable[..., Any]:
    """Return a model that counts the loaded tiles otherwise, or the masked ones, or both."""

    def model(n: int, block_q: int, block_k: int) -> tuple[float, float]:
        at = (n // block_q, n // block_k, *_counts(n, block_q, block_k), n, block_q, block_k)
        return loaded(*at), masked(*at)

    return model


_COUNT_MISTAKES = (
    *Mistake.ways(
        "causal saves half",
        "half of the tiles would be right if tiles were single scores. Those on the diagonal "
        "are loaded whole: (T + 1) / 2T of all, 62.5 % at 4 x 4.",
        _miscount(lambda t_q, t_k, *_: t_q * t_k / 2),
        _miscount(lambda t_q, t_k, *_: t_q * t_k // 2, _t_q),
    ),
    Mistake(
        "the diagonal is not loaded",
        "the tiles on the diagonal hold keys that some rows see: they are loaded.",
        _miscount(lambda t_q, t_k, right, masked, *_: right - masked),
    ),
    Mistake(
        "nothing is skipped",
        "tiles of the future are not loaded.",
        _miscount(lambda t_q, t_k, *_: t_q * t_k),
    ),
    Mistake(
        "every loaded tile is masked",
        "a tile that every row sees whole needs no mask: only those at the diagonal do.",
        _miscount(masked=_right_loaded),
    ),
    Mistake(
        "the diagonal needs no mask",
        "a tile on the diagonal holds keys that its first row may not see.",
        _miscount(masked=lambda *_: 0),
    ),
    Mistake(
        "only square tiles",
        "one masked tile per tile of queries is right for square tiles only: a tall tile of "
        "queries meets the diagonal in several tiles of keys.",
        _miscount(masked=_t_q),
    ),
    *Mistake.ways(
        "only square tiles",
        "T (T + 1) / 2 is right for square tiles only.",
        _miscount(lambda t_q, *_: t_q * (t_q + 1) // 2, _t_q),
        _miscount(lambda t_q, t_k, *_: t_k * (t_k + 1) // 2, lambda t_q, t_k, *_: t_k),
    ),
    Mistake(
        "a tile that ends at the diagonal is masked",
        "a tile of keys that ends with the first row's own key is seen by every row, and needs no "
        "mask: query i sees i + 1 keys, 0 to i.",
        _miscount(
            masked=lambda t_q, t_k, right, masked, n, block_q, block_k: (
                right - sum(first // block_k for first in range(0, n, block_q))
            )
        ),
    ),
    Mistake(
        "shares, not numbers of tiles",
        "these are shares of all tiles: return how many tiles there are.",
        _miscount(
            lambda t_q, t_k, right, *_: right / (t_q * t_k),
            lambda t_q, t_k, right, masked, *_: masked / (t_q * t_k),
        ),
    ),
    Mistake(
        "the two values are exchanged",
        "return the loaded tiles first, then the masked ones.",
        _miscount(_right_masked, _right_loaded),
    ),
    Mistake(
        "full tiles, not masked ones",
        "the second number is that of the tiles that need no mask.",
        _miscount(masked=lambda t_q, t_k, right, masked, *_: right - masked),
    ),
    Mistake(
        "scores, not tiles",
        "these are single scores: count tiles.",
        _miscount(
            lambda t_q, t_k, right, masked, n, *_: n * (n + 1) // 2,
            lambda t_q, t_k, right, masked, n, *_: n,
        ),
    ),
)

COUNT = Exercise.of(
    "8.2a",
    cases=_count_cases,
    truth=_counts,
    judge=_judge,
    spared=dict.fromkeys(HARD, "counts whole tiles, by a formula"),
    mistakes=_COUNT_MISTAKES,
)
