"""A task for the tests of child; light, since every child imports it."""

from __future__ import annotations

import os

from course_lib import _mode
from course_lib.child import process as child


def describe(student, payload):
    """Return what the child sees of its surroundings, and the student's answer."""
    return {
        "mode": _mode.mode(),
        "threads": os.environ["OMP_NUM_THREADS"],
        "answer": child.call_student(student.answer, *payload),
    }
