"""A wheel on a server, read in parts: only the files that are wanted come, by HTTP ranges."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from zipfile import BadZipFile, ZipFile

_SECONDS = 20  # that a server may be silent


class NoParts(Exception):
    """A wheel cannot be read in parts; says why."""


@contextmanager
def remote_wheel(address: str) -> Iterator[ZipFile]:
    """Open the wheel at an address; what is read from it is fetched when it is read.

    Raises NoParts, at any time, where the server gives no ranges, does not answer, or sends what
    is no part of a wheel.
    """
    try:
        import requests
        import urllib3
        from remotezip import RemoteZip, RemoteZipError
    except ImportError as why:  # on Linux nobody needs it
        raise NoParts(str(why)) from None
    broken = (BadZipFile, EOFError, zlib.error)
    with requests.Session() as session:  # one connection for all files
        session.headers["Accept-Encoding"] = "identity"
        how = {"session": session, "timeout": _SECONDS, "allow_redirects": True}
        try:
            # not every server knows "the last bytes": its HEAD tells the size
            with RemoteZip(address, support_suffix_range=False, **how) as wheel:
                yield wheel
        except (RemoteZipError, urllib3.exceptions.HTTPError, OSError, *broken) as why:
            raise NoParts(str(why)) from why
