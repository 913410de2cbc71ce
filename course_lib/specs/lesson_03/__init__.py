"""Exercises of lesson 03, online softmax by hand."""

from __future__ import annotations

from course_lib.specs.lesson_03 import by_hand, exposing, merge, streams

EXERCISES = (
    by_hand.BY_HAND,
    streams.STREAM_DENOMINATOR,
    streams.STREAM_AVERAGE,
    merge.MERGE,
    exposing.EXPOSING_INPUTS,
)
