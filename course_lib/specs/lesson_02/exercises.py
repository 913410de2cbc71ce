"""Exercises of lesson 02, the HBM accountant."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from numpy.random import Generator

from course_lib.accounting import traffic
from course_lib.accounting.hardware import GPU, LAUNCH_S, gpu
from course_lib.judging.judges import exactly, within
from course_lib.judging.spec import Case, Exercise, Finding, Mistake, Observed
from course_lib.sandbox.faults import find_fault

# --- 2.1 ----------------------------------------------------------------------------------------


def _least(n_q: int, n_k: int, d: int, heads: int, kv_heads: int, itemsize: int) -> int:
    return traffic.flash_compulsory.bytes(
        n_q=n_q, n_k=n_k, d=d, heads=heads, kv_heads=kv_heads, b=itemsize
    )


def _miscounted(
    n_q: int,
    n_k: int,
    d: int,
    heads: int,
    kv_heads: int,
    itemsize: int,
    *,
    trips: int = 0,
    outputs: int = 1,
    kv: int = 2,
    gqa: bool = True,
    lengths: bool = True,
    in_bytes: bool = True,
    b: int | None = None,
    few: bool = False,
    only_trips: bool = False,
    all_heads: bool = True,
    lse: bool = False,
    unit: float = 1,
) -> float:
    """Return the count of somebody with the named mistake; without a flag it is right."""
    group = heads if gqa is False else kv_heads
    if not all_heads:
        heads, group = 1, 1
    if few:
        heads = kv_heads
    b = b or (itemsize if in_bytes else 1)
    rows = 0 if only_trips else heads * n_q * (1 + outputs) + group * (n_k if lengths else n_q) * kv
    total = rows * d * b + trips * heads * n_q * n_k * b + (4 * heads * n_q if lse else 0)
    return total / unit


_LEAST_MISTAKES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    *[
        (
            "an algorithm is counted, not the bound",
            f"{trips} trips of the scores are in it. Naive attention makes them; no kernel "
            "has to. Count the inputs and the output only.",
            {"trips": trips, "gqa": gqa},
        )
        for trips in (1, 2, 4, 6)
        for gqa in (True, False)
    ],
    (
        "K and V are counted once per query head",
        "with fewer key/value heads than query heads there are only kv_heads copies of K and V, "
        "and the bound moves each of them once.",
        {"gqa": False},
    ),
    (
        "only the scores are counted",
        "the scores are an intermediate result. What must move are the inputs and the output.",
        {"trips": 1, "only_trips": True},
    ),
    (
        "Q and O have kv_heads heads",
        "only K and V have kv_heads heads: Q and O have one for each query head.",
        {"few": True},
    ),
    ("O is forgotten", "the output must reach memory: heads * n_q * d elements.", {"outputs": 0}),
    ("K or V is forgotten", "both K and V must be read.", {"kv": 1}),
    ("K and V have n_k rows", "n_q is used for the rows of K and V as well.", {"lengths": False}),
    (
        "elements, not bytes",
        "this is the number of elements: times itemsize.",
        {"in_bytes": False},
    ),
    (
        "always two bytes per element",
        "itemsize is 4 for fp32: multiply by it, not by 2.",
        {"b": 2},
    ),
    ("one head only", "this is one query head and one key/value head.", {"all_heads": False}),
    (
        "the lse is counted",
        "the 4 bytes per row of the log-sum-exp are in it. Training wants them; the output does "
        "not. Here they are left out.",
        {"lse": True},
    ),
    ("not in bytes", "this is in MB: return bytes.", {"unit": 1e6}),
    ("not in bytes", "this is in MiB: return bytes.", {"unit": 2**20}),
    ("not in bytes", "this is in GB: return bytes.", {"unit": 1e9}),
    ("not in bytes", "this is in GiB: return bytes.", {"unit": 2**30}),
    ("not in bytes", "this is in bits: a byte has eight.", {"unit": 1 / 8}),
)


def _least_cases(rng: Generator) -> list[Case]:
    # more queries than keys and a small d: slips in n_q, n_k, the lse then differ in three digits
    n_q, n_k = int(rng.integers(2500, 5000)), int(rng.integers(300, 2000))
    d = int(rng.choice([16, 32]))
    kv_heads, group = int(rng.choice([3, 5])), int(rng.integers(2, 9))
    return [
        Case(f"{n_q} queries, {n_k} keys, fp32", (n_q, n_k, d, kv_heads, kv_heads, 4)),
        Case(
            f"{kv_heads * group} query heads share {kv_heads} key/value heads (GQA)",
            (n_q, n_k, d, kv_heads * group, kv_heads, 2),
        ),
        Case(f"one query, {n_k} keys", (1, n_k, d, kv_heads * group, kv_heads, 2)),
        Case("N = 8192, d = 128, 8 heads, bf16", (8192, 8192, 128, 8, 8, 2)),
    ]


LEAST_BYTES = Exercise(
    id="2.1",
    function="least_bytes",
    signature="(n_q, n_k, d, heads, kv_heads, itemsize)",
    title="The least that any kernel must move",
    minutes=5,
    points=2,
    hints=(
        "Forget how attention is computed. Which tensors does the caller hand over, and which one "
        "do they want back?",
        "Q and O have heads * n_q * d elements each. K and V have n_k rows, and only kv_heads "
        "heads.",
        "The elements are (2 * heads * n_q + 2 * kv_heads * n_k) * d. What turns them into bytes?",
    ),
    cases=_least_cases,
    truth=_least,
    judge=exactly,
    notice="There is no N^2 in it. This is a lower bound: it describes no kernel, and no kernel "
    "can move less. How near a real one comes is a question for lesson 04.",
    mistakes=tuple(
        Mistake(name, says, functools.partial(_miscounted, **flags))
        for name, says, flags in _LEAST_MISTAKES
    ),
)

# --- 2.2 ----------------------------------------------------------------------------------------

Pair = tuple[float, float]


def _reduction(n: int, d: int) -> Pair:
    return traffic.reduction_factor(n, d), traffic.crossover_n(d)


_REDUCTION_MISTAKES: tuple[tuple[str, str, Callable[[int, int], Pair]], ...] = (
    (
        "N > 2d",
        "the crossover of 2 d is printed in public lessons. It comes from 4 N^2 on one side and "
        "8 N d on the other: elements against bytes. Put the bytes per element on both sides.",
        lambda n, d: (n / d + 1, 2 * d),
    ),
    (
        "N > 2d, and the linear term is forgotten",
        "the crossover compares elements with bytes, and the factor leaves out that naive reads "
        "Q, K, V and writes O as well: 4 N d on top of 4 N^2.",
        lambda n, d: (n / d, 2 * d),
    ),
    (
        "the linear term is forgotten",
        "naive moves Q, K, V, O as well: 4 N d on top of 4 N^2.",
        lambda n, d: (n / d, d),
    ),
    (
        "the crossover is an N",
        "2 is the factor at the crossover. The crossover itself is a sequence length.",
        lambda n, d: (n / d + 1, 2),
    ),
    (
        "six trips instead of four",
        "this is eager code that scales the scores. The exercise asks for the four-trip model.",
        lambda n, d: (1.5 * n / d + 1, 2 * d / 3),
    ),
    (
        "six trips instead of four",
        "the factor is that of eager code with six trips. The exercise asks for four.",
        lambda n, d: (1.5 * n / d + 1, d),
    ),
    (
        "the two values are exchanged",
        "return the factor first, then the crossover.",
        lambda n, d: (d, n / d + 1),
    ),
    (
        "the factor is upside down",
        "naive over least, not least over naive.",
        lambda n, d: (1 / (n / d + 1), d),
    ),
    (
        "whole division",
        "n // d drops what is left over: use n / d.",
        lambda n, d: (n // d + 1, d),
    ),
    (
        "the factor is rounded",
        "return the factor as it is: a rounded one is right at few shapes only.",
        lambda n, d: (round(n / d + 1), d),
    ),
    (
        "the share that is saved",
        "1 - least / naive is the share that is saved. The factor is naive over least.",
        lambda n, d: (n / (n + d), d),
    ),
    (
        "the crossover is n",
        "the crossover does not depend on n: solve 4 N^2 b = 4 N d b for N.",
        lambda n, d: (n / d + 1, n),
    ),
)


def _reduction_cases(rng: Generator) -> list[Case]:
    drawn = []  # n / d ends in .6 or so: n // d and round(n / d) must show, and differ
    for d in rng.choice([16, 32, 64, 80, 96, 112, 256], 3, replace=False):
        n = int(rng.integers(2, 60)) * int(d) + int(rng.integers(9 * d // 16, 3 * d // 4))
        drawn.append(Case(f"N = {n}, d = {d}", (n, int(d))))
    return [Case("N = 8192, d = 128", (8192, 128)), *drawn]


REDUCTION = Exercise(
    id="2.2",
    function="reduction_and_crossover",
    signature="(n, d)",
    title="How many times fewer bytes, and from which N on",
    minutes=6,
    points=2,
    hints=(
        "Write both sums for one head, with the bytes per element b in every term. Where does b "
        "go when you divide?",
        "Naive is 4 N^2 b + 4 N d b, the least is 4 N d b. The factor is a fraction in which most "
        "things cancel. For the crossover set the two terms of naive equal.",
        "4 N^2 b = 4 N d b: divide both sides by 4 N b. The factor is 1 + what is left of "
        "4 N^2 b / (4 N d b).",
    ),
    cases=_reduction_cases,
    truth=_reduction,
    judge=within(1e-6),
    notice="65x at N = 8192 and d = 128, and 2x at the crossover N = d. You will find N > 2d and "
    "75x in public lessons; the formula next to them gives yours.",
    mistakes=tuple(Mistake(*mistake) for mistake in _REDUCTION_MISTAKES),
)

# --- 2.3 ----------------------------------------------------------------------------------------

Call = tuple[str, float, float, int, GPU]  # what it is, flops, bytes, launches, gpu
REGIMES = ("overhead", "traffic", "arithmetic")
_H100 = gpu("H100")


def _seconds(flops: float, n_bytes: float, launches: int, on: GPU) -> list[float]:
    """Return the least seconds for launches, traffic and arithmetic, in the order of REGIMES."""
    return list(traffic.time_bounds(flops, n_bytes, launches, on).values())


def _largest(seconds: list[float]) -> str:
    return REGIMES[seconds.index(max(seconds))]


def _attention(kind: str, n: int, on: GPU) -> Call:
    """Return one call of naive (as eager runs it) or flash attention, H = 8, d = 128, bf16."""
    name, model, launches = {
        "naive": ("naive (4 kernels, 6 trips)", traffic.eager_six_trips, 4),
        "flash": ("flash (1 kernel, least bytes)", traffic.flash_compulsory, 1),
    }[kind]
    n_bytes = model.bytes(n=n, d=128, heads=8)
    flops = traffic.attention_flops(n, n, 128, heads=8)
    return (f"{name}, N = {n}, H = 8, d = 128, {on.name}", flops, n_bytes, launches, on)


def _drawn_call(rng: Generator, winner: str) -> Call:
    """Return a call whose largest time, ``winner``'s, is 1.7 to 20 times the two others."""
    on = gpu(str(rng.choice(["T4", "L4", "A100", "H100", "H200", "B200"])))
    launches = int(rng.integers(1, 9))
    time = dict.fromkeys(REGIMES, launches * LAUNCH_S)
    for name in REGIMES:
        share = float(rng.uniform(0.05, 0.6))
        if winner == "overhead":
            time[name] *= 1 if name == winner else share
        elif name == winner:
            time[name] /= share
        elif name != "overhead":
            time[name] *= share
    flops = time["arithmetic"] * on.tflops_half * 1e12
    n_bytes = time["traffic"] * on.hbm_gb_per_s * 1e9
    what = f"{flops / 1e9:.3g} GFLOP, {n_bytes / 1e6:.3g} MB, {launches} launches, {on.name}"
    return what, flops, n_bytes, launches, on


def _many_launches(rng: Generator) -> Call:
    launches = int(rng.integers(300, 1500))
    n_bytes = launches * LAUNCH_S * 0.2 * _H100.hbm_gb_per_s * 1e9
    what = f"{launches} small kernels that move {n_bytes / 1e6:.3g} MB in all, H100"
    # so few FLOPs that slips in the units give three different words
    return what, n_bytes / 10, n_bytes, launches, _H100


def _near_the_ridge(rng: Generator) -> Call:
    """Return a call 3 % below the ridge of an A100: 2**30 bytes a GB put it above."""
    on = gpu("A100")
    return _between_ridges(rng, on.name, 0.97 * on.ridge)


def _between_ridges(rng: Generator, name: str, intensity: float) -> Call:
    """Return a call with this intensity (FLOP per byte). An H100's ridge is at 295: L4 and T4 are
    asked on the other side of theirs."""
    n_bytes = float(rng.uniform(2e8, 8e8))
    what = f"{n_bytes / 1e6:.3g} MB at {intensity:g} FLOP per byte, 1 launch, {name}"
    return what, intensity * n_bytes, n_bytes, 1, gpu(name)


def _regime_cases(rng: Generator) -> list[Case]:
    calls = [
        _attention("naive", 8192, _H100),
        _attention("flash", 8192, _H100),
        _attention("naive", 128, _H100),
        _attention("flash", 128, _H100),
        _many_launches(rng),
        _between_ridges(rng, "L4", 340),
        _between_ridges(rng, "T4", 250),
        _near_the_ridge(rng),
        *[_drawn_call(rng, winner) for winner in REGIMES],
    ]
    return [Case("", (calls,))]


def _run_regimes(function: Callable[..., Any], case: Case) -> Observed:
    (calls,) = case.args
    try:
        inspect.signature(function).bind(*calls[0][1:])
    except TypeError as error:
        return Observed(error)
    return Observed(tuple(function(*call[1:]) for call in calls))


def _judge_regimes(case: Case, observed: Observed, expected: Any) -> Finding | None:
    if isinstance(observed.result, TypeError):
        says = f"regime is called as regime(flops, n_bytes, launches, gpu): {observed.result}."
        return Finding("the signature", says)
    for (what, *_), got, wanted in zip(case.args[0], observed.result, expected, strict=True):
        if fault := find_fault(got, wanted, f"the answer for {what}"):
            return fault
        if not isinstance(got, str) or got not in REGIMES:
            words = ", ".join(map(repr, REGIMES))
            return Finding("the form", f"return one of {words}; {got!r} is none of them.")
        if got != wanted:
            return Finding("the regime", f"{what}: yours says {got!r}, and that is not it.")
    return None


def _answers(rule: Callable[..., str]) -> Callable[[list[Call]], tuple[str, ...]]:
    return lambda calls: tuple(rule(*call[1:]) for call in calls)


def _by_seconds(change: Callable[..., list[float]]) -> Callable[..., str]:
    """Return the rule that takes the largest of three times, after somebody changed them."""
    return lambda flops, n_bytes, launches, on: _largest(change(flops, n_bytes, launches, on))


def _two_of_three(flops: float, n_bytes: float, launches: int, on: GPU) -> str:
    """Return what an if-chain says that compares neighbours only."""
    overhead, moving, computing = _seconds(flops, n_bytes, launches, on)
    if overhead > moving:
        return "overhead"
    return "traffic" if moving > computing else "arithmetic"


def _above_the_least(flops: float, n_bytes: float, launches: int, on: GPU) -> str:
    """Return what somebody says for whom overhead wins against the smaller of the others."""
    overhead, *others = _seconds(flops, n_bytes, launches, on)
    return "overhead" if overhead > min(others) else _largest([0.0, *others])


def _upside_down(flops: float, n_bytes: float, launches: int, on: GPU) -> str:
    overhead, moving, computing = _seconds(flops, n_bytes, launches, on)
    return _largest([overhead, computing, moving])


_REGIME_MISTAKES: tuple[tuple[str, str, Callable[..., str]], ...] = (
    (
        "overhead is missing",
        "only bytes and FLOPs are compared. At N = 128 both take about a microsecond or less, "
        "while each launch costs 5: launches are the third time.",
        _by_seconds(lambda *call: [0.0, *_seconds(*call)[1:]]),
    ),
    (
        "one launch is counted, whatever there are",
        "the launch time is not multiplied by launches.",
        _by_seconds(lambda f, b, launches, on: _seconds(f, b, 1, on)),
    ),
    (
        "the gpu makes no difference",
        "the H100's figures are written into the function: take them from gpu.",
        _by_seconds(lambda f, b, launches, on: _seconds(f, b, launches, _H100)),
    ),
    (
        "the gpu makes no difference",
        "the A100's figures are written into the function: take them from gpu.",
        _by_seconds(lambda f, b, launches, on: _seconds(f, b, launches, gpu("A100"))),
    ),
    (
        "not all three are compared",
        "the largest of three is larger than both others: compare each with both.",
        _two_of_three,
    ),
    (
        "not all three are compared",
        "the largest of three is larger than both others: compare each with both.",
        _above_the_least,
    ),
    (
        "TFLOP/s are taken for GFLOP/s",
        "a TFLOP is 1e12 FLOPs, not 1e9.",
        _by_seconds(lambda *call: [*_seconds(*call)[:2], 1000 * _seconds(*call)[2]]),
    ),
    (
        "GiB instead of GB",
        "hbm_gb_per_s counts 1e9 bytes; 2**30 bytes are a GiB.",
        _by_seconds(lambda f, b, launches, on: _seconds(f, b * 1e9 / 2**30, launches, on)),
    ),
    (
        "the smallest time is taken",
        "what takes longest is the limit: max, not min.",
        lambda *call: REGIMES[_seconds(*call).index(min(_seconds(*call)))],
    ),
    (
        "traffic and arithmetic are exchanged",
        "few FLOPs per byte means that traffic is the limit.",
        _upside_down,
    ),
    (
        "the units do not match",
        "hbm_gb_per_s counts 1e9 bytes and tflops_half counts 1e12 FLOPs: bring all three times "
        "to seconds before you compare them.",
        _by_seconds(
            lambda f, b, n, on: [n * LAUNCH_S, b / on.hbm_gb_per_s, f / on.tflops_half],
        ),
    ),
    (
        "the launch time is in microseconds",
        "5e-6 seconds, not 5: bring all three times to seconds.",
        _by_seconds(lambda *call: [_seconds(*call)[0] * 1e6, *_seconds(*call)[1:]]),
    ),
)

REGIME = Exercise(
    id="2.3",
    function="regime",
    signature="(flops, n_bytes, launches, gpu)",
    title="Overhead, traffic or arithmetic?",
    minutes=10,
    points=4,
    hints=(
        "Three things take time: launching, moving, computing. Ask of each how many seconds it "
        "needs if nothing else were in the way.",
        "launches * 5e-6, n_bytes / (gigabytes per second * 1e9), flops / (teraflops * 1e12): all "
        "three in seconds.",
        "Put the three in a dict, seconds under their names. max(times, key=times.get) is the "
        "name of the largest.",
    ),
    cases=_regime_cases,
    truth=_answers(_by_seconds(_seconds)),
    judge=_judge_regimes,
    run=_run_regimes,
    notice="Naive and flash have the same FLOPs: flash saves bytes, no arithmetic. At N = 8192 "
    "that moves it from traffic to arithmetic, and from there on fewer bytes buy nothing. At "
    "N = 128 both are overhead: bytes do not matter at all.",
    mistakes=tuple(Mistake(name, says, _answers(rule)) for name, says, rule in _REGIME_MISTAKES),
)

# --- 2.4 ----------------------------------------------------------------------------------------

_HOLDS, _FAILS = "holds", "does not hold"
_SHAPE: dict[str, Any] = {"n": 8192, "d": 128, "b": 2}
_TRIPS = 4 * 32 * 8192**2 * 2  # bytes of the four trips, 32 heads
_AUDIT = {
    "scores_gb": (_TRIPS / 1e9, _FAILS),
    "flash_gb": (traffic.flash_compulsory.bytes(heads=32, **_SHAPE) / 1e9, _HOLDS),
    "factor": (traffic.reduction_factor(8192, 128), _FAILS),
    "flop_per_byte": (
        traffic.intensity(
            traffic.attention_flops(8192, 8192, 128), traffic.flash_compulsory.bytes(**_SHAPE)
        ),
        _FAILS,
    ),
}


def _judge_audit(case: Case, observed: Observed, expected: Any) -> Finding | None:
    got = observed.result
    if fault := find_fault(got, expected):
        return fault
    if not isinstance(got, dict) or any(name not in got for name in expected):
        return Finding("the form", f"return a dict with the keys {', '.join(expected)}.")
    for name, (number, verdict) in expected.items():
        entry = got[name]
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            return Finding("the form", f"{name!r} should be a pair: your number, your verdict.")
        if not isinstance(entry[1], str) or entry[1] not in (_HOLDS, _FAILS):
            return Finding(
                "the form", f"the verdict of {name!r} should be {_HOLDS!r} or {_FAILS!r}."
            )
        if finding := within(0.01)(case, Observed(entry[0]), number):
            return Finding("the number", finding.says.replace("the answer", repr(name)))
        if entry[1] != verdict:
            says = f"the number of {name!r} is right, the verdict is not: round it as the card does"
            return Finding("the verdict", f"{says}, then compare.")
    return None


def _with(**changes: tuple[float, str]) -> Callable[[], dict[str, tuple[float, str]]]:
    return lambda: _AUDIT | changes


_AUDIT_MISTAKES: tuple[tuple[str, str, Callable[[], Any]], ...] = (
    (
        "the cards are copied",
        "these are the numbers on the cards. Compute them yourself, then compare.",
        _with(
            scores_gb=(17.6, _HOLDS),
            flash_gb=(0.27, _HOLDS),
            factor=(75, _HOLDS),
            flop_per_byte=(128, _HOLDS),
        ),
    ),
    (
        "every verdict is the same",
        "a card can be wrong in one number and right in another: decide each on its own.",
        lambda: {name: (number, _FAILS) for name, (number, _) in _AUDIT.items()},
    ),
    (
        "the verdict is generous",
        "the numbers are right, but they are not the card's: 17.18 does not round to 17.6.",
        lambda: {name: (number, _HOLDS) for name, (number, _) in _AUDIT.items()},
    ),
    (
        "scores_gb holds all of naive",
        "the card's first number is the four trips alone, without Q, K, V and O.",
        _with(scores_gb=(_TRIPS / 1e9 + 0.268435, _FAILS)),
    ),
    (
        "the unit is GiB",
        "GB is 10^9 bytes; 2^30 is GiB.",
        _with(
            scores_gb=(_TRIPS / 2**30, _FAILS),
            flash_gb=(0.25, _FAILS),
        ),
    ),
    (
        "the factor leaves out Q, K, V, O",
        "naive is the four trips plus Q, K, V and O.",
        _with(factor=(64, _FAILS)),
    ),
    (
        "the intensity is d",
        "4 N^2 d FLOPs over 4 N d b bytes: what cancels is d. It is N that stays.",
        _with(flop_per_byte=(128, _HOLDS)),
    ),
    (
        "the intensity is per element",
        "an element of bf16 is 2 bytes: FLOP per byte is half of FLOP per element.",
        _with(flop_per_byte=(8192, _FAILS)),
    ),
)

AUDIT_CARDS = Exercise(
    id="2.4",
    function="audit_cards",
    signature="()",
    title="Two audit cards: predict, count, decide",
    minutes=8,
    points=3,
    hints=(
        "Write the formula first, with every symbol, and put the numbers in last. GB is 1e9 bytes.",
        "Four trips move 4 * heads * N * N * 2 bytes. The least is 4 * heads * N * d * 2. The "
        "factor of the card is all of naive, trips plus the least, over the least.",
        "FLOPs of one head: 4 * N * N * d. Bytes of Q, K, V, O: 4 * N * d * 2. Divide by hand: "
        "which letter is left?",
    ),
    cases=lambda _rng: [Case("")],
    truth=lambda: _AUDIT,
    judge=_judge_audit,
    notice="Three of four numbers did not survive one line of arithmetic. The idea on both cards "
    "is right all the same: a wrong number does not make the idea wrong, nor the other way round.",
    kind="question",
    mistakes=tuple(Mistake(*mistake) for mistake in _AUDIT_MISTAKES),
)

EXERCISES = (LEAST_BYTES, REDUCTION, REGIME, AUDIT_CARDS)
