"""An outer layer around a zygote (Linux: bubblewrap, where it is installed and asked for).

A file system of its own holds Python, the course and the zygote's folder, so that not even the
name, size or date of any other file can be asked for; and it has no network. Inside, every child
confines itself as everywhere.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from course_lib.sandbox.allowed import COURSE

# one that does not exist is left out; /proc stays, for the clocks of the children
_SEEN = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache")
# not --die-with-parent: the zygote itself ends when its socket closes, its children first
_APART = ("--unshare-net", "--unshare-ipc", "--unshare-uts")


def wrapped(command: Sequence[str], folder: str) -> list[str]:
    """Return the command that runs ``command`` where nothing but ``folder`` can be written."""
    seen = {*_SEEN, sys.prefix, sys.base_prefix, str(COURSE)}
    bound = [part for place in sorted(seen) for part in ("--ro-bind-try", place, place)]
    system = ["--dev", "/dev", "--bind", "/proc", "/proc"]
    return ["bwrap", *_APART, *system, *bound, "--bind", folder, folder, "--", *command]


def problem() -> str | None:
    """Return why nothing can be run in bubblewrap here, None if it can."""
    python = wrapped([sys.executable, "-I", "-c", ""], "/tmp")
    try:
        done = subprocess.run(python, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not start ({error})"
    return f"bubblewrap fails ({done.stderr.strip()})" if done.returncode else None
