# %% title [markdown]
# # 09 · Backward: keep the receipt, not the goods
#
# **You need:** lesson 07 (the kernel, and what `lse` is), lesson 04 (tiles), and to have called
# `loss.backward()` in PyTorch once. No GPU.
# (macOS and Windows: kernels are interpreted, and compiled when graded.)
#
# **You will be able to:** say why training need not keep the weights; compute dQ, dK and dV of two
# queries on paper; name the mistake behind a wrong gradient; say what the backward costs and what it
# saves; write its kernels, and a function that trains with them.
#
# **Time:** 65 minutes for this lesson, 130 for its exercises, and 30 more for 9★.

# %% question [markdown]
# ## The question
#
# Your kernel of lesson 07 computes O and writes no scores down. A model that only answers needs no
# more. But a model that *learns* goes through every layer twice: **forward**, from the first layer to
# the last, and then **backward**, from the last to the first. On the way back each layer is asked:
# *which of your inputs would have to change, and how much, for a smaller loss?*
#
# To answer, a layer looks at what it did on the way forward. For attention that is the weights P, the
# N × N matrix which we took such pains not to write. The first layer's P would have to wait until
# all other layers are done.
#
# **What must be kept of P?**

# %% imports
import numpy as np
import torch

from course_lib import EagerLedger, Predict, Quiz
from course_lib.accounting.backward_traffic import (
    delta_loads,
    dk_dv_loads,
    dq_loads,
    kept_for_backward,
)
from course_lib.style.table import Table

# %% picture [markdown]
# ## The picture: a shop that takes things back
#
# You buy a thousand things and may have to bring them back in a month. You could keep them all in
# the garage, in their boxes, untouched. Or you use them, throw the boxes away, and keep **the
# receipt**: one line for each purchase. If the shop asks, the receipt says which thing it was, and you
# fetch another one from the shelf.
#
# - The **goods** are the weights P: N numbers for each query, in each head, in each layer.
# - The **shelf** is Q and K. They are kept in any case, because their gradients are asked for.
# - The **receipt** is `lse`, from lesson 07: one number a query, the logarithm of the sum of all its
#   exponentials. Q and K give the scores S again; with the receipt, any weight is P = exp(S − lse).
#
# The price is work: what was thrown away must be made a second time. We count that below.

# %% predict-kept
p_kept = Predict(
    "9-kept",
    "12 layers of 12 heads, batch 8, N = 1024. All the weights P in 2 bytes each, waiting for the "
    "backward, are how many GiB?",
    unit="GiB",
)
p_kept


# %% kept
from ipywidgets import interact


@interact(layers=(1, 96), heads=(1, 96), batch=(1, 32), n=[1024, 2048, 4096, 8192, 16384])
def keep(layers=12, heads=12, batch=8, n=1024):
    """Print what training keeps of the weights: the goods, or the receipt."""
    kept = kept_for_backward(n, heads=heads, layers=layers, batch=batch)
    print(f"the goods, P (2 bytes each)      {kept['p'] / 2**30:10,.2f} GiB")
    print(f"the receipt, lse (4 bytes each)  {kept['lse'] / 2**20:10,.1f} MiB")
    print(f"the goods are {kept['p'] / kept['lse']:,.0f} times as much")


# %% reveal-kept
p_kept.reveal(
    kept_for_backward(1024, heads=12, layers=12, batch=8)["p"] / 2**30,
    "Layers x batch x heads x N x N x 2 bytes. Of lse: layers x batch x heads x N x 4 bytes. "
    "Move the sliders: layers and heads never change the ratio. Only N does; it is N / 2.",
)

# %% symbols [markdown]
# ## What a gradient is, and what comes in
#
# The **loss** is one number: how wrong the model is. The **gradient** of the loss by a matrix X has
# the shape of X. Each of its numbers says how fast the loss grows if that number of X grows. We write
# it **dX**.
#
# When the backward reaches our layer, the layers after it have already worked out **dO**, the
# gradient of the loss by our output. We get dO, and must return **dQ**, **dK** and **dV**.
#
# Two words from lesson 07 stay: S = scale · Q Kᵀ are the scores, P their softmax, row by row, and
# O = P V.

# %% by-hand [markdown]
# ## A number by hand: two queries, two keys
#
# Take paper. Head dimension 1, so that each query, key and value is one number, and scale ½:
#
# Q = (2, −4), K = (0, ln 3), V = (4, 8), and from above comes dO = (1, 2).
#
# **Forward.** The scores are ½ · q · k. Because exp(ln 3) = 3, the weights are simple fractions.

# %% by-hand-forward
Q, K = np.array([2.0, -4.0]), np.array([0.0, np.log(3)])  # (2,), (2,)
V, dO = np.array([4.0, 8.0]), np.array([1.0, 2.0])  # (2,), (2,)
S = 0.5 * np.outer(Q, K)  # (2, 2), a row for each query
lse = np.log(np.exp(S).sum(1))  # (2,) the receipt
P = np.exp(S - lse[:, None])  # (2, 2)
O = P @ V  # (2,)
print("exp(S)", np.exp(S).round(4).tolist())
print("P     ", P.round(4).tolist(), "  O", O.round(4))

# %% by-hand-dv [markdown]
# **dV: who used this value, and how much?** Value 1 went into both outputs, with weights ¼ and 9⁄10.
# If it grows by a little, O₁ grows by ¼ of that and O₂ by 9⁄10. So its gradient is
# ¼ · dO₁ + 9⁄10 · dO₂. That is a *column* of P times dO, for each value: **dV = Pᵀ dO**.
#
# **dP: what would more weight be worth?** If P₁₂ grew alone, O₁ would grow by V₂, and the loss by
# dO₁ · V₂. So dPᵢⱼ = dOᵢ · Vⱼ (with d numbers in a row, a dot product).

# %% by-hand-dv-run
dV = P.T @ dO  # (2,)
dP = np.outer(dO, V)  # (2, 2)
print("dV", dV.round(4), "  dP", dP.tolist())

# %% by-hand-delta [markdown]
# **delta: but weight does not grow alone.** The weights of a row add up to 1. Raise one score, and its
# key takes weight from all the others. What that is worth is dP of this key, *less what the row is
# worth on average*. The average, weighted by P, has a name:
#
# δᵢ = Σⱼ Pᵢⱼ dPᵢⱼ (**delta**, one number a query), and **dSᵢⱼ = Pᵢⱼ (dPᵢⱼ − δᵢ)**.

# %% predict-rows
p_rows = Predict(
    "9-rows",
    "The two numbers in a row of dS: what do they add up to?",
    options=["1, like the row of P", "0", "delta"],
)
p_rows

# %% by-hand-ds
delta = (P * dP).sum(1)  # (2,)
dS = P * (dP - delta[:, None])  # (2, 2)
print("delta", delta.round(4), "  dS", dS.round(4).tolist())
print("rows of dS add up to", dS.sum(1).round(12) + 0.0)

# %% reveal-rows
p_rows.reveal(
    "0",
    "Adding the same number to all scores of a row changes no weight (lesson 03), so together they "
    "move nothing. What one key gains, the others lose.",
)

# %% by-hand-dq [markdown]
# **dQ and dK.** A score is ½ · q · k. So a query is moved by its *row* of dS, times the keys; a key by
# its *column* of dS, times the queries; and the scale stands in front of both:
#
# dQ = ½ · dS K, dK = ½ · dSᵀ Q.

# %% by-hand-dq-run
dQ = 0.5 * dS @ K  # (2,)
dK = 0.5 * dS.T @ Q  # (2,)
print("dQ", dQ.round(5), "  dK", dK.round(5))

# %% receipt-delta [markdown]
# ## Does delta need P?
#
# δᵢ = Σⱼ Pᵢⱼ dPᵢⱼ is a sum over the whole row. In tiles, we would have to go over all keys once to get
# it, before the first dS could be made. It seems that the goods are needed after all. Write it out:
#
# Σⱼ Pᵢⱼ dPᵢⱼ = Σⱼ Pᵢⱼ (dOᵢ · Vⱼ) = dOᵢ · Σⱼ Pᵢⱼ Vⱼ
#
# Look at the last sum. What is it called?

# %% predict-delta
p_delta = Predict(
    "9-delta",
    "What does delta of a query cost, if O and dO are in memory?",
    options=["one pass over all keys", "one dot product of d numbers", "it needs P"],
)
p_delta

# %% delta-run
print("sum of P * dP over the row ", (P * dP).sum(1).round(12))
print("dO * O, of this query only ", (dO * O).round(12))

# %% reveal-delta
p_delta.reveal(
    "one dot product of d numbers",
    "The sum is O itself. So delta is dO · O, d products a query, and knows nothing of P. That is "
    "why O is kept as well: O and lse are the whole receipt.",
)

# %% nudge-text [markdown]
# ## Ask a judge that knows no calculus
#
# Is it right? Take a loss whose gradient by O is dO: the sum of dO · O. Then move one number of
# Q, K or V a little up and a little down, and look how far the loss moves. No formula of ours is used.


# %% nudge
def loss(Q, K, V):
    """A loss whose gradient by O is dO. Q, K, V: (2,)"""
    p = np.exp(0.5 * np.outer(Q, K))
    return dO @ ((p / p.sum(1, keepdims=True)) @ V)


def nudged(which, by=1e-6):
    """The derivative of the loss by each number of Q (0), K (1) or V (2)."""
    slopes = []
    for i in range(2):
        up, down = [Q.copy(), K.copy(), V.copy()], [Q.copy(), K.copy(), V.copy()]
        up[which][i] += by
        down[which][i] -= by
        slopes.append((loss(*up) - loss(*down)) / (2 * by))
    return np.array(slopes)


for name, mine, which in (("dQ", dQ, 0), ("dK", dK, 1), ("dV", dV, 2)):
    print(name, "by hand", mine.round(5), " nudged", nudged(which).round(5))

# %% museum [markdown]
# ## Wrong numbers that tell you their mistake
#
# Four people did this on paper, and each got one thing wrong. Before you look:

# %% predict-no-delta
p_no_delta = Predict(
    "9-no-delta",
    "One of them forgot delta. The two numbers of the right dK add up to 0. Do theirs?",
    options=["yes, still", "no"],
)
p_no_delta


# %% wrong-numbers
def gradients(P, delta, scale=0.5):
    """dV, dQ, dK from the weights. P: (2, 2), delta: (2,)"""
    dS = P * (np.outer(dO, V) - delta[:, None])
    return P.T @ dO, scale * dS @ K, scale * dS.T @ Q


right = gradients(P, delta)
answers = {
    "right": right,
    "dV from rows of P, not columns": (P @ dO, *right[1:]),
    "delta is left out": gradients(P, 0 * delta),
    "a softmax of each tile of one key": gradients(np.ones((2, 2)), delta),
    "the scale is left out at the end": gradients(P, delta, scale=1.0),
}
rows = [(says, *(f"{x[0]:.3g}, {x[1]:.3g}" for x in three)) for says, three in answers.items()]
Table(("mistake", "dV", "dQ", "dK"), rows)

# %% reveal-no-delta
p_no_delta.reveal(
    "no",
    "Without delta the rows of dS do not add up to 0, and raising every score of a row seems to move "
    "the loss. A sum that should be 0 is the cheapest test there is.",
)

# %% museum-say [markdown]
# Read the line about tiles once more. A tile of one key cannot know what the other key's exponential was. A
# softmax *of the tile* gives its only key the weight 1. The forward pass could repair such a thing
# later, with alpha. The backward has nothing to repair: it knows the sum of the **whole** row before
# it begins, because `lse` was saved. So the backward has no running maximum, no alpha and no last
# division. It is simpler than the forward.
#
# In 9.1 you do all this with other numbers.

# %% five [markdown]
# ## Five products
#
# With d numbers in a row and N rows nothing changes but the shapes. Five matrix products, and
# between them two steps that are done number by number:
#
# | | product | shape | where the scale stands |
# |---|---|---|---|
# | again | S = scale · Q Kᵀ, then P = exp(S − lse) | N × N | in S |
# | dV | Pᵀ dO | N × d | |
# | dP | dO Vᵀ, then dS = P · (dP − δ) | N × N | |
# | dQ | scale · dS K | N × d | in front, once more |
# | dK | scale · dSᵀ Q | N × d | in front, once more |
#
# A mask (causal, say) needs no step of its own: where a key is hidden P is 0, and so is dS.
#
# Four matrices are N × N: S, P, dP and dS. None of them may be written down. So: tiles.

# %% tile-sum [markdown]
# ## The code: what a tile adds
#
# Take the scores of some queries and some keys, a tile. What does this tile add to dQ, dK and dV?
# There is a neat way to say it. With `lse` and `delta` held fixed, look at one number of a tile, and at
# its *slope* by each input: how fast it grows if that input grows.
#
# f = Σᵢⱼ exp(Sᵢⱼ − lseᵢ) · (dOᵢ · Vⱼ − δᵢ), over the pairs (i, j) of the tile.
#
# - By Vⱼ, its slope is Σᵢ Pᵢⱼ dOᵢ: a tile's part of Pᵀ dO.
# - By a score Sᵢⱼ its slope is Pᵢⱼ (dPᵢⱼ − δᵢ), for exp is its own slope: that is dS.
#
# But `lse` depends on Q and K too. Why may it be held fixed? If a score Sᵢⱼ rises a little, lseᵢ rises
# Pᵢⱼ times as much, and all weights of the row shrink by that. The shrinking changes the loss by
# −Pᵢⱼ δᵢ for each step of Sᵢⱼ. That is just what −δᵢ in f does: it stands there in lse's place.
#
# So **what a tile adds is the gradient of its f**. Let PyTorch take that gradient, tile after tile, in
# any order; it adds to `.grad` by itself. (9.3 asks you for the five products instead.)


# %% tiles-code
def tile_sum(q, k, v, do, lse, delta):
    """f of one tile. q, do: (b_q, d), k, v: (b_k, d), lse, delta: (b_q,)"""
    s = q @ k.T / q.shape[1] ** 0.5  # (b_q, b_k): made, used, dropped
    p = torch.exp(s - lse[:, None])
    return (p * (do @ v.T - delta[:, None])).sum()


def backward_by_tiles(q, k, v, do, lse, delta, tiles, size=32):
    """Add the gradients of the tiles, in the order given, to q.grad, k.grad, v.grad."""
    for i, j in tiles:
        rows, keys = slice(i * size, (i + 1) * size), slice(j * size, (j + 1) * size)
        mine = q[rows], k[keys], v[keys], do[rows], lse[rows], delta[rows]
        tile_sum(*mine).backward()


# %% tiles-truth
torch.manual_seed(9)
q, k, v = (torch.randn(128, 16, requires_grad=True) for _ in range(3))
do = torch.randn(128, 16)
s = q @ k.T / 4  # (128, 128): all of S, to compare
o = torch.softmax(s, 1) @ v
truth = torch.autograd.grad(o, (q, k, v), do)
lse_all = torch.logsumexp(s, 1).detach()  # (128,)
delta_all = (do * o.detach()).sum(1)  # (128,)

# %% predict-order
p_order = Predict(
    "9-order",
    "16 tiles, once row by row and once shuffled. The gradients:",
    options=["differ a lot", "are equal up to rounding", "are right only row by row"],
)
p_order

# %% tiles-run
grid = [(i, j) for i in range(4) for j in range(4)]
shuffled = [grid[x] for x in torch.randperm(16, generator=torch.Generator().manual_seed(9))]
for name, tiles in (("row by row", grid), ("shuffled", shuffled), ("one tile left out", grid[1:])):
    q.grad = k.grad = v.grad = None
    backward_by_tiles(q, k, v, do, lse_all, delta_all, tiles)
    gap = max((x.grad - t).abs().max().item() for x, t in zip((q, k, v), truth))
    print(f"{name:18} largest difference from PyTorch's gradient {gap:.1e}")

# %% reveal-order
p_order.reveal(
    "are equal up to rounding",
    "A gradient is a sum over tiles, and each tile needs only two numbers a row that belong to the "
    "whole row: lse and delta. No tile waits for another.",
)

# %% walks-text [markdown]
# ## Who goes past whom?
#
# Any order is right. So which one is good? On a GPU many programs run at a time, and two must not add
# to the same numbers (lesson 06, *race*). A tile adds to three places:
#
# - to **dK and dV** of its keys: a sum over all **queries**;
# - to **dQ** of its queries: a sum over all **keys**.
#
# Let a program own a tile of *keys*, with the queries walking past it. Then its dK and dV stay on its
# desk from the first query to the last, and are stored once. But dQ would be written by all
# programs. Let it own *queries*, and it is the other way round. No order suits all three.

# %% draw-walks
from course_lib.figures.backward import draw_walks

draw_walks(tiles=4, causal=True)

# %% walks-say [markdown]
# So we walk twice, in two kernels. In the left one the keys are *outside*: they stay, and the loop
# runs over queries. (Causal: keys in the last column are seen by few queries, so its loop begins
# late.) In the right one the queries are outside, as in your forward kernel.
#
# The price: each kernel makes S and dP of every tile for itself.
#
# The papers choose otherwise. FlashAttention (appendix B.4) and FlashAttention-2 (algorithm 2 and
# section 3.2) walk once, with the keys outside for all three gradients: five products, and each tile
# reads its part of dQ from memory, adds to it and writes it back. FlashAttention-2 runs many tiles of
# keys at a time, and so adds with *atomics*: additions that the hardware lets nobody disturb, but in
# whatever order they come. Two walks without atomics are what Triton's own tutorial on fused attention
# does, in one kernel; we take two kernels.

# %% dq-in-memory
n, d, block = 8192, 128, 128
once = n * d * 4  # bytes of dQ of one head, float32
print(f"dQ stored once:                         {once / 2**20:6.0f} MiB a head")
print(f"read and written for each tile of keys: {2 * once * n // block / 2**20:6.0f} MiB a head")

# %% dq-say [markdown]
# That is what the loads and stores ask for, by formula. How much of it reaches DRAM, the caches decide
# (lesson 04), and which way is faster is a question for a clock.

# %% instrument [markdown]
# ## The instrument: count the products
#
# The forward makes two products, S and P V. The backward needs five, so by convention it is said to
# do 5 / 2 = 2.5 times the forward's FLOPs. What do two walks really do? We let `backward_by_tiles`
# from above walk under the ledger of lesson 01. An input that is *detached* is asked for no gradient,
# and PyTorch then makes no product for it.

# %% predict-flops
p_flops = Predict(
    "9-flops",
    "Two walks over the same tiles, one for dK and dV, one for dQ. How many times the FLOPs of the "
    "forward do both need together?",
    unit="times",
)
p_flops


# %% count-flops
def products(work, *inputs):
    """How many products of N x N x d numbers does work(*inputs) make? (N = 128, d = 16)"""
    with EagerLedger() as books:
        work(*inputs)
    return books.flops / (2 * 128 * 128 * 16)


def there(q, k, v):
    """Naive attention. (N, d) each"""
    return torch.softmax(q @ k.T / 4, 1) @ v


def there_and_back(q, k, v):
    """Naive attention and its gradients: PyTorch keeps P in between."""
    torch.autograd.grad(there(q, k, v), (q, k, v), do)


q_only, k_only, v_only = (x.detach() for x in (q, k, v))  # the numbers only: no gradient is asked
given = (do, lse_all, delta_all, grid)
forward = products(there, q_only, k_only, v_only)
keys_stay = products(backward_by_tiles, q_only, k, v, *given)
queries_stay = products(backward_by_tiles, q, k_only, v_only, *given)

# %% table-flops
rows = [
    ("forward", forward),
    ("backward, naive: P was kept", products(there_and_back, q, k, v) - forward),
    ("backward, one walk: dQ, dK, dV", products(backward_by_tiles, q, k, v, *given)),
    ("walk in which keys stay: dK, dV", keys_stay),
    ("walk in which queries stay: dQ", queries_stay),
]
Table(("what", "products", "times the forward"), [(*row, row[1] / forward) for row in rows],
      {"products": ".0f", "times the forward": ".1f"})  # fmt: skip

# %% reveal-flops
p_flops.reveal(
    (keys_stay + queries_stay) / forward,
    "Seven products against two: dV, dK, dQ once, S and dP twice. TFLOP/s figures go by the "
    "convention, 2.5, whatever a kernel really computes.",
)

# %% clock-text [markdown]
# And which way is faster, two walks or one that adds to dQ? A clock has said so for one GPU. The
# course has both; its one walk is written in a lower level of Triton (for d = 64 to 128, on an H100).

# %% clock
from course_lib.figures.training import one_walk_or_two

one_walk_or_two()

# %% clock-say [markdown]
# Two walks, as the course wrote them, cost a quarter of the speed or more. What they buy: the same dQ
# in every run. Atomics come in whatever order they come, so dQ's last digits differ from run to run.
#
# ### Optional: where the cycles go
#
# (Nothing later needs it: go on at the bytes.) Where do the cycles of the faster one go? As in lesson
# 08, a copy of the kernel writes down the SM's clock after each step. A program of it owns 128 keys, in two *groups* of four warps; tiles of 64
# queries walk past. Each group is a lane, a row of bars.

# %% draw-backward
# @title A picture: what one SM does in the backward, tile after tile
from course_lib.figures.timeline import cycles, cycles_of_a_tile, draw_timeline

display(draw_timeline("gradients"), cycles("gradients"))
took_products, took = cycles_of_a_tile("gradients")
print(f"products of both groups: {took_products:,.0f} of {took:,.0f} cycles")

# %% draw-backward-say [markdown]
# At the data sheet's rate the five products of both groups need two thirds of this tile's cycles (one
# tile is not the whole kernel). The longest step, a quarter or a little more, lasts from asking for S
# until it is there; in it dQ of the tile before is handed over. For nearly a third a group waits, and
# two thirds of that is for dV, dK and dQ. More than half of the time both groups are at the same step.
#
# **Not shown:** whether the tensor cores multiply while a group waits, for itself or for the other;
# nor what a shorter step would gain.

# %% books-text [markdown]
# And the bytes? Tiles in PyTorch write down every tile that they make, so the ledger of lesson 01 cannot
# show what a kernel saves. For kernels there is a formula, as in lesson 04: what stays is loaded once,
# what walks past is loaded once for each tile that it passes. A third kernel, a small one, makes delta.

# %% table-books
shape = {"n": 4096, "d": 64, "b": 2, "block_q": 128}  # one head; tiles of 128 queries and 128 keys
kernels = {"delta": delta_loads, "keys stay": dk_dv_loads, "queries stay": dq_loads}
moved = {name: model.terms(**shape) for name, model in kernels.items()}
rows = []
for tensor in ("q", "k", "v", "do", "o", "lse", "delta", "dq", "dk", "dv"):
    read = [books["read"].get(tensor, 0) / 1e6 for books in moved.values()]
    written = sum(books["written"].get(tensor, 0) for books in moved.values()) / 1e6
    rows.append((tensor, *read, written))
columns = (*(f"MB read: {name}" for name in kernels), "MB written")
print(f"P of this head, in 2 bytes each, would be {2 * 4096**2 / 1e6:.1f} MB")
Table(("tensor", *columns), rows, dict.fromkeys(columns, ".2f"))

# %% books-say [markdown]
# Look at the column on the right: each gradient is written once, and nothing of N × N numbers. What
# was never written cannot be read back. Look along the rows of q and k: each walks past in one kernel
# and stays in the other. What walks past is loaded often, from a cache if it is still there (lesson 04).
#
# This table is a formula, and nothing has been counted yet. The checks of 9.4 and 9.5 count *your*
# kernels' loads and stores, and hold them against it.

# %% memory-text [markdown]
# ## What inference frees, and training keeps
#
# A stack of attention layers, once only forward and once forward and backward. The ledger of lesson
# 01 notes the most bytes alive at one time, above the input. Three kinds of attention:
#
# - **naive**: all scores at once; training keeps P.
# - **recomputed**: the same, but nothing of it is kept. PyTorch's `checkpoint(f, x)` remembers only x,
#   and in the backward calls f once more. This throws away the goods without any kernel; but when it is
#   a layer's turn, the whole P of that layer is made again at once, not tile by tile.
# - **sdpa**: PyTorch's own fused attention. (Of a fused operator the ledger sees what goes in and what
#   comes out, not what lies on the chip meanwhile.)


# %% naive-and-fused
from torch.utils.checkpoint import checkpoint


def naive(q, k, v):
    """Causal attention, all scores at once. (B, H, N, d)"""
    n = q.shape[-2]
    hidden = torch.ones(n, n, dtype=torch.bool, device=q.device).triu(1)
    s = (q @ k.mT) * q.shape[-1] ** -0.5  # (B, H, N, N)
    return torch.softmax(s.masked_fill(hidden, float("-inf")), -1) @ v


def recomputed(q, k, v):
    """The same, kept by nobody: the backward calls `naive` once more."""
    return checkpoint(naive, q, k, v, use_reentrant=False)


def sdpa(q, k, v):
    """The same by PyTorch's fused attention."""
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


# %% peak
def peak(attend, layers, train, n=512):
    """Most bytes alive at once in a stack of attention layers, above its input."""
    x = torch.randn(1, 2, n, 32, requires_grad=train)
    with EagerLedger() as books, torch.set_grad_enabled(train):
        o = x
        for _ in range(layers):
            o = attend(o, o, o)
        if train:
            o.sum().backward()
    return books.peak_bytes


# %% predict-inference
p_inference = Predict(
    "9-inference",
    "Naive attention, 8 layers in place of 1, forward only. How much more memory at its peak?",
    options=["8 times", "about the same", "64 times"],
)
p_inference

# %% peak-run
kinds = (("forward only", False), ("forward and backward", True))
rows = [(f"{attend.__name__}, {what}", *(peak(attend, layers, train) / 2**20 for layers in (1, 2, 4, 8)))
        for attend in (naive, recomputed, sdpa) for what, train in kinds]  # fmt: skip
columns = ("MiB at the peak", "1 layer", "2 layers", "4 layers", "8 layers")
Table(columns, rows, dict.fromkeys(columns[1:], ".1f"))

# %% reveal-inference
p_inference.reveal(
    "about the same",
    "Forward only, a layer's weights are freed as soon as its O exists. In training they wait for "
    "the backward, layer upon layer. Recomputed, P of one layer at a time is alive; fused, of none. "
    "So in memory training gains more than answering does.",
)

# %% gpt-heading [markdown]
# ## A small GPT learns to spell, three ways
#
# Gradients that agree up to rounding are one thing. Does a model *learn* with them? We train a small
# GPT on text that came with your Python: its help pages. It reads N letters and guesses, at each
# place, the next one. The loss is −ln of the probability that it gave to the right letter.


# %% gpt-text
from pydoc_data.topics import topics

text = "".join(topics[name] for name in sorted(topics))
letters = sorted(set(text))
number_of = {letter: i for i, letter in enumerate(letters)}
ids = torch.tensor([number_of[letter] for letter in text])  # (letters of the text,)


def some_text(batch, n):
    """x: (batch, n) letters from random places; y: the letter after each."""
    starts = torch.randint(len(ids) - n, (batch, 1))
    x = starts + torch.arange(n)  # (batch, n)
    return ids[x], ids[x + 1]


# %% gpt-text-look
print(f"{len(text):,} characters, {len(letters)} different ones, for instance:")
print(text[1000:1200])

# %% gpt-attention [markdown]
# A GPT is a stack of *blocks*: attention, which lets places look at earlier places, then a small
# network for each place alone. `attend` is the only thing that we exchange. You know all the rest
# or may believe it: `LayerNorm` keeps numbers at a moderate size, what a block computes is added to
# what came in, and `AdamW` turns gradients into small changes of the model (it keeps notes of its own).


# %% gpt-model
from torch import nn


class Block(nn.Module):
    """Attention, then a small network; each is added to what came in."""

    def __init__(self, width, heads, attend):
        super().__init__()
        self.heads, self.attend = heads, attend
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        wide = 4 * width
        self.mlp = nn.Sequential(nn.Linear(width, wide), nn.GELU(), nn.Linear(wide, width))

    def forward(self, x):  # (B, N, width)
        b, n, width = x.shape
        qkv = self.qkv(self.norm_1(x)).view(b, n, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (B, H, N, d) each
        o = self.attend(q, k, v)  # (B, H, N, d)
        x = x + self.out(o.transpose(1, 2).reshape(b, n, width))
        return x + self.mlp(self.norm_2(x))


class SmallGPT(nn.Module):
    """Letters in, a score for each possible next letter out."""

    def __init__(self, attend, n, width, heads, layers):
        super().__init__()
        self.letter = nn.Embedding(len(letters), width)
        self.place = nn.Embedding(n, width)
        self.blocks = nn.Sequential(*(Block(width, heads, attend) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, len(letters)))

    def forward(self, x):  # (B, N) -> (B, N, letters)
        places = torch.arange(x.shape[1], device=x.device)
        return self.head(self.blocks(self.letter(x) + self.place(places)))


# %% gpt-train
def train(model, steps, batch, n, rate=3e-3):
    """Train, and yield the loss of each step."""
    device = next(model.parameters()).device
    adam = torch.optim.AdamW(model.parameters(), lr=rate)
    for _ in range(steps):
        x, y = (z.to(device) for z in some_text(batch, n))
        scores = model(x)  # (B, N, letters)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1).float(), y.flatten())
        adam.zero_grad()
        loss.backward()  # here the backward of attention runs
        adam.step()
        yield loss.item()


# %% gpt-three [markdown]
# Naive, PyTorch's, and **yours**: when 9.6 passes, run `course export 9.6` in this folder. It writes
# `Attention.py`, and this cell finds it. Until then `recomputed` from above stands in: it throws P
# away as yours will, though it is no kernel.
#
# Without a GPU your kernels are interpreted, so this GPT has one head of 64 queries: one tile of
# yours. All three begin with the same model and read the same text.

# %% gpt-own
try:
    from Attention import Attention
except ModuleNotFoundError:
    whose, third = "recomputed", recomputed
else:
    whose, third = "yours", lambda q, k, v: Attention.apply(q, k, v, True)

# %% predict-curves
p_curves = Predict(
    "9-curves",
    "The same start, the same text, three attentions. The losses along the way:",
    options=["equal in every digit", "equal up to rounding", "naive's is lowest: it keeps more"],
)
p_curves

# %% gpt-run
on = "cuda" if torch.cuda.is_available() else "cpu"
curves = {}
for name, attend in (("naive", naive), ("SDPA", sdpa), (whose, third)):
    torch.manual_seed(9)
    model = SmallGPT(attend, n=64, width=16, heads=1, layers=1).to(on)
    curves[name] = list(train(model, 20, batch=1, n=64))

gaps = [max(abs(a - b) for a, b in zip(x, curves["naive"])) for x in curves.values()]
rows = [(name, x[0], x[-1], gap) for (name, x), gap in zip(curves.items(), gaps)]
columns = ("loss in step 1", "in step 20", "largest distance from naive")
Table(("attention", *columns), rows, dict(zip(columns, (".4f", ".4f", ".1e"))))

# %% reveal-curves
p_curves.reveal(
    "equal up to rounding",
    "The same gradients, so the same path. Rounding differs where sums are made in another order, "
    "and with many steps it adds up; it favours nobody. (`recomputed` makes naive's sums in naive's "
    "order: equal in every digit. SDPA does not, nor will your kernels.)",
)

# %% long-text [markdown]
# ### The long curves, from a GPU
#
# The same cells were run on an H100 with the sizes of the first question: 12 layers of 12 heads,
# N = 1024, batch 8, in half precision where PyTorch's *autocast* finds it safe. *FA2* is PyTorch's own,
# its FlashAttention-2 backend. *course* is the course's own: one walk with atomics, the faster of the
# two that were timed above. (What you write in 9.4 to 9.6 is the two walks.)
# Two runs of the *same* naive attention are not equal either: some of PyTorch's operators add in no
# fixed order on a GPU. That distance is the yardstick.

# %% draw-long
from course_lib.figures.training import draw_losses

draw_losses()

# %% predict-peak
p_peak = Predict(
    "9-peak",
    "This model, naive and with the course's attention. How many times more memory does a step of "
    "naive need at its peak, above the model itself?",
    unit="times",
)
p_peak

# %% long-memory
from course_lib.accounting.measurements import load_measurements
from course_lib.figures.training import memory_of_a_step

trained = {row["way"]: row for row in load_measurements("h100_small_gpt")["rows"]}
above = {way: row["peak_bytes"] - row["held_bytes"] for way, row in trained.items()}
memory_of_a_step()

# %% reveal-peak
p_peak.reveal(
    above["naive"] / above["course"],
    "The rest of what a layer keeps (Q, K, V, O and the wide part of the small network) both keep. "
    "At longer N the gap opens: P grows with N x N, all the rest with N.",
)

# %% kept-in-gpt
gpt2_small = kept_for_backward(1024, heads=12, layers=12, batch=8)
saved = (above["naive"] - above["course"]) / 2**30
print(f"measured: naive needs {saved:.2f} GiB more")
print(f"formula:  P in 2 bytes is {gpt2_small['p'] / 2**30:.2f} GiB, three times that is "
      f"{3 * gpt2_small['p'] / 2**30:.2f} GiB")  # fmt: skip

# %% kept-in-gpt-say [markdown]
# Why three times? Autocast does softmax in float32. So naive attention keeps P in 4 bytes for the backward of softmax, and in 2 bytes for that of the
# product P V. What is measured beyond that we did not take apart.

# %% slower-text [markdown]
# ## Is it slower to compute P again?
#
# Counted above: naive attention's backward makes four products, dV, dP, dQ, dK. One walk that makes P
# again makes five.

# %% predict-slower
p_slower = Predict(
    "9-slower",
    "N = 4096, one attention on an H100. The backward that computes P again, beside the one that kept "
    "P, takes",
    options=["5/4 of the time", "about the same", "less than half of the time"],
)
p_slower

# %% long-alone
from course_lib.figures.training import backward_alone

backward_alone()

# %% reveal-slower
p_slower.reveal(
    "less than half of the time",
    "More products, less time. So the products alone cannot be what the naive backward waits for.",
)

# %% slower-say [markdown]
# **What this shows:** computing again did not cost time; on this GPU, at these sizes, it came with
# saving time. **What it does not show:** why. The naive backward reads and writes N × N matrices several
# times, so the trips to memory are the suspect (lesson 02). But nobody counted its trips with hardware
# counters here, and it runs many kernels in place of a few.
#
# Does training gain more than inference, then? In memory it does: that was the table of peaks. In
# time it depends on what you mean by more:

# %% gains
us = {(r["n"], r["way"], r["part"]): r["median_us"]
      for r in load_measurements("h100_small_gpt")["attention"]}  # fmt: skip
rows = []
for n in sorted({n for n, *_ in us}):
    pairs = [(us[n, "naive", part], us[n, "course", part]) for part in ("forward", "backward")]
    rows.append((n, *(a / b for a, b in pairs), *(a - b for a, b in pairs)))
columns = ("times: forward", "times: backward", "us saved: forward", "us saved: backward")
Table(("N", *columns), rows, dict(zip(columns, (".1f", ".1f", ",.0f", ",.0f"))))

# %% gains-say [markdown]
# By *factors* the forward gains more; by *microseconds saved*, the backward does, in each row.
#
# And the whole model? A step of it, with the same attentions:

# %% gains-model
from course_lib.figures.training import time_of_a_step

time_of_a_step()

# %% gains-model-say [markdown]
# Alone, the course's attention takes less time than FlashAttention-2 in each row of the table before;
# in the whole model its step takes longer. Part of that is time on the CPU, between the kernels (how
# much, two more rounds did not settle: `benchmarks/NOTES.md`). So do not conclude from a kernel to a
# model.

# %% shown [markdown]
# ## What was shown, and what was not
#
# **Shown.** The gradients of attention are five products, and each tile can do its part from two
# numbers a row, lse and delta. delta is dO · O and needs no P. So nothing N × N is kept, and the
# memory of training grows with layers · N, not layers · N². One walk computes five products, two walks
# without atomics seven, 3.5 times the forward. A GPT learned with the one walk, along the same curve
# and in less memory.
#
# **Not shown.** That this is the fastest backward: it is not. That a model trains faster by so much:
# attention is only a part of it (lesson 02). That memory is now free of N: Q, K, V and O of every
# layer are still kept.

# %% questions [markdown]
# ## Questions
#
# Decide before you open.

# %% quiz-kept
Quiz(
    "What does this lesson's attention keep from forward to backward, beyond its inputs?",
    options=[
        ("P, but in 2 bytes.", False, "P is thrown away, in any dtype."),
        ("m and ℓ of each tile.", False, "Only of the whole row, and as one number: lse."),
        ("O and lse.", True, "d + 1 numbers a query. delta is made of O and dO when dO is there."),
    ],
)

# %% quiz-sum
Quiz(
    "Your dS has rows that add up to 3.1. What is the likeliest?",
    options=[
        ("delta is missing or wrong.", True, "The rows of P · (dP − delta) add up to 0."),
        ("The scale was left out.", False, "0 times anything is 0: the scale cannot show here."),
        ("Rounding.", False, "Rounding changes the last digits."),
    ],
)

# %% quiz-cost
Quiz(
    "A paper says: our backward reaches 500 TFLOP/s, at 2.5 times the FLOPs of the forward. Its kernels "
    "work without atomics, as those of 9.4 and 9.5. How many products a tile does it really "
    "compute, for each two "
    "of the forward?",
    answer=7,
    explanation="5 are counted by convention: S, dV, dP, dQ, dK. In two walks S and dP come twice.",
)

# %% quiz-slower
Quiz(
    "To save memory, P is computed again in the backward. What does that do to the time of training?",
    options=[
        (
            "It makes training slower: more FLOPs.",
            False,
            "More FLOPs, yes. The measured backward took less time than the one that kept P.",
        ),
        (
            "More FLOPs, fewer bytes: only a clock can say, and it said faster.",
            True,
            "On an H100, at the lengths in the table.",
        ),
        ("Nothing: the products run in parallel.", False, "They use the same units, one by one."),
    ],
)

# %% quiz-tile
Quiz(
    "A public pseudo-code computes, in the loop of its backward, softmax(S_ij) for a tile. Right?",
    options=[
        ("Yes, the rescale mends it later.", False, "The backward has no rescale."),
        (
            "No: a tile does not know the sum of its rows.",
            True,
            "exp(S_ij − lse) does: lse belongs to the whole row.",
        ),
        ("Yes, if the tile is large enough.", False, "Only if it holds every key."),
    ],
)

# %% quiz-inference
Quiz(
    "A colleague says: to run a trained model I must hold P of all layers, as training did.",
    options=[
        (
            "Right, the layers are the same.",
            False,
            "They are; but nobody will come back and ask for P.",
        ),
        (
            "Wrong: without a backward, P of a layer is freed before the next begins.",
            True,
            "The table above shows it: forward only, naive's peak hardly grows with the layers.",
        ),
        ("Wrong: P is never made, not even by naive attention.", False, "Naive makes it."),
    ],
)

# %% exercises [markdown]
# ## Your turn
#
# Open `exercises/09_backward.ipynb`. 9.1 is the paper example with other numbers. 9.2 makes delta and
# dV, 9.3 all three gradients of one tile in NumPy, 9.4 and 9.5 are the two kernels, and 9.6 puts them
# behind one function that trains.

# %% next [markdown]
# ## What comes next
#
# Lesson 10 asks the opposite question: not all tokens at once, backward too, but one new token at a
# time.
#
# **To read:**
# - Dao, Fu, Ermon, Rudra, Ré: *FlashAttention* (2022),
#   [arXiv:2205.14135](https://arxiv.org/abs/2205.14135), appendix B.2 to B.4: the gradients, and where
#   delta comes from.
# - Dao: *FlashAttention-2* (2023), [arXiv:2307.08691](https://arxiv.org/abs/2307.08691), section 3.1.2
#   (lse in place of m and ℓ) and 3.2 (tiles of keys at a time, and atomics).
