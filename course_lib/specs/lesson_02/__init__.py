"""Exercises of lesson 02, the HBM accountant."""

from __future__ import annotations

from course_lib.specs.lesson_02 import exercises

EXERCISES = (*exercises.EXERCISES,)
