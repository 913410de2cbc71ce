"""8.2b: split the loop, so that only boundary tiles are masked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging.attention_judge import attention_judge, attention_truth
from course_lib.judging.finding import Finding
from course_lib.judging.kernel_judge import in_turn, linear_memory, stored_whole, was_launched
from course_lib.judging.least import attention_least, counted
from course_lib.judging.misconceptions import SAYS, attention_mistakes
from course_lib.judging.sized_launches import tiled_launches
from course_lib.judging.spec import Case, Exercise, Mistake, Observed
from course_lib.judging.tolerance import as_float64
from course_lib.judging.where import Where


def _split_cases(rng: Generator) -> list[Case]:
    case = partial(draw.launch, rng)
    return [
        case("causal, 64 queries and keys, tiles 32 and 16",
             64, 64, 64, tiles=(32, 16), causal=True),
        case("not causal, 32 queries, 96 keys: only whole tiles", 32, 96, 16, tiles=(32, 32)),
        case("not causal, 65 keys in tiles of 32, all scores near -20: the last holds one key",
             32, 65, 16, near=-20, tiles=(32, 32)),
        case("causal, 35 queries, 68 keys: aligned at the end, strided memory",
             35, 68, 16, heads=(1, 2), tiles=(16, 32), causal=True, strided="all"),
        case("causal, 80 queries, 50 keys: the first 30 rows see nothing",
             80, 50, 32, tiles=(16, 16), causal=True),
        *draw.new_queries(rng),
        case("not causal, 321 keys in tiles of 16: the last of 21 holds one",
             16, 321, 32, tiles=(16, 16)),
        case("causal, climbing scores, tiles as tall as d",
             96, 96, 32, rise=220, tiles=(64, 32), causal=True),
        case("float16, causal, 50 queries, 75 keys, d = 32",  # small: it is compiled
             50, 75, 32, heads=(1, 2), dtype="float16", tiles=(32, 16), causal=True,
             compiled=True),
        *draw.half_launches(rng, prefix="causal, ", causal=True),
        case("256 queries and keys, d = 16, counted",
             256, 256, 16, tiles=(128, 64), causal=False, counted=True),
        case("causal, 256 queries and keys, d = 16, counted",
             256, 256, 16, tiles=(64, 32), causal=True, counted=True),
        case("causal, 128 queries, 160 keys, d = 16, counted",
             128, 160, 16, tiles=(32, 64), causal=True, counted=True),
        case("causal, 192 queries, 128 keys, d = 16, counted: the first 64 rows see nothing",
             192, 128, 16, tiles=(32, 64), causal=True, counted=True),
        case("causal, 64 queries after 160 keys, d = 16, counted",
             64, 224, 16, tiles=(32, 32), causal=True, counted=True),
        # a program's first row sees the last key of a tile, or just not: slips by one show
        case("causal, 128 queries, 191 keys, d = 16: whole tiles end at first rows",
             128, 191, 16, tiles=(32, 64), causal=True),
        case("causal, 64 queries, 94 keys, d = 16: all but one key of a tile is seen",
             64, 94, 16, tiles=(32, 32), causal=True),
        _short_at_the_end(rng),
        *tiled_launches(rng, causal=(True, True, False)),
        *draw.hard_launches(rng, 33, 65, 16, tiles=(16, 32), prefix="not causal, "),
        # of a program's last tile of keys half its rows see none: who begins with it, begins blind
        *draw.hard_launches(rng, 33, 65, 16, tiles=(32, 16), prefix="causal, ", causal=True),
        draw.roomy_launch(rng, 17, 33, 16, tiles=(16, 32), causal=True),
        draw.many_heads_launch(case, tiles=(16, 16), causal=True),
        draw.many_tiles_launch(case),
        draw.one_key_launch(case),
    ]  # fmt: skip


def _short_at_the_end(rng: Generator) -> Case:
    """Return a case of a short last tile of queries, in which each program has two to mask."""
    n_q = int(rng.integers(50, 64))
    name = f"causal, {n_q} queries after 47 keys, d = 64: the last tile of queries is short"
    return draw.launch(rng, name, n_q, n_q + 47, 64, tiles=(32, 16), causal=True)


def _partial_tiles(
    n_q: int, n_k: int, block_q: int, block_k: int, causal: bool, forgotten: int = 0
) -> list[int]:
    """Return how many tiles each program (one per tile of queries) has to mask; ``forgotten``: how
    many keys fewer its first row is taken to see."""
    tiles = []
    for first in range(0, n_q, block_q):
        last = min(first + block_q, n_q)
        end, seen = n_k, n_k
        if causal:
            end, seen = (min(max(row + n_k - n_q, 0), n_k) for row in (last, first + 1))
        tiles.append(-(-end // block_k) - max(seen - forgotten, 0) // block_k)
    return tiles


def _masks_only_the_boundary(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask that a program's comparisons on tiles of scores grow with its boundary tiles only.

    A tile made of rows and columns alone counts as one (``KernelLedger.compared``). How a mask is
    written is free, so what one costs is not known. But where all programs that have boundary tiles
    have as many, they must make as many comparisons, however many full tiles they have; and those
    without a boundary tile none. (Where a tile is as wide as d, the comparisons of a load look like
    those of a mask.)
    """
    tiles = case.kwargs["block_q"], case.kwargs["block_k"]
    if observed.ledger is None or case.args[0].shape[-1] in tiles:
        return None
    (n_q, n_k), (block_q, block_k) = (x.shape[-2] for x in case.args[:2]), tiles
    heads = math.prod(case.args[0].shape[:-2])
    need = _partial_tiles(n_q, n_k, block_q, block_k, bool(case.kwargs.get("causal"))) * heads
    if len({*need} - {0}) > 1:
        return None
    made: Counter[tuple[int, ...]] = Counter()
    for (program, shape), times in observed.ledger.compared.items():
        if math.prod(shape) == math.prod(tiles):  # turned, flat, or with one more axis
            made[program] += times
    alike = len({*made.values()}) == 1
    t_k = -(-n_k // block_k)
    if not case.kwargs.get("causal") and need[0] and min(made.values(), default=0) >= t_k > 16:
        return _masks_all(min(made.values()), t_k)
    if not made or (alike and len(made) == len([tiles for tiles in need if tiles])):
        return None
    allowed = [min(made.values()) if tiles else 0 for tiles in need]
    each = [made[program] for program in sorted(made)]
    return Finding(
        "masks only boundary tiles",
        "the numbers are right, but tiles are masked that every row sees whole: a program's "
        "comparisons on a tile of scores (or what does their work) must come from its boundary "
        "tiles alone.",
        f"comparisons that each program makes: {_few(each)}\n"
        f"allowed, for its boundary tiles:      {_few(allowed)}",
        look=_which_are_masked(case, each),
    )


def _masks_all(made: int, t_k: int) -> Finding:
    """Return that for one short tile a program makes as many comparisons as it has tiles."""
    return Finding(
        "masks only boundary tiles",
        f"the numbers are right, but a program makes {made} comparisons on tiles of scores. It has "
        f"{t_k} tiles, none is causal, and only the last is short: that one alone needs a mask.",
        look=_ALL_MASKED,
    )


_ALL_MASKED = (
    "every tile is masked: the loop over whole tiles masks as well, or has no turn (is `boundary` "
    "0?), or is missing."
)


def _which_are_masked(case: Case, each: list[int]) -> str:
    """Return which tiles too many were masked, if the programs' comparisons tell, else ""."""
    (n_q, n_k), causal = (x.shape[-2] for x in case.args[:2]), bool(case.kwargs.get("causal"))
    sizes = n_q, n_k, case.kwargs["block_q"], case.kwargs["block_k"], causal
    heads = math.prod(case.args[0].shape[:-2])

    def tells(masked: list[int]) -> bool:
        """Return whether each program made as many comparisons for each of these tiles."""
        some = [tiles for tiles in masked * heads if tiles]
        if len(some) != len(each):
            return False
        ratios = {a / b for a, b in zip(each, some, strict=True)}
        return len(ratios) == 1 and min(ratios) >= 1

    if causal and tells(_partial_tiles(*sizes, forgotten=1)):
        return (
            "one tile that the program's first row sees whole is masked: does query i see "
            "i + n_k - n_q keys, or one more, itself?"
        )
    if tells(_partial_tiles(*sizes, forgotten=n_k)):
        return _ALL_MASKED
    if not causal and set(each) == {1}:
        return "one tile is masked in each program, and no key is missing: is the last one short?"
    return ""


def _few(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + (" ..." if len(numbers) > 8 else "")


class _Loops(Where):
    """What the two loops of a program meet; what stands for each row is (n_q, 1)."""

    @property
    def last(self) -> np.ndarray:
        """The last key that this row sees; below 0 where it sees none."""
        return (
            self.first_row + self.shift if self.causal else 0 * self.first_row + len(self.key) - 1
        )

    def down(self, key: Any) -> np.ndarray:
        """Return where the tile of a key begins; past the whole tiles, where these end."""
        return np.clip(self.key_tile(key), 0, self.key_tile(len(self.key)))

    @property
    def boundary(self) -> np.ndarray:
        """Where the first tile begins that needs a mask."""
        return self.down(self.last + 1)

    @property
    def below(self) -> np.ndarray:
        """The number of the tile's first query, in whole tiles of keys; it may be past the end."""
        return np.asarray(self.first_row // self.block_k * self.block_k)

    @property
    def full(self) -> np.ndarray:
        """Which keys are the first loop's."""
        return np.asarray(self.key < self.boundary)

    @property
    def end(self) -> np.ndarray:
        """Where the second loop ends."""
        return np.clip(self.last + self.block_q, 0, len(self.key))

    @property
    def last_tile(self) -> np.ndarray:
        """Which keys are in the last tile that the program visits, or past it."""
        return np.asarray(self.key >= self.key_tile(self.end - 1))

    def up_to(self, key: Any) -> np.ndarray:
        """Return which keys are met by a first loop to the tile of ``key``."""
        return np.asarray(self.key < self.down(key))

    def masked_by(self, mask: Callable[..., Any]) -> np.ndarray:
        """Return which pairs are seen if ``mask`` stands in the causal boundary tiles."""
        if not self.causal:
            return self.seen
        reached = self.key < -(-self.end // self.block_k) * self.block_k
        return np.where(self.full, True, reached & mask(self.row, self.key, self.shift))


def _weighted(
    weights: Callable[[_Loops], Any],
    scaled: Callable[[_Loops], Any] | None = None,
    power: int = 0,
    beyond: Callable[[_Loops], Any] = lambda at: 0,
) -> Any:
    """Return the model of a kernel that counts each (query, key) pair ``weights`` times.

    The keys of the loop ``scaled`` have scores that are multiplied by sqrt(d) ** ``power``. And so
    many places ``beyond`` the last key count as score 0.
    """

    def model(
        q: Any, k: Any, v: Any, *, causal: bool = False, block_q: int = 64, block_k: int = 64
    ) -> tuple[np.ndarray, np.ndarray]:
        at = _Loops.of(q, k, causal=causal, block_q=block_q, block_k=block_k)
        q, k, v = as_float64(q), as_float64(k), as_float64(v)
        w = weights(at)
        root = np.sqrt(q.shape[-1])
        s = q @ k.swapaxes(-1, -2) / root
        s = np.where(scaled(at), s * root**power, s) if scaled else s
        more = beyond(at)
        m = np.where(w > 0, s, -np.inf).max(-1, keepdims=True)
        m = np.where(more > 0, np.maximum(m, 0), m)
        with np.errstate(all="ignore"):
            p = w * np.exp(np.where(w > 0, s - np.where(np.isneginf(m), 0, m), -np.inf))
            l_sum = p.sum(-1, keepdims=True) + np.where(more > 0, more * np.exp(-m), 0)
            below = np.where(l_sum == 0, 1, l_sum)
            return p @ v / below, (m + np.log(below))[..., 0]

    return model


_POWERS = {"the scale is missing": 1, "scaled twice": -1, "the scale is upside down": 2}
_MASKS: dict[str, Callable[..., Any]] = {
    "the offset of the causal mask has the wrong sign": lambda row, key, off: key <= row - off,
    "the causal mask is aligned at the start": lambda row, key, off: key <= row,
    "the causal mask is one key too strict": lambda row, key, off: key < row + off,
}
_SPLIT_MISTAKES = Mistake.table(
    ("the boundary tiles are left out",
     "the second loop does not run, or the mask of it hides everything: the tiles from boundary to "
     "end are missing.",
     _weighted(lambda at: at.seen & at.full)),
    ("the full tiles are lost",
     "only the tiles from boundary on count: does the second loop go on with the m, l_sum and acc "
     "of the first?",
     _weighted(lambda at: at.seen & ~at.full)),
    ("full tiles are counted twice",
     "the second loop begins before boundary, at 0 or a tile too early: it begins at boundary.",
     _weighted(lambda at: at.seen * 1.0 + at.full),
     _weighted(lambda at: at.seen * 1.0 + (at.full & ~at.up_to(at.last + 1 - at.block_k))),
     _weighted(lambda at: at.seen * 1.0 + (at.causal & at.full & ~at.up_to(at.last)))),
    ("one tile too many",
     "the first loop runs one tile past the boundary: a boundary tile is counted once without a "
     "mask, and once with it.",
     _weighted(lambda at: 1.0 * at.up_to(at.last + 1 + at.block_k) + (at.seen & ~at.full))),
    ("only the first tile of keys counts",
     "the first loop ends after one tile, wherever the boundary is: it must reach that.",
     _weighted(lambda at: 1.0 * at.up_to(at.block_k) + (at.seen & ~at.full))),
    ("only one boundary tile is met",
     "a tile of queries may be taller than one of keys is wide, and the diagonal then cuts through "
     "several: the second loop goes from boundary to end.",
     _weighted(lambda at: at.seen & (at.full | at.last_tile))),
    ("only the diagonal is met",
     "one tile for each program is not enough: the first loop goes from 0 to boundary, and the "
     "second on to end.",
     _weighted(lambda at: at.seen & at.last_tile),
     _weighted(lambda at: at.seen & ~at.full & (at.key < at.boundary + at.block_k))),
    *((name, f"in the {which} of the two loops: {SAYS[name]}",
       _weighted(lambda at: at.seen, loop, power))
      for name, power in _POWERS.items()
      for which, loop in (("first", lambda at: at.full), ("second", lambda at: ~at.full))),
    *((name, SAYS[name], _weighted(partial(_Loops.masked_by, mask=mask)))
      for name, mask in _MASKS.items()),
    ("the boundary is not rounded down",
     "the first loop runs past a boundary in the middle of a tile, and the second counts that "
     "tile's other keys again: round boundary down to a multiple of BLOCK_K.",
     _weighted(lambda at: 1.0 * at.up_to(at.last + at.block_k) + (
         at.seen & (at.key > at.last)))),
    ("boundary tiles are not masked",
     "tiles that hide keys from some rows get no mask. Either the second loop has none, or the "
     "first runs too far: it ends where the tile's first row stops seeing whole tiles of keys.",
     _weighted(lambda at: at.seen | at.up_to(at.last + 2)),
     _weighted(lambda at: at.seen | at.up_to(at.last + at.block_q)),
     _weighted(lambda at: at.seen | at.up_to(at.last + at.block_q - 1)),
     _weighted(lambda at: at.seen | at.up_to(at.last + at.block_k - 1)),
     _weighted(lambda at: at.seen | at.up_to(at.last + at.block_k)),
     _weighted(lambda at: at.seen | at.up_to(at.last + at.block_q + at.block_k - 1))),
    ("the boundary is aligned at the start",
     "with n_q != n_k the last query must see the last key: n_k - n_q comes into the boundary, "
     "where it is negative, too.",
     _weighted(lambda at: at.seen | at.up_to(at.first_row + 1)),
     _weighted(lambda at: at.seen | (at.causal & (at.key < at.below)),
               beyond=lambda at: at.causal * np.maximum(at.below - len(at.key), 0))),
)  # fmt: skip


SPLIT = Exercise.of(
    "8.2b",
    cases=_split_cases,
    truth=attention_truth,
    judge=in_turn(
        stored_whole(attention_judge(with_lse=True, in_dtype=True)),
        was_launched,
        linear_memory,
        counted(partial(attention_least, with_lse=True)),
        _masks_only_the_boundary,
    ),
    kind="kernel",
    mistakes=_SPLIT_MISTAKES + attention_mistakes(with_lse=True, dtype=np.float32),
)
