"""Notebook files: how they are built from their sources, and how commands read and change them."""
