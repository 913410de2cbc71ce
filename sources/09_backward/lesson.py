# %% title [markdown]
# # 09 · Backward: keep the receipt, not the goods
#
# **You need:** lesson 07 (the kernel, and what `lse` is), lesson 04 (tiles). No GPU.
#
# **You will be able to:** say why training never stores the weights; compute dQ, dK and dV of a tile
# from two numbers a row; write the kernels, and a function that trains with them.
#
# **Time:** 45 minutes for this lesson, 130 for its exercises.

# %% question [markdown]
# ## The question
#
# Training goes through every layer twice: forwards, and then backwards, in the other order. The
# backward of attention needs the weights P. With 12 layers of 12 heads, batch 8 and N = 1024 they
# would wait in memory until their turn comes.
#
# **What must be kept of them?**

# %% imports
import numpy as np

from course_lib.accounting.backward_traffic import (
    backward_flops,
    backward_tile_loads,
    kept_for_backward,
    visited_backward_flops,
)
from course_lib.accounting.traffic import attention_flops

# %% kept
kept = kept_for_backward(1024, heads=12, layers=12, batch=8)
print(f"the weights P: {kept['p'] / 2**30:.2f} GiB; lse: {kept['lse'] / 2**20:.1f} MiB")

# %% by-hand [markdown]
# ## A number by hand
#
# Two queries, two keys, head_dim 1, scale 1/2: Q = (2, -4), K = (0, ln 3), V = (4, 8), and the
# gradient of the loss by O is dO = (1, 2).

# %% by-hand-run
Q, K, V, dO = (np.array(x) for x in ((2.0, -4.0), (0.0, np.log(3)), (4.0, 8.0), (1.0, 2.0)))
P = np.exp(0.5 * np.outer(Q, K))
P /= P.sum(1, keepdims=True)
O = P @ V
delta = dO * O
dS = P * (np.outer(dO, V) - delta[:, None])
print("P     ", P.round(4).tolist())
print("delta ", delta.round(4), " dV", (P.T @ dO).round(4))
print("dQ    ", (0.5 * dS @ K).round(5), " dK", (0.5 * dS.T @ Q).round(5))

# %% count-text [markdown]
# ## What it costs
#
# The forward multiplies twice for each tile, S and PV. The backward makes S again, and dP, dV, dK and
# dQ: five. In two kernels, one for the keys and one for the queries, S and dP are made twice: seven.

# %% count
shape = {"n_q": 1024, "n_k": 1024, "d": 64, "heads": 8}
forward = attention_flops(**shape)
print(f"by convention: {backward_flops(**shape) / forward:.1f} times the forward's FLOPs")
split = visited_backward_flops(**shape, block_q=64, block_k=64)
print(f"as two kernels compute it: {split / forward:.1f} times")
moved = backward_tile_loads.bytes(n=1024, d=64, heads=8, block_q=64, block_k=64)
print(f"their loads and stores: {moved / 2**20:.0f} MiB")

# %% now-write-it [markdown]
# ## Now write it
#
# 9.1 is the example above with other numbers. 9.2 makes delta and dV, 9.3 all gradients of one tile
# in NumPy, 9.4 and 9.5 the two kernels, and 9.6 puts them behind one function that trains.
#
# **To read:**
# - Dao et al.: *FlashAttention* (2022), arXiv:2205.14135, appendix B.
# - Dao: *FlashAttention-2* (2023), arXiv:2307.08691, section 3.
