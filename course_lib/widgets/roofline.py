"""Intensity against attainable FLOP/s: which side of the ridge a kernel is on (lessons 02, 10).

Bytes come from `accounting.traffic` as data; FLOPs are 4 H N_q N_k d. Decoding is one query row
against N keys. The dial shows one kernel, the least that it moves, at any number of queries
between: decode at one end, prefill at the other.

What JavaScript computes too is held against Python in tests/widgets/test_javascript.py.
"""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from numbers import Real
from typing import TYPE_CHECKING, Any

import traitlets

from course_lib.accounting.hardware import GPUS, gpu
from course_lib.accounting.traffic import MODELS, attention_flops
from course_lib.style.axes import name_above
from course_lib.style.look import PAGE_INK, styled, text_colour
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure
from course_lib.widgets.base import CourseWidget, check_count, static_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS: dict[str, tuple[str, str, str]] = {
    "eager, 6 trips": ("eager_six_trips", "naive", "all"),
    "naive, 4 trips": ("naive_four_trips", "naive", "all"),
    "flash prefill, tile loads": ("flash_tile_loads", "flash", "all"),
    "flash prefill, compulsory": ("flash_compulsory", "flash", "all"),
    "decode, one query": ("flash_compulsory", "other", "one"),
}
"""Point -> (traffic model, meaning of its colour, how many query rows: all n, one, or queries)."""
DIAL: dict[str, tuple[str, str, str]] = {
    "prefill": ("flash_compulsory", "other", "all"),
    "you are here": ("flash_compulsory", "flash", "queries"),
    "decode, one query": ("flash_compulsory", "other", "one"),
}
"""The points of the dial."""

_LIMITS = {
    "n": 2**20, "d": 1024, "heads": 256, "kv_heads": 256, "batch": 4096, "block_q": 1024,
    "queries": 2**20,
}  # fmt: skip


class RooflineChart(CourseWidget):
    """Naive, flash, prefill and decode under the roof of a GPU, for half-precision elements.

    Attributes:
        n: rows of K and V (and of Q, but for decoding). d: head dimension. heads, kv_heads, batch.
        block_q: rows of a Q tile, for the tile loads. gpu: a name in `hardware.GPUS`.
        view: ``"kernels"`` (`POINTS`) or ``"dial"`` (`DIAL`), with ``queries`` of each request, at
            most n of them counted.
        marks: measurements, each on the chart at its own N and on its own GPU.

    Raises:
        ValueError: for an unknown setting or GPU. traitlets.TraitError: for a bad count.
    """

    _esm = static_text("tokens.js", "common.js", "handles.js", "roofline.js")
    _css = static_text("tokens.css", "common.css", "handles.css", "roofline.css")
    parts = ("roofline-plot",)
    height_px = 620

    n = traitlets.Int(8192).tag(sync=True)
    d = traitlets.Int(128).tag(sync=True)
    heads = traitlets.Int(32).tag(sync=True)
    kv_heads = traitlets.Int(32).tag(sync=True)
    batch = traitlets.Int(1).tag(sync=True)
    block_q = traitlets.Int(128).tag(sync=True)
    queries = traitlets.Int(1).tag(sync=True)
    view = traitlets.Enum(["kernels", "dial"], "kernels").tag(sync=True)
    gpu = traitlets.Enum(list(GPUS), "H100").tag(sync=True)
    marks: traitlets.List = traitlets.List().tag(sync=True)
    data = traitlets.Dict().tag(sync=True)

    def __init__(self, *, presenter: bool = False, **settings: Any) -> None:
        unknown = set(settings) - {*_LIMITS, "gpu", "view"}
        if unknown:
            raise ValueError(f"RooflineChart has no setting {sorted(unknown)[0]!r}.")
        if "gpu" in settings:
            settings["gpu"] = gpu(settings["gpu"]).name
        if "heads" in settings:
            settings.setdefault("kv_heads", settings["heads"])
        views = {"kernels": _sent(POINTS), "dial": _sent(DIAL)}
        gpus = {name: asdict(chip) for name, chip in GPUS.items()}
        data = {"views": views, "gpus": gpus, "limits": _LIMITS}
        super().__init__(data=data, presenter=presenter, **settings)

    @traitlets.validate(*_LIMITS)
    def _valid_count(self, proposal: Any) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        check_count(name, value, _LIMITS[name])
        pair = {"heads": self.heads, "kv_heads": self.kv_heads, name: value}
        if pair["heads"] % pair["kv_heads"]:
            raise traitlets.TraitError(
                f"heads must be a multiple of kv_heads, got {pair['heads']} and {pair['kv_heads']}."
            )
        return value

    @property
    def points(self) -> dict[str, tuple[str, str, str]]:
        """The points of this view."""
        return DIAL if self.view == "dial" else POINTS

    def intensity(self, point: str) -> float:
        """Return the FLOPs per byte of a name in `points`."""
        if point not in self.points:
            raise ValueError(f"point must be one of {', '.join(self.points)}, got {point!r}.")
        model, _, rows = self.points[point]
        n_q = {"all": self.n, "one": 1, "queries": min(self.queries, self.n)}[rows]
        heads = self.heads * self.batch
        moved = MODELS[model].bytes(
            n_q=n_q, n_k=self.n, d=self.d, b=2, heads=heads, kv_heads=self.kv_heads * self.batch,
            block_q=self.block_q,
        )  # fmt: skip
        return attention_flops(n_q, self.n, self.d, heads) / moved

    def attainable(self, intensity: float) -> float:
        """Return the TFLOP/s under the roof: the smaller of intensity x bandwidth and the peak."""
        chip = GPUS[self.gpu]
        return min(intensity * chip.hbm_gb_per_s / 1e3, chip.tflops_half)

    def add_measurement(
        self,
        label: str,
        *,
        intensity: float,
        tflops: float,
        loads: float | None = None,
        n: int | None = None,
    ) -> None:
        """Mark a measurement: FLOPs per byte that HBM moved, TFLOP/s as timed.

        It is shown on its own GPU and at its own ``n`` only: by default where the chart stands.
        ``loads``: FLOPs per byte that the kernel loads. An arrow then leads from there on the
        roof, the most if every load went to HBM, to what was measured.

        Raises:
            ValueError: for an empty label or a number that is not positive.
        """
        if not isinstance(label, str) or not label.strip():
            raise ValueError(f"label must say what was measured and on what, got {label!r}.")
        numbers = {"intensity": intensity, "tflops": tflops}
        numbers |= {} if loads is None else {"loads": loads}
        for name, value in numbers.items():
            if not isinstance(value, Real) or not isfinite(value) or value <= 0:
                raise ValueError(f"{name} must be a positive number, got {value!r}.")
        n = self.n if n is None else n
        check_count("n", n, _LIMITS["n"])
        numbers = {name: float(value) for name, value in numbers.items()}
        self.marks = [*self.marks, {"label": label, "n": n, "gpu": self.gpu, **numbers}]

    def to_table(self) -> str:
        """Return every point as text: intensity, attainable TFLOP/s and which side it is on."""
        chip = GPUS[self.gpu]
        lines = [
            f"{self.gpu}: ridge at {chip.ridge:.4g} FLOP/byte; N = {self.n}, d = {self.d}, "
            f"{self.heads} heads ({self.kv_heads} K/V), batch {self.batch}"
            + f", {self.queries} queries"
            * (self.view == "dial")
        ]
        for label in self.points:
            x = self.intensity(label)
            side = "memory-bound" if x < chip.ridge else "compute-bound"
            lines.append(
                f"  {label:<26} {x:8.4g} FLOP/byte, "
                f"at most {self.attainable(x):6.4g} TFLOP/s, {side}"
            )
        for mark in self.marks:
            lines.append(
                f"  {mark['label']:<26} {mark['intensity']:8.4g} FLOP/byte, "
                f"{mark['tflops']:6.4g} TFLOP/s measured at N = {mark['n']} on {mark['gpu']}"
                + (f", {mark['loads']:.4g} FLOP/byte loaded" if "loads" in mark else "")
            )
        return "\n".join(lines)

    @styled
    def to_figure(self) -> Figure:
        """Draw the roof with the points on it and the measurements below."""
        figure, axes = new_figure(figsize=(8, 4.4))
        ridge = GPUS[self.gpu].ridge
        roof = [0.25, ridge, 65536]
        axes.plot(roof, [self.attainable(x) for x in roof], color=PAGE_INK)
        axes.set(xscale="log", yscale="log", xlabel="FLOP/byte")
        name_above(axes, "TFLOP/s, at most")
        for label, (_, colour, _) in self.points.items():
            x = self.intensity(label)
            axes.plot(x, self.attainable(x), "|", ms=18, mew=4, color=hex_of(colour))
            shift = ((-10, 6), (8, -18))[label.startswith("decode")] if x < ridge else (0, 10)
            axes.annotate(
                label, (x, self.attainable(x)), shift, textcoords="offset points",
                color=text_colour(colour),
                ha="center" if x >= ridge else "left" if label.startswith("decode") else "right",
            )  # fmt: skip
        ends = [x for x in self.points if self.view == "dial" or "prefill" in x]
        between = sorted(self.intensity(label) for label in ends)
        bar = [between[0], *([ridge] if between[0] < ridge < between[-1] else []), between[-1]]
        axes.plot(bar, [self.attainable(x) for x in bar], color=hex_of("flash"), lw=8, alpha=0.6)
        for mark in self.marks:
            if (mark["n"], mark["gpu"]) == (self.n, self.gpu):
                where = (mark["intensity"], mark["tflops"])
                if "loads" in mark:
                    most = (mark["loads"], self.attainable(mark["loads"]))
                    axes.annotate("", where, most, arrowprops={"arrowstyle": "->"})
                    axes.plot(*most, "D", color=PAGE_INK, markerfacecolor="none")
                axes.plot(*where, "D", color=PAGE_INK)
                axes.annotate(mark["label"], where, (8, -4), textcoords="offset points")
        return figure


def _sent(points: dict[str, tuple[str, str, str]]) -> list[dict[str, Any]]:
    return [
        {"label": label, "terms": _terms(model), "colour": colour, "rows": rows}
        for label, (model, colour, rows) in points.items()
    ]


def _terms(model: str) -> list[dict[str, Any]]:
    return [
        {"coefficient": term.coefficient, "powers": dict(term.powers)}
        for term in MODELS[model].items
        if term.tensor != "lse"
    ]
