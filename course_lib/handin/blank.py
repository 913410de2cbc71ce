"""What an exercise looks like before anybody has written it."""

from __future__ import annotations

import re

_STUB = re.compile(
    r"""^[ \t]*(?:raise NotImplementedError|tl\.static_assert)\(.*["']not attempted["']\)""",
    re.MULTILINE,
)


def is_blank(text: str) -> bool:
    """Return whether a line of code in ``text`` is still an exercise's stub (a comment is none)."""
    return _STUB.search(text) is not None
