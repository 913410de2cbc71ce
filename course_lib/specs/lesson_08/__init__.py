"""Exercises of lesson 08, make it fast: one file for each idea."""
