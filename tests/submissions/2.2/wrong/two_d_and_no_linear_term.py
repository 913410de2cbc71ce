# As printed in public lessons.
# Expected: misconception: N > 2d, and the linear term is forgotten
def reduction_and_crossover(n, d):
    return n / d, 2 * d
