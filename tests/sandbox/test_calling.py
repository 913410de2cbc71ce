"""Whether a function can be called as an exercise calls it."""

from __future__ import annotations

import inspect

import torch
from helpers import module_from

from course_lib.accounting.kernel_ledger import KernelLedger
from course_lib.judging import desk
from course_lib.sandbox import calling


def test_what_has_no_signature_is_left_to_the_call(monkeypatch):
    """`functools.partial(np.array)` has none under some releases of NumPy, and can be called."""

    def none_found(_function):
        raise ValueError("no signature found for builtin")

    monkeypatch.setattr(inspect, "signature", none_found)
    assert calling.misfit(len, [1]) is None
    assert desk.misfit(len, [1]) is None


def test_what_does_not_fit_is_said():
    assert "missing" in calling.misfit(lambda x, y: x, 1)
    assert "missing" in desk.misfit(lambda x, y: x, 1)
    assert calling.misfit(3, 1) is not None


IMPORTED = """
import triton
import triton.language as tl
from triton.language import arange, load, store

@triton.jit
def copied(x, y, B: tl.constexpr):
    store(y + arange(0, B), load(x + arange(0, B)))
"""


def test_the_call_before_arrays_are_rewritten_launches_what_runs_only_while_watched():
    """It ended in what the interpreter refuses, and what it had kept was never asked about."""
    module, found = module_from(IMPORTED), []

    def copy(x):
        y = torch.empty_like(x)
        module.copied[(1,)](x, y, B=4)
        found.append(y.tolist())
        return y

    called = calling.call(
        copy, (torch.arange(4.0),), {}, kernel=True, watched=KernelLedger(), rewritten=True
    )
    assert called.failure is None
    assert found == [[4.0, 3.0, 2.0, 1.0], [0.0, 1.0, 2.0, 3.0]]
