"""One query row walks over its K/V tiles: (m, l, O) step by step, right and wrong (lesson 03).

The recurrence, the right one and each named mistake, runs here and in the module: there the scores
are dragged. Source: Dao et al. 2022, Algorithm 1; Milakov & Gimelshein 2018.

What JavaScript computes too is held against Python in tests/widgets/test_javascript.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import traitlets
from numpy.typing import ArrayLike

from course_lib.style.look import styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure
from course_lib.widgets.asking import is_number
from course_lib.widgets.attention_inputs import matrix, one_head, scores_and_answer
from course_lib.widgets.base import CourseWidget, static_text
from course_lib.widgets.stepper_walk import VARIANTS, at_once, divided, loaded, trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from course_lib.accounting.kernel_ledger import KernelLedger

MAX_ROWS, MAX_KEYS, SHOWN_COLUMNS = 16, 256, 8
LINES_PER_TILE = 7


class TileStepper(CourseWidget):
    """Watch the online softmax of one query row, tile by tile, line by line.

    Args:
        q: (n_q, d). k: (n_k, d). v: (n_k, d_v). Without them: eight rows of normal numbers against
            32 keys, d = 8, from a fixed seed. Arrays or CPU tensors.
        tile: K/V rows of a tile.
        causal: aligned at the end. scale: 1/sqrt(d) by default.
        rows: which query rows to offer; sixteen evenly spread ones by default.

    Raises:
        ValueError: for shapes that do not fit, more than 256 keys, a tile without rows.

    Attributes:
        row: the query row on show. step: how many lines have run (0 to `last_step`).
        by: ``"line"`` or ``"tile"``: how far one step goes. order: the tiles' places, in the order
            of the walk; reverse: the last of them first.
        changed: scores that were dragged, ``{"row:key": score}``. column: of V and O, on show.
        mistake: ``"none"`` or a name in `VARIANTS`, run beside the right recurrence.
    """

    _esm = static_text(
        "tokens.js", "common.js", "handles.js", "tile_stepper_picture.js", "tile_stepper.js"
    )
    _css = static_text("tokens.css", "common.css", "handles.css", "tile_stepper.css")
    parts = ("stepper-picture", "stepper-tiles", "stepper-code", "stepper-notes", "stepper-mistake")
    height_px = 680

    data = traitlets.Dict().tag(sync=True)
    row = traitlets.Int(0).tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    by = traitlets.Enum(["line", "tile"], "line").tag(sync=True)
    reverse = traitlets.Bool(False).tag(sync=True)
    order = traitlets.List(traitlets.Int()).tag(sync=True)
    changed = traitlets.Dict().tag(sync=True)
    column = traitlets.Int(0).tag(sync=True)
    mistake = traitlets.Enum(["none", *list(VARIANTS)[1:]], "none").tag(sync=True)

    def __init__(
        self,
        q: ArrayLike | None = None,
        k: ArrayLike | None = None,
        v: ArrayLike | None = None,
        *,
        tile: int = 8,
        causal: bool = False,
        scale: float | None = None,
        rows: Sequence[int] | None = None,
        presenter: bool = False,
    ) -> None:
        given = [x is not None for x in (q, k, v)]
        if any(given) and not all(given):
            raise ValueError("q, k and v must be given together, or none of them.")
        if not any(given):
            rng = np.random.default_rng(3)
            q, k, v = (rng.standard_normal((n, 8)) * 1.1 for n in (8, 32, 32))
        if isinstance(tile, bool) or not isinstance(tile, int) or tile < 1:
            raise ValueError(f"tile must be a whole number of rows, at least 1, got {tile!r}.")
        q, k, v = matrix("q", q), matrix("k", k), matrix("v", v)
        scores, truth = scores_and_answer(q, k, v, causal, scale)
        n_k = len(k)
        tiles = [(a, min(a + tile, n_k)) for a in range(0, n_k, tile)]
        self._start(scores, v, tiles, truth, _chosen_rows(rows, len(q)), presenter=presenter)

    @classmethod
    def by_hand(
        cls,
        piles: Sequence[Sequence[float]],
        values: Sequence[Sequence[Any]],
        *,
        others: Sequence[Sequence[Sequence[float]]] = (),
        presenter: bool = False,
    ) -> TileStepper:
        """Step through piles of scores: ``by_hand([[1, 3], [2, 5]], values=[[10, 20], [30, 40]])``.

        Args:
            piles: scores, already scaled; ``-inf`` is a masked one.
            values: for each score a number or a vector.
            others: the piles of further queries on the same keys, shaped like ``piles``.

        Raises:
            ValueError: unless every score has its value and every pile a score.
        """
        if not len(piles) or not all(len(pile) for pile in piles):
            raise ValueError("piles must hold at least one pile, each with at least one score.")
        sizes = [len(pile) for pile in piles]
        if sizes != [len(pile) for pile in values]:
            raise ValueError("values must have the shape of piles: one value for every score.")
        if any([len(pile) for pile in other] != sizes for other in others):
            raise ValueError("others must hold piles shaped like the first query's.")
        scores = np.asarray(
            [[s for pile in query for s in pile] for query in (piles, *others)], dtype=np.float64
        )  # (n_q, n_k)
        flat = [np.atleast_1d(np.asarray(x, np.float64)) for pile in values for x in pile]
        if len({x.shape for x in flat}) > 1 or flat[0].ndim > 1:
            raise ValueError("values must all be numbers, or all vectors of one length.")
        matrix = np.stack(flat)  # (n_k, d_v)
        if np.isnan(scores).any() or (scores == np.inf).any() or not np.isfinite(matrix).all():
            raise ValueError("piles must be finite or -inf (masked), values finite.")
        stops = np.cumsum(sizes).tolist()
        tiles = list(zip([0, *stops[:-1]], stops, strict=True))
        truth = np.stack([at_once(row, matrix) for row in scores])
        stepper = cls.__new__(cls)
        rows = list(range(len(scores)))
        stepper._start(scores, matrix, tiles, truth, rows, presenter=presenter)
        return stepper

    @classmethod
    def from_kernel(
        cls,
        ledger: KernelLedger,
        q: ArrayLike,
        k: ArrayLike,
        v: ArrayLike,
        *,
        program: tuple[int, ...] | None = None,
        head: int = 0,
        causal: bool = False,
        scale: float | None = None,
        whose: str = "your kernel",
        presenter: bool = False,
    ) -> TileStepper:
        """Replay the K tiles that a kernel's program loaded, in its order; the state is recomputed.

        Args:
            ledger: its ``visits`` say what was loaded.
            q, k, v: what the kernel got: (..., n, d); of more than two axes ``head`` counts along
                the flattened front ones (with grouped K/V heads, its group's).
            program: whose tiles; the first program that loaded a K tile by default.
            whose: what the kernel is called.

        Raises:
            ValueError: if the ledger saw no load of q and k by that program.
        """
        program, tiles, (first, stop) = loaded(ledger, program)
        q, k, v = one_head(q, k, v, head)
        scores, truth = scores_and_answer(q, k, v, causal, scale)
        rows = [first + row for row in _chosen_rows(None, stop - first)]
        stepper = cls.__new__(cls)
        title = f"Program {program} of {whose}"
        stepper._start(
            scores, v, tiles, truth, rows, replayed=True, title=title, presenter=presenter
        )
        return stepper

    def _start(
        self,
        scores: np.ndarray,  # (n_q, n_k)
        values: np.ndarray,  # (n_k, d_v)
        tiles: list[tuple[int, int]],
        truth: np.ndarray,  # (n_q, d_v)
        rows: list[int],
        *,
        replayed: bool = False,
        title: str = "",
        presenter: bool = False,
    ) -> None:
        if len(values) > MAX_KEYS:
            raise ValueError(f"k must have at most {MAX_KEYS} rows to be shown, got {len(values)}.")
        self._scores, self._values, self._tiles, self._truth = scores, values, tiles, truth
        self._fixed = replayed
        self._shown_rows = list(map(int, rows))
        data = {
            "title": title,
            "rows": self._shown_rows,
            "tiles": [list(map(int, tile)) for tile in tiles],
            "columns": min(values.shape[1], SHOWN_COLUMNS),
            "d_v": values.shape[1],
            "n_k": len(values),
            "fixed": self._fixed,  # what a kernel did is shown as it was
            "says": VARIANTS,
            "values": _plain(values[:, :SHOWN_COLUMNS].tolist()),
            "scores": {str(row): _plain(scores[row].tolist()) for row in self._shown_rows},
        }
        order = list(range(len(tiles)))
        super().__init__(data=data, row=self._shown_rows[0], order=order, presenter=presenter)

    @property
    def last_step(self) -> int:
        """The step after the last line: the division."""
        return LINES_PER_TILE * len(self._tiles) + 1

    @traitlets.validate("row")
    def _valid_row(self, proposal: Any) -> int:
        if proposal["value"] not in self._shown_rows:
            raise traitlets.TraitError(
                f"row must be one of {self._shown_rows}, got {proposal['value']}."
            )
        return proposal["value"]

    @traitlets.validate("step")
    def _valid_step(self, proposal: Any) -> int:
        if not 0 <= proposal["value"] <= self.last_step:
            raise traitlets.TraitError(
                f"step must be between 0 and {self.last_step}, got {proposal['value']}."
            )
        return proposal["value"]

    @traitlets.validate("reverse")
    def _valid_reverse(self, proposal: Any) -> bool:
        if proposal["value"] and (self._fixed or len(self._tiles) == 1):
            raise traitlets.TraitError(
                "reverse must be False here: a kernel's own order, or a single tile, stays."
            )
        return proposal["value"]

    @traitlets.validate("order")
    def _valid_order(self, proposal: Any) -> list[int]:
        given = list(range(len(self._tiles)))
        if sorted(proposal["value"]) != given or (self._fixed and proposal["value"] != given):
            raise traitlets.TraitError(
                f"order must hold each of {given} once (a kernel's stays), got {proposal['value']}."
            )
        return proposal["value"]

    @traitlets.validate("changed")
    def _valid_changed(self, proposal: Any) -> dict[str, float]:
        known = {
            f"{row}:{key}" for row in self._shown_rows for key in range(len(self._values))
            if not self._fixed and np.isfinite(self._scores[row, key])
        }  # fmt: skip
        for name, score in proposal["value"].items():
            if name not in known or not is_number(score):
                raise traitlets.TraitError(
                    "changed must hold finite scores of keys that are not masked, none of a "
                    f"kernel's, got {name!r}: {score!r}."
                )
        return proposal["value"]

    @traitlets.validate("column")
    def _valid_column(self, proposal: Any) -> int:
        if not 0 <= proposal["value"] < self.data["columns"]:
            raise traitlets.TraitError(
                f"column must be from 0 to {self.data['columns'] - 1}, got {proposal['value']}."
            )
        return proposal["value"]

    def _row_scores(self) -> np.ndarray:
        """Return the row's scores, (n_k,), as they were dragged."""
        scores = self._scores[self.row].copy()
        for key in range(len(scores)):
            scores[key] = self.changed.get(f"{self.row}:{key}", scores[key])
        return scores

    @property
    def answer(self) -> np.ndarray:
        """The all-at-once answer of the row, (d_v,) float64."""
        if not any(name.startswith(f"{self.row}:") for name in self.changed):
            return self._truth[self.row]
        return at_once(self._row_scores(), self._values)

    def streamed(self, variant: str = "right") -> np.ndarray:
        """Return O / l of the row after the last tile, (d_v,), right or with a named mistake."""
        steps = self._steps(variant)
        return divided(steps["o"][-1], steps["l"][-1], self._is_empty(self.row))

    def _is_empty(self, row: int) -> bool:
        return all((self._scores[row, first:stop] == -np.inf).all() for first, stop in self._tiles)

    def _ordered(self) -> list[tuple[int, int]]:
        tiles = [self._tiles[i] for i in self.order]
        return tiles[::-1] if self.reverse else tiles

    def _steps(self, variant: str) -> dict[str, list[Any]]:
        return trace(self._row_scores(), self._values, self._ordered(), variant)

    def to_table(self) -> str:
        """Return the whole walk of the row as text: the state after each tile, and the answers."""
        lines = [f"query row {self.row}, {len(self._tiles)} K/V tiles"]
        for name in ["right"] if self.mistake == "none" else ["right", self.mistake]:
            steps = self._steps(name)
            lines.append(f"{VARIANTS[name]}:")
            for tile, m, alpha, l_sum, o in zip(
                self._ordered(), *(steps[key] for key in ("m", "alpha", "l", "o")), strict=True
            ):
                lines.append(
                    f"  keys {tile[0]}-{tile[1] - 1}: m = {m:.5g}, alpha = {alpha:.5g}, "
                    f"l = {l_sum:.6g}, O = {_vector(o)}"
                )
            lines.append(f"  O / l       = {_vector(self.streamed(name))}")
        lines.append(f"all at once   = {_vector(self.answer)}")
        return "\n".join(lines)

    @styled
    def to_figure(self) -> Figure:
        """Draw the scores with the running maximum, and O / l after each tile beside the answer."""
        figure, (left, right) = new_figure(1, 2, figsize=(9, 3.6))
        steps, tiles = self._steps("right"), self._ordered()
        place = 0
        for i, (first, stop) in enumerate(tiles):
            keys = np.arange(place, place + stop - first)
            colour = hex_of("blue" if i % 2 == 0 else "green")
            scores = self._row_scores()[first:stop]
            left.bar(keys, np.where(np.isfinite(scores), scores, np.nan), color=colour)
            left.plot(keys[[0, -1]] + [-0.4, 0.4], [steps["m"][i]] * 2, color=hex_of("grey"))
            place += stop - first
        left.set(xlabel="keys in the order visited", ylabel="score, and running maximum m")
        shown = {"right": (hex_of("blue"), "-")}
        if self.mistake != "none":
            shown[self.mistake] = (hex_of("vermilion"), "--")
        for name, (colour, style) in shown.items():
            run = self._steps(name)
            means = [
                divided(o, l_sum)[self.column] for o, l_sum in zip(run["o"], run["l"], strict=True)
            ]
            right.plot(
                range(1, len(means) + 1), means, style, color=colour, marker="o",
                label=VARIANTS[name],
            )  # fmt: skip
        right.axhline(
            self.answer[self.column], color=hex_of("green"), linestyle=":", label="all at once"
        )
        right.set(xlabel="tiles folded in", ylabel=f"O / l, column {self.column}")
        right.set_xticks(range(1, len(tiles) + 1))
        figure.legend(loc="outside lower center", ncols=3)
        return figure


def _chosen_rows(rows: Sequence[int] | None, n_q: int) -> list[int]:
    if rows is None:
        return sorted(set(np.linspace(0, n_q - 1, min(n_q, MAX_ROWS)).round().astype(int).tolist()))
    rows = [int(row) for row in rows]
    if not rows or len(rows) > MAX_ROWS or not all(0 <= row < n_q for row in rows):
        raise ValueError(f"rows must be 1 to {MAX_ROWS} numbers from 0 to {n_q - 1}, got {rows}.")
    return rows


def _plain(value: list[Any] | float) -> Any:
    """Return lists of numbers to twelve digits; a masked score, -inf, has no number in JSON."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return float(f"{value:.12g}") if math.isfinite(value) else "-Infinity"


def _vector(x: np.ndarray) -> str:
    shown = ", ".join(f"{value:.5g}" for value in x[:SHOWN_COLUMNS])
    return f"[{shown}{', ...' if len(x) > SHOWN_COLUMNS else ''}]"
