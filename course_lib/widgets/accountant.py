"""Drag S, and see which areas grow: bytes to and from HBM by four models (lessons 02, 04 and 07).

The models are `course_lib.accounting.traffic`'s, sent to the page as data: coefficients over
monomials. The page counts the visited rows of K and adds up the terms a second time, in JavaScript:
tests/widgets/test_javascript.py holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from numbers import Real
from typing import TYPE_CHECKING, Any

import traitlets

from course_lib.accounting.format import bytes_binary, bytes_decimal
from course_lib.accounting.hardware import GPUS, LAUNCH_S, gpu
from course_lib.accounting.measurements import load_measurements
from course_lib.accounting.traffic import (
    MODELS,
    Model,
    Term,
    attention_flops,
    symbols,
    time_bounds,
)
from course_lib.style.look import styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure
from course_lib.widgets.accountant_areas import SCORES, areas, draw_areas, placed
from course_lib.widgets.base import CourseWidget, check_count, static_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from course_lib.accounting.ledger import Ledger

DTYPES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}
MAX_N = 2**20
NAMES = {
    "naive_four_trips": "naive (4 trips)",
    "eager_six_trips": "eager as run (6 trips)",
    "flash_compulsory": "flash at best",
    "flash_tile_loads": "flash at worst",
}
_ORDER = ("flash_compulsory", "flash_tile_loads", "naive_four_trips", "eager_six_trips")
MEANS = {name: "flash" if name.startswith("flash") else "naive" for name in MODELS}
LINES = {"naive_four_trips": "-", "eager_six_trips": "--",
         "flash_compulsory": ":", "flash_tile_loads": "-"}  # fmt: skip
LAUNCHES = {"naive_four_trips": 3, "eager_six_trips": 4}
"""Kernels of one layer: QK^T, the scale where it is one, softmax, PV. Fused attention is one."""
# Largest memory above the inputs at any moment: two score matrices, or only what is returned.
_SCORES = Term("s, p", "written", 2, dict.fromkeys(("H", "N_q", "N_k", "b"), 1))
_OUTPUT = Term("o", "written", 1, dict.fromkeys(("H", "N_q", "d", "b"), 1))
FOOTPRINT = {name: _OUTPUT if name.startswith("flash") else _SCORES for name in MODELS}

PRESETS: dict[str, dict[str, Any]] = {
    "Lesson 02": {"n": 8192, "d": 128, "heads": 32, "kv_heads": 32, "layers": 1, "batch": 1},
    "The counters' case (H = 8)": {
        "n": 8192, "d": 128, "heads": 8, "kv_heads": 8, "layers": 1, "batch": 1,
    },
    "GPT-2": {"n": 1024, "d": 64, "heads": 12, "kv_heads": 12, "layers": 12, "batch": 1},
    "Llama-3-8B, 8k": {"n": 8192, "d": 128, "heads": 32, "kv_heads": 8, "layers": 32, "batch": 1},
    "Llama-3-8B, 128k": {
        "n": 131072, "d": 128, "heads": 32, "kv_heads": 8, "layers": 32, "batch": 1,
    },
}  # fmt: skip
"""Shapes of real models (their published configurations) and of the lessons."""

_LIMITS = {
    "n": MAX_N, "d": 1024, "heads": 256, "kv_heads": 256, "layers": 256, "batch": 4096,
    "block_q": 1024, "block_k": 1024,
}  # fmt: skip


def _count(name: str, default: int) -> traitlets.Int:
    return traitlets.Int(default, help=name).tag(sync=True)


class HBMAccountant(CourseWidget):
    """Bytes to and from HBM for one forward pass of attention, by several models at once.

    Args:
        models: names in `traffic.MODELS` (or the models), from the left, a lower bound before all;
            by default all, from the least that they move.
        preset: a name in `PRESETS` to start from.
        **shape: n, d, heads, kv_heads, layers, batch, block_q, block_k, dtype, causal, gpu.

    Raises:
        ValueError: for an unknown model, preset or GPU. traitlets.TraitError: for a bad count.

    Attributes:
        n: rows of Q, K and V. d: head dimension. heads, kv_heads: of one sequence and layer.
        layers, batch: multiply everything. block_q, block_k: rows of a tile.
        dtype: ``"fp32"``, ``"bf16"``, ``"fp16"`` or ``"fp8"``. causal: aligned at the end.
        gpu: a name in `hardware.GPUS`. extra: what was added, in bytes.
    """

    _esm = static_text("tokens.js", "common.js", "handles.js", "accountant.js")
    _css = static_text("tokens.css", "common.css", "handles.css", "accountant.css")
    parts = (
        *(f"accountant-{name}" for name in MODELS),
        "accountant-picture", "accountant-words", "accountant-time", "accountant-over-n",
        "accountant-n", "accountant-gqa",
    )  # fmt: skip
    height_px = 800

    n = _count("n", 8192)
    d = _count("d", 128)
    heads = _count("heads", 32)
    kv_heads = _count("kv_heads", 32)
    layers = _count("layers", 1)
    batch = _count("batch", 1)
    block_q = _count("block_q", 128)
    block_k = _count("block_k", 128)
    dtype = traitlets.Enum(list(DTYPES), "bf16").tag(sync=True)
    causal = traitlets.Bool(False).tag(sync=True)
    gpu = traitlets.Enum(list(GPUS), "H100").tag(sync=True)
    extra: traitlets.List = traitlets.List().tag(sync=True)
    data = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        models: Sequence[str | Model] | None = None,
        *,
        preset: str = "Lesson 02",
        presenter: bool = False,
        **shape: Any,
    ) -> None:
        asked = [_model(model) for model in (_ORDER if models is None else models)]
        self.models = sorted(asked, key=lambda model: model.kind != "lower bound")
        if not self.models:
            raise ValueError("models must name at least one model, got none.")
        if preset not in PRESETS:
            raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {preset!r}.")
        unknown = set(shape) - {*_LIMITS, "dtype", "causal", "gpu"}
        if unknown:
            raise ValueError(f"HBMAccountant has no setting {sorted(unknown)[0]!r}.")
        if "gpu" in shape:
            shape["gpu"] = gpu(shape["gpu"]).name
        if "heads" in shape and "kv_heads" not in shape:
            shape["kv_heads"] = shape["heads"]
        data = {
            "models": [_as_data(model) for model in self.models],
            "presets": PRESETS,
            "gpus": {name: asdict(chip) for name, chip in GPUS.items()},
            "dtypes": DTYPES,
            "limits": _LIMITS,
            "scores": SCORES,
            "launch_s": LAUNCH_S,
            "recorded": dram_points(load_measurements("h100_dram_traffic")),
        }
        super().__init__(data=data, presenter=presenter, **{**PRESETS[preset], **shape})

    @traitlets.validate(*_LIMITS)
    def _valid_count(self, proposal: Any) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        check_count(name, value, _LIMITS[name])
        pair = {"heads": self.heads, "kv_heads": self.kv_heads, name: value}
        if pair["heads"] % pair["kv_heads"]:
            raise traitlets.TraitError(
                f"heads must be a multiple of kv_heads, got {pair['heads']} and "
                f"{pair['kv_heads']}; "
                "set both together with `set(heads=..., kv_heads=...)`."
            )
        return value

    def set(self, **values: Any) -> None:
        """Set several traits at once: what holds between them is checked at the end."""
        with self.hold_trait_notifications():
            for name, value in values.items():
                setattr(self, name, value)

    def add_ledger(self, ledger: Ledger, label: str = "your code, counted") -> None:
        """Draw what a ledger counted (all bytes read and written) at the same scale.

        Raises:
            ValueError: if the ledger counted nothing.
        """
        if ledger.total <= 0:
            raise ValueError("ledger must have counted at least one byte, got 0.")
        entry = {"label": label, "bytes": ledger.total, "flops": ledger.flops, "kind": "ledger"}
        self.extra = [*self.extra, entry]

    def add_measurement(self, record: Mapping[str, Any]) -> None:
        """Draw what hardware counters measured at the same scale.

        Args:
            record: ``label`` (device and kernel) and ``bytes``; with ``n`` (and ``heads``, ``d``,
                ``causal``) it is also a point of the plot over N. Or a record of
                `course_lib.accounting.measurements` whose rows have ``dram_gb``.

        Raises:
            ValueError: if label or bytes are missing or not positive.
        """
        if "rows" in record:
            for point in dram_points(record):
                self.add_measurement(point)
            return
        label, n_bytes = record.get("label"), record.get("bytes")
        if not isinstance(label, str) or not label.strip():
            raise ValueError(f"record must have a label (device and kernel), got {label!r}.")
        if not isinstance(n_bytes, Real) or not isfinite(n_bytes) or n_bytes <= 0:
            raise ValueError(f"record must have a positive number of bytes, got {n_bytes!r}.")
        known = ("label", "n", "d", "heads", "causal", "dtype")
        entry = {name: record[name] for name in known if name in record}
        self.extra = [*self.extra, {**entry, "bytes": float(n_bytes), "kind": "measurement"}]

    def shape(self, **changed: Any) -> dict[str, Any]:
        """Return the settings as `traffic.symbols` takes them; heads include the batch."""
        return {
            "n": self.n,
            "d": self.d,
            "heads": self.heads * self.batch,
            "kv_heads": self.kv_heads * self.batch,
            "b": DTYPES[self.dtype],
            "block_q": self.block_q,
            "block_k": self.block_k,
            "causal": self.causal,
            **changed,
        }

    def bytes(self, model: str | Model) -> int:
        """Return the bytes that a model gives for all layers at the present settings."""
        return self.layers * _model(model).bytes(**self.shape())

    def areas(self, model: str | Model, n: int | None = None) -> list[dict[str, Any]]:
        """Return what one query head moves, one dict a trip: tensor, direction, kind, wide, tall.

        Width and height count numbers, so that their product times b, heads, batch and layers is
        the trip's bytes; all are N tall. A trip of scores is a ``"square"``; of Q, K, V or O a
        ``"strip"``; of K and V, loaded again and again, a ``"pile"``.
        """
        return areas(_model(model), symbols(**self.shape(n=self.n if n is None else n)))

    def pace(self, model: str | Model) -> dict[str, Any]:
        """Return the least seconds of overhead, traffic, arithmetic, and the largest's name."""
        launches = self.layers * LAUNCHES.get(_model(model).name, 1)
        chip = GPUS[self.gpu]
        seconds = time_bounds(self.flops(), self.bytes(model), launches, chip)
        times = {name.removesuffix("_s"): least for name, least in seconds.items()}
        return {**times, "limit": max(times, key=times.__getitem__)}

    def flops(self) -> int:
        """Return the FLOPs of all layers, by the convention that halves causal."""
        heads = self.heads * self.batch
        return self.layers * attention_flops(self.n, self.n, self.d, heads, self.causal)

    def footprint(self, model: str | Model) -> int:
        """Return the largest memory above the inputs, in bytes, of one layer."""
        values = {**self.shape(), "H": self.heads * self.batch, "N_q": self.n, "N_k": self.n}
        return FOOTPRINT[_model(model).name].bytes(values)

    def crossover(self, model: str | Model) -> float | None:
        """Return the N at which the N^2 terms overtake the others; None without N^2 terms."""
        values = {"H": self.heads, "H_kv": self.kv_heads, "d": self.d, "N_q": 1, "N_k": 1, "b": 1}
        terms = [term for term in _model(model).items if "K_rows" not in term.powers]
        square = [term for term in terms if {"N_q", "N_k"} <= set(term.powers)]
        if not square:
            return None
        rest = [t for t in terms if t not in square and t.tensor != "lse"]
        return sum(t.bytes(values) for t in rest) / sum(t.bytes(values) for t in square)

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict a model: name, kind, bytes, intensity, ms, pace and footprint."""
        chip = GPUS[self.gpu]
        return [
            {
                "name": NAMES.get(model.name, model.name),
                "kind": model.kind,
                "bytes": (moved := self.bytes(model)),
                "intensity": self.flops() / moved,
                "ms": moved / chip.hbm_gb_per_s / 1e6,
                "pace": self.pace(model)["limit"],
                "footprint": self.footprint(model),
            }
            for model in self.models
        ]

    def to_table(self) -> str:
        """Return the settings and every model as text."""
        group = self.heads // self.kv_heads
        lines = [
            f"N = {self.n}, d = {self.d}, {self.heads} heads (GQA {group}), "
            f"{self.layers} layer(s), batch {self.batch}, {self.dtype}, "
            f"{'causal' if self.causal else 'no mask'}, "
            f"tiles {self.block_q} x {self.block_k}, {self.gpu}"
        ]
        for row in self.rows():
            lines.append(
                f"{row['name']:<22} {bytes_decimal(row['bytes']):>9}  {row['kind']:<11}  "
                f"{row['intensity']:8.4g} FLOP/byte  {row['ms']:8.4g} ms of traffic  "
                f"{bytes_binary(row['footprint'])} above the inputs, limit: {row['pace']}"
            )
        for entry in self.extra:
            lines.append(f"{entry['label']:<22} {bytes_decimal(entry['bytes']):>9}")
        return "\n".join(lines)

    @styled
    def to_figure(self) -> Figure:
        """Draw all trips as areas, and the models over N with the counters that were recorded."""
        figure, (left, right) = new_figure(1, 2, figsize=(11, 4.2))
        notes = [f"{e['label']}: {bytes_decimal(e['bytes'])}" for e in self.extra]
        notes.append(f"areas: one of {self.heads * self.batch} heads; S is {self.n} wide")
        rows = self.rows()
        least = next((row["bytes"] for row in rows if row["kind"] == "lower bound"), None)
        against = [f" = {row['bytes'] / least:.3g} ×" if least else "" for row in rows]
        names = [f"{row['name']}: {bytes_decimal(row['bytes'])}{ratio}"
                 for row, ratio in zip(rows, against, strict=True)]  # fmt: skip
        draw_areas(left, [placed(self.areas(m)) for m in self.models], names, notes)
        lengths = [2**i for i in range(6, 19)]
        for model in self.models:
            moved = [self.layers * model.bytes(**self.shape(n=n)) for n in lengths]
            colour = hex_of(MEANS.get(model.name, "other"))
            right.plot(lengths, moved, LINES.get(model.name, "-"), color=colour,
                       label=NAMES.get(model.name, model.name))  # fmt: skip
        points = self.points()
        if points:
            right.plot(*zip(*points, strict=True), "D", color=hex_of("other"), label="counters")
        right.axvline(self.n, color=hex_of("other"), linewidth=1)
        right.set(xscale="log", yscale="log", xlabel="N", ylabel="bytes")
        right.legend(fontsize=9)
        return figure

    def points(self) -> list[tuple[int, float]]:
        """Return (N, DRAM bytes) of the records taken at the present d, heads and mask."""
        here = {"d": self.d, "heads": self.heads * self.batch, "causal": self.causal}
        fits = self.layers == 1 and self.heads == self.kv_heads and DTYPES[self.dtype] == 2
        added = [entry for entry in self.extra if entry["kind"] == "measurement"]
        records = [*self.data["recorded"], *added]
        return [
            (record["n"], record["bytes"])
            for record in records
            if fits and "n" in record and all(record.get(k, v) == v for k, v in here.items())
        ]


def dram_points(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a measurement's DRAM traffic as one entry a row; of a range, its middle.

    Raises:
        ValueError: if the rows carry no ``dram_gb``.
    """
    rows = record["rows"]
    if not rows or any("dram_gb" not in row for row in rows):
        raise ValueError("record must have rows with n, heads, causal and dram_gb.")
    source = f"{record['source']}, {record['device']}"
    return [
        {
            "label": source,
            "n": row["n"],
            "d": record["head_dim"],
            "heads": row["heads"],
            "causal": row["causal"],
            "dtype": record["dtype"],
            "bytes": sum(row["dram_gb"]) / len(row["dram_gb"]) * 1e9,
        }
        for row in rows
    ]


def _model(model: str | Model) -> Model:
    if isinstance(model, Model):
        return model
    if model not in MODELS:
        raise ValueError(f"models must be among {', '.join(MODELS)}, got {model!r}.")
    return MODELS[model]


def _as_data(model: Model) -> dict[str, Any]:
    terms = [
        {"tensor": t.tensor, "direction": t.direction, "coefficient": t.coefficient,
         "powers": dict(t.powers)} for t in model.items if t.tensor != "lse"
    ]  # fmt: skip
    above = FOOTPRINT.get(model.name, _OUTPUT)
    return {
        "name": model.name,
        "label": NAMES.get(model.name, model.name),
        "kind": model.kind,
        "describes": model.describes,
        "means": MEANS.get(model.name, "other"),
        "launches": LAUNCHES.get(model.name, 1),
        "terms": terms,
        "footprint": {"coefficient": above.coefficient, "powers": dict(above.powers)},
    }
