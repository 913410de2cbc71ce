# // of both sums.
# Expected: misconception: whole division
def reduction_and_crossover(n, d):
    return (4 * n * n + 4 * n * d) // (4 * n * d), d
