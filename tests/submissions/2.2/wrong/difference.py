# How many bytes fewer, not how many times.
# Expected: property: the answer
def reduction_and_crossover(n, d):
    naive, least = 8 * n * n + 8 * n * d, 8 * n * d
    return naive - least, d
