"""Exercises of lesson 02, the HBM accountant."""
