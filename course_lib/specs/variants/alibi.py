"""A bias for distance, with a slope per head (ALiBi: Press et al. 2022, section 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.random import Generator

from course_lib.judging.spec import table
from course_lib.specs.variants.rule import Array, Rule, Score, unchanged
from course_lib.specs.variants.variant import Variant

_TASK = """\
Every scaled score loses something for the distance between query and key. Query `i` stands at
place `p = i + n_k - n_q` (aligned at the end), and head `h` of `H` (counted from 0) has a slope of
its own:

$$S_{{ij}} = \\frac{{q_i \\cdot k_j}}{{\\sqrt d}} - 2^{{-{base} (h + 1) / H}} \\cdot |p - j|.$$

The slopes are computed inside the kernel from `h` and `H`. Everything else is as in 7★: `causal`
hides the keys of the future; without it, distance counts in both directions."""


def _biased(
    base: float, distance: Callable[[Array, Array], Array] = lambda p, j: abs(p - j)
) -> Score:
    return lambda s, position, key, head: (
        s - 2.0 ** (-base * (head[0] + 1) / head[1]) * distance(position, key)
    )


def make(rng: Generator) -> Variant:
    """Return slopes from 2 ** -base, base one of 2, 2.5, ..., 6."""
    base = float(rng.integers(4, 13)) / 2
    rule = Rule(score=_biased(base))
    return Variant(
        kind="alibi",
        title=f"A bias for distance, slopes from 2^(-{base:g} (h + 1) / H)",
        task=_TASK.format(base=f"{base:g}"),
        example=_example(base),
        rule=rule,
        slips=_slips(rule, base),
        hints=(
            "The bias of a tile comes from the same row and key numbers as the causal mask.",
            "tl.exp2 gives the slope, once before the loop; head + 1 divided by the number of "
            "heads is a float.",
            f"slope = tl.exp2(-{base:g} * (head + 1) / heads); in the loop, after the scale: "
            "s -= slope * tl.abs(rows[:, None] + n_k - n_q - keys[None, :]).",
        ),
        notice="A bias that can be computed from row and key numbers costs no bytes at all: a "
        "tensor of N x N biases would cost as many as the scores that you never wrote.",
        reach=60,
    )


def _slips(rule: Rule, base: float) -> tuple[tuple[str, str, Rule], ...]:
    def scored(score: Score) -> Rule:
        return replace(rule, score=score)

    right = _biased(base)
    return table(
        ("the bias is missing", "distance makes no difference.", scored(unchanged)),
        ("the bias has the wrong sign", "far keys gain: distance is to be subtracted.",
         scored(_biased(base, lambda p, j: -abs(p - j)))),
        ("the distance has a sign",
         "keys of the future gain by their distance: take its absolute value.",
         scored(_biased(base, lambda p, j: p - j))),
        ("the bias comes before the scale",
         "the bias is divided by sqrt(d) together with q·k: scale first.",
         replace(rule, when="before the scale")),
        ("all heads have one slope", "each head has a slope of its own, from its number h.",
         scored(lambda s, p, j, head: right(s, p, j, (0, head[1])))),
        ("slopes are counted from 0",
         "head h has the exponent h + 1: the first head's slope is not 1.",
         scored(lambda s, p, j, head: right(s, p, j, (head[0] - 1, head[1])))),
        ("the slope is a power of e", "slopes are powers of 2: tl.exp2, not tl.exp.",
         scored(_biased(base / np.log(2.0)))),
        ("the bias is aligned at the start",
         "with n_q != n_k the last query stands at the last key: add n_k - n_q.",
         scored(lambda s, p, j, head: right(s, p - p[0], j, head))),
    )  # fmt: skip


def _example(base: float) -> str:
    lines = ["the last of 4 queries, 4 keys, 2 heads: what is subtracted from its scores"]
    for head in range(2):
        slope = 2.0 ** (-base * (head + 1) / 2)
        taken = "  ".join(f"{slope * distance:.5f}" for distance in (3, 2, 1, 0))
        lines.append(f"head {head}  slope {slope:.5f}   {taken}")
    return "\n".join(lines)
