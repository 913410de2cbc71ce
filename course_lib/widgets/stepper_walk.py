"""The walk of one query row over its tiles of keys, as `TileStepper` shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.attention.online_softmax import finite_max
from course_lib.attention.slips import SLIPS, states

if TYPE_CHECKING:
    from course_lib.accounting.kernel_ledger import KernelLedger

VARIANTS = {
    "right": "as it should be",
    "no_rescale_o": "O is not rescaled",
    "no_rescale_l": "ℓ is not rescaled",
    "neither": "nothing is rescaled",
    "inverse": "alpha is upside down",
    "own_max": "each pile uses its own maximum",
    "start_zero": "a maximum below 0 counts as 0",
}
"""Names in ``attention.slips.SLIPS`` -> the words for them: the right one first."""


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


def at_once(scores: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the average (d_v,) of values (n_k, d_v) under all scores (n_k,) at once."""
    weights = np.exp(scores - finite_max(scores.max()))
    return divided(weights @ values, float(weights.sum()), empty=not weights.any())


def loaded(
    ledger: KernelLedger, program: tuple[int, ...] | None
) -> tuple[tuple[int, ...], list[tuple[int, int]], tuple[int, int]]:
    """Return a program, the rows of each K tile that it loaded, in its order, and its rows of Q.

    Args:
        program: the first one that loaded a K tile by default.

    Raises:
        ValueError: if the ledger saw no load of q and k by that program.
    """
    visits = [visit for visit in ledger.visits if visit.kind == "load"]
    of_k = [visit for visit in visits if visit.tensor.lower().startswith("k")]
    if not of_k:
        seen = ", ".join(sorted({visit.tensor for visit in visits})) or "nothing"
        raise ValueError(f"ledger must hold loads of a tensor named k...; it saw {seen}.")
    program = tuple(of_k[0].program if program is None else program)
    chosen = (*program, 0, 0)[:3]
    tiles = [(visit.rows[0], visit.rows[1]) for visit in of_k if tuple(visit.program) == chosen]
    rows_of_q = [
        (visit.rows[0], visit.rows[1])
        for visit in visits
        if visit.tensor.lower().startswith("q") and tuple(visit.program) == chosen
    ]
    if not tiles or not rows_of_q:
        known = sorted({tuple(visit.program) for visit in of_k})
        raise ValueError(f"program must have loaded q and k, such as {known[0]}, got {program}.")
    return program, tiles, rows_of_q[0]
