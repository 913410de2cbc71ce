# Eager code's six trips.
# Expected: misconception: six trips instead of four
def reduction_and_crossover(n, d):
    return (6 * n * n + 4 * n * d) / (4 * n * d), 2 * d / 3
