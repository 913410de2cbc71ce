# %% title [markdown]
# # 02 · The HBM accountant: exercises
#
# Four exercises, about 31 minutes. You need lesson 02 and Python; no GPU, no
# Triton, not even NumPy. Run a cell with Shift+Enter. `hint(least_bytes)`
# gives a hint, three at most for each exercise.

# %% imports
from course_lib import Predict, check, hint, progress
from course_lib.accounting.flops import attention_flops
from course_lib.accounting.hardware import GPUS
from course_lib.accounting.traffic import eager_six_trips, flash_compulsory

# %% about-2-1 [markdown]
# ## 2.1 · The least possible (5 minutes)
#
# How many bytes must *any* attention kernel move between HBM and the chip,
# however clever it is? Inputs are in HBM at the start. The output must be in
# HBM at the end.
#
# - `q` and `o` have shape `(heads, n_q, d)`,
# - `k` and `v` have shape `(kv_heads, n_k, d)`. Often several query heads
#   share one key/value head (grouped-query attention, GQA): then `kv_heads`
#   is smaller than `heads`.
# - `itemsize` is the number of bytes of one element: 2 for bf16 and fp16, 4
#   for fp32.
#
# Leave out the number per row that only training needs. Return bytes.
# Write the formula yourself, here and in all exercises: a check refuses the course's own.
#
# Example: `least_bytes(2, 3, 4, 1, 1, 2)` is 80: 8 + 12 + 12 + 8 elements of
# 2 bytes.


# %% ex-2-1
def least_bytes(n_q, n_k, d, heads, kv_heads, itemsize):
    """Return the least bytes that any kernel must move to and from HBM."""
    ### BEGIN SOLUTION
    q_and_o = 2 * heads * n_q * d
    k_and_v = 2 * kv_heads * n_k * d
    return (q_and_o + k_and_v) * itemsize
    ### END SOLUTION


# %% check-2-1
check(least_bytes)

# %% about-2-2 [markdown]
# ## 2.2 · How many times fewer, and from which N on (8 minutes)
#
# Here is another naive program. Q, K, V and O are in bf16, 2 bytes a number, as
# in the lesson. Softmax in bf16 loses digits, so this program keeps S and P in
# fp32, **4 bytes** a number. It makes the same four trips.
#
# One head, `N` queries and `N` keys, `d` numbers each. Return two numbers for
# given `n` and `d`:
#
# 1. the **factor**: the bytes of this program over the least,
# 2. the **crossover**: the N at which the program's quadratic term is as large
#    as its linear term. (It depends on `d` alone, and need not be whole.)
#
# Write both sums on paper first, each term with its own bytes. One check: at
# the crossover the program has two equal terms, so the factor there must be 2.


# %% ex-2-2
def reduction_and_crossover(n, d):
    """Return (factor, crossover): two numbers."""
    ### BEGIN SOLUTION
    factor = 2 * n / d + 1  # (4 N^2 · 4 + 4 N d · 2) / (4 N d · 2)
    crossover = d / 2  # 4 N^2 · 4 = 4 N d · 2
    return factor, crossover
    ### END SOLUTION


# %% check-2-2
check(reduction_and_crossover)

# %% about-2-3 [markdown]
# ## 2.3 · Overhead, traffic or arithmetic? (8 minutes)
#
# A piece of work has `flops` floating-point operations, moves `n_bytes` to
# and from HBM, and is made of `launches` kernels. Three times, each as if the
# other two cost nothing:
#
# - **overhead**: every launch costs 5 microseconds (`5e-6` s),
# - **traffic**: the bytes at the speed of the GPU's HBM,
# - **arithmetic**: the FLOPs at the speed of its matrix units.
#
# The largest of the three is the limit. Return its name: `"overhead"`,
# `"traffic"` or `"arithmetic"`. No two times are equal, but some lie close
# together: do not round them.
#
# `gpu` has two fields that you need: `gpu.hbm_gb_per_s` (GB/s, 1 GB = 10⁹
# bytes) and `gpu.tflops_half` (TFLOP/s, 10¹² FLOPs a second). The next cell
# prints some work to think about: eager attention, and one kernel that moves the least
# bytes. Compare their FLOPs. Then predict; the check tells you the answer.

# %% table-2-3
print("8 heads, d = 128, bf16")
print(f"{'':9} {'N':>6} {'GFLOP':>9} {'MB':>9} {'launches':>9}")
for n in (128, 2048, 8192):
    gflop = attention_flops(n, n, 128, heads=8) / 1e9
    for name, model, launches in (
        ("eager", eager_six_trips, 4),
        ("the least", flash_compulsory, 1),
    ):
        mb = model.bytes(n=n, d=128, heads=8) / 1e6
        print(f"{name:9} {n:6} {gflop:9.3f} {mb:9.1f} {launches:9}")
h100 = GPUS["H100"]
print(f"\nH100: {h100.hbm_gb_per_s} GB/s, {h100.tflops_half} TFLOP/s")

# %% predict-2-3
Predict(
    "2-regime-2048",
    "Which of the three is the longest for eager attention at N = 2048 on an H100?",
    options=["overhead", "traffic", "arithmetic"],
)


# %% ex-2-3
def regime(flops, n_bytes, launches, gpu):
    """Return "overhead", "traffic" or "arithmetic": what takes longest.

    One launch takes 5e-6 seconds. gpu.hbm_gb_per_s is in GB/s,
    gpu.tflops_half in TFLOP/s (powers of ten).
    """
    ### BEGIN SOLUTION
    seconds = {
        "overhead": launches * 5e-6,
        "traffic": n_bytes / (gpu.hbm_gb_per_s * 1e9),
        "arithmetic": flops / (gpu.tflops_half * 1e12),
    }
    return max(seconds, key=seconds.get)
    ### END SOLUTION


# %% check-2-3
check(regime)

# %% about-2-4 [markdown]
# ## 2.4 · Two audit cards (10 minutes)
#
# Both cards are taken from public teaching material. N = 8192, d = 128, two
# bytes per element. Predict first: which numbers will survive? Then count.
# Then decide.
#
# > **Card 1** (32 heads). The four trips of naive attention move 17.6 GB.
# > Q, K, V and O, each once, are 0.27 GB. Altogether naive moves about 75
# > times as much.
#
# > **Card 2** (one head). If only Q, K, V and O are counted as traffic,
# > attention does about d FLOPs per byte, here 128.
#
# Return four pairs `(your number, your verdict)`:
#
# | key | your number |
# |---|---|
# | `scores_gb` | GB (10⁹ bytes) of the four trips alone, 32 heads |
# | `flash_gb` | GB of Q, K, V and O, each once, 32 heads |
# | `factor` | all of naive (trips and Q, K, V, O) over `flash_gb` |
# | `flop_per_byte` | FLOPs over bytes of Q, K, V, O, one head |
#
# Give your number as it is, or with three significant digits or more. The verdict is
# `"holds"` if it is the card's, once it has as few digits as the card prints; else
# `"does not hold"`. Attention has `4 N² d` FLOPs a head.


# %% ex-2-4
def audit_cards():
    """Return {"scores_gb": (number, verdict), ...} with four keys."""
    ### BEGIN SOLUTION
    n, d, b, heads = 8192, 128, 2, 32
    scores_gb = heads * 4 * n * n * b / 1e9
    flash_gb = heads * 4 * n * d * b / 1e9
    return {
        "scores_gb": (scores_gb, "does not hold"),  # 17.2, not 17.6
        "flash_gb": (flash_gb, "holds"),
        "factor": ((scores_gb + flash_gb) / flash_gb, "does not hold"),
        "flop_per_byte": (4 * n * n * d / (4 * n * d * b), "does not hold"),
    }
    ### END SOLUTION


# %% check-2-4
check(audit_cards)

# %% progress
progress()
