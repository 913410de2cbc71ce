# 2**30 bytes, where the GPU's figure counts 1e9.
# Expected: misconception: GiB instead of GB
def regime(flops, n_bytes, launches, gpu):
    times = {
        "overhead": launches * 5e-6,
        "traffic": n_bytes / (gpu.hbm_gb_per_s * 2**30),
        "arithmetic": flops / (gpu.tflops_half * 1e12),
    }
    return max(times, key=times.get)
