"""Exercises of lesson 02, the HBM accountant."""

from __future__ import annotations

from course_lib.specs.lesson_02 import audit, least_bytes, reduction, regime

EXERCISES = (least_bytes.LEAST_BYTES, reduction.REDUCTION, regime.REGIME, audit.AUDIT_CARDS)
