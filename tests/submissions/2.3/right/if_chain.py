# Two comparisons each.
LAUNCH = 5e-6


def regime(flops, n_bytes, launches, gpu):
    a = launches * LAUNCH
    b = n_bytes / gpu.hbm_gb_per_s / 1e9
    c = flops / gpu.tflops_half / 1e12
    if a >= b and a >= c:
        return "overhead"
    if b >= c:
        return "traffic"
    return "arithmetic"
