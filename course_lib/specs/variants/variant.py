"""A variant of exercise 7★: its rule, its words, its own mistakes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from course_lib.specs.variants.rule import Rule


@dataclass(frozen=True)
class Variant:
    """One variant, with its parameters filled in.

    kind: "soft-cap" and so on. title: one line. task: Markdown, says exactly what to compute.
    example: a few numbers or a small picture, as text. slips: (name, what to say, rule with that
    mistake). further: arguments after q, k, v. takes_causal: whether calls have ``causal``.
    reach: how many keys a case needs before the variant's parameter shows. hints: three.
    """

    kind: str
    title: str
    task: str
    example: str
    rule: Rule
    slips: tuple[tuple[str, str, Rule], ...]
    hints: tuple[str, str, str]
    notice: str
    n_sinks: int = 0
    takes_causal: bool = True
    reach: int = 40

    @property
    def signature(self) -> str:
        """The launcher's arguments, as the task writes them."""
        further = ", sinks" if self.n_sinks else ""
        causal = "causal=False, " if self.takes_causal else ""
        return f"(q, k, v{further}, *, {causal}block_q=64, block_k=64)"


def aligned_at_start(what: str, rule: Rule) -> tuple[str, str, Rule]:
    """Return the slip of somebody for whom ``what`` is aligned at the start."""
    says = "with n_q != n_k the last query stands at the last key: add n_k - n_q."
    return f"{what} is aligned at the start", says, replace(rule, align="start")


def picture(rule: Rule, n_q: int, n_k: int) -> str:
    """Return a mask as text: one line a query, # where it sees the key, . where not."""
    rows = rule.seen(n_q, n_k, causal=False)
    head = "query \\ key  " + " ".join(str(j % 10) for j in range(n_k))
    lines = (
        f"{i:11}  " + " ".join("#" if seen else "." for seen in row) for i, row in enumerate(rows)
    )
    return "\n".join([head, *lines])
