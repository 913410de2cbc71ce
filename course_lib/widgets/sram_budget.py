"""What one tile needs on the chip, what sits where, and the largest tile that fits (lesson 04).

Two layouts: the paper's, with every buffer in shared memory, and that of real kernels, with S and O
in registers and several K/V tiles in flight. Both are formulas; the compiler's own figure
(`add_compiled`) is better than either.

What JavaScript computes too is held against Python in tests/widgets/test_javascript.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from course_lib.accounting.format import bytes_binary
from course_lib.accounting.hardware import GPUS, gpu
from course_lib.accounting.sram import STATISTICS_BYTES
from course_lib.style.axes import ink_of
from course_lib.style.look import PAGE_INK, styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure
from course_lib.widgets.base import CourseWidget, check_count, evaluate, monomial, static_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN_GPUS = ("T4", "L4", "A100-80", "H100", "B200")
REGISTERS_PER_THREAD = 255  # CUDA programming guide, compute capability 5.0 and later
_STATISTICS = monomial(2 * STATISTICS_BYTES, "block_q")  # m and l, fp32
LAYOUTS: dict[str, dict[str, dict[str, Any]]] = {
    "paper": {
        "shared": {
            "Q": monomial(1, "block_q d b"),
            "K": monomial(1, "block_k d b"),
            "V": monomial(1, "block_k d b"),
            "S": monomial(1, "block_q block_k b"),
            "O": monomial(1, "block_q d b"),
            "m, l": _STATISTICS,
        },
        "registers": {},
    },
    "kernel": {
        "shared": {
            "Q": monomial(1, "block_q d b"),
            "K, all stages": monomial(1, "stages block_k d b"),
            "V, all stages": monomial(1, "stages block_k d b"),
        },
        "registers": {
            "S, fp32": monomial(4, "block_q block_k"),
            "O, fp32": monomial(4, "block_q d"),
            "m, l": _STATISTICS,
        },
    },
}
"""Layout -> where -> buffer -> its bytes as a monomial. Source of the first: `accounting.sram`."""

_LIMITS = {"block_q": 1024, "block_k": 1024, "d": 1024, "stages": 8, "warps": 32, "n": 2**20}
_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}


class SramBudget(CourseWidget):
    """Tile sizes, head dimension, dtype and stages against the shared memory of five GPUs.

    Attributes:
        block_q, block_k: rows of a tile. d: head dimension. dtype: of the elements.
        buffers: the layout, ``"paper"`` or ``"kernel"``. stages: K/V tiles in flight.
        warps: of one program.
        n: rows of K and V, for the re-reads. compiled: the compiler's figures, one dict a GPU.

    Raises:
        ValueError: for an unknown setting. traitlets.TraitError: for a bad count.
    """

    _esm = static_text("tokens.js", "common.js", "handles.js", "sram_budget.js")
    _css = static_text("tokens.css", "common.css", "handles.css", "sram_budget.css")
    parts = ("sram-block", "sram-gpus", "sram-layout")
    height_px = 520

    block_q = traitlets.Int(128).tag(sync=True)
    block_k = traitlets.Int(128).tag(sync=True)
    d = traitlets.Int(128).tag(sync=True)
    stages = traitlets.Int(2).tag(sync=True)
    warps = traitlets.Int(8).tag(sync=True)
    n = traitlets.Int(8192).tag(sync=True)
    dtype = traitlets.Enum(list(_BYTES), "fp16").tag(sync=True)
    buffers = traitlets.Enum(list(LAYOUTS), "paper").tag(sync=True)
    compiled: traitlets.List = traitlets.List().tag(sync=True)
    data = traitlets.Dict().tag(sync=True)

    def __init__(self, *, presenter: bool = False, **settings: Any) -> None:
        unknown = set(settings) - {*_LIMITS, "dtype", "buffers"}
        if unknown:
            raise ValueError(f"SramBudget has no setting {sorted(unknown)[0]!r}.")
        data = {
            "layouts": LAYOUTS,
            "gpus": {name: GPUS[name].shared_bytes for name in SHOWN_GPUS},
            "limits": _LIMITS,
            "dtypes": _BYTES,
            "registers_per_thread": REGISTERS_PER_THREAD,
        }
        super().__init__(data=data, presenter=presenter, **settings)

    @traitlets.validate(*_LIMITS)
    def _valid_count(self, proposal: Any) -> int:
        check_count(proposal["trait"].name, proposal["value"], _LIMITS[proposal["trait"].name])
        return proposal["value"]

    def buffer_bytes(self, where: str = "shared", **changed: int) -> dict[str, int]:
        """Return the bytes of each buffer in ``"shared"`` memory or in ``"registers"``."""
        names = ("block_q", "block_k", "d", "stages")
        values = {name: getattr(self, name) for name in names} | {"b": _BYTES[self.dtype]}
        terms = LAYOUTS[self.buffers][where]
        return {name: evaluate(term, values | changed) for name, term in terms.items()}

    def largest_tile(self, name: str) -> int:
        """Return the largest B with B x B tiles in the shared memory of GPU ``name``; 0 if none.

        B is a multiple of 16: tensor cores take rows so.
        """
        limit, low, high = gpu(name).shared_bytes, 0, 1 << 16
        while low < high:
            middle = (low + high + 1) // 2
            rows = 16 * middle
            fits = sum(self.buffer_bytes(block_q=rows, block_k=rows).values()) <= limit
            low, high = (middle, high) if fits else (low, middle - 1)
        return 16 * low

    def registers_per_thread(self) -> float:
        """Return the 32-bit registers that each thread of the program needs for the buffers."""
        return sum(self.buffer_bytes("registers").values()) / 4 / (32 * self.warps)

    def rereads(self, block_q: int | None = None) -> int:
        """Return how often K and V are read: once for each of ceil(n / block_q) query tiles."""
        return -(-self.n // (block_q or self.block_q))

    def add_compiled(
        self,
        name: str,
        *,
        shared: int,
        registers: int | None = None,
        spills: int | None = None,
        label: str = "your kernel, compiled",
    ) -> None:
        """Show the compiler's own figures for GPU ``name`` beside the formula.

        Args:
            shared: bytes of shared memory of a program. registers: of a thread. spills: bytes.

        Raises:
            ValueError: for an unknown GPU or a negative count.
        """
        chip = gpu(name).name
        counts = {"shared": shared, "registers": registers, "spills": spills}
        for what, count in counts.items():
            if count is not None and (not isinstance(count, int) or count < 0):
                raise ValueError(f"{what} must be a whole number of at least 0, got {count!r}.")
        self.compiled = [*self.compiled, {"gpu": chip, "label": label, **counts}]

    def to_table(self) -> str:
        """Return the buffers, and for each GPU whether the tile fits, as text."""
        shared, registers = self.buffer_bytes(), self.buffer_bytes("registers")
        total = sum(shared.values())
        lines = [
            f"tile {self.block_q} x {self.block_k}, d = {self.d}, {self.dtype}, {self.buffers} "
            f"layout, K and V read {self.rereads()} times at N = {self.n}"
        ]
        lines += [f"  {name:<14} {bytes_binary(n):>9}  shared memory" for name, n in shared.items()]
        lines += [f"  {name:<14} {bytes_binary(n):>9}  registers" for name, n in registers.items()]
        lines.append(f"  {'shared, in all':<14} {bytes_binary(total):>9}")
        if registers:
            lines.append(f"  {self.registers_per_thread():.0f} registers a thread, of 255")
        for name in SHOWN_GPUS:
            fits = "fits" if total <= GPUS[name].shared_bytes else "does not fit"
            limit = bytes_binary(GPUS[name].shared_bytes)
            lines.append(f"  {name:<8} {limit:>8}: {fits}; largest B = {self.largest_tile(name)}")
        for entry in self.compiled:
            lines.append(f"  {entry['gpu']}, {entry['label']}: {bytes_binary(entry['shared'])}")
        return "\n".join(lines)

    @styled
    def to_figure(self) -> Figure:
        """Draw the shared buffers as one block on a KiB axis, each GPU's limit as a wall."""
        figure, axes = new_figure(figsize=(8, 3))
        left = 0.0
        for name, n_bytes in self.buffer_bytes().items():
            kib, tensor = n_bytes / 1024, "other" if name == "m, l" else name[0].lower()
            axes.barh(0, kib, left=left, color=hex_of(tensor), edgecolor=hex_of(tensor))
            if tensor != "other":
                axes.text(left + kib / 2, 0.42, tensor.upper(), ha="center", va="bottom")
            left += kib
        axes.text(left, -0.42, f"  {left:.4g} KiB", ha="left", va="top", weight="bold")
        walls: dict[int, list[str]] = {}
        for name in SHOWN_GPUS:
            walls.setdefault(GPUS[name].shared_kib_per_block, []).append(name)
        for kib, names in walls.items():
            colour = PAGE_INK if left <= kib else hex_of("naive")
            axes.plot([kib, kib], [-0.5, 0.75], color=colour)
            axes.text(kib, 0.8, "\n".join(names), ha="center", va="bottom", color=ink_of(colour))
        axes.set(xlabel="KiB of shared memory per program", yticks=[], ylim=(-0.8, 1.3))
        axes.spines["left"].set_visible(False)
        return figure
