"""What whoever grades one submission must know, be it a process here or a worker of a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.handin import split
from course_lib.judging.spec import Exercise
from course_lib.sandbox.workshop import Workshop


class Unsafe(Exception):
    """The sandbox of this machine does not hold; the message says what to do."""


@dataclass(frozen=True)
class Job:
    """What a worker needs to know beside the submission."""

    secret: bytes
    exercises: tuple[str, ...] = ()  # ids, "7-star:SEED" among them; none means all
    outer: bool = False  # in bubblewrap

    def chosen(self) -> list[Exercise]:
        """Return the exercises to grade. Imports every spec: for workers only."""
        from course_lib.specs import EXERCISES, find

        return [find(name) for name in self.exercises] or list(EXERCISES)


def workshop(*, outer: bool = False) -> Workshop:
    """Return a workshop whose children can split files, too; ``outer``: in bubblewrap."""
    return Workshop(split.__name__, outer=outer)


def is_whole(level: str) -> bool:
    """Return whether the sandbox holds back all that it should."""
    return level.startswith("full")


def unsafe(level: str) -> str:
    """Return what to say where the sandbox is not whole."""
    return (
        f"The sandbox on this machine is not whole (level: {level}; Linux 5.13 or newer with "
        "Landlock and seccomp is needed). Grade elsewhere, or accept the risk that submissions "
        "read and change what you can: --allow-unsandboxed."
    )
