"""Which weights an answer is made of: its function is asked again, of values that show them.

An output of attention is its weights times V, and dV is their transpose times dO. Where a row of V
holds a single 1, in a column of its own, the output of the same queries and keys is the weights
themselves. They tell what no list of mistakes does: keys that are left out, seen although they are
hidden, counted twice, or whose values belong to others. What is said is what was seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from course_lib.judging.confirming import SILENT, Run, Told
from course_lib.judging.misconceptions import LEFT_OUT
from course_lib.judging.picture import plural
from course_lib.judging.seen import Seen
from course_lib.judging.spec import Case, Exercise, Mistake
from course_lib.judging.tolerance import as_float64

_MOST_CALLS = 6  # of the function, for one case
_MOST_WEIGHTS = 1 << 18
_FEWEST_ROWS = 3
_MOST_KEYS = 40  # of which each pair is tried
_SEEN = 1e-6  # a weight that is less is none
_FAINT = 1e-2  # of the largest of its row: what is less tells nothing of a factor
_OPERANDS = {
    "v": ("row", "key"),
    "values": ("row", "key"),
    "do": ("key", "query"),
    "do_tile": ("key", "query"),
}
"""What is mixed: by name, and the words for a row of the weights and for what they weigh."""
_OFF = 2e-2  # of an answer's largest number: in half precision weights are rounded, and it is
_QUERIES = ("q", "q_tile")  # of zeros: all scores are 0 then


class Mixed(NamedTuple):
    """Weights of one output (rows, n), as they are and as they should be, and words for both.

    ``near``: how far the precision of the inputs lets them be from each other. ``hidden``: what has
    no weight whatever its score is.
    """

    got: np.ndarray
    truth: np.ndarray
    near: float
    hidden: np.ndarray
    shape: tuple[int, ...]
    words: tuple[str, str]


def _place(exercise: Exercise, case: Case) -> int | None:
    """Return which argument is mixed, if one is."""
    if exercise.later or exercise.play:
        return None
    names = exercise.names(case)[: len(case.args)]
    return next((i for i, name in enumerate(names) if name in _OPERANDS), None)


def can_mix(seen: Seen) -> bool:
    """Return whether few calls show the weights of a case."""
    case = seen.case
    place = _place(seen.exercise, case)
    if place is None:
        return False
    operand = case.args[place]
    parts = operand if isinstance(operand, list | tuple) else [operand]
    if not parts or not all(getattr(x, "ndim", 0) >= 2 and x.shape[-1] for x in parts):
        return False
    if any("float" not in str(x.dtype) for x in parts):  # of whole numbers notes may be whole
        return False
    n = sum(int(x.shape[-2]) for x in parts)
    return 2 <= n <= _MOST_CALLS * int(parts[0].shape[-1])


def weighed(seen: Seen, run: Run) -> Told | None:
    """Tell what the weights of a wrong result tell."""
    mix = _mixed(seen, run)
    if mix is None:
        return SILENT
    return _told(mix) if isinstance(mix, Mixed) else None


def _mixed(seen: Seen, run: Run) -> Mixed | Literal[False] | None:
    """Return the weights of the first output of a case that are wrong, None if none can be seen.

    False if the values, weighed so, are not what was answered: it is no mixture of them.
    """
    exercise, case = seen.exercise, seen.case
    place = _place(exercise, case)
    assert place is not None
    names, operand = exercise.names(case), case.args[place]
    parts = operand if isinstance(operand, list | tuple) else [operand]
    n, d = sum(x.shape[-2] for x in parts), parts[0].shape[-1]
    got, truth, level = (list[list[np.ndarray]]() for _ in range(3))
    for first in range(0, n, d):
        args = [*case.args]
        args[place] = _shown(operand, first)
        asked = replace(case, args=tuple(args), counted=False, compiled=False)
        answer = exercise.answer(exercise.truth(*asked.args, **asked.kwargs))
        truth.append(_arrays(answer))
        args = [x * 0 if name in _QUERIES else x for name, x in zip(names, args, strict=False)]
        same_scores = exercise.answer(
            exercise.truth(*args, *asked.args[len(args) :], **asked.kwargs)
        )
        level.append(_arrays(same_scores))
        if sum(x.size for x in truth[-1]) * (n / d) > _MOST_WEIGHTS:
            return None
        if (result := run(asked)) is None:
            return None
        got.append(_arrays(result))
    right, mine = _arrays(seen.answer), _arrays(run(case))  # now, as the weights are
    if any(len(one) != len(right) for one in [*got, mine]):
        return None
    values = np.concatenate([as_float64(x) for x in parts], axis=-2)
    none: Literal[False] | None = None
    for i, whole in enumerate(right):
        if any(one[i].shape != whole.shape for one in [*got, mine]) or whole.shape[-1:] != (d,):
            continue
        weights = np.concatenate([one[i] for one in truth], axis=-1)[..., :n]
        theirs = np.concatenate([one[i] for one in got], axis=-1)[..., :n]
        if not _makes(weights, values, whole) or not np.isfinite(theirs).all():
            continue
        if not _makes(theirs, values, mine[i], off=_OFF):  # of a constant, say
            none = False if np.isfinite(mine[i]).all() else none
            continue
        near = 4e-3 if "16" in str(parts[0].dtype) else 2e-5
        if np.abs(theirs - weights).max(initial=0.0) > near:
            rows, words = weights.shape[:-1], _OPERANDS[names[place]]
            hidden = np.concatenate([one[i] for one in level], axis=-1)[..., :n] == 0
            theirs, weights, hidden = (x.reshape(-1, n) for x in (theirs, weights, hidden))
            return Mixed(theirs, weights, near, hidden, rows, words)
    return none


def _shown(operand: Any, first: int) -> Any:
    """Return values (..., n, d) of 0, but a 1 in column i of row ``first`` + i."""
    if isinstance(operand, list | tuple):
        shown, before = [], 0
        for part in operand:
            shown.append(_shown(part, first - before))
            before += part.shape[-2]
        return type(operand)(shown)
    n, d = operand.shape[-2:]
    values = operand * 0  # as it is: in its memory, of its dtype
    values[...] = 0  # NaN as well
    for column in range(d):
        if 0 <= first + column < n:
            values[..., first + column, column] = 1
    return values


def _arrays(x: Any) -> list[np.ndarray]:
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, tuple | list):
        return [one for part in x for one in _arrays(part)]
    try:
        return [as_float64(x)]
    except (TypeError, ValueError):
        return [np.empty(0)]


def _makes(weights: np.ndarray, values: np.ndarray, whole: np.ndarray, off: float = 1e-3) -> bool:
    """Whether the weights times the values are this output: so it is linear in them."""
    heads = whole.shape[-3] if weights.ndim == values.ndim and values.ndim > 2 else 0
    if heads and values.shape[-3] != heads:
        if heads % values.shape[-3]:
            return False
        values = np.repeat(values, heads // values.shape[-3], axis=-3)
    if weights.ndim < values.ndim and values.ndim > 2:
        values = np.repeat(values, whole.shape[-2] // values.shape[-3], axis=-3)
    try:
        flat = weights.ndim < values.ndim
        with np.errstate(all="ignore"):
            made = (weights[..., None, :] @ values)[..., 0, :] if flat else weights @ values
    except ValueError:
        return False
    scale = np.abs(whole).max(initial=0.0)
    return made.shape == whole.shape and bool(np.allclose(made, whole, atol=off * scale))


def _told(mix: Mixed) -> Told | None:
    """Return what the weights tell, if it explains all rows that are wrong, else None."""
    got, truth, near = mix.got, mix.truth, mix.near
    error = np.abs(got - truth).max(axis=1)
    wrong, clearly = error > near, error > 16 * near
    if meant := _other_values(mix):
        return _of(meant)
    bare = (np.abs(got) <= _SEEN).all(axis=1)
    a, b = mix.words
    if (bare | ~wrong).all():
        lost = wrong[:, np.newaxis] & (truth > near)
        vanished = f"all weights of a {a} vanish, or it is set to 0"
        return _of(_mistake(vanished, "has next to no part in the result", np.asarray(lost), mix))
    out, twice, seen = (np.zeros(got.shape, bool) for _ in range(3))
    for row in np.flatnonzero(wrong):
        g, w = got[row], truth[row]
        there = (w > max(_FAINT * w.max(), 8 * near)) & (g > _SEEN)
        if (g < -near).any():
            return None
        if not there.any():  # what is hidden may have taken all the weight
            seen[row] = mix.hidden[row] & (g > near)
            if g[seen[row]].sum() < 1 - 16 * near:
                return None
            continue
        factor = float((g[there] / w[there]).min())
        seen[row] = mix.hidden[row] & (g > near)
        out[row] = (g <= _SEEN) & (factor * w > near)
        off = 4 * near * max(1.0, factor)
        kept = np.abs(g - factor * w) <= off
        twice[row] = (np.abs(g - 2 * factor * w) <= 2 * off) & (factor * w > off) & ~kept
        if not (kept | seen[row] | out[row] | twice[row]).all():
            return None
    kinds = [bool(x.any()) for x in (seen, out, twice)]
    explained = np.asarray((seen | out | twice).any(axis=1))
    if sum(kinds) == 0 or not explained[clearly].all() or (kinds[2] and sum(kinds) > 1):
        return None
    if kinds[2]:
        twofold = _mistake(
            f"{plural(b)} are counted twice", "weighs twice what it should", twice, mix
        )
        return _of(twofold)
    what = {
        (False, True): "has no weight, and should have one",
        (True, False): "is hidden, and has a weight",
        (True, True): "has a weight and should have none, or the other way round",
    }[kinds[0], kinds[1]]
    if kinds[1] and not kinds[0] and (limit := _limit(got, truth, out)) is not None:
        return _of(
            Mistake(
                LEFT_OUT,
                f"no weight below {limit:.1g} of the largest of its {a} is left, and all above it "
                "are: many small ones count together, and values make up for a weight. Leave out "
                "nothing that is seen.",
            )
        )
    name = _OTHERS[kinds[0], kinds[1]].format(plural(b))
    return Others(_mistake(name, what, seen | out, mix), (plural(b), (kinds[0], kinds[1])))


def _of(mistake: Mistake) -> Told:
    """Return what is told in other cases only under the same name."""
    return Told(mistake, of_all=mistake.name)


@dataclass(frozen=True)
class Others(Told):
    """That other keys have a weight than should: too many in one case, too few in another."""

    def beside(self, other: Told) -> Told | None:
        """Return what both tell together, where they are about the same things."""
        if self.of_all == other.of_all:
            return self
        both = {self.of_all, other.of_all}
        if not isinstance(other, Others) or len({words for words, _ in both}) > 1:
            return None
        ((words, _), *_) = both
        return Others(replace(self.mistake, name=_OTHERS[True, True].format(words)), self.of_all)


_OTHERS = {  # (seen, left out)
    (True, False): "hidden {} are seen",
    (False, True): "{} are left out",
    (True, True): "other {} are seen than should be",
}
ELSEWHERE = "weights meet other rows of V"


def _mistake(name: str, what: str, where: np.ndarray, mix: Mixed) -> Mistake:
    a, b = mix.words
    row = int(np.flatnonzero(where.any(axis=1))[0])
    places = np.flatnonzero(where[row])
    which = _span(b, places)
    at = _row_name(row, mix.shape, a)
    rows = int(where.any(axis=1).sum())
    return Mistake(
        name,
        f"your function was asked for the weights themselves, by values that show them: for {at}, "
        f"{which} {what}. {rows} of {len(where)} {plural(a)} have such {plural(b)}.",
    )


def _row_name(row: int, shape: tuple[int, ...], word: str) -> str:
    *before, last = np.unravel_index(row, shape) if shape else (0,)
    names = {1: ("head",), 2: ("batch", "head"), 3: ("split", "batch", "head")}.get(len(before), ())
    inside = ", ".join(f"{name} {i}" for name, i in zip(names, before, strict=False))
    return f"{word} {last}" + (f" of {inside}" if inside else "")


def _span(word: str, places: Sequence[int] | np.ndarray) -> str:
    if len(places) == 1:
        return f"{word} {places[0]}"
    if len(places) == places[-1] - places[0] + 1:
        return f"each of the {plural(word)} {places[0]} to {places[-1]}"
    return f"each of the {plural(word)} {', '.join(map(str, places[:6]))}" + " ..." * (
        len(places) > 6
    )


def _limit(got: np.ndarray, truth: np.ndarray, out: np.ndarray) -> float | None:
    """Return the share of a row's largest weight below which none is left, if there is one."""
    share = truth / np.maximum(truth.max(axis=1, keepdims=True), 1e-300)
    kept = (got > _SEEN) & (truth > _SEEN)
    least, most = share[kept].min(initial=1.0), share[out].max(initial=0.0)
    where = [tuple(np.flatnonzero(row)) for row in out if row.any()]
    return float(np.sqrt(least * most)) if most < least and len({*where}) > 2 else None


def _other_values(mix: Mixed) -> Mistake | None:
    """Return the mistake of weights whose values are others': in each row the same ones are.

    A row of V is then weighed as another key is, or as two together.
    """
    got, truth = mix.got, mix.truth
    n = got.shape[1]
    if n > _MOST_KEYS or len(got) < _FEWEST_ROWS or mix.words[1] != "key":
        return None
    single = np.pad(truth, ((0, 0), (1, 0)))  # none stands first
    first, second = np.triu_indices(n + 1)
    sums = single[:, first] + np.where(first == second, 0, single[:, second])
    fits = np.abs(sums[:, :, None] - got[:, None]).max(axis=0) <= 4 * mix.near
    if not fits.any(axis=0).all():
        return None
    chosen = [int(fits[:, j].argmax()) for j in range(n)]
    keys = [{int(first[c]), int(second[c])} - {0} for c in chosen]
    off = [(min(one) - 1, j) for j, one in enumerate(keys) if one and one != {j + 1}]
    if not off or 2 * len(off) < len([1 for one in keys if one]):
        return None
    key, other = next(((k, j) for k, j in off if k != j), off[0])
    return Mistake(
        ELSEWHERE,
        "your function was asked for the weights themselves, by values that show them: it "
        f"multiplies the weight of key {key} by row {other} of V, for every query. Which rows of V "
        "are read when, and for which keys?",
    )
