"""Attention sinks: learned scores without a value that take part in each row's sum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from course_lib.judging.spec import table
from course_lib.specs.variants.rule import Array, Rule, attend
from course_lib.specs.variants.variant import Variant

_TASK = """\
A fourth tensor, `sinks`, holds {n} numbers for each query head: shape `(H, {n})`, float32. They act
as {n} more scores in every row of that head. They are neither scaled nor masked, and there is no
value that belongs to them: they take weight away from the keys and give nothing back.

$$\\ell_i = \\sum_j e^{{S_{{ij}} - m_i}}
+ \\sum_{{t=1}}^{{{n}}} e^{{\\mathrm{{sink}}_{{ht}} - m_i}},
\\qquad O_i = \\frac{{1}}{{\\ell_i}} \\sum_j e^{{S_{{ij}} - m_i}} V_j,
\\qquad \\mathrm{{lse}}_i = m_i + \\ln \\ell_i.$$

Everything else is as in 7★. A row that sees no key has O = 0, and its `lse` comes from the sinks
alone. Where all scores are far below the sinks, or far above them, nothing may overflow."""


def _mass(sinks: Array, m: Array) -> Array:
    return np.exp(sinks - m).sum(axis=-1, keepdims=True)


def make(rng: Generator) -> Variant:
    """Return 2 to 9 sinks a head."""
    n = int(rng.integers(2, 10))
    rule = Rule(sink=_mass)
    return Variant(
        kind="sink",
        title=f"{n} attention sinks in every row",
        task=_TASK.format(n=n),
        example=_example(rule),
        rule=rule,
        slips=_slips(rule),
        hints=(
            "A sink is a key that is always visible and whose value is zero. Which of m, l_sum "
            "and acc does it touch?",
            "Begin with what the sinks alone would give: m is their maximum, l_sum the sum of "
            "their exponentials below it, acc is 0.",
            f"Before the loop: load the head's {n} sinks (a mask and other=-inf fill the power "
            "of two), top = tl.max(sink, 0), m = tl.full(..., top), l_sum = tl.sum(tl.exp(sink - "
            "top), 0).",
        ),
        notice="A sink is one more pile with no value: the merge of lesson 03 takes it in at the "
        "beginning or at the end.",
        n_sinks=n,
    )


def _slips(rule: Rule) -> tuple[tuple[str, str, Rule], ...]:
    return table(
        ("the sinks are missing", "the sinks change nothing.", replace(rule, sink=None)),
        ("the sinks are added without the maximum",
         "l_sum holds exp(s - m), and exp(sink) was added to it: subtract m there as well.",
         replace(rule, sink=lambda sinks, m: np.exp(sinks).sum() + 0 * m, sink_in_max=False)),
        ("the sinks are added as they are",
         "a sink is a score: its exponential belongs to the sum.",
         replace(rule, sink=lambda sinks, m: sinks.sum() + 0 * m, sink_in_max=False)),
        ("the sinks do not count for the maximum",
         "where the sinks stand far above the scores, exp(sink - m) overflows: m is the maximum "
         "of both.",
         replace(rule, sink_in_max=False)),
        ("only the first sink counts",
         "each head has several sinks: all of them belong to the sum.",
         replace(rule, sink=lambda sinks, m: _mass(sinks[:1], m))),
        ("all heads use the first head's sinks", "each query head has its own row of sinks.",
         replace(rule, sinks_of="the first head")),
        ("lse lacks the sinks",
         "o is divided by the sum with the sinks, but lse comes from the sum without them.",
         replace(rule, sink_in_lse=False)),
    )  # fmt: skip


def _example(rule: Rule) -> str:
    """Return the weights of two keys with and without one sink, by the rule itself."""
    q, k = np.ones((1, 1, 1, 1)), np.array([1.0, 2.0]).reshape(1, 1, 2, 1)
    v = np.eye(2).reshape(1, 1, 2, 2)
    lines = ["scores 1 and 2, and one sink of 0"]
    for name, sinks in (("without", None), ("with", np.zeros((1, 1)))):
        weights = [attend(rule, q, k, v[..., j : j + 1], sinks)[0].item() for j in range(2)]
        lse = attend(rule, q, k, v[..., :1], sinks)[1].item()
        text = "  ".join(f"{w:.4f}" for w in weights)
        lines.append(f"{name:8} weights {text}  (together {sum(weights):.4f})  lse {lse:.4f}")
    return "\n".join(lines)
