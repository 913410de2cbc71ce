"""macOS and Windows, as far as Linux can show them to the course, the tests and Triton.

Only they are shown another system: the standard library, torch and NumPy go on as they are. So a
module of the course that takes what the other system lacks fails as it would there: at its import,
or where it is used. A file of this name in an environment's packages, and a line that calls
`pretend` in a .pth file beside it, make every Python of the environment so, children included.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

SHOWN_TO = {"conftest", "course_lib", "laptop", "tests", "triton"}
_LINUX = ("/proc/", "/sys/", "/dev/shm")
_ONLY_LINUX = {
    "fcntl": "F_NOTIFY F_OFD_SETLK F_SETLEASE F_SETPIPE_SZ F_SETSIG",
    "os": "O_PATH O_TMPFILE copy_file_range eventfd getrandom memfd_create pidfd_open posix_fadvise"
    " sched_getaffinity sched_setaffinity setns splice unshare waitid",
    "resource": "RLIMIT_MSGQUEUE RLIMIT_NICE RLIMIT_RTPRIO RLIMIT_SIGPENDING prlimit",
    "select": "epoll",
    "signal": "SIGPWR SIGSTKFLT sigtimedwait sigwaitinfo pidfd_send_signal",
    "socket": "AF_ALG AF_NETLINK AF_PACKET AF_VSOCK",
    "time": "pthread_getcpuclockid",
}
_ONLY_POSIX = {
    "os": "O_ASYNC O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK WNOHANG chown chroot fchmod fork"
    " forkpty getegid geteuid getgid getloadavg getpgid getsid getuid killpg mkfifo mknod nice"
    " openpty posix_spawn posix_spawnp pread pwrite set_blocking setgid setpgid setsid setuid"
    " statvfs sysconf uname wait wait3 wait4",
    "select": "poll",
    "signal": "ITIMER_PROF ITIMER_REAL ITIMER_VIRTUAL SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL"
    " SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 SIGXCPU alarm getitimer pause pthread_kill"
    " pthread_sigmask setitimer siginterrupt sigpending sigwait",
    "socket": "AF_UNIX recv_fds send_fds",
    "time": "CLOCK_PROCESS_CPUTIME_ID clock_gettime clock_getres tzset",
}


@dataclass(frozen=True)
class System:
    """A system: what it says of itself, and what Linux has and it has not."""

    facts: dict[str, dict[str, Any]]
    lacks: tuple[dict[str, str], ...]
    modules: set[str] = field(default_factory=set)
    libc: bool = True  # whether ctypes.CDLL(None) is something


SYSTEMS = {
    "macOS": System(
        {
            "os": {"name": "posix"},
            "platform": {"system": lambda: "Darwin", "machine": lambda: "arm64"},
            "sys": {"platform": "darwin"},
        },
        (_ONLY_LINUX,),
    ),
    "Windows": System(
        {
            "os": {"name": "nt"},
            "platform": {"system": lambda: "Windows", "machine": lambda: "AMD64"},
            "sys": {"platform": "win32"},
        },
        (_ONLY_LINUX, _ONLY_POSIX),
        {"fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"},
        libc=False,
    ),
}


class _Shown(ModuleType):
    """A module as another system has it; what is set on it is set on the real one."""

    def __init__(self, real: ModuleType, lacks: set[str], facts: dict[str, Any]) -> None:
        super().__init__(real.__name__)
        vars(self).update(_real=real, _lacks=lacks, **facts)

    def __getattr__(self, name: str) -> Any:
        if name in self._lacks:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)


def pretend(name: str) -> None:
    """Show the system of this name to the course, to its tests and to Triton from now on."""
    system, made, ordinary = SYSTEMS[name], {}, builtins.__import__

    def shown(real: ModuleType) -> ModuleType:
        lacks = {word for table in system.lacks for word in table.get(real.__name__, "").split()}
        facts = system.facts.get(real.__name__, {})
        if real.__name__ == "ctypes":
            facts = {"CDLL": _libraries(real, system)}
        if real.__name__ not in made:
            made[real.__name__] = _Shown(real, lacks, facts) if lacks or facts else real
        return made[real.__name__]

    def imported(
        module: str,
        globals: dict[str, Any] | None = None,
        locals: dict[str, Any] | None = None,
        fromlist: tuple[str, ...] = (),
        level: int = 0,
    ) -> ModuleType:
        if level or not _is_shown((globals or {}).get("__name__", "")):
            return ordinary(module, globals, locals, fromlist, level)
        if module in system.modules:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        return shown(ordinary(module, globals, locals, fromlist, level))

    builtins.__import__ = imported
    sys.addaudithook(_no_files_of_linux)


def _is_shown(module: str) -> bool:
    return module.partition(".")[0] in SHOWN_TO


def _libraries(ctypes: ModuleType, system: System) -> Any:
    def load(name: str | None, *args: Any, **kwargs: Any) -> Any:
        if name is not None:
            return ctypes.CDLL(name, *args, **kwargs)
        if not system.libc:
            raise TypeError("LoadLibrary() argument 1 must be str, not None")
        return _Libc()

    return load


class _Libc:
    """The C library of another system: it has no ``prctl``, and its calls have other numbers."""

    def __getattr__(self, name: str) -> Any:
        assert name != "syscall", "a call by a number of Linux, which means something else here"
        raise AttributeError(f"symbol {name!r} not found")


def _no_files_of_linux(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not str(arguments[0]).startswith(_LINUX):
        return
    if any(_is_shown(module) for module in _who_asks()):
        raise FileNotFoundError(2, "No such file or directory", arguments[0])


def _who_asks() -> Iterator[str]:
    """Yield the module that opens a file: the first outside the standard library's own helpers."""
    frame = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in ("pathlib", "io", "codecs", "contextlib", __name__):
            yield module
            return
        frame = frame.f_back
