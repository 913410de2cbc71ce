# Elements on one side, bytes on the other.
# Expected: misconception: N > 2d
def reduction_and_crossover(n, d):
    naive = 4 * n * n + 4 * n * d
    return naive / (4 * n * d), 2 * d
