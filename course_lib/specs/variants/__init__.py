"""Seeded variants of 7★: the same kernel with one thing changed, since its solution is public.

``exercise("7-star:SEED")`` is a whole exercise with its own truth, checks and mistakes. The seed
decides the kind and its parameters, and nothing else: inputs are drawn anew in each check, and in
grading from the instructor's secret. To add a kind, write a file with ``make(rng) -> Variant``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import cache, partial

import numpy as np
from numpy.random import Generator

from course_lib.judging.spec import Exercise
from course_lib.specs.variants import alibi, document, prefix, sink, soft_cap, window
from course_lib.specs.variants.cases import cases
from course_lib.specs.variants.judge import judge
from course_lib.specs.variants.mistakes import mistakes
from course_lib.specs.variants.rule import attend
from course_lib.specs.variants.variant import Variant

BASE = "7-star"
FUNCTION = "flash_variant"
KINDS: dict[str, Callable[[Generator], Variant]] = {
    "soft-cap": soft_cap.make,
    "sink": sink.make,
    "window": window.make,
    "prefix": prefix.make,
    "document": document.make,
    "alibi": alibi.make,
}
_SEED = re.compile(r"[A-Za-z0-9_-]{1,32}")


def variant(seed: str) -> Variant:
    """Return the variant that ``seed`` chooses. Raises ValueError if it is no seed."""
    if not _SEED.fullmatch(seed):
        raise ValueError(
            f"A seed is 1 to 32 letters, digits, hyphens and underscores, got {seed!r}."
        )
    number = int.from_bytes(hashlib.sha256(f"{BASE}:{seed}".encode()).digest())
    rng = np.random.default_rng(number)
    return KINDS[list(KINDS)[int(rng.integers(len(KINDS)))]](rng)


@cache
def exercise(name: str) -> Exercise:
    """Return the exercise called ``7-star:SEED``. Raises ValueError if that names none."""
    base, _, seed = name.strip().replace("★", "-star").removeprefix("ex-").partition(":")
    if base != BASE:
        raise ValueError(f"Only {BASE} has variants: write {BASE}:SEED, got {name!r}.")
    return exercise_of(variant(seed), f"{BASE}:{seed}")


def exercise_of(made: Variant, name: str) -> Exercise:
    """Return the exercise that asks for a variant, under the id ``name``."""
    return Exercise(
        id=name,
        function=FUNCTION,
        signature=made.signature,
        title=made.title,
        minutes=30,
        points=8,
        hints=made.hints,
        cases=partial(cases, made),
        truth=partial(attend, made.rule),
        judge=judge(made),
        notice=made.notice,
        kind="kernel",
        mistakes=mistakes(made),
    )
