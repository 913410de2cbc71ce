"""Exercises of lesson 06, Triton in two dimensions."""

from __future__ import annotations

from course_lib.specs.lesson_06 import copy_tiles, on_a_gpu, products, stairs

EXERCISES = (
    copy_tiles.COPY_TILES,
    products.TILE_SCORES,
    products.MATMUL,
    on_a_gpu.WHICH_FAIL,
    on_a_gpu.MENDED_TOTAL,
    stairs.TURNED_STAIRS,
)
