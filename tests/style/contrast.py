"""How well a colour can be read on another, as WCAG 2.1 computes it; colours as hex numbers."""

from __future__ import annotations


def channels(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def mixed(colour: str, ink: str, share: float) -> str:
    """Return what CSS makes of ``color-mix(in srgb, colour share, ink)``."""
    both = zip(channels(colour), channels(ink), strict=True)
    return "#" + "".join(f"{round(a * share + b * (1 - share)):02x}" for a, b in both)


def luminance(colour: str) -> float:
    shares = [c / 255 for c in channels(colour)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a: str, b: str) -> float:
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
