"""Exercises of lesson 01, naive attention."""

from __future__ import annotations

from course_lib.specs.lesson_01 import three_lines, trips

EXERCISES = (trips.PREDICTION, three_lines.IN_NUMPY, trips.TRIPS, three_lines.IN_TORCH)
