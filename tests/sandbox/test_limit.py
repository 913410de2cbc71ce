"""What is limited is CPU time: who waits for a busy machine is in time, who sleeps is not."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from course_lib.sandbox import limit
from course_lib.sandbox.channel import Channel, TooLate
from course_lib.sandbox.limit import Clock, TookTooLong, at_most, cpu_seconds, memory_at_most


def compute(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_a_clock_stands_still_while_nobody_computes_but_not_for_ever():
    clock = Clock(0.1, used=lambda: 7.0, wall=4.0)
    time.sleep(0.2)
    assert clock.left() > 0
    time.sleep(0.3)
    assert clock.left() <= 0


def test_a_clock_says_how_long_nobody_need_look():
    used = itertools.count()
    clock = Clock(2.5, used=lambda: float(next(used)))
    assert clock.left() == pytest.approx(1.5)
    assert clock.left() == pytest.approx(0.5)
    assert clock.left() < 0


def test_the_time_of_another_process_is_known_while_it_runs_and_when_it_has_ended():
    code = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as child:
        child.stdout.readline()
        assert 0.3 <= cpu_seconds(child.pid) < 2
    assert cpu_seconds(child.pid) == 0.0


FAMILY = r"""
import subprocess, sys
compute = "import time\nwhile time.process_time() < {}: pass\n"
subprocess.run([sys.executable, "-c", compute.format(0.3)])
subprocess.run([sys.executable, "-c", compute.format(0.4) + "print(flush=True); input()"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process started")
def test_what_a_process_started_counts_while_it_runs_and_when_it_has_ended():
    """An assembler is a process of its own: 0.3 seconds of one that ended, 0.4 of one that runs."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", FAMILY], **pipes) as child:
        child.stdout.readline()
        own = time.clock_gettime(~child.pid << 3 | 2)
        assert 0.65 <= cpu_seconds(child.pid) - own < 4


@pytest.mark.parametrize("in_a_thread", [False, True])
def test_who_computes_too_long_is_stopped_and_who_waits_for_the_machine_is_not(in_a_thread):
    seen = []

    def limited() -> None:
        with at_most(0.2):
            time.sleep(0.5)
        seen.append("waited")
        try:
            with at_most(0.2):
                compute(5)
        except TookTooLong:
            seen.append("stopped")

    if in_a_thread:
        thread = threading.Thread(target=limited)
        thread.start()
        thread.join()
    else:
        limited()
    assert seen == ["waited", "stopped"]


def test_where_no_alarm_rings_the_thread_that_looks_ends_with_the_block(monkeypatch):
    """One that woke up while Python was ending aborted the process, in 2 of 60 runs."""
    monkeypatch.setattr(limit, "signal", SimpleNamespace())  # Windows
    before = threading.enumerate()
    with at_most(5):
        assert len(threading.enumerate()) == len(before) + 1
    assert threading.enumerate() == before


@pytest.mark.parametrize("signals", [True, False])
def test_an_alarm_that_is_swallowed_rings_again(monkeypatch, signals):
    if not signals:  # Windows
        monkeypatch.setattr(limit, "signal", SimpleNamespace())

    def swallow_one() -> None:
        try:
            compute(5)
        except TookTooLong:
            compute(5)

    with pytest.raises(TookTooLong), at_most(0.1):
        swallow_one()


def test_without_signals_no_alarm_rings_once_the_block_is_over(monkeypatch):
    monkeypatch.setattr(limit, "signal", SimpleNamespace())
    frames = []

    def limited():
        frames.append(sys._getframe())
        with contextlib.suppress(TookTooLong), at_most(0.01):
            compute(0.01)  # the alarm and the end fall together

    for _ in range(50):
        limited()
        compute(0.001)  # here it would be nobody's
    assert not any(limit._runs(frame, threading.get_ident()) for frame in frames)
    assert limit._runs(sys._getframe(), threading.get_ident())


def test_an_answer_may_be_late_while_nobody_computes():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        mine, other = (Channel(end.fileno(), b"a" * 16) for end in (ours, theirs))
        threading.Timer(0.4, other.send, ["late"]).start()
        assert mine.receive(Clock(0.2, used=lambda: 0.0)) == "late"
        started = time.monotonic()
        computing = Clock(0.2, used=lambda: time.monotonic() - started)
        with pytest.raises(TooLate):
            mine.receive(computing)
        assert time.monotonic() - started < 2
        assert os.get_blocking(ours.fileno())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts address space")
def test_memory_is_limited_in_the_block_and_as_before_after_it():
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    with memory_at_most(1 << 28):
        bytearray(1 << 26)
        with pytest.raises(MemoryError):
            bytearray(1 << 29)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    bytearray(1 << 29)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts address space")
def test_a_lower_limit_of_memory_that_is_there_stays():
    """As under `ulimit -v`, which nobody may go beyond."""
    program = (
        "import resource\n"
        "from course_lib.sandbox.limit import memory_at_most\n"
        "there = (1 << 33, 1 << 33)\n"
        "resource.setrlimit(resource.RLIMIT_AS, there)\n"
        "with memory_at_most(1 << 40):\n"
        "    assert resource.getrlimit(resource.RLIMIT_AS) == there\n"
        "assert resource.getrlimit(resource.RLIMIT_AS) == there\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
