"""Exercises of lesson 00, start here."""

from __future__ import annotations

from course_lib.specs.lesson_00 import exercises

EXERCISES = (*exercises.EXERCISES,)
