"""What a child may do: the *computing* profile and the *compiling* profile.

*computing*: reads Python and its packages (of the course only what holds no answers), writes
nothing, starts nothing, sees no network. *compiling*: besides, it writes one fresh folder and
runs one program, ptxas.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from course_lib.sandbox import allowed, landlock, seccomp, syscalls

_NO_NEW_PRIVS, _CAP_DROP, _DEATH_SIGNAL, _DUMPABLE = 38, 24, 1, 4
_CAP_VERSION = 0x20080522


@dataclass(frozen=True)
class Limits:
    """Hard limits of one child: CPU seconds, bytes of new memory, open files; of a file that a
    compiler writes, its bytes."""

    cpu_seconds: int = 60
    memory_bytes: int = 1 << 30
    open_files: int = 64
    file_bytes: int = 64 << 20


def confine_computing(limits: Limits, closed: Collection[str] = ()) -> None:
    """Confine this process for good; packages named ``closed`` are not readable either."""
    _limit(limits, file_bytes=0, processes=0)
    _confine([], [], seccomp.confine_to_computing, closed)


def confine_compiling(limits: Limits, folder: Path, programs: Iterable[Path]) -> None:
    """Confine a compiler: it writes to ``folder`` and runs ``programs``, nothing else."""
    _limit(limits, file_bytes=limits.file_bytes, processes=None)
    _confine([folder], [*programs, *_loaders()], seccomp.forbid_leaving)


def _confine(
    writable: list[Path],
    runs: list[Path],
    filter_calls: Callable[[], None],
    closed: Collection[str] = (),
) -> None:
    """Put on every layer that this system has; what is missing is found out by the probe."""
    with contextlib.suppress(OSError, AttributeError):
        _no_new_privileges()
    readable, listable = _readable(closed)
    with contextlib.suppress(OSError, AttributeError):
        landlock.restrict(readable, writable, runs, listable)
    if syscalls.machine():
        with contextlib.suppress(OSError, AttributeError):
            filter_calls()


def _limit(limits: Limits, file_bytes: int, processes: int | None) -> None:
    import resource  # not on Windows, where nobody is confined and this module is imported, too

    wanted = {
        "RLIMIT_CORE": 0,
        "RLIMIT_CPU": limits.cpu_seconds,
        "RLIMIT_FSIZE": file_bytes,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_AS": _virtual_bytes(resource.getpagesize()) + limits.memory_bytes,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_MEMLOCK": 0,
    }
    if processes is not None:
        wanted["RLIMIT_NPROC"] = processes
    for name, value in wanted.items():
        with contextlib.suppress(AttributeError, ValueError, OSError):  # macOS lacks some
            resource.setrlimit(getattr(resource, name), (value, value))
    with contextlib.suppress(OSError):  # if memory runs out, the child goes before the grader
        Path("/proc/self/oom_score_adj").write_text("1000")


def _virtual_bytes(page: int) -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * page
    except OSError:  # macOS
        asked = ["ps", "-o", "vsz=", "-p", str(os.getpid())]
        return int(subprocess.run(asked, capture_output=True, check=True).stdout) * 1024


def die_with_parent() -> None:
    """On Linux: be killed when the process that started this one ends, however it does."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def _no_new_privileges() -> None:
    """No new privileges, and none of root's left; die with the zygote; show nobody our memory."""
    die_with_parent()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_DUMPABLE, 0, 0, 0, 0)
    for capability in range(64):
        libc.prctl(_CAP_DROP, capability, 0, 0, 0)
    head = (ctypes.c_uint32 * 2)(_CAP_VERSION, 0)
    libc.capset(head, (ctypes.c_uint32 * 6)())
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")


def _readable(closed: Collection[str]) -> tuple[list[Path], list[Path]]:
    """Return what a student's code may read (Python, packages, libraries), and may only list.

    Neighbours of what is not readable (the course among the packages, packages named ``closed``)
    are listed one by one.
    """
    paths = sysconfig.get_paths()
    places = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    places |= {os.path.join(sys.base_prefix, "lib"), "/lib", "/lib64", "/usr/lib", "/usr/lib64"}
    places |= {p for p in sys.path if Path(p).name in ("site-packages", "dist-packages")}
    readable = [Path(p) for p in ("/etc/ld.so.cache", "/dev/null", "/dev/zero", "/dev/urandom")]
    readable += allowed.readable()
    listable = []
    waiting = [Path(place) for place in sorted(places)]
    hidden = {allowed.COURSE, *_packages(waiting, closed)}
    while waiting:
        place = waiting.pop()
        real = place.resolve()
        if real in hidden:
            continue
        if place.is_dir() and any(one.is_relative_to(real) for one in hidden):
            listable.append(place)
            waiting += place.iterdir()
        elif place.exists():
            readable.append(place)
    return readable, listable


def _packages(places: Iterable[Path], names: Collection[str]) -> Iterator[Path]:
    """Yield where packages of these names lie, in the folders that Python may find them in."""
    for place, name in product(places, names):
        for above in ("", "*-packages/", "python3*/*-packages/"):
            yield from (found.resolve() for found in place.glob(above + name))


def _loaders() -> list[Path]:
    """Return the dynamic loader, which the kernel starts for every program."""
    names = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")
    return [Path(name) for name in names if Path(name).exists()]
