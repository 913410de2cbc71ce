# The ridge of the roofline decides, and then the launches.
def regime(flops, n_bytes, launches, gpu):
    ridge = gpu.tflops_half * 1e12 / (gpu.hbm_gb_per_s * 1e9)
    if flops / n_bytes > ridge:
        name, seconds = "arithmetic", flops / (gpu.tflops_half * 1e12)
    else:
        name, seconds = "traffic", n_bytes / (gpu.hbm_gb_per_s * 1e9)
    return name if seconds > 5e-6 * launches else "overhead"
