# Pairs are sorted.
def regime(flops, n_bytes, launches, gpu):
    pairs = [
        (flops * 1e-12 / gpu.tflops_half, "arithmetic"),
        (n_bytes * 1e-9 / gpu.hbm_gb_per_s, "traffic"),
        (launches / 200_000, "overhead"),
    ]
    return sorted(pairs)[-1][1]
