# Speed instead of time: the lowest rate is not the longest time.
# Expected: property: the regime
def regime(flops, n_bytes, launches, gpu):
    times = {
        "overhead": 1 / 5e-6,
        "traffic": gpu.hbm_gb_per_s * 1e9,
        "arithmetic": gpu.tflops_half * 1e12,
    }
    return max(times, key=times.get)
