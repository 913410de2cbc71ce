"""The mistakes about who meets whom: causal masks, bounds of the loop over the keys, lost tiles.

Each is a `Misreading` beside a recurrence that is right; `misconceptions` tells how they are used.
"""

from __future__ import annotations

import numpy as np

from course_lib.attention.slips import SLIPS
from course_lib.judging.misread import Known, Misreading, causal_end, every_second_tile


def _but_a_lone_key(
    number: np.ndarray, block_q: int, block_k: int, n_q: int, n_k: int
) -> np.ndarray:
    end = causal_end(number, block_q, block_k, n_q, n_k)
    left: np.ndarray = end - ((end % block_k == 1) & (end > 1))
    return left


def _but_before_the_last_tile(
    row: np.ndarray, key: np.ndarray, block_q: int, block_k: int, off: int
) -> np.ndarray:
    end = np.clip((row // block_q + 1) * block_q + off, 0, len(key))
    sees: np.ndarray = (key <= row + off) | (key < (end - 1) // block_k * block_k)
    return sees


def _in_whole_tiles(t: np.ndarray, b_q: int, b_k: int, n_q: int, n_k: int) -> np.ndarray:
    """Return the end of a causal loop rounded down to whole tiles, and that of any other, n_k."""
    end = (t + 1) * b_q + n_k - n_q
    return np.where(end < n_k + b_q, np.minimum(end, n_k) // b_k * b_k, n_k)


NOT_HIDDEN = "a hidden score is not -inf"
MASKS = Known.table(
    ("the causal mask comes after the maximum",
     "keys of the future have weight 0, but their scores took part in the maximum: where one "
     "lies far above what a row sees, every exponential vanishes. Mask before the maximum.",
     Misreading(late=True)),
    ("the last tile is dropped",
     "no key of the short last tile counts: the loop ends before it (use ceil), or its mask "
     "hides keys that exist.",
     Misreading(end=lambda t, b_q, b_k, n_q, n_k: causal_end(t, b_q, b_k, n_q, n_k) // b_k * b_k),
     Misreading(end=_but_a_lone_key)),
    ("only square tiles",
     "the loop over the keys steps by block_q, and a tile of keys has block_k.",
     Misreading(square=True), Misreading(square=True, loop=SLIPS["zeros_past_end"])),
    ("the mask is missing",
     "in the tiles that the loop visits no key is hidden: those beyond a row's own are, one by "
     "one, however many of the tile the other rows see.",
     Misreading(masked=False),
     Misreading(masked=False, loop=SLIPS["zeros_past_end"])),  # nor does where K ends
    ("the causal mask is reversed",
     "a query sees the keys from its own place on: it should see those up to its own.",
     Misreading(reverse=True)),
    ("the causal mask is one key too strict", "a query does not see its own key: use <=, not <.",
     Misreading(shift=-1)),
    ("the causal mask is one key too generous", "a query sees one key of the future.",
     Misreading(shift=1)),
    ("the causal mask is aligned at the start",
     "with n_q != n_k the last query must see the last key: query i sees key j if "
     "j <= i + n_k - n_q.",
     Misreading(align="start"), Misreading(align="start", end=lambda t, b_q, *_: (t + 1) * b_q)),
    ("the causal loop ends too early",
     "the mask is right, but the loop stops before the last key that the tile's last row sees. "
     "That row is number (tile + 1) * block_q - 1, and n_k - n_q comes on top.",
     Misreading(end=lambda t, b_q, b_k, n_q, n_k: t * b_q + n_k - n_q),
     Misreading(end=lambda t, b_q, b_k, n_q, n_k: t * b_q + 1 + n_k - n_q),
     Misreading(end=lambda t, b_q, *_: (t + 1) * b_q),
     Misreading(end=lambda t, b_q, b_k, n_q, n_k: (t + 1) * b_q - 1 + n_k - n_q),
     Misreading(end=lambda t, b_q, b_k, n_q, n_k: (t + 1) * b_q + n_q - n_k),
     Misreading(end=_in_whole_tiles)),
    ("the loop ends where another tile's should",
     "the tiles are taken in another order, from the last one to the first, and the loop's end is "
     "that of the program's own number: rows and end belong to one tile.",
     Misreading(end=lambda t, *how: causal_end(t.max() + t.min() - t, *how))),
    ("every row of a tile sees what its last row sees",
     "the mask compares keys with where the tile of queries ends: each row of it has a last key "
     "of its own, i + n_k - n_q.",
     Misreading(sees=lambda row, key, b_q, b_k, off: key < (row // b_q + 1) * b_q + off),
     Misreading(sees=lambda row, key, b_q, b_k, off: key <= (row // b_q + 1) * b_q + off)),
    ("only the last tile of keys is masked",
     "the diagonal crosses more than one tile of keys where block_q is larger than block_k, or "
     "where they do not begin together: each of these hides keys from some rows.",
     Misreading(sees=_but_before_the_last_tile)),
    ("an offset below 0 is taken for 0",
     "with more queries than keys n_k - n_q is negative, and the first rows see no key: they "
     "are to see none.",
     Misreading(sees=lambda row, key, b_q, b_k, off: key <= row + max(off, 0)),
     Misreading(
         sees=lambda row, key, b_q, b_k, off: key <= row + max(off, 0),
         end=lambda t, b_q, b_k, n_q, n_k: (t + 1) * b_q + np.maximum(n_k - n_q, 0),
     )),
    ("the causal loop counts queries in tiles of keys",
     "the loop ends at (tile + 1) * block_k: a tile of queries has block_q rows.",
     Misreading(end=lambda t, b_q, b_k, n_q, n_k: (t + 1) * b_k + n_k - n_q),
     Misreading(end=lambda t, b_q, b_k, n_q, n_k: (t + 1) * b_k),
     Misreading(end=lambda t, b_q, b_k, n_q, n_k: (t + 1) * b_k, align="start")),
    ("only one diagonal tile",
     "the masked part of the loop takes one tile of keys: where block_q is larger than block_k, "
     "the diagonal crosses several.",
     Misreading(end=lambda t, b_q, b_k, n_q, n_k: t * b_q + b_k + n_k - n_q),
     Misreading(end=lambda t, b_q, b_k, n_q, n_k: t * b_q + b_k),
     Misreading(end=lambda t, b_q, b_k, n_q, n_k: t * b_q + b_k, align="start")),
    ("tile numbers are compared, not positions",
     "a causal mask compares the positions of queries and keys: number of the tile times its "
     "size, plus the place in it.",
     *(Misreading(sees=lambda row, key, b_q, b_k, off, e=e: key // b_k <= (row + e * off) // b_q)
       for e in (0, 1)),
     *(Misreading(sees=lambda row, key, b_q, b_k, off, e=e: key // b_k < (row + e * off) // b_q)
       for e in (0, 1))),
    ("the mask counts queries in tiles of keys",
     "the mask places the tile's queries at tile * block_k: they begin at tile * block_q.",
     *(
         Misreading(
             sees=lambda row, key, b_q, b_k, off, e=e: (
                 key <= row // b_q * b_k + row % b_q + e * off
             )
         )
         for e in (0, 1)
     )),
    ("the mask counts places in the tile, not in the row",
     "the mask compares numbers that begin at 0 in each tile: add where the tile starts.",
     Misreading(sees=lambda row, key, b_q, b_k, off: key % b_k <= row % b_q),
     Misreading(sees=lambda row, key, b_q, b_k, off: key % b_k <= row + off),
     Misreading(sees=lambda row, key, b_q, b_k, off: key % b_k <= row),
     Misreading(sees=lambda row, key, b_q, b_k, off: key <= row % b_q + off),
     Misreading(sees=lambda row, key, b_q, b_k, off: key <= row % b_q)),
    ("the offset of the causal mask has the wrong sign",
     "query i sees key j if j <= i + n_k - n_q: here it is n_q - n_k.",
     Misreading(align="sign"),
     Misreading(align="sign", end=lambda t, b_q, b_k, n_q, n_k: (t + 1) * b_q + n_q - n_k)),
    ("the causal mask is always there", "with causal=False every query sees every key.",
     Misreading(always=True), Misreading(always=True, align="start")),
    (NOT_HIDDEN,
     "hidden keys get a number, 0 or a negative one. Where a row sees no key at all, all keys "
     "are hidden alike, and the row becomes an average of V; where all real scores lie below "
     "that number, only hidden keys count.",
     *(name for name in SLIPS if name.startswith("fill"))),
    ("start is added twice",
     "the position of a tile of keys is added twice, so that every second tile is skipped: "
     "either the pointer moves on, or start is added to it.",
     Misreading(only=lambda row, key, b_q, b_k: key // b_k % 2 == 0 * row),
     Misreading(inputs=every_second_tile(of_k=True)),
     Misreading(inputs=every_second_tile(of_v=True))),
    ("K is read at the query tile's number",
     "the tile of keys depends on the tile of queries, not on the loop: keys = start + "
     "tl.arange(0, BLOCK_K).",
     Misreading(only=lambda row, key, b_q, b_k: key // b_k == row // b_q),
     Misreading(only=lambda row, key, b_q, b_k: (key - row // b_q * b_q) // b_k == 0)),
)  # fmt: skip
