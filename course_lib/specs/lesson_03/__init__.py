"""Exercises of lesson 03, online softmax by hand."""

from __future__ import annotations

from course_lib.specs.lesson_03 import exercises

EXERCISES = (*exercises.EXERCISES,)
