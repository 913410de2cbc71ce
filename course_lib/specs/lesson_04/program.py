"""Exercise 4.6: the kernel, in NumPy on flat memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.accounting.memory import FlatMemory
from course_lib.accounting.traffic import derived_counts
from course_lib.attention.naive import naive
from course_lib.attention.truth import attention_float64
from course_lib.judging import cases
from course_lib.judging.attention_judge import attention_truth, output_only
from course_lib.judging.desk import misfit
from course_lib.judging.finding import Finding
from course_lib.judging.judges import array_finding
from course_lib.judging.picture import Bar, TrafficBars
from course_lib.judging.spec import Case, Exercise, Mistake, Observed
from course_lib.judging.tolerance import allowed_error, as_float64, output_rounding
from course_lib.specs.lesson_04.tiled import STREAM_MISTAKES


class OutOfBounds(IndexError):
    """A program touched an address that belongs to no tensor."""


def _launch(function: Callable[..., Any], case: Case) -> Observed:
    """Lay q, k, v, o out in a flat memory and run every program, the last one first."""
    q, k, v = case.args  # (H, n, d)
    (heads, n_q, d), n_k = q.shape, k.shape[1]
    layout = case.kwargs["layout"]
    block_q, block_k = case.kwargs["block_q"], case.kwargs["block_k"]
    memory = FlatMemory()
    addresses, strides = [], []
    for name, array in zip("qkvo", (q, k, v, np.full_like(q, np.nan)), strict=True):
        addresses.append(memory.place(name, _laid(name, array, layout)))
        a, b, _ = memory.strides(name)
        strides += [b, a] if layout == "rows first" else [a, b]
    scale = 1 / np.sqrt(d)
    shared = (*addresses, *strides, n_q, n_k, scale, d, block_q, block_k)
    if complaint := misfit(function, (0, 0), memory, *shared):
        return Observed(None, complaint)
    pids = [(tile, head) for tile in range(-(-n_q // block_q)) for head in range(heads)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for pid in reversed(pids):
            try:
                function(pid, memory, *shared)
            except IndexError as error:
                if "belong to no tensor" not in str(error):
                    raise
                raise OutOfBounds(f"program {pid}: {error}") from None
    o = memory.array("o")
    return Observed(o.transpose(1, 0, 2) if layout == "rows first" else o[..., :d], memory)


def _laid(name: str, x: np.ndarray, layout: str) -> np.ndarray:
    """Return (H, n, d) as it lies in memory: "heads first", "rows first" (heads side by side in
    each row) or "rows apart" (numbers of nobody after each row, more of them in k than in q)."""
    if layout == "rows apart":
        return np.pad(x, ((0, 0), (0, 0), (0, 1 + 2 * "qokv".index(name))), constant_values=0.5)
    return x.transpose(1, 0, 2) if layout == "rows first" else x


def _program_cases(rng: Generator) -> list[Case]:
    def drawn(n_q: int, n_k: int, d: int, heads: int, **how: Any) -> cases.Triple:
        return cases.draw(rng, n_q, n_k, d, heads=(heads,), **how)

    def far(n_k: int, by: int) -> cases.Triple:
        return cases.far_below(rng, 20, n_k, 16, by, heads=(2,))

    two = drawn(19, 26, 8, 2)
    q, k, v = drawn(19, 26, 8, 2)
    v[0], v[..., 3] = 0, 0  # of one head and of a column everywhere
    climbing = cases.sloped(rng, 17, 50, 8, 30.0, heads=(1,))
    falling = cases.sloped(rng, 17, 50, 8, -30.0, heads=(1,))
    one_after_the_other, side_by_side, apart = "heads first", "rows first", "rows apart"
    tried: list[tuple[str, cases.Triple, int, int, str]] = [
        ("one head, whole tiles", drawn(16, 32, 12, 1), 8, 16, one_after_the_other),
        ("one head, ragged", drawn(37, 29, 12, 1), 16, 8, one_after_the_other),
        ("three heads, one after the other", drawn(21, 40, 8, 3), 8, 16, one_after_the_other),
        ("three heads, side by side in each row", drawn(40, 27, 8, 3), 16, 8, side_by_side),
        ("two heads, rows apart: each tensor has strides of its own", two, 8, 16, apart),
        ("values of 0: so is the output, and it is stored", (q, k, v), 8, 16, one_after_the_other),
        # no maximum at all fails on the first, one that starts at 0 on the second; on the third
        # one that saw the score 0 of a place past the end
        ("scores near 1000", far(32, 1024), 16, 8, side_by_side),
        ("scores near -1000, whole tiles of keys", far(32, -1024), 16, 8, side_by_side),
        ("scores near -1000", far(37, -1024), 16, 8, side_by_side),
        ("tiles as wide as d", drawn(19, 23, 8, 2, size=4), 8, 8, one_after_the_other),
        ("scores climb along the row", climbing, 4, 16, one_after_the_other),
        ("scores fall along the row", falling, 4, 16, side_by_side),
    ]
    hard = cases.hard(rng, 17, 33, 16, heads=(2,))
    lowest = cases.farthest(rng, 9, 20, 16, heads=(2,))
    many = cases.many_tiles(rng, heads=(1,))
    return [
        Case(
            f"{name}; n_q = {qkv[0].shape[1]}, n_k = {qkv[1].shape[1]}, "
            f"tiles {block_q} and {block_k}",
            qkv,
            {"block_q": block_q, "block_k": block_k, "layout": layout},
            shows=shows,
        )
        for name, qkv, block_q, block_k, layout, shows in [
            *((*one, frozenset[str]()) for one in tried),
            *((name, qkv, 8, 16, one_after_the_other, shows) for name, qkv, shows in hard),
            ("tiles of one row", drawn(3, 5, 8, 1), 1, 1, one_after_the_other, frozenset[str]()),
            (cases.FARTHEST_NAME, lowest, 8, 16, side_by_side, frozenset[str]()),
            (cases.MANY_NAME, many, 4, 1, one_after_the_other, frozenset[str]()),
        ]
    ]


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
    allowed = allowed_error(o_true, as_float64(naive(q, k, v)), "float32")
    allowed += output_rounding(q, k, v)
    block_q = case.kwargs["block_q"]
    axes = ("head", "row", "column")
    if finding := array_finding(
        observed.result, o_true, allowed=allowed, name="`o`", axes=axes, block_q=block_q
    ):
        return finding
    counts = derived_counts(q.shape[1], k.shape[1], block_q, case.kwargs["block_k"])
    if finding := _judge_traffic(memory, once, counts["t_q"]):
        return finding
    return _judge_tiles(case, memory, counts["t_q"] * q.shape[0], counts["t_k"])


def _judge_tiles(case: Case, memory: FlatMemory, programs: int, t_k: int) -> Finding | None:
    """Judge the loads: of the size that was asked for, and none that reads nothing."""
    d, block_k = case.args[0].shape[2], case.kwargs["block_k"]
    asked = {"k": "block_k", "v": "block_k", "q": "block_q"}
    rows = {name: memory.largest[name] // (d * memory.itemsize) for name in asked}
    if taller := [name for name, size in asked.items() if rows[name] > case.kwargs[size]]:
        name, size = taller[0], asked[taller[0]]
        says = f"one load read {rows[name]} rows of {name}; {size} is {case.kwargs[size]}."
    elif memory.loads > (wanted := programs * (1 + 2 * t_k)):
        says = (
            f"{programs} programs made {memory.loads} loads. A program needs {wanted // programs}: "
            f"one of q, and {t_k} of k and of v, of {block_k} rows each."
        )
    else:
        return None
    return Finding("loads whole tiles", f"the answer is right, but {says}")


def _judge_traffic(memory: FlatMemory, once: dict[str, int], t_q: int) -> Finding | None:
    """Judge the books: Q once, K and V T_q times, O stored once and never read."""
    for name, times in (("q", 1), ("k", t_q), ("v", t_q)):
        if memory.read[name] != times * once[name]:
            found, right = memory.read[name] / once[name], f"with {t_q} Q tiles {times} is"
            why = (
                f"{right} enough. Which loop does the load stand in?"
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


def _strided(strides: Callable[..., tuple[int, ...]]) -> Callable[..., np.ndarray]:
    """Return a model that reads q, k, v and stores o at other row strides than theirs.

    ``strides`` gets head_dim and the true strides of q, k, v and o; it returns the four in use.
    """

    def model(q: Any, k: Any, v: Any, layout: str, block_q: int, **_tiles: int) -> np.ndarray:
        heads, n_q, d = q.shape
        laid = [_laid(name, x, layout) for name, x in zip("qkvo", (q, k, v, q), strict=True)]
        steps = [(x[0].size, x.shape[2]) for x in laid]  # from head to head, from row to row
        if layout == "rows first":
            steps = [(row, head) for head, row in steps]
        used = strides(d, *(row for _, row in steps))

        def at(which: int, n: int, row: int) -> np.ndarray:
            head = steps[which][0] * np.arange(heads)[:, None, None]
            return head + row * np.arange(n)[:, None] + np.arange(d)

        q, k, v = (laid[i].ravel()[at(i, x.shape[1], used[i])] for i, x in enumerate((q, k, v)))
        o, stored = np.full(laid[3].size, np.nan), at(3, n_q, used[3])
        answer = attention_float64(q, k, v)[0]
        for start in reversed(range(0, n_q, block_q)):  # as programs run: the first one wins
            for head in reversed(range(heads)):
                rows = slice(start, start + block_q)
                o[stored[head, rows]] = answer[head, rows]
        return o[at(3, n_q, steps[3][1])]

    return model


def _n_q_for_n_k(q: Any, k: Any, v: Any, **_rest: Any) -> np.ndarray:
    """Return what masking the loads of K and V with n_q gives: rows of zeros from there on."""
    real = np.arange(k.shape[1])[:, None] < q.shape[1]
    return attention_float64(q, np.where(real, k, 0), np.where(real, v, 0))[0]


_STRIDES = (
    *Mistake.ways(
        "head_dim in place of the row stride",
        "from one row to the next it is q_row elements (k_row, v_row, o_row), not head_dim: "
        "rows may hold more than one head.",
        _strided(lambda d, q, k, v, o: (d, d, d, d)),
        _strided(lambda d, q, k, v, o: (d, d, d, o)),
    ),
    *Mistake.ways(
        "the row stride of another tensor",
        "each of q, k, v and o has a stride of its own: q_row, k_row, v_row, o_row.",
        _strided(lambda d, q, k, v, o: (q, q, q, q)),
        _strided(lambda d, q, k, v, o: (q, q, q, o)),
        _strided(lambda d, q, k, v, o: (q, k, k, o)),
        _strided(lambda d, q, k, v, o: (q, q, v, o)),
        _strided(lambda d, q, k, v, o: (q, k, v, q)),
    ),
)


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


_PAST_THE_END = Mistake(
    "what stands past the end is not 0",
    "the masked rows of a tile of K or V hold infinity or NaN, and 0 * inf is NaN: load them as 0, "
    "other=0.0.",
    _no_zeros_past_the_end,
)
_N_Q_FOR_N_K = Mistake(
    "n_q in place of n_k",
    "k and v have n_k rows: the mask of their loads compares with n_k.",
    _n_q_for_n_k,
)
_FIRST_HEAD = Mistake.ways(
    "all heads read the first head",
    "every head uses Q, K or V of the first one: q + head * q_head, and so on.",
    *map(_first_head_in, ("kv", "qkv", "q", "k", "v")),
)


EXERCISE = Exercise.of(
    "4.6",
    cases=_program_cases,
    truth=attention_truth,
    answer=output_only,
    judge=_judge_program,
    run=_launch,
    mistakes=(*_STRIDES, *_FIRST_HEAD, _N_Q_FOR_N_K, _PAST_THE_END, *STREAM_MISTAKES),
)
