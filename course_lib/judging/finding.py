"""What is wrong with an answer, in one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from course_lib.judging.picture import Picture


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: which property, in one sentence, and where.

    ``picture`` holds what can be drawn of it. ``look`` is the one sentence on what to look at
    next; without it, the report makes one from the picture. ``numbers_right``: something else is
    wrong than the numbers, so that no known mistake explains it.
    """

    property: str
    says: str
    where: str = ""
    picture: Picture | None = None
    look: str = ""
    numbers_right: bool = False

    def __post_init__(self) -> None:
        """Raise TypeError for what is no text: nothing that a student's process says gets here."""
        texts = self.property, self.says, self.where, self.look
        drawn: Any = self.picture
        if not all(type(text) is str for text in texts) or isinstance(drawn, str | list | dict):
            raise TypeError(f"a finding is made of texts, not of {texts!r:.200}")


def endless(seconds: float) -> Finding:
    """Return that a call was stopped after so many seconds of CPU time."""
    says = f"your function did not finish within {seconds:g} seconds of computing"
    return Finding("comes to an end", f"{says}: does every loop move on?")
