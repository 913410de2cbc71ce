"""Prefix-LM: the first keys are seen by everybody, the rest is causal (Raffel et al. 2020)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from numpy.random import Generator

from course_lib.judging.spec import table
from course_lib.specs.variants.rule import Array, Rule, past
from course_lib.specs.variants.variant import Variant, aligned_at_start, picture

_TASK = """\
The first {n} keys are a prefix that every query sees, even those that stand before its end. All
other keys are causal, aligned at the end: query `i` stands at place `p = i + n_k - n_q` and sees
key `j` if

$$j < {n} \\quad\\text{{or}}\\quad j \\le p.$$

There is no argument `causal`: this mask always holds. Tiles of keys that no query of a tile sees
are neither loaded nor computed, and the grader counts the bytes: mind where the loop ends for the
first tiles. Everything else is as in 7★. There may be fewer than {n} keys."""


def _prefix(n: int) -> Callable[[Array, Array], Array]:
    return lambda position, key: (key < n) | (key <= position)


def make(rng: Generator) -> Variant:
    """Return a prefix of 17 to 95 keys that is no multiple of 16."""
    n = 16 * int(rng.integers(1, 6)) + int(rng.integers(1, 16))
    rule = Rule(allowed=_prefix(n))
    return Variant(
        kind="prefix",
        title=f"A prefix of {n} keys that all see",
        task=_TASK.format(n=n),
        example="the same with a prefix of 3, 6 queries and 6 keys\n"
        + picture(Rule(allowed=_prefix(3)), 6, 6),
        rule=rule,
        slips=_slips(rule, n),
        hints=(
            "Two reasons to see a key, and either is enough: how is `or` written for tensors?",
            f"In the first tiles of queries the causal loop would end before key {n}: the prefix "
            "has to be reached there too, and not passed.",
            f"seen = (keys < {n}) | (keys <= rows + n_k - n_q), and the loop ends at the larger "
            f"of {n} and the causal end, at most n_k.",
        ),
        notice="The loop's end is the larger of two ends, and the mask an `or`. Nothing else "
        "changed.",
        takes_causal=False,
        reach=n,
    )


def _slips(rule: Rule, n: int) -> tuple[tuple[str, str, Rule], ...]:
    return table(
        ("the prefix is missing",
         "the first queries do not see the whole prefix: this is the causal mask alone.",
         replace(rule, allowed=past)),
        ("all masks are missing", "every query sees every key.", replace(rule, allowed=None)),
        ("the prefix is one key too long",
         f"key {n} is not in the prefix: keys are counted from 0.",
         replace(rule, allowed=_prefix(n + 1))),
        ("the prefix is one key too short", f"key {n - 1} is the last of the prefix.",
         replace(rule, allowed=_prefix(n - 1))),
        ("only the prefix is seen",
         "beyond the prefix, queries see the keys up to their own place.",
         replace(rule, allowed=lambda position, key: (key < n) & (position >= -(1 << 40)))),
        ("the causal part is one key too strict", "a query sees its own key: <= and not <.",
         replace(rule, allowed=lambda position, key: (key < n) | (key < position))),
        ("the causal part is one key too generous", "a query sees one key of the future.",
         replace(rule, allowed=lambda position, key: (key < n) | (key <= position + 1))),
        aligned_at_start("the mask", rule),
    )  # fmt: skip
