"""Exercises of lesson 01, naive attention."""
