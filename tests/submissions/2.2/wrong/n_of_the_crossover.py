# n, not d.
# Expected: misconception: the crossover is n
def reduction_and_crossover(n, d):
    return n / d + 1, n
