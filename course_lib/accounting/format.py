"""Bytes as people read them: powers of ten for traffic, powers of two for capacities."""

from __future__ import annotations

_DECIMAL = ("B", "kB", "MB", "GB", "TB", "PB")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def bytes_decimal(n: float) -> str:
    """Return ``n`` bytes in powers of ten, four significant digits: ``"17.45 GB"``."""
    return _scaled(n, 1000, _DECIMAL)


def bytes_binary(n: float) -> str:
    """Return ``n`` bytes in powers of two, four significant digits: ``"161 KiB"``."""
    return _scaled(n, 1024, _BINARY)


def _scaled(n: float, base: int, units: tuple[str, ...]) -> str:
    value, unit = float(n), 0
    # 999.96 would be printed as 1000: what counts is the number after rounding.
    while unit < len(units) - 1 and float(f"{abs(value):.4g}") >= base:
        value, unit = value / base, unit + 1
    digits = f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{digits} {units[unit]}"
