"""What a check says, in words: one report, shown alike in a notebook, a terminal, a test run."""

from __future__ import annotations

import enum
import html
import re
import sys
import textwrap
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_lib.judging.spec import Exercise
from course_lib.style.palette import hex_of

if TYPE_CHECKING:
    from rich.text import Text

    from course_lib.judging.load_map import LoadMap
    from course_lib.judging.picture import Picture
    from course_lib.judging.report_text import Piece


class Verdict(enum.Enum):
    """The six things a check can say."""

    NOT_ATTEMPTED = "not attempted"
    ERROR = "error"
    INCORRECT = "incorrect"
    NOT_ON_A_GPU = "right here, not on a GPU"
    CANNOT_RUN = "cannot run here"
    PASSED = "passed"


# Okabe-Ito colours for a terminal and as hex; the sign and the word carry the meaning without
# colour. No terminal's grey is readable on black, on white and on JupyterLab's pink: ink is.
_LOOK = {
    Verdict.NOT_ATTEMPTED: ("·", "default", "#767676"),
    Verdict.ERROR: ("!", "color(166)", hex_of("vermilion")),
    Verdict.INCORRECT: ("✗", "color(166)", hex_of("vermilion")),
    Verdict.NOT_ON_A_GPU: ("◐", "color(178)", "#b57f00"),
    Verdict.CANNOT_RUN: ("–", "default", "#767676"),
    Verdict.PASSED: ("✓", "color(36)", hex_of("green")),
}


_TOO_LONG = re.compile(r"^(.{800}).{100,}(.{100})$", re.MULTILINE)


@dataclass(frozen=True)
class Report:
    """The outcome of one check: the verdict, one headline, and the lines that explain it.

    ``misconception`` is the name of the known mistake that the answer matches, if one does.
    ``picture`` is drawn after the first ``drawn_after`` lines, and only when somebody looks;
    ``loads`` stand behind it.
    """

    exercise: Exercise
    verdict: Verdict
    lines: tuple[str, ...] = ()
    failed_property: str = ""
    misconception: str = ""
    picture: Picture | None = None
    drawn_after: int = 0
    loads: LoadMap | None = None

    def __post_init__(self) -> None:
        """Cut lines that nobody reads to their end: an answer may hold any number of numbers."""
        cut = tuple(_TOO_LONG.sub(r"\1 ... \2", line) for line in self.lines)
        object.__setattr__(self, "lines", cut)

    @property
    def passed(self) -> bool:
        """Whether the verdict is *passed*."""
        return self.verdict is Verdict.PASSED

    @property
    def headline(self) -> str:
        """One line: sign, exercise, function, verdict."""
        sign = _LOOK[self.verdict][0]
        return f"{sign} {self.exercise.label} {self.exercise.function}: {self.verdict.value}"

    @property
    def _drawn(self) -> list[Picture | LoadMap]:
        return [one for one in (self.picture, self.loads) if one is not None]

    def body(self) -> str:
        """Return all but the headline as plain text, unwrapped; an error map in whole tiles."""
        return _plain(self._body(None, fine=False))

    def text(self, *, colour: bool = False, width: int = 88) -> str:
        """Return the report as plain text, wrapped; preformatted lines (indented) are kept.

        ``colour`` adds ANSI colours, and nothing else.
        """
        if not colour:
            return _plain(self._all(width))
        from rich.console import Console

        console = Console(
            force_terminal=True, color_system="256", no_color=False, force_jupyter=False
        )
        with console.capture() as captured:  # 256 colours, whatever the terminal
            console.print(self._rich(width), soft_wrap=True, end="")
        return captured.get()

    def __rich__(self) -> Text:
        """Return the report for a rich console, which knows what colours the terminal has."""
        return self._rich(88)

    def _rich(self, width: int) -> Text:
        from rich.text import Text

        return Text("\n").join(Text.assemble(*line) for line in self._all(width))

    def _repr_html_(self) -> str:
        """Return the report as HTML; everything a student wrote is escaped."""
        from course_lib.judging.report_html import picture_html

        parts = [_html_line(_clean(line)) for line in self.lines]
        parts[self.drawn_after : self.drawn_after] = map(picture_html, self._drawn)
        return (
            f"<div class='course-report' style='border-left:5px solid {_LOOK[self.verdict][2]};"
            "padding:.3em 1em;margin:.4em 0;max-width:52em'>"
            f"<strong>{html.escape(self.headline)}</strong>{''.join(parts)}</div>"
        )

    def __repr__(self) -> str:
        return self.text()

    def _all(self, width: int) -> list[list[Piece]]:
        head = (self.headline, f"bold {_LOOK[self.verdict][1]}")
        return [[head], *self._body(width)]

    def _body(self, width: int | None, *, fine: bool = True) -> list[list[Piece]]:
        """Return the lines as pieces with styles, the picture among them."""
        from course_lib.judging.report_text import picture_lines

        lines = [[(_wrap(_clean(line), width), "")] for line in self.lines]
        lines[self.drawn_after : self.drawn_after] = [
            line
            for picture in self._drawn
            for line in (
                [(_wrap(picture.caption(), width), "")],
                *picture_lines(picture, fine=fine),
            )
        ]
        return lines


class CheckFailed(AssertionError):
    """Raised by ``check`` when the verdict is anything but *passed*; carries the report."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self.report = report
        self._is_displayed = False

    def __str__(self) -> str:
        return self.report.headline if self._is_displayed else self.report.text()

    def _render_traceback_(self) -> list[str]:
        """Show the report instead of a traceback (IPython calls this where a cell ends).

        A notebook displays it, pictures and all, and then has one line for the exception: what
        the display has said is not said twice. Two words (*not attempted*) need no display.
        """
        short = self.report.verdict is Verdict.NOT_ATTEMPTED
        if short or not (self._is_displayed or display_in_notebook(self.report)):
            return [self.report.text(colour=True)]
        self._is_displayed = True
        return [f"CheckFailed: {self.report.verdict.value}. The report stands above."]


def display_in_notebook(report: Report) -> bool:
    """Display the report as HTML if this is a notebook; return whether it is one."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None or not hasattr(shell, "kernel"):
        return False
    from IPython.display import display

    display(report)
    return True


def _plain(lines: list[list[Piece]]) -> str:
    return "\n".join("".join(words for words, _ in line) for line in lines)


def _html_line(line: str) -> str:
    if line.startswith(" "):
        look = "margin:.4em 0;white-space:pre-wrap;font-family:monospace"
        return f"<pre style='{look}'>{html.escape(line)}</pre>"
    return f"<div style='margin:.3em 0'>{html.escape(line)}</div>"


def _clean(text: str) -> str:
    r"""Write control characters, direction marks and lone surrogates as \x1b, \u202e."""
    return "".join(c if c in "\n\t" else _visible(c) for c in text)


def _visible(c: str) -> str:
    hidden = unicodedata.category(c)[0] == "C"
    return c.encode("unicode_escape").decode() if hidden else c


def _wrap(line: str, width: int | None) -> str:
    if width is None or line.startswith(" ") or "\n" in line:
        return line
    return textwrap.fill(line, width, subsequent_indent="  ", initial_indent="  ")
