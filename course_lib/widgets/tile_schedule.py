"""The grid of score tiles, and who computes which, when (lessons 04 and 10).

Three schedules of one grid: naive attention (three kernels, every tile), flash (one program a query
tile, skipped tiles never touched) and split-K decoding (one program a slice of the keys).

What JavaScript computes too is held against Python in tests/widgets/test_javascript.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import traitlets

from course_lib.attention import masks
from course_lib.attention.masks import Mask, Tile
from course_lib.style.look import styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure
from course_lib.widgets.base import CourseWidget, check_count, static_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_TILES = 1024
MAX_GUESS = 64  # times
_LIMITS = {
    "n_q": 4096, "n_k": 4096, "block_q": 1024, "block_k": 1024, "window": 4096,
    "heads": 8, "kv_heads": 8, "splits": 64, "at_once": 64,
}  # fmt: skip


class Work(NamedTuple):
    """One program at one tile: ``phase`` is scores, softmax, values (naive), flash or split."""

    phase: str
    program: int
    head: int
    i: int
    j: int


@dataclass
class Loads:
    """Rows of d elements that the programs asked for, and single scores to and from HBM."""

    q: int = 0
    k: int = 0
    v: int = 0
    o: int = 0
    scores: int = 0  # elements of S and P, written or read
    partial: int = 0  # rows of unfinished O, written by a split, read by the combining step
    pairs: int = 0  # scores computed


class TileSchedule(CourseWidget):
    """Tiles of the N_q x N_k scores in the order of execution, program by program.

    Attributes:
        n_q, n_k: rows of Q and of K, V. block_q, block_k: rows of a tile.
        heads, kv_heads: a query head's programs load their own copy of its group's K and V.
        mask: ``"everything"``, ``"causal"`` (aligned at the end) or ``"window"``, which keeps
            ``window`` keys.
        schedule: ``"flash"``, ``"naive"`` or ``"split_k"`` with ``splits`` programs a query tile.
        at_once: programs that run side by side. step: steps done.
        guess: how many times each row of K is read, guessed before the first step; 0: no guess.

    Raises:
        ValueError: for an unknown setting. traitlets.TraitError: for a bad count, for more than
            1024 tiles, and unless kv_heads divides heads.
    """

    _esm = static_text("tokens.js", "common.js", "handles.js", "tile_schedule.js")
    _css = static_text("tokens.css", "common.css", "handles.css", "tile_schedule.css")
    parts = (
        "schedule-picture", "schedule-grid", "schedule-steps", "schedule-kind", "schedule-mask",
        "schedule-loads",
    )  # fmt: skip
    height_px = 900

    n_q = traitlets.Int(16).tag(sync=True)
    n_k = traitlets.Int(16).tag(sync=True)
    block_q = traitlets.Int(4).tag(sync=True)
    block_k = traitlets.Int(4).tag(sync=True)
    window = traitlets.Int(6).tag(sync=True)
    heads = traitlets.Int(1).tag(sync=True)
    kv_heads = traitlets.Int(1).tag(sync=True)
    splits = traitlets.Int(2).tag(sync=True)
    at_once = traitlets.Int(1).tag(sync=True)
    mask = traitlets.Enum(["everything", "causal", "window"], "everything").tag(sync=True)
    schedule = traitlets.Enum(["flash", "naive", "split_k"], "flash").tag(sync=True)
    step = traitlets.Int(0, min=0).tag(sync=True)
    guess = traitlets.Float(0.0, min=0.0, max=MAX_GUESS).tag(sync=True)
    limits = traitlets.Dict({**_LIMITS, "tiles": MAX_TILES, "guess": MAX_GUESS}).tag(sync=True)

    def __init__(self, *, presenter: bool = False, **settings: Any) -> None:
        unknown = set(settings) - {*_LIMITS, "mask", "schedule", "step", "guess"}
        if unknown:
            raise ValueError(f"TileSchedule has no setting {sorted(unknown)[0]!r}.")
        super().__init__(presenter=presenter, **settings)

    @traitlets.validate(*_LIMITS)
    def _valid_count(self, proposal: Any) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        check_count(name, value, _LIMITS[name])
        now = {**{key: getattr(self, key) for key in _LIMITS}, name: value}
        tiles = -(-now["n_q"] // now["block_q"]) * -(-now["n_k"] // now["block_k"]) * now["heads"]
        if tiles > MAX_TILES:
            raise traitlets.TraitError(
                f"{name} = {value} makes {tiles} tiles, at most {MAX_TILES}."
            )
        if now["heads"] % now["kv_heads"]:
            raise traitlets.TraitError(
                f"heads must be a multiple of kv_heads, got {now['heads']} and {now['kv_heads']}."
            )
        return value

    def rule(self) -> Mask:
        """Return the mask as `course_lib.attention.masks` has it."""
        if self.mask == "window":
            return masks.sliding_window(self.window)
        return masks.causal() if self.mask == "causal" else masks.everything()

    @property
    def t_q(self) -> int:
        """Tiles down."""
        return -(-self.n_q // self.block_q)

    @property
    def t_k(self) -> int:
        """Tiles across."""
        return -(-self.n_k // self.block_k)

    def tiles(self) -> list[list[str]]:
        """Return ``"skip"``, ``"full"`` or ``"partial"`` for tile (i, j)."""
        rule = self.rule()
        return [
            [
                str(
                    rule.classify(
                        i * self.block_q,
                        min((i + 1) * self.block_q, self.n_q),
                        j * self.block_k,
                        min((j + 1) * self.block_k, self.n_k),
                        self.n_q,
                        self.n_k,
                    )
                )
                for j in range(self.t_k)
            ]
            for i in range(self.t_q)
        ]

    def steps(self) -> list[list[Work]]:
        """Return what runs in each step; the programs of one kernel start as places become free."""
        done: list[list[Work]] = []
        for kernel in self._kernels():
            waiting = [list(program) for program in kernel if program]
            active: list[list[Work]] = []
            while waiting or active:
                free = self.at_once - len(active)
                active, waiting = active + waiting[:free], waiting[free:]
                done.append([program.pop(0) for program in active])
                active = [program for program in active if program]
        return done

    def _kernels(self) -> Iterator[list[list[Work]]]:
        """Yield kernels, each a list of programs, each a list of tiles in its own order."""
        tiles, columns = self.tiles(), range(self.t_k)
        rows = [(h, i) for h in range(self.heads) for i in range(self.t_q)]
        if self.schedule == "naive":
            one = [(h, i, j) for h, i in rows for j in columns]
            yield [[Work("scores", p, h, i, j)] for p, (h, i, j) in enumerate(one)]
            for phase in ("softmax", "values"):
                yield [[Work(phase, p, h, i, j) for j in columns] for p, (h, i) in enumerate(rows)]
            return
        parts = self.splits if self.schedule == "split_k" else 1
        phase = "split" if self.schedule == "split_k" else "flash"
        share = -(-self.t_k // parts)
        programs = [
            (h, i, columns[s * share : (s + 1) * share]) for h, i in rows for s in range(parts)
        ]
        yield [
            [Work(phase, p, h, i, j) for j in part if tiles[i][j] != Tile.SKIP]
            for p, (h, i, part) in enumerate(programs)
        ]

    def loads(self, step: int | None = None) -> Loads:
        """Return what the first ``step`` steps moved (all of them by default)."""
        steps = self.steps()
        work = [w for now in steps[: len(steps) if step is None else step] for w in now]
        left = Counter((w.phase, w.program) for now in steps for w in now)  # tiles before it
        total, started = Loads(), set()
        for w in work:
            rows = min((w.i + 1) * self.block_q, self.n_q) - w.i * self.block_q
            keys = min((w.j + 1) * self.block_k, self.n_k) - w.j * self.block_k
            first = (w.phase, w.program) not in started
            started.add((w.phase, w.program))
            left[w.phase, w.program] -= 1
            last = left[w.phase, w.program] == 0
            if w.phase in ("scores", "flash", "split"):
                total.q += rows * first
                total.k += keys
                total.pairs += rows * keys
            if w.phase in ("values", "flash", "split"):
                total.v += keys
            total.scores += {"scores": 1, "softmax": 2, "values": 1}.get(w.phase, 0) * rows * keys
            total.o += rows * last * (w.phase in ("values", "flash"))
            total.partial += 2 * rows * last * (w.phase == "split")  # written, read to combine
        if self.schedule == "split_k" and len(work) == sum(map(len, steps)):
            total.o = self.heads * self.n_q  # the combining step, once every split is done
        return total

    def to_table(self) -> str:
        """Return the grid (· skip, # full, / partial), the steps and the loads as text."""
        marks = {"skip": "·", "full": "#", "partial": "/"}
        lines = [
            f"{self.schedule}, {self.mask}: {self.n_q} x {self.n_k} scores in tiles of "
            f"{self.block_q} x {self.block_k}, {self.heads} head(s), {self.at_once} at once"
        ]
        lines += ["".join(marks[tile] for tile in row) for row in self.tiles()]
        loads = asdict(self.loads())
        lines.append(f"{len(self.steps())} steps")
        lines.append(", ".join(f"{name}: {count}" for name, count in loads.items()))
        return "\n".join(lines)

    @styled
    def to_figure(self) -> Figure:
        """Draw the grid of the first head; numbers say in which step a tile is computed."""
        figure, axes = new_figure(figsize=(5, 5))
        when: dict[tuple[int, int], int] = {}
        for number, now in enumerate(self.steps(), 1):
            for w in now:
                if w.head == 0:
                    when.setdefault((w.i, w.j), number)
        colours = {"full": hex_of("blue"), "partial": hex_of("purple"), "skip": "none"}
        hatches = {"full": "", "partial": "//", "skip": ""}
        for i, row in enumerate(self.tiles()):
            for j, tile in enumerate(row):
                axes.bar(
                    j, 0.94, 0.94, i - 0.47, color=colours[tile], hatch=hatches[tile],
                    edgecolor=hex_of("grey"), linestyle=":" if tile == "skip" else "-",
                )  # fmt: skip
                if (i, j) in when:
                    label = str(when[i, j])
                    axes.text(j, i, label, ha="center", va="center", color="white", weight="bold")
        axes.set(xlabel="K/V tile", ylabel="Q tile", aspect="equal")
        axes.set(xticks=range(self.t_k), yticks=range(self.t_q))
        axes.set(xlim=(-0.6, self.t_k - 0.4), ylim=(self.t_q - 0.4, -0.6))
        return figure
