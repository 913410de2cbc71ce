"""There and back: what comes later comes after a first answer, and the answer is what it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from course_lib.judging import engine
from course_lib.judging.both_ways import there_and_back
from course_lib.judging.finding import Finding
from course_lib.judging.hosts.here import Here
from course_lib.judging.report import Report, Verdict
from course_lib.judging.spec import Case, Exercise, Observed

HELD: list[int] = []  # bytes that were held when forward had returned


def judge(case, observed, expected) -> Finding | None:
    HELD.append(observed.allocated)
    for got, wanted, name in zip(observed.result, expected, ("o", "the gradient"), strict=True):
        if got is None or not torch.allclose(got, wanted):
            return Finding("the values", f"{name} is wrong.")
    return None


SQUARE = Exercise(
    id="0.9",
    function="Square",
    signature="(x)",
    title="Square",
    minutes=1,
    points=1,
    hints=("a", "b", "c"),
    cases=lambda rng: [Case("five numbers", tuple(torch.from_numpy(rng.random((2, 5)))))],
    truth=lambda x, dy: (x * x, 2 * x * dy),
    judge=judge,
    kind="torch",
    notice="2x.",
    run=there_and_back,
    later=1,
    seconds=5.0,
)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, dy):
        return 2 * ctx.saved_tensors[0] * dy


def report_on(thing: object, exercise: Exercise = SQUARE) -> Report:
    return engine.first_failure(
        exercise, Here(exercise, thing), exercise.cases(np.random.default_rng(1))
    )


def with_backward(backward) -> type:
    return type("Square", (Square,), {"backward": staticmethod(backward)})


def test_a_function_is_judged_there_and_back():
    assert report_on(Square).passed
    wrong = report_on(with_backward(lambda ctx, dy: ctx.saved_tensors[0] * dy))
    assert "The gradient is wrong" in wrong.text()


def test_what_comes_later_is_sent_when_the_first_answer_is_known():
    happened = []

    def run(function, case):
        assert len(case.args) == 1
        happened.append("answered")
        (dy,) = yield function.apply(*case.args)
        happened.append("was sent")
        return Observed((2 * case.args[0] * dy,))

    assert report_on(Square, replace(SQUARE, run=run)).passed
    in_arrays_with_other_numbers = ["answered"]  # `asked_again`: the answer to these is not judged
    there_and_back_again = ["answered", "was sent"]
    assert happened == there_and_back_again + in_arrays_with_other_numbers + there_and_back_again


def test_an_answer_is_what_it_was_when_the_gradient_was_not_known():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.o = torch.zeros_like(x)
            return ctx.o.detach()

        @staticmethod
        def backward(ctx, dy):
            (x,) = ctx.saved_tensors
            ctx.o.copy_(x * x)  # too late
            return 2 * x * dy

    assert "o is another after backward" in report_on(Square).text()


class Hoarder(Square):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.kept = [[torch.zeros(1000, dtype=torch.float64)]]
        torch.zeros(5000)  # gone at once
        return x * x


def test_what_is_still_held_when_forward_has_returned_is_counted():
    HELD.clear()
    assert report_on(Hoarder).passed
    lists = HELD[0] - 8040  # they have room of their own
    assert 0 < lists < 500
    HELD.clear()
    assert report_on(Square).passed
    assert HELD[0] == 40


def test_a_gradient_that_is_changed_in_place_is_found():
    def backward(ctx, dy):
        dy *= 2
        return ctx.saved_tensors[0] * dy

    assert report_on(with_backward(backward)).failed_property == "leaves its inputs alone"


@pytest.mark.parametrize(
    ("backward", "says"),
    [
        (lambda ctx, dy: (dy, dy), "number of gradients"),
        (lambda ctx, dy: dy[:2], "invalid gradient"),
        (lambda ctx, dy: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_what_pytorch_cannot_use_is_the_student_s_error(backward, says):
    report = report_on(with_backward(backward))
    assert report.verdict is Verdict.ERROR
    assert says in report.text()


def test_no_gradient_at_all_and_no_class_are_findings():
    assert report_on(with_backward(lambda ctx, dy: None)).verdict is Verdict.INCORRECT
    assert report_on(lambda x: x * x).verdict is Verdict.INCORRECT


KEPT: list[np.ndarray] = []


class InAGlobal(Square):
    """Keeps numbers of NumPy's where ctx does not lead to."""

    @staticmethod
    def forward(ctx, x):
        KEPT.append(np.ones(1000))
        return Square.forward(ctx, x)


class OnItself(Square):
    @staticmethod
    def forward(ctx, x):
        OnItself.kept = np.ones(1000)
        return Square.forward(ctx, x)


@pytest.mark.parametrize("hoarder", [InAGlobal, OnItself])
def test_what_is_kept_beside_ctx_is_counted(hoarder):
    HELD.clear()
    assert report_on(hoarder).passed
    assert HELD[0] >= 8040
