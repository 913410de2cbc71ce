"""Sliding window: causal, and only so many keys back (Jiang et al. 2023, section 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from numpy.random import Generator

from course_lib.judging.spec import table
from course_lib.specs.variants.rule import Array, Rule, past
from course_lib.specs.variants.variant import Variant, aligned_at_start, picture

_TASK = """\
A query sees its own key and the {before} before it, {width} in all, and nothing of the future. The
mask is aligned at the end: query `i` stands at place `p = i + n_k - n_q` and sees key `j` if

$$p - {width} < j \\le p.$$

There is no argument `causal`: this mask always holds. Tiles of keys that no query of a tile sees,
**before** the window as well as after it, are neither loaded nor computed, and the grader counts
the bytes. Everything else is as in 7★. A row that sees no key has O = 0 and `lse` = −∞."""


def _window(first: int, last: int) -> Callable[[Array, Array], Array]:
    """Return the mask of keys from ``first`` to ``last`` steps back (0: the own place)."""
    return lambda position, key: (position - key <= first) & (position - key >= last)


def make(rng: Generator) -> Variant:
    """Return a window of 17 to 95 keys that is no multiple of 16."""
    width = 16 * int(rng.integers(1, 6)) + int(rng.integers(1, 16))
    rule = Rule(allowed=_window(width - 1, 0))
    return Variant(
        kind="window",
        title=f"A sliding window of {width} keys",
        task=_TASK.format(width=width, before=width - 1),
        example="the same with a window of 3, 4 queries and 6 keys\n"
        + picture(Rule(allowed=_window(2, 0)), 4, 6),
        rule=rule,
        slips=_slips(rule, width),
        hints=(
            "Causal attention needs an end for the loop. What does a window need besides?",
            "The tile's first row stands at tile * BLOCK_Q + n_k - n_q: its window begins "
            f"{width - 1} keys before that, and never before 0.",
            f"first = tl.maximum(0, tile * BLOCK_Q + n_k - n_q - {width - 1}); the loop starts at "
            "first // BLOCK_K * BLOCK_K. A row may meet a tile in which it sees nothing: m is "
            "still -inf there.",
        ),
        notice="Each query tile now touches a fixed number of key tiles, however long the "
        "sequence is: linear instead of quadratic.",
        takes_causal=False,
        reach=width,
    )


def _slips(rule: Rule, width: int) -> tuple[tuple[str, str, Rule], ...]:
    def allowed(first: int, last: int) -> Rule:
        return replace(rule, allowed=_window(first, last))

    return table(
        ("the window is missing",
         "every key up to the query's own place is seen: the causal mask without the window.",
         replace(rule, allowed=past)),
        ("all masks are missing", "every query sees every key.", replace(rule, allowed=None)),
        ("the window is one key too narrow",
         f"a query sees {width - 1} keys: its own place counts, so the farthest is "
         f"{width - 1} back.",
         allowed(width - 2, 0)),
        ("the window is one key too wide",
         f"a query sees {width + 1} keys, its own among them: compare with < and not <=.",
         allowed(width, 0)),
        ("a query does not see its own key", "the query's own place belongs to the window.",
         allowed(width - 1, 1)),
        ("the window shows the future",
         "the keys after the query's own place are seen: the mask is causal as well.",
         allowed(width - 1, -(1 << 40))),
        aligned_at_start("the window", rule),
    )  # fmt: skip
