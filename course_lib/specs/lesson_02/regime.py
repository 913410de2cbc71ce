"""Exercise 2.3: what limits a call: launches, traffic or arithmetic."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

from numpy.random import Generator

from course_lib.accounting import traffic
from course_lib.accounting.hardware import GPU, LAUNCH_S, gpu
from course_lib.judging import sizes
from course_lib.judging.faults import find_fault
from course_lib.judging.finding import Finding
from course_lib.judging.judges import not_it
from course_lib.judging.spec import HARD, Case, Exercise, Mistake, Observed, table

Call = tuple[str, float, float, int, GPU]  # what it is, flops, bytes, launches, gpu
REGIMES = ("overhead", "traffic", "arithmetic")
_H100 = gpu("H100")


def _seconds(flops: float, n_bytes: float, launches: int, on: GPU) -> list[float]:
    """Return the least seconds for launches, traffic and arithmetic, in the order of REGIMES."""
    return list(traffic.time_bounds(flops, n_bytes, launches, on).values())


def _largest(seconds: Sequence[float]) -> str:
    return REGIMES[seconds.index(max(seconds))]


def _attention(kind: str, n: int, on: GPU) -> Call:
    """Return one call of eager or flash attention, H = 8, d = 128, bf16."""
    name, model, launches = {
        "eager": ("eager (4 kernels, 6 trips)", traffic.eager_six_trips, 4),
        "flash": ("flash (1 kernel, least bytes)", traffic.flash_compulsory, 1),
    }[kind]
    n_bytes = model.bytes(n=n, d=128, heads=8)
    flops = traffic.attention_flops(n, n, 128, heads=8)
    return (f"{name}, N = {n}, H = 8, d = 128, {on.name}", flops, n_bytes, launches, on)


def _drawn_call(rng: Generator, winner: str) -> Call:
    """Return a call whose largest time, ``winner``'s, is 1.7 to 20 times the two others."""
    shares = {name: float(rng.uniform(0.05, 0.6)) for name in REGIMES}
    return _timed_call(rng, shares | {winner: 1.0})


def _close_call(rng: Generator, winner: str, second: str, apart: float = 1e-3) -> Call:
    """Return a call whose two largest times differ by ``apart``, relative; the third is near."""
    shares = dict.fromkeys(REGIMES, float(rng.uniform(0.5, 0.9)))
    return _timed_call(rng, shares | {winner: 1.0, second: 1.0 - apart})


def _timed_call(rng: Generator, shares: dict[str, float]) -> Call:
    """Return a call whose three times are in these proportions."""
    on = gpu(str(rng.choice(["T4", "L4", "A100", "H100", "H200", "B200"])))
    launches = int(rng.integers(1, 9))
    whole = launches * LAUNCH_S / shares["overhead"]
    flops = shares["arithmetic"] * whole * on.tflops_half * 1e12
    n_bytes = shares["traffic"] * whole * on.hbm_gb_per_s * 1e9
    what = f"{flops / 1e9:.5g} GFLOP, {n_bytes / 1e6:.5g} MB, {launches} launches, {on.name}"
    return what, flops, n_bytes, launches, on


def _many_launches(rng: Generator) -> Call:
    launches = int(rng.integers(300, 1500))
    n_bytes = launches * LAUNCH_S * 0.2 * _H100.hbm_gb_per_s * 1e9
    what = f"{launches} small kernels that move {n_bytes / 1e6:.3g} MB in all, H100"
    # so few FLOPs that slips in the units give three different words
    return what, n_bytes / 10, n_bytes, launches, _H100


def _thousands_of_launches(rng: Generator) -> Call:
    """Return a call whose launches and whose bytes both take milliseconds."""
    launches = int(rng.integers(3000, 9000))
    n_bytes = launches * LAUNCH_S * 0.8 * _H100.hbm_gb_per_s * 1e9
    what = f"{launches} kernels that move {n_bytes / 1e9:.3g} GB in all, H100"
    return what, 50 * n_bytes, n_bytes, launches, _H100


def _one_large_launch(rng: Generator) -> Call:
    """Return a call of 5 microseconds for its launch, and over 5 milliseconds for its bytes."""
    n_bytes = float(rng.uniform(5e10, 7e10))
    return f"{n_bytes / 1e9:.3g} GB, 1 launch, H100", 50 * n_bytes, n_bytes, 1, _H100


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


def _one_changed(rng: Generator) -> Iterator[Call]:
    """Yield a call that traffic limits, and it with one thing changed: something else does."""
    what, flops, n_bytes, launches, on = _between_ridges(rng, "L4", 340)
    others = (100 * flops, n_bytes / 100, 10**5 * launches, _H100)
    names = ("a hundred times the FLOPs", "a hundredth of the bytes", "100000 launches", "an H100")
    yield what, flops, n_bytes, launches, on
    changed = [*sizes.one_changed((flops, n_bytes, launches, on), others)][1:]
    for name, call in zip(names, changed, strict=True):
        yield f"{what}, but {name}", *call


def _regime_cases(rng: Generator) -> list[Case]:
    calls = [
        _attention("eager", 8192, _H100),
        _attention("flash", 8192, _H100),
        _attention("eager", 128, _H100),
        _attention("flash", 128, _H100),
        _many_launches(rng),
        _between_ridges(rng, "T4", 250),
        _near_the_ridge(rng),
        *[_drawn_call(rng, winner) for winner in REGIMES],
        *[_close_call(rng, *two) for two in permutations(REGIMES, 2)],
        *[_close_call(rng, *two, apart=1e-5) for two in permutations(REGIMES, 2)],
        _timed_call(rng, {"overhead": 1.0, "traffic": 0.6, "arithmetic": 0.55}),
        _thousands_of_launches(rng),
        _one_large_launch(rng),
        *_one_changed(rng),
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
            return Finding("the regime", not_it(what, repr(got)))
    return None


def _answers(rule: Callable[..., str]) -> Callable[[list[Call]], tuple[str, ...]]:
    return lambda calls: tuple(rule(*call[1:]) for call in calls)


def _regime(*call: Any) -> str:
    return _largest(_seconds(*call))


def _of(choice: Callable[..., str]) -> Callable[..., str]:
    """Return the rule that answers with ``choice`` of the three times, in the order of REGIMES."""
    return lambda *call: choice(*_seconds(*call))


def _by_seconds(change: Callable[..., Sequence[float]]) -> Callable[..., str]:
    """Return the rule that takes the largest of three times, after somebody changed them."""
    return _of(lambda *seconds: _largest(change(*seconds)))


def _with_figures(change: Callable[..., Iterable[Any]]) -> Callable[..., str]:
    """Return the rule that takes the largest time of a call that somebody changed."""
    return lambda *call: _regime(*change(*call))


def _at_a_ridge_of(intensity: float) -> Callable[..., str]:
    """Return what somebody says who holds the intensity against this one, on any GPU."""

    def rule(flops: float, n_bytes: float, launches: int, on: GPU) -> str:
        overhead, *others = _seconds(flops, n_bytes, launches, on)
        if overhead > max(others):
            return "overhead"
        return "traffic" if flops < intensity * n_bytes else "arithmetic"

    return rule


def _kept_without(place: int) -> Callable[[list[Call]], tuple[str, ...]]:
    """Return what somebody answers who keeps answers by all arguments but the one at ``place``."""

    def answers(calls: list[Call]) -> tuple[str, ...]:
        kept: dict[tuple[Any, ...], str] = {}
        made = _answers(_regime)(calls)
        by = [call[1 : 1 + place] + call[2 + place :] for call in calls]
        return tuple(kept.setdefault(key, one) for key, one in zip(by, made, strict=True))

    return answers


# the three times are called o, t and a: of overhead, traffic and arithmetic
_REGIME_MISTAKES = table(
    ("overhead is missing",
     "only bytes and FLOPs are compared. At N = 128 both take about a microsecond or less, while "
     "each launch costs 5: launches are the third time.",
     _by_seconds(lambda o, t, a: (0.0, t, a))),
    ("one launch is counted, whatever there are", "the launch time is not multiplied by launches.",
     _with_figures(lambda f, b, launches, on: (f, b, 1, on))),
    ("the gpu makes no difference",
     "every call is answered with the H100's figures: take them from gpu, in each call anew.",
     *(_with_figures(lambda f, b, n, on, told=told: (f, b, n, told))
       for told in (replace(_H100, tflops_half=x) for x in (989, 989.4, 989.5, 990, 1000)))),
    ("the gpu makes no difference",
     "every call is answered with the A100's figures: take them from gpu, in each call anew.",
     _with_figures(lambda f, b, n, on: (f, b, n, gpu("A100")))),
    ("the gpu makes no difference",
     "295 FLOPs per byte is the ridge of the H100: every GPU has another one.",
     _at_a_ridge_of(_H100.ridge), _at_a_ridge_of(295.0)),
    ("not all three are compared",
     "the largest of three is larger than both others: compare each with both.",
     # neighbours alone are compared; then overhead with traffic alone, then with the smaller; then
     # the third is forgotten once overhead is not the largest
     _of(lambda o, t, a: "overhead" if o > t else "traffic" if t > a else "arithmetic"),
     _of(lambda o, t, a: "arithmetic" if a > t else "overhead" if o > t else "traffic"),
     _of(lambda o, t, a: "overhead" if o > min(t, a) else _largest((0.0, t, a))),
     _of(lambda o, t, a: "overhead" if o > max(t, a) else "traffic" if t > o else "arithmetic")),
    ("two times are added up",
     "each time is taken as if the other two cost nothing: compare it with each, not with a sum of "
     "two.",
     _of(lambda o, t, a: "overhead" if o > t + a else _largest((0.0, t, a))),
     _by_seconds(lambda o, t, a: (o, t + o, a)),
     _by_seconds(lambda o, t, a: (o, t, a + o)),
     _by_seconds(lambda o, t, a: (o, t + o, a + o))),
    ("overhead counts only if it is clearly the largest",
     "the largest of three is larger than both others, by however little: no margin.",
     *(_by_seconds(lambda o, t, a, by=by: (o / by, t, a))
       for by in (1.05, 1.1, 1.2, 1.25, 1.5, 2, 10))),
    ("the times are rounded",
     "two times that lie close together become equal: compare them as they are.",
     _by_seconds(lambda *seconds: [round(1e6 * x) for x in seconds])),
    ("whole division",
     "// drops what is left over, and a time of less than a second becomes 0: use /.",
     _by_seconds(lambda o, t, a: (o, t // 1, a)),
     _by_seconds(lambda o, t, a: (o, t, a // 1))),
    ("TFLOP/s are taken for GFLOP/s", "a TFLOP is 1e12 FLOPs, not 1e9.",
     _by_seconds(lambda o, t, a: (o, t, 1000 * a))),
    ("GiB instead of GB", "hbm_gb_per_s counts 1e9 bytes; 2**30 bytes are a GiB.",
     _with_figures(lambda f, b, n, on: (f, b * 1e9 / 2**30, n, on))),
    ("TiB instead of TB", "tflops_half counts 1e12 FLOPs, not 2**40.",
     _with_figures(lambda f, b, n, on: (f * 1e12 / 2**40, b, n, on)),
     _with_figures(lambda f, b, n, on: (f * 1e12 / 2**40, b * 1e9 / 2**30, n, on))),
    ("the smallest time is taken", "what takes longest is the limit: max, not min.",
     _of(lambda *seconds: REGIMES[seconds.index(min(seconds))])),
    ("traffic and arithmetic are exchanged", "few FLOPs per byte means that traffic is the limit.",
     _by_seconds(lambda o, t, a: (o, a, t))),
    ("the units do not match",
     "hbm_gb_per_s counts 1e9 bytes and tflops_half counts 1e12 FLOPs: bring all three times to "
     "seconds before you compare them.",
     lambda f, b, n, on: _largest((n * LAUNCH_S, b / on.hbm_gb_per_s, f / on.tflops_half))),
    ("the launch time is in microseconds",
     "5e-6 seconds, not 5: bring all three times to seconds. Or does // make 0 of the other two?",
     _by_seconds(lambda o, t, a: (o * 1e6, t, a))),
    ("the launch time is in milliseconds",
     "5e-6 seconds, not 5e-3: bring all three times to seconds.",
     _by_seconds(lambda o, t, a: (o * 1e3, t, a))),
)  # fmt: skip

REGIME = Exercise.of(
    "2.3",
    cases=_regime_cases,
    truth=_answers(_regime),
    judge=_judge_regimes,
    run=_run_regimes,
    spared=dict.fromkeys(HARD, "counts bytes and operations"),
    mistakes=(
        *(Mistake(name, says, _answers(rule)) for name, says, rule in _REGIME_MISTAKES),
        *Mistake.table(
            ("an answer is kept for another call",
             "a call that differs in one argument gets the answer of the call before: all four "
             "decide, and nothing need be kept.",
             *map(_kept_without, range(4))),
        ),
    ),
)  # fmt: skip
