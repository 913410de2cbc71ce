"""The pictures and tables of the lessons, one idea a file; a finding is computed from the numbers.

A function gets the numbers that the lesson has, returns a figure or a table, and draws nothing that
it was not given or did not read from a record.
"""
