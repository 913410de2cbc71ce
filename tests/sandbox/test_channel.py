"""Frames between the grader and a child that may forge them, stop reading, or go."""

from __future__ import annotations

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from course_lib.child.codec import MAX_SIZE, BadFrame
from course_lib.sandbox.channel import _HEADER, Channel, Closed, TooLate


def test_a_frame_with_another_nonce_is_refused():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        Channel(theirs.fileno(), b"a" * 16).send("passed")
        with pytest.raises(BadFrame):
            Channel(ours.fileno(), b"b" * 16).receive(time.monotonic() + 1)


def test_half_a_frame_is_too_late_and_a_closed_end_is_closed():
    ours, theirs = socket.socketpair()
    channel = Channel(ours.fileno(), b"a" * 16)
    with ours:
        theirs.send(b"course01")
        with pytest.raises(TooLate):
            channel.receive(time.monotonic() + 0.05)
        theirs.close()
        with pytest.raises(Closed):
            channel.receive(time.monotonic() + 1)


def test_a_frame_that_nobody_reads_is_too_late_and_one_that_is_read_arrives():
    """A child that sleeps instead of reading its answer cannot hold the grader."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(ours.fileno(), b"a" * 16)
        started = time.monotonic()
        with pytest.raises(TooLate):
            channel.send(b"\0" * (8 << 20), deadline=started + 0.2)
        assert time.monotonic() - started < 5
    ours, theirs = socket.socketpair()
    with ours, theirs, ThreadPoolExecutor(1) as pool:
        soon = time.monotonic() + 30
        read = pool.submit(Channel(theirs.fileno(), b"a" * 16).receive, soon)
        channel = Channel(ours.fileno(), b"a" * 16)
        channel.send(b"x" * (8 << 20), deadline=soon)
        assert read.result() == b"x" * (8 << 20)
        assert os.get_blocking(ours.fileno())
        theirs.close()
        with pytest.raises(Closed):
            channel.send(b"x" * (8 << 20), deadline=soon)


def test_a_frame_that_says_it_is_enormous_is_refused_before_it_is_read():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(_HEADER.pack(b"course01", b"a" * 16, MAX_SIZE + 1))
        with pytest.raises(BadFrame, match="too large"):
            Channel(ours.fileno(), b"a" * 16).receive(time.monotonic() + 1)
