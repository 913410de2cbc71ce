# %% title [markdown]
# # 00 · Start here
#
# **You need:** Python, some NumPy, and the matrix product. No GPU. You do not
# need to know what attention is: lesson 01 starts there.
#
# **You will be able to:** run a lesson, solve an exercise, and read what a check
# says.
#
# **Time:** 10 minutes of reading, and 3 for the exercise.

# %% question [markdown]
# ## What this course is about
#
# Language models read text with an operation called *attention*. Written in
# three lines of PyTorch, the Python library in which most models are written, it is
# correct, and it is slow. FlashAttention computes
# the same answer, faster and in far less memory. In lesson 07 you write
# FlashAttention yourself, as a program for a GPU, and you test it here.
#
# **Why is it faster, if it computes the same?** That is the question of the
# course. The answer is about moving numbers, not about computing them. So this
# course counts bytes.
#
# Here is the whole course in one picture. Q, K and V are what goes in, O is the
# answer. Attention in three lines writes down two more matrices, S and P, far larger
# than these, and fetches them again. FlashAttention does not. Each coloured square, a
# *tile* (some rows of a matrix), travels between the large memory (HBM), drawn here,
# and the chip that computes, and every byte that travels is laid on a tape.
#
# This page is made of *cells*. Click on the one below and press **Shift + Enter**: it
# runs, and the next cell is chosen. Do that with every cell, from top to bottom.
#
# Then drag the flag to where you think FlashAttention's tape will end, and press
# *Play*. (N is the length of the text. Caches and shared memory come in lesson 02.)

# %% race
from course_lib.widgets import Race

Race(8192, 64, 128, 128)  # N; d comes in lesson 01, the tiles' rows in 04

# %% doctor-text [markdown]
# ## Is everything there?
#
# Run the next cell. It looks at this machine and says in plain words what
# works.
#
# A line with `✗` must be fixed first; the arrow below it says how. A line with
# `–` is worth knowing and stops nothing. The last line is the result.

# %% doctor
from course_lib.doctor import diagnose, examine

print(*diagnose(examine()), sep="\n")

# %% doctor-after [markdown]
# A *kernel* is a program for a GPU, *Triton* the language that you write it in from
# lesson 05 on. *Interpreted* is fine: kernels then run in Python, slowly and with the
# same results. One format of numbers is the exception, *bf16*: there the course takes
# *fp16*. (Both have 2 bytes a number.)

# %% first-check [markdown]
# ## Your first check, now
#
# Open `exercises/00_start_here.ipynb` and do **0.1**. It takes three minutes and
# ends in a green check. Then come back.

# %% rhythm [markdown]
# ## Predict, run, check
#
# Every lesson goes in three steps.
#
# 1. **Predict.** Before a cell shows a result, say what you expect. A wrong
#    guess is worth more than no guess: you remember the surprise.
# 2. **Run.** The cell computes or counts, or reads what was measured on a GPU.
# 3. **Check.** In the exercise notebook you write a function, and the course
#    tests it on fresh inputs.
#
# A cell that asks you something, or draws a picture, is folded: you see one line,
# and a click on it opens the code. Run it like any other cell.
#
# Try it with somebody's first answer to 0.1. `np.array([1.0, 2.0])` goes in, and `[1. 2.]`
# comes out:

# %% try-view
import numpy as np


def echo(x):
    return x


first_try = echo
print(first_try(np.array([1.0, 2.0])))

# %% predict-view
from course_lib import Predict

view = Predict(
    "0-view",
    "What does the check of 0.1 say about this `echo`?",
    options=["passed", "incorrect", "error"],
)
view

# %% try-view-checked
from course_lib.checking import report_for

report_for(first_try)

# %% reveal-view
view.reveal(
    "incorrect",
    "The numbers are right, and the task says: a new array. `return x` hands back the same "
    "one, so a later change to the result would change the input as well.",
)

# %% verdicts [markdown]
# ## The verdicts
#
# | verdict | it says |
# |---|---|
# | not attempted | the lines to write are still missing: so every exercise begins |
# | error | Python stopped inside your function, or it called the course's own code for the answer |
# | incorrect | the answer is wrong: on which input, where first, and, of a mistake that many make, its name |
# | passed | every input gave the right answer |
# | right here, not on a GPU | for kernels, from lesson 05 on: the answers are right, the compiler for GPUs refuses it |
# | cannot run here | for kernels: this system has no Triton |
#
# (Computers round, so right is not "equal". Lesson 01 says how much error is fair.)

# %% numbers [markdown]
# ## Three kinds of numbers
#
# You will meet many numbers, of three kinds, and we say which one you are looking at:
#
# | word | what it means |
# |---|---|
# | **predicted** | a formula says so (a *model*, or a *bound*: the least or the most that is possible) |
# | **counted** | a *ledger* watched code run and added up the bytes it asked for |
# | **measured** | an instrument on real hardware said so; device and sizes are given |
#
# (*Nominal* is what a GPU's vendor says of it.)

# %% map [markdown]
# ## Where everything is
#
# | place | what it holds |
# |---|---|
# | `notebooks/` | the lessons, like this one: read and run |
# | `exercises/` | one notebook per lesson, with blanks: write and check |
# | `solutions/` | the same, solved: look *after* you tried |
# | `course_lib/` | all the code behind it. You can read every file that judges you |
# | `GLOSSARY.md` | every special word, in one or two lines |
# | `course_progress.json` | your record: predictions, attempts, hints |
#
# The record is one file beside these folders. If you work on Colab, run `progress.export()` at the end of a session and download
# the file. `progress.load(file)` reads it back.
#
# `hint(echo)` prints a hint for an exercise, one more each time, three at most.
# The first names the idea, the second the step, the third almost the line.
#
# `progress()` shows what is done, what comes next, and what lies ahead, in minutes
# of exercises:

# %% progress
from course_lib import progress, store

print("Your record is kept in", store.path().name)
progress()

# %% next [markdown]
# ## What comes next
#
# No green check yet? `exercises/00_start_here.ipynb`, **0.1**.
#
# Lesson 01 builds attention in three lines. Before it tells you which of the three costs most, it
# asks you.
#
# **To read:**
# [JupyterLab: the interface](https://jupyterlab.readthedocs.io/en/stable/user/interface.html),
# if notebooks are new to you;
# [NumPy: copies and views](https://numpy.org/doc/stable/user/basics.copies.html),
# on why `return x` is not a new array.
