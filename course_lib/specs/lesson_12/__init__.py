"""Exercises of serving."""

from __future__ import annotations

from course_lib.specs.lesson_12 import choose_backend, int8_cache, latent_decode, next_batch

EXERCISES = (
    latent_decode.EXERCISE,
    int8_cache.EXERCISE,
    next_batch.EXERCISE,
    choose_backend.EXERCISE,
)
