"""Whether a function can be called as an exercise calls it."""

from __future__ import annotations

import inspect

from course_lib.judging import desk
from course_lib.sandbox import calling


def test_what_has_no_signature_is_left_to_the_call(monkeypatch):
    """`functools.partial(np.array)` has none under some releases of NumPy, and can be called."""

    def none_found(_function):
        raise ValueError("no signature found for builtin")

    monkeypatch.setattr(inspect, "signature", none_found)
    assert calling.misfit(len, [1]) is None
    assert desk.misfit(len, [1]) is None


def test_what_does_not_fit_is_said():
    assert "missing" in calling.misfit(lambda x, y: x, 1)
    assert "missing" in desk.misfit(lambda x, y: x, 1)
    assert calling.misfit(3, 1) is not None
