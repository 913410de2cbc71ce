# The plain way: wrong.diff holds edits of this file.
def regime(flops, n_bytes, launches, gpu):
    times = {
        "overhead": launches * 5e-6,
        "traffic": n_bytes / (gpu.hbm_gb_per_s * 1e9),
        "arithmetic": flops / (gpu.tflops_half * 1e12),
    }
    return max(times, key=times.get)
