"""Run code that nobody trusts: limits, Landlock, seccomp, a zygote, and frames instead of pickles.

The order to read: `profile` (what a child may do), `zygote` (who starts it), `frame` (how it
talks), `workshop` (how the parent uses it), `student` and `interpreter` (what runs inside).
"""
