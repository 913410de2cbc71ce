"""What a student's process says, taken for data and nothing more: failures, tampering, texts."""

from __future__ import annotations

from typing import Any

from course_lib.child.codec import BadFrame
from course_lib.child.student_error import Failure
from course_lib.judging.finding import Finding
from course_lib.sandbox.calling import has_too_many_parts
from course_lib.sandbox.inputs import TAMPERING


def message_of(answer: Any) -> dict[str, Any]:
    """Return an answer: a dictionary, with a result that can be looked at. Raises BadFrame."""
    if not isinstance(answer, dict):
        raise BadFrame("no answer")
    if has_too_many_parts([answer.get("result"), answer.get("first")]):  # where it came from, too
        raise BadFrame("it has too many parts")
    return answer


def failure_of(answer: dict[str, Any]) -> Failure | None:
    """Return the exception in an answer, None if it holds none; all of it is only text."""
    if not (error := answer.get("error")):
        return None
    error = error if isinstance(error, dict) else {}
    kinds = tuple(_texts(error.get("kinds"))) or ("Error",)
    text, look = str(error.get("text", ""))[:4000], str(error.get("look", ""))[:600]
    return Failure(kinds, text, tuple(_texts(error.get("lines"))), look)


def tampering_of(said: Any) -> Finding | None:
    """Return what the child says was done to the inputs, under no name but those there are."""
    if not (texts := _texts(said)):
        return None
    return Finding(texts[0] if texts[0] in TAMPERING else "the form", texts[-1])


def _texts(lines: Any) -> list[str]:
    """Return the first few of a list of untrusted texts, each cut."""
    return [str(line)[:300] for line in lines[:8]] if isinstance(lines, list | tuple) else []
