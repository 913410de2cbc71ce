"""matplotlib in the course's look: ink for text and axes, a meaning for each colour, no ground."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from course_lib.style.palette import HUES, INK, hex_of, text_share

PAGE_INK = INK["light"]
"""What matplotlib draws ink with; `picture` turns it into the page's own."""

FONT_SIZE = 11  # points, as large as prose at 16 px


def text_colour(name: str) -> str:
    """Return the colour of a meaning's or a hue's text on a light page: hue mixed into ink."""
    share = text_share(name)
    both = zip(_channels(hex_of(name)), _channels(PAGE_INK), strict=True)
    return "#" + "".join(f"{round(a * share + b * (1 - share)):02x}" for a, b in both)


def _channels(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def rc_params() -> dict[Any, Any]:
    """Return the matplotlib settings as a dict, for ``matplotlib.rc_context``."""
    from cycler import cycler

    ink = (
        "text.color axes.edgecolor axes.labelcolor axes.titlecolor xtick.color ytick.color "
        "xtick.labelcolor ytick.labelcolor grid.color patch.edgecolor"
    )
    clear = "figure.facecolor axes.facecolor savefig.facecolor savefig.edgecolor"
    sizes = "font.size axes.labelsize axes.titlesize xtick.labelsize ytick.labelsize"
    return {
        **dict.fromkeys(ink.split(), PAGE_INK),
        **dict.fromkeys(clear.split(), "none"),
        **dict.fromkeys(sizes.split(), FONT_SIZE),
        "axes.prop_cycle": cycler(color=[hex_of(name) for name in HUES if name != "violet"]),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "figure.figsize": (7.0, 3.6),  # at 96 px an inch as wide as the column of prose
        "grid.alpha": 0.25,
        "hatch.linewidth": 1.5,
        "legend.frameon": False,
        "legend.labelcolor": PAGE_INK,
        "lines.linewidth": 2.5,
        "lines.markersize": 8.0,
        "lines.solid_capstyle": "round",
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "course",  # the same picture gives the same file
    }


def styled(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that draws do so in the course's look, whatever the session's settings."""

    @wraps(draw)
    def in_our_look(*args: Any, **options: Any) -> Any:
        import matplotlib

        with matplotlib.rc_context(rc_params()):
            return draw(*args, **options)

    return in_our_look
