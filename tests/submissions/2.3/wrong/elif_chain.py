# Overhead is compared with traffic only.
# Expected: misconception: not all three are compared
def regime(flops, n_bytes, launches, gpu):
    overhead = launches * 5e-6
    traffic = n_bytes / (gpu.hbm_gb_per_s * 1e9)
    arithmetic = flops / (gpu.tflops_half * 1e12)
    if overhead > traffic:
        return "overhead"
    elif traffic > arithmetic:
        return "traffic"
    else:
        return "arithmetic"
