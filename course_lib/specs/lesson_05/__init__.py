"""Exercises of lesson 05, Triton in one dimension."""

from __future__ import annotations

from course_lib.specs.lesson_05 import exercises

EXERCISES = (*exercises.EXERCISES,)
