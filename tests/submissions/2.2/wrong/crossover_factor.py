# The factor at the crossover, not the N.
# Expected: misconception: the crossover is an N
def reduction_and_crossover(n, d):
    return n / d + 1, 2
