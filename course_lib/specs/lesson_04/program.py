"""Exercise 4.6: the kernel, in NumPy on flat memory.

Longer than 400 lines because its layouts, its books and the mistakes that show in them only stand
together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from course_lib.accounting.memory import FlatMemory
from course_lib.accounting.traffic import derived_counts
from course_lib.attention.naive import naive
from course_lib.attention.truth import attention_float64
from course_lib.judging import cases, magnitudes, sizes
from course_lib.judging.attention_judge import attention_truth, output_only
from course_lib.judging.desk import STOPPED, measured, misfit
from course_lib.judging.finding import Finding
from course_lib.judging.judges import array_finding
from course_lib.judging.picture import Bar, TrafficBars
from course_lib.judging.spec import Case, Exercise, Mistake, Observed
from course_lib.judging.tolerance import allowed_error, as_float64, output_rounding
from course_lib.specs.lesson_04.tiled import STREAM_MISTAKES, much_held


class OutOfBounds(IndexError):
    """A program touched an address that belongs to no tensor."""


class _InAProgram:
    """What a program may do with the memory: load and store, which are booked."""

    def __init__(self, memory: FlatMemory) -> None:
        self.load = lambda *args, **kwargs: memory.load(*args, **kwargs)
        self.store = lambda *args, **kwargs: memory.store(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"a program reads with memory.load and writes with memory.store; memory.{name} is not "
            "for programs"
        )


def _launch(function: Callable[..., Any], case: Case) -> Observed:
    """Lay q, k, v, o out in a flat memory and run every program, the last one first."""
    q, k, v = case.args  # (H, n, d)
    (heads, n_q, d), n_k = q.shape, k.shape[1]
    layout = _layouts()[case.kwargs["layout"]]
    block_q, block_k = case.kwargs["block_q"], case.kwargs["block_k"]
    memory = FlatMemory()
    addresses, strides = [], []
    for name, array in zip("qkvo", (q, k, v, np.full_like(q, np.nan)), strict=True):
        addresses.append(memory.place(name, _laid(name, array, layout)))
        a, b, _ = memory.strides(name)
        strides += [b, a] if layout.rows_first else [a, b]
    scale = case.kwargs.get("factor", 1.0) / np.sqrt(d)
    shared = (*addresses, *strides, n_q, n_k, scale, d, block_q, block_k)
    inside = _InAProgram(memory)
    if complaint := misfit(function, (0, 0), inside, *shared):
        return Observed(None, complaint)
    pids = [(tile, head) for tile in range(-(-n_q // block_q)) for head in range(heads)]
    most, idle = 0, []
    for pid in reversed(pids):
        before = memory.written["o"]
        call = partial(_run, function, pid, inside, shared)
        returned, held = measured(function, call) if case.counted else (call(), 0)
        if held is None:
            return Observed(None, STOPPED)
        if returned is not None:
            says = "a program stores its tile of o and returns nothing; yours returned something."
            return Observed(None, says)
        most = max(most, held)
        if memory.written["o"] == before:
            idle.append(pid)
    o = memory.array("o")
    o = (o.transpose(1, 0, 2) if layout.rows_first else o)[:heads, :n_q, :d]
    if idle and not np.isnan(o).any():
        says = f"program {idle[-1]} stored nothing: each program stores its own tile, no other's."
        return Observed(None, says)
    return Observed(o, memory, allocated=most)


def _run(
    function: Callable[..., Any], pid: tuple[int, int], memory: _InAProgram, shared: Sequence[Any]
) -> Any:
    try:
        with np.errstate(all="ignore"):
            return function(pid, memory, *shared)
    except IndexError as error:
        if "belong to no tensor" not in str(error):
            raise
        raise OutOfBounds(f"program {pid}: {error}") from None


class _Layout(NamedTuple):
    """How tensors lie in memory: heads one after the other, or side by side in each row.

    Behind the heads, rows and columns of each is room of nobody's: the more, the later a tensor
    stands in ``order`` (and so no stride does for another tensor, nor the larger of two).
    """

    rows_first: bool = False
    heads: int = 0
    rows: int = 0
    columns: int = 0
    order: str = "qokv"


ONE_AFTER_THE_OTHER, SIDE_BY_SIDE, APART = "heads first", "rows first", "rows apart"
_FAR = "heads more than 2**15 apart"


def _layouts() -> dict[str, _Layout]:
    """Return how heads and rows may lie in memory. (No constant: `_launch` is copied.)"""
    return {
        ONE_AFTER_THE_OTHER: _Layout(),
        SIDE_BY_SIDE: _Layout(rows_first=True),
        APART: _Layout(columns=1),
        "heads apart": _Layout(rows=1),
        "heads and rows apart": _Layout(rows=2, columns=3, order="vkoq"),
        "rows first, rows apart": _Layout(rows_first=True, heads=1, order="vkoq"),
        "rows first, heads and rows apart": _Layout(rows_first=True, heads=1, columns=1),
        _FAR: _Layout(rows=2**12, columns=1),
    }


def _laid(name: str, x: np.ndarray, layout: _Layout) -> np.ndarray:
    """Return (H, n, d) as it lies in memory."""
    more = 1 + 2 * layout.order.index(name)
    room = [(0, more * n) for n in (layout.heads, layout.rows, layout.columns)]
    x = np.pad(x, room, constant_values=0.5)
    return x.transpose(1, 0, 2) if layout.rows_first else x


def _in_turns(rng: Generator, heads: int, block_q: int, by: float) -> cases.Triple:
    """Return heads in which the scores of a tile of queries lie near ``by``, of the next near
    ``-by``: a program that begins with what another left has no weight left."""
    q, k, v = cases.shifted(rng, 3 * block_q + 1, 24, 16, by, heads=(heads,))
    q[:, np.arange(len(q[0])) // block_q % 2 == 1] *= -1
    q[1::2] *= -1
    return q, k, v


def _faint(rng: Generator) -> cases.Triple:
    """Return 24 keys, one of zeros and 8 whose weights are 0: they are read as all others are."""
    q, k, v = cases.draw(rng, 9, 24, 8, heads=(1,))
    q[..., 0] = np.sqrt(8)
    k[:, 3], k[:, 8:16, 0] = 0, -4000
    return q, k, v


def _program_cases(rng: Generator) -> list[Case]:
    def drawn(n_q: int, n_k: int, d: int, heads: int, **how: Any) -> cases.Triple:
        return cases.draw(rng, n_q, n_k, d, heads=(heads,), **how)

    def far(n_k: int, by: int) -> cases.Triple:
        return cases.far_below(rng, 20, n_k, 16, by, heads=(2,))

    def case(
        name: str, qkv: cases.Triple, block_q: int, block_k: int,
        layout: str = ONE_AFTER_THE_OTHER, **flags: Any,
    ) -> Case:  # fmt: skip
        sizes = f"n_q = {qkv[0].shape[1]}, n_k = {qkv[1].shape[1]}, tiles {block_q} and {block_k}"
        single = tuple(x.astype(np.float32) for x in qkv)
        how: dict[str, Any] = {"block_q": block_q, "block_k": block_k, "layout": layout}
        if factor := flags.pop("factor", None):
            how["factor"] = factor
        return Case(f"{name}; {sizes}", single, how, **flags)

    q, k, v = drawn(19, 26, 8, 2)
    v[0], v[..., 3] = 0, 0  # of one head and of a column everywhere
    climbing = cases.sloped(rng, 17, 50, 8, 30.0, heads=(1,))
    falling = cases.sloped(rng, 17, 50, 8, -30.0, heads=(1,))
    return [
        case("one head, whole tiles", drawn(16, 32, 12, 1), 8, 16),
        case("one head, ragged", drawn(37, 29, 12, 1), 16, 8),
        case("three heads, one after the other", drawn(21, 40, 8, 3), 8, 16),
        case("three heads, side by side in each row", drawn(40, 27, 8, 3), 16, 8, SIDE_BY_SIDE),
        case("two heads, rows apart: each tensor has strides of its own", drawn(19, 26, 8, 2),
             8, 16, APART),
        case("values of 0: so is the output, and it is stored", (q, k, v), 8, 16),
        # here no maximum at all is right, and so is one that starts at 0, but none that is left
        case("scores near 400 in a Q tile, near -400 in the next", _in_turns(rng, 2, 8, 400),
             8, 8),
        # no maximum at all fails on the first, one that starts at 0 on the second; on the third
        # one that saw the score 0 of a place past the end
        case("scores near 1000", far(32, 1024), 16, 8, SIDE_BY_SIDE),
        case("scores near -1000, whole tiles of keys", far(32, -1024), 16, 8, SIDE_BY_SIDE),
        case("scores near -1000", far(37, -1024), 16, 8, SIDE_BY_SIDE),
        case("scores near 1000 in a Q tile, near -1000 in the next",
             _in_turns(rng, 1, 8, 1000), 8, 8),
        case("tiles as wide as d", drawn(19, 23, 8, 2, size=4), 8, 8),
        case("scores climb along the row", climbing, 4, 16),
        case("scores fall along the row", falling, 4, 16, SIDE_BY_SIDE),
        *(case(name, qkv, 8, 16, shows=shows)
          for name, qkv, shows in cases.hard(rng, 17, 33, 16, heads=(2,))),
        case("tiles of one row", drawn(3, 5, 8, 1), 1, 1),
        case(cases.FARTHEST_NAME, cases.farthest(rng, 9, 20, 16, heads=(2,)), 8, 16, SIDE_BY_SIDE),
        case(cases.MANY_NAME, cases.many_tiles(rng, heads=(1,)), 4, 1),
        case("scale is not 1 / sqrt(head_dim)", drawn(9, 21, 16, 1, size=2), 8, 8, factor=0.75),
        case("a scale of 2", drawn(9, 21, 16, 1, size=0.5), 8, 8, factor=8.0),
        case("fewer keys than queries, and than a tile", drawn(10, 5, 8, 1), 24, 16),
        case(_FAR, drawn(5, 7, 8, 2), 4, 4, _FAR),
        case("one head, memory measured", drawn(32, 4096, 64, 1), 32, 64, counted=True),
        *(case(name, qkv, 4, 2)
          for name, qkv in magnitudes.attention(
              rng, 5, 18, 4, heads=(1,), of=magnitudes.SINGLE)),
        *(case(f"{heads} heads, {layout}; d = {d}", drawn(n_q, n_k, d, heads), block_q, block_k,
               layout)
          for n_q, n_k, d, block_q, block_k, heads, layout in sizes.tiled(
              rng, heads=(1, 2, 3, 6), layout=[name for name in _layouts() if name != _FAR])),
        case(cases.CREEP_NAME, cases.creeping(rng, 9, 50, 4, cases.CREEP, heads=(1,)), 4, 16,
             blind_to=frozenset({"mean(V)"})),
        case(cases.WHOLE_NAME, cases.jumping(rng, 6, 16, 4, 2000, heads=(1,)), 4, 8),
        case("a key of zeros, and a tile of keys far below the others", _faint(rng), 4, 8),
    ]  # fmt: skip


def _scaled(q: Any, factor: float = 1.0) -> Any:
    """Return the q with which plain attention gives what another scale gives."""
    return q * np.float32(factor)


def _program_truth(q: Any, k: Any, v: Any, *, factor: float = 1.0, **tiles: Any) -> Any:
    return attention_truth(_scaled(q, factor), k, v, **tiles)


def _judge_program(case: Case, observed: Observed, expected: Any) -> Finding | None:
    memory = observed.ledger
    if isinstance(memory, str):
        return Finding("signature", memory)
    q, k, v = case.args
    once = {name: x.size * memory.itemsize for name, x in zip("qkvo", (q, k, v, q), strict=True)}
    if memory.written["o"] < once["o"]:
        stored = memory.written["o"] // memory.itemsize
        return Finding(
            "writes every row of o",
            f"o has {q.size} numbers ({len(q)} x {q.shape[1]} rows of {q.shape[2]}), whatever they "
            f"are; {stored} were stored.",
        )
    o_true = expected[0]
    scaled = _scaled(q, case.kwargs.get("factor", 1.0))
    allowed = allowed_error(o_true, as_float64(naive(scaled, k, v)), "float32")
    allowed += output_rounding(scaled, k, v) + 1e-5 * float(np.abs(o_true).max())
    block_q = case.kwargs["block_q"]
    axes = ("head", "row", "column")
    if finding := array_finding(
        observed.result, o_true, allowed=allowed, name="`o`", axes=axes, block_q=block_q
    ):
        return finding
    found = _judge_books(case, observed, once)
    return found and replace(found, numbers_right=True)


def _judge_books(case: Case, observed: Observed, once: dict[str, int]) -> Finding | None:
    """Judge what was loaded, stored and held; the numbers are right."""
    (q, k, _), memory, block_q = case.args, observed.ledger, case.kwargs["block_q"]
    counts = derived_counts(q.shape[1], k.shape[1], block_q, case.kwargs["block_k"])
    t_q, t_k = counts["t_q"], counts["t_k"]
    programs = t_q * len(q)
    past_the_end = memory.loads <= _loads_of_all(programs, t_k)
    if finding := _judge_traffic(memory, once, t_q, past_the_end=past_the_end):
        return finding
    if finding := _judge_tiles(case, memory, programs, t_k):
        return finding
    return much_held(case, observed.allocated or 0) if case.counted else None


def _loads_of_all(programs: int, t_k: int) -> int:
    return programs * (1 + 2 * t_k)


def _judge_tiles(case: Case, memory: FlatMemory, programs: int, t_k: int) -> Finding | None:
    """Judge the loads: of the size that was asked for, and none that reads nothing."""
    d, block_k = case.args[0].shape[2], case.kwargs["block_k"]
    asked = {"k": "block_k", "v": "block_k", "q": "block_q"}
    rows = {name: memory.largest[name] // (d * memory.itemsize) for name in asked}
    if taller := [name for name, size in asked.items() if rows[name] > case.kwargs[size]]:
        name, size = taller[0], asked[taller[0]]
        says = f"one load read {rows[name]} rows of {name}; {size} is {case.kwargs[size]}."
    elif memory.loads > (wanted := _loads_of_all(programs, t_k)):
        says = (
            f"{programs} programs made {memory.loads} loads. A program needs {wanted // programs}: "
            f"one of q, and {t_k} of k and of v, of {block_k} rows each."
        )
    else:
        return None
    return Finding("loads whole tiles", f"the answer is right, but {says}")


def _judge_traffic(
    memory: FlatMemory, once: dict[str, int], t_q: int, *, past_the_end: bool
) -> Finding | None:
    """Judge the books: Q once, K and V T_q times, O stored once and never read.

    ``past_the_end``: there are not too many loads, so too much was read in some of them.
    """
    for name, times in (("q", 1), ("k", t_q), ("v", t_q)):
        if memory.read[name] != times * once[name]:
            found, right = memory.read[name] / once[name], f"with {t_q} Q tiles {times} is"
            asks = (
                "Rows past the end must read nothing: mask them."
                if past_the_end
                else "Which loop does the load stand in?"
            )
            why = (
                f"{right} enough. {asks}"
                if found > times
                else f"{right} what it takes: a program keeps nothing for the others."
            )
            return Finding(
                f"loads {name} {'once' if name == 'q' else 'once per Q tile'}",
                f"the answer is right, but every row of {name} was loaded {found:.3g} times on "
                f"average; {why}",
                picture=_loads(memory, once, t_q),
            )
    if memory.read["o"] or memory.written["o"] != once["o"]:
        return Finding(
            "stores o once",
            "the answer is right, but o was stored "
            f"{memory.written['o'] / once['o']:.3g} times and loaded "
            f"{memory.read['o'] / once['o']:.3g} times: keep the tile's output in acc "
            "and store it once, after the loop.",
            picture=TrafficBars(
                "stores and loads of o",
                (Bar("o", memory.read["o"] + memory.written["o"], once["o"]),),
            ),
        )
    if stray := [name for name in "qkv" if memory.written[name]]:
        return Finding("leaves its inputs alone", f"your program wrote into {stray[0]}.")
    return None


def _loads(memory: FlatMemory, once: dict[str, int], t_q: int) -> TrafficBars:
    loaded = {name: memory.read[name] for name in "qkv"}
    return TrafficBars.of(
        "loads", loaded, {"q": once["q"], "k": t_q * once["k"], "v": t_q * once["v"]}
    )


def _strided(which: str, of_heads: bool = False) -> Callable[..., np.ndarray]:
    """Return a model that reads q, k, v and stores o at other row strides than theirs.

    ``which`` has a word for each of the four in use: whose stride it is, or d, 1, or the larger or
    the smaller one of k's and v's. ``of_heads``: these are the strides from head to head.
    """

    def model(q: Any, k: Any, v: Any, layout: str, block_q: int, **_tiles: int) -> np.ndarray:
        heads, n_q, d = q.shape
        how = _layouts()[layout]
        laid = [_laid(name, x, how) for name, x in zip("qkvo", (q, k, v, q), strict=True)]
        steps = [(x[0].size, x.shape[2]) for x in laid]  # from head to head, from row to row
        if how.rows_first:
            steps = [(row, head) for head, row in steps]
        of = dict(zip("qkvo", (step[not of_heads] for step in steps), strict=True))
        of |= {"d": d, "1": 1, "max": max(of["k"], of["v"]), "min": min(of["k"], of["v"])}
        used = [
            (of[word], row) if of_heads else (head, of[word])
            for word, (head, row) in zip(which.split(), steps, strict=True)
        ]

        def at(step: tuple[int, int], n: int) -> np.ndarray:
            head = step[0] * np.arange(heads)[:, None, None]
            return head + step[1] * np.arange(n)[:, None] + np.arange(d)

        q, k, v = (laid[i].ravel()[at(used[i], x.shape[1])] for i, x in enumerate((q, k, v)))
        o, stored = np.full(laid[3].size, np.nan), at(used[3], n_q)
        answer = attention_float64(q, k, v)[0]
        for start in reversed(range(0, n_q, block_q)):  # as programs run: the first one wins
            for head in reversed(range(heads)):
                rows = slice(start, start + block_q)
                o[stored[head, rows]] = answer[head, rows]
        return o[at(steps[3], n_q)]

    return model


def _n_q_for_n_k(q: Any, k: Any, v: Any, **_rest: Any) -> np.ndarray:
    """Return what masking the loads of K and V with n_q gives: rows of zeros from there on."""
    real = np.arange(k.shape[1])[:, None] < q.shape[1]
    return attention_float64(q, np.where(real, k, 0), np.where(real, v, 0))[0]


def _first_head_in(names: str) -> Callable[..., np.ndarray]:
    """Return a model in which all heads read the first head of these of q, k and v."""

    def model(q: Any, k: Any, v: Any, **_rest: Any) -> np.ndarray:
        read = (
            np.broadcast_to(x[:1], x.shape) if name in names else x
            for name, x in zip("qkv", (q, k, v), strict=True)
        )
        return attention_float64(*read)[0]

    return model


def _no_zeros_past_the_end(q: Any, k: Any, v: Any, block_k: int, **_rest: Any) -> np.ndarray:
    """Return what infinities or NaN past the end make, where the last tile of keys is short."""
    return attention_float64(q, k, v)[0] * (np.nan if k.shape[1] % block_k else 1.0)


def _carried_over(notes: str) -> Callable[..., np.ndarray]:
    """Return a model in which each program begins with these notes of the one that ran before."""

    def model(q: Any, k: Any, v: Any, block_q: int, **_rest: Any) -> np.ndarray:
        heads, n_q, d = q.shape
        left: dict[str, Any] = {"m": np.full(block_q, -np.inf), "l": 0.0, "acc": 0.0}
        out = np.zeros((heads, -(-n_q // block_q) * block_q, d))
        padded = np.pad(q, ((0, 0), (0, out.shape[1] - n_q), (0, 0)))
        for start in reversed(range(0, n_q, block_q)):
            for head in reversed(range(heads)):
                rows = slice(start, start + block_q)
                s = padded[head, rows].astype(np.float64) @ k[head].T / np.sqrt(d)
                m = np.maximum(left["m"], s.max(axis=1))
                p, alpha = np.exp(s - m[:, None]), np.exp(left["m"] - m)
                l_sum = alpha * left["l"] + p.sum(axis=1)
                acc = alpha[:, None] * left["acc"] + p @ v[head]
                out[head, rows] = acc / l_sum[:, None]
                left |= {"m": m, "l": l_sum, "acc": acc} if notes == "all" else {"m": m}
        return out[:, :n_q]

    return model


_OWN_SCALE = Mistake(
    "the argument scale is not used",
    "the scores are multiplied by a number of your own. Use scale: it need not be "
    "1 / sqrt(head_dim).",
    lambda q, k, v, factor=1.0, **_rest: attention_float64(q, k, v)[0],
)


def _with_any_scale(mistake: Mistake) -> Mistake:
    """Return a mistake in which scale, at least, is right."""

    def model(q: Any, k: Any, v: Any, *, factor: float = 1.0, **tiles: Any) -> Any:
        return mistake.model(_scaled(q, factor), k, v, **tiles)

    return replace(mistake, model=model)


_MISTAKES = Mistake.table(
    ("a program begins with another's notes",
     "m, l_sum or acc is what the program before left there: set all of them anew in each program.",
     *map(_carried_over, ("m", "all"))),
    ("head_dim in place of the row stride",
     "from one row to the next it is q_row elements (k_row, v_row, o_row), not head_dim: rows may "
     "hold more than one head.",
     *map(_strided, ("d d d d", "d d d o"))),
    ("the row stride is missing",
     "rows begin q_row elements apart (k_row, v_row, o_row): multiply their numbers by it.",
     *map(_strided, ("1 1 1 1", "1 1 1 o", "q k v 1"))),
    ("the row stride of another tensor",
     "each of q, k, v and o has a stride of its own: q_row, k_row, v_row, o_row.",
     *map(_strided, ("q q q q", "q q q o", "q k k o", "q q v o", "q k v q",
                     "q k max o", "q max v o", "q k min o", "q min v o"))),
    ("the head stride of another tensor",
     "each of q, k, v and o has a stride of its own: q_head, k_head, v_head, o_head.",
     *(_strided(which, of_heads=True) for which in (
         "q q q q", "q q v o", "q k q o", "q q q o", "q k k o", "q v v o", "k k v o", "q k v q",
         "q k v k"))),
    ("all heads read the first head",
     "every head uses Q, K or V of the first one: q + head * q_head, and so on.",
     *map(_first_head_in, ("kv", "qkv", "q", "k", "v"))),
    ("n_q in place of n_k", "k and v have n_k rows: the mask of their loads compares with n_k.",
     _n_q_for_n_k),
    ("what stands past the end is not 0",
     "the masked rows of a tile of K or V hold infinity or NaN, and 0 * inf is NaN: load them as "
     "0, other=0.0.",
     _no_zeros_past_the_end),
)  # fmt: skip
EXERCISE = Exercise.of(
    "4.6",
    cases=_program_cases,
    truth=_program_truth,
    answer=output_only,
    judge=_judge_program,
    run=_launch,
    mistakes=(_OWN_SCALE, *map(_with_any_scale, (*_MISTAKES, *STREAM_MISTAKES))),
)
