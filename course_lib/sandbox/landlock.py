"""Which files a process may see, and no TCP (Linux: ``landlock(7)``, through ctypes)."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_EXECUTE, _WRITE, _READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_FOR_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL


def _version() -> int:
    """Return Landlock's ABI version, 0 if this kernel has none."""
    if sys.platform != "linux":  # there, the number is that of another call
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "syscall"):
        return 0
    abi: int = libc.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return max(0, abi)


def restrict(
    readable: Iterable[Path] = (),
    writable: Iterable[Path] = (),
    executable: Iterable[Path] = (),
    listable: Iterable[Path] = (),
) -> None:
    """Leave this process nothing but these files and folders, if the kernel has Landlock.

    Raises OSError if the kernel refuses. Paths that do not exist are left out.
    """
    abi = _version()
    if not abi:
        return
    handled = _handled(abi)
    attributes = struct.pack("QQQ", handled, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    rules = _call(_CREATE, ctypes.create_string_buffer(attributes[:size], size), size, 0)
    try:
        for paths, access in (
            (readable, _READ | _LIST),
            (writable, handled & ~_EXECUTE & ~_IOCTL),
            (executable, _READ | _EXECUTE),
            (listable, _LIST),
        ):
            for path in paths:
                _allow(rules, path, access & handled)
        _call(_RESTRICT, rules, 0)
    finally:
        os.close(rules)


def _handled(abi: int) -> int:
    bits = (1 << 13) - 1
    bits |= _REFER if abi >= 2 else 0
    bits |= _TRUNCATE if abi >= 3 else 0
    return bits | (_IOCTL if abi >= 5 else 0)


def _allow(rules: int, path: Path, access: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        return
    try:
        if not Path(path).is_dir():
            access &= _FOR_FILES
        rule = ctypes.create_string_buffer(struct.pack("<Qi", access, handle), 12)
        _call(_ADD, rules, 1, rule, 0)
    finally:
        os.close(handle)


def _call(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    wide = [ctypes.c_size_t(a) if isinstance(a, int) else a for a in arguments]
    result: int = libc.syscall(number, *wide)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"landlock: {os.strerror(code)}")
    return result
