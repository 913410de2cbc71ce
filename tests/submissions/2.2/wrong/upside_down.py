# Least over naive.
# Expected: misconception: the factor is upside down
def reduction_and_crossover(n, d):
    return (4 * n * d) / (4 * n * n + 4 * n * d), d
