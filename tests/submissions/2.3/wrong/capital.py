# A capital letter.
# Expected: property: the form
def regime(flops, n_bytes, launches, gpu):
    times = {
        "overhead": launches * 5e-6,
        "traffic": n_bytes / (gpu.hbm_gb_per_s * 1e9),
        "arithmetic": flops / (gpu.tflops_half * 1e12),
    }
    return max(times, key=times.get).title()
