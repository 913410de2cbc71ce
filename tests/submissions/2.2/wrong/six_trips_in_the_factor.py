# Six trips in the factor, four in the crossover.
# Expected: misconception: six trips instead of four
def reduction_and_crossover(n, d):
    return 1.5 * n / d + 1, d
