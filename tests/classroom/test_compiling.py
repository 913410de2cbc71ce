"""Kernels that pass are compiled for a GPU: once each, in time, or a person looks."""

from __future__ import annotations

import contextlib
import os
import signal
from functools import partial

import pytest
import torch
from helpers import code

from course_lib.classroom import compiling
from course_lib.classroom.compiling import Compiler, signature
from course_lib.classroom.examine import draw_cases, examine, is_unclear
from course_lib.judging.report import Verdict
from course_lib.sandbox.limit import Clock
from course_lib.sandbox.workshop import InfrastructureError
from course_lib.specs import EXERCISES, find


def examined_compiled(workshop, name, program):
    exercise = find(name)
    cases = [case for case in draw_cases(exercise, b"secret", "x") if case.compiled]
    return examine(workshop, exercise, program, cases, b"secret")


def test_a_kernel_that_does_not_compile_is_right_here_and_not_on_a_gpu(workshop):
    old = 'm = tl.full((BLOCK_Q,), float("-inf"), tl.float32)'
    source = code(7)
    assert old in source
    result = examined_compiled(workshop, "7.2", source.replace(old, 'm = float("-inf")'))
    assert result.report.passed, result.report.text()
    fine = examined_compiled(workshop, "7.2", source)
    with Compiler(workshop) as compiler:
        report = compiler.report(find("7.2"), result.launches)
        assert compiler.report(find("7.2"), fine.launches) is None
    assert report.verdict is Verdict.NOT_ON_A_GPU
    assert "loop_kernel" in report.text()


def test_a_kernel_that_nobody_compiled_in_time_is_for_a_person(workshop, monkeypatch):
    result = examined_compiled(workshop, "7.1", code(7))
    monkeypatch.setattr(compiling, "SECONDS", 0.01)
    with Compiler(workshop) as compiler:
        report = compiler.report(find("7.1"), result.launches)
    assert is_unclear(report)
    assert "not found out within" in report.text()


ASSEMBLED_FOR_LONG = """
@triton.jit
def kernel(x, n):
    if n == -12345:
        z = tl.load(x + tl.arange(0, 16384))
        for _ in tl.static_range(20):
            z = z * z + tl.exp(z)
        tl.store(x + tl.arange(0, 16384), z)
"""


def test_the_assembler_is_a_process_of_its_own_and_on_the_same_clock(workshop, monkeypatch):
    """Also once it was killed: a second kernel has what the first one left, nothing here."""
    launch = {"source": ASSEMBLED_FOR_LONG, "name": "kernel", "grid": [1], "options": {}}
    launch["args"] = {"x": torch.zeros(64), "n": 63}
    monkeypatch.setattr(compiling, "SECONDS", 2.0)
    monkeypatch.setattr(compiling, "Clock", partial(Clock, wall=100.0))
    with Compiler(workshop) as compiler:
        assert is_unclear(compiler.report(find("5.2"), [launch]))
        assert compiler._children[-1].usage["cpu_seconds"] >= 2.0
        assert is_unclear(compiler.report(find("5.2"), [launch | {"source": compiling._CERTAIN}]))


def test_what_is_compiled_to_too_much_is_told_in_a_sentence(workshop, monkeypatch):
    """A loop that is unrolled a million times is 64 MiB of text; here that is 4 KiB."""
    launches = examined_compiled(workshop, "5.2", code(5)).launches
    monkeypatch.setattr(workshop, "compiler", partial(workshop.compiler, file_bytes=4096))
    with Compiler(workshop) as compiler:
        report = compiler.report(find("5.2"), launches)
    assert report.verdict is Verdict.NOT_ON_A_GPU
    assert "too large to be written: unroll fewer turns" in report.text()
    assert "OSError" not in report.text()


def test_one_kernel_is_compiled_once_for_all_its_launches(workshop, monkeypatch):
    assembled, ask = [], Compiler._compiled
    noted = lambda self, one: assembled.append(one["assembled"]) or ask(self, one)  # noqa: E731
    monkeypatch.setattr(Compiler, "_compiled", noted)
    launch, *_ = examined_compiled(workshop, "5.2", code(5)).launches
    with Compiler(workshop) as compiler:
        for _ in range(2):
            assert compiler.report(find("5.2"), [launch]) is None
        assert assembled == [True, False], "the second time it is only compared"
        three = {**launch, "options": {"num_warps": 3}}
        assert compiler.report(find("5.2"), [three]).verdict is Verdict.NOT_ON_A_GPU
        assert assembled == [True, False, True]


def test_what_a_compilation_depends_on_tells_launches_apart():
    source = "@triton.jit\ndef k(x, n, m, BLOCK: tl.constexpr):\n    pass\n"
    numbers = torch.zeros(64)
    args = {"x": numbers, "n": 33, "m": 0.5, "BLOCK": 64}
    launch = {"source": source, "name": "k", "grid": [1], "options": {}, "args": args}

    def same(**other):
        return signature({**launch, "args": args | other}) == signature(launch)

    assert same(x=torch.ones(8))
    assert same(x=numbers[4:])
    assert same(n=35, m=1.5)
    for other in (
        {"x": numbers.half()},
        {"x": numbers[1:]},
        {"n": 1},
        {"n": 32},
        {"n": 1 << 40},
        {"n": True},
        {"n": None},
        {"m": 1},
        {"BLOCK": 128},
    ):
        assert not same(**other), other
    assert signature({**launch, "options": {"num_warps": 8}}) != signature(launch)


@pytest.mark.parametrize("dies", [1, 2, 3])
def test_a_compiler_that_dies_twice_is_the_kernels_fault_if_another_kernel_compiles(
    workshop, monkeypatch, dies
):
    launches = examined_compiled(workshop, "5.2", code(5)).launches
    start, asked = workshop.compiler, []

    @contextlib.contextmanager
    def compiler_(**limits):
        asked.append(limits)
        with start(**limits) as child:
            if len(asked) <= dies:
                os.kill(child.pid, signal.SIGKILL)
            yield child

    monkeypatch.setattr(workshop, "compiler", compiler_)
    with Compiler(workshop) as compiler:
        if dies == 1:
            assert compiler.report(find("5.2"), launches) is None
        elif dies == 2:
            report = compiler.report(find("5.2"), launches)
            assert report.verdict is Verdict.NOT_ON_A_GPU
            assert "ends the compiler" in report.text()
        else:
            with pytest.raises(InfrastructureError, match="ends the compiler"):
                compiler.report(find("5.2"), launches)


def test_every_kernel_exercise_has_a_case_to_compile():
    kernels = [exercise for exercise in EXERCISES if exercise.kind == "kernel"]
    assert kernels
    for exercise in kernels:
        assert any(case.compiled for case in draw_cases(exercise, b"secret", "x")), exercise.id
