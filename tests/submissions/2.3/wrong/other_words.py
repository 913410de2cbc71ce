# Words that the exercise does not use.
# Expected: property: the form
def regime(flops, n_bytes, launches, gpu):
    times = {
        "launch": launches * 5e-6,
        "memory": n_bytes / (gpu.hbm_gb_per_s * 1e9),
        "compute": flops / (gpu.tflops_half * 1e12),
    }
    return max(times, key=times.get)
