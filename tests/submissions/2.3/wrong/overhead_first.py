# Overhead wins as soon as one other time is smaller.
# Expected: misconception: not all three are compared
def regime(flops, n_bytes, launches, gpu):
    overhead = launches * 5e-6
    traffic = n_bytes / (gpu.hbm_gb_per_s * 1e9)
    arithmetic = flops / (gpu.tflops_half * 1e12)
    if overhead > min(traffic, arithmetic):
        return "overhead"
    return "traffic" if traffic > arithmetic else "arithmetic"
