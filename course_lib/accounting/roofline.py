"""The roofline: what a device allows at an arithmetic intensity, and where a kernel stands.

Williams, Waterman and Patterson 2009 (CACM 52:4): a kernel that does F FLOPs and moves Q bytes runs
at most at min(peak, F / Q * bandwidth). Which bytes (compulsory, of the loads, of DRAM) is for the
caller to say, in the point's name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from course_lib.accounting.hardware import GPU, gpu
from course_lib.style.axes import label_ends, name_above, plain_log
from course_lib.style.look import PAGE_INK, styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure


@dataclass(frozen=True)
class Point:
    """One kernel's run: its FLOPs, the bytes it moved, the seconds it took.

    ``device`` names what it ran on, as its measurement says.
    """

    name: str
    flops: float
    n_bytes: float
    seconds: float
    device: str = ""

    def __post_init__(self) -> None:
        for field in ("flops", "n_bytes", "seconds"):
            value = getattr(self, field)
            if not value > 0:
                raise ValueError(f"{field} must be positive, got {value!r}.")

    @property
    def intensity(self) -> float:
        """FLOPs per byte."""
        return self.flops / self.n_bytes

    @property
    def tflops(self) -> float:
        """TFLOP/s reached."""
        return self.flops / self.seconds / 1e12

    def share_of_roof(self, device: str | GPU) -> float:
        """Return which part of what ``device`` allows at this intensity was reached."""
        return self.tflops / attainable(self.intensity, device)


def attainable(intensity: float, device: str | GPU) -> float:
    """Return the TFLOP/s that ``device`` (nominal figures) allows at ``intensity`` FLOP/byte."""
    found = device if isinstance(device, GPU) else gpu(device)
    return min(found.tflops_half, intensity * found.hbm_gb_per_s / 1e3)


@styled
def roofline(points: Iterable[Point], device: str | GPU = "H100") -> Any:
    """Draw the points under the roof of ``device``; both axes logarithmic.

    Args:
        points: runs, each labelled with its name and the device it ran on.
        device: name of a GPU in `GPUS`, or a `GPU`.

    Returns:
        A matplotlib Figure that a notebook shows in the page's ink.

    Raises:
        ValueError: for an unknown device.
    """
    found = device if isinstance(device, GPU) else gpu(device)
    points = list(points)
    ends = [point.intensity for point in points] + [found.ridge]
    low, high = min(ends) / 4, max(ends) * 4
    figure, axes = new_figure(figsize=(7, 4.2))
    roof = [low, found.ridge, high]
    axes.plot(roof, [attainable(x, found) for x in roof], color=PAGE_INK)
    axes.axvline(found.ridge, color=PAGE_INK, linestyle=":", linewidth=1)
    axes.annotate(
        f"ridge {found.ridge:.0f}", (found.ridge, 0.02), xytext=(4, 0),
        xycoords=("data", "axes fraction"), textcoords="offset points",
    )  # fmt: skip
    for point in points:
        axes.plot(point.intensity, point.tflops, "D", color=hex_of("flash"))
    axes.set(xlim=(low, high), xscale="log", xlabel="FLOPs per byte")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    plain_log(axes)
    name_above(axes, "TFLOP/s")
    label_ends(axes, [(_label(p), p.intensity, p.tflops, "flash") for p in points])
    return figure.says(
        f"{len(points)} runs under the roof of one {found.name}",
        f"Line: {found.name}, nominal. Diamonds: measured times, bytes as each run names them.",
    )


def _label(point: Point) -> str:
    on = f", {point.device}" if point.device else ""
    return f"{point.name}{on}:\n{point.tflops:.3g} TFLOP/s"
