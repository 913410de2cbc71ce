"""Exercises of decode."""

from __future__ import annotations

from course_lib.specs.lesson_10 import (
    append_token,
    attention_intensity,
    decode_splits,
    merge_splits,
    packed_decode,
    ragged_decode,
    split_decode,
    tree_decode,
)

EXERCISES = (
    attention_intensity.EXERCISE,
    append_token.EXERCISE,
    split_decode.EXERCISE,
    packed_decode.EXERCISE,
    decode_splits.EXERCISE,
    merge_splits.EXERCISE,
    ragged_decode.EXERCISE,
    tree_decode.EXERCISE,
)
