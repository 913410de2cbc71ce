# %% title [markdown]
# # 09 · Backward: exercises
#
# You write the backward pass: two queries by hand, delta and dV, one tile in NumPy, then the kernels
# of dK, dV and dQ, and at the end the function that trains with them.
#
# | | | minutes |
# |---|---|---|
# | 9.1 | two queries and two keys by hand | 10 |
# | 9.2 | delta, and dV: what lse buys | 15 |
# | 9.3 | what one tile adds to dQ, dK and dV, in NumPy | 20 |
# | 9.4 | the kernel of the keys: dK and dV | 35 |
# | 9.5 | the kernel of the queries: dQ | 20 |
# | 9.6 | forward and backward as one function | 30 |
# | 9★ | dropout that remembers nothing | 30 |
#
# In every kernel exercise the check takes the launcher, chooses the tile sizes (a kernel's tiles have
# the sizes that its launcher is called with, on the way back as well), and counts what is loaded,
# stored and multiplied, in every case.
#
# Stuck? `hint(backward_by_hand)` gives a hint, three at most for each exercise. `course catch-up 9.5`,
# in a terminal, fills in 9.4 for you, so that nobody stops here.

# %% imports
import numpy as np
import torch
import triton
import triton.language as tl

from course_lib import check, hint, progress

# %% about-9-1 [markdown]
# ## 9.1 · Two queries, two keys, backwards (10 minutes)
#
# All numbers of one head, head_dim 1, with scale 1/2:
#
# | | first | second |
# |---|---|---|
# | `q` | 2 | 4 |
# | `k` | 0 | ln 3 |
# | `v` | 6 | 2 |
# | `do`, the gradient of the loss by `o` | 2 | 1 |
#
# On paper, forwards and then backwards:
#
# $$S = \tfrac12\, Q K^T \qquad P = \mathrm{softmax}(S) \qquad O = P V$$
# $$dV = P^T dO \qquad dP = dO\, V^T \qquad \delta_i = dO_i \cdot O_i \qquad
# dS_{ij} = P_{ij}\,(dP_{ij} - \delta_i)$$
# $$dQ = \tfrac12\, dS\, K \qquad dK = \tfrac12\, dS^T Q$$
#
# Every weight is a simple fraction, because e to the power of ln 3 is 3. Keep five digits.


# %% ex-9-1
def backward_by_hand():
    """Return delta (2), dv (2), ds (2 rows of 2), dq (2), dk (2): in this order, or as a dict."""
    ### BEGIN SOLUTION
    return {
        "delta": [6.0, 2.4],
        "dv": [0.6, 2.4],
        "ds": [[1.5, -1.5], [0.36, -0.36]],
        "dq": [-0.823959, -0.19775],
        "dk": [2.22, -2.22],
    }
    ### END SOLUTION


# %% check-9-1
check(backward_by_hand)

# %% given-text [markdown]
# ## Given
#
# `load_tile` and `store_tile` as in lesson 07, for the kernels. The launchers make their tensors
# contiguous, and one head of `q` is a run of `n_q * d` numbers.

# %% given
@triton.jit
def load_tile(base, rows, n_rows, HEAD_DIM: tl.constexpr):
    """Load rows of a contiguous (n_rows, head_dim) matrix; past its end: 0."""
    cols = tl.arange(0, HEAD_DIM)  # (head_dim,)
    ptrs = base + rows[:, None] * HEAD_DIM + cols[None, :]
    return tl.load(ptrs, mask=rows[:, None] < n_rows, other=0.0)


@triton.jit
def store_tile(base, tile, rows, n_rows, HEAD_DIM: tl.constexpr):
    """Store rows of a contiguous (n_rows, head_dim) matrix; none past its end."""
    cols = tl.arange(0, HEAD_DIM)  # (head_dim,)
    ptrs = base + rows[:, None] * HEAD_DIM + cols[None, :]
    tl.store(ptrs, tile.to(base.dtype.element_ty), mask=rows[:, None] < n_rows)


# %% about-9-2 [markdown]
# ## 9.2 · What lse buys: delta and dV (15 minutes)
#
# The backward pass begins with two things:
#
# $$\delta_i = \sum_c dO_{ic}\, O_{ic} \qquad\qquad
# dV = P^T dO, \quad P_{ij} = e^{S_{ij} - \mathrm{lse}_i}$$
#
# - `delta` is one number per query. The gradients of Q and K need it.
# - `dV` needs the weights P. Nobody stored them, and nobody has to: `lse` is one number per query,
#   and with it each tile of P is computed again and thrown away again (exercise 7.5).
#
# In `dv_kernel` a program owns one tile of **keys** and walks over the queries. So it stores its
# tile of dV once, and no program adds to another's.
#
# The scores stand **transposed** here, `(block_k, block_q)`: then P has the shape that `tl.dot`
# wants, and nothing computed is transposed afterwards. One line is given.
#
# (On Hopper a `tl.dot` of a transposed product has come out wrong: Triton's
# [issue 6124](https://github.com/triton-lang/triton/issues/6124).)
#
# Write
# - in `delta_kernel`: `delta_row`, (block_q,);
# - in `dv_kernel`: `first`, where the loop over the queries begins if the call is causal: with the
#   first query that sees any key of this tile, or where that query's tile begins: both are right,
#   for no tile of queries is loaded that sees nothing. It is at least 0, and 0 if not causal;
#   then, in the loop, `p` with 0 where a query does not see a key, and the step of `dv_tile`.
#
# The check counts: K and O are loaded once, `q` and `lse` once for each tile of keys that they see,
# `do` once more for delta; `delta` and `dv` are stored once. `input_precision="ieee"`, as before.
#
# Two traps. A row that sees no key has `lse` = -inf (you load such rows if your `first` is where a
# tile begins): compute `p` first and set what is hidden to 0 *afterwards*, because
# exp(-inf - (-inf)) is NaN. And with `causal`, query `i` sees key `j` if
# `j <= i + n_k - n_q`, as always.


# %% ex-9-2
@triton.jit
def delta_kernel(
    o, do, delta, n_q,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr,
):
    head = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)  # (block_q,)
    o_tile = load_tile(o + head * n_q * HEAD_DIM, rows, n_q, HEAD_DIM).to(tl.float32)
    do_tile = load_tile(do + head * n_q * HEAD_DIM, rows, n_q, HEAD_DIM).to(tl.float32)
    ### BEGIN SOLUTION
    delta_row = tl.sum(o_tile * do_tile, 1)
    ### END SOLUTION
    tl.store(delta + head * n_q + rows, delta_row, mask=rows < n_q)


@triton.jit
def dv_kernel(
    q, k, lse, do, dv, n_q, n_k, scale,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    tile = tl.program_id(0)
    head = tl.program_id(1)
    q += head * n_q * HEAD_DIM
    k += head * n_k * HEAD_DIM
    lse += head * n_q
    do += head * n_q * HEAD_DIM
    dv += head * n_k * HEAD_DIM
    keys = tile * BLOCK_K + tl.arange(0, BLOCK_K)  # (block_k,)
    k_tile = load_tile(k, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
    dv_tile = tl.zeros((BLOCK_K, HEAD_DIM), tl.float32)
    first = 0
    if CAUSAL:
        ### BEGIN SOLUTION
        first = tl.maximum(tile * BLOCK_K - (n_k - n_q), 0) // BLOCK_Q * BLOCK_Q
        ### END SOLUTION
    for start in range(first, n_q, BLOCK_Q):
        rows = start + tl.arange(0, BLOCK_Q)  # (block_q,)
        q_tile = load_tile(q, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
        do_tile = load_tile(do, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
        lse_row = tl.load(lse + rows, mask=rows < n_q, other=float("inf"))  # (block_q,)
        s = tl.dot(k_tile, tl.trans(q_tile), input_precision="ieee") * scale  # (block_k, block_q)
        ### BEGIN SOLUTION
        p = tl.exp(s - lse_row[None, :])
        if CAUSAL:
            seen = keys[:, None] <= (rows + n_k - n_q)[None, :]
            p = tl.where(seen, p, 0.0)
        dv_tile += tl.dot(p.to(do_tile.dtype), do_tile, input_precision="ieee")
        ### END SOLUTION
    store_tile(dv, dv_tile, keys, n_k, HEAD_DIM)


def delta_and_dv(q, k, o, lse, do, *, causal=False, block_q=64, block_k=64):
    """Return delta (B, H, n_q), float32, and dv (B, H, n_k, d) in k's dtype.

    q, o, do (B, H, n_q, d), k (B, H, n_k, d), lse (B, H, n_q), float32.
    """
    q, k, o, lse, do = (x.contiguous() for x in (q, k, o, lse, do))
    b, h, n_q, d = q.shape
    n_k = k.shape[2]
    delta = torch.empty_like(lse)
    dv = torch.empty_like(k)
    delta_kernel[(triton.cdiv(n_q, block_q), b * h)](
        o, do, delta, n_q, HEAD_DIM=d, BLOCK_Q=block_q,
    )
    dv_kernel[(triton.cdiv(n_k, block_k), b * h)](
        q, k, lse, do, dv, n_q, n_k, d**-0.5,
        HEAD_DIM=d, BLOCK_Q=block_q, BLOCK_K=block_k, CAUSAL=causal,
    )
    return delta, dv


# %% check-9-2
check(delta_and_dv)

# %% about-9-3 [markdown]
# ## 9.3 · What one tile adds to dQ, dK and dV (20 minutes)
#
# Now all three gradients, for one tile of scores and in NumPy, float64, so that you can look at
# every number. A tile knows its own queries, keys and values, and of each row two numbers that
# belong to the *whole* row: `lse` and `delta`. The rest is the five products of 9.1:
#
# $$S \qquad dV \mathrel{+}= P^T dO \qquad dP = dO\, V^T \qquad dQ \mathrel{+}= \text{scale}\; dS\, K
# \qquad dK \mathrel{+}= \text{scale}\; dS^T Q$$
#
# `seen` says which pairs count: where it is `False` the weight is 0. A row that sees nothing has
# `lse` = -inf, and adds nothing to anything.
#
# Return what this one tile *adds*, as `(dq, dk, dv)` with the shapes of `q_tile`, `k_tile`, `v_tile`.


# %% ex-9-3
def tile_gradients(q_tile, k_tile, v_tile, do_tile, lse_row, delta_row, seen, scale):
    """Return what a tile adds to dQ (block_q, d), dK (block_k, d) and dV (block_k, d).

    q_tile, do_tile (block_q, d); k_tile, v_tile (block_k, d); lse_row, delta_row (block_q,);
    seen (block_q, block_k), boolean. All numbers are float64.
    """
    ### BEGIN SOLUTION
    s = scale * q_tile @ k_tile.T  # (block_q, block_k)
    lse_row = np.where(np.isneginf(lse_row), np.inf, lse_row)  # sees nothing: exp(s - inf) = 0
    p = np.exp(np.where(seen, s, -np.inf) - lse_row[:, None])
    dp = do_tile @ v_tile.T
    ds = p * (dp - delta_row[:, None])
    return scale * ds @ k_tile, scale * ds.T @ q_tile, p.T @ do_tile
    ### END SOLUTION


# %% nudge-text [markdown]
# **Ask a judge that knows no calculus.** The numbers that a tile adds are the gradient of one sum,
#
# $$f(q, k, v) = \sum_{ij} e^{S_{ij} - \mathrm{lse}_i}\, (dO_i \cdot v_j - \delta_i),$$
#
# with `lse` and `delta` held fixed. So nudge one number by a little to both sides, look how far `f`
# moves, and you have its derivative, without a formula for it. In float64 that gives eight digits; in
# float32 three, for a difference of two large numbers has lost the rest.

# %% nudge
def tile_sum(q_tile, k_tile, v_tile, do_tile, lse_row, delta_row, scale):
    """Return f, the number whose gradient a tile adds."""
    p = np.exp(scale * q_tile @ k_tile.T - lse_row[:, None])
    return (p * (do_tile @ v_tile.T - delta_row[:, None])).sum()


def nudged(which, at, *tile, by=1e-5):
    """Return the derivative of f by one number: tile[which][at], moved to both sides."""
    f = []
    for step in (by, -by):
        moved = [x.copy() if i == which else x for i, x in enumerate(tile)]
        moved[which][at] += step
        f.append(tile_sum(*moved))
    return (f[0] - f[1]) / (2 * by)


rng = np.random.default_rng(9)
q, do = rng.standard_normal((2, 3, 4))
k, v = rng.standard_normal((2, 5, 4))
lse, delta = rng.standard_normal((2, 3)) + 2
tile = (q, k, v, do, lse, delta, 0.5)
try:
    mine = tile_gradients(*tile[:6], np.ones((3, 5), dtype=bool), 0.5)
except NotImplementedError:
    print("not written yet")
else:
    for which, name in enumerate(("dq", "dk", "dv")):
        print(f"{name}[1, 2]: yours {mine[which][1, 2]:.8f}, nudged {nudged(which, (1, 2), *tile):.8f}")

# %% check-9-3
check(tile_gradients)

# %% about-9-4 [markdown]
# ## 9.4 · The kernel of the keys: dK and dV (35 minutes)
#
# Two sums run over the queries, dK and dV, and one over the keys, dQ. A program that owns a tile of
# **keys** can keep the first two in its registers from the first query to the last, and store each
# once. So dQ gets a kernel of its own, in 9.5.
#
# This is `dv_kernel` of 9.2 with more in its loop. `delta` is given now, `(B, H, n_q)` float32 like
# `lse`. Again everything stands as `(block_k, block_q)`: S, P, dP and dS. Then
# `dV += P dO` and `dK += dS Q` are two `tl.dot` as they stand, and nothing computed is transposed.
#
# Write what is missing: where the loop begins, the loop, and the two stores. A tile of queries that
# sees none of these keys is not loaded. `lse` of rows past the end: load them as `inf`. The scale
# belongs into S, and once more into dK.
#
# The check counts: K and V are loaded once, Q, dO, `lse` and `delta` once for each tile of keys that
# they see; dK and dV are stored once, never read (an atomic addition reads); four products a tile.
# `input_precision="ieee"`, as before.


# %% ex-9-4
@triton.jit
def dk_dv_kernel(
    q, k, v, do, lse, delta, dk, dv, n_q, n_k, scale,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    tile = tl.program_id(0)
    head = tl.program_id(1)
    q += head * n_q * HEAD_DIM
    do += head * n_q * HEAD_DIM
    lse += head * n_q
    delta += head * n_q
    k += head * n_k * HEAD_DIM
    v += head * n_k * HEAD_DIM
    dk += head * n_k * HEAD_DIM
    dv += head * n_k * HEAD_DIM
    keys = tile * BLOCK_K + tl.arange(0, BLOCK_K)  # (block_k,)
    k_tile = load_tile(k, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
    v_tile = load_tile(v, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
    dk_tile = tl.zeros((BLOCK_K, HEAD_DIM), tl.float32)
    dv_tile = tl.zeros((BLOCK_K, HEAD_DIM), tl.float32)
    ### BEGIN SOLUTION
    first = 0
    if CAUSAL:
        first = tl.maximum(tile * BLOCK_K - (n_k - n_q), 0) // BLOCK_Q * BLOCK_Q
    for start in range(first, n_q, BLOCK_Q):
        rows = start + tl.arange(0, BLOCK_Q)  # (block_q,)
        q_tile = load_tile(q, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
        do_tile = load_tile(do, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
        lse_row = tl.load(lse + rows, mask=rows < n_q, other=float("inf"))  # (block_q,)
        delta_row = tl.load(delta + rows, mask=rows < n_q, other=0.0)  # (block_q,)
        s = tl.dot(k_tile, tl.trans(q_tile), input_precision="ieee") * scale  # (block_k, block_q)
        p = tl.exp(s - lse_row[None, :])
        if CAUSAL:
            seen = keys[:, None] <= (rows + n_k - n_q)[None, :]
            p = tl.where(seen, p, 0.0)
        dv_tile += tl.dot(p.to(do_tile.dtype), do_tile, input_precision="ieee")
        dp = tl.dot(v_tile, tl.trans(do_tile), input_precision="ieee")  # (block_k, block_q)
        ds = p * (dp - delta_row[None, :])
        dk_tile += tl.dot(ds.to(q_tile.dtype), q_tile, input_precision="ieee")
    store_tile(dk, dk_tile * scale, keys, n_k, HEAD_DIM)
    store_tile(dv, dv_tile, keys, n_k, HEAD_DIM)
    ### END SOLUTION


def dk_and_dv(q, k, v, do, lse, delta, *, causal=False, block_q=64, block_k=64):
    """Return dk and dv (B, H, n_k, d), in k's dtype.

    q, do (B, H, n_q, d), k, v (B, H, n_k, d); lse, delta (B, H, n_q), float32.
    """
    q, k, v, do, lse, delta = (x.contiguous() for x in (q, k, v, do, lse, delta))
    b, h, n_q, d = q.shape
    n_k = k.shape[2]
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    dk_dv_kernel[(triton.cdiv(n_k, block_k), b * h)](
        q, k, v, do, lse, delta, dk, dv, n_q, n_k, d**-0.5,
        HEAD_DIM=d, BLOCK_Q=block_q, BLOCK_K=block_k, CAUSAL=causal,
    )
    return dk, dv


# %% check-9-4
check(dk_and_dv)

# %% about-9-5 [markdown]
# ## 9.5 · The kernel of the queries: dQ (20 minutes)
#
# $dQ_i = \text{scale} \sum_j dS_{ij} K_j$ runs over the keys. If the programs of 9.4 added to it, several would
# write to the same row at once, and would need atomic additions: slow, and in another order in each
# run. So here the loop order is that of the forward pass: a program owns a tile of **queries**, and
# the keys pass by.
#
# Now everything stands as `(block_q, block_k)`, and nothing computed is transposed. Write where the loop ends, the loop, and the store.
# The check counts: Q, dO, `lse` and `delta` are loaded once, K and V once for each tile of queries
# that sees a key of theirs; dQ is stored once and never read; three products a tile.
#
# A trap: the last tile of keys may be short. There K is 0, so S is 0, which may lie far above the
# scores of real keys and above `lse`: then exp(S - lse) is infinite, and infinite times 0 is NaN. In
# 9.4 that stayed in rows that nobody stores; here it would be added to dQ. So S is -inf past the end.


# %% ex-9-5
@triton.jit
def dq_kernel(
    q, k, v, do, lse, delta, dq, n_q, n_k, scale,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    tile = tl.program_id(0)
    head = tl.program_id(1)
    q += head * n_q * HEAD_DIM
    do += head * n_q * HEAD_DIM
    dq += head * n_q * HEAD_DIM
    lse += head * n_q
    delta += head * n_q
    k += head * n_k * HEAD_DIM
    v += head * n_k * HEAD_DIM
    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)  # (block_q,)
    q_tile = load_tile(q, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
    do_tile = load_tile(do, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
    lse_row = tl.load(lse + rows, mask=rows < n_q, other=float("inf"))  # (block_q,)
    delta_row = tl.load(delta + rows, mask=rows < n_q, other=0.0)  # (block_q,)
    dq_tile = tl.zeros((BLOCK_Q, HEAD_DIM), tl.float32)
    ### BEGIN SOLUTION
    end = n_k
    if CAUSAL:
        end = tl.minimum(n_k, (tile + 1) * BLOCK_Q + n_k - n_q)
    for start in range(0, end, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)  # (block_k,)
        k_tile = load_tile(k, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        v_tile = load_tile(v, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale  # (block_q, block_k)
        s = tl.where(keys[None, :] < n_k, s, float("-inf"))
        p = tl.exp(s - lse_row[:, None])
        if CAUSAL:
            seen = keys[None, :] <= (rows + n_k - n_q)[:, None]
            p = tl.where(seen, p, 0.0)
        dp = tl.dot(do_tile, tl.trans(v_tile), input_precision="ieee")  # (block_q, block_k)
        ds = p * (dp - delta_row[:, None])
        dq_tile += tl.dot(ds.to(k_tile.dtype), k_tile, input_precision="ieee")
    store_tile(dq, dq_tile * scale, rows, n_q, HEAD_DIM)
    ### END SOLUTION


def dq_without_atomics(q, k, v, do, lse, delta, *, causal=False, block_q=64, block_k=64):
    """Return dq (B, H, n_q, d), in q's dtype; arguments as in 9.4."""
    q, k, v, do, lse, delta = (x.contiguous() for x in (q, k, v, do, lse, delta))
    b, h, n_q, d = q.shape
    dq = torch.empty_like(q)
    dq_kernel[(triton.cdiv(n_q, block_q), b * h)](
        q, k, v, do, lse, delta, dq, n_q, k.shape[2], d**-0.5,
        HEAD_DIM=d, BLOCK_Q=block_q, BLOCK_K=block_k, CAUSAL=causal,
    )
    return dq


# %% check-9-5
check(dq_without_atomics)

# %% about-9-6 [markdown]
# ## 9.6 · One function, there and back (30 minutes)
#
# PyTorch differentiates what it computed itself. What a kernel computed it does not know, so you say
# how: a `torch.autograd.Function` has two static methods,
#
# - `forward(ctx, q, k, v, causal)` returns `o`. What backward needs of tensors goes into
#   `ctx.save_for_backward(...)`, anything else is an attribute, `ctx.causal = causal`. (`ctx.o = o`
#   would be a circle, for `o` holds its `ctx`: that memory is not let go of, and is refused);
# - `backward(ctx, do)` gets the gradient by `o`, finds the tensors in `ctx.saved_tensors`, and
#   returns one gradient for **each** argument of forward, in their order, `None` for `causal`.
#
# `Attention.apply(q, k, v, causal)` then works in any model: `o.sum().backward()` and all others,
# and one `do` after the other (`retain_graph=True`).
# All tensors are `(B, H, N, d)`, float32 or float16, of any strides; scale is `d ** -0.5`, and tiles
# of 64 will do. `flash_forward` below is the kernel of 7.4.
#
# Three things are asked beyond the numbers:
# - **the receipt, not the goods**: what waits between forward and backward, beyond the inputs, is
#   linear in N. It is counted when forward has returned, inside PyTorch and outside;
# - **kernels compute it**: what a launch is given is an input or was stored by a launch (`delta`
#   too: by `delta_kernel` alone, for `dv_kernel` makes what 9.4 makes), and what you return was stored by a launch. On the way PyTorch
#   may copy, convert or scale it, and no more;
# - `do` is drawn after your `o` is known, and comes as PyTorch makes it: after `o.sum()` all its
#   strides are 0.


# %% given-forward
@triton.jit
def flash_kernel(
    q, k, v, o, lse, n_q, n_k, scale,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    tile = tl.program_id(0)
    head = tl.program_id(1)
    q += head * n_q * HEAD_DIM
    k += head * n_k * HEAD_DIM
    v += head * n_k * HEAD_DIM
    o += head * n_q * HEAD_DIM
    lse += head * n_q
    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)  # (block_q,)
    q_tile = load_tile(q, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
    # m (block_q,), l_sum (block_q,), acc (block_q, head_dim)
    m = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    l_sum = tl.zeros((BLOCK_Q,), tl.float32)
    acc = tl.zeros((BLOCK_Q, HEAD_DIM), tl.float32)
    end = n_k
    if CAUSAL:
        end = tl.minimum(n_k, (tile + 1) * BLOCK_Q + n_k - n_q)
    for start in range(0, end, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)  # (block_k,)
        k_tile = load_tile(k, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        v_tile = load_tile(v, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where(keys[None, :] < n_k, s, float("-inf"))
        if CAUSAL:
            last = rows + n_k - n_q  # the last key that each row sees
            s = tl.where(keys[None, :] <= last[:, None], s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))  # (block_q,)
        # subtract m_safe where you subtracted m_new: a row without a key
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        alpha = tl.exp(m - m_safe)  # old scale -> new scale
        p = tl.exp(s - m_safe[:, None])  # (block_q, block_k)
        l_sum = l_sum * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new
    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)
    # o_tile (block_q, head_dim), lse_row (block_q,)
    o_tile = acc / l_safe[:, None]
    lse_row = m + tl.log(l_safe)
    store_tile(o, o_tile, rows, n_q, HEAD_DIM)
    tl.store(lse + rows, lse_row, mask=rows < n_q)


def flash_forward(q, k, v, *, causal=False, block_q=64, block_k=64):
    """Return o (B, H, n_q, d) and lse (B, H, n_q), float32."""
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    b, h, n_q, d = q.shape
    o = torch.empty_like(q)
    lse = torch.empty((b, h, n_q), dtype=torch.float32, device=q.device)
    flash_kernel[(triton.cdiv(n_q, block_q), b * h)](
        q, k, v, o, lse, n_q, k.shape[2], d**-0.5,
        HEAD_DIM=d, BLOCK_Q=block_q, BLOCK_K=block_k, CAUSAL=causal,
    )
    return o, lse


# %% ex-9-6
class Attention(torch.autograd.Function):
    """o = Attention.apply(q, k, v, causal): attention that can be differentiated."""

    @staticmethod
    def forward(ctx, q, k, v, causal):
        """Return o (B, H, n_q, d); keep what backward needs."""
        ### BEGIN SOLUTION
        o, lse = flash_forward(q, k, v, causal=causal)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.causal = causal
        return o
        ### END SOLUTION

    @staticmethod
    def backward(ctx, do):
        """Return dq, dk, dv and None, from do (B, H, n_q, d)."""
        ### BEGIN SOLUTION
        q, k, v, o, lse = ctx.saved_tensors
        do = do.contiguous()
        b, h, n_q, d = q.shape
        delta = torch.empty_like(lse)
        delta_kernel[(triton.cdiv(n_q, 64), b * h)](
            o, do, delta, n_q, HEAD_DIM=d, BLOCK_Q=64,
        )
        dk, dv = dk_and_dv(q, k, v, do, lse, delta, causal=ctx.causal)
        dq = dq_without_atomics(q, k, v, do, lse, delta, causal=ctx.causal)
        return dq, dk, dv, None
        ### END SOLUTION


# %% check-9-6
check(Attention)

# %% about-9-star [markdown]
# ## 9★ · Dropout that remembers nothing (30 minutes)
#
# While a model trains, **dropout** sets some weights to 0, each with probability `rate`, and divides
# the others by `1 - rate`, so that their sum stays what it was on average:
#
# $$D_{ij} = 0 \;\text{ or }\; \tfrac{1}{1 - \text{rate}} \qquad\qquad O = (P \circ D)\, V$$
#
# ($\circ$ multiplies number by number.) The way back needs the same $D$, and $D$ is as large as P.
# So it is not kept either. `tl.rand(seed, place)` is a random number between 0 and 1 that depends on
# nothing but a seed and a counter: whoever knows the two makes the same number again, in any kernel,
# in any order.
#
# Write `DroppedAttention.apply(q, k, v, causal, rate, seed, block_q, block_k)`, which returns `o` and
# `lse`. Copy your kernels of 7.4, 9.4 and 9.5 into the cell and give them what they need; `delta_kernel`
# of 9.2 serves as it is, and you may ask yourself why.
#
# - Of which number of which weight you make what is yours. The mask depends on seed, batch, head, row
#   and key, on **nothing else**: not on the tile sizes, not on the kernel. (`n_q` and `n_k` may serve to number the
#   weights.) And every weight has a number
#   of its own: no two heads of a call drop the same, and seeds 7 and 8 do not drop the same.
# - Softmax comes first: `lse` is that of 9.6, whatever is dropped. With `rate` 0 all is as in 9.6.
# - `lse` is returned beside `o`, so backward is given two gradients; the second may be ignored, and
#   `ctx.mark_non_differentiable(lse)` says so to PyTorch.
# - Kernels compute it, and what is kept is linear in N, as in 9.6.
#
# How does the check know what you dropped? With V = identity, $O = P \circ D$: the output shows the
# mask. From it, it learns the rate, and what o and the gradients have to be. Try it:
#
# ```python
# q, k, eye = torch.randn(1, 1, 16, 16), torch.randn(1, 1, 16, 16), torch.eye(16)[None, None]
# o, lse = DroppedAttention.apply(q, k, eye, False, 0.5, 7, 16, 16)
# print((o != 0).int())
# ```


# %% ex-9-star
### BEGIN SOLUTION
@triton.jit
def drop_factor(seed, head, rows, keys, n_q, n_k, rate):
    """Return D where rows and keys cross: 0 with probability rate, else 1 / (1 - rate)."""
    place = (head.to(tl.int64) * n_q + rows) * n_k + keys
    return tl.where(tl.rand(seed, place) < rate, 0.0, 1.0 / (1.0 - rate))


@triton.jit
def dropped_forward_kernel(
    q, k, v, o, lse, n_q, n_k, scale, rate, seed,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    tile = tl.program_id(0)
    head = tl.program_id(1)
    q += head * n_q * HEAD_DIM
    k += head * n_k * HEAD_DIM
    v += head * n_k * HEAD_DIM
    o += head * n_q * HEAD_DIM
    lse += head * n_q
    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)  # (block_q,)
    q_tile = load_tile(q, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
    m = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    l_sum = tl.zeros((BLOCK_Q,), tl.float32)
    acc = tl.zeros((BLOCK_Q, HEAD_DIM), tl.float32)
    end = n_k
    if CAUSAL:
        end = tl.minimum(n_k, (tile + 1) * BLOCK_Q + n_k - n_q)
    for start in range(0, end, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)  # (block_k,)
        k_tile = load_tile(k, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        v_tile = load_tile(v, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where(keys[None, :] < n_k, s, float("-inf"))
        if CAUSAL:
            s = tl.where(keys[None, :] <= (rows + n_k - n_q)[:, None], s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))  # (block_q,)
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        alpha = tl.exp(m - m_safe)
        p = tl.exp(s - m_safe[:, None])  # (block_q, block_k)
        l_sum = l_sum * alpha + tl.sum(p, 1)  # of all weights, dropped or not
        p *= drop_factor(seed, head, rows[:, None], keys[None, :], n_q, n_k, rate)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new
    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)
    store_tile(o, acc / l_safe[:, None], rows, n_q, HEAD_DIM)
    tl.store(lse + rows, m + tl.log(l_safe), mask=rows < n_q)


@triton.jit
def dropped_dk_dv_kernel(
    q, k, v, do, lse, delta, dk, dv, n_q, n_k, scale, rate, seed,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    tile = tl.program_id(0)
    head = tl.program_id(1)
    q += head * n_q * HEAD_DIM
    do += head * n_q * HEAD_DIM
    lse += head * n_q
    delta += head * n_q
    k += head * n_k * HEAD_DIM
    v += head * n_k * HEAD_DIM
    dk += head * n_k * HEAD_DIM
    dv += head * n_k * HEAD_DIM
    keys = tile * BLOCK_K + tl.arange(0, BLOCK_K)  # (block_k,)
    k_tile = load_tile(k, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
    v_tile = load_tile(v, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
    dk_tile = tl.zeros((BLOCK_K, HEAD_DIM), tl.float32)
    dv_tile = tl.zeros((BLOCK_K, HEAD_DIM), tl.float32)
    first = 0
    if CAUSAL:
        first = tl.maximum(tile * BLOCK_K - (n_k - n_q), 0) // BLOCK_Q * BLOCK_Q
    for start in range(first, n_q, BLOCK_Q):
        rows = start + tl.arange(0, BLOCK_Q)  # (block_q,)
        q_tile = load_tile(q, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
        do_tile = load_tile(do, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
        lse_row = tl.load(lse + rows, mask=rows < n_q, other=float("inf"))  # (block_q,)
        delta_row = tl.load(delta + rows, mask=rows < n_q, other=0.0)  # (block_q,)
        s = tl.dot(k_tile, tl.trans(q_tile), input_precision="ieee") * scale  # (block_k, block_q)
        p = tl.exp(s - lse_row[None, :])
        if CAUSAL:
            p = tl.where(keys[:, None] <= (rows + n_k - n_q)[None, :], p, 0.0)
        factor = drop_factor(seed, head, rows[None, :], keys[:, None], n_q, n_k, rate)
        dv_tile += tl.dot((p * factor).to(do_tile.dtype), do_tile, input_precision="ieee")
        dp = tl.dot(v_tile, tl.trans(do_tile), input_precision="ieee") * factor
        ds = p * (dp - delta_row[None, :])
        dk_tile += tl.dot(ds.to(q_tile.dtype), q_tile, input_precision="ieee")
    store_tile(dk, dk_tile * scale, keys, n_k, HEAD_DIM)
    store_tile(dv, dv_tile, keys, n_k, HEAD_DIM)


@triton.jit
def dropped_dq_kernel(
    q, k, v, do, lse, delta, dq, n_q, n_k, scale, rate, seed,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    tile = tl.program_id(0)
    head = tl.program_id(1)
    q += head * n_q * HEAD_DIM
    do += head * n_q * HEAD_DIM
    dq += head * n_q * HEAD_DIM
    lse += head * n_q
    delta += head * n_q
    k += head * n_k * HEAD_DIM
    v += head * n_k * HEAD_DIM
    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)  # (block_q,)
    q_tile = load_tile(q, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
    do_tile = load_tile(do, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
    lse_row = tl.load(lse + rows, mask=rows < n_q, other=float("inf"))  # (block_q,)
    delta_row = tl.load(delta + rows, mask=rows < n_q, other=0.0)  # (block_q,)
    dq_tile = tl.zeros((BLOCK_Q, HEAD_DIM), tl.float32)
    end = n_k
    if CAUSAL:
        end = tl.minimum(n_k, (tile + 1) * BLOCK_Q + n_k - n_q)
    for start in range(0, end, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)  # (block_k,)
        k_tile = load_tile(k, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        v_tile = load_tile(v, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale  # (block_q, block_k)
        s = tl.where(keys[None, :] < n_k, s, float("-inf"))
        p = tl.exp(s - lse_row[:, None])
        if CAUSAL:
            p = tl.where(keys[None, :] <= (rows + n_k - n_q)[:, None], p, 0.0)
        dp = tl.dot(do_tile, tl.trans(v_tile), input_precision="ieee")  # (block_q, block_k)
        dp *= drop_factor(seed, head, rows[:, None], keys[None, :], n_q, n_k, rate)
        ds = p * (dp - delta_row[:, None])
        dq_tile += tl.dot(ds.to(k_tile.dtype), k_tile, input_precision="ieee")
    store_tile(dq, dq_tile * scale, rows, n_q, HEAD_DIM)
### END SOLUTION


class DroppedAttention(torch.autograd.Function):
    """o, lse = DroppedAttention.apply(...): attention that drops weights while it trains."""

    @staticmethod
    def forward(ctx, q, k, v, causal, rate, seed, block_q, block_k):
        """Return o (B, H, n_q, d) and lse (B, H, n_q), float32; keep what backward needs."""
        ### BEGIN SOLUTION
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        b, h, n_q, d = q.shape
        n_k = k.shape[2]
        o = torch.empty_like(q)
        lse = torch.empty((b, h, n_q), dtype=torch.float32, device=q.device)
        how = {"HEAD_DIM": d, "BLOCK_Q": block_q, "BLOCK_K": block_k, "CAUSAL": causal}
        dropped_forward_kernel[(triton.cdiv(n_q, block_q), b * h)](
            q, k, v, o, lse, n_q, n_k, d**-0.5, rate, seed, **how,
        )
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.rate, ctx.seed, ctx.how = rate, seed, how
        ctx.mark_non_differentiable(lse)
        return o, lse
        ### END SOLUTION

    @staticmethod
    def backward(ctx, do, of_lse):
        """Return dq, dk, dv, and None for each of the five others."""
        ### BEGIN SOLUTION
        q, k, v, o, lse = ctx.saved_tensors
        do = do.contiguous()
        b, h, n_q, d = q.shape
        n_k, block_q, block_k = k.shape[2], ctx.how["BLOCK_Q"], ctx.how["BLOCK_K"]
        delta = torch.empty_like(lse)
        delta_kernel[(triton.cdiv(n_q, block_q), b * h)](
            o, do, delta, n_q, HEAD_DIM=d, BLOCK_Q=block_q,
        )
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        given = (n_q, n_k, d**-0.5, ctx.rate, ctx.seed)
        dropped_dk_dv_kernel[(triton.cdiv(n_k, block_k), b * h)](
            q, k, v, do, lse, delta, dk, dv, *given, **ctx.how,
        )
        dropped_dq_kernel[(triton.cdiv(n_q, block_q), b * h)](
            q, k, v, do, lse, delta, dq, *given, **ctx.how,
        )
        return dq, dk, dv, None, None, None, None, None
        ### END SOLUTION


# %% check-9-star
check(DroppedAttention)

# %% progress
progress()
