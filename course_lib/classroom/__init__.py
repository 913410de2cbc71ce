"""Grading a class: collect submissions, examine each in the sandbox, keep records, convert them."""
