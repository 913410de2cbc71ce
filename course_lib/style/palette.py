"""One table: each colour and what it means, for figures, tables and widgets alike.

The hues are Okabe and Ito's, made for all kinds of colour vision. A mark (line, area, dot) wears
the hue itself. Small text wears the hue mixed into the page's ink, so it follows the theme: with
the shares below it keeps a contrast of 4.5 on every ground of `GROUNDS` (WCAG 2.1, 1.4.3). Sky and
yellow are pale on white: an area in them has an edge of ink. Violet is no data's: it is the hand's.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Hue:
    """A colour as a hex number, and how much of it is in its text (the rest is ink)."""

    hex: str
    text_share: float


@dataclass(frozen=True)
class Meaning:
    """What a hue stands for, everywhere. Stripes stand for what is wasted or is not there."""

    hue: str
    says: str


HUES = MappingProxyType(
    {
        "blue": Hue("#0072b2", 0.55),
        "vermilion": Hue("#d55e00", 0.6),
        "green": Hue("#009e73", 0.65),
        "purple": Hue("#cc79a7", 0.6),
        "sky": Hue("#56b4e9", 0.5),
        "yellow": Hue("#f0e442", 0.4),
        "grey": Hue("#8a8a8a", 0.5),
        "violet": Hue("#8250f0", 0.55),
    }
)

MEANINGS = MappingProxyType(
    {
        "naive": Meaning("vermilion", "naive attention"),
        "flash": Meaning("blue", "FlashAttention"),
        "q": Meaning("sky", "the queries Q"),
        "k": Meaning("green", "the keys K"),
        "v": Meaning("purple", "the values V"),
        "o": Meaning("yellow", "the output O"),
        "s": Meaning("vermilion", "the scores S: naive's cost"),
        "hand": Meaning("violet", "handles, sliders, focus, what is chosen or guessed: no data"),
        "other": Meaning("grey", "what else there is to compare with"),
    }
)

PROVENANCE = MappingProxyType({"formula": "line", "ledger": "dot", "measured": "diamond"})
"""Where a number comes from -> the mark that shows it; a bound is ink, dotted."""

INK = MappingProxyType({"light": "#1c1c1c", "dark": "#ececec"})
"""Theme -> text where the page itself names no colour."""

GROUNDS = MappingProxyType(
    {"light": ("#ffffff", "#f3f3f3"), "dark": ("#111111", "#222222", "#383838")}
)
"""Theme -> page and panel behind text; #383838 is Colab's dark page."""


def hex_of(name: str) -> str:
    """Return the hex colour of a meaning ("flash") or of a hue ("blue")."""
    return HUES[MEANINGS[name].hue if name in MEANINGS else name].hex


def text_share(name: str) -> float:
    """Return how much of its colour is in the text of a meaning or a hue."""
    return HUES[MEANINGS[name].hue if name in MEANINGS else name].text_share
