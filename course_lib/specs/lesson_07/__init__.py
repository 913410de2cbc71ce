"""Exercises of lesson 07, FlashAttention in Triton: four steps, one look back, an empty cell."""

from __future__ import annotations

from course_lib.specs.lesson_07 import kernels, weights

EXERCISES = (*kernels.STEPS, weights.EXERCISE, kernels.FROM_SCRATCH)
