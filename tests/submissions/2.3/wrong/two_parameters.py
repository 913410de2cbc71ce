# A parameter is missing.
# Expected: property: the signature
def regime(flops, n_bytes, gpu):
    times = {
        "overhead": 5e-6,
        "traffic": n_bytes / (gpu.hbm_gb_per_s * 1e9),
        "arithmetic": flops / (gpu.tflops_half * 1e12),
    }
    return max(times, key=times.get)
