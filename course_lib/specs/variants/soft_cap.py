"""Soft-cap: scores are squeezed into (-cap, cap) before the mask (Gemma 2, section 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.random import Generator

from course_lib.judging.spec import table
from course_lib.specs.variants.rule import Array, Rule
from course_lib.specs.variants.variant import Variant

_TASK = """\
Every scaled score is squeezed into the range from −{cap} to {cap}, and only then masked:

$$S_{{ij}} = {cap} \\cdot \\tanh\\!\\left(\\frac{{q_i \\cdot k_j}}{{{cap}\\,\\sqrt d}}\\right).$$

Small scores hardly change, large ones never pass {cap}. Everything else is as in 7★: `causal`
hides the keys of the future, and `lse` is the natural logarithm of the sum of the exponentials of
these squeezed scores."""


def make(rng: Generator) -> Variant:
    """Return a soft-cap with a cap drawn from 4, 4.5, ..., 30."""
    cap = float(rng.integers(8, 61)) / 2
    rule = Rule(score=_capped(lambda s: cap * np.tanh(s / cap)))
    return Variant(
        kind="soft-cap",
        title=f"Scores with a soft-cap of {cap:g}",
        task=_TASK.format(cap=f"{cap:g}"),
        example=_example(cap),
        rule=rule,
        slips=_slips(rule, cap),
        hints=(
            "Where in your loop is a score finished, but not yet masked?",
            "Triton's interpreter has no tanh. tanh(x) = 2 * sigmoid(2x) - 1, and tl.sigmoid "
            "exists.",
            f"s = {cap:g} * (2 * tl.sigmoid(2 * s / {cap:g}) - 1), after the scale and before "
            "tl.where.",
        ),
        notice="One line in the right place. A cap that comes after the mask would give hidden "
        "keys the score -cap, which is a weight.",
    )


def _capped(squeeze: Callable[[Array], Array]) -> Callable[..., Array]:
    return lambda s, _position, _key, _head: squeeze(s)


def _slips(rule: Rule, cap: float) -> tuple[tuple[str, str, Rule], ...]:
    def squeezed(by: Callable[[Array], Array]) -> Rule:
        return replace(rule, score=_capped(by))

    return table(
        ("the soft-cap is missing", "the scores are used as they are, without the cap.",
         squeezed(lambda s: s)),
        ("the scores are clipped",
         "the scores are cut off at the cap: tanh bends them on the way there.",
         squeezed(lambda s: np.clip(s, -cap, cap))),
        ("tanh is not multiplied by the cap",
         "after tanh the scores lie between -1 and 1: multiply by the cap.",
         squeezed(lambda s: np.tanh(s / cap))),
        ("the scores are not divided by the cap",
         "tanh gets the score itself, so that it is full at 3: divide by the cap first.",
         squeezed(lambda s: cap * np.tanh(s))),
        ("the soft-cap comes before the scale",
         "the products q·k are capped and divided by sqrt(d) afterwards: scale first.",
         replace(rule, when="before the scale")),
        ("the soft-cap comes after the mask",
         "a hidden key has the score -inf, and the cap makes -cap of it: cap first, then mask.",
         replace(rule, when="after the mask")),
    )  # fmt: skip


def _example(cap: float) -> str:
    scores = np.array([0.0, 0.5 * cap, cap, 2 * cap, 10 * cap])
    rows = {"scaled score": scores, "with the cap": cap * np.tanh(scores / cap)}
    return "\n".join(f"{name:14}" + "".join(f"{x:9.3f}" for x in xs) for name, xs in rows.items())
