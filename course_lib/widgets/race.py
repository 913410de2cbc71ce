"""Naive attention and FlashAttention on one clock, every byte that either moves laid on a tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import traitlets

from course_lib.accounting.format import bytes_decimal
from course_lib.accounting.hardware import GPUS, gpu
from course_lib.accounting.measurements import load_measurements
from course_lib.style.look import styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure
from course_lib.widgets import race_lanes as lanes_of
from course_lib.widgets.base import CourseWidget, check_count, static_text
from course_lib.widgets.race_lanes import Event, Kernel, Shape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from course_lib.accounting.eager_ledger import EagerLedger
    from course_lib.accounting.kernel_ledger import KernelLedger
    from course_lib.accounting.memory import FlatMemory

DTYPES = {"fp16": 2, "bf16": 2, "fp32": 4}
TITLES = {"naive": "naive attention", "flash": "FlashAttention", "replay": "your kernel",
          "beside": "the course's kernel"}  # fmt: skip
_LIMITS = {"n": 16384, "d": 256, "block_q": 256, "block_k": 256, "at_once": 132}


class Race(CourseWidget):
    """Lanes on one traffic clock (bytes over bandwidth; never measured time), one head.

    Args:
        n: rows of Q, K and V. d: head dimension. block_q, block_k: rows of a tile.
        causal: aligned at the end; naive attention moves all tiles whatever the mask says.
        decode: Q is one row, the last.
        at_once: programs that run side by side.
        gpu: a name in `hardware.GPUS`: bandwidth, L2, shared memory of one SM.
        dtype: ``"fp16"``, ``"bf16"`` or ``"fp32"``.
        caches: draw the L2 cache, the desk (one SM's shared memory) and, below each tape, what of
            it must cross HBM; else tiles go from HBM straight onto the tape.
        lanes: which, from the left: ``"naive"``, ``"flash"``; a replay has ``"replay"`` and
            ``"beside"`` too.
        eager: an `EagerLedger` of the naive code; its operators are the naive lane's kernels.

    Attributes:
        at: where the clock stands, as a share of the longest lane. speed: 1 to 64 times; at 1 the
            whole race takes 64 seconds. flag: the prediction, a share of the tape's axis, or -1.

    Raises:
        ValueError: for an unknown setting. traitlets.TraitError: for a bad count.
    """

    _esm = static_text(
        "tokens.js",
        "common.js",
        "handles.js",
        "race_lanes.js",
        "race_tape.js",
        "race_canvas.js",
        "race.js",
    )
    _css = static_text("tokens.css", "common.css", "handles.css", "race.css")
    parts = ("race-picture", "race-tape")
    height_px = 800

    n = traitlets.Int(512).tag(sync=True)
    d = traitlets.Int(64).tag(sync=True)
    block_q = traitlets.Int(64).tag(sync=True)
    block_k = traitlets.Int(64).tag(sync=True)
    at_once = traitlets.Int(1).tag(sync=True)
    causal = traitlets.Bool(False).tag(sync=True)
    decode = traitlets.Bool(False).tag(sync=True)
    gpu = traitlets.Enum(list(GPUS), "H100").tag(sync=True)
    dtype = traitlets.Enum(list(DTYPES), "fp16").tag(sync=True)
    speed = traitlets.Enum([1, 2, 4, 8, 16, 32, 64], 4).tag(sync=True)
    at = traitlets.Float(0.0, min=0.0, max=1.0).tag(sync=True)
    flag = traitlets.Float(-1.0, min=-1.0, max=1.0).tag(sync=True)
    lanes: traitlets.List = traitlets.List(["naive", "flash"]).tag(sync=True)
    caches = traitlets.Bool(False).tag(sync=True)
    data = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        n: int = 512,
        d: int = 64,
        block_q: int = 64,
        block_k: int = 64,
        *,
        lanes: Sequence[str] = ("naive", "flash"),
        eager: EagerLedger | None = None,
        replays: dict[str, Any] | None = None,
        whose: str = TITLES["replay"],
        **settings: Any,
    ) -> None:
        known = {
            "at_once",
            "causal",
            "decode",
            "gpu",
            "dtype",
            "speed",
            "at",
            "flag",
            "caches",
            "presenter",
        }
        if unknown := set(settings) - known:
            raise ValueError(f"Race has no setting {sorted(unknown)[0]!r}.")
        if not lanes or set(lanes) - {"naive", "flash", *(replays or {})}:
            raise ValueError(f"lanes must be of 'naive' and 'flash', got {list(lanes)!r}.")
        if "gpu" in settings:
            settings["gpu"] = gpu(settings["gpu"]).name
        data: dict[str, Any] = {
            "operations": lanes_of.NAIVE,
            "gpus": {name: _chip(name) for name in GPUS},
            "dtypes": DTYPES, "limits": _LIMITS, "replays": replays or {},
            "titles": TITLES | {"replay": whose},
            "badges": dict.fromkeys(("naive", "flash"), "computed, not measured"),
            "recorded": _recorded(),
        }  # fmt: skip
        super().__init__(
            n=n, d=d, block_q=block_q, block_k=block_k, lanes=list(lanes), data=data, **settings
        )
        if eager is not None:
            operations = lanes_of.operations_of(eager, self.shape())
            counted = f"counted: the operators of an eager run at N = {n}"
            self.data = data | {
                "operations": operations,
                "badges": data["badges"] | {"naive": counted},
                "titles": data["titles"] | {"naive": "eager attention"},
            }

    @traitlets.validate(*_LIMITS)
    def _valid_count(self, proposal: Any) -> int:
        name = proposal["trait"].name
        check_count(name, proposal["value"], _LIMITS[name])
        return proposal["value"]

    @classmethod
    def replay(
        cls,
        ledger: KernelLedger | FlatMemory,
        beside: KernelLedger | FlatMemory | str = "naive",
        whose: str = TITLES["replay"],
        **settings: Any,
    ) -> Race:
        """Play what a kernel really loaded and stored, beside another lane.

        Args:
            ledger: of one launch of an attention kernel, or of lesson 04's program on flat memory.
            beside: ``"naive"``; ``"model"``, what FlashAttention with the same tiles moves; or
                the ledger of the course's kernel. Of the last two the first event that differs
                is marked.
            whose: what the replayed lane is called.
            **settings: gpu, at_once, speed and ``causal`` (for the model beside it).

        Raises:
            ValueError: if the ledger has no loads of q and k, or ``beside`` is none of these.
        """
        yours = _replay(ledger, f"counted: replayed from {whose}")
        replays, others = {"replay": yours}, ["naive"]
        if beside == "model":
            others = ["flash"]
        elif not isinstance(beside, str):
            replays["beside"] = _replay(beside, "counted: replayed from its ledger")
            others = ["beside"]
        elif beside != "naive":
            raise ValueError(f"beside must be 'naive', 'model' or a ledger, got {beside!r}.")
        shape = yours["shape"]
        sizes = {name: shape[name] for name in ("n", "d", "block_q", "block_k", "dtype", "decode")}
        return cls(lanes=[*others, "replay"], replays=replays, whose=whose,
                   **{**sizes, **settings})  # fmt: skip

    def shape(self) -> Shape:
        """Return the sizes of the head."""
        n_q = 1 if self.decode else self.n
        b = DTYPES[self.dtype]
        return Shape(n_q, self.n, self.d, self.block_q, self.block_k, self.causal, b)

    def kernels(self, lane: str) -> list[Kernel]:
        """Return a lane's kernels, programs and moves."""
        if lane in self.data["replays"]:
            return [[[lanes_of.Move(*m) for m in program] for program in kernel]
                    for kernel in self.data["replays"][lane]["kernels"]]  # fmt: skip
        if lane == "flash":
            return lanes_of.flash_kernels(self.shape())
        return lanes_of.naive_kernels(self.shape(), self.data["operations"])

    def events(self, lane: str) -> list[Event]:
        """Return a lane's events: tensor, rows, cols, kind, program, bytes, t0, t1 (seconds)."""
        chip = self.data["gpus"][self.gpu]
        return lanes_of.schedule(self.kernels(lane), self.at_once, chip["gb_per_s"], chip["l2"])

    def total(self, lane: str) -> int:
        """Return all bytes that a lane's loads and stores ask for."""
        return sum(event.n_bytes for event in self.events(lane))

    def least(self, lane: str) -> float:
        """Return the bytes that must cross HBM at least (caches empty at the start)."""
        return sum(event.least for event in self.events(lane))

    def difference(self) -> int | None:
        """Return the first event of the replay that is not the other lane's, if that is asked."""
        other = self.lanes[0]
        if "replay" not in self.lanes or other not in ("flash", "beside"):
            return None
        return lanes_of.first_difference(self.events("replay"), self.events(other))

    def badge(self, lane: str) -> str:
        """Return where a lane's moves come from."""
        replay = self.data["replays"].get(lane)
        return replay["badge"] if replay else self.data["badges"][lane]

    def to_table(self) -> str:
        """Return the bytes of each lane and tensor as text, and what the clock is."""
        more = ", causal" * self.causal + ", decoding (Q is one row)" * self.decode
        lines = [
            f"N = {self.n}, d = {self.d}, tiles of {self.block_q} x {self.block_k}, {self.dtype}, "
            f"{self.at_once} program(s) at once{more}"
        ]
        titles = self.data["titles"]
        for lane in self.lanes:
            events = self.events(lane)
            moved: dict[tuple[str, str], int] = {}
            for e in events:
                moved[e.tensor, e.kind] = moved.get((e.tensor, e.kind), 0) + e.n_bytes
            lines.append(f"{titles[lane]} ({self.badge(lane)}): {len(events)} events")
            for (tensor, kind), n_bytes in moved.items():
                lines.append(f"  {kind:5} {tensor:4} {n_bytes:>15,} bytes")
            lines.append(f"  all        {self.total(lane):>15,} bytes (upper bound on HBM)")
            lines.append(f"  at least   {round(self.least(lane)):>15,} bytes cross HBM")
            lines.append(f"  traffic clock: {events[-1].t1 * 1e6:.4g} us = bytes / bandwidth of "
                         f"the {self.gpu}; not measured")  # fmt: skip
        if self.difference() is not None:
            lines.append(f"first difference: event {self.difference()} of {titles['replay']}")
        return "\n".join(lines)

    @styled
    def to_figure(self) -> Figure:
        """Draw the tapes of all lanes to one scale, each byte in the colour of its tensor."""
        figure, axes = new_figure(figsize=(8, 1 + 0.9 * len(self.lanes)))
        for place, lane in enumerate(self.lanes):
            runs: dict[str, list[tuple[float, float]]] = {}
            total = 0
            for event in self.events(lane):
                name = event.tensor if event.tensor in ("q", "k", "v", "o", "lse") else "s"
                runs.setdefault(name, []).append((total / 1e6, event.n_bytes / 1e6))
                total += event.n_bytes
            for name, bars in runs.items():
                colour = hex_of("other" if name == "lse" else name)
                axes.broken_barh(bars, (place - 0.3, 0.6), color=colour, linewidth=0)
            least = self.least(lane)
            axes.plot([least / 1e6] * 2, [place - 0.4, place + 0.4], ":", color=hex_of("other"))
            says = f"{self.data['titles'][lane]}: {bytes_decimal(total)} moved, at least "
            says += f"{bytes_decimal(round(least))} of it to or from HBM"
            axes.text(0, place - 0.38, says, va="bottom")
        axes.set(yticks=[], xlabel="MB that loads and stores ask for")
        axes.set_ylim(len(self.lanes) - 0.5, -0.9)
        axes.spines["left"].set_visible(False)
        return figure


def _chip(name: str) -> dict[str, float]:
    """Return what the Race needs of a GPU: GB/s, bytes of L2, of one block's shared memory."""
    chip = GPUS[name]
    return {"gb_per_s": chip.hbm_gb_per_s, "l2": chip.l2_mb * 2**20, "shared": chip.shared_bytes}


def _recorded() -> list[dict[str, Any]]:
    """Return what hardware counters saw of HBM, bytes a head, at the shapes that were measured."""
    record = load_measurements("h100_dram_traffic")
    return [
        {
            "n": row["n"], "d": record["head_dim"], "causal": row["causal"],
            "bytes": 1e9 * sum(row["dram_gb"]) / len(row["dram_gb"]) / row["heads"],
            "label": f"measured on {record['device']}, {row['heads']} heads: bytes a head in HBM",
            "short": f"a head, {record['device'].split()[1]} counters",
        }
        for row in record["rows"]
    ]  # fmt: skip


def _replay(ledger: KernelLedger | FlatMemory, badge: str) -> dict[str, Any]:
    """Return a ledger's kernels as plain data, and the sizes of the head that it worked on.

    Raises:
        ValueError: if it holds no loads of q and of k, or more than one launch's tensors of them.
    """
    first = {lanes_of.role(v.tensor): v for v in reversed(ledger.visits) if v.kind == "load"}
    if not {"q", "k"} <= set(first):
        seen = ", ".join(sorted({visit.tensor for visit in ledger.visits})) or "nothing"
        raise ValueError(f"ledger must hold loads of q and of k; it saw {seen}.")
    shapes, itemsize = _tensors(ledger)
    columns = {name: shape[-1] if len(shape) > 1 else 1 for name, shape in shapes.items()}
    q, k = first["q"], first["k"]
    n_q, n_k = (shapes[visit.tensor][-2] for visit in (q, k))
    kernels = lanes_of.kernels_of(ledger.visits, columns)
    return {
        "badge": badge,
        "kernels": kernels,
        "shape": {
            "n": n_k, "d": columns[k.tensor], "decode": n_q == 1 and n_k > 1,
            "block_q": q.rows[1] - q.rows[0], "block_k": k.rows[1] - k.rows[0],
            "dtype": "fp32" if itemsize == 4 else "fp16",
        },
    }  # fmt: skip


def _tensors(ledger: KernelLedger | FlatMemory) -> tuple[dict[str, tuple[int, ...]], int]:
    """Return each tensor's shape, and the bytes of a number in Q."""
    if not hasattr(ledger, "launches"):
        return {name: place.shape for name, place in ledger.placements.items()}, ledger.itemsize
    tensors = {name: t for launch in ledger.launches for name, t in launch.tensors.items()}
    dtype = next(t[2] for name, t in tensors.items() if lanes_of.role(name) == "q")
    return {name: tuple(t[0]) for name, t in tensors.items()}, 4 if dtype == "float32" else 2
