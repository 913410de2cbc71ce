# %% title [markdown]
# # 03 · Online softmax by hand
#
# **You need:** lesson 01 (the three lines of attention), paper, a calculator.
# No GPU and no Triton.
#
# **You will be able to:** say why softmax seems to need the whole row; walk
# through a row in piles with three notes and get the right answer; name the
# mistake behind a wrong number; merge two halves of a row in any order.
#
# **Time:** 41 minutes for this lesson, 58 for its five exercises.

# %% question [markdown]
# ## The question
#
# Lesson 02 ended with a bound. The least that attention could move is Q, K, V
# and O, once each. To get near it, S, the N × N matrix of scores, must never be
# written to memory.
#
# So each small part of S must be made, used and thrown away. Nobody may come
# back to it later.
#
# The two matrix products allow that: a sum can be added up part by part.
# Softmax stands between them. **Can softmax work on parts of a row?**

# %% setup-numpy
import numpy as np

from course_lib import Predict, Quiz
from course_lib.style.table import Table
from course_lib.widgets import TileStepper


# %% obstacle [markdown]
# ## The obstacle
#
# Take one row of scores, `[1, 3, 2, 5]`: one query, four keys. Each key has a
# value: 10, 20, 30, 40. Attention returns the average of the values, weighted
# by the softmax of the scores:
#
# weight of a key = exp(score − m) / ℓ
#
# - **m** is the largest score of the row.
# - **ℓ** is the sum of all exp(score − m).
#
# Both belong to the *whole* row. Now suppose that you may see only `[1, 3]`.

# %% predict-weight
p_weight = Predict(
    "3-weight",
    "In [1, 3] alone, 3 has weight 0.88. What is it in [1, 3, 2, 5]?",
    options=["still 0.88", "about 0.44", "about 0.11"],
)
p_weight


# %% softmax
def softmax(s):
    """Softmax of one row. s: (n,)"""
    e = np.exp(s - s.max())  # (n,)
    return e / e.sum()


row_s = np.array([1.0, 3.0, 2.0, 5.0])  # (4,)
row_v = np.array([10.0, 20.0, 30.0, 40.0])  # (4,)

print("seen alone   ", softmax(row_s[:2]).round(5))
print("in the whole ", softmax(row_s).round(5))

# %% reveal-weight
p_weight.reveal(
    "about 0.11",
    "5 takes most of the weight. Every weight that we had is wrong.",
)

# %% hurts [markdown]
# You cannot subtract a maximum that you have not found. You
# cannot divide by a sum that you have not finished. Here are three ways out
# that people try. Read the numbers.

# %% three-ways-out
with np.errstate(over="ignore", invalid="ignore"):
    truth = softmax(row_s) @ row_v
    halves = softmax(row_s[:2]) @ row_v[:2], softmax(row_s[2:]) @ row_v[2:]
    big = np.exp(row_s + 1000)
    print(f"the truth                        {truth:.3f}")
    print(f"average each half, then average  {sum(halves) / 2:.3f}")
    print(f"no maximum, scores + 1000        {big @ row_v / big.sum():.3f}")

# %% three-ways-say [markdown]
# 1. *Average the averages.* It gives both halves the same say. The second half
#    holds the score 5 and deserves far more.
# 2. *Do without the maximum.* Adding 1000 to every score changes no weight.
#    But exp(1000) is too large for a float. The result is infinity divided by
#    infinity, which is NaN ("not a number"). The maximum is not optional.
# 3. *Go through the row twice:* once for m and ℓ, once for the average. That
#    is right. But every score is then computed twice, and K is read twice.
#
# So none of the three is what we want. "Softmax needs the whole row" is right.
# Softmax needs the whole row **in the end**.
# Does it need the whole row **at once**?

# %% metaphor [markdown]
# ## The picture: exam papers in piles, three sticky notes
#
# You mark exams. The stack is too tall for your desk. Papers come in small
# piles; you hand each pile back and never see it again. The rule is: each
# paper counts exp(its mark − the best mark *of the whole stack*). You do not know
# the best mark until the last pile. On each paper stands a *value* besides. You want the
# average of the values, and a paper's value weighs as much as the paper counts.
#
# You keep three sticky notes:
#
# | note | what it says |
# |---|---|
# | **m** | the best mark so far |
# | **ℓ** | how much all papers so far count together, measured against m |
# | **O** | the sum of (what a paper counts × its value), measured against m |
#
# A pile comes. If its best mark does not beat m, add the pile to ℓ and O.
# If it does beat m, then ℓ and O were measured against a best mark that was too
# low. **Multiply both by the same number, one that shrinks them, then add the pile.** (This is
# called *rescaling*.) Write the new m. At the very end, and only then, divide O
# by ℓ.
#
# A paper is a key, its mark is its score, a pile is a block of keys. (Pictures and
# later lessons call a pile a *tile*.)

# %% by-hand-1 [markdown]
# ## A number by hand
#
# **First pile: scores 1 and 3, values 10 and 20.** The best so far is m = 3.
# The score 1 counts exp(1 − 3), the score 3 counts exp(0) = 1.

# %% pile-one
m1 = 3.0
p = np.exp(row_s[:2] - m1)  # (2,) what each paper counts
l1 = p.sum()
o1 = p @ row_v[:2]
print("p", p.round(5), f"  m = {m1:.0f}   l = {l1:.5f}   O = {o1:.5f}")

# %% by-hand-2 [markdown]
# **Second pile: scores 2 and 5.** Now 5 beats 3. All that stands on the notes
# ℓ and O was measured against 3.

# %% predict-alpha
p_alpha = Predict(
    "3-alpha",
    "m goes from 3 to 5. By what number must the old ℓ be multiplied?",
)
p_alpha

# %% pile-two
m2 = 5.0
alpha = np.exp(m1 - m2)  # the one number that shrinks the past
p = np.exp(row_s[2:] - m2)  # (2,)
l2 = alpha * l1 + p.sum()
o2 = alpha * o1 + p @ row_v[2:]
print(f"alpha = {alpha:.5f}   p", p.round(5))
print(f"m = {m2:.0f}   l = {l2:.5f}   O = {o2:.5f}")
print(f"O / l = {o2 / l2:.5f}")

# %% reveal-alpha
p_alpha.reveal(
    float(np.exp(-2)),
    "exp(3 - 5). The old papers fall behind by 2, so they count exp(-2) of "
    "what they did. The past may shrink; it never grows. (That exp(-2) was a weight of the "
    "first pile, too, is chance: 1 lies 2 below 3.)",
)

# %% by-hand-check [markdown]
# And now the whole row on the desk at once.

# %% at-once
at_once = np.exp(row_s - row_s.max())  # (4,)
print("p", at_once.round(5))
print(f"l = {at_once.sum():.5f}   O / l = {at_once @ row_v / at_once.sum():.5f}")

# %% by-hand-equal [markdown]
# To five digits the same ℓ and the same answer, 36.881. We never had four scores on the
# desk.
#
# ## Why one number is enough
#
# Only now the algebra. Look at one old paper with score s:
#
# exp(s − m_old) · exp(m_old − m_new) = exp(s − m_new)
#
# Its old count times **alpha = exp(m_old − m_new)** is its new count. The
# factor does not contain s. So it is the same for every old paper, two or two
# million, and it can be applied to their *sum*. ℓ is such a sum. O is such a
# sum too. That is the whole trick.
#
# ## The code: ten lines


# %% online-softmax
def online_average(scores, values, pile):
    """Softmax-weighted average, seeing `pile` keys at a time.

    scores: (n,), values: (n, d), returns (d,).
    """
    m, l_sum, o = -np.inf, 0.0, np.zeros(values.shape[1])
    for j in range(0, len(scores), pile):
        s, v = scores[j : j + pile], values[j : j + pile]  # (b,), (b, d)
        m_new = max(m, s.max())
        alpha = np.exp(m - m_new)  # shrinks the past; 0 at the start
        p = np.exp(s - m_new)  # (b,); weights that are not divided by their sum yet
        l_sum = alpha * l_sum + p.sum()
        o = alpha * o + p @ v  # (d,)
        m = m_new
    return o / l_sum  # divide once


# %% code-read [markdown]
# Match each line to a sticky note. Two things to see:
#
# - m starts at −inf, "no mark yet". In the first pile alpha = exp(−inf) = 0.
#   There is no past, and 0 times no past is 0.
# - `values` has a row of d numbers for each key, so O is a row of d numbers.
#   One alpha shrinks them all.

# %% run-it
scores = np.array([1.0, 3.0, 2.0, 5.0])  # (4,)
values = np.array([[10.0], [20.0], [30.0], [40.0]])  # (4, 1)
for pile in (1, 2, 3, 4):
    print("pile of", pile, online_average(scores, values, pile))

# %% instrument [markdown]
# ## The instrument: step through it
#
# Each press runs one [line](#fac-stepper-code). Watch which
# [notes](#fac-stepper-notes) change: ℓ and O are stacks, and each pile has its
# own part of them. When the second pile arrives, say alpha aloud before you
# press. The dashed outline is how tall the old stack was.
#
# Then make it your own: drag a [score](#fac-stepper-tiles) up or down, or drag
# a pile's name to another place. Does the end change? The grey field is all that an
# average can be. (A click on a link marks the part that it speaks of.)

# %% stepper-first
first = TileStepper.by_hand([[1, 3], [2, 5]], values=[[10, 20], [30, 40]])
first

# %% other-order [markdown]
# **Now the other order:** let the pile `[2, 5]` come first (the stepper can turn the order
# round). The best mark comes at once. What is alpha when `[1, 3]` arrives?

# %% museum [markdown]
# ## Wrong numbers that tell you their mistake
#
# Five people did this by hand, and each got something wrong. Before you look:

# %% predict-no-rescale
p_o = Predict(
    "3-no-rescale-o",
    "One person shrinks ℓ but forgets to shrink O. The values are 10, 20, 30 "
    "and 40. What comes out in the order [1, 3], [2, 5]?",
    options=["below 10", "between 10 and 40", "above 40"],
)
p_o

# %% wrong-numbers
mistakes = {
    "right": "right",
    "no_rescale_o": "O is not shrunk",
    "no_rescale_l": "ℓ is not shrunk",
    "neither": "nothing is shrunk",
    "inverse": "alpha upside down",
    "own_max": "each pile its own max",
}
other = TileStepper.by_hand([[2, 5], [1, 3]], values=[[30, 40], [10, 20]])
rows = [(says, first.streamed(name)[0], other.streamed(name)[0])
        for name, says in mistakes.items()]  # fmt: skip
names = ("mistake", "[1,3] [2,5]", "[2,5] [1,3]")
Table(names, rows, dict.fromkeys(names, ".2f"))

# %% reveal-no-rescale
p_o.reveal(
    "above 40",
    "An average can never lie above its largest value. If yours does, O and ℓ "
    "are measured against different maxima.",
)

# %% museum-say [markdown]
# Read the table by columns.
#
# - In the first order the maximum rises. Four mistakes show, each with a
#   number of its own. *Each pile its own max* is invisible: the last pile holds
#   the maximum, so its own maximum is the right one.
# - In the other order the maximum never rises after the first pile, so alpha is
#   1 and all mistakes about alpha vanish. Now *each pile its own max* shows.
# - 28.76 stands in both columns, for two different mistakes. In both, each pile
#   stays measured against its own best mark.
#
# **One example is never enough. Always try both orders.** (In the instrument above you
# can [choose a mistake](#fac-stepper-mistake) and see it run beside the right walk. It knows
# one more: *Where m starts*, below.)

# %% exact-question [markdown]
# ## Is it exact, or an approximation?
#
# Is the streamed number the same, nearly the same, or an approximation? Predict, compute,
# decide.

# %% predict-exact
p_exact = Predict(
    "3-exact",
    "A row of 4096 random scores, piles of 64, against the whole row at once:",
    options=["always equal to the last bit", "equal up to rounding", "off by 1 %"],
)
p_exact


# %% cmp
def compare(name, got, want):
    """One line: the same numbers, or how far apart?"""
    gap = np.abs(got - want).max()
    says = "equal to the last bit" if gap == 0 else f"largest difference {gap:.1e}"
    print(f"{name:28} {says}")


def whole_row(scores, values):
    """All keys at once. (n,), (n, d) -> (d,)"""
    return softmax(scores) @ values


# %% cmp-floats
compare("[1, 3 | 2, 5], ℓ", l2, at_once.sum())
compare("[1, 3 | 2, 5], O / ℓ", o2 / l2, at_once @ row_v / at_once.sum())
rng = np.random.default_rng(3)
row, val = rng.normal(size=4096), rng.normal(size=(4096, 8))
mixed = rng.permutation(4096)
for dtype in (np.float64, np.float32):
    s, v = row.astype(dtype), val.astype(dtype)
    want = whole_row(s, v)
    kind = dtype.__name__
    compare(f"{kind}, piles of 64", online_average(s, v, 64), want)
    compare(f"{kind}, whole row shuffled", whole_row(s[mixed], v[mixed]), want)

# %% cmp-say [markdown]
# Not equal to the last bit, not even in our row of four. But look at the lines "whole row
# shuffled". There the *whole row* is averaged at once, with its keys in another order. It
# differs by about as much. Floats round after every addition, so any change of
# order changes the last digits. Streaming changes the order, and that is all.
#
# In numbers that do not round it is the same to the last digit. Python's `Fraction` is exact;
# the folded cell walks in fractions (2 in the place of e, and m starts at the first score,
# as no fraction is −inf):

# %% cmp-fractions folded=true
# @title For the curious: the walk in fractions, against the whole row at once
from fractions import Fraction


def two_to(x):
    return Fraction(2) ** x


def stream_fractions(scores, values, pile):
    m, l_sum, o = scores[0], Fraction(0), Fraction(0)
    for j in range(0, len(scores), pile):
        s, v = scores[j : j + pile], values[j : j + pile]
        m_new = max(m, *s)
        alpha = two_to(m - m_new)
        p = [two_to(x - m_new) for x in s]
        l_sum = alpha * l_sum + sum(p)
        o = alpha * o + sum(a * b for a, b in zip(p, v))
        m = m_new
    return o / l_sum


rng = np.random.default_rng(3)
whole = [int(x) for x in rng.integers(-20, 20, 100)]
worth = [int(x) for x in rng.integers(0, 100, 100)]
streamed = stream_fractions(whole, worth, 7)
one_pile = sum(two_to(x) * y for x, y in zip(whole, worth))
one_pile /= sum(two_to(x) for x in whole)
print("streamed == at once:", streamed == one_pile)

# %% reveal-exact
p_exact.reveal(
    "equal up to rounding",
    "Exact in algebra: the fractions are equal, digit by digit. In floats, "
    "equal up to rounding, like every other order of the same additions.",
)

# %% start [markdown]
# ## Where m starts
#
# Why −inf and not 0? Softmax does not change if all scores move together. So
# the answer must stay 36.881 when every score moves down. A walk that starts
# at m = 0 is tried here, in float32, the type of the notes in a real kernel.


# %% start-at-zero folded=true
# @title A walk that starts at m = 0, with all scores moved down
def starts_at_zero(scores, values, pile):
    """The ten lines with m = 0 in the first; the mistake to look at."""
    m, l_sum, o = np.zeros((), scores.dtype), 0.0, 0.0
    for j in range(0, len(scores), pile):
        s, v = scores[j : j + pile], values[j : j + pile]
        m_new = max(m, s.max())
        alpha, p = np.exp(m - m_new), np.exp(s - m_new)
        l_sum, o, m = alpha * l_sum + p.sum(), alpha * o + p @ v, m_new
    return o / l_sum


with np.errstate(invalid="ignore", under="ignore"):
    for shift in (0, -30, -150, -800):
        low = scores + shift
        f32 = starts_at_zero(low.astype(np.float32), values, 2)
        print(
            f"scores {shift:+5d}:  float32 {f32}   float64 "
            f"{starts_at_zero(low, values, 2)}   "
            f"from -inf {online_average(low, values, 2)}"
        )

# %% start-say [markdown]
# With scores near −30 the mistake is invisible. That is what makes it
# dangerous: it passes a small test. At −150 every exp(score − 0) is too small
# for float32, ℓ is 0, and 0 / 0 is NaN. In float64 the same happens at −800.
#
# ## Divide once
#
# Why not keep an average on the third note, and divide after each pile? Then O is an average
# and no longer a sum, and alpha · O + p @ v adds an average to a sum. So: divide once, after
# the last pile.

# %% merge [markdown]
# ## Two people, one row: merge
#
# Let two people share the stack. Each walks through some of the piles and ends
# with three notes (m, ℓ, O), together a *state*. Can they make one state of the
# two?
#
# Yes, with the same trick on both sides. The common m is the larger one. Each
# side is multiplied by its own exp(m_side − m). Then add. Here is the course's
# version: `from_tile` makes the state of one pile (*tile* is its word for it), `merge` joins
# two, `finalize` divides.

# %% merge-by-hand
from course_lib.attention.online_softmax import OnlineState

a = OnlineState.from_tile(scores[:2], values[:2])
b = OnlineState.from_tile(scores[2:], values[2:])
both = {"a": a, "b": b, "a + b": a.merge(b), "b + a": b.merge(a)}
for name, x in both.items():
    print(f"{name:6} m = {x.m:.0f}   l = {x.l_sum:.5f}   O = {x.o.round(3)}")

# %% shuffle
from functools import reduce

cuts = range(0, 4096, 64)  # row: (4096,), val: (4096, 8)
states = [OnlineState.from_tile(row[j : j + 64], val[j : j + 64]) for j in cuts]
empty = OnlineState.identity((), 8)  # no keys yet: m = -inf, l_sum = 0, O = 8 zeros
shuffled = [states[i] for i in np.random.default_rng(3).permutation(64)]
left, right = reduce(OnlineState.merge, states[:32]), reduce(OnlineState.merge, states[32:])
want = whole_row(row, val)
for name, state in (
    ("one after the other", reduce(OnlineState.merge, states, empty)),
    ("shuffled", reduce(OnlineState.merge, shuffled, empty)),
    ("each half, then the two", left.merge(right)),
):
    compare(name, state.finalize()[0], want)

# %% monoid [markdown]
# Three properties, up to rounding, each worth a name:
#
# - **associative:** (a + b) + c = a + (b + c), so you may group as you like;
# - **commutative:** a + b = b + a, so you may order as you like;
# - **identity:** the state (−inf, 0, 0), no keys at all, changes nothing.
#
# Something with these three is called a *commutative monoid*. Sums are one,
# maxima are one, and now attention is one. Two methods use nothing else:
#
# - *Streaming* (lesson 04, and your kernel in 07) merges pile after pile.
# - *Splitting the keys* (lesson 10) gives parts of them to different workers and merges
#   their states.

# %% masked [markdown]
# ## A pile with no keys
#
# Sometimes a key must not count: it lies in the future, or it is padding. Its
# score is set to −inf, and exp(−inf) = 0. That is *masking*. Note that a score
# of 0 would not do: exp(0 − m) is not 0.
#
# What if a **whole pile** is masked, and it is the first?

# %% predict-masked
p_masked = Predict(
    "3-masked",
    "m = -inf and the pile's maximum is -inf. What is exp(m - m_new)?",
    options=["0", "1", "NaN"],
)
p_masked

# %% masked-run
with np.errstate(invalid="ignore"):
    print("exp(-inf - (-inf)) =", np.exp(-np.inf - (-np.inf)))
    hidden = np.array([-np.inf, -np.inf, 2.0, 5.0])  # (4,)
    print("our ten lines:", online_average(hidden, values, 2))

c = OnlineState.from_tile(hidden[:2], values[:2])
print("the masked pile:", c)
print("the course's:", c.merge(b).finalize()[0])

# %% reveal-masked
p_masked.reveal(
    "NaN",
    "Infinity minus infinity has no value. And NaN spreads: NaN times "
    "anything, plus anything, is NaN. A masked first pile ruins the row.",
)

# %% masked-say [markdown]
# The way out: as long as no key was seen, subtract 0 in the place of m_new, in p and in alpha.
# Then exp(−inf − 0) = 0, which is what "no key" should count. The note m itself stays −inf.
# A pile that is masked in the *middle* is no problem: m is finite by then.

# %% many-rows [markdown]
# ## From one row to a block of rows
#
# A kernel handles a block of queries at once. Every query has notes of its own:
# m and ℓ become columns of numbers, O becomes a small matrix. Not one line
# changes its meaning.
#
# Two rows by hand first. Row A has the scores 1, 3 and then 2, 5; row B has 4, 0
# and then 1, 2. Each key has a value of two numbers. The first pile is done, the
# second arrives. Only row A meets a larger score, so each row needs an alpha of
# its own.

# %% two-rows
s1, s2 = np.array([[1.0, 3], [4, 0]]), np.array([[2.0, 5], [1, 2]])  # (2, 2)
m = s1.max(axis=1)  # (2,): [3, 4]
o = np.exp(s1 - m[:, None]) @ np.array([[10.0, 1], [20, 2]])  # (2, 2), not divided yet

m_new = np.maximum(m, s2.max(axis=1))  # (2,): [5, 4]
alphas = np.exp(m - m_new)  # (2,)
print("alphas:", alphas.round(3))

# %% predict-column
p_column = Predict(
    "3-column",
    "o is (2, 2): a row of it for each query. alphas is (2,). What does o * alphas multiply by "
    "alphas[0] = 0.135?",
    options=["the first row", "the first column", "nothing: NumPy refuses"],
)
p_column

# %% column
print("o:", o.round(2), "o * alphas:", (o * alphas).round(2), sep="\n")
print("o * alphas[:, None]:", (o * alphas[:, None]).round(2), sep="\n")

# %% reveal-column
p_column.reveal(
    "the first column",
    "NumPy lines shapes up from the right: (2,) stands over the columns, and nobody complains. "
    "alphas[:, None] is a column, (2, 1): one number for each row.",
)

# %% block-text [markdown]
# What belongs to a row (m, ℓ, alpha, the division) meets a matrix as a column, with
# `[:, None]`. What belongs to a key (whether it is masked, say) meets it as a row, with
# `[None, :]`. The course's class does all of it: `from_tile` takes the scores of a block of
# queries as well, and lesson 04 begins with that.

# %% lse [markdown]
# `finalize` returns a second thing, the *log-sum-exp*: `lse = m + ln ℓ`, one
# number per row. Lesson 07 says what it is for.

# %% count [markdown]
# ## Count what was won, and what was not
#
# What must be kept at one time for a row of n keys, besides the inputs? All at once: its n
# scores and O, **n + d** numbers. In piles: one pile, O, m and ℓ, **pile + d + 2**. That does
# not grow with n. And how many exponentials are computed? Read it off the ten lines.

# %% predict-exps
p_exps = Predict(
    "3-exps",
    "8192 keys in piles of 64. Against the whole row at once, it computes",
    options=["fewer exponentials", "as many", "a few more"],
)
p_exps

# %% reveal-exps
p_exps.reveal(
    "a few more",
    "8192, and one alpha for each of the 128 piles. Online softmax saves no "
    "arithmetic. It saves room, and so it saves trips to memory.",
)

# %% shown [markdown]
# ## What was shown, and what was not
#
# **Shown.** Softmax and the weighted average of a row can be computed pile by
# pile, with three notes. It is exact in algebra and equal up to rounding in
# floats. The notes merge in any order. The number of things kept does not grow
# with N.
#
# **Not shown.** That it is faster. Nothing here was timed, and the arithmetic
# went up a little. What it does to memory traffic depends on who reads which
# tile how often. That is lesson 04.

# %% questions [markdown]
# ## Questions

# %% quiz-impossible
Quiz(
    "All values lie between 0 and 1. Your streamed average is 1.7. Which is the likeliest?",
    options=[
        ("Rounding.", False, "Rounding changes the last digits."),
        ("O was not shrunk when m rose.", True, "ℓ shrank and O did not, so O / ℓ is too large."),
        ("ℓ was not shrunk when m rose.", False, "Then ℓ is too large and the answer too small."),
    ],
)

# %% quiz-hand
Quiz(
    "Scores 0 | 0 in two piles of one, values 6 and 10. What is ℓ at the end?",
    answer=2,
    explanation="m stays 0, alpha is 1, each pile counts exp(0) = 1. The answer is 16 / 2 = 8.",
)

# %% quiz-parallel
Quiz(
    "Four devices each walk through a quarter of the keys. What must they send "
    "to one another for the exact answer?",
    options=[
        ("All their scores.", False, "The scores are needed only for m, ℓ and O."),
        (
            "Their averages.",
            False,
            "An average does not say how much it counts: m and ℓ are missing.",
        ),
        ("m, ℓ and O.", True, "States merge. The sizes do not depend on N."),
    ],
)

# %% exercises [markdown]
# ## Your turn
#
# Open `exercises/03_online_softmax_by_hand.ipynb`. You do the two orders by
# hand (3.1), write the denominator (3.2) and the whole walk (3.3), the merge
# (3.4), and at last you write the inputs that catch other people's mistakes
# (3.5).

# %% next [markdown]
# ## What comes next
#
# Lesson 04 gives every query block its own desk and sends K and V past it in
# tiles. It asks who reads what, how often, and how large a tile may be.
#
# **To read:**
#
# - Milakov and Gimelshein, *Online normalizer calculation for softmax* (2018),
#   [arXiv:1805.02867](https://arxiv.org/abs/1805.02867), section 3:
#   m and ℓ, and how to merge them.
# - Dao, Fu, Ermon, Rudra, Ré, *FlashAttention* (2022),
#   [arXiv:2205.14135](https://arxiv.org/abs/2205.14135), section 3.1: the same
#   with O, inside a kernel.
# - Dao, *FlashAttention-2* (2023),
#   [arXiv:2307.08691](https://arxiv.org/abs/2307.08691), section 3.1: divide
#   once.
