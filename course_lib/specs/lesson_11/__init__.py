"""Exercises of pages."""

from __future__ import annotations

from course_lib.specs.lesson_11 import (
    gather_pages,
    keep_rows,
    page_pool,
    page_waste,
    paged_decode,
    shared_prefix,
)

EXERCISES = (
    page_waste.EXERCISE,
    gather_pages.EXERCISE,
    paged_decode.EXERCISE,
    page_pool.EXERCISE,
    shared_prefix.EXERCISE,
    keep_rows.EXERCISE,
)
