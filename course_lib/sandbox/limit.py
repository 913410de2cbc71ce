"""Limits around the student's code: an endless loop ends with a sentence, not a dead kernel.

What is limited is CPU time, so that a machine that is busy with others fails nobody. Who sleeps
uses none: the clock on the wall ends that, much later. Memory is limited where Linux does it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

WALL = 6.0  # times the CPU seconds
_SHORTEST = 0.01  # seconds between two looks at a clock
_LONGEST = 5.0
_LOOK = 0.1  # seconds between two looks of a thread
_AGAIN = 0.5  # seconds until it rings once more: code may swallow it (`except:` in a loop's body)


class TookTooLong(BaseException):
    """The student's code ran past its limit. Not an Exception: `except Exception` lets it pass."""


class Clock:
    """``seconds`` of CPU time, as ``used()`` counts it, and ``wall`` times as long on the wall."""

    def __init__(
        self,
        seconds: float,
        used: Callable[[], float] = time.process_time,
        wall: float = WALL,
    ) -> None:
        self._used, self._spent = used, used() + seconds
        self._late = time.monotonic() + wall * seconds

    def left(self) -> float:
        """Return for how many seconds nobody need look again; 0 or less once it is too late.

        One thread uses no more than a second of CPU in a second; there may be more of them.
        """
        cpu = min(self._spent - self._used(), _LONGEST)
        return min(max(cpu, _SHORTEST) if cpu > 0 else cpu, self._late - time.monotonic())


Deadline = float | Clock  # a time of ``time.monotonic()``, or a clock that runs


def left_of(deadline: Deadline) -> float:
    """Return how many seconds are left before a deadline."""
    return deadline.left() if isinstance(deadline, Clock) else deadline - time.monotonic()


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process and what it started used, 0 where no system says so.

    (What another process started counts on Linux. One that has just ended may be missed once.)
    """
    return own_seconds(pid) + started_seconds(pid)


def own_seconds(pid: int) -> float:
    """Return the CPU time that a process itself used, as `cpu_seconds`; this is cheap."""
    with contextlib.suppress(OSError, AttributeError):
        return time.clock_gettime(~pid << 3 | 2)  # clock_getcpuclockid(3)
    return 0.0


def started_seconds(pid: int) -> float:
    """Return the CPU time that what a process started used, as `cpu_seconds`."""
    used = 0.0
    with contextlib.suppress(OSError, AttributeError):
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        used += (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")  # cutime, cstime
        for thread in os.listdir(f"/proc/{pid}/task"):
            started = _read(f"/proc/{pid}/task/{thread}/children").split()
            used += sum(map(cpu_seconds, map(int, started)))
    return used


def _read(file: str) -> bytes:
    with open(file, "rb", buffering=0) as bare:
        return bare.read()


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TookTooLong inside the block once this process has computed for ``seconds`` in it.

    In a main thread with POSIX signals the alarm also ends a sleeping call; elsewhere (Windows,
    other threads) the exception arrives at the next Python instruction, and only in the block.
    """
    on_main = threading.current_thread() is threading.main_thread()
    clock = Clock(seconds)
    with _alarm(clock) if on_main and hasattr(signal, "setitimer") else _timer(clock):
        yield


@contextlib.contextmanager
def memory_at_most(more: int) -> Iterator[None]:
    """Raise MemoryError inside the block once this process asks for ``more`` bytes than it has.

    What counts is address space, and only Linux counts it: elsewhere nothing is limited. A lower
    limit that is there already stays (`ulimit -v`). A child that is started in the block begins
    with this limit, and may raise it.
    """
    if sys.platform != "linux":
        yield
        return
    import resource  # not on Windows

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    set_before = [x for x in (soft, hard) if x != resource.RLIM_INFINITY]
    most = min([pages * resource.getpagesize() + more, *set_before])
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextlib.contextmanager
def _alarm(clock: Clock) -> Iterator[None]:
    def ring(_signal: int, _frame: object) -> None:
        if (left := clock.left()) > 0:
            signal.setitimer(signal.ITIMER_REAL, left, _AGAIN)
        else:
            raise TookTooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(clock.left(), _SHORTEST), _AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _timer(clock: Clock) -> Iterator[None]:
    target = ctypes.c_ulong(threading.get_ident())
    send = ctypes.pythonapi.PyThreadState_SetAsyncExc
    asks = sys._getframe(4)  # behind two context managers: the function with the block
    over: list[bool] = []  # no Event: whoever is interrupted in one leaves it locked
    sending, asleep = threading.Lock(), threading.Lock()

    def ring() -> None:
        while not over and _runs(asks, target.value):  # also if it arrived before our "finally"
            left = clock.left()
            if left <= 0:
                with sending:
                    if not over:
                        send(target, ctypes.py_object(TookTooLong))
            asleep.acquire(timeout=min(max(left, _SHORTEST), _LOOK) if left > 0 else _AGAIN)

    asleep.acquire()
    thread = threading.Thread(target=ring, daemon=True)
    thread.start()
    try:
        yield
    finally:
        try:
            over.append(True)
        finally:  # also if it arrives just here
            over.append(True)
            while sending.locked():
                time.sleep(0)
            send(target, None)  # nor does it arrive any later
            asleep.release()
            thread.join()  # a thread that wakes up while Python ends aborts the process


def _runs(function: FrameType, thread: int) -> bool:
    """Return whether a thread is still in a call of a function."""
    frame = sys._current_frames().get(thread)
    while frame is not None and frame is not function:
        frame = frame.f_back
    return frame is not None
