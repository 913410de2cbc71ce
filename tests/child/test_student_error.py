"""What went wrong in a student's code is told whatever the student's exception does."""

from __future__ import annotations

import pytest

from course_lib.child.student_error import Failure


@pytest.mark.parametrize("ends", [ValueError, SystemExit, KeyboardInterrupt])
def test_an_exception_that_raises_when_asked_ends_nothing(ends):
    class Nasty(Exception):
        @property
        def look(self):
            raise ends

        def __str__(self):
            raise ends

    def theirs():
        raise Nasty

    try:
        theirs()
    except Nasty as error:
        failure = Failure.of(error, theirs)
    assert failure.kinds[0] == "Nasty"
    assert failure.look == ""
