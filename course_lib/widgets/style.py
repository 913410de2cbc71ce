"""One look for every figure of the course: readable on a white page and on a dark one.

The page shows through, text and axes are a mid-grey with a contrast of at least 3 against white
and against #111 (WCAG 2.1, 1.4.11), and colours are Okabe and Ito's, made for all kinds of colour
vision. Of these, blue, vermilion, green and purple keep a contrast of 3 on both grounds; orange and
sky do not on white, so give them an edge or a hatch where they carry meaning.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from course_lib.style.palette import hex_of

INK = "#808080"
"""Text, axes and grid: contrast 3.9 on white, 4.8 on #111."""

OKABE_ITO = MappingProxyType(
    {
        **{name: hex_of(name) for name in ("blue", "vermilion", "green", "purple")},
        "orange": "#e69f00",
        "sky": hex_of("sky"),
        "grey": INK,
    }
)
"""Name -> hex colour, in the order in which lines of a plot use them."""

FONT_SIZE = 12


def rc_params() -> dict[Any, Any]:
    """Return the matplotlib settings as a dict, for ``matplotlib.rc_context``."""
    from cycler import cycler

    ink = (
        "text.color axes.edgecolor axes.labelcolor axes.titlecolor xtick.color ytick.color "
        "xtick.labelcolor ytick.labelcolor grid.color legend.labelcolor hatch.color"
    )
    clear = "figure.facecolor axes.facecolor savefig.facecolor savefig.edgecolor legend.facecolor"
    sizes = (
        "font.size axes.labelsize axes.titlesize legend.fontsize xtick.labelsize ytick.labelsize"
    )
    return {
        **dict.fromkeys(ink.split(), INK),
        **dict.fromkeys(clear.split(), "none"),
        **dict.fromkeys(sizes.split(), FONT_SIZE),
        # Jupyter paints a ground behind a clear figure whose tick labels are all light or all
        # dark. INK counts as light, this as dark, so together they leave the page as it is.
        "ytick.labelcolor": "#7f7f7f",
        "axes.prop_cycle": cycler(color=list(OKABE_ITO.values())),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "figure.constrained_layout.use": True,
        "figure.figsize": (7.0, 4.0),
        "grid.alpha": 0.35,
        "legend.frameon": False,
        "lines.linewidth": 2.0,
        "svg.fonttype": "none",  # text stays text
    }


def apply() -> None:
    """Make every later figure of this session use the course's look."""
    import matplotlib

    matplotlib.rcParams.update(rc_params())
