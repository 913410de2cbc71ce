# The share that is saved, not the factor.
# Expected: misconception: the share that is saved
def reduction_and_crossover(n, d):
    naive, least = 4 * n * n + 4 * n * d, 4 * n * d
    return 1 - least / naive, d
