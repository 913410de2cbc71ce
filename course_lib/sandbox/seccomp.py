"""Filters for system calls, as classic BPF through ``prctl`` (Linux: ``seccomp(2)``).

Refused calls fail with EPERM, so that a student reads a PermissionError instead of meeting a
dead process. The filter needs no_new_privs and can never be taken off again.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from course_lib.sandbox import syscalls

_LOAD, _EQUAL, _AT_LEAST, _HAS_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _FAIL, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_X32 = 0x40000000
_TCGETS = 0x5401  # what isatty() asks
# what fcntl may do; it may not send signals (F_SETOWN, F_SETSIG, O_ASYNC) nor take leases
_QUESTIONS = (0, 1, 2, 3, 1030)  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC
_SET_FLAGS, _O_ASYNC = 4, 0x2000
_PR_SET_SECCOMP, _FILTER_MODE = 22, 2

_Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant


def confine_to_computing() -> None:
    """Allow only what Python needs to compute: no process, thread, socket, file or signal."""
    guarded, program = syscalls.guarded(), _head()
    for number in syscalls.allowed().values():
        program += _on_call(number, [(_RETURN, 0, 0, _ALLOW)])
    program += _on_call(guarded["ioctl"], _only_if_argument(1, _TCGETS, errno.ENOTTY))
    program += _on_call(guarded["prlimit64"], _only_if_null(2))  # read limits, never set them
    program += _on_call(guarded["tgkill"], _only_if_argument(0, os.getpid(), errno.EPERM))
    program += _on_call(guarded["fcntl"], _only_own_flags())
    program += _on_call(guarded["clone3"], [(_RETURN, 0, 0, _FAIL | errno.ENOSYS)])
    _install([*program, (_RETURN, 0, 0, _FAIL | errno.EPERM)])


def forbid_leaving() -> None:
    """Forbid sockets, tracing, mounts and the like; processes may still be started."""
    program = _head()
    for number in syscalls.denied().values():
        program += _on_call(number, [(_RETURN, 0, 0, _FAIL | errno.EPERM)])
    _install([*program, (_RETURN, 0, 0, _ALLOW)])


def _head() -> list[_Instruction]:
    """Kill what speaks another architecture's call numbers; then load the number."""
    return [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, syscalls.audit_arch()),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _FAIL | errno.EPERM),
    ]


def _on_call(number: int, then: list[_Instruction]) -> list[_Instruction]:
    return [(_EQUAL, 0, len(then), number), *then]


def _only_if_argument(index: int, value: int, otherwise: int) -> list[_Instruction]:
    return [
        (_LOAD, 0, 0, _ARGUMENTS + 8 * index),
        (_EQUAL, 0, 1, value),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _FAIL | otherwise),
    ]


def _only_own_flags() -> list[_Instruction]:
    """Let ``fcntl`` ask, duplicate, and set flags other than O_ASYNC."""
    program = [(_LOAD, 0, 0, _ARGUMENTS + 8)]
    for command in _QUESTIONS:
        program += [(_EQUAL, 0, 1, command), (_RETURN, 0, 0, _ALLOW)]
    return [
        *program,
        (_EQUAL, 0, 3, _SET_FLAGS),
        (_LOAD, 0, 0, _ARGUMENTS + 16),
        (_HAS_BITS, 1, 0, _O_ASYNC),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _FAIL | errno.EPERM),
    ]


def _only_if_null(index: int) -> list[_Instruction]:
    low = _ARGUMENTS + 8 * index
    return [
        (_LOAD, 0, 0, low),
        (_EQUAL, 0, 3, 0),
        (_LOAD, 0, 0, low + 4),
        (_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _FAIL | errno.EPERM),
    ]


def _install(program: list[_Instruction]) -> None:
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
    kept = ctypes.create_string_buffer(code)
    header = ctypes.create_string_buffer(
        struct.pack("HxxxxxxQ", len(program), ctypes.addressof(kept))
    )
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _FILTER_MODE, header, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"seccomp: {os.strerror(error)}")
