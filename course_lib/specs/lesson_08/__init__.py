"""Exercises of lesson 08, make it fast: one file for each idea."""

from __future__ import annotations

from course_lib.specs.lesson_08 import counts, split, tiles

EXERCISES = (tiles.CHOOSE, counts.COUNT, split.SPLIT)
