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


def roofline(points: Iterable[Point], device: str | GPU = "H100") -> Any:
    """Draw the points under the roof of ``device``; both axes logarithmic.

    Args:
        points: runs, each labelled with its name and the device it ran on.
        device: name of a GPU in `GPUS`, or a `GPU`.

    Returns:
        A matplotlib Figure.

    Raises:
        ValueError: for an unknown device.
    """
    from matplotlib.figure import Figure

    found = device if isinstance(device, GPU) else gpu(device)
    points = list(points)
    ends = [point.intensity for point in points] + [found.ridge]
    low, high = min(ends) / 4, max(ends) * 4
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    roof = [low, found.ridge, high]
    axes.plot(
        roof, [attainable(x, found) for x in roof], color="black", label=f"{found.name}, nominal"
    )
    axes.axvline(found.ridge, color="gray", linestyle=":", linewidth=1)
    axes.annotate(
        f"ridge {found.ridge:.0f} FLOP/byte", (found.ridge, 0.02), xytext=(4, 0),
        xycoords=("data", "axes fraction"), textcoords="offset points", color="gray", fontsize=8,
    )  # fmt: skip
    for point, marker in zip(points, "osD^vP*Xhp" * (1 + len(points) // 10), strict=False):
        on = f", {point.device}" if point.device else ""
        label = f"{point.name}{on}: {point.tflops:.3g} TFLOP/s"
        axes.plot(point.intensity, point.tflops, marker, markersize=8, label=label)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="FLOPs per byte",
        ylabel="TFLOP/s",
        title=f"Under the roof of one {found.name}",
    )
    axes.legend(fontsize=8, loc="lower right")
    axes.grid(visible=True, which="major", alpha=0.3)
    return figure
