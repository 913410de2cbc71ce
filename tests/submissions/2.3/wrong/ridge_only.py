# The usual roofline answer knows two regimes.
# Expected: misconception: overhead is missing
def regime(flops, n_bytes, launches, gpu):
    ridge = gpu.tflops_half * 1e12 / (gpu.hbm_gb_per_s * 1e9)
    return "traffic" if flops / n_bytes < ridge else "arithmetic"
