"""Exercises of lesson 09, the backward pass: one file for each idea."""

from __future__ import annotations

from course_lib.specs.lesson_09 import (
    by_hand,
    delta_and_dv,
    dropout,
    function,
    kernels,
    tile_gradients,
)

EXERCISES = (
    by_hand.BY_HAND,
    delta_and_dv.DELTA_AND_DV,
    tile_gradients.TILE_GRADIENTS,
    kernels.DK_AND_DV,
    kernels.DQ,
    function.ATTENTION,
    dropout.DROPPED_ATTENTION,
)
