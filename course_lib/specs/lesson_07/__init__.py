"""Exercises of lesson 07, FlashAttention in Triton."""

from __future__ import annotations

from course_lib.specs.lesson_07 import exercises

EXERCISES = (*exercises.EXERCISES,)
