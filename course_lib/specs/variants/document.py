"""Documents: sequences of one length, packed one after the other, that do not see each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from numpy.random import Generator

from course_lib.judging.spec import table
from course_lib.specs.variants.rule import Array, Rule, past
from course_lib.specs.variants.variant import Variant, aligned_at_start, picture

_TASK = """\
The keys are documents of {n} tokens each, one packed after the other; the last may be shorter. A
query sees the keys of its own document up to its own place, and nothing else. Query `i` stands at
place `p = i + n_k - n_q` and sees key `j` if

$$\\lfloor p / {n} \\rfloor = \\lfloor j / {n} \\rfloor \\quad\\text{{and}}\\quad j \\le p.$$

There is no argument `causal`: this mask always holds. Tiles of keys that no query of a tile sees,
those of **earlier** documents as well as those of the future, are neither loaded nor computed, and
the grader counts the bytes. Everything else is as in 7★. A row that sees no key (`p < 0`) has O = 0
and `lse` = −∞."""


def _documents(n: int, shift: int = 0) -> Callable[[Array, Array], Array]:
    """Return the causal mask inside documents of ``n`` keys, cut ``shift`` keys too late."""
    return lambda position, key: (key <= position) & ((position - shift) // n == (key - shift) // n)


def make(rng: Generator) -> Variant:
    """Return documents of 33 to 95 tokens, no multiple of 16."""
    n = 16 * int(rng.integers(2, 6)) + int(rng.integers(1, 16))
    rule = Rule(allowed=_documents(n))
    return Variant(
        kind="document",
        title=f"Documents of {n} tokens, packed",
        task=_TASK.format(n=n),
        example="the same with documents of 3 tokens, 6 queries and 8 keys\n"
        + picture(Rule(allowed=_documents(3)), 6, 8),
        rule=rule,
        slips=_slips(rule, n),
        hints=(
            "Causal attention needs an end for the loop. Which document does the tile's first row "
            "belong to, and where does that begin?",
            f"A document begins at place // {n} * {n}. Places may be negative when there are more "
            "queries than keys: such rows see nothing.",
            f"first = tl.maximum(0, tile * BLOCK_Q + n_k - n_q) // {n} * {n}; the loop starts at "
            "first // BLOCK_K * BLOCK_K. A row may meet a tile in which it sees nothing: m is "
            "still -inf there.",
        ),
        notice="Packing costs nothing but a mask, and the loop leaves out whole documents.",
        takes_causal=False,
        reach=n,
    )


def _slips(rule: Rule, n: int) -> tuple[tuple[str, str, Rule], ...]:
    def same(position: Array, key: Array) -> Array:
        return (position // n == key // n) & (position >= 0)

    return table(
        ("the documents are missing",
         "queries see the earlier documents as well: this is the causal mask alone.",
         replace(rule, allowed=past)),
        ("all masks are missing", "every query sees every key.", replace(rule, allowed=None)),
        ("documents show their future",
         "a query sees all of its document: it should see the keys up to its own place.",
         replace(rule, allowed=same)),
        ("documents are one token too long", f"a document has {n} tokens; yours have {n + 1}.",
         replace(rule, allowed=_documents(n + 1))),
        ("documents are one token too short", f"a document has {n} tokens; yours have {n - 1}.",
         replace(rule, allowed=_documents(n - 1))),
        ("documents are cut one key too late", f"the first document ends with key {n - 1}.",
         replace(rule, allowed=_documents(n, 1))),
        ("documents are cut one key too early", f"the first document ends with key {n - 1}.",
         replace(rule, allowed=_documents(n, -1))),
        ("a window in place of documents",
         f"a query sees the {n} keys up to its own: a document begins at a multiple of {n}.",
         replace(rule, allowed=lambda p, key: (key <= p) & (p - key < n))),
        aligned_at_start("the mask", rule),
    )  # fmt: skip
