"""Exercises of decode."""
