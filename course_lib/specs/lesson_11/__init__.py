"""Exercises of pages."""
