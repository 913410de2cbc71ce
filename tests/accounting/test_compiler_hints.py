"""Hints to the compiler are held to what they are about, as Triton's compiler reads them."""

import pytest

import course_lib  # noqa: F401  (before triton: it chooses the mode)

triton = pytest.importorskip("triton")
torch = pytest.importorskip("torch")

import triton.language as tl  # noqa: E402

from course_lib.accounting.kernel_ledger import KernelLedger  # noqa: E402


@triton.jit
def hinted(x, n, HINT: tl.constexpr, BY: tl.constexpr):
    at = tl.arange(0, 8) * n
    if HINT == "follow":
        at = tl.max_contiguous(at, BY)
    if HINT == "wraps":
        at = tl.max_contiguous(tl.multiple_of(tl.arange(0, 8) % n, BY), BY)
    if HINT == "equal":
        at = tl.max_constancy(at, BY)
    if HINT == "multiple":
        at = tl.multiple_of(at, BY)
    if HINT == "scalar":
        n = tl.multiple_of(n, BY)
    if HINT == "assume":
        tl.assume(n == BY)
    tl.store(x + at, 1.0)


def launch(n, hint, by):
    with KernelLedger():
        hinted[(1,)](torch.zeros(64), n, HINT=hint, BY=by)


@pytest.mark.parametrize(
    ("n", "hint", "by"),
    [
        (1, "follow", 8),
        (1, "follow", 16),
        (2, "follow", 1),
        (5, "wraps", 8),
        (1, "equal", 1),
        (1, "multiple", 8),
        (4, "multiple", 4),
        (4, "scalar", 4),
        (3, "assume", 3),
    ],
)
def test_a_true_hint_changes_nothing(n, hint, by):
    launch(n, hint, by)


@pytest.mark.parametrize(
    ("n", "hint", "by"),
    [
        (2, "follow", 2),
        (0, "follow", 2),
        (1, "equal", 2),
        (2, "multiple", 4),
        (3, "scalar", 2),
        (3, "assume", 4),
    ],
)
def test_a_false_hint_is_told(n, hint, by):
    with pytest.raises(Exception, match="promise to the compiler, and here it is not kept"):
        launch(n, hint, by)
