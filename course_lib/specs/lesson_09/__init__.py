"""Exercises of lesson 09, the backward pass: one file for each idea."""
