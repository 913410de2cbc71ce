"""Exercises of lesson 05, Triton in one dimension."""
