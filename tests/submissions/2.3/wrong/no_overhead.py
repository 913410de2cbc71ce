# Two times only.
# Expected: misconception: overhead is missing
def regime(flops, n_bytes, launches, gpu):
    times = {
        "traffic": n_bytes / (gpu.hbm_gb_per_s * 1e9),
        "arithmetic": flops / (gpu.tflops_half * 1e12),
    }
    return max(times, key=times.get)
