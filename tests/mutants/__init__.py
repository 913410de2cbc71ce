"""Rewrite right submissions: into mutants, which must fail, and into other right ones, which pass.

`make mutants` runs them all (`__main__.py`); the suite runs a few (`test_mutants.py`).
"""
