# %% title [markdown]
# # 00 · Start here
#
# **You need:** Python, some NumPy, and the matrix product. No GPU. You do not
# need to know what attention is: lesson 01 starts there.
#
# **You will be able to:** run a lesson, solve an exercise, read what a check
# says, and tell when an answer counts as right.
#
# **Time:** 13 minutes of reading, and 3 for the exercise.

# %% question [markdown]
# ## What this course is about
#
# Language models read text with an operation called *attention*. Written in
# three lines of PyTorch it is correct, and it is slow. FlashAttention computes
# the same answer, faster and in far less memory. In lesson 07 you write
# FlashAttention yourself, as a program for a GPU, and you test it here.
#
# **Why is it faster, if it computes the same?** That is the question of the
# course. The answer is about moving numbers, not about computing them. So this
# course counts bytes.
#
# Here is the whole course in one picture. Q, K and V are what goes in, O is the
# answer. Attention in three lines writes down two more matrices, S and P, far larger
# than these, and fetches them again. FlashAttention does not. Each coloured tile
# travels between the large memory (HBM), drawn here, and the chip that computes,
# and every byte that travels is laid on a tape.
#
# Drag the flag to where you think FlashAttention's tape will end. Then press
# *Play*. You need not understand every word in it yet. (Caches and desks come in
# lesson 02.)

# %% race
from course_lib.widgets import Race

Race(8192, 64, 128, 128)  # N, d, and the tiles' rows: lessons 01 and 04

# %% numbers [markdown]
# You will meet many numbers. Each of them is shown in up to three ways, and we
# always say which one you are looking at:
#
# | word | what it means |
# |---|---|
# | **predicted** | a formula says so (a *model*) |
# | **counted** | a *ledger* watched your own code and added up the bytes it asked for |
# | **measured** | an instrument on real hardware said so; device and sizes are given |

# %% doctor-text [markdown]
# ## Is everything there?
#
# Run the next cell. It looks at this machine and says in plain words what
# works. (In a terminal, `course doctor` says the same.)
#
# A line with `✗` must be fixed first; the arrow below it says how. A line with
# `–` is worth knowing and stops nothing. The last line is the result.

# %% doctor
from course_lib.doctor import diagnose, examine

print(*diagnose(examine()), sep="\n")

# %% doctor-after [markdown]
# A *kernel* is a program for a GPU, *Triton* the language that you write it in from
# lesson 05 on. *Interpreted* is fine: kernels then run in Python, slowly and with the
# same results. (*fp16* and *bf16* are two formats of numbers with 2 bytes.)

# %% rhythm [markdown]
# ## Predict, run, check
#
# Every lesson goes in three steps.
#
# 1. **Predict.** Before a cell shows a result, say what you expect. A wrong
#    guess is worth more than no guess: you remember the surprise.
# 2. **Run.** The cell computes or counts. Nothing is copied from a book.
# 3. **Check.** In the exercise notebook you write a function, and the course
#    tests it on fresh inputs.
#
# A cell that asks you something, or draws a picture, is folded: you see one line,
# and a click on it opens the code. Run it like any other cell.
#
# The first exercise is `echo(x)`: return a **new** array with the numbers of
# `x`. Here is somebody's first try. `np.array([1.0, 2.0])` goes in, and
# `[1. 2.]` comes out:

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
    "The task says: a new array. What does the check say about `return x`?",
    options=["passed", "incorrect", "error"],
)
view

# %% try-view-checked
from course_lib.checking import report_for

report_for(first_try)

# %% reveal-view
view.reveal(
    "incorrect",
    "The numbers are right. But `return x` hands back the same array, so a "
    "later change to the result would change the input as well.",
)

# %% verdicts [markdown]
# ## The six verdicts
#
# A check answers with one of six *verdicts*.
#
# * **Not attempted**: the lines to write are still missing. Every exercise begins
#   like this.
# * **Error**: Python stopped inside your function. You see the message and your own
#   lines, no others. (An error, too: to call the course's own answer, from
#   `course_lib.attention` or `course_lib.kernels`. You are to write it.)
# * **Incorrect**: your function ran to its end and the answer is wrong. The report
#   says on which input, what is wrong, and where it is wrong first. A mistake that many
#   people make gets its name.
# * **Passed**: every input gave the right answer, and the report says what to notice now.
# * **Right here, not on a GPU** and **Cannot run here**: for kernels, from lesson 05 on.
#   The compiler for real GPUs refuses them, or this system has no Triton.
#
# In exercise 0.1 you meet the first two and *passed*. Here is one more *incorrect*
# (`report_for` shows what `check` shows, and writes nothing into your record):


# %% verdict-incorrect
def echo(x):
    return np.zeros_like(x)


report_for(echo)

# %% right [markdown]
# ## When is an answer right?
#
# Computers round. So "equal" is the wrong question for most exercises. First a
# number by hand.
#
# A number in *half precision* (fp16, 2 bytes) keeps about three decimal digits.
# The nearest half-precision number to 1/3 is 0.33325195. The error is about
# 0.00008. Nobody made a mistake there. The format has no better number.

# %% right-by-hand
third = np.float16(1 / 3)
print(f"fp16 has {float(third):.8f}")
print(f"error     {abs(1 / 3 - float(third)):.8f}")

# %% right-picture [markdown]
# In the picture each line, thin or blue, is a number that fp16 has. Between two
# lines there is none. 1/3 falls in such a gap.

# %% right-plot
# @title A picture: 1/3 among the numbers of fp16
from course_lib.figures.half_precision import draw_third

draw_third()


# %% right-rule [markdown]
# Now add thousands of such numbers: the errors add up, or partly cancel, in
# your code and in anybody's. How much error is fair? The course asks somebody you
# would trust: PyTorch.
#
# > **The rule.** Your answer is right if it is as near to the truth as PyTorch's
# > own plain attention is, **times two**, plus a very small number.
#
# * *The truth* is computed in float64, with about 16 digits, from the same inputs.
# * *PyTorch's plain attention* runs in the same format as your code.
# * *Times two*, because your sums may run in another order. Another order rounds
#   differently.
# * The answer must also have the right shape and dtype, and no NaN anywhere.
#
# Here the rule is at work. You do not have to understand attention yet. Look at
# the three numbers.

# %% right-code
import torch

from course_lib.attention import attention_float64
from course_lib.attention.naive_eager import naive_eager
from course_lib.judging.tolerance import allowed_error, as_float64

torch.manual_seed(0)
for dtype in (torch.float32, torch.float16):
    q, k, v = (torch.randn(300, 64, dtype=dtype) for _ in range(3))
    truth, _ = attention_float64(q, k, v)  # float64
    eager = as_float64(naive_eager(q, k, v))  # PyTorch in this dtype
    error = abs(eager - truth).max()
    allowed = allowed_error(truth, eager, str(dtype).removeprefix("torch."))
    print(f"{dtype}: PyTorch is off by {error:.1e},", end=" ")
    print(f"you may be off by {allowed:.1e}")
print(f"the largest true value is {abs(truth).max():.2f}")

# %% right-after [markdown]
# In float32 nearly all of the allowance is the "very small number", 0.00001. In
# float16 it is about a thousandth of the largest true value, here 0.0005: a few
# roundings' worth. Most of the allowance is twice PyTorch's error, 2 · 0.0006. So the
# rule is strict where the format is precise, and fair where it is not.
# Returning zeros, or the average of everything, is off by far more than this.
# Every check of the course is tested against such answers, and they fail.

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
# The record is one file beside these folders. It stays on your machine. If you
# work on Colab, run `progress.export()` at the end of a session and download
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


# %% shown [markdown]
# ## What was shown, and what was not
#
# You saw that this machine is ready, what a check says, and when an
# answer counts as right. You did not see how attention works, and nothing was
# timed: the Race shows bytes.
#
# ## Questions

# %% quiz-verdict
from course_lib import Quiz

Quiz(
    "Your function uses a name that does not exist. Python stops. The verdict is …",
    [
        (
            "incorrect",
            False,
            "This is for functions that finish with a wrong answer.",
        ),
        ("error", True, "You see the message and your own lines."),
        (
            "not attempted",
            False,
            "This is only for lines that were never written.",
        ),
    ],
)

# %% quiz-tolerance
Quiz(
    "Your fp16 answer is off by 0.0009. PyTorch in fp16 is off by 0.0006. Right?",
    [
        ("Yes", True, "Twice PyTorch's own error is allowed: at least 0.0012 here."),
        ("No, PyTorch is better", False, "Twice its error is allowed: 0.0012 at least."),
        (
            "No, only exact answers count",
            False,
            "fp16 has no exact answer to give.",
        ),
    ],
)

# %% quiz-words
Quiz(
    "A ledger watched your code and says: 16 MB were read. This number is …",
    [
        ("predicted", False, "A predicted number comes from a formula."),
        ("counted", True, "A ledger counts what your code asks for."),
        (
            "measured",
            False,
            "A measured number comes from real hardware, by instrument.",
        ),
    ],
)

# %% next [markdown]
# ## Your turn
#
# Open `exercises/00_start_here.ipynb` and do **0.1**. It takes three minutes and
# ends in your first green check.
#
# **Next:** lesson 01 builds attention in three lines. Before it tells you which
# of the three costs most, it asks you.
#
# **To read:**
# [JupyterLab: the interface](https://jupyterlab.readthedocs.io/en/stable/user/interface.html),
# if notebooks are new to you;
# [NumPy: copies and views](https://numpy.org/doc/stable/user/basics.copies.html),
# on why `return x` is not a new array.
