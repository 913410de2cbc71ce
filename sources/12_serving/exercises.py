# %% title [markdown]
# # 12 · Serving: exercises
#
# You write what a server keeps and what it decides: a decode step on latent rows, a cache in one
# byte a number, the scheduler, and the choice of a kernel.
#
# | | | minutes |
# |---|---|---|
# | 12.1 | latent attention, absorbed | 18 |
# | 12.2 | an int8 cache with scales | 12 |
# | 12.3 | who goes next: continuous batching in chunks | 75 |
# | 12.4 | which kernel can serve, and why not the others | 10 |
#
# Stuck? `hint(choose_backend)` gives a hint, three at most for each exercise.

# %% imports
import torch
import torch.nn.functional as F

from course_lib import check, hint, progress

# %% about-12-1 [markdown]
# ## 12.1 · Latent attention, absorbed (18 minutes)
#
# DeepSeek-V2 caches two small rows for each token, and every head looks at the same two: `latent`
# $c_j$ (512 numbers there), and `k_rope` $k^R_j$ (64, a key that is turned by its position already).
# Each head has matrices of its own that make its key and its value of them: $W^{UK}$ (`w_uk`) the
# key, $W^{UV}$ (`w_uv`) the value. `rank` is how many numbers $c_j$ has. A query has two parts:
# $q^{\text{nope}}$ (`q_nope`, *no positional embedding*) meets the key made of $c_j$, and $q^R$
# (`q_rope`, *rotary*: turned by its position) meets $k^R_j$.
#
# $$k_j = [\,W^{UK} c_j\,;\; k^R_j\,] \qquad v_j = W^{UV} c_j \qquad
# s_j = \frac{q^{\text{nope}} \cdot W^{UK} c_j + q^R \cdot k^R_j}
# {\sqrt{d_{\text{nope}} + d_{\text{rope}}}}$$
#
# `expanded` below does just that, and builds K and V of all heads: a cache that was small is large
# again, at each token. Write it **absorbed**, with the same numbers:
#
# - $q \cdot (W c_j) = (W^\top q) \cdot c_j$: let `w_uk` act on the one query, not on all cached rows;
# - $\sum_j p_j W c_j = W \sum_j p_j c_j$: average the latent rows, and let `w_uv` act behind that.
#
# The query gets longer by this. Does its scale change?
#
# Compute with PyTorch and in the inputs' dtype, float32 or float64. The check counts the bytes of
# all tensors that you make: they stay below half of what K of all heads would take. (A loop that
# builds one head's K at a time builds them all, and a product that broadcasts the cached rows over
# the heads copies them. `torch.cat` makes a copy, too, which counts.)

# %% given-expanded
def expanded(q_nope, q_rope, latent, k_rope, w_uk, w_uv):
    """The same as it is defined, with K and V of all heads."""
    k_nope = torch.einsum("bnr,hdr->bhnd", latent, w_uk)  # (B, H, n, d_nope)
    v = torch.einsum("bnr,hvr->bhnv", latent, w_uv)  # (B, H, n, d_v)
    k_rope = k_rope[:, None].expand(-1, len(w_uk), -1, -1)  # one for all heads
    k = torch.cat([k_nope, k_rope], -1)
    q = torch.cat([q_nope, q_rope], -1)[:, :, None]  # (B, H, 1, d_nope + d_rope)
    s = q @ k.mT / q.shape[-1] ** 0.5  # (B, H, 1, n)
    return (torch.softmax(s, -1) @ v)[:, :, 0]



# %% ex-12-1
def latent_decode(q_nope, q_rope, latent, k_rope, w_uk, w_uv):
    """Attend with the newest token of each sequence, over the cached rows as they are.

    q_nope (B, H, d_nope), q_rope (B, H, d_rope); cached: latent (B, n, rank), k_rope (B, n, d_rope);
    w_uk (H, d_nope, rank), w_uv (H, d_v, rank). Returns o (B, H, d_v), in the inputs' dtype.
    """
    ### BEGIN SOLUTION
    scale = (q_nope.shape[-1] + q_rope.shape[-1]) ** -0.5
    q_latent = torch.einsum("bhd,hdr->bhr", q_nope, w_uk)
    s = scale * (q_latent @ latent.mT + q_rope @ k_rope.mT)  # (B, H, n)
    averaged = torch.softmax(s, -1) @ latent  # (B, H, rank)
    return torch.einsum("bhr,hvr->bhv", averaged, w_uv)
    ### END SOLUTION


# %% check-12-1
check(latent_decode)

# %% about-12-2 [markdown]
# ## 12.2 · A cache in int8, and what it costs (12 minutes)
#
# One byte a number where bfloat16 has two: twice as many tokens fit, and a decode step reads half as
# much. Nothing of it is free. Keep K and V in int8, attend over what is kept, and measure.
#
# - A **row** is what one token has in one head, `d` numbers. Its **scale** is its largest absolute
#   value / 127 (float32), with nothing added, however small the row is (1e-20, say). Only a row of zeros has 1
#   (any positive number will do).
# - What is kept are the row's numbers divided by its scale, **rounded**: whole numbers from -127 to
#   127, int8. So a row is about `numbers * scale`.
# - `o` is attention over the cache *as it is kept*. The rows need not be multiplied out: whose scale
#   multiplies a score, and whose a weight? (Either way is right.)
# - `error` is the largest absolute difference between `o` and attention over `k` and `v` as they came:
#   one number, a Python float or a tensor that holds one.
#
# Example: the row `[0.5, -2.54, 0.031, 0]` has the scale 0.02, and is kept as `[25, -127, 2, 0]`.
#
# The inputs may be bfloat16; compute in float32, in which `o` is returned.


# %% ex-12-2
def int8_cache(q, k, v):
    """Keep K and V in int8, attend over what is kept, and say what it costs.

    q (B, H, 1, d); k, v (B, H, n, d). Returns o (B, H, 1, d), float32; error, a number; k_rows and
    v_rows, each a pair of numbers (B, H, n, d), int8, and scales (B, H, n, 1), float32.
    """
    ### BEGIN SOLUTION
    def quantise(x):
        scale = x.abs().amax(-1, keepdim=True) / 127
        scale = torch.where(scale == 0, 1.0, scale)
        return torch.round(x / scale).to(torch.int8), scale

    q, k, v = q.float(), k.float(), v.float()
    k_rows, v_rows = quantise(k), quantise(v)
    (k_numbers, k_scale), (v_numbers, v_scale) = k_rows, v_rows
    s = q @ k_numbers.float().mT * k_scale.mT / q.shape[-1] ** 0.5  # (B, H, 1, n)
    o = (torch.softmax(s, -1) * v_scale.mT) @ v_numbers.float()
    exact = F.scaled_dot_product_attention(q, k, v)
    error = (o - exact).abs().max().item()
    return o, error, k_rows, v_rows
    ### END SOLUTION


# %% check-12-2
check(int8_cache)

# %% about-12-3 [markdown]
# ## 12.3 · Who goes next? (75 minutes)
#
# You are the scheduler of a server. Before **each step** `next_batch` is asked once: what is
# computed in this step, and who gives up its pages? It is told what a server knows, oldest first
# (a request that comes later has a larger id):
#
# - `waiting`: `{id: todo}`. They have no pages, and `todo` tokens to compute.
# - `running`: `{id: (cached, todo)}`. `cached` tokens have their K and V in pages, `todo` are known and
#   not computed yet:
#
#   | `todo` | what it is |
#   |---|---|
#   | more than 1 | a prompt |
#   | 1 | an answer's newest token (the next one comes out of the step that computes it), or the last token of a prompt, which is treated as an answer too |
#   | 0 | the answer has ended |
#
#   Who waits has a prompt, also with a `todo` of 1.
# - `free_pages`, and how many tokens a page holds, `page_size`. A request that has `cached` tokens
#   has just as many pages as these need.
#
# Return `(compute, leave)`: a dict `{id: tokens}` of those who get at least one, and a list of ids.
#
# ```
# next_batch({7: 30}, {3: (5, 1), 4: (8, 0)}, 1, budget=8, page_size=4)  ->  ({3: 1, 7: 7}, [4])
# ```
#
# 4 has ended and leaves, so 3 pages are free. 3 gets its token, on a page that it has. 7 is admitted:
# of its prompt come the 7 tokens for which there is budget. The rules:
#
# 1. At most `budget` tokens a step. New pages at most: those free, plus those of the requests that
#    leave. (The budget always suffices for all answers: it is never smaller than the number of all
#    pages, and each answer has at least one page.)
# 2. Who has ended leaves at once.
# 3. An answer never waits for a prompt: as long as pages last, each gets its token in every step.
# 4. A long prompt comes in chunks, over several steps.
# 5. Nobody leaves before it has ended while there are pages enough for all who run, and no answer
#    only so that a younger prompt gets a new page. Somebody has to leave if the answers need more
#    pages than are free, or if nobody at all can go on. Who, is up to you: the newest loses least. (If
#    several leave, one of them at least could not stay though all others went.) A
#    prompt that finds no page may wait. Admit nobody in a step in which somebody leaves so: it would
#    pass the one that left (rule 6). Who left waits again with all of its tokens, those it was given
#    included, and they are computed anew. (Each request fits the pool alone.)
# 6. No prompt is overtaken for ever: at most 5 younger requests may pass it before it is done. A
#    younger one *passes* an older one if it finishes its prompt in a step in which the older one does
#    not finish, and the older one gets fewer tokens in it. (Who leaves before it has ended has a prompt again, from that step on.)
# 7. Of 30 requests all answers are there after 85 % of the time of *static* batching, where
#    as many as fit begin together, and nobody else until all of these have ended. A step
#    takes as long as the slower of two things, as in lesson 02: reading the weights and the cached
#    K and V, or computing its tokens. (So a step with few tokens is hardly shorter than one with many.)
#
# How long an answer gets, and who comes next, you are not told. The check holds the clock and
# plays a step for each of your decisions: what you do not return is not remembered anywhere.
#
# Has it passed? Then `from course_lib.widgets import ServerMemory` and `ServerMemory(next_batch)`
# draw what it makes of the lesson's requests, beside the coach and the tram.


# %% ex-12-3
def pages_for(tokens, page_size):
    """Return how many pages so many tokens fill."""
    return -(-tokens // page_size)


def next_batch(waiting, running, free_pages, *, budget, page_size):
    """Decide one step of a server: return ({id: tokens to compute}, [ids that leave]).

    waiting {id: todo}, running {id: (cached, todo)}, both oldest first; see the rules above.
    """
    ### BEGIN SOLUTION
    leave = [i for i, (_, todo) in running.items() if todo == 0]
    stay = {i: state for i, state in running.items() if i not in leave}
    free = free_pages + sum(pages_for(running[i][0], page_size) for i in leave)

    def growing():  # answers whose last page is full
        return sum(todo == 1 and cached % page_size == 0 for cached, todo in stay.values())

    pages_ran_out = growing() > free
    while growing() > free:
        newest = max(stay)
        leave.append(newest)
        free += pages_for(stay.pop(newest)[0], page_size)

    compute = {i: 1 for i, (_, todo) in stay.items() if todo == 1}
    free -= growing()
    budget -= len(compute)
    prompts = {i: state for i, state in stay.items() if i not in compute}
    if not pages_ran_out:
        prompts |= {i: (0, todo) for i, todo in waiting.items()}
    for i, (cached, todo) in prompts.items():
        has = pages_for(cached, page_size)
        tokens = min(todo, budget, (has + free) * page_size - cached)
        if tokens <= 0:
            break
        compute[i] = tokens
        budget -= tokens
        free -= pages_for(cached + tokens, page_size) - has
    return compute, leave
    ### END SOLUTION


# %% check-12-3
check(next_batch)

# %% about-12-4 [markdown]
# ## 12.4 · Which kernel can serve? (10 minutes)
#
# A situation asks for eight things at once, and no kernel has everything. So servers go through a
# list and take the first entry that can do *all* that is asked; if there is none, they say why.
# Write that loop.
#
# `need` is a dict of what is asked, `backends` a list of dicts of what is supported, in the order
# in which they are tried. Both have the same keys; a backend has a `"name"` besides.
#
# | key | `need` | `backend` | supported if |
# |---|---|---|---|
# | gpu | 80 (A100), 89 (L4), 90 (H100), 100 (B200) | oldest and newest | it lies between them, ends included |
# | dtype | of q, k, v: `"bf16"` | a list | it is in the list |
# | cache | what K and V are kept in: `"fp8"` | a list | it is in the list |
# | d | 128; 576 is a latent row | a list | it is in the list |
# | mask | `"none"`, `"causal"`, `"window"`, or `"rule"`: any function of the two numbers | a list | it is in the list |
# | page | slots of a page, or None: K and V lie in one piece | a list, perhaps empty | it is in the list, or None is asked |
# | mixed | prefill and decode in one launch? | True or False | it has it, or it is not asked |
# | backward | gradients? | True or False | it has it, or it is not asked |
#
# Return two things: the **name** of the first backend that supports all of it (None if there is
# none), and the **reasons**: a dict that has, for *every* backend that cannot serve, the list of
# the keys at which it fails. Whoever can serve is not in it.
#
# The cell below shows a list of eleven (what each is documented to support, with sources in the
# file that the note names), and six situations. **Before you write, choose by eye** for each of the
# six. The check takes them, and lists of kernels that do not exist.

# %% backends
from course_lib.accounting.backends import BACKENDS, SITUATIONS, checklist

for name, asked in SITUATIONS.items():
    print(f"{name}:\n    {asked}")
checklist()


# %% ex-12-4
def choose_backend(need, backends):
    """Return (name, reasons): the first that serves, and why each other one cannot.

    need: a dict. backends: a list of dicts with the same keys and "name". name: str or None;
    reasons: dict from names to lists of keys.
    """
    ### BEGIN SOLUTION
    name, reasons = None, {}
    for row in backends:
        oldest, newest = row["gpu"]
        fits = {
            "gpu": oldest <= need["gpu"] <= newest,
            "page": need["page"] is None or need["page"] in row["page"],
        }
        for key in ("dtype", "cache", "d", "mask"):
            fits[key] = need[key] in row[key]
        for key in ("mixed", "backward"):
            fits[key] = row[key] or not need[key]
        missing = [key for key in fits if not fits[key]]
        if missing:
            reasons[row["name"]] = missing
        elif name is None:
            name = row["name"]
    return name, reasons
    ### END SOLUTION


# %% check-12-4
check(choose_backend)

# %% progress
progress()
