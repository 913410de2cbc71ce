# The H100's figures are written in.
# Expected: misconception: the gpu makes no difference
def regime(flops, n_bytes, launches, gpu):
    times = {
        "overhead": launches * 5e-6,
        "traffic": n_bytes / (3350 * 1e9),
        "arithmetic": flops / (989 * 1e12),
    }
    return max(times, key=times.get)
