"""The table of colours as CSS variables and JavaScript constants; `course build` writes both."""

from __future__ import annotations

import json

from course_lib.style.palette import GROUNDS, HUES, INK, MEANINGS, PROVENANCE, hex_of

SHEET = (
    "box-sizing:border-box;padding:10px clamp(7px,1.5vw,18px) 12px;"
    f"border:1px solid {hex_of('other')}73;border-radius:12px"
)
"""What an instrument, a question, an answer and the way through the lessons stand on."""
_NOTE = "Written by `course build` from course_lib/style/palette.py: edit that."


def variables() -> dict[str, str]:
    """Return CSS variable -> value. ``--fac-ink`` is the page's, so text follows the theme."""
    hues = {f"--fac-{name}": hue.hex for name, hue in HUES.items()}
    text = {
        f"--fac-{name}-text": f"color-mix(in srgb, {hue.hex} {hue.text_share:.0%}, var(--fac-ink))"
        for name, hue in HUES.items()
    }
    means = {}
    for name, meaning in MEANINGS.items():
        means[f"--fac-{name}"] = f"var(--fac-{meaning.hue})"
        means[f"--fac-{name}-text"] = f"var(--fac-{meaning.hue}-text)"
    lit = f"color-mix(in srgb, {HUES[MEANINGS['hand'].hue].hex} 62%, #ffffff)"
    means["--fac-d-hand"] = lit  # beside a dark one a browser paints a slider's track white
    return {**hues, **text, **means}


def css() -> str:
    """Return the style sheet of the tokens, for whatever wears the class ``fac``."""
    short = {"light": "l", "dark": "d"}
    themes = {}
    for theme, letter in short.items():
        themes[f"--fac-{letter}-ink"] = INK[theme]
        themes[f"--fac-{letter}-bg"], themes[f"--fac-{letter}-panel"] = GROUNDS[theme][:2]
    lines = [f"  {name}: {value};" for name, value in {**themes, **variables()}.items()]
    areas = [f".fac .fac-{name}-area {{ background: var(--fac-{name}); }}" for name in MEANINGS]
    sheet = f".fac {{ {SHEET} }}"
    return "\n".join([f"/* {_NOTE} */", ".fac {", *lines, "}", sheet, *areas]) + "\n"


def javascript() -> str:
    """Return the constants for what draws on a canvas: colours, marks of provenance."""
    colours = {name: HUES[meaning.hue].hex for name, meaning in MEANINGS.items()}
    return "\n".join(
        [
            f"// {_NOTE}",
            f"const COLOUR = {json.dumps(colours)};",
            f"const PROVENANCE = {json.dumps(dict(PROVENANCE))};",
            "",
        ]
    )
