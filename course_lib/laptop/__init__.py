"""Triton's interpreter where Triton has no wheels: its own Python files on a core of ours.

Triton is published for Linux only, but its interpreter is Python: of its compiled core it needs
four functions on addresses, a dozen enumerations and a few names. ``core/`` has them in NumPy, for
one version of Triton; on Linux the tests hold it against Triton's own core, bit by bit.
"""

from __future__ import annotations

from importlib import metadata

VERSION = "3.7.1"  # the Triton that `core` is written for; constraints.txt installs the same
SUFFIX = "+interpreter"
LOCAL_VERSION = f"{VERSION}{SUFFIX}"  # of what is installed here in its place
NO_COMPILER = "there is no Triton compiler on this system, only Triton's interpreter."


def interpreter_only() -> bool:
    """Return whether the Triton of this environment is its interpreter on our core."""
    try:
        return metadata.version("triton").endswith(SUFFIX)
    except metadata.PackageNotFoundError:
        return False
