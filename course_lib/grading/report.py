"""What a check says, in words: one report, shown alike in a notebook, a terminal, a test run."""

from __future__ import annotations

import enum
import html
import textwrap
from dataclasses import dataclass

from course_lib.grading.spec import Exercise


class Verdict(enum.Enum):
    """The six things a check can say."""

    NOT_ATTEMPTED = "not attempted"
    ERROR = "error"
    INCORRECT = "incorrect"
    NOT_ON_A_GPU = "right here, not on a GPU"
    CANNOT_RUN = "cannot run here"
    PASSED = "passed"


# Okabe-Ito colours as ANSI 256 and hex; the sign and the word carry the meaning without colour.
_LOOK = {
    Verdict.NOT_ATTEMPTED: ("·", 244, "#767676"),
    Verdict.ERROR: ("!", 166, "#d55e00"),
    Verdict.INCORRECT: ("✗", 166, "#d55e00"),
    Verdict.NOT_ON_A_GPU: ("◐", 178, "#b57f00"),
    Verdict.CANNOT_RUN: ("–", 244, "#767676"),
    Verdict.PASSED: ("✓", 36, "#009e73"),
}


@dataclass(frozen=True)
class Report:
    """The outcome of one check: the verdict, one headline, and the lines that explain it.

    ``misconception`` is the name of the known mistake that the answer matches, if one does.
    """

    exercise: Exercise
    verdict: Verdict
    lines: tuple[str, ...] = ()
    failed_property: str = ""
    misconception: str = ""

    @property
    def passed(self) -> bool:
        """Whether the verdict is *passed*."""
        return self.verdict is Verdict.PASSED

    @property
    def headline(self) -> str:
        """One line: sign, exercise, function, verdict."""
        sign = _LOOK[self.verdict][0]
        return f"{sign} {self.exercise.label} {self.exercise.function}: {self.verdict.value}"

    def text(self, *, colour: bool = False, width: int = 88) -> str:
        """Return the report as plain text, wrapped; preformatted lines (indented) are kept."""
        head = self.headline
        if colour:
            head = f"\x1b[1;38;5;{_LOOK[self.verdict][1]}m{head}\x1b[0m"
        return "\n".join([head, *(_wrap(line, width) for line in self.lines)])

    def _repr_html_(self) -> str:
        """Return the report as HTML; everything a student wrote is escaped."""
        colour = _LOOK[self.verdict][2]
        body = "".join(
            f"<pre style='margin:.4em 0;white-space:pre-wrap'>{html.escape(line)}</pre>"
            if line.startswith(" ")
            else f"<div style='margin:.3em 0'>{html.escape(line)}</div>"
            for line in self.lines
        )
        return (
            f"<div class='course-report' style='border-left:5px solid {colour};"
            "padding:.3em 1em;margin:.4em 0;max-width:52em'>"
            f"<strong>{html.escape(self.headline)}</strong>{body}</div>"
        )

    def __repr__(self) -> str:
        return self.text()


class CheckFailed(AssertionError):
    """Raised by ``check`` when the verdict is anything but *passed*; carries the report."""

    def __init__(self, report: Report) -> None:
        super().__init__(report.text())
        self.report = report

    def _render_traceback_(self) -> list[str]:
        """Show the report instead of a traceback (IPython calls this)."""
        return [self.report.text(colour=True)]


def _wrap(line: str, width: int) -> str:
    if line.startswith(" ") or "\n" in line:
        return line
    return textwrap.fill(line, width, subsequent_indent="  ", initial_indent="  ")
