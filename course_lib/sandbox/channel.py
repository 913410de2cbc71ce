"""Messages between a parent and a child it does not trust, over a socket, with deadlines.

Frame: magic (8 bytes), nonce (16), length (8), and as many bytes as `child.codec` made.
"""

from __future__ import annotations

import os
import select
import struct
from typing import Any

from course_lib.child.codec import MAX_SIZE, BadFrame, decode, encode
from course_lib.sandbox.limit import Deadline, left_of

_MAGIC = b"course01"
_HEADER = struct.Struct(">8s16sQ")


class Closed(Exception):
    """The other side has gone."""


class TooLate(Exception):
    """The deadline passed before a whole frame had come or gone."""


class Channel:
    """One end of a stream socket. ``nonce`` is 16 random bytes that both ends know."""

    def __init__(self, descriptor: int, nonce: bytes) -> None:
        self._descriptor, self._nonce = descriptor, nonce

    def send(self, message: Any, *, deadline: Deadline | None = None) -> None:
        """Send one message.

        Raises Closed, BadFrame if it is too large to be sent, and TooLate if the other side has
        not read it by then (what was written of it stays written: the channel is of no more use).
        """
        data = encode(message)
        rest = memoryview(_HEADER.pack(_MAGIC, self._nonce, len(data)) + data)
        try:
            while rest:
                rest = rest[self._write(rest, deadline) :]
        except (BrokenPipeError, ConnectionResetError):
            raise Closed from None

    def _write(self, data: memoryview, deadline: Deadline | None) -> int:
        """Write some of ``data`` and return how much; a writer that must be in time never waits."""
        if deadline is None:
            return os.write(self._descriptor, data)
        _wait([], [self._descriptor], deadline)
        os.set_blocking(self._descriptor, False)
        try:
            return os.write(self._descriptor, data[: 1 << 20])
        except BlockingIOError:
            return 0
        finally:
            os.set_blocking(self._descriptor, True)

    def receive(self, deadline: Deadline | None = None) -> Any:
        """Return the next message. Raises Closed, TooLate, BadFrame."""
        magic, nonce, size = _HEADER.unpack(self._exactly(_HEADER.size, deadline))
        if magic != _MAGIC or nonce != self._nonce:
            raise BadFrame("the header is wrong")
        if size > MAX_SIZE:
            raise BadFrame(f"the message is too large ({size} bytes)")
        return decode(self._exactly(size, deadline))

    def _exactly(self, size: int, deadline: Deadline | None) -> bytearray:
        data = bytearray()
        while len(data) < size:
            if deadline is not None:
                _wait([self._descriptor], [], deadline)
            try:
                piece = os.read(self._descriptor, min(size - len(data), 1 << 20))
            except ConnectionResetError:
                raise Closed from None
            if not piece:
                raise Closed
            data += piece
        return data


def _wait(readers: list[int], writers: list[int], deadline: Deadline) -> None:
    """Wait until a descriptor is ready. Raises TooLate."""
    while (left := left_of(deadline)) > 0:
        if any(select.select(readers, writers, [], left)):
            return
    raise TooLate
