"""Which weights were dropped, read off outputs whose V is an identity, and what that says.

A right answer may draw its numbers as it likes, so that nobody knows its mask before. What can be
asked of any: its rate, and that no two places share a number. The bounds are so wide that chance
alone crosses them once in 10**10 checks (Bernstein's inequality).

Longer than 400 lines because each of these questions has a sentence of its own for the student.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from course_lib.judging.finding import Finding
from course_lib.judging.tolerance import as_float64

_CHANCE = math.log(2e10)  # of one in 10**10, on either side
_ENOUGH = 512  # places that two masks must share before they are compared
_ALIKE = 0.5  # a correlation that chance never reaches there; that of one mask with itself is 1
_A_FEW, _THE_SAME = 150, 0.9  # places that are enough, and how alike, where all are the same ones
_MOST_ROWS = 160  # that are not too many to compare each with each
_CORNERS = 0.06  # of four corners' product, 0 if their numbers are their own; see `_sums_finding`
_TURNS = {
    "": (1, 1),
    "the keys in the opposite order": (1, -1),
    "the rows in the opposite order": (-1, 1),
    "rows and keys in the opposite order": (-1, -1),
}
_OWN = "each weight has a number of its own"
_SEED = "the seed decides"


@dataclass(frozen=True)
class Mask:
    """Which weights of a call were kept, and of which that can be seen: (B, H, n_q, n_k) each.

    A weight that is hidden, or vanishes, or at which nobody looked, is not seen: it counts as kept.
    """

    weights: np.ndarray
    kept: np.ndarray
    shown: np.ndarray

    @property
    def share(self) -> float:
        """The share of the weights that are kept, of those that show."""
        return float((self.kept & self.shown).sum() / max(1, self.shown.sum()))

    def spread(self) -> np.ndarray:
        """Return the mask as numbers of mean 0 and variance 1, 0 where nothing shows."""
        width = math.sqrt(self.share * (1 - self.share))
        return np.asarray((self.kept - self.share) / width * self.shown)


def keys_seen(eyes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return which columns of ``eyes`` (parts, B, H, n_k, d), side by side, show a key, and which.

    A column shows the key at which it is not 0.
    """
    columns = np.concatenate([as_float64(eye[0, 0]) for eye in eyes], axis=-1)  # (n_k, columns)
    showing = np.flatnonzero(columns.any(0))
    return showing, columns[:, showing].argmax(0)


def read(outputs: Sequence[Any], eyes: Any, p: np.ndarray, dtype: str) -> Mask:
    """Return the mask of a call: ``outputs`` of ``eyes`` are its weights, ``p`` is the softmax."""
    showing, keys = keys_seen(eyes)
    weights, looked = np.zeros_like(p), np.zeros(p.shape[-1], dtype=bool)
    weights[..., keys] = np.concatenate([as_float64(x) for x in outputs], axis=-1)[..., showing]
    looked[keys] = True
    shown = looked & (p > (2.0**-22 if dtype == "float16" else 1e-30))
    return Mask(weights, (weights != 0) | ~shown, shown)


def rate_finding(mask: Mask, rate: float) -> Finding | None:
    """Ask that about ``rate`` of the weights are dropped."""
    places = int(mask.shown.sum())
    dropped = places - int((mask.kept & mask.shown).sum())
    if abs(dropped - rate * places) <= _bound(places, rate):
        return None
    says = f"with rate {rate:g}, {dropped} of {places} weights are dropped: {dropped / places:.1%}."
    look = "drop a weight where its random number, between 0 and 1, is less than rate."
    if dropped == 0:
        look = (
            "is rate a float where it is compared (int makes 0 of it), and is the mask applied to "
        )
        look += "the weights that multiply V?"
    elif abs(dropped - (1 - rate) * places) <= _bound(places, rate):
        look = "rate is the share that is dropped, not the share that is kept."
    return Finding("drops at the rate", says, look=look)


def _bound(places: int, rate: float) -> float:
    return math.sqrt(2 * places * rate * (1 - rate) * _CHANCE) + 2 * _CHANCE / 3


def tiles_finding(mask: Mask, other: Mask, tiles: tuple[int, int]) -> Finding | None:
    """Ask that the same weights are dropped where tiles have other sizes."""
    b_q, b_k = tiles
    return _unlike(
        mask,
        other,
        "drops the same in other tiles",
        f"in tiles of {b_q} queries and {b_k} keys other weights are dropped than in tiles of "
        f"{b_k} and {b_q}: {{}} of them.",
        "number a weight by its row and key in the whole matrix, not in the tile. And does "
        "anything go into the seed that is another in each call, a counter?",
    )


def elsewhere_finding(mask: Mask, other: Mask) -> Finding | None:
    """Ask that the same weights are dropped in a call with another head_dim, dtype and causal."""
    return _unlike(
        mask,
        other,
        "drops the same in other calls",
        "with the same seed, and with another head_dim, dtype and causal, other weights are "
        "dropped: {} of those that both see.",
        "of what is a weight's number made? Of seed, batch, head, row and key, and of nothing "
        "else.",
    )


def _unlike(mask: Mask, other: Mask, broken: str, says: str, look: str) -> Finding | None:
    """Return where one of two calls drops what the other keeps, if both can be seen there."""
    differ = np.argwhere((mask.kept != other.kept) & mask.shown & other.shown)
    if not len(differ):
        return None
    where = "first at batch {}, head {}, query {}, key {}".format(*differ[0])
    return Finding(broken, says.format(len(differ)), where, look=look)


def line_finding(mask: Mask, rate: float) -> Finding | None:
    """Ask for about as many of the weights of each row, key and diagonal, over all heads.

    How many that is, all of them together say: whether it is ``rate`` is asked elsewhere.
    """
    share = rate if rate_finding(mask, rate) is None else mask.share
    if not 0 < share < 1:
        return None
    shown, gone = mask.shown.sum((0, 1)), (mask.shown & ~mask.kept).sum((0, 1))
    n_q = len(shown)
    row, key = np.indices(shown.shape)
    for line, what, number in (
        ("query {}", "row", row),
        ("key {}", "column", key),
        ("key j = query i + {}", "diagonal", key - row + n_q - 1),
    ):
        places, dropped = (
            np.bincount(number.ravel(), weights=x.ravel()).astype(int) for x in (shown, gone)
        )
        counted = list(enumerate(zip(places.tolist(), dropped.tolist(), strict=True)))
        uneven = [
            i
            for i, (n, less) in counted
            if n and n * _surprise(less / n, share) > _CHANCE + math.log(len(places))
        ]
        if not uneven:
            continue
        n, less = counted[uneven[0]][1]
        name = line.format(uneven[0] - n_q + 1 if what == "diagonal" else uneven[0])
        many = len(uneven) > 0.2 * (places > 0).sum()
        unlike = "the weights of one share numbers" if many else "it is not like the others"
        look = f"what is done for this {what} that is not done for the others?"
        return Finding(
            "drops at the rate",
            f"with rate {rate:g}, {less} of the {n} weights of {name.replace('+ -', '- ')}, of all "
            f"heads, are dropped, and {len(uneven)} of {(places > 0).sum()} {what}s are as uneven: "
            f"{unlike}.",
            look="give each weight a random number of its own." if many else look,
        )
    return None


def _surprise(share: float, rate: float) -> float:
    """Return how unlikely a share is, in nats a place (Chernoff's bound)."""
    pairs = ((share, rate), (1 - share, 1 - rate))
    return sum(a * math.log(a / b) for a, b in pairs if a > 0)


def repeat_finding(mask: Mask, other_seed: Mask) -> Finding | None:
    """Ask that every weight has a random number of its own, and with another seed another one.

    (Where few are dropped, or few are kept, chance is less even, and only a mask that is the same
    all over is told.)
    """
    both = mask.shown & other_seed.shown
    dropped = int((both & ~mask.kept).sum())
    if dropped > 20 and not ((mask.kept != other_seed.kept) & both).any():
        says = f"what is dropped with one seed, {dropped} weights, is dropped with another as well."
        look = "give the seed to the generator as it is, whatever the rate."
        return Finding(_SEED, says, look=look)
    if not all(0.2 <= one.share <= 0.8 for one in (mask, other_seed)):
        return None
    for again, how in (
        (mask, _OWN),
        (other_seed, _SEED),
    ):
        for (b, h), (b2, h2), (rows, keys), turned in _repeats(mask, again):
            then = f" of batch {b2}, head {h2}" if (b, h) != (b2, h2) else ""
            then += " with another seed" if again is other_seed else ""
            who = f"{_moved('query i', rows)}, {_moved('key j', keys)}{then}"
            if turned:
                who = f"{'the same place' if not then else 'that place'}{then}, {turned},"
            return Finding(
                how,
                f"what is dropped at query i, key j of batch {b}, head {h} is dropped at {who} as "
                "well (or just not there).",
                look="which places share a number? Count batch and head, row and key into one "
                "number, and give the seed to the generator as it is.",
            )
    return (
        _at_the_edge(mask)
        or _turned_finding(mask)
        or _sums_finding(mask)
        or _one_line(mask)
        or _two_lines(mask)
        or _crossed(mask)
    )


def _two_lines(mask: Mask) -> Finding | None:
    """Ask that no two rows share their numbers, and no two keys: few places, all alike."""
    for axis, line in ((2, "query"), (3, "key")):
        lines, shown = (
            np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)
            for x in (mask.spread(), mask.shown.astype(float))
        )
        alike, places = lines @ lines.T, shown @ shown.T
        np.fill_diagonal(alike, 0)
        found = np.argwhere((places > _A_FEW) & (alike > _THE_SAME * places))
        if len(found):
            a, b = (int(x) for x in found[0])
            return Finding(
                _OWN,
                f"what is dropped at {line} {a} is dropped at {line} {b} as well.",
                look="which places share a number? Count batch and head, row and key into one "
                "number.",
            )
    return None


def _crossed(mask: Mask) -> Finding | None:
    """Ask that a weight's number is not its row's number XOR its key.

    Then two rows have the same numbers in another order: key j of one is key j XOR c of the other.
    """
    n_q, n_k = mask.kept.shape[2:]
    rows, whole = mask.kept.size // n_k, 1 << (n_k - 1).bit_length()
    if max(rows, whole) > _MOST_ROWS:
        return None
    kept, gone = (
        np.pad((x & mask.shown).reshape(rows, n_k).astype(float), ((0, 0), (0, whole - n_k)))
        for x in (mask.kept, ~mask.kept)
    )
    by_chance = math.log(mask.share**2 + (1 - mask.share) ** 2)  # that two weights are alike
    enough = -(_CHANCE + math.log(rows**2 * whole)) / by_chance
    key, others = np.arange(whole), ~np.eye(rows, dtype=bool)
    for c in range(whole):
        alike = kept @ kept[:, key ^ c].T + gone @ gone[:, key ^ c].T
        places = (kept + gone) @ (kept + gone)[:, key ^ c].T
        found = np.argwhere((places > enough) & (alike == places) & others)
        if len(found):
            a, b = (int(x) % n_q for x in found[0])
            return Finding(
                _OWN,
                f"what is dropped at query {a}, key j is dropped at query {b}, key j XOR {c} as "
                "well.",
                look="which places share a number? ^ adds without carrying: row times the number "
                "of keys, plus key, is a sum.",
            )
    return None


def _one_line(mask: Mask) -> Finding | None:
    """Ask that the heads do not share the numbers of one row, or of one key."""
    heads = mask.spread().reshape(-1, *mask.kept.shape[2:])
    pairs = (heads.sum(0) ** 2 - (heads**2).sum(0)) / 2  # of heads, at each place
    n = mask.shown.sum((0, 1))
    count = (n**2 - n) / 2
    for axis, line in ((1, "query"), (0, "key")):
        found = (count.sum(axis) > _A_FEW) & (pairs.sum(axis) > _THE_SAME * count.sum(axis))
        if found.any():
            i = int(found.argmax())
            return Finding(
                _OWN,
                f"at {line} {i} all heads drop the same.",
                look=f"is the number of a head in the number of every weight, at {line} {i} too?",
            )
    return None


def _moved(name: str, by: int) -> str:
    return f"{name} {'+-'[by < 0]} {abs(by)}" if by else name


def _at_the_edge(mask: Mask) -> Finding | None:
    """Ask that the last rows and keys share no numbers with the first: few places, all alike.

    What is shared is shared by all heads: those of each distance are counted together.
    """
    heads = list(np.ndindex(mask.kept.shape[:2]))
    shape = mask.kept.shape[2:]
    double = [2 * n for n in shape]
    spread = mask.spread()
    waves = [
        [np.fft.rfft2(x[at], double) for x in (spread, spread**2, mask.shown.astype(float))]
        for at in heads
    ]
    for apart in range(len(heads)):
        pairs = list(zip(waves, waves[apart:], strict=False))

        def summed(i: int, j: int, pairs: Any = pairs) -> np.ndarray:
            product = sum(a[i].conj() * b[j] for a, b in pairs)
            return np.asarray(np.fft.irfft2(product, double))

        alike, places = summed(0, 0), summed(2, 2)
        width = np.sqrt(np.maximum(summed(1, 2) * summed(2, 1), 1e-9))
        found = (places > _A_FEW) & (alike > _THE_SAME * width)
        if apart == 0:
            found[0, 0] = False
        if found.any():
            rows, keys = (int(x) for x in np.argwhere(found)[0])
            rows, keys = _signed(rows, shape[0]), _signed(keys, shape[1])
            where = f" of the head {apart} further on" if apart else ""
            return Finding(
                _OWN,
                f"what is dropped at query i, key j is dropped at {_moved('query i', rows)}, "
                f"{_moved('key j', keys)}{where} as well.",
                look="which places share a number? One row has as many numbers as it has keys, and "
                "one head as many as it has rows and keys.",
            )
    return None


def _sums_finding(mask: Mask) -> Finding | None:
    """Ask that a weight's number is not made of one of its row and one of its key.

    Then the fourth corner of every rectangle follows from the other three.
    """
    spread, shown = mask.spread(), mask.shown.astype(float)

    def corners(x: np.ndarray) -> np.ndarray:
        """Return per head the sum, over all rectangles, of the products of their corners."""
        rows = x @ x.swapaxes(2, 3)
        sides = x**2 @ (x**2).swapaxes(2, 3)  # rectangles of one column
        all_of_them = (rows**2 - sides).sum((2, 3))
        one_row = (rows**2 - sides).diagonal(axis1=2, axis2=3).sum(-1)
        return np.asarray(all_of_them - one_row)

    products, count = corners(spread), corners(shown)
    found = np.argwhere((count > 4 * _ENOUGH**2) & (products > _CORNERS * count))
    if not len(found):
        return None
    b, h = (int(x) for x in found[0])
    return Finding(
        _OWN,
        f"in batch {b}, head {h}, what is dropped at three corners of a rectangle of queries and "
        "keys tells what is dropped at the fourth: numbers of rows and numbers of keys are put "
        "together.",
        look="count row and key into one number first, and draw once for it.",
    )


def _turned_finding(mask: Mask) -> Finding | None:
    """Ask that query i, key j and query j, key i are two weights with a number each."""
    n = min(mask.kept.shape[2:])
    places = mask.shown[..., :n, :n] & mask.shown[..., :n, :n].swapaxes(2, 3)
    places &= ~np.eye(n, dtype=bool)
    spread = mask.spread()[..., :n, :n] * places
    alike, count = (spread * spread.swapaxes(2, 3)).sum((2, 3)), places.sum((2, 3))
    found = np.argwhere((count > 2 * _ENOUGH) & (alike > _ALIKE * count))
    if not len(found):
        return None
    b, h = (int(x) for x in found[0])
    return Finding(
        _OWN,
        f"what is dropped at query i, key j of batch {b}, head {h} is dropped at query j, key i as "
        "well.",
        look="which places share a number? Row and key are to be counted in this order: row times "
        "the number of keys, plus key.",
    )


def _repeats(a: Mask, b: Mask) -> Iterator[Any]:
    """Yield (batch, head) twice, a shift in rows and keys, and how the second is turned, where two
    masks are alike, or opposite."""
    heads = list(np.ndindex(a.kept.shape[:2]))
    of_a = {at: _waves(a, at) for at in heads}
    shape = a.kept.shape[2:]
    for turned, (down, along) in _TURNS.items():
        of_b = {at: _waves(b, at, down, along) for at in heads}
        for one in heads:
            for two in heads:
                if a is b and two < one:
                    continue
                alike, places = (
                    np.fft.irfft2(x.conj() * y, [2 * n for n in shape])
                    for x, y in zip(of_a[one], of_b[two], strict=True)
                )
                found = (places > _ENOUGH) & (abs(alike) > _ALIKE * places)
                if a is b and one == two and not turned:
                    found[0, 0] = False
                if found.any():
                    rows, keys = (int(x) for x in np.argwhere(found)[0])
                    yield one, two, (_signed(rows, shape[0]), _signed(keys, shape[1])), turned


def _waves(
    mask: Mask, at: tuple[int, ...], down: int = 1, along: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    size = [2 * n for n in mask.kept.shape[2:]]
    spread, shown = mask.spread()[at], mask.shown[at].astype(float)
    spread, shown = spread[::down, ::along], shown[::down, ::along]
    return np.fft.rfft2(spread, size), np.fft.rfft2(shown, size)


def _signed(shift: int, n: int) -> int:
    return shift if shift < n else shift - 2 * n
