"""Exercises of lesson 03, online softmax by hand."""
