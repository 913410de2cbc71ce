# The crossover first.
# Expected: misconception: the two values are exchanged
def reduction_and_crossover(n, d):
    return d, n / d + 1
