"""A zygote's folder, and the removal of folders whose owner was killed.

While its owner lives it holds a lock on one file in the folder; the kernel releases that lock
however the owner ends, so nothing depends on process numbers, which are used again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "course-grade-"
_LOCK = "owner"
_UNLOCKED_FOR = 3600.0  # seconds; a folder without a lock may be one that is just being made


class Folder:
    """A fresh folder that goes with `cleanup`, with this process, or with the next `sweep`."""

    def __init__(self) -> None:
        self._made = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
        self.name = self._made.name
        self._lock = os.open(Path(self.name) / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(self._lock, f"{os.getpid()}\n".encode())
        _take(self._lock)

    def cleanup(self) -> None:
        """Remove the folder and all that is in it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        self._made.cleanup()


def sweep() -> list[Path]:
    """Remove this user's folders whose owner is gone; return them. Others are left alone."""
    gone = []
    with contextlib.suppress(OSError):
        for folder in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
            with contextlib.suppress(OSError):
                if _is_left_over(folder):
                    shutil.rmtree(folder, ignore_errors=True)
                    gone.append(folder)
    return gone


def _is_left_over(folder: Path) -> bool:
    """Return whether a folder is ours (a real one, of this user) and its lock is free."""
    found = os.lstat(folder)
    if not os.path.isdir(folder) or os.path.islink(folder) or found.st_uid != os.getuid():
        return False
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return time.time() - found.st_mtime > _UNLOCKED_FOR
    try:
        return _take(lock)
    finally:
        os.close(lock)


def _take(lock: int) -> bool:
    """Lock the file; False if somebody else has it, or this system has no such locks."""
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
