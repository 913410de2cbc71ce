"""Exercises of lesson 04, tiles: one file for each idea."""

from __future__ import annotations

from course_lib.specs.lesson_04 import bounds, classify, loads, program, tiled, window

EXERCISES = (
    bounds.EXERCISE,
    tiled.ONE_Q_TILE,
    tiled.ALL_Q_TILES,
    classify.EXERCISE,
    loads.EXERCISE,
    program.EXERCISE,
    window.EXERCISE,
)
