"""A clock around the student's code: an endless loop ends with a sentence, not a dead kernel."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import threading
from collections.abc import Iterator


class TookTooLong(BaseException):
    """The student's code ran past its limit. Not an Exception: `except Exception` lets it pass."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TookTooLong inside the block once ``seconds`` have passed.

    In a main thread with POSIX signals the alarm also ends a sleeping call; elsewhere (Windows,
    other threads) the exception arrives at the next Python instruction.
    """
    on_main = threading.current_thread() is threading.main_thread()
    with _alarm(seconds) if on_main and hasattr(signal, "setitimer") else _timer(seconds):
        yield


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(_signal: int, _frame: object) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, ring)
    # the repeat catches code that swallows the first one (`except:` around the loop's body)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _timer(seconds: float) -> Iterator[None]:
    target = ctypes.c_ulong(threading.get_ident())

    def ring() -> None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(target, ctypes.py_object(TookTooLong))

    timer = threading.Timer(seconds, ring)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
