"""Exercises of lesson 06, Triton in two dimensions."""
