"""Exercise 10.2: write the newest token into a static cache, and attend with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging import sizes
from course_lib.judging.faults import find_fault
from course_lib.judging.finding import Finding
from course_lib.judging.hosts.answers import tampering_of
from course_lib.judging.judges import array_finding
from course_lib.judging.misconceptions import NOT_THE_MAXIMUM, SAYS
from course_lib.judging.spec import REMAINDER, Case, Exercise, Mistake, Observed
from course_lib.judging.tolerance import as_float64
from course_lib.sandbox.calling import misfit, size_of_smallest
from course_lib.sandbox.inputs import find_tampering
from course_lib.specs.lesson_10.caches import (
    allowed,
    copy_finding,
    heads_side_by_side,
    hidden_otherwise,
    of_the_scale,
    read_finding,
    rows_as_heads,
    scores,
    softmax,
    tensors,
)

Array = np.ndarray
_AXES = ("sequence", "head", "position", "column")


def _case(
    rng: Generator,
    name: str,
    lengths: list[int],
    n_max: int,
    d: int,
    *,
    heads: int = 2,
    qkv: draw.Triple | None = None,
    size: float = 1.0,
    strided: bool = False,
    **flags: Any,
) -> Case:
    """Return a case: the rows behind the last token are left over from somebody else's request."""
    import torch

    n = torch.tensor(lengths)
    arrays = qkv or draw.draw(rng, 1, n_max, d, heads=(len(lengths), heads), size=size)
    q, k, v = tensors(arrays)
    at = n[:, None, None, None].expand(-1, k.shape[1], 1, d)
    k_new, v_new = k.gather(2, at), v.gather(2, at)
    for cache, left in ((k, 0.5), (v, 5.0)):
        empty = torch.arange(n_max) >= n[:, None]  # (B, n_max)
        cache[empty[:, None].expand(-1, k.shape[1], -1)] += left
    if strided:
        k, v = heads_side_by_side(k, v)
    return Case(name, (q, k_new, v_new, k, v, n), **flags)


def _hard(rng: Generator) -> list[Case]:
    """Return scores that jump, and scores that lie below any number, in float64; 3 rows are heads.

    The last row of `jumps` has none of the weight: the newest token does not hide the others.
    """
    return [
        _case(rng, name, [11, 14], 17, 16, qkv=rows_as_heads(*draw.in_double(rng, qkv)),
              shows=shows - {REMAINDER})
        for name, qkv, shows in draw.hard(rng, 3, 17, 16, heads=(2,))
    ]  # fmt: skip


def _cases(rng: Generator) -> list[Case]:
    a, b, c = (int(x) for x in rng.choice(np.arange(4, 15), 3, replace=False))
    return [
        _case(rng, "2 sequences of 3 tokens each, room for 8", [3, 3], 8, 4),
        _case(rng, f"3 sequences of {a}, {b} and {c} tokens, room for 18", [a, b, c], 18, 8),
        _case(rng, f"the same lengths in another order: {c}, {a}, {b}", [c, a, b], 18, 8, heads=3),
        _case(rng, "large scores (q and k times 4)", [c, b], 18, 16, size=4),
        _case(rng, "caches that lie in memory as (B, n, H, d)", [a, c], 18, 8, strided=True),
        _case(rng, "an empty cache beside one with a single place left", [0, 11, 5], 12, 8),
        *_sized(rng),
        _case(rng, "2 sequences of 200 and 299 tokens, room for 300", [200, 299], 300, 8),
        *_hard(rng),
        _case(rng, draw.FARTHEST_NAME, [11, 14], 17, 16,
              qkv=draw.farthest(rng, 1, 17, 16, heads=(2, 3))),
        _case(rng, "3 sequences of 58, 62 and 60 tokens, room for 64: counted",
              [58, 62, 60], 64, 64, counted=True),
        # one: of several PyTorch's own product copies the caches, as no batch of matrices lies so
        _case(rng, "60 tokens, room for 64, caches in memory as (B, n, H, d): counted",
              [60], 64, 64, counted=True, strided=True),
    ]  # fmt: skip


def _sized(rng: Generator) -> Iterator[Case]:
    """Yield caches of every room, filled to every part of it; the first token sees itself alone."""
    for one in sizes.paired(
        rng,
        room=(2, 3, 8, 17),
        filled=sizes.WITHIN,
        batch=sizes.FEW,
        heads=sizes.FEW,
        d=sizes.WIDTHS,
    ):
        room, d, heads = one["room"], one["d"], one["heads"]
        first = min(one["filled"](room), room - 1)
        lengths = [first, *(int(x) for x in rng.integers(0, room, one["batch"] - 1))]
        name = f"lengths {lengths}, room for {room}, {heads} heads, d = {d}"
        alone = frozenset() if any(lengths) else frozenset({"mean(V)", "V"})
        yield _case(rng, name, lengths, room, d, heads=heads, blind_to=alone)


def _run(function: Any, case: Case) -> Observed:
    """Call the student's function on caches of its own, and return o and what became of them."""
    import torch

    from course_lib.accounting.eager_ledger import EagerLedger

    q, k_new, v_new, k, v, lengths = case.args
    if complaint := misfit(function, *case.args):
        return Observed(("the form", complaint))
    k, v = (x.detach().clone(memory_format=torch.preserve_format) for x in (k, v))
    given = q, k_new, v_new, k, v, lengths
    with EagerLedger() as ledger:
        ledger.follow(given, least=size_of_smallest(given))
        o = function(*given)
    ledger.look("the result", (o, k, v))
    caches = {"k_cache": k, "v_cache": v}
    if shared := find_tampering(caches, caches, o):
        return Observed(shared)
    return Observed((o, k, v), ledger if case.counted else None)


def _judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
    said = observed.result
    if not isinstance(said, list | tuple) or len(said) != 3:  # `_run` has found something
        return tampering_of(said) or Finding("the form", "no answer came back")
    q, _, _, k, v, _ = case.args
    o_true, k_true, v_true = expected
    o, *caches = said
    if fault := find_fault(o, q.new_empty(q.shape), "the result"):
        return fault
    if finding := array_finding(
        o, o_true, allowed=allowed(o_true, q, k, v), name="`o`", axes=_AXES
    ):
        return finding
    for got, truth, name in zip(caches, (k_true, v_true), ("`k_cache`", "`v_cache`"), strict=True):
        if finding := array_finding(got, truth, allowed=0.0, name=name, axes=_AXES):
            return finding
    return _traffic_finding(case, observed)


def _traffic_finding(case: Case, observed: Observed) -> Finding | None:
    if observed.ledger is None:
        return None
    _, k_new, v_new, k, _, lengths = case.args
    new = k_new.nbytes + v_new.nbytes
    if observed.ledger.written.get("input", 0) > new:
        return Finding(
            "writes the new rows only",
            f"the numbers are right, but {observed.ledger.written['input']} bytes of the caches "
            f"are written, and the new rows have {new}.",
            look="write one row a sequence: the others are where they belong already.",
        )
    filled = int(lengths.sum()) * k[0, :, 0].nbytes
    return copy_finding(observed.ledger, filled, 3 * filled // 2) or read_finding(
        observed.ledger, 2 * k.nbytes, 3, 4
    )


def _answer(
    *,
    at: Callable[[Array, int], Array] = lambda n, n_max: n,
    sees: Callable[[Array, Array], Array] = lambda j, n: j <= n,
    fill: float = -np.inf,
    added: bool = False,
    power: float = 0.5,
    new: Callable[[Any, Any], tuple[Any, Any]] = lambda k, v: (k, v),
    kept: tuple[bool, bool] = (True, True),
    late: tuple[bool, bool] = (False, False),
    change: Callable[[Array, Array], Array] = lambda cache, n: cache,
    top: Callable[[Array], Array] | None = None,
    adds: bool = False,
) -> Callable[..., Any]:
    """Return a model: where the new rows go, who is seen, and what becomes of the caches.

    ``kept``: whether K and V are written at all; the newest token is attended to all the same,
    but to what stood in its row before where it comes ``late``. ``top``: as in `softmax`.
    ``adds``: the new row is added to what stood there.
    """

    def model(q: Any, k_new: Any, v_new: Any, k_cache: Any, v_cache: Any, lengths: Any) -> Any:
        lengths = np.asarray(lengths)
        n_max = k_cache.shape[2]
        if (lengths >= n_max).any():  # of a case whose caches were cut, and the lengths were not
            raise ValueError("no room is left")
        where = np.clip(at(lengths, n_max), -n_max, n_max - 1)
        caches = [as_float64(x).copy() for x in (k_cache, v_cache)]
        written = []
        for cache, row in zip(caches, new(k_new, v_new), strict=True):
            made = cache.copy()
            there = np.arange(len(lengths)), slice(None), where
            made[there] = as_float64(row)[:, :, 0] + (made[there] if adds else 0.0)
            written.append(change(made, lengths))
        seen = sees(np.arange(n_max), lengths[:, None])[:, None, None]  # (B, 1, 1, n_max)
        old = (as_float64(x) for x in (k_cache, v_cache))
        k, v = (c if is_late else w for w, c, is_late in zip(written, old, late, strict=True))
        s = scores(q, k, power)
        s = np.where(seen, s, s + fill if added else fill)
        after = (w if keep else c for w, c, keep in zip(written, caches, kept, strict=True))
        dtype = np.float32 if top and q.element_size() == 4 else np.float64
        return softmax(s, top, dtype) @ v, *after

    return model


def _shifted(cache: Array, n: Array) -> Array:
    """Return the cache with the newest row at its end, all others one place to the front."""
    rows = np.arange(len(n))
    newest = cache[rows, :, n]
    cache = np.roll(cache, -1, axis=2)
    cache[:, :, -1] = newest
    return cache


def _at_all_lengths(cache: Array, n: Array) -> Array:
    """Return the cache in which each new row stands at every sequence's length."""
    newest = cache[np.arange(len(n)), :, n]
    for place in n:
        cache[:, :, place] = newest
    return cache


_MISTAKES = Mistake.table(
    ("the query looks before the row is written",
     "row lengths[b] still holds what another request left there: write k_new and v_new into it, "
     "then attend.",
     _answer(late=(True, True)),
     _answer(late=(True, True), kept=(False, False))),
    ("is_causal with one query sees the first key",
     "PyTorch aligns `is_causal=True` at the top left: query 0 sees key 0 only. The newest token "
     "stands at the END of the row: no mask hides anything older.",
     _answer(sees=lambda j, n: j + 0 * n < 1)),
    ("the position is off by one",
     "lengths counts the rows that are filled, 0 to lengths - 1: the new row goes to lengths.",
     _answer(at=lambda n, n_max: n - 1),
     _answer(at=lambda n, n_max: n - 1, sees=lambda j, n: j < n),
     _answer(at=lambda n, n_max: n + 1),
     _answer(at=lambda n, n_max: n + 1, sees=lambda j, n: j <= n + 1)),
    ("one position for all sequences",
     "each sequence is as long as it is: its new row goes to its own lengths[b].",
     _answer(at=lambda n, n_max: 0 * n + n[0]),
     _answer(at=lambda n, n_max: 0 * n + n[0], sees=lambda j, n: j <= n[0] + 0 * n),
     _answer(at=lambda n, n_max: 0 * n + n.max()),
     _answer(at=lambda n, n_max: 0 * n + n.max(), sees=lambda j, n: j <= n.max() + 0 * n)),
    ("each new row is written at all lengths",
     "cache[:, :, lengths] are the places of all lengths in every sequence: a row of its own cache "
     "is overwritten where another one ends. Sequence b's new row goes to lengths[b] of sequence b "
     "alone.",
     _answer(change=_at_all_lengths)),
    ("the new row is added to what stood there",
     "row lengths[b] holds what another request left there, and no zeros: write k_new and v_new "
     "over it, =, not += (or an index that accumulates).",
     _answer(adds=True)),
    ("a mask of 0 and 1 is added to the scores",
     "a mask of floats is added: 1 where a row is seen and 0 where not hides nothing. Leave it "
     "bool, or make it 0 and -inf.",
     _answer(fill=-1.0, added=True)),
    ("the cache is filled from its end",
     "a static cache does not move: the new row goes to lengths[b], not to the last place.",
     _answer(at=lambda n, n_max: n * 0 + n_max - 1),
     _answer(change=_shifted)),
    ("the newest token does not see itself",
     "a token sees itself as well: lengths[b] + 1 rows, the last of them its own.",
     _answer(sees=lambda j, n: j < n)),
    ("rows behind the newest token are seen",
     "what lies there is left over from another request: sequence b sees rows 0 to lengths[b].",
     _answer(sees=lambda j, n: j + 0 * n >= 0),
     _answer(sees=lambda j, n: j <= n + 1),
     _answer(sees=lambda j, n: j <= n.max() + 0 * n)),
    *hidden_otherwise(_answer),
    (NOT_THE_MAXIMUM, SAYS[NOT_THE_MAXIMUM],
     _answer(top=lambda s: np.where(np.isinf(s), np.inf, s).min(axis=-1, keepdims=True)),
     _answer(top=lambda s: s[..., :1])),
    ("the cache is not written",
     "the answer is right, but the next token will not find this one: write both rows into the "
     "caches that you were given.",
     _answer(kept=(False, False))),
    ("only one of the two caches is written",
     "the newest token has a row of K and a row of V: write both.",
     _answer(kept=(True, False)),
     _answer(kept=(False, True)),
     _answer(kept=(True, False), late=(False, True)),
     _answer(kept=(False, True), late=(True, False))),
    ("one new row is written into both caches",
     "k_new belongs into k_cache, v_new into v_cache.",
     _answer(new=lambda k, v: (k, k)), _answer(new=lambda k, v: (v, v))),
    ("K and V are exchanged", "k_new belongs into k_cache, v_new into v_cache.",
     _answer(new=lambda k, v: (v, k))),
    *of_the_scale(lambda power: _answer(power=power)),
)  # fmt: skip

EXERCISE = Exercise.of(
    "10.2",
    cases=_cases,
    truth=_answer(),
    judge=_judge,
    kind="torch",
    run=_run,
    spared={REMAINDER: "nothing is cut into tiles here"},
    mistakes=_MISTAKES,
)
