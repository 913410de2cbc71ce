"""Its mark says where a number comes from: bound dotted, ledger dot, measured diamond."""

from __future__ import annotations

from typing import Any

from course_lib.style.look import PAGE_INK
from course_lib.style.palette import hex_of


def bound(axes: Any, x: Any, y: Any) -> None:
    """Draw what nothing can pass: ink, dotted."""
    axes.plot(x, y, color=PAGE_INK, linestyle=":", linewidth=2)


def counted(axes: Any, x: Any, y: Any, meaning: str) -> None:
    """Draw what a ledger counted."""
    axes.plot(x, y, "o", color=hex_of(meaning), markeredgecolor=PAGE_INK, markeredgewidth=1)


def measured(axes: Any, x: Any, y: Any, meaning: str, *, line: str = "") -> None:
    """Draw what a device took; ``line``, a style, joins the marks where the eye should follow."""
    axes.plot(
        x, y, "D", color=hex_of(meaning), linestyle=line, linewidth=1.2,
        markersize=7, markeredgecolor=PAGE_INK, markeredgewidth=0.6,
    )  # fmt: skip


def bars(axes: Any, names: Any, sizes: Any, meaning: str, said: Any) -> None:
    """Draw measured sizes as bars from the top, each with its words at its end."""
    drawn = axes.barh(range(len(sizes)), sizes, height=0.68, color=hex_of(meaning))
    axes.bar_label(drawn, said, padding=5)
    axes.set_yticks(range(len(sizes)), names)
    axes.invert_yaxis()
    axes.spines["bottom"].set_visible(False)
    axes.set_xticks([])
    axes.margins(x=0.16)
