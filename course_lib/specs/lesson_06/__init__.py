"""Exercises of lesson 06, Triton in two dimensions."""

from __future__ import annotations

from course_lib.specs.lesson_06.exercises import EXERCISES

__all__ = ["EXERCISES"]
