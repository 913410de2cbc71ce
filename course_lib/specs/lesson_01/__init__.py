"""Exercises of lesson 01, naive attention."""

from __future__ import annotations

from course_lib.specs.lesson_01 import exercises

EXERCISES = (*exercises.EXERCISES,)
