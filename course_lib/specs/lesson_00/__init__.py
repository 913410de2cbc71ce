"""Exercises of lesson 00, start here."""
