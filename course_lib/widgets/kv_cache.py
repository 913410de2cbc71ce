"""How large the KV cache is, and how many requests fit beside the weights (lesson 10).

A cache keeps, for every token and layer, one K and one V row for each K/V head. Sources: GQA
(Ainslie et al. 2023), MQA (Shazeer 2019), MLA (DeepSeek-V2 2024, section 2.1: one latent row and
one rotary key for all heads), sliding window (Jiang et al. 2023).

What JavaScript computes too is held against Python in tests/widgets/test_javascript.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from course_lib.accounting.format import bytes_binary
from course_lib.style.look import styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure
from course_lib.widgets.base import CourseWidget, check_count, evaluate, monomial, static_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# GiB that a program can have in all, to about a tenth (driver and error correction differ): what
# torch.cuda.mem_get_info and out-of-memory messages call total. The "80 GB" of an H100's data sheet
# are 79.2 GiB = 85.0e9 bytes; of A100, H100 and H200 the SXM boards.
CAPACITY_GIB = {
    "T4": 14.8, "L4": 22.2, "A100-40": 39.4, "A100-80": 79.2, "H100": 79.2, "H200": 139.8,
    "B200": 178.4,
}  # fmt: skip
CAPACITY = {name: round(gib * 2**30) for name, gib in CAPACITY_GIB.items()}
DTYPES = {"fp32": 4, "fp16 / bf16": 2, "int8 / fp8": 1}
MLA_ROW = 512 + 64  # DeepSeek-V2: latent of 512 numbers and a rotary key of 64, shared by all heads

PRESETS: dict[str, dict[str, int]] = {
    "GPT-2 (124M)": {"layers": 12, "heads": 12, "kv_heads": 12, "d": 64, "weights_m": 124},
    "Llama-2-7B": {"layers": 32, "heads": 32, "kv_heads": 32, "d": 128, "weights_m": 6738},
    "Llama-3-8B": {"layers": 32, "heads": 32, "kv_heads": 8, "d": 128, "weights_m": 8030},
    "Mistral-7B": {"layers": 32, "heads": 32, "kv_heads": 8, "d": 128, "weights_m": 7242},
    "Llama-3-70B": {"layers": 80, "heads": 64, "kv_heads": 8, "d": 128, "weights_m": 70554},
}
"""Published configurations; ``weights_m`` are millions of parameters, embeddings included.

Sources: Radford et al. 2019 (GPT-2, small); Touvron et al. 2023, arXiv:2307.09288 (Llama 2); Llama
team 2024, arXiv:2407.21783, table 3 (Llama 3); Jiang et al. 2023, arXiv:2310.06825, table 1
(Mistral).
"""

OWN = "this model"
_ROWS = "layers tokens batch"
VARIANTS: dict[str, dict[str, Any]] = {
    OWN: {
        "term": monomial(2, f"{_ROWS} kv_heads d b"),
        "says": "{kv_heads} K/V heads for {heads} query heads",
    },
    "MHA": {
        "term": monomial(2, f"{_ROWS} heads d b"),
        "says": "multi-head: own K and V for each head",
    },
    "MQA": {"term": monomial(2, f"{_ROWS} d b"), "says": "multi-query: one K/V head for all"},
    "MLA": {
        "term": monomial(MLA_ROW, f"{_ROWS} b"),
        "says": "one latent row of 576 numbers for all",
    },
    "int8": {"term": monomial(2, f"{_ROWS} kv_heads d"), "says": "one byte a number"},
    "window": {
        "term": monomial(2, "layers window_tokens batch kv_heads d b"),
        "says": "only the last {window} keys are kept",
    },
}
"""What a change makes of the cache: bytes as a monomial, and what it is; see `says`."""

_LIMITS = {
    "layers": 256, "heads": 256, "kv_heads": 256, "d": 1024, "n": 2**24, "batch": 65536,
    "window": 2**24, "weights_m": 2_000_000, "gpus": 1024,
}  # fmt: skip


class KVCacheCalculator(CourseWidget):
    """Bytes of the KV cache, what would shrink it, and the requests that fit on a GPU.

    Args:
        preset: a name in `PRESETS` to start from.
        **settings: any of the attributes.

    Attributes:
        layers, heads, kv_heads, d: of the model. weights_m: its parameters in millions, 2 bytes
            each. n: tokens of a request. batch: requests. window: keys that a sliding window keeps.
        dtype: of the cache, a name in `DTYPES`. gpu: a name in `CAPACITY`. gpus: how many.

    Raises:
        ValueError: for an unknown setting or preset. traitlets.TraitError: for a bad count.
    """

    _esm = static_text("tokens.js", "common.js", "handles.js", "kv_cache.js")
    _css = static_text("tokens.css", "common.css", "handles.css", "kv_cache.css")
    parts = ("kv-box", "kv-variants")
    height_px = 760

    layers = traitlets.Int(32).tag(sync=True)
    heads = traitlets.Int(32).tag(sync=True)
    kv_heads = traitlets.Int(8).tag(sync=True)
    d = traitlets.Int(128).tag(sync=True)
    weights_m = traitlets.Int(8030).tag(sync=True)
    n = traitlets.Int(8192).tag(sync=True)
    batch = traitlets.Int(1).tag(sync=True)
    window = traitlets.Int(4096).tag(sync=True)
    gpus = traitlets.Int(1).tag(sync=True)
    dtype = traitlets.Enum(list(DTYPES), "fp16 / bf16").tag(sync=True)
    gpu = traitlets.Enum(list(CAPACITY), "H100").tag(sync=True)
    data = traitlets.Dict().tag(sync=True)

    def __init__(
        self, preset: str = "Llama-3-8B", *, presenter: bool = False, **settings: Any
    ) -> None:
        if preset not in PRESETS:
            raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {preset!r}.")
        unknown = set(settings) - {*_LIMITS, "dtype", "gpu"}
        if unknown:
            raise ValueError(f"KVCacheCalculator has no setting {sorted(unknown)[0]!r}.")
        data = {
            "presets": PRESETS,
            "variants": VARIANTS,
            "capacity": CAPACITY,
            "dtypes": DTYPES,
            "limits": _LIMITS,
        }
        super().__init__(data=data, presenter=presenter, **{**PRESETS[preset], **settings})

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

    def cache_bytes(self, variant: str = OWN, *, batch: int | None = None) -> int:
        """Return the bytes of the cache of all requests, by a name in `VARIANTS`."""
        if variant not in VARIANTS:
            raise ValueError(f"variant must be one of {', '.join(VARIANTS)}, got {variant!r}.")
        values = {
            "layers": self.layers, "heads": self.heads, "kv_heads": self.kv_heads, "d": self.d,
            "tokens": self.n, "window_tokens": min(self.n, self.window),
            "batch": self.batch if batch is None else batch, "b": DTYPES[self.dtype],
        }  # fmt: skip
        return evaluate(VARIANTS[variant]["term"], values)

    def free_bytes(self) -> int:
        """Return what the weights, at 2 bytes a parameter, leave free; negative if too large."""
        return self.gpus * CAPACITY[self.gpu] - self.weights_m * 2 * 10**6

    def requests(self, variant: str = OWN) -> int:
        """Return how many requests of n tokens fit beside the weights, activations left out."""
        return max(0, self.free_bytes()) // self.cache_bytes(variant, batch=1)

    def says(self, variant: str = OWN) -> str:
        """Return in words what a variant keeps; `saysOf` of kv_cache.js is its twin."""
        counts = {"heads": self.heads, "kv_heads": self.kv_heads, "window": self.window}
        return str(VARIANTS[variant]["says"]).format(**counts)

    def to_table(self) -> str:
        """Return the cache by every variant, and the requests that fit, as text."""
        lines = [
            f"{self.layers} layers, {self.heads} heads ({self.kv_heads} K/V), d = {self.d}, "
            f"{self.dtype} cache, N = {self.n}, batch {self.batch}, {self.gpus} x {self.gpu} "
            f"({bytes_binary(self.gpus * CAPACITY[self.gpu])}, weights "
            f"{bytes_binary(self.weights_m * 2 * 10**6)})"
        ]
        for name in VARIANTS:
            size = bytes_binary(self.cache_bytes(name))
            lines.append(f"  {name:<10} {size:>9}  {self.requests(name):>6} fit  {self.says(name)}")
        return "\n".join(lines)

    @styled
    def to_figure(self) -> Figure:
        """Draw the cache by every variant in GiB."""
        figure, axes = new_figure(figsize=(8, 3.6))
        sizes = [self.cache_bytes(name) / 2**30 for name in VARIANTS]
        colours = [hex_of("flash" if name == OWN else "other") for name in VARIANTS]
        bars = axes.barh(list(VARIANTS), sizes, color=colours)
        axes.bar_label(bars, [bytes_binary(size * 2**30) for size in sizes], padding=3)
        axes.invert_yaxis()
        axes.set(xlabel="GiB", xlim=(0, max(sizes) * 1.2))
        return figure
