"""Exercise 2.4: the numbers on four cards."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from course_lib.accounting import traffic
from course_lib.judging.faults import find_fault
from course_lib.judging.finding import Finding
from course_lib.judging.judges import compare, not_it
from course_lib.judging.spec import Case, Exercise, Mistake, Observed
from course_lib.judging.tolerance import in_digits

_HOLDS, _FAILS = "holds", "does not hold"
_TO_THREE_DIGITS = "give at least three digits, not counting zeros in front; round only at the end."
_flash_bytes = partial(traffic.flash_compulsory.bytes, n=8192, d=128, b=2)
_TRIPS = 4 * 32 * 8192**2 * 2  # bytes of the four trips, 32 heads
_AUDIT = {
    "scores_gb": (_TRIPS / 1e9, _FAILS),
    "flash_gb": (_flash_bytes(heads=32) / 1e9, _HOLDS),
    "factor": (traffic.reduction_factor(8192, 128), _FAILS),
    "flop_per_byte": (
        traffic.intensity(traffic.attention_flops(8192, 8192, 128), _flash_bytes()),
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
        if finding := compare(entry[0], number, repr(name), in_digits(number, 3)):
            if compare(entry[0], number, repr(name), 0.01):
                return Finding("the number", finding.says)
            says = not_it(repr(name), f"{float(entry[0]):.6g}", "that is close.")
            return Finding("the number", says, look=_TO_THREE_DIGITS)
        if entry[1] != verdict:
            says = f"the number of {name!r} is right, the verdict is not: round it as the card does"
            return Finding("the verdict", f"{says}, then compare.")
    return None


def _with(**changes: tuple[float, str]) -> Callable[[], dict[str, tuple[float, str]]]:
    return lambda: _AUDIT | changes


_AUDIT_MISTAKES = Mistake.table(
    ("the cards are copied",
     "these are the numbers on the cards. Compute them yourself, then compare.",
     _with(scores_gb=(17.6, _HOLDS), flash_gb=(0.27, _HOLDS), factor=(75, _HOLDS),
           flop_per_byte=(128, _HOLDS))),
    ("every verdict is the same",
     "a card can be wrong in one number and right in another: decide each on its own.",
     lambda: {name: (number, _FAILS) for name, (number, _) in _AUDIT.items()}),
    ("the verdict is generous",
     "the numbers are right, but they are not the card's: 17.18 does not round to 17.6.",
     lambda: {name: (number, _HOLDS) for name, (number, _) in _AUDIT.items()}),
    ("scores_gb holds all of naive",
     "the card's first number is the four trips alone, without Q, K, V and O.",
     _with(scores_gb=(_TRIPS / 1e9 + 0.268435, _FAILS))),
    ("the unit is GiB", "GB is 10^9 bytes; 2^30 is GiB.",
     _with(scores_gb=(_TRIPS / 2**30, _FAILS), flash_gb=(0.25, _FAILS))),
    ("one head instead of 32", "the card's bytes are those of all 32 heads.",
     *(_with(**{name: (_AUDIT[name][0] / 32, _FAILS) for name in names})
       for names in (["scores_gb"], ["flash_gb"], ["scores_gb", "flash_gb"]))),
    ("the FLOPs of 32 heads over the bytes of one",
     "every head has FLOPs and bytes of its own: the intensity is the same for one and for 32.",
     _with(flop_per_byte=(_AUDIT["flop_per_byte"][0] * 32, _FAILS))),
    ("one head meets 32",
     "the bytes or FLOPs of one head are set against those of all 32: take both of one, or both "
     "of all.",
     *(_with(factor=(factor, _FAILS))
       for factor in (65 * 32, 65 / 32, 64 * 32 + 1, 64 / 32 + 1, 64 * 32))),
    ("the factor leaves out Q, K, V, O", "naive is the four trips plus Q, K, V and O.",
     _with(factor=(64, _FAILS))),
    ("the intensity is d",
     "4 N^2 d FLOPs over 4 N d b bytes: what cancels is d. It is N that stays. Or are the FLOPs "
     "of one head divided by the bytes of 32?",
     _with(flop_per_byte=(128, _HOLDS))),
    ("one of the two products",
     "Q K^T alone is 2 N^2 d FLOPs, or a multiplication and an addition are counted as one: both "
     "products, with 2 FLOPs a number, make 4 N^2 d.",
     _with(flop_per_byte=(_AUDIT["flop_per_byte"][0] / 2, _FAILS))),
    ("the intensity is per element",
     "an element of bf16 is 2 bytes: FLOP per byte is half of FLOP per element.",
     _with(flop_per_byte=(8192, _FAILS))),
)  # fmt: skip

AUDIT_CARDS = Exercise.of(
    "2.4",
    cases=lambda _rng: [Case("")],
    truth=lambda: _AUDIT,
    judge=_judge_audit,
    kind="question",
    mistakes=_AUDIT_MISTAKES,
)
