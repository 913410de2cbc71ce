"""Exercises of lesson 05, Triton in one dimension."""

from __future__ import annotations

from course_lib.specs.lesson_05 import allowed, logsumexp, softmax, vector

EXERCISES = (
    vector.OFFSETS,
    vector.VECTOR_ADD,
    softmax.ROW_SOFTMAX,
    logsumexp.LONG_LOGSUMEXP,
    allowed.ALLOWED_SCORES,
)
