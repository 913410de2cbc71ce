"""One query row walks over its K/V tiles: (m, l, O) step by step, right and wrong (lesson 03).

Python runs the recurrence, the right one and each named mistake, for every row on offer; the
module only shows and steps. Source: Dao et al. 2022, Algorithm 1; Milakov & Gimelshein 2018.

What JavaScript computes too is held against Python in tests/widgets/test_javascript.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import traitlets
from numpy.typing import ArrayLike

from course_lib.attention.online_softmax import finite_max
from course_lib.attention.slips import SLIPS, states
from course_lib.style.look import styled
from course_lib.style.palette import hex_of
from course_lib.style.picture import new_figure
from course_lib.widgets.attention_inputs import matrix, one_head, scores_and_answer
from course_lib.widgets.base import CourseWidget, static_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from course_lib.accounting.kernel_ledger import KernelLedger

MAX_ROWS, MAX_KEYS, SHOWN_COLUMNS = 16, 256, 8
LINES_PER_TILE = 7
ORDERS = {"given": "as given", "reversed": "last tile first"}


VARIANTS = {
    "right": "as it should be",
    "no_rescale_o": "O is not rescaled",
    "no_rescale_l": "ℓ is not rescaled",
    "neither": "nothing is rescaled",
    "inverse": "alpha is upside down",
    "own_max": "each pile uses its own maximum",
    "start_zero": "the maximum starts at 0",
}
"""Names in ``attention.slips.SLIPS`` -> the words for them: the right one first."""
_OWN_WEIGHTS = {"right", "own_max", "start_zero"}  # the others have the weights of the right one


def trace(
    scores: np.ndarray, values: np.ndarray, tiles: Sequence[tuple[int, int]], variant: str = "right"
) -> dict[str, list[Any]]:
    """Return the state after each tile of one row, in the order of ``tiles``.

    Args:
        scores: (n_k,), already scaled, -inf where masked. values: (n_k, d_v).
        tiles: (first, last + 1) key rows of each tile visited.
        variant: a name in `VARIANTS`.

    Returns:
        ``p`` (one array a tile), ``m``, ``alpha``, ``l`` (numbers), ``o`` (arrays, not divided).
    """
    steps: dict[str, list[Any]] = {"p": [], "m": [], "alpha": [], "l": [], "o": []}
    with np.errstate(all="ignore"):  # mistakes may overflow: that is what they show
        for p, m, alpha, l_sum, o, *_ in states(SLIPS[variant], scores[None], values, tiles):
            now = (p[0], m.item(), alpha.item(), l_sum.item(), o[0])
            for name, value in zip(steps, now, strict=True):
                steps[name].append(value)
    return steps


def divided(o: np.ndarray, l_sum: float, empty: bool = False) -> np.ndarray:
    """Return O / l, and 0 for a row without any key; a mistake may give inf or NaN."""
    with np.errstate(all="ignore"):
        return np.zeros_like(o) if empty else o / l_sum


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
        by: ``"line"`` or ``"tile"``: how far one step goes. reverse: the last tile first.
        mistake: ``"none"`` or a name in `VARIANTS`, run beside the right recurrence.
    """

    _esm = static_text("tokens.js", "common.js", "tile_stepper.js")
    _css = static_text("tokens.css", "common.css", "tile_stepper.css")
    parts = ("stepper-tiles", "stepper-code", "stepper-notes", "stepper-mistake")
    height_px = 760

    data = traitlets.Dict().tag(sync=True)
    row = traitlets.Int(0).tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    by = traitlets.Enum(["line", "tile"], "line").tag(sync=True)
    reverse = traitlets.Bool(False).tag(sync=True)
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
        presenter: bool = False,
    ) -> TileStepper:
        """Step through piles of scores: ``by_hand([[1, 3], [2, 5]], values=[[10, 20], [30, 40]])``.

        Args:
            piles: scores, already scaled; ``-inf`` is a masked one.
            values: for each score a number or a vector.

        Raises:
            ValueError: unless every score has its value and every pile a score.
        """
        if not len(piles) or not all(len(pile) for pile in piles):
            raise ValueError("piles must hold at least one pile, each with at least one score.")
        if [len(pile) for pile in piles] != [len(pile) for pile in values]:
            raise ValueError("values must have the shape of piles: one value for every score.")
        scores = np.asarray([s for pile in piles for s in pile], dtype=np.float64)
        flat = [np.atleast_1d(np.asarray(x, np.float64)) for pile in values for x in pile]
        if len({x.shape for x in flat}) > 1 or flat[0].ndim > 1:
            raise ValueError("values must all be numbers, or all vectors of one length.")
        matrix = np.stack(flat)  # (n_k, d_v)
        if np.isnan(scores).any() or (scores == np.inf).any() or not np.isfinite(matrix).all():
            raise ValueError("piles must be finite or -inf (masked), values finite.")
        stops = np.cumsum([len(pile) for pile in piles]).tolist()
        tiles = list(zip([0, *stops[:-1]], stops, strict=True))
        weights = np.exp(scores - finite_max(scores.max()))
        truth = divided(weights @ matrix, float(weights.sum()), empty=not weights.any())
        stepper = cls.__new__(cls)
        stepper._start(scores[None], matrix, tiles, truth[None], [0], presenter=presenter)
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
        presenter: bool = False,
    ) -> TileStepper:
        """Replay the K tiles that a kernel's program loaded, in its order; the state is recomputed.

        Args:
            ledger: its ``visits`` say what was loaded.
            q, k, v: what the kernel got: (..., n, d); of more than two axes ``head`` counts along
                the flattened front ones (with grouped K/V heads, its group's).
            program: whose tiles; the first program that loaded a K tile by default.

        Raises:
            ValueError: if the ledger saw no load of q and k by that program.
        """
        visits = [visit for visit in ledger.visits if visit.kind == "load"]
        of_k = [visit for visit in visits if visit.tensor.lower().startswith("k")]
        if not of_k:
            seen = ", ".join(sorted({visit.tensor for visit in visits})) or "nothing"
            raise ValueError(f"ledger must hold loads of a tensor named k...; it saw {seen}.")
        if program is None:
            program = of_k[0].program
        chosen = (*program, 0, 0)[:3]
        tiles = [(visit.rows[0], visit.rows[1]) for visit in of_k if tuple(visit.program) == chosen]
        rows_of_q = [
            visit.rows
            for visit in visits
            if visit.tensor.lower().startswith("q") and tuple(visit.program) == chosen
        ]
        if not tiles or not rows_of_q:
            known = sorted({tuple(visit.program) for visit in of_k})
            raise ValueError(
                f"program must have loaded q and k, such as {known[0]}, got {program}."
            )
        q, k, v = one_head(q, k, v, head)
        scores, truth = scores_and_answer(q, k, v, causal, scale)
        n_rows = rows_of_q[0][1] - rows_of_q[0][0]
        rows = [rows_of_q[0][0] + r for r in _chosen_rows(None, n_rows)]
        stepper = cls.__new__(cls)
        title = f"Program {tuple(program)} of your kernel"
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
        self._shown_rows = list(map(int, rows))
        orders = ["given"] if replayed or len(tiles) == 1 else list(ORDERS)
        data = {
            "title": title,
            "rows": self._shown_rows,
            "tiles": [list(map(int, tile)) for tile in tiles],
            "columns": min(values.shape[1], SHOWN_COLUMNS),
            "d_v": values.shape[1],
            "n_k": len(values),
            "orders": orders,
            "says": VARIANTS,
            "range": [values.min(axis=0).tolist(), values.max(axis=0).tolist()],
            "by_row": {str(row): self._row_data(row, orders) for row in self._shown_rows},
        }
        super().__init__(data=_plain(data), row=self._shown_rows[0], presenter=presenter)

    def _row_data(self, row: int, orders: list[str]) -> dict[str, Any]:
        runs = {}
        for order in orders:
            tiles = self._tiles if order == "given" else self._tiles[::-1]
            runs[order] = {
                name: self._shown(trace(self._scores[row], self._values, tiles, name), row)
                for name in VARIANTS
            }
            for name in set(VARIANTS) - _OWN_WEIGHTS:
                del runs[order][name]["p"]
        truth = self._truth[row, :SHOWN_COLUMNS]
        return {"scores": self._scores[row], "truth": truth, "runs": runs}

    def _shown(self, steps: dict[str, list[Any]], row: int) -> dict[str, Any]:
        out = divided(steps["o"][-1], steps["l"][-1], self._is_empty(row))
        return {
            **steps,
            "o": [o[:SHOWN_COLUMNS] for o in steps["o"]],
            "out": out[:SHOWN_COLUMNS],
        }

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
        if proposal["value"] and "reversed" not in self.data["orders"]:
            raise traitlets.TraitError(
                "reverse must be False here: a kernel's own order, or a single tile, stays."
            )
        return proposal["value"]

    @property
    def answer(self) -> np.ndarray:
        """The all-at-once answer of the row, (d_v,) float64."""
        return self._truth[self.row]

    def streamed(self, variant: str = "right") -> np.ndarray:
        """Return O / l of the row after the last tile, (d_v,), right or with a named mistake."""
        steps = self._steps(variant)
        return divided(steps["o"][-1], steps["l"][-1], self._is_empty(self.row))

    def _is_empty(self, row: int) -> bool:
        return all((self._scores[row, first:stop] == -np.inf).all() for first, stop in self._tiles)

    def _ordered(self) -> list[tuple[int, int]]:
        return self._tiles[::-1] if self.reverse else self._tiles

    def _steps(self, variant: str) -> dict[str, list[Any]]:
        return trace(self._scores[self.row], self._values, self._ordered(), variant)

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
            scores = self._scores[self.row, first:stop]
            left.bar(keys, np.where(np.isfinite(scores), scores, np.nan), color=colour)
            left.plot(keys[[0, -1]] + [-0.4, 0.4], [steps["m"][i]] * 2, color=hex_of("grey"))
            place += stop - first
        left.set(xlabel="keys in the order visited", ylabel="score, and running maximum m")
        shown = {"right": (hex_of("blue"), "-")}
        if self.mistake != "none":
            shown[self.mistake] = (hex_of("vermilion"), "--")
        for name, (colour, style) in shown.items():
            run = self._steps(name)
            means = [divided(o, l_sum)[0] for o, l_sum in zip(run["o"], run["l"], strict=True)]
            right.plot(
                range(1, len(means) + 1), means, style, color=colour, marker="o",
                label=VARIANTS[name],
            )  # fmt: skip
        right.axhline(self.answer[0], color=hex_of("green"), linestyle=":", label="all at once")
        right.set(xlabel="tiles folded in", ylabel="O / l, first column")
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


def _plain(value: Any) -> Any:
    """Return JSON values: numbers to six digits, and words where JSON has no number."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, (float, np.floating)):
        if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return float(f"{value:.6g}")
    return value


def _vector(x: np.ndarray) -> str:
    shown = ", ".join(f"{value:.5g}" for value in x[:SHOWN_COLUMNS])
    return f"[{shown}{', ...' if len(x) > SHOWN_COLUMNS else ''}]"
