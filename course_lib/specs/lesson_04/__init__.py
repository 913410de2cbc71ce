"""Exercises of lesson 04, tiles: one file for each idea."""
