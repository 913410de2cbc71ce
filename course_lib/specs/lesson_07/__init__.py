"""Exercises of lesson 07, FlashAttention in Triton: four steps, one look back, an empty cell."""
