"""Exercise 9.1: the backward of two queries and two keys on paper."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from course_lib.judging.as_meant import as_meant
from course_lib.judging.finding import Finding
from course_lib.judging.judges import not_it
from course_lib.judging.spec import Case, Exercise, Mistake, Observed

SCALE = 0.5
Q, K, V, DO = (
    np.array(x, dtype=float) for x in ((2, 4), (0, math.log(3)), (6, 2), (2, 1))
)  # head_dim is 1


def _sheet(
    *, transposed: str = "vk", delta: bool = True, each: bool = False, power: int = 1,
    own: bool = False, along_keys: bool = False, of: str = "qk", forward: int = 1,
    exchanged: bool = False, axis: int = 1, delta_of: Any = None, scaled: bool = False,
    logarithm: bool = False,
) -> dict[str, list[Any]]:  # fmt: skip
    """Return what somebody writes on paper; each keyword is one thing to get wrong.

    ``power``: of the scale on the way back to ``of``, and once to the other.
    ``each``: a softmax of every tile of one key. ``own``: each weight's derivative by its own
    score alone. ``along_keys``: delta's numbers are those of the columns. ``transposed``: the
    products, dV or dK, in which P or dS is. ``forward``: the power of the scale in S.
    ``exchanged``: dQ and dK are in each other's place. ``axis`` of the softmax. ``delta_of``: (P,
    dP) -> another delta, as it is subtracted. ``scaled``: the scale is in dS already.
    ``logarithm``: dS is that of a log-softmax.
    """
    s = SCALE**forward * np.outer(Q, K)
    p = np.exp(s) / np.exp(s).sum(axis, keepdims=True)
    o = p @ V
    row = DO * o
    p = np.ones_like(p) if each else p
    dp = np.outer(DO, V)
    ds = p * (1 - p) * dp if own else p * (dp - (row if along_keys else row[:, None]) * delta)
    if delta_of:
        of_dp = delta_of(p, dp)
        row, ds = of_dp.ravel(), p * (dp - of_dp)
    ds = dp - p * dp.sum(1, keepdims=True) if logarithm else ds
    dq, dk = ds @ K, (ds.T if "k" in transposed else ds) @ Q
    dv = (p.T if "v" in transposed else p) @ DO
    scale_q, scale_k = (SCALE ** (power if x in of else 1) for x in "qk")
    ds = ds * SCALE if scaled else ds
    sheet = {"delta": row, "dv": dv, "ds": ds, "dq": scale_q * dq, "dk": scale_k * dk}
    if exchanged:
        sheet["dq"], sheet["dk"] = sheet["dk"], sheet["dq"]
    return {name: numbers.tolist() for name, numbers in sheet.items()}


_NAMES = tuple(_sheet())


def _by_name(sheet: Any) -> Any:
    """Return the five of a tuple or a list, which come in the order of the task, as a dict."""
    if isinstance(sheet, tuple | list) and len(sheet) == len(_NAMES):
        return dict(zip(_NAMES, sheet, strict=True))
    return sheet


def _judge(case: Case, observed: Observed, expected: dict[str, list[Any]]) -> Finding | None:
    sheet = _by_name(observed.result)
    if not isinstance(sheet, dict):
        says = f"return {', '.join(_NAMES[:-1])} and {_NAMES[-1]}: in this order, or as a dict."
        return Finding("the form", says)
    for name, wanted in ((name, np.asarray(numbers)) for name, numbers in expected.items()):
        try:
            got = np.asarray(sheet[name], dtype=float)
        except KeyError:
            return Finding("the form", f"{name!r} is missing.")
        except (TypeError, ValueError):
            return Finding("the form", f"{name!r} should hold numbers only.")
        if got.shape != wanted.shape:
            says = f"{name!r} has shape {got.shape}, not {wanted.shape}."
            return Finding("the form", says)
        off = np.abs(got - wanted) / np.abs(wanted)
        for at in np.argwhere(~(off <= 1e-3)):
            place = f"{name!r}[{']['.join(map(str, at))}]"
            if off[tuple(at)] <= 1e-2:
                says = f"{place} is {got[tuple(at)]:.6g}: close. Keep five digits everywhere."
                return Finding("five digits", says)
            return Finding("the answer", not_it(place, f"{got[tuple(at)]:.6g}"))
    return None


BY_HAND = Exercise.of(
    "9.1",
    cases=lambda _rng: [Case("")],
    truth=_sheet,
    judge=_judge,
    kind="question",
    compared=lambda case, sheet: as_meant(_by_name(sheet), _sheet()),
    mistakes=Mistake.table(
        ("P and dS are not transposed",
         "row i of P tells query i whom to look at; for key j its *column* is wanted: who looked "
         "at it? dV = P^T dO, dK = scale dS^T Q.",
         *(partial(_sheet, transposed=only) for only in ("", "v", "k"))),
        ("the scale is missing", "S = scale * Q K^T: the scores are multiplied by it, too.",
         *(partial(_sheet, forward=0, power=power) for power in (1, 0))),
        ("scaled twice", "S = scale * Q K^T: the scores are multiplied by it once.",
         partial(_sheet, forward=2)),
        ("dQ and dK are exchanged", "delta, dv, ds, dq, dk: in this order.",
         partial(_sheet, exchanged=True)),
        ("delta is not subtracted",
         "dS = P * (dP - delta): without delta, a row of dS does not add up to 0.",
         partial(_sheet, delta=False)),
        ("delta is taken along the keys",
         "delta is one number a query: of row i of dS the i-th is subtracted.",
         partial(_sheet, along_keys=True)),
        ("the softmax is computed anew in each tile",
         "with one key a tile, a softmax of the tile is 1: a tile does not know the sum of its "
         "rows. P = exp(S - lse).",
         partial(_sheet, each=True)),
        ("the last scale is missing",
         "S = scale * Q K^T: what reaches Q and K passes the scale once more, on its way back.",
         *(partial(_sheet, power=0, of=of) for of in ("qk", "q", "k"))),
        ("scaled twice on the way back",
         "dQ and dK are multiplied by the scale once: in dS, or at the end.",
         *(partial(_sheet, power=2, of=of) for of in ("qk", "q", "k"))),
        ("softmax over the wrong axis",
         "P's columns add up to 1 here, and its rows should: each query's weights are a row, also "
         "on the way back.",
         partial(_sheet, axis=0)),
        ("delta is summed down the columns",
         "delta is one number a query, the sum of P * dP along its row (which is dO times O): here "
         "it is one a key.",
         partial(_sheet, delta_of=lambda p, dp: (p * dp).sum(0, keepdims=True))),
        ("delta is a plain mean or sum of dP",
         "delta is the sum of P * dP along a row: each dP counts as much as its weight.",
         partial(_sheet, delta_of=lambda p, dp: dp.mean(1, keepdims=True)),
         partial(_sheet, delta_of=lambda p, dp: dp.sum(1, keepdims=True))),
        ("the gradient of a log-softmax",
         "dP - P * (the sum of dP) belongs to the logarithm of the weights. Of the weights "
         "themselves it is dS = P * (dP - delta).",
         partial(_sheet, logarithm=True)),
        ("the scale is in dS",
         "dS = P * (dP - delta) is the gradient of the scaled scores: the scale comes with dQ and "
         "dK alone.",
         partial(_sheet, scaled=True, power=0), partial(_sheet, scaled=True)),
        ("the softmax is derived number by number",
         "P * (1 - P) is the derivative of one weight by its own score; the other score of the "
         "row moves it too.",
         partial(_sheet, own=True)),
    ),
)  # fmt: skip
