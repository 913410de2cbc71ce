"""Exercise 4.5: predict the loads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from course_lib.accounting.memory import FlatMemory
from course_lib.judging.judges import exactly
from course_lib.judging.spec import Case, Exercise, Mistake


def _count_loads(n: int, tile: int, d: int = 32) -> tuple[float, float, int, int]:
    """Launch programs that only load; return Q times, K times, K bytes, bytes that lie there."""
    memory = FlatMemory()
    q, k, v, _ = (memory.place(name, np.ones((n, d))) for name in "qkvo")
    cols = np.arange(d)
    for start_q in range(0, n, tile):
        rows = start_q + np.arange(tile)[:, None]
        memory.load(q + rows * d + cols, rows < n)
        for start_k in range(0, n, tile):
            keys = start_k + np.arange(tile)[:, None]
            for base in (k, v):
                memory.load(base + keys * d + cols, keys < n)
    once = n * d * memory.itemsize
    return memory.read["q"] / once, memory.read["k"] / once, memory.read["k"], 4 * once


def _loads_truth() -> dict[str, float]:
    q_times, k_times, k_bytes, size = _count_loads(256, 64)
    _, _, k_bytes_512, size_512 = _count_loads(512, 64)
    return {
        "q_times": q_times,
        "k_times": k_times,
        "k_times_tile_16": _count_loads(256, 16)[1],
        "k_growth": k_bytes_512 / k_bytes,
        "size_growth": size_512 / size,
    }


def _entries(**wrong: float) -> Callable[[], dict[str, float]]:
    """Return an answer with some wrong entries; NaN leaves the others open."""
    keys = ("q_times", "k_times", "k_times_tile_16", "k_growth", "size_growth")
    return lambda: {key: wrong.get(key, np.nan) for key in keys}


_LOAD_MISTAKES = Mistake.table(
    ("K and V are read once in all",
     "every query needs every key: each Q tile's program walks over all of K and V again.",
     _entries(k_times=1)),
    ("Q is loaded again for every K tile",
     "a program keeps its Q tile for the whole walk over the keys.",
     _entries(q_times=4)),
    ("smaller tiles cut the re-reads",
     "smaller Q tiles mean more programs, and each of them loads all of K and V.",
     _entries(k_times_tile_16=1)),
    ("tiles make no difference to the re-reads",
     "the number of programs is N / tile, and each of them loads all of K and V.",
     _entries(k_times_tile_16=4)),
    ("O(N) memory is O(N) traffic",
     "the space doubles, but the loads do not: twice the keys, loaded by twice the programs.",
     _entries(k_growth=2)),
    ("a factor of two too many",
     "twice the keys, loaded by twice the programs, makes four times: the tile and head_dim stay "
     "what they are.",
     _entries(k_growth=8)),
    ("K and V are counted together",
     "how often a number of K is read does not change because V is read as well.",
     _entries(k_times=8, k_times_tile_16=32), _entries(k_times=8)),
    ("the space grows as the traffic does",
     "nothing of size N x N is kept: Q, K, V and O have one row per token.",
     _entries(size_growth=4)),
)  # fmt: skip


EXERCISE = Exercise.of(
    "4.5",
    cases=lambda _rng: [Case("")],
    truth=_loads_truth,
    judge=exactly,
    kind="question",
    mistakes=_LOAD_MISTAKES,
)
