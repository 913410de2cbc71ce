# %% title [markdown]
# # 07 · FlashAttention in Triton: exercises
#
# You write the kernel in four steps. Each step is a kernel and its *launcher*, the Python function
# that starts it. `check` takes the launcher and chooses the tile sizes itself: `block_q` queries and
# `block_k` keys, no more and no fewer. (In which order the tiles of keys come is up to you.) In every step it
# counts what the kernel loads, stores and multiplies: Q is loaded once, K and V once for each tile
# of queries, `tl.dot` makes both products, the results are stored once, all in one launch.
#
# | step | new in it | minutes |
# |---|---|---|
# | 7.1 | one tile of queries, one tile of keys, no loop | 10 |
# | 7.2 | the loop over the keys, with the rescale | 17 |
# | 7.3 | lengths that are no multiple of the tile, and `lse` | 8 |
# | 7.4 | causal, with the tiles of the future skipped | 32 |
#
# Then 7.5 looks at a score after all (6 min), and 7★ is an empty cell (40 min).
#
# Stuck? `hint(function)` helps three times. `course catch-up 7.3`, in a terminal, fills in step 7.2
# for you, so that nobody stops here.

# %% imports
import torch
import triton
import triton.language as tl

from course_lib import check, hint, progress

# %% about-given [markdown]
# ## Given
#
# `load_tile` and `store_tile` are the functions of exercise 6.1, for rows that follow each other
# without gaps: row `i` of the matrix begins at `base + i * HEAD_DIM`.
#
# All tensors have shape `(B, H, N, d)`; B is the batch, texts side by side. The launchers make them contiguous, so one head of `q` is a
# run of `n_q * d` numbers, and head number `head` (of all `B * H`) begins at
# `q + head * n_q * HEAD_DIM`. That offset is given in every step. `o` has q's dtype. (What a launcher
# copies is not counted; in 7★ it copies nothing.)

# %% given-tiles
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


# %% about-7-1 [markdown]
# ## 7.1 One tile, no loop
#
# All queries fit in one tile and all keys in another: `n_q = BLOCK_Q` and `n_k = BLOCK_K`. One
# program computes one head. There is nothing to stream yet, so this is an ordinary softmax, in the
# order of lesson 01: scores, row maximum, exponentials, row sum, weighted sum, division. Write it out:
# `tl.softmax` is refused.
#
# Write the six lines from `s` to `o_tile`. Two things that lesson 06 showed:
# - `tl.dot(a, b, input_precision="ieee")` keeps float32 exact on a GPU. Without it a GPU rounds
#   float32 tiles to TF32, and the check asks for it in every `tl.dot` of this lesson.
# - The second `tl.dot` needs both sides in one dtype: `p.to(v_tile.dtype)`.

# %% ex-7-1
@triton.jit
def one_tile_kernel(
    q, k, v, o, scale,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):
    head = tl.program_id(0)
    q += head * BLOCK_Q * HEAD_DIM
    k += head * BLOCK_K * HEAD_DIM
    v += head * BLOCK_K * HEAD_DIM
    o += head * BLOCK_Q * HEAD_DIM
    rows = tl.arange(0, BLOCK_Q)  # (block_q,)
    keys = tl.arange(0, BLOCK_K)  # (block_k,)

    q_tile = load_tile(q, rows, BLOCK_Q, HEAD_DIM)  # (block_q, head_dim)
    k_tile = load_tile(k, keys, BLOCK_K, HEAD_DIM)  # (block_k, head_dim)
    v_tile = load_tile(v, keys, BLOCK_K, HEAD_DIM)  # (block_k, head_dim)
    ### BEGIN SOLUTION
    s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee")
    s = s * scale  # (block_q, block_k)
    m = tl.max(s, 1)  # (block_q,)
    p = tl.exp(s - m[:, None])  # (block_q, block_k)
    l_sum = tl.sum(p, 1)  # (block_q,)
    acc = tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
    o_tile = acc / l_sum[:, None]  # (block_q, head_dim)
    ### END SOLUTION
    store_tile(o, o_tile, rows, BLOCK_Q, HEAD_DIM)


def one_tile_attention(q, k, v):
    """q (B, H, n_q, d), k and v (B, H, n_k, d) -> o (B, H, n_q, d)."""
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    b, h, n_q, d = q.shape
    o = torch.empty_like(q)
    one_tile_kernel[(b * h,)](
        q, k, v, o, d**-0.5,
        HEAD_DIM=d, BLOCK_Q=n_q, BLOCK_K=k.shape[2],
    )
    return o


# %% check-7-1
check(one_tile_attention)

# %% about-7-2 [markdown]
# ## 7.2 The loop, with the rescale
#
# Now the keys come in tiles, and one program owns one *tile* of queries of one head. In this step
# `n_q` and `n_k` are still multiples of the tiles.
#
# Write
# - the three things that a program remembers: `m`, `l_sum`, `acc`. They are carried through the
#   loop, so they need a shape and a dtype from the start (`tl.full`, `tl.zeros`). A plain `-inf`
#   works in the interpreter and does not compile for a GPU.
# - the body of the loop: the seven lines of lesson 03, `s`, `m_new`, `alpha`, `p`, `l_sum`, `acc`,
#   `m`;
# - after the loop, the division by `l_sum`: once is enough.
#
# One walk over the keys: each tile of K and of V is loaded once for each tile of queries, Q once,
# and O is stored once. What is subtracted before `exp` is each row's largest score so far, as in
# lesson 03, here and in all that follows (or a number near it): one far from it makes `exp`
# overflow or vanish.

# %% ex-7-2
@triton.jit
def loop_kernel(
    q, k, v, o, n_q, n_k, scale,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):
    tile = tl.program_id(0)
    head = tl.program_id(1)
    q += head * n_q * HEAD_DIM
    k += head * n_k * HEAD_DIM
    v += head * n_k * HEAD_DIM
    o += head * n_q * HEAD_DIM
    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)  # (block_q,)
    q_tile = load_tile(q, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
    # m (block_q,), l_sum (block_q,), acc (block_q, head_dim)
    ### BEGIN SOLUTION
    m = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    l_sum = tl.zeros((BLOCK_Q,), tl.float32)
    acc = tl.zeros((BLOCK_Q, HEAD_DIM), tl.float32)
    ### END SOLUTION
    for start in range(0, n_k, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)  # (block_k,)
        k_tile = load_tile(k, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        v_tile = load_tile(v, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        ### BEGIN SOLUTION
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        m_new = tl.maximum(m, tl.max(s, 1))  # (block_q,)
        alpha = tl.exp(m - m_new)  # old scale -> new scale
        p = tl.exp(s - m_new[:, None])  # (block_q, block_k)
        l_sum = l_sum * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new
        ### END SOLUTION
    ### BEGIN SOLUTION
    o_tile = acc / l_sum[:, None]  # (block_q, head_dim)
    ### END SOLUTION
    store_tile(o, o_tile, rows, n_q, HEAD_DIM)


def looped_attention(q, k, v, *, block_q=64, block_k=64):
    """q (B, H, n_q, d), k and v (B, H, n_k, d) -> o (B, H, n_q, d)."""
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    b, h, n_q, d = q.shape
    o = torch.empty_like(q)
    loop_kernel[(n_q // block_q, b * h)](
        q, k, v, o, n_q, k.shape[2], d**-0.5,
        HEAD_DIM=d, BLOCK_Q=block_q, BLOCK_K=block_k,
    )
    return o


# %% check-7-2
check(looped_attention)

# %% about-7-3 [markdown]
# ## 7.3 Ragged lengths, and lse
#
# With 257 keys in tiles of 64, the fifth tile holds one key and 63 places past the end.
# `load_tile` fills those places with 0, and a key of zeros has the score **0**, which is not
# "nothing": exp(0 - m) takes part in the sum. Its score must become -inf, *before* the maximum.
#
# The kernel also returns `lse = m + ln(l_sum)`, one number a row: the logarithm of the sum of all
# exponentials. Use the natural logarithm, `tl.log`.
#
# Start from your 7.2. New: one line for the mask after `s`, and `lse_row` at the end.

# %% ex-7-3
@triton.jit
def ragged_kernel(
    q, k, v, o, lse, n_q, n_k, scale,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
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
    ### BEGIN SOLUTION
    m = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    l_sum = tl.zeros((BLOCK_Q,), tl.float32)
    acc = tl.zeros((BLOCK_Q, HEAD_DIM), tl.float32)
    ### END SOLUTION
    for start in range(0, n_k, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)  # (block_k,)
        k_tile = load_tile(k, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        v_tile = load_tile(v, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        ### BEGIN SOLUTION
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where(keys[None, :] < n_k, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))  # (block_q,)
        alpha = tl.exp(m - m_new)  # old scale -> new scale
        p = tl.exp(s - m_new[:, None])  # (block_q, block_k)
        l_sum = l_sum * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new
        ### END SOLUTION
    # o_tile (block_q, head_dim), lse_row (block_q,)
    ### BEGIN SOLUTION
    o_tile = acc / l_sum[:, None]
    lse_row = m + tl.log(l_sum)
    ### END SOLUTION
    store_tile(o, o_tile, rows, n_q, HEAD_DIM)
    tl.store(lse + rows, lse_row, mask=rows < n_q)


def ragged_attention(q, k, v, *, block_q=64, block_k=64):
    """Return o (B, H, n_q, d) and lse (B, H, n_q), float32."""
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    b, h, n_q, d = q.shape
    o = torch.empty_like(q)
    lse = torch.empty((b, h, n_q), dtype=torch.float32, device=q.device)
    ragged_kernel[(triton.cdiv(n_q, block_q), b * h)](
        q, k, v, o, lse, n_q, k.shape[2], d**-0.5,
        HEAD_DIM=d, BLOCK_Q=block_q, BLOCK_K=block_k,
    )
    return o, lse


# %% check-7-3
check(ragged_attention)

# %% about-7-4 [markdown]
# ## 7.4 Causal: your FlashAttention
#
# Causal attention lets a query see the keys up to its own place, and no further. The mask is
# *aligned at the end*: the last query sees the last key. With `n_q` queries and `n_k` keys, query
# `i` sees key `j` if `j <= i + n_k - n_q`.
#
# Start from your 7.3. Two things change:
# - The mask: inside the loop, a key that a row may not see gets the score -inf.
# - **The end of the loop.** No row of this tile sees past its last row's key, so the tiles beyond
#   are skipped: they are not even loaded. Set `end`, the first key that *no* row of the tile sees,
#   and never more than `n_k`. It may be 0 or less: then no row of the tile sees a key, and the
#   loop does not run. The lesson's staircase (*The code, side by side*) shows one `end`.
#   This is the whole gain of causal attention, and the ledger proves it: the check counts that
#   K and V are loaded exactly once per visited tile.
#
# With more queries than keys, the first rows see no key at all: their `m` stays -inf, and
# -inf - (-inf) is NaN (lesson 03). Such a row must give `o = 0` and `lse = -inf`. One way is given:
# subtract `m_safe`, and divide by `l_safe`.

# %% ex-7-4
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
    ### BEGIN SOLUTION
    m = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    l_sum = tl.zeros((BLOCK_Q,), tl.float32)
    acc = tl.zeros((BLOCK_Q, HEAD_DIM), tl.float32)
    ### END SOLUTION
    end = n_k
    if CAUSAL:
        ### BEGIN SOLUTION
        end = tl.minimum(n_k, (tile + 1) * BLOCK_Q + n_k - n_q)
        ### END SOLUTION
    for start in range(0, end, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)  # (block_k,)
        k_tile = load_tile(k, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        v_tile = load_tile(v, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        # here s (block_q, block_k), with its two masks, and m_new (block_q,)
        ### BEGIN SOLUTION
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where(keys[None, :] < n_k, s, float("-inf"))
        if CAUSAL:
            last = rows + n_k - n_q  # the last key that each row sees
            s = tl.where(keys[None, :] <= last[:, None], s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))  # (block_q,)
        ### END SOLUTION
        # subtract m_safe where you subtracted m_new: a row without a key
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        ### BEGIN SOLUTION
        alpha = tl.exp(m - m_safe)  # old scale -> new scale
        p = tl.exp(s - m_safe[:, None])  # (block_q, block_k)
        l_sum = l_sum * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new
        ### END SOLUTION
    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)
    # o_tile (block_q, head_dim), lse_row (block_q,)
    ### BEGIN SOLUTION
    o_tile = acc / l_safe[:, None]
    lse_row = m + tl.log(l_safe)
    ### END SOLUTION
    store_tile(o, o_tile, rows, n_q, HEAD_DIM)
    tl.store(lse + rows, lse_row, mask=rows < n_q)


def my_flash_attention(q, k, v, *, causal=False, block_q=64, block_k=64):
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


# %% check-7-4
check(my_flash_attention)

# %% about-export [markdown]
# That is FlashAttention. In JupyterLab's terminal `course export 7.4` writes your kernel into one file
# that checks and times itself beside PyTorch's own, on an NVIDIA GPU from the A100 on, or an older
# T4 (there without bf16).
#
# If you compare by hand: PyTorch's `is_causal=True` is aligned at the top left. With fewer queries
# than keys, `attn_mask=causal_lower_right(n_q, n_k)` of `torch.nn.attention.bias` is the mask of 7.4.

# %% own-heading [markdown]
# ## Your own mark
#
# This cell counts your kernel and plays it beside the course's, load by load; the first load that
# differs flashes. On a machine with a GPU it is timed, too, beside what PyTorch calls.

# %% own-mark
def own_mark():
    """Count the kernel of 7.4 beside the formula, time it where there is a GPU, and play it."""
    from course_lib import EagerLedger, count
    from course_lib.accounting.traffic import flash_tile_loads
    from course_lib.kernels.flash_forward import flash_attention_with_lse
    from course_lib.widgets import Race

    qkv = [torch.randn(1, 1, 512, 16) for _ in range(3)]
    try:
        mine = count(my_flash_attention, *qkv, causal=True)
    except Exception as error:
        print("7.4 does not run yet:", (str(error) or type(error).__name__).splitlines()[-1])
        return None
    shape = dict(n=512, d=16, b=4, block_q=64, block_k=64, lse=True, causal=True)
    model = flash_tile_loads.bytes(**shape)
    print(f"your kernel: {mine.total:,} bytes counted, {model:,} by the formula")
    if torch.cuda.is_available():
        big = [torch.randn(1, 8, 4096, 64, dtype=torch.float16, device="cuda") for _ in range(3)]
        sdpa = torch.nn.functional.scaled_dot_product_attention
        with EagerLedger() as books:  # which backend does PyTorch choose?
            sdpa(*big)
        ways = {"yours": my_flash_attention, books.crossings[0].op: sdpa}
        for name, call in ways.items():
            ms = triton.testing.do_bench(lambda call=call: call(*big), return_mode="median")
            print(f"{name}: {1e3 * ms:.0f} µs, {torch.cuda.get_device_name()}")
    theirs = count(flash_attention_with_lse, *qkv, causal=True)
    return Race.replay(mine, beside=theirs, causal=True, whose="your kernel")


own_mark()

# %% about-7-5 [markdown]
# ## 7.5 Look at a score after all
#
# The kernel never wrote the weights P down. Are they lost? No: any tile of P can be computed again
# from `q`, `k` and one number per row, because, with S = Q Kᵀ / √d,
#
# $$P_{ij} = \frac{\exp(S_{ij} - m_i)}{\ell_i} = \exp(S_{ij} - \mathrm{lse}_i).$$
#
# Write `rebuild_weights`, in PyTorch, for one head: the tile of P in tile row `i` and tile column
# `j`. The backward pass (for training, lesson 09) does exactly this. (`lse` belongs to whole rows. They may be
# longer than the keys given here: then a row of the tile does not add up to 1.)
# All tensors are float32, P too. There is no mask, so no `lse` is −inf.

# %% ex-7-5
def rebuild_weights(q, k, lse, i, j, *, block_q, block_k):
    """Return tile (i, j) of P, (at most block_q, at most block_k).

    q (n_q, d), k (n_k, d), lse (n_q,). The last tiles may be short.
    """
    ### BEGIN SOLUTION
    rows = slice(i * block_q, (i + 1) * block_q)
    keys = slice(j * block_k, (j + 1) * block_k)
    s = q[rows] @ k[keys].T * q.shape[-1] ** -0.5  # (block_q, block_k)
    return torch.exp(s - lse[rows, None])
    ### END SOLUTION


# %% check-7-5
check(rebuild_weights)

# %% about-7-star [markdown]
# ## 7★ The empty cell
#
# Everything from nothing: pointers, heads, strides, masks. No helper is given. All that 7.4 asks
# for holds here too (causal or not, any lengths, rows without a key, `lse`), and two things more:
# - the tensors are **not** made contiguous: use their strides (`q.stride()`, each of the four can
#   be any number, and `q`, `k`, `v` differ), and copy none of `q`, `k`, `v`, not with
#   `.contiguous()`, `.clone()`, `.repeat_interleave()` nor in any other way (the check looks at the
#   memory that your launch is given). Beside `o` and `lse` you need no other tensor;
# - grouped-query attention: `k` and `v` may have fewer heads than `q`. `H_kv` divides `H`, and
#   query head `h` uses key/value head `h // (H // H_kv)`.
#
# Counted as in 7.4: one launch; Q is loaded once, K and V once per visited tile, `o` and `lse` are
# stored once. Tiles have the call's sizes, `block_q` and `block_k`. And `input_precision="ieee"`, as before.

# %% ex-7-star
### BEGIN SOLUTION
@triton.jit
def scratch_kernel(
    Q, K, V, O, LSE,
    q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d,
    v_b, v_h, v_n, v_d, o_b, o_h, o_n, o_d,
    heads, group, n_q, n_k, scale,
    D: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr, CAUSAL: tl.constexpr,
):
    tile, batch, head = tl.program_id(0), tl.program_id(1) // heads, tl.program_id(1) % heads
    rows = tile * BQ + tl.arange(0, BQ)
    cols = tl.arange(0, D)
    q_at = Q + batch * q_b + head * q_h + rows[:, None] * q_n + cols[None, :] * q_d
    k_at = K + batch * k_b + (head // group) * k_h + cols[:, None] * k_d  # K transposed
    v_at = V + batch * v_b + (head // group) * v_h + cols[None, :] * v_d
    q_tile = tl.load(q_at, mask=rows[:, None] < n_q, other=0.0)
    m = tl.full((BQ,), float("-inf"), tl.float32)
    l_sum = tl.zeros((BQ,), tl.float32)
    acc = tl.zeros((BQ, D), tl.float32)
    end = tl.minimum(n_k, (tile + 1) * BQ + n_k - n_q) if CAUSAL else n_k
    for start in range(0, end, BK):
        keys = start + tl.arange(0, BK)
        k_tile = tl.load(k_at + keys[None, :] * k_n, mask=keys[None, :] < n_k, other=0.0)
        v_tile = tl.load(v_at + keys[:, None] * v_n, mask=keys[:, None] < n_k, other=0.0)
        seen = keys[None, :] < n_k
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None] + n_k - n_q)
        s = tl.dot(q_tile, k_tile, input_precision="ieee") * scale
        s = tl.where(seen, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        alpha = tl.exp(m - m_safe)
        p = tl.exp(s - m_safe[:, None])
        l_sum = l_sum * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new
    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)
    o_at = O + batch * o_b + head * o_h + rows[:, None] * o_n + cols[None, :] * o_d
    tl.store(o_at, (acc / l_safe[:, None]).to(O.dtype.element_ty), mask=rows[:, None] < n_q)
    tl.store(LSE + tl.program_id(1) * n_q + rows, m + tl.log(l_safe), mask=rows < n_q)
### END SOLUTION


def flash_from_scratch(q, k, v, *, causal=False, block_q=64, block_k=64):
    """q (B, H, n_q, d), k and v (B, H_kv, n_k, d), any strides -> (o, lse)."""
    ### BEGIN SOLUTION
    b, h, n_q, d = q.shape
    o = torch.empty_like(q)
    lse = torch.empty((b, h, n_q), dtype=torch.float32, device=q.device)
    scratch_kernel[(triton.cdiv(n_q, block_q), b * h)](
        q, k, v, o, lse,
        *q.stride(), *k.stride(), *v.stride(), *o.stride(),
        h, h // k.shape[1], n_q, k.shape[2], d**-0.5,
        D=d, BQ=block_q, BK=block_k, CAUSAL=causal,
    )
    return o, lse
    ### END SOLUTION


# %% check-7-star
check(flash_from_scratch)

# %% progress
progress()
