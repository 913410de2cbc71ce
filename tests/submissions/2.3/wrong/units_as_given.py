# GB and TFLOP are not brought to one unit.
# Expected: misconception: the units do not match
def regime(flops, n_bytes, launches, gpu):
    times = {
        "overhead": launches * 5e-6,
        "traffic": n_bytes / gpu.hbm_gb_per_s,
        "arithmetic": flops / gpu.tflops_half,
    }
    return max(times, key=times.get)
