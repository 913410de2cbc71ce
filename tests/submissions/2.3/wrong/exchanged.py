# Traffic and arithmetic change places.
# Expected: misconception: traffic and arithmetic are exchanged
def regime(flops, n_bytes, launches, gpu):
    times = {
        "overhead": launches * 5e-6,
        "traffic": flops / (gpu.tflops_half * 1e12),
        "arithmetic": n_bytes / (gpu.hbm_gb_per_s * 1e9),
    }
    return max(times, key=times.get)
