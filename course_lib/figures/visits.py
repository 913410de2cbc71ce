"""In which order a kernel loads its tiles of K, as its ledger saw it (lesson 07)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from course_lib.style.look import PAGE_INK, styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure


@styled
def draw_visits(books: Mapping[str, Any], n: int, block: int) -> Any:
    """Number the (query tile, key tile) squares in the order of the loads, one grid a ledger.

    Args:
        books: words -> a `KernelLedger` of one head. n: length. block: side of a square tile.
    """
    tiles = n // block
    figure, axes = new_figure(1, len(books), figsize=(7, 4))
    counts = {}
    for ax, (words, ledger) in zip(axes, books.items(), strict=True):
        loads = [v for v in ledger.visits if v.tensor == "k" and v.kind == "load"]
        counts[words] = len(loads)
        for number, visit in enumerate(loads, start=1):
            row, column = visit.program[0], visit.rows[0] // block
            ax.bar(column, 1, 1, row, align="edge", color=hex_of("k"), alpha=0.35)
            ax.text(column + 0.5, row + 0.5, number, ha="center", va="center", fontsize=10)
        ax.set(xlim=(0, tiles), ylim=(tiles, 0), aspect="equal", xticks=[], yticks=[])
        ax.set(xlabel="tile of keys", ylabel="tile of queries (program)")
        ax.spines[:].set(visible=True, color=PAGE_INK)
        ax.set_title(f"{words}: {len(loads)} loads of K tiles", fontweight="normal")
    most, *others = counts.items()
    said = [f"{count / most[1]:.0%} of the loads are left, {words}" for words, count in others]
    return figure.says(
        ", ".join(said)[:1].upper() + ", ".join(said)[1:],
        f"Counted by the ledger, in the order of the loads: N = {n}, tiles {block} × {block}.",
    )
