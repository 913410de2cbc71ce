"""Exercises of serving."""
