"""Exercises of lesson 06, Triton in two dimensions."""

from __future__ import annotations

from course_lib.specs.lesson_06 import exercises

EXERCISES = (*exercises.EXERCISES,)
